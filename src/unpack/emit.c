/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/emit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"

#define PROGRESS_EVERY ((uint64_t)1 << 20)
#define NAME_SHOWN 200
#define WHITEOUT ".wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"
#define WHITEOUT_META ".wh..wh." /* aufs' own files: nobody wants them */

void emit_free(struct emit *e)
{
	buf_free(&e->body);
}

static int send(struct emit *e, enum stream_kind kind, const void *body, size_t len, struct cordon_error *err)
{
	return stream_send(e->fd, kind, body, len) == 0 ? 0 : err_sys(err, "cannot say what is in the archive");
}

static int send_body(struct emit *e, enum stream_kind kind, struct cordon_error *err)
{
	if (e->body.failed)
		return err_sys(err, "cannot say what is in the archive");
	return send(e, kind, e->body.data, e->body.len, err);
}

static int tell_progress(struct emit *e, struct cordon_error *err)
{
	const struct stream_progress p = {.done = e->before + (e->meter ? e->meter->count : 0), .total = e->total};
	if (p.done - e->told < PROGRESS_EVERY)
		return 0;
	e->told = p.done;
	e->body.len = 0;
	stream_put_progress(&e->body, &p);
	return send_body(e, STREAM_PROGRESS, err);
}

int emit_begin(struct emit *e, const struct stream_begin *b, struct cordon_error *err)
{
	e->body.len = 0;
	stream_put_begin(&e->body, b);
	return send_body(e, STREAM_BEGIN, err);
}

int emit_layer(struct emit *e, enum stream_kind kind, const char *digest, struct cordon_error *err)
{
	e->body.len = 0;
	stream_put_layer(&e->body, digest);
	return send_body(e, kind, err);
}

int emit_end(struct emit *e, struct cordon_error *err)
{
	const struct stream_progress p = {.done = e->total, .total = e->total};
	e->body.len = 0;
	stream_put_progress(&e->body, &p);
	if (send_body(e, STREAM_PROGRESS, err) < 0)
		return -1;
	return send(e, STREAM_END, NULL, 0, err);
}

void emit_error(struct emit *e, const struct cordon_error *err)
{
	e->body.len = 0;
	stream_put_error(&e->body, err);
	if (!e->body.failed)
		stream_send(e->fd, STREAM_ERROR, e->body.data, e->body.len);
}

/* ---- contents ----------------------------------------------------------------------------------------------------------------- */

static int send_data(struct emit *e, const char *data, size_t len, struct cordon_error *err)
{
	for (size_t n; len > 0; data += n, len -= n) {
		n = MIN(len, (size_t)STREAM_BODY_MAX);
		if (send(e, STREAM_DATA, data, n, err) < 0)
			return -1;
	}
	return 0;
}

static int send_hole(struct emit *e, uint64_t len, struct cordon_error *err)
{
	e->body.len = 0;
	stream_put_u64(&e->body, len);
	return send_body(e, STREAM_HOLE, err);
}

/* What a sparse file has, it has in order; what is missing is a hole. Of other files nothing is missing: libarchive would have said so. */
static int send_contents(struct emit *e, struct reader *r, uint64_t size, struct cordon_error *err)
{
	uint64_t at = 0;
	for (;;) {
		const void *block;
		la_int64_t offset = 0;
		size_t len = 0;
		const int result = archive_read_data_block(r->archive, &block, &len, &offset);
		if (result == ARCHIVE_EOF)
			break;
		if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
			return reader_failed(r, err);
		r->idle = 0;
		if (len == 0)
			continue;
		if (offset < 0 || (uint64_t)offset < at || (uint64_t)offset > size || len > size - (uint64_t)offset)
			return err_set(err, CORDON_ERR_INPUT, "the archive is damaged: a file has more contents than it says");
		if ((uint64_t)offset > at && send_hole(e, (uint64_t)offset - at, err) < 0)
			return -1;
		if (send_data(e, block, len, err) < 0 || tell_progress(e, err) < 0)
			return -1;
		at = (uint64_t)offset + len;
	}
	return at < size ? send_hole(e, size - at, err) : 0;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

/* The name as it is, or, if it cannot be had in this locale, in UTF-8. NULL: there is none. */
static const char *either(const char *name, const char *utf8)
{
	return name ? name : utf8;
}

/* Takes ".wh." out of the last name of a path. path is changed. */
static int take_whiteout(char *path, struct stream_entry *s, struct cordon_error *err)
{
	size_t len = strlen(path);
	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	if (strncmp(base, WHITEOUT, strlen(WHITEOUT)) != 0)
		return 0;
	s->link = NULL;
	if (strcmp(base, WHITEOUT_OPAQUE) == 0) {
		s->type = ENTRY_OPAQUE;
		*base = '\0';
		return 0;
	}
	if (strncmp(base, WHITEOUT_META, strlen(WHITEOUT_META)) == 0) {
		s->type = ENTRY_LEFT_OUT;
		return 0;
	}
	const char *gone = base + strlen(WHITEOUT);
	if (!*gone || strcmp(gone, ".") == 0 || strcmp(gone, "..") == 0)
		return err_set(err, CORDON_ERR_INPUT, "the archive deletes what is no file: %.*s", NAME_SHOWN, path);
	s->type = ENTRY_WHITEOUT;
	memmove(base, gone, strlen(gone) + 1);
	return 0;
}

static enum entry_type type_of(struct archive_entry *entry)
{
	switch (archive_entry_filetype(entry)) {
	case AE_IFREG:
		return ENTRY_FILE;
	case AE_IFDIR:
		return ENTRY_DIR;
	case AE_IFLNK:
		return ENTRY_SYMLINK;
	default:
		return ENTRY_LEFT_OUT;
	}
}

static int describe(const struct emit *e, struct archive_entry *entry, char *path, struct stream_entry *s, struct cordon_error *err)
{
	const char *hard = either(archive_entry_hardlink(entry), archive_entry_hardlink_utf8(entry));
	*s = (struct stream_entry){.type = hard ? ENTRY_HARDLINK : type_of(entry),
	                           .path = path,
	                           .mode = (uint32_t)archive_entry_perm(entry),
	                           .uid = (uint64_t)archive_entry_uid(entry),
	                           .gid = (uint64_t)archive_entry_gid(entry),
	                           .mtime = archive_entry_mtime(entry),
	                           .mtime_ns = (uint32_t)archive_entry_mtime_nsec(entry)};
	if (s->type == ENTRY_HARDLINK)
		s->link = hard;
	if (s->type == ENTRY_SYMLINK) {
		s->link = either(archive_entry_symlink(entry), archive_entry_symlink_utf8(entry));
		if (!s->link)
			return err_set(err, CORDON_ERR_INPUT, "the archive has a link that leads nowhere: %.*s", NAME_SHOWN, path);
	}
	if (e->whiteouts && take_whiteout(path, s, err) < 0)
		return -1;
	if (s->type != ENTRY_FILE)
		return 0;
	if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0)
		return err_set(err, CORDON_ERR_INPUT, "the archive has a file without a size: %.*s", NAME_SHOWN, path);
	s->size = (uint64_t)archive_entry_size(entry);
	return 0;
}

int emit_entry(struct emit *e, struct reader *r, struct archive_entry *entry, struct cordon_error *err)
{
	struct stream_entry s;
	const char *name = either(archive_entry_pathname(entry), archive_entry_pathname_utf8(entry));
	_cleanup_free_ char *path = strdup(name ? name : "");
	r->idle = 0;
	if (!path)
		return err_sys(err, "cannot read the archive");
	if (!name)
		return err_set(err, CORDON_ERR_INPUT, "the archive has a file whose name cannot be read");
	if (describe(e, entry, path, &s, err) < 0 || tell_progress(e, err) < 0)
		return -1;
	e->body.len = 0;
	stream_put_entry(&e->body, &s);
	if (e->body.len > STREAM_BODY_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the archive has a name that is too long: %.*s", NAME_SHOWN, path);
	if (send_body(e, STREAM_ENTRY, err) < 0)
		return -1;
	return s.type == ENTRY_FILE && s.size > 0 ? send_contents(e, r, s.size, err) : 0;
}
