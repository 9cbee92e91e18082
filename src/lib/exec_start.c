/* SPDX-License-Identifier: Apache-2.0 */
/* How a command gets to run: what code comes to, its socket and pipes, the request to init, and the word that it runs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/broker.h"
#include "lib/egress.h"
#include "lib/exec.h"
#include "lib/pool.h"
#include "lib/zygote.h"

/* ---- code instead of a command ------------------------------------------------------------------------------------------------ */

int exec_code_take(struct cordon_sandbox *s, struct cordon_exec_options *o, const char *id, struct exec_code *out, struct cordon_error *err)
{
	char dir[sizeof(CODE_DIR) + ID_LEN + 1] = CODE_DIR;
	*out = (struct exec_code){0};
	if (o->argv || !o->code)
		return o->argv && o->args ? err_set(err, CORDON_ERR_INPUT, "args are for code without argv") : 0;
	if (!o->language)
		return err_set(err, CORDON_ERR_INPUT, "code needs a language");
	const struct language *l = language_find(o->language);
	if (!l)
		return language_unknown(o->language, err);
	o->language = l->name;
	if (s->kind && zygote_possible(l->name))
		pool_learn(s->ctx->pool, s, l->name);
	/* beside other code in the same sandbox it gets a directory of its own */
	out->holds = !atomic_exchange(&s->code_taken, true);
	if (!out->holds)
		snprintf(dir, sizeof(dir), "%s/%s", CODE_DIR, id);
	const struct language_code code = {.dir = dir, .name = o->code_name, .data = o->code, .len = o->code_len, .args = o->args};
	if (language_program(l, &code, &out->program, err) < 0)
		return -1;
	o->argv = (const char *const *)out->program.argv.items;
	return 0;
}

void exec_code_clear(struct cordon_sandbox *s, struct exec_code *c)
{
	if (c->holds)
		atomic_store(&s->code_taken, false);
	language_program_clear(&c->program);
}

/* Its files as init takes them. */
static uint32_t list_files(const struct language_program *p, struct code_file out[CODE_FILES_MAX])
{
	for (size_t i = 0; i < p->file_count; i++)
		out[i] = (struct code_file){
			.path = p->paths[i] + sizeof(CODE_DIR), .mode = p->files[i].mode, .data = p->files[i].data, .len = p->files[i].len};
	return (uint32_t)p->file_count;
}

int exec_environment(const struct cordon_sandbox *s, const char *const *extra, const struct language *language, struct strlist *out,
                     struct cordon_error *err)
{
	extern char **environ;
	if (policy_environment_on(&s->policy, environ, &s->state.image_env, extra, out, err) < 0)
		return -1;
	return language ? language_environment(language, out, err) : 0;
}

/* ---- socket and pipes --------------------------------------------------------------------------------------------------------- */

/* ours: our end, non-blocking; theirs: the command's. */
static int make_pipe(bool command_reads, int *ours, int *theirs, struct cordon_error *err)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	*ours = command_reads ? p[1] : p[0];
	*theirs = command_reads ? p[0] : p[1];
	/* the command runs under another id, and programs reopen /dev/stdout; nobody else has a way to this pipe */
	if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 || fchmod(*theirs, 0666) < 0)
		return err_sys(err, "pipe");
	return 0;
}

static int make_socket(struct exec_ends *ours, struct exec_ends *theirs, struct cordon_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	ours->sock = pair[0];
	theirs->sock = pair[1];
	return 0;
}

int exec_make_ends(bool feed, struct exec_ends *ours, struct exec_ends *theirs, struct cordon_error *err)
{
	if (make_socket(ours, theirs, err) < 0)
		return -1;
	for (int i = 1; i < 3; i++)
		if (make_pipe(false, &ours->stdio[i], &theirs->stdio[i], err) < 0)
			return -1;
	if (feed)
		return make_pipe(true, &ours->stdio[0], &theirs->stdio[0], err);
	theirs->stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return theirs->stdio[0] < 0 ? err_sys(err, "/dev/null") : 0;
}

void exec_close_ends(struct exec_ends *t)
{
	cleanup_fd(&t->sock);
	for (int i = 0; i < 3; i++)
		cleanup_fd(&t->stdio[i]);
	*t = EXEC_NO_ENDS;
}

static int watch(struct cordon_exec *e, int fd, struct cordon_error *err)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? err_sys(err, "epoll_ctl") : 0;
}

static int make_set(struct cordon_exec *e, struct cordon_error *err)
{
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll < 0)
		return err_sys(err, "epoll_create1");
	if (!e->denied || !broker_needed(&e->sandbox->policy))
		return 0;
	e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return e->wake < 0 ? err_sys(err, "eventfd") : watch(e, e->wake, err);
}

/* ---- the request -------------------------------------------------------------------------------------------------------------- */

enum answer { ANSWER_FAILED = -1, ANSWER_STARTED, ANSWER_NONE /* it was dead before */ };

static int take_terminal(struct cordon_exec *e, struct wire_msg *msg, struct cordon_error *err)
{
	e->out.fd = wire_take_fd(msg, 0);
	if (e->out.fd < 0 || fcntl(e->out.fd, F_SETFL, O_NONBLOCK) < 0 || (e->input = fcntl(e->out.fd, F_DUPFD_CLOEXEC, 3)) < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the sandbox sent no terminal");
	return 0;
}

/* Waits for the word that it runs, or why not. */
static enum answer wait_started(struct cordon_exec *e, struct cordon_error *err)
{
	for (;;) {
		_cleanup_msg_ struct wire_msg msg;
		int r = wire_recv(e->sock, &msg, err);
		if (r == 0)
			err_set(err, CORDON_ERR_SYSTEM, "the sandbox is gone");
		if (r <= 0)
			return ANSWER_FAILED;
		if (msg.type == WIRE_TRACE && exec_take_traces(e, &msg, err) == 0)
			continue; /* one that was warm can be faster than init */
		if (msg.type == WIRE_EXITED)
			return ANSWER_NONE;
		if (msg.type == WIRE_ERROR) {
			error_decode(msg.body, msg.len, err);
			if (err && err->code == CORDON_ERR_NOT_FOUND && err->hint[0] && e->sandbox->state.image >= 0)
				err_hint(err, "the sandbox sees its image only; PATH is what the image says, unless the policy sets it");
			return ANSWER_FAILED;
		}
		if (msg.type != WIRE_STARTED)
			return (enum answer)err_set(err, CORDON_ERR_SYSTEM, "unexpected message from the sandbox");
		return e->tty && take_terminal(e, &msg, err) < 0 ? ANSWER_FAILED : ANSWER_STARTED;
	}
}

/* By an interpreter that waits. ANSWER_NONE: there is none for this, nothing has happened. */
static enum answer start_warm(struct cordon_exec *e, const struct zygote_request *r, struct cordon_error *err)
{
	if (!zygote_go(e, r))
		return ANSWER_NONE;
	const enum answer answer = wait_started(e, err);
	if (answer == ANSWER_NONE) { /* it died: as if it had not been there */
		struct exec_ends ours = {e->sock, {e->input, e->out.fd, e->err_stream.fd}};
		exec_close_ends(&ours);
		e->sock = e->input = e->out.fd = e->err_stream.fd = -1;
	}
	e->warm = answer == ANSWER_STARTED;
	return answer;
}

static enum answer start_cold(struct cordon_exec *e, const struct exec_spec *spec, struct exec_ends *theirs, struct cordon_error *err)
{
	struct exec_ends ours = EXEC_NO_ENDS;
	int r = e->tty ? make_socket(&ours, theirs, err) : exec_make_ends(e->flags & CORDON_EXEC_STDIN, &ours, theirs, err);
	e->sock = ours.sock;
	e->input = ours.stdio[0];
	e->out.fd = ours.stdio[1];
	e->err_stream.fd = ours.stdio[2];
	if (r < 0)
		return ANSWER_FAILED;
	const struct backend_exec b = {.spec = spec, .sock = theirs->sock, .stdio = {theirs->stdio[0], theirs->stdio[1], theirs->stdio[2]}};
	r = e->sandbox->backend->exec(&e->sandbox->state, &b, err);
	exec_close_ends(theirs);
	/* a lazily created sandbox that failed is gone by now, but has said why */
	struct cordon_error why = {0};
	if (sandbox_ready(e->sandbox, &why) < 0) {
		if (err)
			*err = why;
		return ANSWER_FAILED;
	}
	return r < 0 ? ANSWER_FAILED : wait_started(e, err);
}

static int send_request(struct cordon_exec *e, const struct zygote_request *r, struct cordon_error *err)
{
	struct exec_ends theirs = EXEC_NO_ENDS;
	if (make_set(e, err) < 0 || egress_enter(e, err) < 0)
		return -1;
	e->started_us = exec_clock_us();
	enum answer answer = start_warm(e, r, err);
	if (answer == ANSWER_NONE)
		answer = start_cold(e, r->spec, &theirs, err);
	exec_close_ends(&theirs);
	if (answer == ANSWER_NONE)
		err_set(err, CORDON_ERR_SYSTEM, "unexpected message from the sandbox");
	return answer == ANSWER_STARTED ? 0 : -1;
}

int exec_launch(struct cordon_exec *e, const struct cordon_exec_options *o, const struct language_program *program,
                struct cordon_error *err)
{
	struct code_file files[CODE_FILES_MAX];
	struct strlist env = {0};
	struct exec_spec spec = {
		.tty = e->tty,
		.rows = o->rows,
		.cols = o->cols,
		.timeout_ms = e->timeout_ms,
		.files = e->sandbox->policy.limits.files,
		.cwd = o->cwd ? o->cwd : "/app",
		.code = files,
		.code_count = list_files(program, files),
	};
	if (!o->argv || !o->argv[0])
		return err_set(err, CORDON_ERR_INPUT, "no command given");
	spec.tracked = e->sandbox->live != NULL;
	spec.more = atomic_fetch_add(&e->sandbox->execs, 1) > 0 || e->sandbox->live;
	spec.remounted = atomic_exchange(&e->sandbox->state.remounted, false);
	if (spec.cwd[0] != '/')
		return err_set(err, CORDON_ERR_INPUT, "working directory '%.200s' is not an absolute path inside the sandbox", spec.cwd);
	spec.argv.items = (const char **)(void *)o->argv;
	while (o->argv[spec.argv.count])
		spec.argv.count++;
	int r = exec_environment(e->sandbox, o->env, program->language, &env, err);
	spec.env.items = (const char **)(void *)env.items;
	spec.env.count = (uint32_t)env.count;
	const struct zygote_request request = {.program = program->language ? program : NULL, .options = o, .spec = &spec, .env = &env};
	if (r == 0)
		r = send_request(e, &request, err);
	strlist_free(&env);
	if (r < 0 || watch(e, e->sock, err) < 0)
		return -1;
	if (atomic_exchange(&e->sandbox->resting, false) && e->sandbox->backend->unpark(e->sandbox->ctx, &e->sandbox->state, err) < 0)
		return -1;
	e->running = true;
	exec_prepare_end(e);
	if (watch(e, e->out.fd, err) < 0)
		return -1;
	return e->err_stream.fd >= 0 ? watch(e, e->err_stream.fd, err) : 0;
}
