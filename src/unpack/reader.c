/* SPDX-License-Identifier: Apache-2.0 */
/* libarchive over a source: only to read, and only formats and filters that need no other program. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "unpack/source.h"

static la_ssize_t on_read(struct archive *a, void *arg, const void **block)
{
	struct reader *r = arg;
	const ssize_t n = source_next(r->from, block, &r->fault);
	if (n < 0) {
		archive_set_error(a, EIO, "%s", r->fault.message);
		return ARCHIVE_FATAL;
	}
	r->idle += (uint64_t)n;
	if (r->limited && r->idle > SOURCE_IDLE_MAX) {
		err_set(&r->fault, CORDON_ERR_INPUT, "the archive goes on for long without a file in it");
		archive_set_error(a, EIO, "%s", r->fault.message);
		return ARCHIVE_FATAL;
	}
	return n;
}

static la_int64_t on_skip(struct archive *a, void *arg, la_int64_t len)
{
	struct reader *r = arg;
	return r->from->skip && !r->from->hashed ? r->from->skip(r->from, len) : 0;
}

static int support_tar(struct archive *a)
{
	return archive_read_support_format_tar(a);
}

/* The empty file is one, too: what reads on finds that it is no tar archive. */
static int support_raw(struct archive *a)
{
	static int (*const filters[])(struct archive *) = {
		archive_read_support_filter_gzip,  archive_read_support_filter_zstd,     archive_read_support_filter_xz,
		archive_read_support_filter_bzip2, archive_read_support_filter_lzma,     archive_read_support_filter_lz4,
		archive_read_support_filter_lzip,  archive_read_support_filter_compress,
	};
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		filters[i](a); /* without its library it would start a program, which cannot be done here: then that archive is an error */
	archive_read_support_format_empty(a);
	return archive_read_support_format_raw(a);
}

int reader_open(struct reader *r, enum reader_format format, struct source *from, struct cordon_error *err)
{
	static int (*const formats[])(struct archive *) = {[READ_TAR] = support_tar, [READ_RAW] = support_raw};
	*r = (struct reader){.from = from};
	if (!from)
		return -1;
	r->archive = archive_read_new();
	if (!r->archive)
		return err_sys(err, "cannot read the archive");
	if (formats[format](r->archive) < ARCHIVE_WARN || archive_read_set_read_callback(r->archive, on_read) != ARCHIVE_OK ||
	    archive_read_set_skip_callback(r->archive, on_skip) != ARCHIVE_OK ||
	    archive_read_set_callback_data(r->archive, r) != ARCHIVE_OK || archive_read_open1(r->archive) < ARCHIVE_WARN)
		return reader_failed(r, err);
	return 0;
}

void reader_close(struct reader *r)
{
	if (r->archive)
		archive_read_free(r->archive);
	r->archive = NULL;
}

int reader_failed(const struct reader *r, struct cordon_error *err)
{
	const char *why = archive_error_string(r->archive);
	if (r->fault.code != CORDON_OK && err)
		*err = r->fault;
	else if (archive_errno(r->archive) == ENOMEM)
		err_set(err, CORDON_ERR_INPUT, "the archive needs more memory to be read than it is given");
	else
		err_set(err, CORDON_ERR_INPUT, "the archive is damaged: %s", why ? why : "it cannot be read");
	return -1;
}

int reader_next(struct reader *r, struct archive_entry **entry, struct cordon_error *err)
{
	const int result = archive_read_next_header(r->archive, entry);
	if (result == ARCHIVE_OK || result == ARCHIVE_WARN)
		return 1;
	return result == ARCHIVE_EOF ? 0 : reader_failed(r, err);
}
