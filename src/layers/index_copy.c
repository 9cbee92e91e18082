/* SPDX-License-Identifier: Apache-2.0 */
/* An index that can be trusted, and a copy of its tree. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/copy.h"
#include "layers/filemeta.h"
#include "layers/index.h"

#define BATCH 64 /* files whose pages are on their way to the disk at once */
#define CHUNK ((size_t)128 << 10)
#define TICKS_MAX 25 /* milliseconds; the longest step of the kernel's clock is 10 */

/* ---- settling ------------------------------------------------------------------------------------------------------------------ */

/*
 * Where no page is ever written back, as in tmpfs, or where it is another inode's, as in overlayfs, or where that is not noticed before it happens, as in FUSE, only the
 * contents can tell.
 */
static bool has_to_be_read(int dir)
{
	static const unsigned long kinds[] = {TMPFS_MAGIC, RAMFS_MAGIC, OVERLAYFS_SUPER_MAGIC, FUSE_SUPER_MAGIC};
	struct statfs fs;
	if (fstatfs(dir, &fs) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((unsigned long)fs.f_type == kinds[i])
			return true;
	return false;
}

struct settling {
	struct tree_index *now;
	bool read; /* by contents */
	struct {
		uint32_t entry;
		int fd;
	} batch[BATCH];
	size_t count;
};

/* Writing a page to the disk makes it read-only in every mapping of it: the next write is a fault, which sets the change time. No journal has to be written for that. */
static int write_pages(int fd)
{
	const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
	return sync_file_range(fd, 0, 0, all) == 0 ? 0 : fdatasync(fd);
}

static int settle_batch(struct settling *s, struct cordon_error *err)
{
	int r = 0;
	for (size_t i = 0; i < s->count; i++) {
		struct index_entry *e = &s->now->items[s->batch[i].entry];
		struct stat st;
		if (r == 0 && (write_pages(s->batch[i].fd) < 0 || fstat(s->batch[i].fd, &st) < 0))
			r = err_sys(err, "cannot write %s to the disk", tree_index_name(s->now, s->batch[i].entry));
		if (r == 0) /* some file systems set it only now */
			e->ctime_ns = timespec_ns(st.st_ctim);
		close(s->batch[i].fd);
	}
	s->count = 0;
	return r;
}

/* Only has to differ when the contents do: whoever makes two that do not deceives nobody but himself. */
static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *p = data;
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t word;
		memcpy(&word, p, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	for (; len; p++, len--)
		hash = (hash ^ *p) * 0x100000001b3u;
	return hash;
}

/* Holes are left out: a sparse file can be many terabytes long. */
static int hash_contents(int fd, off_t size, uint64_t *out)
{
	_cleanup_free_ char *chunk = malloc(CHUNK);
	uint64_t hash = mix(0xcbf29ce484222325u, &size, sizeof(size));
	for (off_t at = 0; chunk && at < size;) {
		off_t data = lseek(fd, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		at = data < 0 ? at : data;
		ssize_t n = pread(fd, chunk, CHUNK, at);
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		hash = mix(mix(hash, &at, sizeof(at)), chunk, (size_t)n);
		at += n;
	}
	*out = hash ? hash : 1;
	return chunk ? 0 : -1;
}

static int settle_file(struct settling *s, int dir, uint32_t entry, struct cordon_error *err)
{
	struct index_entry *e = &s->now->items[entry];
	const char *name = tree_index_name(s->now, entry);
	struct stat st;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot read %s", name);
	if (s->read)
		return hash_contents(fd, st.st_size, &e->hash) < 0 ? err_sys(err, "cannot read %s", name) : 0;
	sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a head start */
	s->batch[s->count].entry = entry;
	s->batch[s->count++].fd = steal_fd(&fd);
	return s->count == BATCH ? settle_batch(s, err) : 0;
}

/* An empty file has no pages; and what was settled before and not touched since is settled. */
static bool is_settled(const struct index_entry *e, const struct index_entry *old, bool read, unsigned flags)
{
	if (!S_ISREG(e->mode) || e->size == 0)
		return true;
	if (old && old->hash && read)
		return false;
	return (flags & SETTLE_KNOWN) || (old && index_entry_same(e, old));
}

int tree_index_settle(int dir, struct tree_index *now, const struct tree_index *last, unsigned flags, struct cordon_error *err)
{
	struct settling s = {.now = now, .read = has_to_be_read(dir)};
	_cleanup_walk_ struct index_walk walk;
	_cleanup_free_ uint32_t *match = last ? tree_index_match(now, last) : NULL;
	index_walk_begin(&walk, now, dir);
	if (last && !match)
		return err_sys(err, "cannot list the layer");
	int r = 0;
	for (uint32_t k = 0; r == 0 && k < now->count; k++) {
		const struct index_entry *e = &now->items[k], *old = match && match[k] != INDEX_NONE ? &last->items[match[k]] : NULL;
		if (is_settled(e, old, s.read, flags))
			continue;
		int at = index_walk_to(&walk, e->parent);
		r = at < 0 ? err_sys(err, "cannot open the directory of %s", tree_index_name(now, k)) : settle_file(&s, at, k, err);
	}
	return settle_batch(&s, r < 0 ? NULL : err) < 0 ? -1 : r;
}

void tree_index_await_tick(const struct tree_index *i)
{
	static const struct timespec millisecond = {.tv_nsec = 1000000};
	struct timespec now;
	int64_t last = INT64_MIN;
	for (size_t k = 0; k < i->count; k++)
		last = MAX(last, i->items[k].ctime_ns);
	for (int tries = 0; tries < TICKS_MAX && clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0; tries++) {
		const int64_t ahead = last - timespec_ns(now);
		if (ahead < 0 || ahead > TICKS_MAX * 1000000) /* far in the future: the clock was set back */
			return;
		nanosleep(&millisecond, NULL);
	}
}

/* ---- copying ------------------------------------------------------------------------------------------------------------------- */

struct checkpoint {
	const struct tree_index *now, *last;
	const uint32_t *match; /* of what is now, in last; NULL: nothing can be linked */
	struct index_walk from, to, sealed;
	struct copy_links *links;
	bool *left_out; /* NULL: nothing is */
};

/* False if it has to be copied after all (too many links, say). */
static bool link_sealed(struct checkpoint *c, uint32_t old, int to_dir, const char *name)
{
	int dir = c->sealed.top < 0 ? -1 : index_walk_to(&c->sealed, c->last->items[old].parent);
	return dir >= 0 && linkat(dir, name, to_dir, name, 0) == 0;
}

static int checkpoint_entry(struct checkpoint *c, uint32_t entry, struct cordon_error *err)
{
	const struct index_entry *e = &c->now->items[entry];
	const char *name = tree_index_name(c->now, entry);
	const uint32_t old = c->match ? c->match[entry] : INDEX_NONE;
	const int to = index_walk_to(&c->to, e->parent);
	if (to < 0)
		return err_sys(err, "cannot open the copy's directory of %s", name);
	if (S_ISDIR(e->mode))
		return mkdirat(to, name, 0700) < 0 ? err_sys(err, "cannot copy %s", name) : 0;
	if (S_ISSOCK(e->mode)) /* nobody listens in a copy */
		return 0;
	if (S_ISREG(e->mode) && old != INDEX_NONE && index_entry_same(&c->last->items[old], e) && link_sealed(c, old, to, name))
		return 0;
	const int from = index_walk_to(&c->from, e->parent);
	if (from < 0)
		return err_sys(err, "cannot open the directory of %s", name);
	return copy_entry(from, name, to, name, COPY_OVERLAY | COPY_OWNER_MAY_FAIL, c->links, err);
}

static int finish_dir(struct checkpoint *c, uint32_t dir, struct cordon_error *err)
{
	const int from = index_walk_to(&c->from, dir), to = from < 0 ? -1 : index_walk_to(&c->to, dir);
	if (to < 0)
		return err_sys(err, "cannot open /%s", dir == INDEX_TOP ? "" : tree_index_name(c->now, dir));
	return copy_dir_meta(from, to, COPY_OVERLAY | COPY_OWNER_MAY_FAIL, err);
}

/* ---- leaving out --------------------------------------------------------------------------------------------------------------- */

static bool is_untouched(const struct checkpoint *c, uint32_t entry)
{
	const uint32_t old = c->match[entry];
	const struct index_entry *now = &c->now->items[entry], *then = old == INDEX_NONE ? NULL : &c->last->items[old];
	if (!then || !S_ISDIR(now->mode))
		return then && index_entry_same(then, now);
	return then->ino == now->ino && then->ctime_ns == now->ctime_ns && then->mode == now->mode;
}

static bool is_sealed(struct checkpoint *c, uint32_t entry)
{
	struct stat st;
	const uint32_t old = c->match[entry];
	const int dir = c->sealed.top < 0 ? -1 : index_walk_to(&c->sealed, c->last->items[old].parent);
	return dir >= 0 && fstatat(dir, tree_index_name(c->now, entry), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Nothing below shows through it. In doubt, it is. */
static bool is_opaque(struct checkpoint *c, uint32_t entry)
{
	char value[4];
	_cleanup_fd_ int dir = -1;
	const int at = index_walk_to(&c->from, entry);
	if (at >= 0)
		dir = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 || fgetxattr(dir, "user.overlay.opaque", value, sizeof(value)) >= 0 || (errno != ENODATA && errno != ENOTSUP);
}

/* Whether all that is in a directory is left out; asked from the end of the list, so that what is below it has been decided. */
static bool is_all_left_out(const struct checkpoint *c, const struct index_entry *dir)
{
	for (uint32_t k = dir->first; k < dir->first + dir->count; k++)
		if (!c->left_out[k])
			return false;
	return true;
}

/*
 * Files that were put back are in the open layer only because there is no other way to show them: as long as nobody touches them, what is below is the same. A copy
 * that had them would hide from then on what is changed there. A directory that hides what is below is left out as a whole or not at all.
 */
static int leave_out(struct checkpoint *c, struct cordon_error *err)
{
	_cleanup_free_ bool *whole = calloc(c->now->count + 1, sizeof(*whole));
	c->left_out = calloc(c->now->count + 1, sizeof(*c->left_out));
	if (!c->left_out || !whole)
		return err_sys(err, "cannot copy the layer");
	for (uint32_t k = (uint32_t)c->now->count; k-- > 0;) {
		const struct index_entry *e = &c->now->items[k];
		c->left_out[k] = (!S_ISDIR(e->mode) || is_all_left_out(c, e)) && is_untouched(c, k) && !is_sealed(c, k);
	}
	for (uint32_t k = 0; k < c->now->count; k++) {
		const struct index_entry *e = &c->now->items[k];
		whole[k] = (e->parent != INDEX_TOP && whole[e->parent]) || (S_ISDIR(e->mode) && !c->left_out[k] && is_opaque(c, k));
		if (e->parent != INDEX_TOP && whole[e->parent])
			c->left_out[k] = false;
	}
	return 0;
}

static int copy_all(struct checkpoint *c, struct cordon_error *err)
{
	for (uint32_t k = 0; k < c->now->count; k++)
		if (!(c->left_out && c->left_out[k]) && checkpoint_entry(c, k, err) < 0)
			return -1;
	/* from the end: what is in a directory comes after it, and changes its times */
	for (uint32_t k = (uint32_t)c->now->count; k > 0; k--)
		if (S_ISDIR(c->now->items[k - 1].mode) && !(c->left_out && c->left_out[k - 1]) && finish_dir(c, k - 1, err) < 0)
			return -1;
	return finish_dir(c, INDEX_TOP, err);
}

int tree_checkpoint(int from, const struct tree_index *now, int to, int sealed, const struct tree_index *last, bool shed,
                    struct cordon_error *err)
{
	const bool matched = sealed >= 0 || shed;
	_cleanup_free_ uint32_t *match = matched ? tree_index_match(now, last) : NULL;
	struct checkpoint c = {.now = now, .last = last, .match = match, .links = copy_links_new()};
	index_walk_begin(&c.from, now, from);
	index_walk_begin(&c.to, now, to);
	index_walk_begin(&c.sealed, last, sealed);
	int r = c.links && (match || !matched) ? 0 : err_sys(err, "cannot copy the layer");
	if (r == 0 && shed)
		r = leave_out(&c, err);
	if (r == 0)
		r = copy_all(&c, err);
	copy_links_free(c.links);
	free(c.left_out);
	index_walk_end(&c.from);
	index_walk_end(&c.to);
	index_walk_end(&c.sealed);
	return r;
}
