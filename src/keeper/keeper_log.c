/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs of services: sandboxes/ID/logs/EXEC.log, at most LOG_MAX bytes, and what was there before them as EXEC.log.1; NAME.log is a link
 * to the one of the service that was started last under that name. The directory is the owner's alone, nothing inside the sandbox can
 * reach it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "keeper/keeper.h"

#define LOG_MAX ((uint64_t)10 << 20)
#define NOTES_MAX ((off_t)256 << 10)
#define LOGS_KEPT 32 /* of execs; older ones are removed */
#define LOG_NAME_MAX (ID_LEN + 8)
#define NOTES_FILE "keeper.log"

/* "ID.log" */
static bool is_log(const char *name)
{
	char id[ID_LEN + 1];
	if (strlen(name) != ID_LEN + strlen(".log") || strcmp(name + ID_LEN, ".log") != 0)
		return false;
	memcpy(id, name, ID_LEN);
	id[ID_LEN] = '\0';
	return id_valid(id);
}

/* Whoever writes a log holds a lock on it. */
static bool in_use(int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

static bool older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* How many there are, and the oldest that nobody writes to. */
static size_t find_oldest(int dir, char oldest[LOG_NAME_MAX])
{
	int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	_cleanup_dir_ DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct timespec age = {0};
	struct dirent *e;
	size_t count = 0;
	oldest[0] = '\0';
	if (!d) {
		cleanup_fd(&copy);
		return 0;
	}
	rewinddir(d);
	while ((e = readdir(d))) {
		struct stat st;
		if (!is_log(e->d_name) || fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		count++;
		if ((oldest[0] && !older(&st.st_mtim, &age)) || in_use(dir, e->d_name))
			continue;
		memcpy(oldest, e->d_name, ID_LEN + sizeof(".log"));
		age = st.st_mtim;
	}
	return count;
}

static void remove_old(int dir)
{
	char oldest[LOG_NAME_MAX], rotated[LOG_NAME_MAX + 2];
	while (find_oldest(dir, oldest) >= LOGS_KEPT && oldest[0] && unlinkat(dir, oldest, 0) == 0) {
		snprintf(rotated, sizeof(rotated), "%s.1", oldest);
		unlinkat(dir, rotated, 0);
	}
}

static int create_file(struct keeper_log *l)
{
	l->size = 0;
	l->fd = openat(l->dir, l->file, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (l->fd >= 0)
		flock(l->fd, LOCK_SH | LOCK_NB); /* see in_use() */
	return l->fd;
}

int log_open(struct keeper_log *l, int dir, const char *id, const char *name, struct cordon_error *err)
{
	char link[KEEPER_NAME_MAX + 8];
	remove_old(dir);
	*l = (struct keeper_log){.fd = -1, .dir = dir};
	snprintf(l->file, sizeof(l->file), "%s.log", id);
	if (create_file(l) < 0)
		return err_sys(err, "cannot create the log %s", l->file);
	if (!name[0])
		return 0;
	snprintf(link, sizeof(link), "%s.log", name);
	unlinkat(dir, ".link", 0);
	if (symlinkat(l->file, dir, ".link") < 0 || renameat(dir, ".link", dir, link) < 0) {
		err_sys(err, "cannot create the log %s", link);
		log_close(l);
		return -1;
	}
	return 0;
}

static void rotate(struct keeper_log *l)
{
	char old[sizeof(l->file) + 2];
	snprintf(old, sizeof(old), "%s.1", l->file);
	log_close(l);
	if (renameat(l->dir, l->file, l->dir, old) == 0)
		create_file(l);
}

/* A full disk loses output, never the service. */
void log_write(struct keeper_log *l, const void *data, size_t len)
{
	if (l->fd >= 0 && l->size + len > LOG_MAX && l->size)
		rotate(l);
	while (l->fd >= 0 && len) {
		ssize_t n = write(l->fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		l->size += (uint64_t)n;
		data = (const char *)data + n;
		len -= (size_t)n;
	}
}

void log_close(struct keeper_log *l)
{
	cleanup_fd(&l->fd);
	l->fd = -1;
}

void log_note(int dir, const char *what, const struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = openat(dir, NOTES_FILE, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > NOTES_MAX && ftruncate(fd, 0) < 0)
		return;
	dprintf(fd, "%lld %s%s%s\n", (long long)(keeper_time_ms() / 1000), what, err ? ": " : "", err ? err->message : "");
}
