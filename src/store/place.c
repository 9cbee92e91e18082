/* SPDX-License-Identifier: Apache-2.0 */
#include "store/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

#define LOCK_SUFFIX ".lock"
#define NEW_SUFFIX ".new"
#define HEADER 100 /* bytes, https://www.sqlite.org/fileformat2.html#the_database_header */
#define HEADER_MAGIC "SQLite format 3"
#define HEADER_APPLICATION 68

/* ---- names --------------------------------------------------------------------------------------------------------------------- */

static int set_path(struct place *p, const char *where, struct cordon_error *err)
{
	const size_t len = strlen(where), longest = sizeof("-journal");
	const char *slash = strrchr(where, '/');

	if (strstr(where, "://")) {
		err_set(err, CORDON_ERR_INPUT, "%s: a store can only be a file yet", where);
		return err_hint(err, "give the path of a file, which is made if it is missing");
	}
	if (len == 0 || where[len - 1] == '/' || len + longest + 2 >= sizeof(p->path) ||
	    strlen(slash ? slash + 1 : where) + longest > NAME_MAX)
		return err_set(err, CORDON_ERR_INPUT, "\"%s\" is not the path of a file", where);
	/* so that no name has a meaning of its own for SQLite */
	snprintf(p->path, sizeof(p->path), "%s%s", *where == '/' ? "" : "./", where);
	p->name = strrchr(p->path, '/') + 1;
	return 0;
}

static void beside(const struct place *p, const char *suffix, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%.*s%s", PATH_MAX - 16, p->name, suffix);
}

/* ---- the directory and the lock ------------------------------------------------------------------------------------------------ */

/*
 * Who can write there could lay a journal beside the database, which SQLite would put into it at the next start. The sticky bit is no protection
 * from that.
 */
static int check_directory(const struct place *p, struct cordon_error *err)
{
	struct stat st;

	if (fstat(p->dir, &st) < 0)
		return err_sys(err, "cannot examine the directory of %s", p->path);
	if ((st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & 022))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "the directory of %s belongs to or can be written by somebody else", p->path);
	return err_hint(err, "if it is yours, chmod go-w it; or keep the store in a directory of its own");
}

static int open_directory(struct place *p, struct cordon_error *err)
{
	char dir[PATH_MAX];

	/* with the slash: of "/x" it is the root */
	snprintf(dir, sizeof(dir), "%.*s", (int)(p->name - p->path), p->path);
	p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->dir < 0)
		return err_sys(err, "cannot open the directory of %s", p->path);
	return check_directory(p, err);
}

/* Its file stays: who removed it would let two in, one with the lock of the old file and one with that of a new. */
static int take_lock(struct place *p, struct cordon_error *err)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char name[PATH_MAX];

	beside(p, LOCK_SUFFIX, name);
	p->lock = openat(p->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (p->lock < 0)
		return err_sys(err, "cannot open %s" LOCK_SUFFIX, p->path);
	if (fcntl(p->lock, F_OFD_SETLK, &whole) == 0)
		return 0;
	if (errno != EAGAIN && errno != EACCES)
		return err_sys(err, "cannot lock %s" LOCK_SUFFIX, p->path);
	err_set(err, CORDON_ERR_BUSY, "%s is in use", p->path);
	return err_hint(err, "a server runs on it: stop that one, or give this one another store");
}

int place_open(struct place *p, const char *where, struct cordon_error *err)
{
	*p = (struct place){.dir = -1, .lock = -1};
	if (set_path(p, where, err) == 0 && open_directory(p, err) == 0 && take_lock(p, err) == 0)
		return 0;
	place_close(p);
	return -1;
}

void place_close(struct place *p)
{
	cleanup_fd(&p->lock);
	cleanup_fd(&p->dir);
	p->lock = p->dir = -1;
}

/* ---- the database -------------------------------------------------------------------------------------------------------------- */

static int check_file(const struct place *p, int fd, struct cordon_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot examine %s", p->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "%s is not a file", p->path);
	if (st.st_uid != geteuid())
		return err_set(err, CORDON_ERR_DENIED, "%s belongs to somebody else", p->path);
	if (!(st.st_mode & 077))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "%s is open to others", p->path);
	return err_hint(err, "chmod 600 it, if nobody can have changed it");
}

static int check_header(const struct place *p, int fd, struct cordon_error *err)
{
	unsigned char h[HEADER];
	const ssize_t n = fs_pread_full(fd, h, sizeof(h), 0);

	if (n < 0)
		return err_sys(err, "cannot read %s", p->path);
	if (n == 0) {
		err_set(err, CORDON_ERR_INPUT, "%s is empty", p->path);
		return err_hint(err, "put a backup in its place, or remove it to start anew");
	}
	if (n < HEADER || memcmp(h, HEADER_MAGIC, sizeof(HEADER_MAGIC)) != 0)
		return err_set(err, CORDON_ERR_INPUT, "%s is not a database", p->path);
	const unsigned char *a = h + HEADER_APPLICATION;
	if (((uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3]) == PLACE_APPLICATION_ID)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "%s is a database of another program", p->path);
	return err_hint(err, "give the path of another file, which is made if it is missing");
}

/* SQLite would put what it finds in there into the new database. */
static int check_no_remains(const struct place *p, struct cordon_error *err)
{
	static const char *const suffixes[] = {"-wal", "-journal"};
	struct stat st;
	char name[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		beside(p, suffixes[i], name);
		if (fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			continue;
		err_set(err, CORDON_ERR_INPUT, "%s is missing, but not its %s", p->path, suffixes[i]);
		return err_hint(err, "it has changes of a database that was moved away: bring that back, or remove it to start anew");
	}
	return 0;
}

int place_look(const struct place *p, struct cordon_error *err)
{
	/* a FIFO must not make us wait */
	_cleanup_fd_ int fd = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return check_no_remains(p, err);
	if (fd < 0 && errno == ELOOP)
		return err_set(err, CORDON_ERR_INPUT, "%s is a symbolic link", p->path);
	if (fd < 0)
		return err_sys(err, "cannot open %s", p->path);
	return check_file(p, fd, err) < 0 || check_header(p, fd, err) < 0 ? -1 : 1;
}

int place_begin(const struct place *p, char path[PATH_MAX], struct cordon_error *err)
{
	static const char *const suffixes[] = {NEW_SUFFIX, NEW_SUFFIX "-journal", NEW_SUFFIX "-wal"};
	char name[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) { /* of one that died over it: the lock is ours */
		beside(p, suffixes[i], name);
		if (unlinkat(p->dir, name, 0) < 0 && errno != ENOENT)
			return err_sys(err, "cannot remove %s%s", p->path, suffixes[i]);
	}
	beside(p, NEW_SUFFIX, name);
	/* SQLite's own would be 0644; what it makes beside it gets the mode that this one has */
	_cleanup_fd_ int fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, "cannot make %s" NEW_SUFFIX, p->path);
	snprintf(path, PATH_MAX, "%.*s" NEW_SUFFIX, PATH_MAX - 16, p->path);
	return 0;
}

int place_finish(const struct place *p, struct cordon_error *err)
{
	char name[PATH_MAX];

	beside(p, NEW_SUFFIX, name);
	if (renameat(p->dir, name, p->dir, p->name) < 0 || fsync(p->dir) < 0)
		return err_sys(err, "cannot make %s", p->path);
	return 0;
}
