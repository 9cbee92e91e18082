/* SPDX-License-Identifier: Apache-2.0 */
/* What came of a command: reason, usage, which limit was hit; and the same as JSON. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "lib/context.h"
#include "lib/exec.h"
#include "sandbox/limits.h"
#include "sandbox/watch.h"

/* ---- usage ------------------------------------------------------------------------------------------------------------------- */

/* From a file of the cgroup or, if that is gone already, from what the launcher kept of it. */
static bool read_number(const struct backend_sandbox *s, enum created_fd which, const char *key, int64_t *out)
{
	char text[WATCH_TEXT_SIZE];
	if (s->fds[which] < 0)
		return false;
	ssize_t n = pread(s->fds[which], text, sizeof(text) - 1, 0);
	if (n <= 0)
		n = pread(s->fds[CREATED_WATCH], text, sizeof(text) - 1, WATCH_TEXT_AT(which));
	if (n <= 0)
		return false;
	text[n] = '\0';
	char *p = text;
	if (key) {
		size_t len = strlen(key); /* a line of its own: "oom_kill_disable 0" is not "oom_kill 0" */
		for (p = strstr(text, key); p && ((p != text && p[-1] != '\n') || p[len] != ' '); p = strstr(p + 1, key))
			;
		if (!p)
			return false;
		p += len + 1;
	}
	char *end;
	long long v = strtoll(p, &end, 10);
	if (end == p)
		return false;
	*out = v;
	return true;
}

static struct watch_record read_record(const struct backend_sandbox *s)
{
	struct watch_record r = {0};
	int fd = s->fds[CREATED_WATCH];
	if (fd < 0 || pread(fd, &r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return (struct watch_record){0};
	return r;
}

static const char *method(uint32_t m, const char *fallback)
{
	switch ((enum limit_method)m) {
	case LIMIT_CGROUP2:
		return "cgroup2";
	case LIMIT_CGROUP1:
		return "cgroup1";
	case LIMIT_RLIMIT:
		return fallback;
	case LIMIT_NONE:
	default:
		return "none";
	}
}

static void fill_usage(struct cordon_exec *e, const struct watch_record *watched)
{
	const struct backend_sandbox *s = &e->sandbox->state;
	struct cordon_usage *u = &e->result.usage;
	int64_t cpu_us = e->exited ? (int64_t)e->end.cpu_us : (int64_t)watched->cpu_us;
	if (!e->exited)
		read_number(s, CREATED_CPU, "usage_usec", &cpu_us);
	u->cpu_ms = (double)cpu_us / 1000;
	u->memory_by = method(s->info.memory_by, "rlimit+watch");
	u->pids_by = method(s->info.pids_by, "rlimit");
	u->cpu_by = method(s->info.cpu_by, "affinity");
	u->disk_by = "watch";
	u->memory_peak_bytes = u->pids_peak = -1;
	if (s->info.memory_by == LIMIT_RLIMIT)
		u->memory_peak_bytes = (int64_t)MAX(watched->memory_peak, e->end.maxrss_kb * 1024);
	else
		read_number(s, CREATED_MEMORY, NULL, &u->memory_peak_bytes);
	if (read_number(s, CREATED_PIDS, NULL, &u->pids_peak) && u->pids_peak > 0)
		u->pids_peak--; /* init */
}

int64_t result_oom_kills(const struct backend_sandbox *s)
{
	int64_t kills = 0;
	read_number(s, CREATED_OOM, "oom_kill", &kills);
	return kills;
}

/* ---- reason ------------------------------------------------------------------------------------------------------------------ */

static void ended(struct cordon_exec *e, const char *reason, int exit_code, int signo)
{
	struct cordon_result *r = &e->result;
	r->reason = reason;
	r->exit_code = exit_code;
	r->signal = signo;
	r->state = reason || exit_code ? "failed" : "succeeded";
}

static void explain(struct cordon_exec *e, const char *what, const char *value, const char *flag)
{
	snprintf(e->error_text, sizeof(e->error_text), "%s %s", what, value);
	snprintf(e->hint_text, sizeof(e->hint_text), "raise with %s", flag);
	e->result.error = e->error_text;
	e->result.hint = e->hint_text;
}

static void fill_reason(struct cordon_exec *e, const struct watch_record *watched)
{
	const struct policy_limits *limits = &e->sandbox->policy.limits;
	const int status = e->end.status;
	const bool killed = e->lost || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	const int64_t oom_kills = result_oom_kills(&e->sandbox->state) - e->oom_before;
	char text[32];

	if (e->end.timed_out) {
		ended(e, "timeout", 124, SIGKILL);
		explain(e, "timed out after", units_format_duration(e->timeout_ms, text), "--timeout");
	} else if (e->end.cancelled) {
		ended(e, "cancelled", 128 + SIGKILL, SIGKILL);
	} else if (killed && (watched->over_memory || oom_kills > 0)) {
		ended(e, "oom", 128 + SIGKILL, SIGKILL);
		explain(e, "killed at the memory limit of", units_format_size(limits->memory, text), "--memory");
	} else if (killed && watched->over_disk) {
		ended(e, "signal", 128 + SIGKILL, SIGKILL);
		explain(e, "killed at the disk limit of", units_format_size(limits->disk, text), "--disk");
	} else if (e->lost) {
		ended(e, "error", 125, 0);
		snprintf(e->error_text, sizeof(e->error_text), "the sandbox was killed from outside");
		e->result.error = e->error_text;
	} else if (WIFSIGNALED(status)) {
		ended(e, "signal", 128 + WTERMSIG(status), WTERMSIG(status));
		if (WTERMSIG(status) == SIGXFSZ)
			explain(e, "a file reached the disk limit of", units_format_size(limits->disk, text), "--disk");
	} else {
		ended(e, WEXITSTATUS(status) ? "exit" : NULL, WEXITSTATUS(status), 0);
		if (oom_kills > 0)
			explain(e, "a process was killed at the memory limit of", units_format_size(limits->memory, text), "--memory");
	}
}

/* What this host holds in a weaker form than the policy asks for. Affinity can only count whole CPUs. */
static void fill_weak(struct cordon_exec *e)
{
	const struct created_msg *info = &e->sandbox->state.info;
	const struct {
		const char *name;
		bool weak;
	} table[] = {
		{"memory", info->memory_by == LIMIT_RLIMIT},
		{"cpu", info->cpu_by == LIMIT_RLIMIT && e->sandbox->policy.limits.cpus_milli % 1000 != 0},
		{"landlock", info->weak_landlock},
	};
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].weak)
			n += (size_t)snprintf(e->weak_text + n, sizeof(e->weak_text) - n, "%s%s", n ? "," : "", table[i].name);
	e->result.weak = n ? e->weak_text : NULL;
}

void result_fill(struct cordon_exec *e)
{
	struct cordon_result *r = &e->result;
	const struct backend_sandbox *s = &e->sandbox->state;
	const struct watch_record watched = read_record(s);
	memcpy(r->sandbox, e->sandbox->live ? e->sandbox->live->box.id : s->id, sizeof(s->id));
	r->stdout_data = e->out.kept.data ? e->out.kept.data : "";
	r->stdout_len = e->out.kept.len;
	r->stderr_data = e->err_stream.kept.data ? e->err_stream.kept.data : "";
	r->stderr_len = e->err_stream.kept.len;
	r->stdout_truncated = e->out.truncated;
	r->stderr_truncated = e->err_stream.truncated;
	r->duration_ms = (double)(e->exited ? e->end.duration_us : exec_clock_us() - e->started_us) / 1000;
	r->denials = e->denials.items;
	r->denial_count = e->denials.count;
	fill_usage(e, &watched);
	fill_reason(e, &watched);
	fill_weak(e);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------------- */

static void kint_or_null(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	if (v < 0)
		json_null(j);
	else
		json_int(j, v);
}

static void usage_json(struct json *j, const struct cordon_usage *u)
{
	json_key(j, "usage");
	json_object(j);
	json_kdouble(j, "cpu_ms", u->cpu_ms);
	kint_or_null(j, "memory_peak_bytes", u->memory_peak_bytes);
	kint_or_null(j, "pids_peak", u->pids_peak);
	json_key(j, "limit_by");
	json_object(j);
	json_kstr(j, "memory", u->memory_by);
	json_kstr(j, "pids", u->pids_by);
	json_kstr(j, "cpu", u->cpu_by);
	json_kstr(j, "disk", u->disk_by);
	json_end(j);
	json_end(j);
}

static void transaction_json(struct json *j, const struct cordon_transaction *t)
{
	json_key(j, "transaction");
	json_object(j);
	json_kstr(j, "outcome", t->outcome ? t->outcome : "none");
	json_kstr(j, "before", t->before[0] ? t->before : NULL);
	json_kstr(j, "after", t->after[0] ? t->after : NULL);
	json_key(j, "changes");
	json_array(j);
	for (size_t i = 0; i < t->change_count; i++) {
		json_object(j);
		json_kstr(j, "op", t->changes[i].op);
		json_kpath(j, t->changes[i].path);
		json_kint(j, "bytes", (int64_t)t->changes[i].bytes);
		json_end(j);
	}
	json_end(j);
	json_kint(j, "changes_total", MAX(t->changes_total, (int64_t)0));
	json_key(j, "conflicts");
	json_array(j);
	for (size_t i = 0; i < t->conflict_count; i++) {
		json_object(j);
		json_kstr(j, "kind", t->conflicts[i].kind);
		json_kpath(j, t->conflicts[i].path);
		json_kstr(j, "why", t->conflicts[i].why);
		json_end(j);
	}
	json_end(j);
	json_key(j, "services");
	json_array(j);
	for (size_t i = 0; i < t->service_count; i++)
		json_str(j, t->services[i]);
	json_end(j);
	json_end(j);
}

void denial_json(struct json *j, const struct cordon_denial *d)
{
	json_object(j);
	json_kstr(j, "category", d->category);
	json_kstr(j, "target", d->target);
	json_kstr(j, "rule", d->rule);
	json_kstr(j, "errno", d->errno_name);
	json_kstr(j, "hint", d->hint);
	json_end(j);
}

char *cordon_result_json(const struct cordon_result *r)
{
	struct buf b = {.cap = (size_t)4 << 30};
	struct json j = {.out = &b};
	json_object(&j);
	json_kint(&j, "schema", 1);
	json_kstr(&j, "id", r->id[0] ? r->id : NULL);
	json_kstr(&j, "sandbox", r->sandbox[0] ? r->sandbox : NULL);
	json_kstr(&j, "state", r->state);
	json_kstr(&j, "reason", r->reason);
	json_kint(&j, "exit_code", r->exit_code);
	kint_or_null(&j, "signal", r->signal ? r->signal : -1);
	json_key(&j, "stdout");
	const char *out_encoding = json_bytes(&j, r->stdout_data, r->stdout_len);
	json_key(&j, "stderr");
	const char *err_encoding = json_bytes(&j, r->stderr_data, r->stderr_len);
	json_key(&j, "encoding");
	json_object(&j);
	json_kstr(&j, "stdout", out_encoding);
	json_kstr(&j, "stderr", err_encoding);
	json_end(&j);
	json_key(&j, "truncated");
	json_object(&j);
	json_kbool(&j, "stdout", r->stdout_truncated);
	json_kbool(&j, "stderr", r->stderr_truncated);
	json_end(&j);
	json_kdouble(&j, "duration_ms", r->duration_ms);
	usage_json(&j, &r->usage);
	transaction_json(&j, &r->transaction);
	json_key(&j, "denials");
	json_array(&j);
	for (size_t i = 0; i < r->denial_count; i++)
		denial_json(&j, &r->denials[i]);
	json_end(&j);
	json_kstr(&j, "weak", r->weak);
	json_kstr(&j, "error", r->error);
	json_kstr(&j, "hint", r->hint);
	json_end(&j);
	char *text = buf_steal(&b);
	buf_free(&b);
	return text;
}
