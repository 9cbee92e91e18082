/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

void source_free(struct source **s)
{
	if (*s)
		(*s)->free(*s);
	*s = NULL;
}

ssize_t source_next(struct source *s, const void **block, struct cordon_error *err)
{
	const ssize_t n = s->next(s, block, err);
	if (n <= 0)
		return n;
	s->count += (uint64_t)n;
	if (s->most && s->count > s->most)
		return err_set(err, CORDON_ERR_INPUT, "the archive unpacks to more than the %llu bytes that there is room for",
		               (unsigned long long)s->most);
	if (s->hashed)
		sha256_add(&s->hash, *block, (size_t)n);
	return n;
}

void source_hash(struct source *s)
{
	s->hashed = true;
	sha256_begin(&s->hash);
}

int source_end(struct source *s, uint64_t most, char digest[SHA256_HEX], struct cordon_error *err)
{
	unsigned char bytes[SHA256_SIZE];
	const uint64_t before = s->count;
	const void *block;
	ssize_t n;
	while ((n = source_next(s, &block, err)) > 0)
		if (s->count - before > most)
			return err_set(err, CORDON_ERR_INPUT, "the archive goes on long after its end");
	if (n < 0)
		return -1;
	digest[0] = '\0';
	if (s->hashed) {
		sha256_end(&s->hash, bytes);
		sha256_hex(bytes, digest);
	}
	return 0;
}

ssize_t source_read_all(struct source *s, char *to, size_t len, struct cordon_error *err)
{
	const void *block;
	size_t done = 0;
	ssize_t n;
	while ((n = source_next(s, &block, err)) > 0) {
		if ((size_t)n > len - done)
			return err_set(err, CORDON_ERR_INPUT, "larger than it says");
		memcpy(to + done, block, (size_t)n);
		done += (size_t)n;
	}
	return n < 0 ? -1 : (ssize_t)done;
}

/* ---- file --------------------------------------------------------------------------------------------------------------------- */

struct file_source {
	struct source source;
	int fd;
	uint64_t at, end;
	char block[SOURCE_BLOCK];
};

static ssize_t file_next(struct source *s, const void **block, struct cordon_error *err)
{
	struct file_source *f = (struct file_source *)s;
	const size_t len = (size_t)MIN((uint64_t)sizeof(f->block), f->end - f->at);
	ssize_t n;
	do
		n = len ? pread(f->fd, f->block, len, (off_t)f->at) : 0;
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(err, "cannot read the archive");
	f->at += (uint64_t)n;
	*block = f->block;
	return n;
}

static int64_t file_skip(struct source *s, int64_t len)
{
	struct file_source *f = (struct file_source *)s;
	const int64_t n = MIN(len, (int64_t)(f->end - f->at));
	f->at += (uint64_t)n;
	return n;
}

static void file_free(struct source *s)
{
	free(s);
}

struct source *source_file(int fd, uint64_t at, uint64_t end, struct cordon_error *err)
{
	struct file_source *f = malloc(sizeof(*f));
	if (!f) {
		err_sys(err, "cannot read the archive");
		return NULL;
	}
	f->source = (struct source){.next = file_next, .skip = file_skip, .free = file_free};
	f->fd = fd;
	f->at = at;
	f->end = MAX(end, at);
	return &f->source;
}

/* ---- unpacked ----------------------------------------------------------------------------------------------------------------- */

struct reader_source {
	struct source source;
	struct source *under;
	struct reader reader;
	bool begun;
	uint64_t size, at; /* of a member */
};

static void reader_source_free(struct source *s)
{
	struct reader_source *u = (struct reader_source *)s;
	reader_close(&u->reader);
	source_free(&u->under);
	free(u);
}

/* One that owns `under` now, even if it is NULL. */
static struct reader_source *reader_source_new(struct source *under, enum reader_format format, struct cordon_error *err)
{
	struct reader_source *u = calloc(1, sizeof(*u));
	if (!u) {
		source_free(&under);
		err_sys(err, "cannot read the archive");
		return NULL;
	}
	u->under = under;
	u->source.free = reader_source_free;
	if (reader_open(&u->reader, format, under, err) == 0)
		return u;
	reader_source_free(&u->source);
	return NULL;
}

static ssize_t unpacked_next(struct source *s, const void **block, struct cordon_error *err)
{
	struct reader_source *u = (struct reader_source *)s;
	struct archive_entry *entry;
	la_int64_t offset;
	size_t len = 0;
	if (!u->begun) {
		const int r = reader_next(&u->reader, &entry, err);
		if (r <= 0)
			return r;
		u->begun = true;
	}
	for (;;) {
		const int r = archive_read_data_block(u->reader.archive, block, &len, &offset);
		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return reader_failed(&u->reader, err);
		if (len > 0)
			return (ssize_t)len;
	}
}

struct source *source_unpacked(struct source *under, uint64_t most, struct cordon_error *err)
{
	struct reader_source *u = reader_source_new(under, READ_RAW, err);
	if (!u)
		return NULL;
	u->source.next = unpacked_next;
	u->source.most = most;
	return &u->source;
}

bool source_was_packed(const struct source *s)
{
	const struct reader_source *u = (const struct reader_source *)s;
	return u->begun && archive_filter_code(u->reader.archive, 0) != ARCHIVE_FILTER_NONE;
}

/* ---- member ------------------------------------------------------------------------------------------------------------------- */

/* Nobody makes holes in a layer. */
static ssize_t member_next(struct source *s, const void **block, struct cordon_error *err)
{
	struct reader_source *m = (struct reader_source *)s;
	la_int64_t offset = 0;
	size_t len = 0;
	while (len == 0) {
		const int r = archive_read_data_block(m->reader.archive, block, &len, &offset);
		if (r == ARCHIVE_EOF && m->at == m->size)
			return 0;
		if (r != ARCHIVE_EOF && r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return reader_failed(&m->reader, err);
		if (r == ARCHIVE_EOF || (len > 0 && (uint64_t)offset != m->at))
			return err_set(err, CORDON_ERR_INPUT, "a layer in the archive is a sparse file");
	}
	m->at += len;
	return (ssize_t)len;
}

struct source *source_member(struct source *under, uint64_t size, struct cordon_error *err)
{
	struct archive_entry *entry;
	struct reader_source *m = reader_source_new(under, READ_TAR, err);
	if (!m)
		return NULL;
	m->source.next = member_next;
	m->size = size;
	const int r = reader_next(&m->reader, &entry, err);
	if (r > 0 && archive_entry_filetype(entry) == AE_IFREG && archive_entry_size(entry) == (la_int64_t)size)
		return &m->source;
	if (r >= 0)
		err_set(err, CORDON_ERR_INPUT, "the archive changed while it was read");
	reader_source_free(&m->source);
	return NULL;
}

/* ---- skipped ------------------------------------------------------------------------------------------------------------------ */

struct skipped_source {
	struct source source;
	struct source *under;
	uint64_t left;
};

static ssize_t skipped_next(struct source *s, const void **block, struct cordon_error *err)
{
	struct skipped_source *k = (struct skipped_source *)s;
	for (;;) {
		const ssize_t n = source_next(k->under, block, err);
		if (n <= 0)
			return n;
		const uint64_t skip = MIN(k->left, (uint64_t)n);
		k->left -= skip;
		if (skip < (uint64_t)n) {
			*block = (const char *)*block + skip;
			return n - (ssize_t)skip;
		}
	}
}

static void skipped_free(struct source *s)
{
	struct skipped_source *k = (struct skipped_source *)s;
	source_free(&k->under);
	free(k);
}

struct source *source_skipped(struct source *under, uint64_t len, struct cordon_error *err)
{
	struct skipped_source *k = under ? malloc(sizeof(*k)) : NULL;
	if (!k) {
		if (under)
			err_sys(err, "cannot read the archive");
		source_free(&under);
		return NULL;
	}
	*k = (struct skipped_source){.source = {.next = skipped_next, .free = skipped_free}, .under = under, .left = len};
	return &k->source;
}
