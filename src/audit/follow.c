/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for records that are still to come. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/query.h"
#include "audit/trail.h"
#include "base/util.h"

#define READ_SIZE ((size_t)4 * AUDIT_LINE_MAX)

static int open_segment(struct audit_reader *r, unsigned number)
{
	char name[TRAIL_NAME];

	trail_name(number, TRAIL_SUFFIX, name);
	return openat(r->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static void go_to(struct audit_reader *r, int fd, unsigned number)
{
	cleanup_fd(&r->fd);
	r->fd = fd;
	r->number = number;
	r->at = 0;
}

/* Behind the last whole line: the rest is being written. */
static void go_to_end(struct audit_reader *r)
{
	_cleanup_free_ char *data = malloc(AUDIT_LINE_MAX);
	struct stat st;

	if (!data || fstat(r->fd, &st) < 0)
		return;
	off_t from = MAX(st.st_size - AUDIT_LINE_MAX, (off_t)0);
	ssize_t n = pread(r->fd, data, AUDIT_LINE_MAX, from);
	const char *nl = n > 0 ? memrchr(data, '\n', (size_t)n) : NULL;
	r->at = nl ? from + (nl + 1 - data) : from;
}

int audit_reader_open(struct audit_reader *r, const char *home, struct cordon_error *err)
{
	_cleanup_trail_list_ struct trail_list segments = {0};
	struct trail made;

	*r = (struct audit_reader){.dir = -1, .fd = -1, .events = -1};
	r->dir = trail_open_dir(home, err);
	if (r->dir < 0 && trail_open(&made, home, 0, err) == 0) { /* there may be records one day */
		trail_close(&made);
		r->dir = trail_open_dir(home, err);
	}
	if (r->dir < 0)
		return -1;
	r->events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char self[64];
	snprintf(self, sizeof(self), "/proc/self/fd/%d", r->dir);
	if (r->events < 0 || inotify_add_watch(r->events, self, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
		err_sys(err, "cannot watch %s/" AUDIT_DIR, home);
	else if (trail_list(r->dir, TRAIL_SUFFIX, &segments, err) == 0) {
		unsigned newest = segments.count ? segments.items[segments.count - 1] : 0;
		int fd = newest ? open_segment(r, newest) : -1;

		if (fd >= 0) {
			go_to(r, fd, newest);
			go_to_end(r);
		}
		return 0;
	}
	audit_reader_close(r);
	return -1;
}

void audit_reader_close(struct audit_reader *r)
{
	cleanup_fd(&r->dir);
	cleanup_fd(&r->fd);
	cleanup_fd(&r->events);
	buf_free(&r->rest);
	*r = (struct audit_reader){.dir = -1, .fd = -1, .events = -1};
}

/* The next segment, if there is one; -1: not yet. */
static int peek_next(struct audit_reader *r, unsigned *number)
{
	_cleanup_trail_list_ struct trail_list segments = {0};

	*number = r->number + 1;
	if (!r->number && trail_list(r->dir, TRAIL_SUFFIX, &segments, NULL) == 0 && segments.count)
		*number = segments.items[0];
	return open_segment(r, *number);
}

/* The whole lines that have come; r->at is then behind them. 0: there are none. */
static ssize_t read_lines(struct audit_reader *r)
{
	struct stat st;

	if (r->fd < 0)
		return 0;
	if (fstat(r->fd, &st) == 0 && st.st_size < r->at)
		r->at = st.st_size; /* what could not be written whole was taken back */
	r->rest.len = 0;
	char *data = buf_reserve(&r->rest, READ_SIZE);
	if (!data) {
		errno = ENOMEM;
		return -1;
	}
	ssize_t n = pread(r->fd, data, READ_SIZE, r->at);
	if (n <= 0)
		return n;
	const char *nl = memrchr(data, '\n', (size_t)n);
	if (!nl && (size_t)n == READ_SIZE) { /* no record is that long */
		r->at += n;
		r->damaged++;
		return 0;
	}
	n = nl ? nl + 1 - data : 0;
	r->rest.len = (size_t)n;
	r->at += n;
	return n;
}

int audit_reader_next(struct audit_reader *r, const struct audit_filter *f, audit_visitor *visit, void *arg, struct cordon_error *err)
{
	for (;;) {
		/* looked for first: a segment gets no more records once there is a next one */
		unsigned number;
		_cleanup_fd_ int next = peek_next(r, &number);
		ssize_t n = read_lines(r);

		if (n < 0)
			return err_sys(err, "cannot read the audit");
		if (n == 0 && next < 0)
			return 0;
		if (n == 0)
			go_to(r, steal_fd(&next), number);
		for (size_t at = 0; at < (size_t)n;) {
			const char *line = r->rest.data + at;
			size_t len = (size_t)((const char *)memchr(line, '\n', (size_t)n - at) - line);
			struct audit_line l;

			if (audit_scan(line, len, &l))
				r->damaged++;
			else if (audit_matches(f, &l) && visit(arg, &l, err) < 0)
				return -1;
			at += len + 1;
		}
	}
}

int audit_reader_wait(struct audit_reader *r, struct cordon_error *err)
{
	struct pollfd p = {.fd = r->events, .events = POLLIN};
	char events[4096] __attribute__((aligned(8)));

	if (poll(&p, 1, -1) < 0)
		return errno == EINTR ? 0 : err_sys(err, "poll");
	while (read(r->events, events, sizeof(events)) > 0)
		;
	return 1;
}
