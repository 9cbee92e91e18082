/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int failures;

bool check(bool good, const char *fmt, ...)
{
	va_list args;

	fputs(good ? "ok - " : "not ok - ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	fputc('\n', stdout);
	fflush(stdout);
	failures += !good;
	return good;
}

void give_up(const char *fmt, ...)
{
	va_list args;

	fputs("not ok - ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	fputc('\n', stdout);
	fflush(stdout);
	exit(1);
}

/* ---- sandboxes --------------------------------------------------------------------------------------------------------------- */

void make_box(const char *workspace, const char *const *settings, char id[21])
{
	struct cordon_create_options o = {.size = sizeof(o), .workspace = workspace, .policy = settings};
	struct cordon_error err = {0};

	if (cordon_create(&o, id, &err) < 0)
		give_up("a sandbox can be created: %s", err.message);
}

struct cordon_sandbox *open_box(struct cordon *c, const char *what)
{
	struct cordon_sandbox *s = NULL;
	struct cordon_error err = {0};

	if (cordon_sandbox_open(c, what, &s, &err) < 0)
		give_up("sandbox %s can be opened: %s", what, err.message);
	return s;
}

/* ---- execs ------------------------------------------------------------------------------------------------------------------- */

struct cordon_exec *start_line(struct cordon_sandbox *s, const char *line, struct cordon_exec_options more, struct cordon_error *err)
{
	const char *const argv[] = {"sh", "-c", line, NULL};
	struct cordon_exec *e = NULL;

	more.size = sizeof(more);
	more.argv = argv;
	return cordon_exec_start(s, &more, &e, err) < 0 ? NULL : e;
}

static void list_changes(const struct cordon_transaction *t, char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < t->change_count && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%s %s", i ? ", " : "", t->changes[i].op, t->changes[i].path);
}

struct ended end_exec(struct cordon_exec *e)
{
	struct ended d = {.status = -1};

	if (!e || cordon_exec_wait(e, &d.error) < 0) {
		if (e)
			printf("# waiting: %s\n", d.error.message);
		cordon_exec_free(e);
		return d;
	}
	const struct cordon_result *r = cordon_exec_result(e);
	d.status = r->exit_code;
	snprintf(d.error.message, sizeof(d.error.message), "%s", r->error ? r->error : "");
	snprintf(d.reason, sizeof(d.reason), "%s", r->reason ? r->reason : "");
	snprintf(d.outcome, sizeof(d.outcome), "%s", r->transaction.outcome ? r->transaction.outcome : "?");
	snprintf(d.before, sizeof(d.before), "%s", r->transaction.before);
	snprintf(d.after, sizeof(d.after), "%s", r->transaction.after);
	snprintf(d.out, sizeof(d.out), "%s", r->stdout_data);
	list_changes(&r->transaction, d.changes, sizeof(d.changes));
	if (r->stderr_len)
		printf("# stderr: %.300s\n", r->stderr_data);
	cordon_exec_free(e);
	return d;
}

struct ended run_line(struct cordon_sandbox *s, const char *line)
{
	struct cordon_error err = {0};
	struct cordon_exec *e = start_line(s, line, (struct cordon_exec_options){0}, &err);
	struct ended d = end_exec(e);

	if (!e) {
		printf("# '%s' does not start: %s\n", line, err.message);
		d.error = err;
	}
	return d;
}

bool prints(struct cordon_sandbox *s, const char *line, const char *want)
{
	struct ended d = run_line(s, line);
	bool good = d.status == 0 && strcmp(d.out, want) == 0;

	if (!good)
		printf("# '%s': status %d, printed '%s', not '%s'\n", line, d.status, d.out, want);
	return good;
}

bool ended_so(const struct ended *e, int status, const char *outcome)
{
	bool good = e->status == status && strcmp(e->outcome, outcome) == 0;

	if (!good)
		printf("# status %d, reason '%s', outcome %s, changes '%s', printed '%s'\n", e->status, e->reason, e->outcome, e->changes,
		       e->out);
	return good;
}

/* ---- services ---------------------------------------------------------------------------------------------------------------- */

#define END "[end]\n"

static void keep_output(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	struct service *v = user;
	size_t room = sizeof(v->out) - 1 - v->len;

	if (stream == CORDON_STDERR)
		printf("# service: %.*s\n", (int)len, (const char *)data);
	memcpy(v->out + v->len, data, len < room ? len : room);
	v->len += len < room ? len : room;
	v->out[v->len] = '\0';
}

struct service *start_service(struct cordon_sandbox *s)
{
	struct service *v = calloc(1, sizeof(*v));
	struct cordon_error err = {0};

	if (!v)
		give_up("a service can be started");
	v->exec = start_line(
		s, "while read -r line; do eval \"$line\"; echo; echo '[end]'; done",
		(struct cordon_exec_options){.flags = CORDON_EXEC_PARALLEL | CORDON_EXEC_STDIN | CORDON_EXEC_DISCARD | CORDON_EXEC_ENDLESS,
	                                     .on_output = keep_output,
	                                     .user = v,
	                                     .timeout_ms = -1},
		&err);
	if (!v->exec)
		give_up("a service can be started: %s", err.message);
	return v;
}

const char *tell(struct service *v, const char *line)
{
	struct cordon_error err = {0};
	char text[1024];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s\n", line), tail = strlen("\n" END);

	v->len = 0;
	v->out[0] = '\0';
	if (cordon_exec_write(v->exec, text, len) != (ssize_t)len)
		return NULL;
	while (v->len < tail || strcmp(v->out + v->len - tail, "\n" END) != 0) {
		struct pollfd p = {.fd = cordon_exec_fd(v->exec), .events = POLLIN};

		if (poll(&p, 1, -1) < 0 || cordon_exec_step(v->exec, &err) != 1) {
			printf("# the service ended: %s, '%s'\n", err.message, v->out);
			return NULL;
		}
	}
	v->out[v->len - tail] = '\0';
	return v->out;
}

bool answers(struct service *v, const char *line, const char *want)
{
	const char *got = tell(v, line);
	bool good = got && strcmp(got, want) == 0;

	if (!good)
		printf("# the service answers '%s' to '%s', not '%s'\n", got ? got : "nothing", line, want);
	return good;
}

void end_service(struct service *v)
{
	cordon_exec_cancel(v->exec, NULL);
	cordon_exec_wait(v->exec, NULL);
	cordon_exec_free(v->exec);
	free(v);
}
