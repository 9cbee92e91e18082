/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "store/parts.h"

/* A copy is made under a name with this and an id behind it, and gets its own when it is whole and on disk. */
#define PARTIAL ".partial-"

/* With a connection of its own: nobody waits for it. The copy has no pages that are free, and is not in WAL mode: it is one file. */
static int copy_into(const struct store *s, const char *path, struct cordon_error *err)
{
	_cleanup_db_ struct db db = {0};

	if (db_open(&db, s->place.path, SQLITE_OPEN_READONLY, err) < 0)
		return -1;
	_cleanup_query_ struct query q = query_new(&db, "VACUUM INTO ?1");
	query_text(&q, path);
	return query_run(&q, err);
}

static int sync_directory(const char *path, struct cordon_error *err)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') + 1 - path), path);
	_cleanup_fd_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? err_sys(err, "cannot sync the directory of %s", path) : 0;
}

static int make_copy(const struct store *s, const char *path, const char *partial, struct cordon_error *err)
{
	/* VACUUM takes a file that is empty: so it is ours from the beginning, and for nobody else to read */
	_cleanup_fd_ int fd = open(partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(err, "cannot make %s", partial);
	if (copy_into(s, partial, err) < 0)
		return -1;
	if (fsync(fd) < 0) /* SQLite does not, here */
		return err_sys(err, "cannot sync %s", partial);
	if (renameat2(AT_FDCWD, partial, AT_FDCWD, path, RENAME_NOREPLACE) < 0)
		return err_sys(err, "cannot make %s", path);
	return sync_directory(path, err);
}

int store_backup(struct store *s, const char *path, struct cordon_error *err)
{
	const size_t len = strlen(path), more = sizeof("./" PARTIAL) + ID_LEN;
	char whole[PATH_MAX], partial[PATH_MAX], id[ID_LEN + 1];
	struct stat st;

	if (len == 0 || path[len - 1] == '/' || len + more >= PATH_MAX)
		return err_set(err, CORDON_ERR_INPUT, "\"%s\" is not the path of a file", path);
	/* as in place.c: no name has a meaning of its own for SQLite */
	snprintf(whole, sizeof(whole), "%s%s", *path == '/' ? "" : "./", path);
	id_new(id);
	snprintf(partial, sizeof(partial), "%.*s" PARTIAL "%s", (int)(sizeof(partial) - more), whole, id);
	if (lstat(whole, &st) == 0)
		return err_set(err, CORDON_ERR_INPUT, "%s is there already", path);
	if (store_enter(s, err) < 0)
		return -1;
	const int r = make_copy(s, whole, partial, err);
	store_leave(s);
	if (r == 0)
		return 0;
	unlink(partial);
	return err_wrap(err, "cannot back up the store");
}
