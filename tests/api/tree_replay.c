/* SPDX-License-Identifier: Apache-2.0 */
/* Changes to a tree, read from a script. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/util.h"
#include "tree.h"

enum { ARGS = 6, SLOTS = 8, MOST = 1 << 22 };

/* Files that stay open across operations. */
struct held {
	int fds[SLOTS];
};

struct op {
	const struct roots *roots;
	struct held *held;
	char *args[ARGS]; /* decoded */
	int dir;          /* of the first argument, where that is a path; also the working directory */
	const char *base;
};

static long number(const struct op *o, int arg)
{
	return o->args[arg] ? strtol(o->args[arg], NULL, 0) : 0;
}

/* What a file is filled with: reproducible, and with no two blocks alike. */
static void fill(char *data, size_t len, long seed)
{
	uint64_t x = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (char)(seed % 3 ? ' ' + (int)(x % 95) : (int)(x & 255));
	}
}

static int put(int fd, long offset, long len, long seed)
{
	char *data = malloc((size_t)len + 1);

	if (fd < 0 || !data || len > MOST) {
		free(data);
		return -1;
	}
	fill(data, (size_t)len, seed);
	ssize_t n = offset < 0 ? write(fd, data, (size_t)len) : pwrite(fd, data, (size_t)len, offset);
	free(data);
	return n == len ? 0 : -1;
}

static int open_file(const struct op *o, int flags)
{
	return openat(o->dir, o->base, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
}

/* ---- contents ---------------------------------------------------------------------------------------------------------------- */

static int op_write(struct op *o)
{
	_cleanup_fd_ int fd = open_file(o, O_WRONLY);
	return put(fd, number(o, 1), number(o, 2), number(o, 3));
}

static int op_append(struct op *o)
{
	_cleanup_fd_ int fd = open_file(o, O_WRONLY | O_APPEND);
	return put(fd, -1, number(o, 1), number(o, 2));
}

static int op_truncate(struct op *o)
{
	_cleanup_fd_ int fd = open_file(o, O_WRONLY);
	return fd < 0 ? -1 : ftruncate(fd, number(o, 1));
}

static int op_empty(struct op *o)
{
	_cleanup_fd_ int fd = open_file(o, O_WRONLY | O_TRUNC);
	return fd < 0 ? -1 : 0;
}

static int op_mmap(struct op *o)
{
	_cleanup_fd_ int fd = open_file(o, O_RDWR);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (st.st_size == 0)
		return 0;
	char *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -1;
	size_t at = (size_t)number(o, 1) % (size_t)st.st_size, len = MIN((size_t)number(o, 2), (size_t)st.st_size - at);
	fill(map + at, len, number(o, 3));
	int r = msync(map, (size_t)st.st_size, MS_SYNC);
	munmap(map, (size_t)st.st_size);
	return r;
}

static int op_punch(struct op *o)
{
	_cleanup_fd_ int fd = open_file(o, O_RDWR);
	return fd < 0 ? -1 : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, number(o, 1), number(o, 2));
}

static int op_create(struct op *o)
{
	_cleanup_fd_ int fd = openat(o->dir, o->base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)number(o, 1));
	return put(fd, 0, number(o, 2), number(o, 3));
}

/* As editors do it. */
static int op_replace(struct op *o)
{
	static const char temporary[] = ".replacement~";
	_cleanup_fd_ int fd = openat(o->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)number(o, 1));

	if (fd < 0)
		return -1;
	int r = put(fd, 0, number(o, 2), number(o, 3)) < 0 || renameat(o->dir, temporary, o->dir, o->base) < 0 ? -1 : 0;
	int error = errno;
	if (r < 0)
		unlinkat(o->dir, temporary, 0);
	errno = error;
	return r;
}

/* ---- names ------------------------------------------------------------------------------------------------------------------- */

static int op_unlink(struct op *o)
{
	return unlinkat(o->dir, o->base, 0);
}

static int op_mkdir(struct op *o)
{
	return mkdirat(o->dir, o->base, (mode_t)number(o, 1));
}

static int op_rmdir(struct op *o)
{
	return unlinkat(o->dir, o->base, AT_REMOVEDIR);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In the order of names, so that what cannot be removed is met in the same order everywhere. The first errno counts. */
static int remove_tree(int dir, const char *name)
{
	char *names[1024];
	size_t count = 0;
	int error = 0, fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);

	for (struct dirent *e; d && count < ARRAY_SIZE(names) && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			names[count++] = strdup(e->d_name);
	qsort(names, count, sizeof(names[0]), by_name);
	for (size_t i = 0; i < count; i++) {
		if (unlinkat(fd, names[i], 0) < 0 && (errno != EISDIR || remove_tree(fd, names[i]) < 0) && !error)
			error = errno;
		free(names[i]);
	}
	if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && !error)
		error = errno;
	errno = error;
	return error ? -1 : 0;
}

static int op_rmtree(struct op *o)
{
	return remove_tree(o->dir, o->base);
}

/* Plain rename(2) where it can be, as most programs have it. */
static int op_rename(struct op *o)
{
	const char *base;
	_cleanup_fd_ int to = open_parent(o->roots, o->args[1], &base);

	if (to < 0)
		return -1;
	if (number(o, 2) || strlen(o->args[0]) + strlen(o->args[1]) > PATH_MAX / 2)
		return (int)syscall(SYS_renameat2, o->dir, o->base, to, base, number(o, 2));
	const char *from_path = strchr(o->args[0], '/') + 1, *to_path = strchr(o->args[1], '/') + 1;
	return fchdir(o->roots->fds[o->args[0][0] == 'h']) < 0 ? -1 : rename(from_path, to_path);
}

static int op_link(struct op *o)
{
	const char *base;
	_cleanup_fd_ int to = open_parent(o->roots, o->args[1], &base);
	return to < 0 ? -1 : linkat(o->dir, o->base, to, base, 0);
}

static int op_symlink(struct op *o)
{
	return symlinkat(o->args[1], o->dir, o->base);
}

static int op_mkfifo(struct op *o)
{
	return mkfifoat(o->dir, o->base, (mode_t)number(o, 1));
}

/* ---- metadata ---------------------------------------------------------------------------------------------------------------- */

/* A script means files and directories by different modes, and may be mistaken about which is which. */
static int op_chmod(struct op *o)
{
	struct stat st;

	if (fstatat(o->dir, o->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISLNK(st.st_mode) || (S_ISDIR(st.st_mode) && !o->args[2])) {
		errno = S_ISLNK(st.st_mode) ? ELOOP : EISDIR;
		return -1;
	}
	return fchmodat(o->dir, o->base, (mode_t)number(o, 1), 0);
}

static int op_setxattr(struct op *o)
{
	return fchdir(o->dir) < 0 ? -1 : lsetxattr(o->base, o->args[1], o->args[2], strlen(o->args[2]), 0);
}

static int op_removexattr(struct op *o)
{
	return fchdir(o->dir) < 0 ? -1 : lremovexattr(o->base, o->args[1]);
}

static int op_utime(struct op *o)
{
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = number(o, 1), .tv_nsec = number(o, 2)}};
	return utimensat(o->dir, o->base, times, AT_SYMLINK_NOFOLLOW);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------------------- */

static int op_hold(struct op *o)
{
	int *slot = &o->held->fds[number(o, 1) % SLOTS];

	cleanup_fd(slot);
	*slot = open_file(o, O_RDWR);
	return *slot < 0 ? -1 : 0;
}

/* Opened for reading before anything is written: it must not be in the way, whatever it shows then. */
static int op_hold_reader(struct op *o)
{
	int *slot = &o->held->fds[number(o, 1) % SLOTS];

	cleanup_fd(slot);
	*slot = open_file(o, O_RDONLY);
	return *slot < 0 ? -1 : 0;
}

static int op_held_write(struct op *o)
{
	return put(o->held->fds[number(o, 0) % SLOTS], number(o, 1), number(o, 2), number(o, 3));
}

static int op_held_truncate(struct op *o)
{
	return ftruncate(o->held->fds[number(o, 0) % SLOTS], number(o, 1));
}

static int op_held_chmod(struct op *o)
{
	return fchmod(o->held->fds[number(o, 0) % SLOTS], (mode_t)number(o, 1));
}

static int op_umask(struct op *o)
{
	umask((mode_t)number(o, 0));
	return 0;
}

/* ---- scripts ----------------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(struct op *o);
	bool path; /* the first argument is one */
} operations[] = {
	{"write", op_write, true},                  /* PATH OFFSET LENGTH SEED */
	{"append", op_append, true},                /* PATH LENGTH SEED */
	{"truncate", op_truncate, true},            /* PATH LENGTH */
	{"empty", op_empty, true},                  /* PATH */
	{"mmap", op_mmap, true},                    /* PATH OFFSET LENGTH SEED */
	{"punch", op_punch, true},                  /* PATH OFFSET LENGTH */
	{"create", op_create, true},                /* PATH MODE LENGTH SEED */
	{"replace", op_replace, true},              /* PATH MODE LENGTH SEED */
	{"unlink", op_unlink, true},                /* PATH */
	{"mkdir", op_mkdir, true},                  /* PATH MODE */
	{"rmdir", op_rmdir, true},                  /* PATH */
	{"rmtree", op_rmtree, true},                /* PATH */
	{"rename", op_rename, true},                /* PATH PATH FLAGS */
	{"link", op_link, true},                    /* PATH PATH */
	{"symlink", op_symlink, true},              /* PATH TARGET */
	{"mkfifo", op_mkfifo, true},                /* PATH MODE */
	{"chmod", op_chmod, true},                  /* PATH MODE [d] */
	{"setxattr", op_setxattr, true},            /* PATH NAME VALUE */
	{"removexattr", op_removexattr, true},      /* PATH NAME */
	{"utime", op_utime, true},                  /* PATH SECONDS NANOSECONDS */
	{"hold", op_hold, true},                    /* PATH SLOT */
	{"hold-reader", op_hold_reader, true},      /* PATH SLOT */
	{"held-write", op_held_write, false},       /* SLOT OFFSET LENGTH SEED */
	{"held-truncate", op_held_truncate, false}, /* SLOT LENGTH */
	{"held-chmod", op_held_chmod, false},       /* SLOT MODE */
	{"umask", op_umask, false},                 /* MASK */
};

/* 0 or an errno. */
static int run_operation(struct op *o, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		if (strcmp(operations[i].name, name) != 0)
			continue;
		_cleanup_fd_ int dir = operations[i].path ? open_parent(o->roots, o->args[0], &o->base) : -1;
		if (operations[i].path && dir < 0)
			return errno;
		o->dir = dir;
		errno = EIO; /* for what fails without saying why */
		return operations[i].run(o) < 0 ? errno : 0;
	}
	return ENOSYS;
}

int replay(const struct roots *r, char *script, struct buf *results, void (*pause_now)(void))
{
	struct held held;
	int status = 0;
	char *lines = NULL;

	memset(held.fds, -1, sizeof(held.fds));
	for (char *line = strtok_r(script, "\n", &lines); line; line = strtok_r(NULL, "\n", &lines)) {
		struct op o = {.roots = r, .held = &held};
		char *words = NULL;
		buf_add_str(results, line);
		char *name = strtok_r(line, " ", &words);
		for (int i = 0; name && i < ARGS && (o.args[i] = strtok_r(NULL, " ", &words)); i++)
			decode(o.args[i]);
		int error = 0;
		if (name && strcmp(name, "pause") == 0 && pause_now)
			pause_now();
		else if (name && strcmp(name, "exit") == 0)
			status = (int)number(&o, 0);
		else if (name && strcmp(name, "pause") != 0)
			error = run_operation(&o, name);
		buf_addf(results, " = %d\n", error);
	}
	for (int i = 0; i < SLOTS; i++)
		cleanup_fd(&held.fds[i]);
	return status;
}
