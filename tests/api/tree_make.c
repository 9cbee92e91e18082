/* SPDX-License-Identifier: Apache-2.0 */
/* Random trees, and a host that edits them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/util.h"
#include "exact.h"

uint32_t below(struct rng *r, uint32_t n)
{
	r->state += 0x9e3779b97f4a7c15u;
	uint64_t z = r->state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ (z >> 31)) >> 32) % n;
}

bool chance(struct rng *r, unsigned percent)
{
	return below(r, 100) < percent;
}

/* ---- names and modes --------------------------------------------------------------------------------------------------------- */

void add_name(struct rng *r, struct buf *out, const char *prefix)
{
	static const char *const odd[] = {"new\nline", "\xff\xfe\x80",         "blank ", "-r",    "q'\"\\$`", ".hidden", ".wh.gone",
	                                  "%41",       "\xc3\xa4\xe2\x82\xac", "*?[]",   "a=b,c", "\t"};
	const unsigned number = below(r, 1u << 30);

	buf_add_str(out, prefix);
	if (chance(r, 3)) {
		char name[256];
		int n = snprintf(name, sizeof(name), "%u", number);
		memset(name + n, 'x', sizeof(name) - (size_t)n);
		name[255 - strlen(prefix)] = '\0';
		buf_add_str(out, name);
		return;
	}
	if (chance(r, 20))
		buf_add_str(out, odd[below(r, ARRAY_SIZE(odd))]);
	buf_addf(out, "%x", number);
}

void add_target(struct rng *r, struct buf *out)
{
	static const char *const targets[] = {"nothing",  "/etc/hostname",   "..",  "../../../../etc", "/app/pin0", "pin1", ".",
	                                      "a\nb\xff", "/proc/self/root", "fix0"};
	buf_add_str(out, targets[below(r, ARRAY_SIZE(targets))]);
}

mode_t file_mode(struct rng *r)
{
	static const mode_t modes[] = {0644, 0644, 0600, 0755, 0444, 0666, 0640, 02755, 04755, 01644, 0777, 0000, 0200};
	/* what its owner cannot read, an ordinary user's cordon cannot either; it says so, and live.c looks at that */
	return modes[below(r, geteuid() == 0 ? ARRAY_SIZE(modes) : ARRAY_SIZE(modes) - 2)];
}

mode_t directory_mode(struct rng *r)
{
	static const mode_t modes[] = {0755, 0755, 0755, 0700, 01777, 02775, 0775, 0555, 03777, 0000, 0300};
	return modes[below(r, geteuid() == 0 ? ARRAY_SIZE(modes) : ARRAY_SIZE(modes) - 2)];
}

/* ---- one file ---------------------------------------------------------------------------------------------------------------- */

_Noreturn static void fail(const char *what)
{
	give_up("the test's own tree can be made: %s: %s", what, strerror(errno));
}

static struct timespec past(struct rng *r)
{
	return (struct timespec){.tv_sec = 1000000000 + (time_t)below(r, 400000000), .tv_nsec = (long)below(r, 1000000000)};
}

/* Owner first: it takes bits of the mode away. */
static void finish(struct rng *r, int dir, const char *name, struct owner owner, mode_t mode, bool others)
{
	static const uid_t ids[] = {0, 1000, 33, 12345};
	struct timespec times[2] = {past(r), past(r)};
	const bool foreign = others && chance(r, 12);
	const uid_t uid = ids[below(r, ARRAY_SIZE(ids))], gid = ids[below(r, ARRAY_SIZE(ids))];

	if (geteuid() == 0 && fchownat(dir, name, foreign ? uid : owner.uid, foreign ? gid : owner.gid, AT_SYMLINK_NOFOLLOW) < 0)
		fail("chown");
	if (mode != (mode_t)-1 && fchmodat(dir, name, mode, 0) < 0)
		fail("chmod");
	if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		fail("utimensat");
}

static void add_attributes(struct rng *r, int fd)
{
	char value[200];

	for (unsigned n = chance(r, 25) ? 1 + below(r, 3) : 0; n > 0; n--) {
		char name[32];
		snprintf(name, sizeof(name), "user.%s%u", chance(r, 20) ? "odd =," : "a", below(r, 4));
		memset(value, 'v', sizeof(value));
		if (fsetxattr(fd, name, value, below(r, sizeof(value)), 0) < 0 && errno != ENOTSUP)
			fail("setxattr");
	}
}

static void write_at(int fd, struct rng *r, size_t len, off_t at)
{
	char *data = malloc(len + 1);

	for (size_t i = 0; data && i < len; i++)
		data[i] = (char)below(r, 256);
	if (!data || pwrite(fd, data, len, at) != (ssize_t)len)
		fail("write");
	free(data);
}

static void make_file(struct rng *r, int dir, const char *name)
{
	const unsigned kind = below(r, 80);
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		fail(name);
	if (kind == 0) { /* sparse; copy-up keeps holes in steps of a megabyte */
		write_at(fd, r, 5000, 200000);
		if (ftruncate(fd, 2500000) < 0)
			fail("ftruncate");
	} else if (kind <= 3) {
		write_at(fd, r, 100000 + below(r, 50000), 0);
	} else if (kind > 15) { /* else empty */
		write_at(fd, r, 1 + below(r, 6000), 0);
	}
	add_attributes(r, fd);
}

static void make_entry(struct rng *r, int dir, struct owner owner)
{
	_cleanup_buf_ struct buf name = {0}, target = {0};
	const unsigned kind = below(r, 12);

	add_name(r, &name, kind >= 10 ? "hl" : "f");
	if (kind < 8) {
		make_file(r, dir, name.data);
		finish(r, dir, name.data, owner, file_mode(r), true);
	} else if (kind == 8) {
		add_target(r, &target);
		if (symlinkat(target.data, dir, name.data) < 0)
			fail("symlink");
		finish(r, dir, name.data, owner, (mode_t)-1, true);
	} else if (kind == 9) {
		if (mkfifoat(dir, name.data, 0600) < 0)
			fail("mkfifo");
		finish(r, dir, name.data, owner, file_mode(r), true);
	} else { /* a file with several names */
		make_file(r, dir, name.data);
		for (unsigned n = 1 + below(r, 2); n > 0; n--) {
			_cleanup_buf_ struct buf other = {0};
			add_name(r, &other, "hl");
			if (linkat(dir, name.data, dir, other.data, 0) < 0)
				fail("link");
		}
		finish(r, dir, name.data, owner, file_mode(r), true);
	}
}

/* ---- directories ------------------------------------------------------------------------------------------------------------- */

static int make_directory(int dir, const char *name)
{
	int fd = mkdirat(dir, name, 0700) < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail(name);
	return fd;
}

static void fill_directory(struct rng *r, int fd, struct owner owner, int depth)
{
	for (unsigned n = below(r, 6); n > 0; n--)
		make_entry(r, fd, owner);
	for (unsigned n = depth < 4 ? below(r, 3) : 0; n > 0; n--) {
		_cleanup_buf_ struct buf name = {0};
		add_name(r, &name, "d");
		_cleanup_fd_ int child = make_directory(fd, name.data);
		fill_directory(r, child, owner, depth + 1);
		add_attributes(r, child);
		finish(r, fd, name.data, owner, directory_mode(r), true);
	}
}

/* Deeper than PATH_MAX reaches. */
static void make_deep(struct rng *r, int fd, struct owner owner, int levels)
{
	char name[128];

	memset(name, 'n', sizeof(name));
	snprintf(name, sizeof(name), "deep%d", levels);
	name[strlen(name)] = 'n';
	name[120] = '\0';
	_cleanup_fd_ int child = make_directory(fd, name);
	if (levels > 0) {
		make_deep(r, child, owner, levels - 1);
	} else {
		make_file(r, child, "bottom");
		finish(r, child, "bottom", owner, file_mode(r), true);
	}
	finish(r, fd, name, owner, 0755, false);
}

/* Directories that stay where they are, and hold the names of one file. */
static void make_fixed(struct rng *r, int dir, struct owner owner)
{
	for (unsigned i = 0; i < 2; i++) {
		char name[8];
		snprintf(name, sizeof(name), "fix%u", i);
		_cleanup_fd_ int fd = make_directory(dir, name);
		fill_directory(r, fd, owner, 3);
	}
	_cleanup_fd_ int first = openat(dir, "fix0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int second = openat(dir, "fix1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_file(r, first, "hlacross");
	if (linkat(first, "hlacross", second, "hlacross", 0) < 0)
		fail("link");
	finish(r, first, "hlacross", owner, file_mode(r), true);
	finish(r, dir, "fix0", owner, 0755, false);
	finish(r, dir, "fix1", owner, 0755, false);
}

static void make_hosts(struct rng *r, int dir, struct owner owner)
{
	_cleanup_fd_ int fd = make_directory(dir, "host");

	for (int i = 0; i < 3; i++) {
		char name[8];
		snprintf(name, sizeof(name), "h%d", i);
		make_file(r, fd, name);
		finish(r, fd, name, owner, 0644, false);
		snprintf(name, sizeof(name), "pin%d", i);
		make_file(r, dir, name);
		finish(r, dir, name, owner, 0644, false);
	}
	if (geteuid() == 0) { /* nobody inside */
		make_file(r, fd, "far");
		finish(r, fd, "far", (struct owner){100000, 100000}, 0644, false);
	}
	finish(r, dir, "host", owner, 0755, false);
}

void make_seed_tree(struct rng *r, int dir, struct owner owner)
{
	make_hosts(r, dir, owner);
	make_fixed(r, dir, owner);
	for (int i = 0; i < 3; i++) {
		_cleanup_buf_ struct buf name = {0};
		add_name(r, &name, "d");
		_cleanup_fd_ int child = make_directory(dir, name.data);
		fill_directory(r, child, owner, 1);
		finish(r, dir, name.data, owner, directory_mode(r), true);
	}
	fill_directory(r, dir, owner, 4);
	if (chance(r, 20))
		make_deep(r, dir, owner, 40);
	finish(r, dir, ".", owner, 0755, false);
}

/* ---- the host ---------------------------------------------------------------------------------------------------------------- */

bool edit_host(struct rng *r, int dir)
{
	char name[32];
	unsigned kind = below(r, 6);
	_cleanup_fd_ int host = openat(dir, "host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(name, sizeof(name), "%s%u", kind < 2 ? "pin" : "h", below(r, 3));
	const int where = kind < 2 ? dir : host;

	if (kind < 4) { /* in place */
		_cleanup_fd_ int fd = openat(where, name, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			write_at(fd, r, 1 + below(r, 3000), kind == 3 ? lseek(fd, 0, SEEK_END) : 0);
		return false;
	}
	snprintf(name, sizeof(name), "new%x", below(r, 1u << 30));
	make_file(r, host, name);
	finish(r, host, name, (struct owner){geteuid(), getegid()}, 0644, false);
	if (kind == 4)
		return false;
	renameat(host, name, host, chance(r, 50) ? "h1" : "h2");
	if (chance(r, 50))
		unlinkat(host, "h0", 0);
	return true;
}

/* An ordinary user cannot look into a directory of mode 0 either. */
void remove_all(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && fchmodat(dir, name, 0700, 0) == 0)
		fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		fchmod(fd, 0700);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(fd, e->d_name, 0) < 0)
			remove_all(fd, e->d_name);
	unlinkat(dir, name, AT_REMOVEDIR);
}
