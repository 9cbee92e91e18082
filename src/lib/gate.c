/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "gate/messages.h"
#include "lib/events.h"
#include "lib/program.h"
#include "policy/gate_policy.h"

#define PROGRAM "cordon-gate"
#define HIGH_FD 10
#define PATIENCE_MS 10000   /* the gate gives up by itself long before */
#define TOLD_FINDINGS 16    /* in one record */
#define REMEMBERED_MAX 4096 /* bytes of a question */

/* Whatever their arguments: they compute, print and end. Asking about these would be a waste of time. */
static const char *const harmless[] = {"true", "false", "echo",  "printf", "pwd",  "id",   "whoami", "date",     "uname",
                                       "arch", "nproc", "sleep", "seq",    "expr", "test", "[",      "basename", "dirname"};

static bool is_harmless(const char *const *argv)
{
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
	/* by its plain name, or where the system has it: one in the workspace can be anything */
	if (slash && strncmp(argv[0], "/bin/", 5) != 0 && strncmp(argv[0], "/usr/bin/", 9) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (strcmp(harmless[i], name) == 0)
			return true;
	return false;
}

static bool is_wanted(const struct gate_for *who, const struct gate_command *c)
{
	const struct policy_patterns *p = &who->policy->patterns;
	if (p->use.count == 0 && p->add.count == 0)
		return false;
	if (p->action == ACTION_ALLOW && p->unproven == UNPROVEN_ALLOW)
		return false;
	return c->language || p->add.count || (c->argv && c->argv[0] && !is_harmless(c->argv));
}

/* ---- the process -------------------------------------------------------------------------------------------------------------- */

void gate_end(struct cordon *ctx)
{
	cleanup_fd(&ctx->gate);
	ctx->gate = -1;
	if (ctx->gate_pid > 0) {
		kill(ctx->gate_pid, SIGKILL);
		while (waitpid(ctx->gate_pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	ctx->gate_pid = 0;
	buf_free(&ctx->gate_config);
	for (size_t i = 0; i < GATE_REMEMBERS; i++)
		buf_free(&ctx->gate_passed[i]);
	ctx->gate_open = false;
}

void gate_dismiss(struct cordon *ctx)
{
	pthread_mutex_lock(&ctx->lock);
	cleanup_fd(&ctx->gate);
	ctx->gate = -1;
	buf_free(&ctx->gate_config); /* whoever asks next starts another one */
	pthread_mutex_unlock(&ctx->lock);
}

static int start(struct cordon *ctx, struct cordon_error *err)
{
	char path[PATH_MAX];
	int pair[2];
	program_find(PROGRAM, path);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	_cleanup_fd_ int low = pair[1], theirs = fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
	ctx->gate = pair[0];
	errno = theirs < 0 ? errno : program_spawn_on(path, PROGRAM, theirs, GATE_FD, &ctx->gate_pid);
	if (errno == 0)
		return 0;
	ctx->gate_pid = 0;
	err_sys(err, "cannot start the gate, %s", path);
	return err_hint(err, "`make install` puts it there; patterns.use: [] in a policy does without");
}

/* One that was killed is not asked: its silence would be taken for what it thinks of the question. */
static bool is_alive(const struct cordon *ctx)
{
	struct pollfd p = {.fd = ctx->gate};
	return ctx->gate_pid && poll(&p, 1, 0) == 0;
}

/* By the lock. Started, with the rules of this policy on their way to it. */
static int begin(struct cordon *ctx, const struct cordon_policy *policy, struct cordon_error *err)
{
	_cleanup_buf_ struct buf config = {0};
	struct gate_config c;
	if (gate_config_of(policy, &c, err) < 0)
		return -1;
	gate_config_encode(&c, &config);
	free((void *)(uintptr_t)c.additions);
	if (config.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (is_alive(ctx) && config.len == ctx->gate_config.len && memcmp(config.data, ctx->gate_config.data, config.len) == 0)
		return 0;
	gate_end(ctx);
	if (start(ctx, err) < 0 || wire_send(ctx->gate, WIRE_GATE, &config, NULL, 0, err) < 0) {
		gate_end(ctx);
		return -1;
	}
	ctx->gate_config = config;
	config = (struct buf){0};
	return 0;
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------- */

static int receive(struct cordon *ctx, struct wire_msg *msg, struct cordon_error *err)
{
	struct pollfd p = {.fd = ctx->gate, .events = POLLIN};
	int r;
	do
		r = poll(&p, 1, PATIENCE_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0 || (r = wire_recv(ctx->gate, msg, err)) <= 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the gate does not answer");
	if (msg->type == WIRE_ERROR) {
		error_decode(msg->body, msg->len, err);
		return -1;
	}
	return msg->type == WIRE_GATE ? 0 : err_set(err, CORDON_ERR_SYSTEM, "unexpected answer from the gate");
}

static int wait_open(struct cordon *ctx, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	if (ctx->gate_open)
		return 0;
	if (receive(ctx, &msg, err) < 0)
		return -1;
	ctx->gate_open = true;
	return 0;
}

static void ask_about(const struct gate_command *c, struct gate_asked *q)
{
	int language = c->language ? gate_language_find(c->language) : -1;
	*q = (struct gate_asked){.is_argv = language < 0, .language = language < 0 ? GATE_SHELL : (enum gate_language)language};
	if (language >= 0) {
		q->text = c->code;
		q->len = c->len;
		return;
	}
	q->argv.items = (const char **)(uintptr_t)c->argv;
	while (c->argv[q->argv.count])
		q->argv.count++;
}

/* By the lock, as the next. */
static bool has_passed(const struct cordon *ctx, const struct buf *question)
{
	for (size_t i = 0; i < GATE_REMEMBERS; i++) {
		const struct buf *b = &ctx->gate_passed[i];
		if (b->len == question->len && b->len && memcmp(b->data, question->data, b->len) == 0)
			return true;
	}
	return false;
}

static void remember(struct cordon *ctx, struct buf *question)
{
	if (question->len > REMEMBERED_MAX)
		return;
	struct buf *b = &ctx->gate_passed[ctx->gate_next++ % GATE_REMEMBERS];
	buf_free(b);
	*b = *question;
	*question = (struct buf){0};
}

/* By the lock. The result points into the message. */
static int ask(struct cordon *ctx, const struct gate_command *c, struct wire_msg *msg, struct gate_result *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {.cap = WIRE_MAX};
	struct gate_asked q;
	ask_about(c, &q);
	gate_asked_encode(&q, &body);
	if (body.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "too long for the gate");
	if (has_passed(ctx, &body))
		return 0;
	if (wire_send(ctx->gate, WIRE_GATE, &body, NULL, 0, err) < 0 || receive(ctx, msg, err) < 0 ||
	    gate_result_decode(msg->body, msg->len, out, err) < 0)
		return -1;
	if (out->count == 0 && out->verdict == GATE_ALLOW)
		remember(ctx, &body);
	return 0;
}

/* What cannot be judged is unproven, and why is said: a text that kills its judge must not be better off than one that does not. */
static struct gate_result unjudged(struct gate_finding *finding, const char *why)
{
	*finding =
		(struct gate_finding){.verdict = GATE_UNPROVEN, .rule = "gate-failed", .reason = why, .severity = GATE_HIGH, .snippet = ""};
	return (struct gate_result){.verdict = GATE_UNPROVEN, .items = finding, .count = 1};
}

/* ---- telling ------------------------------------------------------------------------------------------------------------------ */

static void rule_name(const struct gate_finding *f, char out[128])
{
	snprintf(out, 128, "%s/%s", f->pack ? f->pack : "gate", f->rule);
}

static int record(const struct gate_for *who, const struct gate_command *c, const struct gate_result *r, const struct gate_decision *d,
                  struct cordon_error *err)
{
	struct audit_field fields[TOLD_FINDINGS][6];
	const struct audit_field *list[TOLD_FINDINGS + 1] = {NULL};
	char names[TOLD_FINDINGS][128];
	for (size_t i = 0; i < MIN(r->count, (size_t)TOLD_FINDINGS); i++) {
		const struct gate_finding *f = &r->items[i];
		rule_name(f, names[i]);
		const struct audit_field one[] = {AUDIT_TEXT("rule", names[i]),      AUDIT_TEXT("verdict", gate_verdict_names[f->verdict]),
		                                  AUDIT_TEXT("reason", f->reason),   AUDIT_INT("line", f->line),
		                                  AUDIT_TEXT("snippet", f->snippet), AUDIT_END};
		memcpy(fields[i], one, sizeof(one));
		list[i] = fields[i];
	}
	const struct audit_field detail[] = {AUDIT_TEXT("verdict", d->verdict), AUDIT_ARGV("argv", c->argv),
	                                     AUDIT_TEXT("language", c->language), AUDIT_OBJECTS("findings", list), AUDIT_END};
	const struct audit_event event = {.level = AUDIT_WARNING,
	                                  .category = AUDIT_POLICY,
	                                  .action = "gate",
	                                  .allowed = d->allowed ? AUDIT_ALLOWED : AUDIT_DENIED,
	                                  .sandbox = who->sandbox,
	                                  .exec = who->exec,
	                                  .target = c->argv && c->argv[0] ? c->argv[0] : NULL,
	                                  .rule = r->count ? names[0] : NULL,
	                                  .detail = detail};
	return events_refused(who->ctx, who->policy, &event, err);
}

static int refuse(const struct gate_for *who, const struct gate_command *c, const struct gate_result *r, struct denials *refused,
                  struct cordon_error *err)
{
	const enum gate_verdict wanted = who->policy->patterns.action == ACTION_DENY && r->verdict == GATE_DENY ? GATE_DENY : GATE_UNPROVEN;
	const struct gate_finding *first = NULL;
	for (size_t i = 0; i < r->count; i++) {
		const struct gate_finding *f = &r->items[i];
		char rule[128];
		rule_name(f, rule);
		const struct cordon_denial d = {
			.category = "gate", .target = *f->snippet ? f->snippet : c->argv[0], .rule = rule, .hint = f->reason};
		if (refused && f->verdict >= wanted && denials_add(refused, &d, err) < 0)
			return -1;
		if (!first && f->verdict >= wanted)
			first = f;
	}
	char rule[128] = "gate";
	if (first)
		rule_name(first, rule);
	err_set(err, CORDON_ERR_DENIED, "refused by %s: %s (line %u, column %u)", rule, first ? first->reason : "", first ? first->line : 1,
	        first ? first->column : 1);
	return err_hint(err, "cordon policy explain --command '...' tells why; patterns.action: warn in a policy lets it run");
}

int gate_check(const struct gate_for *who, const struct gate_command *command, struct denials *refused, struct cordon_error *err)
{
	struct cordon *ctx = who->ctx;
	_cleanup_msg_ struct wire_msg msg = {0};
	struct gate_result result = {0};
	struct gate_finding failed;
	struct cordon_error why = {0};
	if (!is_wanted(who, command))
		return 0;
	pthread_mutex_lock(&ctx->lock);
	int opened = begin(ctx, who->policy, err) < 0 || wait_open(ctx, err) < 0 ? -1 : 0;
	int asked = opened < 0 ? -1 : ask(ctx, command, &msg, &result, &why);
	if (opened < 0 || asked < 0)
		gate_end(ctx);
	pthread_mutex_unlock(&ctx->lock);
	if (opened < 0)
		return -1;
	struct gate_finding *items = asked == 0 ? result.items : NULL;
	if (asked < 0)
		result = unjudged(&failed, why.message);
	const struct gate_decision d = gate_decide(who->policy, &result);
	int r = result.count ? record(who, command, &result, &d, err) : 0;
	if (r == 0 && !d.allowed)
		r = refuse(who, command, &result, refused, err);
	free(items);
	return r;
}
