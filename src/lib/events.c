/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/util.h"

#define BATCH 1000                        /* records that are written at once */
#define HASHED_FILE ((uint64_t)16 << 20)  /* of larger files size and time say enough … */
#define HASHED_TOTAL ((uint64_t)64 << 20) /* … and a command does not wait longer than this takes */

/* ---- the log ------------------------------------------------------------------------------------------------------------------ */

struct audit *events_log(struct cordon *ctx, const struct cordon_policy *policy, struct cordon_error *err)
{
	pthread_mutex_lock(&ctx->lock);
	if (!ctx->audit) {
		const struct audit_options options = {.sync = policy->audit.sync == SYNC_SEAL ? AUDIT_SYNC_SEAL : AUDIT_SYNC_RESULT,
		                                      .max_entries = (size_t)policy->audit.max_entries};
		if (audit_open(&ctx->audit, ctx->home, &options, err) < 0)
			ctx->audit = NULL;
	}
	struct audit *log = ctx->audit;
	pthread_mutex_unlock(&ctx->lock);
	return log;
}

static int closed(struct cordon_error *err, const char *what)
{
	err_wrap(err, "%s", what);
	if (err && (err->sys_errno == ENOSPC || err->sys_errno == EDQUOT))
		err_hint(err, "make room where CORDON_HOME is: nothing runs unrecorded");
	return -1;
}

static struct audit *log_of(const struct cordon_exec *e, struct cordon_error *err)
{
	return events_log(e->sandbox->ctx, &e->sandbox->policy, err);
}

/* ---- commands ----------------------------------------------------------------------------------------------------------------- */

int events_exec_start(struct cordon_exec *e, const struct cordon_exec_options *o, struct cordon_error *err)
{
	struct audit *log = log_of(e, err);
	const struct audit_field detail[] = {AUDIT_ARGV("argv", o->argv), AUDIT_TEXT("cwd", o->cwd ? o->cwd : "/app"),
	                                     AUDIT_BOOL("tty", e->tty), AUDIT_INT("timeout_ms", e->timeout_ms), AUDIT_END};
	const struct audit_event event = {.level = AUDIT_INFO,
	                                  .category = AUDIT_EXEC,
	                                  .action = "start",
	                                  .allowed = AUDIT_ALLOWED,
	                                  .sandbox = cordon_sandbox_id(e->sandbox),
	                                  .exec = e->result.id,
	                                  .target = o->argv && o->argv[0] ? o->argv[0] : "",
	                                  .detail = detail};
	if (!log || audit_add(log, &event, err) < 0 || audit_write(log, err) < 0)
		return closed(err, "nothing was run: the audit cannot be written");
	e->recorded = true;
	return 0;
}

void events_exec_failed(struct cordon_exec *e, const struct cordon_error *why)
{
	struct audit *log = e->recorded ? log_of(e, NULL) : NULL;
	const struct audit_field detail[] = {AUDIT_TEXT("error", why->message), AUDIT_END};
	const struct audit_event event = {.level = AUDIT_WARNING,
	                                  .category = AUDIT_EXEC,
	                                  .action = "fail",
	                                  .sandbox = cordon_sandbox_id(e->sandbox),
	                                  .exec = e->result.id,
	                                  .detail = detail};
	if (log && audit_add(log, &event, NULL) == 0)
		audit_commit(log, NULL); /* that it did not start is reported in any case */
	e->recorded = false;
}

static int add_end(const struct cordon_exec *e, struct audit *log, struct cordon_error *err)
{
	const struct cordon_result *r = &e->result;
	const struct cordon_transaction *t = &r->transaction;
	const struct audit_field detail[] = {AUDIT_TEXT("state", r->state),
	                                     AUDIT_TEXT("reason", r->reason),
	                                     AUDIT_INT("exit_code", r->exit_code),
	                                     r->signal ? AUDIT_INT("signal", r->signal) : AUDIT_NULL("signal"),
	                                     AUDIT_REAL("duration_ms", r->duration_ms),
	                                     AUDIT_REAL("cpu_ms", r->usage.cpu_ms),
	                                     AUDIT_TEXT("outcome", t->outcome ? t->outcome : "none"),
	                                     AUDIT_TEXT("before", t->before[0] ? t->before : NULL),
	                                     AUDIT_TEXT("after", t->after[0] ? t->after : NULL),
	                                     AUDIT_INT("changes", MAX(t->changes_total, (int64_t)0)),
	                                     AUDIT_TEXT("weak", r->weak),
	                                     AUDIT_TEXT("error", r->error),
	                                     AUDIT_END};
	const struct audit_event event = {.level = r->reason ? AUDIT_WARNING : AUDIT_INFO,
	                                  .category = AUDIT_EXEC,
	                                  .action = "end",
	                                  .sandbox = r->sandbox,
	                                  .exec = r->id,
	                                  .target = e->command,
	                                  .detail = detail};
	return audit_add(log, &event, err);
}

/* ---- what it changed ---------------------------------------------------------------------------------------------------------- */

static int view_after(struct cordon_exec *e, struct view *out, struct cordon_error *err)
{
	struct live *l = e->sandbox->live;
	struct view before = {0};
	if (l)
		return view_open(&l->store, e->tx.layer[0] ? e->tx.layer : e->tx.after, NULL, TREE_APP, l->seed, out, err);
	int r = scratch_views(e->sandbox, &before, out, err);
	view_close(&before);
	return r;
}

/* Of a regular file that is there now. False: it was not read to its end, for whatever reason. */
static bool hash_entry(const struct view *v, const char *path, char out[SHA256_HEX])
{
	struct view_entry entry;
	struct sha256 s;
	unsigned char digest[SHA256_SIZE], block[(size_t)32 << 10];
	ssize_t n = 0;
	if (view_stat(v, path, &entry, NULL) < 0 || !S_ISREG(entry.st.st_mode))
		return false;
	_cleanup_fd_ int fd = view_open_entry(v, path, &entry, NULL);
	sha256_begin(&s);
	while (fd >= 0 && (n = read(fd, block, sizeof(block))) > 0)
		sha256_add(&s, block, (size_t)n);
	if (fd < 0 || n < 0)
		return false;
	sha256_end(&s, digest);
	sha256_hex(digest, out);
	return true;
}

static int add_change(const struct cordon_exec *e, const struct change *c, const char *hash, struct audit *log, struct cordon_error *err)
{
	char mode[16];
	snprintf(mode, sizeof(mode), "%04o", (unsigned)c->after & 07777);
	const struct audit_field detail[] = {AUDIT_INT("bytes", c->bytes), AUDIT_TEXT("mode", c->after ? mode : NULL),
	                                     AUDIT_TEXT("sha256", hash), AUDIT_BOOL("undone", e->tx.outcome == OUTCOME_ROLLED_BACK),
	                                     AUDIT_END};
	const struct audit_event event = {.level = AUDIT_INFO,
	                                  .category = AUDIT_FILE,
	                                  .action = change_op_names[c->op],
	                                  .sandbox = e->result.sandbox,
	                                  .exec = e->result.id,
	                                  .target = c->path,
	                                  .detail = detail};
	return audit_add(log, &event, err);
}

static int add_changes(struct cordon_exec *e, struct audit *log, struct cordon_error *err)
{
	const struct changes *c = e->sandbox->live ? &e->tx.changes : &e->changes;
	_cleanup_view_ struct view after = {0};
	uint64_t left = HASHED_TOTAL;
	char hash[SHA256_HEX];
	if (c->count == 0)
		return 0;
	const bool readable = view_after(e, &after, NULL) == 0;
	for (size_t i = 0; i < c->count; i++) {
		const struct change *item = &c->items[i];
		if (item->op == CHANGE_TIME)
			continue;
		bool hashed =
			readable && S_ISREG(item->after) && item->bytes <= MIN(left, HASHED_FILE) && hash_entry(&after, item->path, hash);
		left -= hashed ? item->bytes : 0;
		if (add_change(e, item, hashed ? hash : NULL, log, err) < 0)
			return -1;
		if (i % BATCH == BATCH - 1 && audit_write(log, err) < 0)
			return -1;
	}
	return 0;
}

static int add_rollback(const struct cordon_exec *e, struct audit *log, struct cordon_error *err)
{
	const struct audit_field detail[] = {AUDIT_TEXT("undone", e->tx.layer[0] ? e->tx.layer : NULL), AUDIT_END};
	const struct audit_event event = {.level = AUDIT_INFO,
	                                  .category = AUDIT_SNAPSHOT,
	                                  .action = "rollback",
	                                  .sandbox = e->result.sandbox,
	                                  .exec = e->result.id,
	                                  .target = e->tx.before[0] ? e->tx.before : "seed",
	                                  .detail = detail};
	return e->tx.outcome == OUTCOME_ROLLED_BACK ? audit_add(log, &event, err) : 0;
}

int events_exec_end(struct cordon_exec *e, struct cordon_error *err)
{
	if (!e->recorded)
		return 0;
	e->recorded = false;
	struct audit *log = log_of(e, err);
	const bool sync = e->sandbox->policy.audit.sync != SYNC_SEAL;
	if (!log || add_changes(e, log, err) < 0 || add_rollback(e, log, err) < 0 || add_end(e, log, err) < 0 ||
	    (sync ? audit_commit(log, err) : audit_write(log, err)) < 0)
		return closed(err, "the command has run, but the audit of it cannot be written");
	return 0;
}

/* ---- who wants to know --------------------------------------------------------------------------------------------------------- */

static struct audit *log_by_default(struct cordon *ctx, struct cordon_error *err)
{
	struct cordon_policy policy;
	if (policy_init(&policy, err) < 0)
		return NULL;
	struct audit *log = events_log(ctx, &policy, err);
	policy_clear(&policy);
	return log;
}

int cordon_audit_subscribe(struct cordon *ctx, cordon_audit_callback *callback, void *user, struct cordon_error *err)
{
	struct audit *log = log_by_default(ctx, err);
	return log ? audit_subscribe(log, callback, user, err) : -1;
}

void cordon_audit_unsubscribe(struct cordon *ctx, int id)
{
	struct audit *log = log_by_default(ctx, NULL);
	if (log)
		audit_unsubscribe(log, id);
}

char *cordon_audit_recent(struct cordon *ctx, size_t limit, struct cordon_error *err)
{
	struct buf text = {.cap = (size_t)1 << 30};
	struct audit *log = log_by_default(ctx, err);
	if (!log || audit_recent(log, NULL, limit, &text, err) < 0) {
		buf_free(&text);
		return NULL;
	}
	char *lines = buf_steal(&text);
	if (!lines)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	buf_free(&text);
	return lines;
}

/* ---- the rest ----------------------------------------------------------------------------------------------------------------- */

int events_refused(struct cordon *ctx, const struct cordon_policy *policy, const struct audit_event *event, struct cordon_error *err)
{
	struct audit *log = events_log(ctx, policy, err);
	return !log || audit_record(log, event, err) < 0 ? closed(err, "the audit cannot be written") : 0;
}

static int record_once(const char *home, const struct audit_event *event, struct cordon_error *err)
{
	struct audit *log = NULL;
	int r = audit_open(&log, home, NULL, err) < 0 || audit_record(log, event, err) < 0 ? closed(err, "the audit cannot be written") : 0;
	audit_close(log);
	return r;
}

int events_tree(const char *home, const char *sandbox, const char *action, const char *target, const struct audit_field *detail,
                struct cordon_error *err)
{
	const struct audit_event event = {
		.level = AUDIT_INFO, .category = AUDIT_SNAPSHOT, .action = action, .sandbox = sandbox, .target = target, .detail = detail};
	return record_once(home, &event, err);
}

int events_commit(const char *home, const char *sandbox, const char *directory, bool refused, const struct commit_report *report,
                  struct cordon_error *err)
{
	const struct audit_field detail[] = {AUDIT_INT("applied", report->applied), AUDIT_INT("refused", report->problem_count),
	                                     AUDIT_TEXT("first", report->problem_count ? report->problems[0].path : NULL), AUDIT_END};
	const struct audit_event event = {.level = refused ? AUDIT_WARNING : AUDIT_INFO,
	                                  .category = AUDIT_FILE,
	                                  .action = "commit",
	                                  .sandbox = sandbox,
	                                  .target = directory,
	                                  .allowed = refused ? AUDIT_DENIED : AUDIT_ALLOWED,
	                                  .detail = detail};
	return record_once(home, &event, err);
}
