/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/trail_end.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/scan.h"
#include "audit/trail.h"
#include "base/util.h"

#define TORN_NEW "torn.new"

void trail_end_torn_name(unsigned number, uint64_t seq, char out[])
{
	snprintf(out, TRAIL_NAME, "%06u.torn-%" PRIu64, number, seq);
}

/* ---- the last record --------------------------------------------------------------------------------------------------------- */

/* Where the last good record in data ends; 0: there is none. `whole`: data begins with a line, not somewhere in one. */
static size_t last_good(const char *data, size_t len, bool whole, struct audit_line *out)
{
	const char *nl = len ? memrchr(data, '\n', len) : NULL;

	while (nl) {
		size_t end = (size_t)(nl - data);
		const char *before = end ? memrchr(data, '\n', end) : NULL;
		size_t begin = before ? (size_t)(before + 1 - data) : 0;

		if (!before && !whole)
			return 0;
		if (!audit_scan(data + begin, end - begin, out) && audit_line_intact(out))
			return end + 1;
		nl = before;
	}
	return 0;
}

static int read_at(int fd, char *buf, size_t len, off_t at)
{
	while (len) {
		ssize_t n = pread(fd, buf, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			return -1;
		}
		buf += n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Looks for it in larger and larger parts: it is nearly always in the first. */
static int find_last(int fd, struct trail_end *end)
{
	const off_t windows[] = {4096, (off_t)2 * AUDIT_LINE_MAX, end->size};

	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		const off_t len = MIN(windows[i], end->size);
		_cleanup_free_ char *data = malloc((size_t)len + 1);
		struct audit_line line;

		if (!data || read_at(fd, data, (size_t)len, end->size - len) < 0)
			return -1;
		size_t good = last_good(data, (size_t)len, len == end->size, &line);
		if (good) {
			end->good = end->size - len + (off_t)good;
			end->head.seq = line.seq;
			memcpy(end->head.hash, line.hash, AUDIT_HASH);
			end->head.hash[AUDIT_HASH] = '\0';
			end->rotates = audit_line_rotates(&line);
			return 0;
		}
		if (len == end->size)
			break;
	}
	end->good = 0;
	return 0;
}

/* The head of the segment before, which must be whole. */
static int read_before(int dir, const char *path, unsigned number, struct chain_head *out, struct cordon_error *err)
{
	char name[TRAIL_NAME];
	struct trail_end end = {0};
	struct stat st;

	*out = (struct chain_head){.hash = AUDIT_NO_HASH};
	if (number == 1)
		return 0;
	trail_name(number - 1, TRAIL_SUFFIX, name);
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		end.size = st.st_size;
		if (find_last(fd, &end) == 0 && end.rotates && end.good == end.size) {
			*out = end.head;
			return 0;
		}
	}
	err_set(err, CORDON_ERR_SYSTEM, "%s/%s is missing or damaged at its end: the chain cannot be continued", path, name);
	return err_hint(err, "see cordon audit --verify; if the directory is moved away, a new log begins");
}

int trail_end_read(int dir, const char *path, int fd, unsigned number, struct trail_end *out, struct cordon_error *err)
{
	struct stat st;

	*out = (struct trail_end){0};
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot examine %s/%06u" TRAIL_SUFFIX, path, number);
	out->size = st.st_size;
	if (out->size && find_last(fd, out) < 0)
		return err_sys(err, "cannot read %s/%06u" TRAIL_SUFFIX, path, number);
	return out->good ? 0 : read_before(dir, path, number, &out->head, err);
}

/* ---- what is behind it ------------------------------------------------------------------------------------------------------- */

static int copy_rest(int from, int to, off_t at, off_t end)
{
	char chunk[16384];

	while (at < end) {
		size_t n = (size_t)MIN(end - at, (off_t)sizeof(chunk));

		if (read_at(from, chunk, n, at) < 0)
			return -1;
		for (size_t done = 0; done < n;) {
			ssize_t w = write(to, chunk + done, n - done);

			if (w < 0 && errno == EINTR)
				continue;
			if (w < 0)
				return -1;
			done += (size_t)w;
		}
		at += (off_t)n;
	}
	return fsync(to);
}

/* Never over one that is there: a writer may be interrupted twice at the same record. */
static int give_name(int dir, unsigned number, uint64_t seq)
{
	char name[TRAIL_NAME], again[TRAIL_NAME + 8];

	trail_end_torn_name(number, seq, name);
	snprintf(again, sizeof(again), "%s", name);
	for (unsigned i = 2; linkat(dir, TORN_NEW, dir, again, 0) < 0; i++) {
		if (errno != EEXIST || i > 1000)
			return -1;
		snprintf(again, sizeof(again), "%s.%u", name, i);
	}
	return unlinkat(dir, TORN_NEW, 0);
}

int trail_end_set_aside(int dir, const char *path, int fd, unsigned number, const struct trail_end *end, struct cordon_error *err)
{
	_cleanup_fd_ int to = openat(dir, TORN_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0 || copy_rest(fd, to, end->good, end->size) < 0) {
		err_sys(err, "cannot put aside what an interrupted writer has left in %s/%06u" TRAIL_SUFFIX, path, number);
		unlinkat(dir, TORN_NEW, 0);
		return -1;
	}
	if (give_name(dir, number, end->head.seq + 1) < 0 || fsync(dir) < 0)
		return err_sys(err, "cannot name %s/" TORN_NEW, path);
	if (ftruncate(fd, end->good) < 0 || fsync(fd) < 0)
		return err_sys(err, "cannot cut %s/%06u" TRAIL_SUFFIX, path, number);
	return 0;
}
