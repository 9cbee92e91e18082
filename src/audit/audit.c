/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer, for many threads. Theory of operation:
 *
 * audit_add() makes the bytes of a record and puts them into `waiting`; its place there is its ticket. A commit wants everything up to the last ticket
 * written, and then (by mode) synced. Each of the two is done by one thread at a time, whoever comes first, for all that have come by then; the others
 * wait. While one batch is being synced the next one is written already, and then one sync is enough for everybody who has waited.
 *
 * What cannot be written goes back to the front of `waiting`: records never change their order, and none is lost while the process lives.
 */
#include "audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "audit/query.h"
#include "audit/trail.h"
#include "audit/watchers.h"
#include "base/util.h"

#define WAITING_MAX ((size_t)16 << 20) /* bytes of records that are not written */
#define KEPT ((size_t)1 << 20)         /* of a buffer that was larger for once */

struct audit {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	enum audit_sync sync;
	struct redactor redactor;
	char **names, **values; /* what it points to */

	/* by the mutex */
	struct buf waiting;              /* uint32_t length and body, one after the other */
	uint64_t added, written, synced; /* tickets: bytes that have ever been in `waiting` */
	bool writing, syncing;
	int sync_failed; /* errno */
	int sync_fd;     /* the segment that was written to last */
	unsigned sync_number;
	bool wants_seal;
	struct watchers watchers;

	/* by whoever has set `writing` */
	struct trail trail;
	struct buf batch;
};

/* ---- opening ----------------------------------------------------------------------------------------------------------------- */

static void free_list(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

static int copy_list(char ***out, const char *const *list, struct cordon_error *err)
{
	size_t count = 0;

	while (list && list[count])
		count++;
	*out = calloc(count + 1, sizeof(**out));
	for (size_t i = 0; *out && i < count; i++) {
		(*out)[i] = strdup(list[i]);
		if (!(*out)[i])
			return err_sys(err, "audit");
	}
	return *out ? 0 : err_sys(err, "audit");
}

static void written(void *arg, const char *lines, size_t len)
{
	struct audit *a = arg;

	watchers_collect(&a->watchers, lines, len);
}

static void destroy(struct audit *a)
{
	trail_close(&a->trail);
	watchers_free(&a->watchers);
	free_list(a->names);
	free_list(a->values);
	buf_free(&a->waiting);
	buf_free(&a->batch);
	cleanup_fd(&a->sync_fd);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->mutex);
	free(a);
}

int audit_open(struct audit **out, const char *home, const struct audit_options *options, struct cordon_error *err)
{
	const struct audit_options o = options ? *options : (struct audit_options){0};
	struct audit *a = calloc(1, sizeof(*a));

	if (!a)
		return err_sys(err, "audit");
	pthread_mutex_init(&a->mutex, NULL);
	pthread_cond_init(&a->changed, NULL);
	a->sync = o.sync;
	a->sync_fd = -1;
	a->trail = (struct trail){.dir = -1, .fd = -1};
	if (copy_list(&a->names, o.redact_names, err) < 0 || copy_list(&a->values, o.redact_values, err) < 0 ||
	    watchers_init(&a->watchers, o.max_entries, err) < 0 || trail_open(&a->trail, home, o.max_segment, err) < 0) {
		destroy(a);
		return -1;
	}
	a->redactor = (struct redactor){.names = (const char *const *)a->names, .values = (const char *const *)a->values};
	a->trail.written = written;
	a->trail.arg = a;
	*out = a;
	return 0;
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	if (a->added > a->written)
		audit_commit(a, NULL);
	destroy(a);
}

/* ---- adding ------------------------------------------------------------------------------------------------------------------ */

int audit_add(struct audit *a, const struct audit_event *event, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	int r = 0;

	if (event->category == AUDIT_SYSTEM && event->action &&
	    (strcmp(event->action, AUDIT_ROTATE) == 0 || strcmp(event->action, AUDIT_RECOVER) == 0))
		return err_set(err, CORDON_ERR_INPUT, "audit: system, %s is the log's own", event->action);
	if (audit_body(&body, event, &a->redactor, err) < 0)
		return -1;
	const uint32_t len = (uint32_t)body.len;
	pthread_mutex_lock(&a->mutex);
	const size_t before = a->waiting.len;
	if (a->waiting.len + a->batch.len + len > WAITING_MAX) {
		r = err_set(err, CORDON_ERR_SYSTEM, "audit: %zu MiB of records wait to be written", WAITING_MAX >> 20);
	} else {
		buf_add(&a->waiting, &len, sizeof(len));
		buf_add(&a->waiting, body.data, body.len);
		if (a->waiting.failed) {
			a->waiting.failed = false;
			a->waiting.len = before;
			r = err_set(err, CORDON_ERR_SYSTEM, "audit: out of memory");
		} else {
			a->added += sizeof(len) + len;
		}
	}
	pthread_mutex_unlock(&a->mutex);
	return r;
}

/* ---- committing -------------------------------------------------------------------------------------------------------------- */

/* What is left of a batch comes first again. */
static int put_back(struct audit *a, size_t done, struct cordon_error *err)
{
	if (done < a->batch.len) {
		struct buf rest = {0};

		buf_add(&rest, a->batch.data + done, a->batch.len - done);
		buf_add(&rest, a->waiting.data, a->waiting.len);
		if (rest.failed) { /* no memory to keep them: as good as not written */
			a->trail.lost = ENOMEM;
			return err_set(err, CORDON_ERR_SYSTEM, "audit: out of memory");
		}
		buf_free(&a->waiting);
		a->waiting = rest;
	}
	a->batch.len = 0;
	if (a->batch.size > KEPT)
		buf_free(&a->batch);
	return 0;
}

/* Those who sync use a descriptor that stays theirs when the writer goes on to another segment. */
static int follow_segment(struct audit *a, struct cordon_error *err)
{
	if (a->sync == AUDIT_SYNC_SEAL || a->trail.fd < 0 || (a->sync_fd >= 0 && a->sync_number == a->trail.number))
		return 0;
	int fd = fcntl(a->trail.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, "audit");
	cleanup_fd(&a->sync_fd);
	a->sync_fd = fd;
	a->sync_number = a->trail.number;
	return 0;
}

/* By the mutex, which is released meanwhile. Writes all that is waiting, and then may end the segment. */
static int write_batch(struct audit *a, bool then_rotate, struct cordon_error *err)
{
	struct buf empty = a->batch;
	size_t done = 0;

	a->writing = true;
	a->batch = a->waiting;
	a->waiting = empty;
	a->waiting.len = 0;
	watchers_begin(&a->watchers);
	pthread_mutex_unlock(&a->mutex);

	int r = a->batch.len ? trail_append(&a->trail, a->batch.data, a->batch.len, &done, err) : 0;
	if (r == 0 && then_rotate)
		r = trail_rotate(&a->trail, err);

	pthread_mutex_lock(&a->mutex);
	a->written += done;
	a->wants_seal = a->wants_seal || a->trail.ended;
	watchers_mark(&a->watchers, a->written);
	if (put_back(a, done, r < 0 ? NULL : err) < 0)
		r = -1;
	if (follow_segment(a, r < 0 ? NULL : err) < 0)
		r = -1;
	a->writing = false;
	pthread_cond_broadcast(&a->changed);
	return r;
}

/* By the mutex, which is released meanwhile. */
static int sync_batch(struct audit *a, struct cordon_error *err)
{
	const uint64_t upto = a->written;
	_cleanup_fd_ int fd = fcntl(a->sync_fd, F_DUPFD_CLOEXEC, 0);
	int r = fd < 0 ? err_sys(err, "audit") : 0;

	if (r < 0)
		return -1;
	a->syncing = true;
	pthread_mutex_unlock(&a->mutex);
	if (fdatasync(fd) < 0)
		r = err_sys(err, "cannot sync %s", a->trail.path);
	pthread_mutex_lock(&a->mutex);
	if (r == 0)
		a->synced = upto;
	else
		a->sync_failed = errno ? errno : EIO;
	a->syncing = false;
	pthread_cond_broadcast(&a->changed);
	return r;
}

static int commit_locked(struct audit *a, enum audit_sync sync, bool then_rotate, struct cordon_error *err)
{
	const uint64_t mine = a->added;
	int r = 0;

	while (r == 0 && (a->written < mine || then_rotate)) {
		if (a->writing) {
			pthread_cond_wait(&a->changed, &a->mutex);
			continue;
		}
		r = write_batch(a, then_rotate, err);
		then_rotate = false;
	}
	while (r == 0 && sync == AUDIT_SYNC_RESULT && a->synced < mine) {
		if (a->sync_failed)
			r = err_set(err, CORDON_ERR_SYSTEM, "%s could not be synced before (%s): it is not known what is on the disk",
			            a->trail.path, strerror(a->sync_failed));
		else if (a->syncing)
			pthread_cond_wait(&a->changed, &a->mutex);
		else
			r = sync_batch(a, err);
	}
	watchers_deliver(&a->watchers, sync == AUDIT_SYNC_RESULT ? a->synced : a->written, &a->mutex, &a->changed);
	return r;
}

static int commit(struct audit *a, enum audit_sync sync, bool then_rotate, struct cordon_error *err)
{
	pthread_mutex_lock(&a->mutex);
	int r = commit_locked(a, sync, then_rotate, err);
	pthread_mutex_unlock(&a->mutex);
	return r;
}

int audit_commit(struct audit *a, struct cordon_error *err)
{
	return commit(a, a->sync, false, err);
}

int audit_write(struct audit *a, struct cordon_error *err)
{
	return commit(a, AUDIT_SYNC_SEAL, false, err);
}

int audit_rotate(struct audit *a, struct cordon_error *err)
{
	return commit(a, a->sync, true, err);
}

int audit_record(struct audit *a, const struct audit_event *event, struct cordon_error *err)
{
	return audit_add(a, event, err) < 0 ? -1 : audit_commit(a, err);
}

bool audit_wants_seal(struct audit *a)
{
	pthread_mutex_lock(&a->mutex);
	bool wants = a->wants_seal;
	pthread_mutex_unlock(&a->mutex);
	return wants;
}

/* ---- what this process wrote ------------------------------------------------------------------------------------------------- */

int audit_subscribe(struct audit *a, audit_callback *callback, void *arg, struct cordon_error *err)
{
	pthread_mutex_lock(&a->mutex);
	int id = watchers_add(&a->watchers, callback, arg, err);
	pthread_mutex_unlock(&a->mutex);
	return id;
}

void audit_unsubscribe(struct audit *a, int id)
{
	pthread_mutex_lock(&a->mutex);
	watchers_remove(&a->watchers, id, &a->mutex, &a->changed);
	pthread_mutex_unlock(&a->mutex);
}

int audit_recent(struct audit *a, const struct audit_filter *filter, size_t limit, struct buf *out, struct cordon_error *err)
{
	pthread_mutex_lock(&a->mutex);
	int r = watchers_recent(&a->watchers, filter, limit, out, err);
	pthread_mutex_unlock(&a->mutex);
	return r;
}
