/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/events.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/util.h"
#include "lib/broker.h"
#include "policy/match.h"
#include "sandbox/trace.h"

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

/* The kernel says that it may not be executed: if the policy says the same, it is the policy's word that is told. */
static const char *find_refusal(const struct cordon_exec *e, const char *program, struct cordon_error *why)
{
	char path[PATH_MAX];
	struct policy_verdict verdict;
	if (why->code != CORDON_ERR_NOT_RUNNABLE || !program ||
	    (size_t)snprintf(path, sizeof(path), "%s%s", strchr(program, '/') ? "" : "/usr/bin/", program) >= sizeof(path) ||
	    path[0] != '/')
		return NULL;
	policy_match_path(&e->sandbox->policy, path, ACCESS_EXECUTE, &verdict);
	if (verdict.allowed)
		return NULL;
	err_set(why, CORDON_ERR_DENIED, "%.200s: refused by %s of the policy: %s", program, verdict.key, verdict.why);
	err_hint(why, "cordon policy explain --path %.150s --execute tells more", path);
	return verdict.key;
}

void events_exec_failed(struct cordon_exec *e, const char *program, struct cordon_error *why)
{
	struct audit *log = e->recorded ? log_of(e, NULL) : NULL;
	const char *rule = find_refusal(e, program, why);
	const struct audit_field detail[] = {AUDIT_TEXT("error", why->message), AUDIT_END};
	const struct audit_event event = {.level = AUDIT_WARNING,
	                                  .category = AUDIT_EXEC,
	                                  .action = "fail",
	                                  .allowed = rule ? AUDIT_DENIED : AUDIT_NEITHER,
	                                  .rule = rule,
	                                  .target = program,
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

/* ---- programs inside ---------------------------------------------------------------------------------------------------------- */

/* Why a program could not be started: what the policy says of it, else what it says of all. */
static const char *rule_of(const struct cordon_policy *p, const char *path)
{
	struct policy_verdict verdict;
	policy_match_program(p, path, &verdict);
	if (!verdict.allowed)
		return verdict.key;
	return !p->process.subprocess ? "process.subprocess" : !p->process.native ? "process.native" : "files.read";
}

static void note_denial(struct cordon_exec *e, const char *path, const char *rule)
{
	char hint[128], merged[PATH_MAX];
	/* a search through PATH meets it twice, where /bin is /usr/bin */
	if (strncmp(path, "/bin/", 5) == 0 && access("/usr/bin", F_OK) == 0 && readlink("/bin", hint, sizeof(hint)) > 0 &&
	    (size_t)snprintf(merged, sizeof(merged), "/usr%s", path) < sizeof(merged))
		path = merged;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	if (strcmp(rule, "process.allow") == 0)
		snprintf(hint, sizeof(hint), "process.allow: [..., %.60s] in the policy allows it", name);
	else
		snprintf(hint, sizeof(hint), "%s of the policy refuses it", rule);
	const struct cordon_denial d = {.category = "exec",
	                                .target = path,
	                                .rule = rule,
	                                .errno_name = strcmp(rule, "process.subprocess") == 0 ? "EPERM" : "EACCES",
	                                .hint = hint};
	if (denials_add(&e->denials, &d, NULL) < 0)
		e->unrecorded = true;
}

void events_traced(struct cordon_exec *e, const struct trace_event *t)
{
	const bool denied = t->kind == TRACE_DENIED, lost = t->kind == TRACE_LOST, known = t->status != TRACE_UNKNOWN;
	const char *rule = denied ? rule_of(&e->sandbox->policy, t->path) : NULL;
	const struct audit_field detail[] = {
		AUDIT_ARGV("argv", t->argv.items),
		AUDIT_INT("pid", t->pid),
		AUDIT_INT("ppid", t->ppid),
		t->duration_us ? AUDIT_REAL("duration_ms", (double)t->duration_us / 1000) : AUDIT_NULL("duration_ms"),
		known && WIFEXITED(t->status) ? AUDIT_INT("exit_code", WEXITSTATUS(t->status)) : AUDIT_NULL("exit_code"),
		known && WIFSIGNALED(t->status) ? AUDIT_INT("signal", WTERMSIG(t->status)) : AUDIT_NULL("signal"),
		AUDIT_BOOL("shortened", t->flags & TRACE_CUT),
		AUDIT_END,
	};
	const struct audit_field count[] = {t->lost ? AUDIT_INT("count", t->lost) : AUDIT_NULL("count"), AUDIT_END};
	const struct audit_event event = {.level = lost || denied ? AUDIT_WARNING : AUDIT_INFO,
	                                  .category = AUDIT_EXEC,
	                                  .action = lost ? "lost" : "exec",
	                                  .allowed = lost     ? AUDIT_NEITHER
	                                             : denied ? AUDIT_DENIED
	                                                      : AUDIT_ALLOWED,
	                                  .sandbox = cordon_sandbox_id(e->sandbox),
	                                  .exec = e->result.id,
	                                  .target = lost ? NULL : t->path,
	                                  .rule = rule,
	                                  .detail = lost ? count : detail,
	                                  .time_us = (int64_t)t->time_us};
	struct audit *log = log_of(e, NULL);
	if (denied)
		note_denial(e, t->path, rule);
	if (!log || audit_add(log, &event, NULL) < 0)
		e->unrecorded = true;
	if (++e->waiting >= BATCH && log) {
		e->waiting = 0;
		e->unrecorded = audit_write(log, NULL) < 0 || e->unrecorded;
	}
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

/* What is gone with its sandbox cannot be there after a loss of power when the record of it is not: writing it is enough, and the next sync takes it along. */
static bool leaves_traces(const struct cordon_exec *e)
{
	const struct cordon_sandbox *s = e->sandbox;
	if (s->policy.mounts_write.count > 0 || broker_needed(&s->policy))
		return true;
	if (s->live) /* with --parallel nobody can tell whose changes they are */
		return !e->tx.own || e->tx.layer[0] || e->tx.outcome == OUTCOME_ROLLED_BACK;
	return s->state.seed >= 0 && (e->result.transaction.changes_total < 0 || e->changes.count > 0);
}

int events_exec_end(struct cordon_exec *e, struct cordon_error *err)
{
	if (!e->recorded)
		return 0;
	e->recorded = false;
	struct audit *log = log_of(e, err);
	const bool sync = e->sandbox->policy.audit.sync != SYNC_SEAL && leaves_traces(e);
	if (e->unrecorded)
		return err_set(err, CORDON_ERR_SYSTEM, "the command has run, but not all of what it started could be recorded");
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
