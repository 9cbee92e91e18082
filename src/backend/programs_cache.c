/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of programs.h: one file per directory, a checksum in front. Whoever can write it owns the sandbox's limits anyway; the checksum and the bounds of
 * the reader are there for what a full disk or a crash leaves. What does not fit is made again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/image_root.h"
#include "backend/programs.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/id.h"
#include "base/sha256.h"
#include "base/util.h"
#include "sandbox/wire.h"

#define VERSION "cordon-programs 1"
#define CACHE_MAX ((size_t)48 << 20)
#define COUNT_MAX (1u << 22)

/* Against accidents, and quick: the file is read at each start. Words of eight bytes, mixed as in FNV-1a; what is left over by itself. */
static uint64_t checksum(const char *data, size_t len)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ len, word;

	for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, data, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
		sum ^= sum >> 29;
	}
	for (; len > 0; len--)
		sum = (sum ^ (unsigned char)*data++) * UINT64_C(0x100000001b3);
	return sum;
}

/* ---- its form ----------------------------------------------------------------------------------------------------------------- */

static void encode(const char *version, const char *root, const struct programs *p, const struct programs_dirs *dirs, struct buf *out)
{
	uint64_t sum = 0;

	buf_add(out, &sum, sizeof(sum));
	wire_put_str(out, version);
	wire_put_str(out, root);
	wire_put_u32(out, (uint32_t)dirs->count);
	for (size_t i = 0; i < dirs->count; i++) {
		const struct programs_dir *d = &dirs->items[i];
		const uint64_t numbers[] = {
			d->dev, d->ino, (uint64_t)d->mtime, (uint64_t)d->mtime_nsec, (uint64_t)d->ctime, (uint64_t)d->ctime_nsec};
		wire_put_str(out, d->path);
		for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
			wire_put_u64(out, numbers[k]);
	}
	wire_put_u32(out, (uint32_t)p->count);
	for (size_t i = 0; i < p->count; i++) {
		wire_put_str(out, p->items[i].path);
		wire_put_u64(out, p->items[i].dev);
		wire_put_u64(out, p->items[i].ino);
		wire_put_u32(out, p->items[i].kind);
	}
	wire_put_u32(out, (uint32_t)p->loaders.count);
	for (size_t i = 0; i < p->loaders.count; i++)
		wire_put_str(out, p->loaders.items[i]);
	if (out->failed)
		return;
	sum = checksum(out->data + sizeof(sum), out->len - sizeof(sum));
	memcpy(out->data, &sum, sizeof(sum));
}

void programs_encode(const char *root, const struct programs *p, const struct programs_dirs *dirs, struct buf *out)
{
	encode(VERSION, root, p, dirs, out);
}

static bool sum_holds(const char *data, size_t len)
{
	uint64_t sum;

	if (len < sizeof(sum))
		return false;
	memcpy(&sum, data, sizeof(sum));
	return sum == checksum(data + sizeof(sum), len - sizeof(sum));
}

static bool text_is(struct wire_reader *r, const char *want)
{
	const char *s = wire_get_str(r);

	return s && strcmp(s, want) == 0;
}

static bool dir_is_unchanged(struct wire_reader *r, const char *root)
{
	const char *path = wire_get_str(r);
	struct programs_dir was = {.dev = wire_get_u64(r), .ino = wire_get_u64(r)};
	struct stat st;

	was.mtime = (int64_t)wire_get_u64(r);
	was.mtime_nsec = (int64_t)wire_get_u64(r);
	was.ctime = (int64_t)wire_get_u64(r);
	was.ctime_nsec = (int64_t)wire_get_u64(r);
	if (r->bad || !path || !fs_path_within(path, root) || lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	const struct programs_dir is = programs_stamp(&st);
	return is.dev == was.dev && is.ino == was.ino && is.mtime == was.mtime && is.mtime_nsec == was.mtime_nsec &&
	       is.ctime == was.ctime && is.ctime_nsec == was.ctime_nsec;
}

static bool get_programs(struct wire_reader *r, const char *root, struct programs *out)
{
	uint32_t n = wire_get_count(r, 2 * sizeof(uint32_t) + 2 * sizeof(uint64_t), COUNT_MAX);

	for (uint32_t i = 0; i < n && !r->bad; i++) {
		const char *path = wire_get_str(r);
		struct program p = {.dev = wire_get_u64(r), .ino = wire_get_u64(r)};
		uint32_t kind = wire_get_u32(r);

		if (r->bad || !path || kind >= PROGRAM_KIND_COUNT || !fs_path_within(path, root))
			return false;
		p.kind = (enum program_kind)kind;
		if (programs_add(out, path, &p, NULL) < 0)
			return false;
	}
	n = wire_get_count(r, sizeof(uint32_t), COUNT_MAX);
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		const char *loader = wire_get_str(r);

		if (!loader || loader[0] != '/' || strlist_add(&out->loaders, loader, NULL) < 0)
			return false;
	}
	return wire_done(r);
}

/* image: no directory was noted, since none of it changes. */
static int decode(const char *version, bool image, const void *data, size_t len, const char *root, struct programs *out)
{
	struct wire_reader r = {.at = (const char *)data + sizeof(uint64_t), .end = (const char *)data + len};
	bool good = sum_holds(data, len) && text_is(&r, version) && text_is(&r, root);
	uint32_t dirs = good ? wire_get_count(&r, sizeof(uint32_t) + 6 * sizeof(uint64_t), COUNT_MAX) : 0;

	for (uint32_t i = 0; i < dirs && good; i++)
		good = dir_is_unchanged(&r, root);
	if (good && (dirs > 0 || image) && get_programs(&r, root, out))
		return 1;
	programs_free(out);
	return 0;
}

int programs_decode(const void *data, size_t len, const char *root, struct programs *out)
{
	return decode(VERSION, false, data, len, root, out);
}

/* ---- its file ----------------------------------------------------------------------------------------------------------------- */

static int open_cache(const char *home)
{
	_cleanup_fd_ int fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || (mkdirat(fd, "cache", 0700) < 0 && errno != EEXIST))
		return -1;
	return fs_open(fd, "cache", O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
}

static void name_of(const char *root, char name[64])
{
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX];
	struct sha256 hash;

	sha256_begin(&hash);
	sha256_add(&hash, root, strlen(root));
	sha256_end(&hash, digest);
	sha256_hex(digest, hex);
	snprintf(name, 64, "programs-%.32s", hex);
}

static int read_cache(int dir, const char *name, const char *version, bool image, const char *root, struct programs *out)
{
	struct stat st;
	_cleanup_buf_ struct buf text = {.cap = CACHE_MAX};
	_cleanup_fd_ int fd = fs_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, FS_BENEATH);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || (size_t)st.st_size > CACHE_MAX)
		return 0;
	char *to = buf_reserve(&text, (size_t)st.st_size);
	for (size_t n = (size_t)st.st_size; to && text.len < n;) {
		ssize_t got = read(fd, to + text.len, n - text.len);
		if (got <= 0)
			return 0;
		text.len += (size_t)got;
	}
	return to ? decode(version, image, text.data, text.len, root, out) : 0;
}

/* Under another name first: others read while we write, and the disk may be full. */
static void write_cache(int dir, const char *name, const struct buf *text)
{
	char id[ID_LEN + 1], other[128];

	id_new(id);
	snprintf(other, sizeof(other), ".%s.%s", name, id);
	if (text->failed || fs_write_file(dir, other, text->data, text->len, 0600, NULL) < 0 || renameat(dir, other, dir, name) < 0)
		unlinkat(dir, other, 0);
}

int programs_find(const char *home, const char *root, struct programs *out, struct cordon_error *err)
{
	_cleanup_fd_ int cache = open_cache(home);
	_cleanup_buf_ struct buf text = {.cap = CACHE_MAX};
	struct programs_dirs dirs = {0};
	char name[64];
	int r;

	*out = (struct programs){0};
	name_of(root, name);
	if (cache >= 0 && read_cache(cache, name, VERSION, false, root, out))
		return 0;
	r = programs_scan(root, out, &dirs, err);
	if (r == 0 && cache >= 0) {
		programs_encode(root, out, &dirs, &text);
		write_cache(cache, name, &text);
	}
	programs_free_dirs(&dirs);
	if (r < 0)
		programs_free(out);
	return r;
}

int programs_find_image(const char *home, const struct image_root *image, const char *root, struct programs *out, struct cordon_error *err)
{
	static const struct programs_dirs none;
	_cleanup_fd_ int cache = open_cache(home);
	_cleanup_buf_ struct buf text = {.cap = CACHE_MAX};
	char name[64], key[PATH_MAX + DIGEST_LEN + 32], version[DIGEST_LEN + 64];

	*out = (struct programs){0};
	snprintf(version, sizeof(version), VERSION " of image %s", image->image.id);
	snprintf(key, sizeof(key), "%s %s", version, root);
	name_of(key, name);
	if (cache >= 0 && read_cache(cache, name, version, true, root, out))
		return 0;
	if (programs_scan_image(image, root, out, err) < 0) {
		programs_free(out);
		return -1;
	}
	if (cache >= 0) {
		encode(version, root, out, &none, &text);
		write_cache(cache, name, &text);
	}
	return 0;
}
