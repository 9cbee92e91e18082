/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "layers/copy.h"
#include "layers/filemeta.h"

#define HEADER "cordon-identities 1\n"
#define FILE_MAX_BYTES ((size_t)512 << 20)
#define HASH_START 0xcbf29ce484222325u /* FNV-1a */

/* ---- what a path is now ------------------------------------------------------------------------------------------------------- */

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
	for (int i = 0; i < 8; i++, value >>= 8)
		hash = (hash ^ (value & 0xff)) * 0x100000001b3u;
	return hash;
}

/* A walk from the seed down to the directory that holds the path's last component. */
struct descent {
	dev_t seed_dev;
	int at; /* O_PATH, the directory reached */
	uint64_t parents;
	uint64_t sought;  /* a hash, */
	bool met;         /* and whether the directories down to some point had it */
	const char *rest; /* what is left of the path; no slash in it: the last component */
};

static uint64_t relative_dev(const struct descent *d, dev_t dev)
{
	return dev == d->seed_dev ? 0 : (uint64_t)dev;
}

/* Takes the directory over. */
static int arrive(struct descent *d, int fd)
{
	struct stat st;
	cleanup_fd(&d->at);
	d->at = fd;
	if (fstat(fd, &st) < 0)
		return -1;
	if (d->parents == HASH_START)
		d->seed_dev = st.st_dev;
	d->parents = hash_add(hash_add(d->parents, relative_dev(d, st.st_dev)), (uint64_t)st.st_ino);
	d->met = d->met || d->parents == d->sought;
	return 0;
}

/* What stands where a directory was sought: nothing, a file, a link. */
static bool no_directory(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* 1: arrived at the last component, 0: there is no such directory, -1: failed. */
static int go_down(struct descent *d)
{
	for (;;) {
		char name[NAME_MAX + 1];
		size_t n = strcspn(d->rest, "/");
		if (!d->rest[n])
			return 1;
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, d->rest, n);
		name[n] = '\0';
		int next = fs_open(d->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, FS_BENEATH);
		if (next < 0)
			return no_directory(errno) ? 0 : -1;
		if (arrive(d, next) < 0)
			return -1;
		d->rest += n + 1;
	}
}

/* See the header about directories. */
static void describe(const struct descent *d, const struct stat *st, struct identity *out)
{
	bool dir = S_ISDIR(st->st_mode);
	out->dev = relative_dev(d, st->st_dev);
	out->ino = (uint64_t)st->st_ino;
	out->type = st->st_mode & S_IFMT;
	out->size =
		dir ? hash_add(hash_add(HASH_START, st->st_mode & 07777), (uint64_t)st->st_uid << 32 | st->st_gid) : (uint64_t)st->st_size;
	out->ctime_ns = dir ? 0 : timespec_ns(st->st_ctim);
}

/* *st is all zero for what is absent. */
static int look(int seed, const char *path, struct descent *d, struct stat *st, struct identity *out, struct cordon_error *err)
{
	*out = (struct identity){.known = true};
	*st = (struct stat){0};
	d->rest = path;
	d->parents = HASH_START;
	int top = fs_open(seed, ".", O_PATH | O_DIRECTORY, 0, FS_BENEATH);
	if (top < 0 || arrive(d, top) < 0)
		return err_sys(err, "cannot open the directory of %s", path);
	int r = go_down(d);
	if (r > 0 && fstatat(d->at, d->rest, st, AT_SYMLINK_NOFOLLOW) < 0) {
		*st = (struct stat){0};
		r = no_directory(errno) ? 0 : -1;
	}
	if (r < 0)
		return err_sys(err, "cannot look at %s", path);
	out->absent = r == 0;
	out->parents = d->parents;
	if (r > 0)
		describe(d, st, out);
	return 0;
}

int identity_now(int seed, const char *path, struct identity *out, struct cordon_error *err)
{
	struct descent d = {.at = -1};
	struct stat st;
	int r = look(seed, path, &d, &st, out, err);
	cleanup_fd(&d.at);
	return r;
}

bool identity_equal(const struct identity *a, const struct identity *b)
{
	if (!a->known || !b->known || a->raced || b->raced || a->absent != b->absent || a->parents != b->parents)
		return false;
	return a->absent ||
	       (a->dev == b->dev && a->ino == b->ino && a->type == b->type && a->size == b->size && a->ctime_ns == b->ctime_ns);
}

int identity_check(int seed, const char *path, const struct identity *expected, struct identity *now, bool *same, struct cordon_error *err)
{
	struct descent d = {.at = -1, .sought = expected->parents};
	struct stat st;
	int r = look(seed, path, &d, &st, now, err);
	cleanup_fd(&d.at);
	*same = identity_equal(expected, now) || (expected->known && expected->absent && now->absent && d.met);
	return r;
}

/* ---- maps --------------------------------------------------------------------------------------------------------------------- */

struct identity_entry {
	char *path; /* NULL: free */
	struct identity id;
};

struct identities {
	struct identity_entry *entries; /* open addressing; room is a power of two */
	size_t count, room;
};

int identities_new(struct identities **out, struct cordon_error *err)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

void identities_free(struct identities *i)
{
	if (!i)
		return;
	for (size_t k = 0; k < i->room; k++)
		free(i->entries[k].path);
	free(i->entries);
	free(i);
}

/* The path's slot, or the free one where it would be. */
static struct identity_entry *slot(struct identity_entry *entries, size_t room, const char *path)
{
	uint64_t hash = HASH_START;
	for (const char *p = path; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
	for (size_t k = (size_t)hash;; k++) {
		struct identity_entry *e = &entries[k & (room - 1)];
		if (!e->path || strcmp(e->path, path) == 0)
			return e;
	}
}

struct identity identities_get(const struct identities *i, const char *path)
{
	const struct identity_entry *e = i->room ? slot(i->entries, i->room, path) : NULL;
	return e && e->path ? e->id : (struct identity){0};
}

static bool grow(struct identities *i)
{
	size_t room = i->room ? i->room * 2 : 64;
	if (i->count * 4 < i->room * 3)
		return true;
	struct identity_entry *entries = calloc(room, sizeof(*entries));
	if (!entries)
		return false;
	for (size_t k = 0; k < i->room; k++)
		if (i->entries[k].path)
			*slot(entries, room, i->entries[k].path) = i->entries[k];
	free(i->entries);
	i->entries = entries;
	i->room = room;
	return true;
}

int identities_put(struct identities *i, const char *path, const struct identity *id, struct cordon_error *err)
{
	if (!grow(i))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	struct identity_entry *e = slot(i->entries, i->room, path);
	if (!e->path) {
		e->path = strdup(path);
		if (!e->path)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		i->count++;
	}
	e->id = *id;
	return 0;
}

/* ---- as a file ---------------------------------------------------------------------------------------------------------------- */

static void format_line(struct buf *out, const struct identity_entry *e)
{
	const struct identity *id = &e->id;
	if (id->raced)
		buf_add_str(out, "!");
	else if (id->absent)
		buf_addf(out, "-:%" PRIx64, id->parents);
	else
		buf_addf(out, "%" PRIx64 ":%" PRIx64 ":%" PRIx32 ":%" PRIx64 ":%" PRIx64 ":%" PRIx64, id->dev, id->ino, id->type, id->size,
		         (uint64_t)id->ctime_ns, id->parents);
	buf_add_str(out, " ");
	path_encode(out, e->path);
	buf_add_str(out, "\n");
}

/* The identity at the beginning of a line; false: damaged. */
static bool parse_id(const char *s, struct identity *out)
{
	uint64_t ctime;
	int end = 0;
	*out = (struct identity){.known = true};
	if (strcmp(s, "!") == 0) {
		out->raced = true;
		return true;
	}
	if (s[0] == '-') {
		out->absent = true;
		return sscanf(s, "-:%" SCNx64 "%n", &out->parents, &end) == 1 && !s[end];
	}
	if (sscanf(s, "%" SCNx64 ":%" SCNx64 ":%" SCNx32 ":%" SCNx64 ":%" SCNx64 ":%" SCNx64 "%n", &out->dev, &out->ino, &out->type,
	           &out->size, &ctime, &out->parents, &end) != 6)
		return false;
	out->ctime_ns = (int64_t)ctime;
	return !s[end];
}

/* A line without its end; it is written to. */
static int parse_line(struct identities *i, char *line, struct cordon_error *err)
{
	struct identity id;
	char *blank = strchr(line, ' ');
	if (!blank)
		return err_set(err, CORDON_ERR_INPUT, "damaged");
	*blank = '\0';
	_cleanup_free_ char *path = path_decode(blank + 1, strlen(blank + 1));
	if (!path || !*path || !parse_id(line, &id))
		return err_set(err, CORDON_ERR_INPUT, "damaged");
	return identities_put(i, path, &id, err);
}

static int parse_file(struct identities *i, char *text, size_t len, struct cordon_error *err)
{
	if (strlen(text) != len || strncmp(text, HEADER, strlen(HEADER)) != 0)
		return err_set(err, CORDON_ERR_INPUT, "damaged, or of another version");
	for (char *line = text + strlen(HEADER); *line;) {
		char *end = strchr(line, '\n');
		if (!end)
			return err_set(err, CORDON_ERR_INPUT, "damaged");
		*end = '\0';
		if (parse_line(i, line, err) < 0)
			return -1;
		line = end + 1;
	}
	return 0;
}

/* 0 and an empty buffer if there is no such file. */
static int read_whole(int dir, const char *name, struct buf *out, struct cordon_error *err)
{
	_cleanup_fd_ int fd = fs_open(dir, name, O_RDONLY | O_NOFOLLOW, 0, FS_BENEATH);
	out->cap = FILE_MAX_BYTES;
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot open %s", name);
	for (;;) {
		char *room = buf_reserve(out, 65536);
		ssize_t n = room ? read(fd, room, 65536) : -1;
		if (!room)
			return err_set(err, CORDON_ERR_INPUT, "%s is too large", name);
		if (n < 0)
			return err_sys(err, "cannot read %s", name);
		if (n == 0)
			return 0;
		out->len += (size_t)n;
	}
}

int identities_merge(struct identities *i, int dir, const char *name, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	if (read_whole(dir, name, &text, err) < 0)
		return -1;
	return text.data && parse_file(i, text.data, text.len, err) < 0 ? err_wrap(err, "%s", name) : 0;
}

int identities_merge_from(struct identities *i, const struct identities *from, struct cordon_error *err)
{
	for (size_t k = 0; k < from->room; k++)
		if (from->entries[k].path && identities_put(i, from->entries[k].path, &from->entries[k].id, err) < 0)
			return -1;
	return 0;
}

int identities_load(int dir, const char *name, struct identities **out, struct cordon_error *err)
{
	if (identities_new(out, err) < 0)
		return -1;
	if (identities_merge(*out, dir, name, err) < 0) {
		identities_free(*out);
		*out = NULL;
		return -1;
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp((*(const struct identity_entry *const *)a)->path, (*(const struct identity_entry *const *)b)->path);
}

static int format_file(const struct identities *i, struct buf *out, struct cordon_error *err)
{
	_cleanup_free_ const struct identity_entry **sorted = malloc((i->count + 1) * sizeof(*sorted));
	size_t n = 0;
	if (!sorted)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	for (size_t k = 0; k < i->room; k++)
		if (i->entries[k].path && i->entries[k].id.known)
			sorted[n++] = &i->entries[k];
	qsort(sorted, n, sizeof(*sorted), by_path);
	out->cap = FILE_MAX_BYTES;
	buf_add_str(out, HEADER);
	for (size_t k = 0; k < n; k++)
		format_line(out, sorted[k]);
	return out->failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

uint64_t identities_bytes(const struct identities *i)
{
	uint64_t bytes = 0;
	for (size_t k = 0; k < i->room; k++)
		bytes += i->entries[k].path ? IDENTITY_BYTES + 3 * strlen(i->entries[k].path) : 0;
	return bytes;
}

int identities_save(const struct identities *i, int dir, const char *name, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	return format_file(i, &text, err) < 0 ? -1 : write_synced(dir, name, text.data, text.len, err);
}

/* ---- at seal ------------------------------------------------------------------------------------------------------------------ */

static int record_all(struct identities *all, int seed, const struct changes *changes, int64_t birth_ns, struct cordon_error *err)
{
	for (size_t i = 0; i < changes->count; i++) {
		struct descent d = {.at = -1};
		struct identity id;
		struct stat st;
		int r = look(seed, changes->items[i].path, &d, &st, &id, err);
		cleanup_fd(&d.at);
		id.raced = !id.absent && timespec_ns(st.st_ctim) > birth_ns;
		if (r < 0 || identities_put(all, changes->items[i].path, &id, err) < 0)
			return -1;
	}
	return 0;
}

/* Not by rename: until the layer is sealed, which comes after this, nobody reads it; and each sync counts in the time of an exec. */
static int write_base(int layer_dir, const struct buf *text, struct cordon_error *err)
{
	unlinkat(layer_dir, "base", 0);
	if (fs_write_file(layer_dir, "base", text->data, text->len, 0600, err) < 0)
		return -1;
	_cleanup_fd_ int fd = openat(layer_dir, "base", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? err_sys(err, "cannot write base to disk") : 0;
}

int identities_record(int layer_dir, int seed, const struct changes *changes, int64_t birth_ns, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	struct identities *all;
	if (identities_new(&all, err) < 0)
		return -1;
	int r = record_all(all, seed, changes, birth_ns, err);
	if (r == 0)
		r = format_file(all, &text, err);
	identities_free(all);
	return r < 0 ? -1 : write_base(layer_dir, &text, err);
}
