/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into a live sandbox: its mounts are in use, so nobody but its own processes may write there. A tar(1) inside unpacks what we write to its standard
 * input; it is a command like any other, with its limits, its transaction and its place in the history. The archive has the form that GNU tar,
 * bsdtar and busybox read alike: ustar with long names as 'L' and 'K' entries.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/cp.h"

enum { BLOCK = 512, CHUNK = 64 << 10 };

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[8], user[32], group[32], major[8],
		minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == BLOCK, "a tar header is one block");

struct archive {
	int fd;
	const struct view *view;
	const char *place, *base; /* where the source goes, and its name in the archive; "": it is the directory that tar stands in */
	uint64_t *files;
};

static int put(int fd, const void *data, size_t len, struct cordon_error *err)
{
	if (fs_write_full(fd, data, len) == 0)
		return 0;
	return errno == EPIPE ? err_set(err, CORDON_ERR_SYSTEM, "tar inside the sandbox ended early") : err_sys(err, "cannot write to tar");
}

static int put_padding(int fd, uint64_t size, struct cordon_error *err)
{
	static const char zeros[BLOCK];

	return put(fd, zeros, (size_t)((BLOCK - size % BLOCK) % BLOCK), err);
}

/* Octal, or in binary where that has too few digits. */
static void put_number(char *field, size_t len, uint64_t n)
{
	if (len < 2 || (len - 1) * 3 >= 64 || n < (uint64_t)1 << (len - 1) * 3) {
		for (size_t i = len - 1; i > 0; i--, n >>= 3)
			field[i - 1] = (char)('0' + (n & 7));
		field[len - 1] = '\0';
		return;
	}
	for (size_t i = len; i > 0; i--, n >>= 8)
		field[i - 1] = (char)(n & 0xff);
	field[0] = (char)0x80;
}

static int put_header(int fd, char type, const char *name, const char *link, uint64_t size, const struct stat *st, struct cordon_error *err)
{
	struct tar_header h = {.type = type, .magic = "ustar  "};
	unsigned sum = 0;

	memcpy(h.name, name, MIN(strlen(name), sizeof(h.name)));
	memcpy(h.link, link, MIN(strlen(link), sizeof(h.link)));
	put_number(h.mode, sizeof(h.mode), st ? st->st_mode & 0777 : 0);
	put_number(h.uid, sizeof(h.uid), 0);
	put_number(h.gid, sizeof(h.gid), 0);
	put_number(h.size, sizeof(h.size), size);
	put_number(h.mtime, sizeof(h.mtime), st && st->st_mtim.tv_sec > 0 ? (uint64_t)st->st_mtim.tv_sec : 0);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	put_number(h.checksum, 7, sum);
	return put(fd, &h, sizeof(h), err);
}

/* A name that does not fit into the header goes before it, as an entry of its own. */
static int put_long(int fd, char type, const char *text, struct cordon_error *err)
{
	size_t len = strlen(text) + 1;

	if (len <= 100)
		return 0;
	if (put_header(fd, type, "././@LongLink", "", len, NULL, err) < 0 || put(fd, text, len, err) < 0)
		return -1;
	return put_padding(fd, len, err);
}

static int put_entry_header(const struct archive *a, char type, const char *name, const char *link, uint64_t size, const struct stat *st,
                            struct cordon_error *err)
{
	if (put_long(a->fd, 'K', link, err) < 0 || put_long(a->fd, 'L', name, err) < 0)
		return -1;
	return put_header(a->fd, type, name, link, size, st, err);
}

/* A file that grows meanwhile is cut, one that shrinks is filled up: the archive has promised its size. */
static int put_file(const struct archive *a, const char *name, int dir, const char *base, struct cordon_error *err)
{
	char chunk[CHUNK];
	struct stat st;
	_cleanup_fd_ int fd = openat(dir, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "%s", base);
	if (!S_ISREG(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "%s was replaced while it was being read", base);
	if (put_entry_header(a, '0', name, "", (uint64_t)st.st_size, &st, err) < 0)
		return -1;
	for (uint64_t left = (uint64_t)st.st_size; left;) {
		ssize_t n = read(fd, chunk, (size_t)MIN(left, (uint64_t)sizeof(chunk)));

		if (n < 0)
			return err_sys(err, "%s", base);
		if (n == 0) {
			n = (ssize_t)MIN(left, (uint64_t)sizeof(chunk));
			memset(chunk, 0, (size_t)n);
		}
		if (put(a->fd, chunk, (size_t)n, err) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	return put_padding(a->fd, (uint64_t)st.st_size, err);
}

static int put_link(const struct archive *a, const char *name, int dir, const char *base, const struct stat *st, struct cordon_error *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, base, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(err, "%s", base);
	target[n] = '\0';
	return put_entry_header(a, '2', name, target, 0, st, err);
}

/* Directories that are there already keep their properties; new ones can be written by their owner, or nothing could be put into them. */
static int put_directory(const struct archive *a, const char *name, const char *path, const struct stat *st, struct cordon_error *err)
{
	struct view_entry e;

	if (view_stat(a->view, path, &e, err) < 0)
		return -1;
	if (e.st.st_mode && !S_ISDIR(e.st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "%.300s is no directory in the sandbox", path);
	struct stat open = *st;
	open.st_mode |= 0700;
	return e.st.st_mode ? 0 : put_entry_header(a, '5', name, "", 0, &open, err);
}

static int put_entry(void *user, const char *path, int dir, const char *base, const struct stat *st, struct cordon_error *err)
{
	const struct archive *a = user;
	_cleanup_free_ char *name = NULL, *there = NULL;

	if (asprintf(&name, "%s%s%s", *a->base ? a->base : ".", *path ? "/" : "", path) < 0 ||
	    asprintf(&there, "%s%s%s", a->place, *a->place && *path ? "/" : "", path) < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (S_ISDIR(st->st_mode))
		return *there ? put_directory(a, name, there, st, err) : 0;
	++*a->files;
	if (S_ISREG(st->st_mode))
		return put_file(a, name, dir, base, err);
	if (S_ISLNK(st->st_mode))
		return put_link(a, name, dir, base, st, err);
	if (S_ISFIFO(st->st_mode))
		return put_entry_header(a, '6', name, "", 0, st, err);
	--*a->files;
	return *path ? 0 : err_set(err, CORDON_ERR_INPUT, "%s is neither a file nor a directory", base);
}

/* ---- the other end ----------------------------------------------------------------------------------------------------------- */

static int start_tar(const char *id, const char *directory, pid_t *pid, int *input, struct cordon_error *err)
{
	extern char **environ;
	const char *const words[] = {"cordon", "exec",  "--quiet", "--on-failure", "rollback", id,  "--",
	                             "tar",    "-xpof", "-",       "-C",           directory,  NULL};
	char *argv[ARRAY_SIZE(words)];
	posix_spawn_file_actions_t actions;
	int pipes[2], r;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		argv[i] = (char *)(uintptr_t)words[i];
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = posix_spawn_file_actions_adddup2(&actions, pipes[0], STDIN_FILENO);
		if (r == 0)
			r = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(pipes[0]);
	*input = pipes[1];
	if (r == 0)
		return 0;
	close(pipes[1]);
	errno = r;
	return err_sys(err, "cannot start tar inside the sandbox");
}

/* What tar has to say it has said on stderr. */
static int wait_tar(pid_t pid, struct cordon_error *err)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(err, "tar inside the sandbox");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status))
		return err_set(err, CORDON_ERR_SYSTEM, "tar inside the sandbox failed with status %d", WEXITSTATUS(status));
	return err_set(err, CORDON_ERR_SYSTEM, "tar inside the sandbox was killed by signal %d", WTERMSIG(status));
}

static int send_archive(struct archive *a, const char *id, const char *directory, int dir, const char *name, struct cordon_error *err)
{
	static const char end[2 * BLOCK];
	const struct cp_walk walk = {put_entry, a};
	struct cordon_error why = {0};
	pid_t pid;

	signal(SIGPIPE, SIG_IGN);
	if (start_tar(id, directory, &pid, &a->fd, err) < 0)
		return -1;
	int sent = cp_walk(dir, name, &walk, &why);
	if (sent == 0)
		sent = put(a->fd, end, sizeof(end), &why);
	/* without its end, what was sent is no archive: tar fails, and what it wrote is rolled back */
	close(a->fd);
	int ended = wait_tar(pid, err);
	if (sent == 0 || (ended < 0 && why.code == CORDON_ERR_SYSTEM && !why.sys_errno))
		return ended;
	*err = why;
	return -1;
}

int cp_in_live(const struct live *l, const struct view *v, const char *from, const struct cp_inside *to, uint64_t *files,
               struct cordon_error *err)
{
	_cleanup_free_ char *place = NULL, *directory = NULL;
	_cleanup_fd_ int dir = -1;
	char name[NAME_MAX + 1];
	struct cp_source source = {0};

	if (cp_open_source(from, &dir, name, &source, err) < 0 || cp_place(v, &source, to, &place, err) < 0)
		return -1;
	const char *slash = strrchr(place, '/'), *top = to->tree == TREE_HOME ? "/home/user" : "/app";
	if (asprintf(&directory, "%s%s%.*s", top, slash ? "/" : "", slash ? (int)(slash - place) : 0, place) < 0) {
		directory = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	struct archive a = {.fd = -1, .view = v, .place = place, .base = slash ? slash + 1 : place, .files = files};
	return send_archive(&a, l->box.id, directory, dir, name, err);
}
