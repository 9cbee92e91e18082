/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/zygote.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"

#define HOOK_DIR ".warm" /* in CODE_DIR, until there is code */

extern const char python_hook[], python_hook_end[], python_leave[], python_leave_end[]; /* src/interpreters/python */

struct hook_file {
	const char *path, *text, *end;
};

static const struct hook_file python_files[] = {
	{HOOK_DIR "/sitecustomize.py", python_hook, python_hook_end},
	{HOOK_DIR "/leave.py", python_leave, python_leave_end},
};

/* How a hook gets into an interpreter: as files in a directory that a variable names first. */
static const struct hook {
	const char *language;
	const char *variable;
	const struct hook_file *files;
	uint32_t count;
} hooks[] = {
	{"python", "PYTHONPATH", python_files, ARRAY_SIZE(python_files)},
};
#define HOOK_FILES_MAX 4 /* that of modules to import ahead included */

/*
 * Variables that interpreters, and the C library, look at while they start: with others than it was parked with, a zygote is not what a fresh
 * interpreter would be. Those of the second part are for modules that were imported ahead.
 */
static const char *const read_at_start[] = {"HOME", "PATH",    "TZ",       "TZDIR",   "LANG",       "LANGUAGE", "LC_*",
                                            "LD_*", "PYTHON*", "MALLOC_*", "GLIBC_*", "GCONV_PATH", "LOCPATH",  "NLSPATH"};
static const char *const read_by_modules[] = {"OMP_*",   "OPENBLAS_*", "GOTO_*",    "MKL_*",      "BLIS_*",      "KMP_*",   "NUMEXPR_*",
                                              "NUMBA_*", "NPY_*",      "NUMPY_*",   "PANDAS_*",   "ARROW_*",     "MPL*",    "MATPLOTLIB*",
                                              "XDG_*",   "SSL_*",      "OPENSSL_*", "REQUESTS_*", "CURL_*",      "HTTPX_*", "TMPDIR",
                                              "TEMP",    "TMP",        "DISPLAY",   "NO_COLOR",   "FORCE_COLOR", "TERM",    "COLUMNS"};

struct zygote {
	const struct language *language;
	struct strlist env; /* as a program of it would have had it */
	bool preloads, ready, failed;
	struct cordon_error why;
	int sock, input, out, err;
};

static const struct hook *find_hook(const struct language *l)
{
	for (size_t i = 0; l && i < ARRAY_SIZE(hooks); i++)
		if (strcmp(hooks[i].language, l->name) == 0)
			return &hooks[i];
	return NULL;
}

bool zygote_possible(const char *language)
{
	return find_hook(language_find(language));
}

static void zygote_free(struct zygote *z)
{
	if (!z)
		return;
	int *fds[] = {&z->sock, &z->input, &z->out, &z->err}; /* closing the socket ends it */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		cleanup_fd(fds[i]);
	strlist_free(&z->env);
	free(z);
}

/* One thread gets it. */
static struct zygote *take(struct cordon_sandbox *s)
{
	return atomic_exchange(&s->zygote, NULL);
}

void zygote_drop(struct cordon_sandbox *s)
{
	zygote_free(take(s));
}

/* What is started instead has the sandbox for itself. */
static void end(struct zygote *z)
{
	bool over = !z || z->sock < 0 || wire_send(z->sock, WIRE_CANCEL, NULL, NULL, 0, NULL) < 0;
	while (!over) {
		_cleanup_msg_ struct wire_msg msg = {0};
		over = wire_recv(z->sock, &msg, NULL) <= 0 || msg.type == WIRE_EXITED || msg.type == WIRE_ERROR;
	}
	zygote_free(z);
}

/* ---- parking ------------------------------------------------------------------------------------------------------------------ */

/* The environment that makes it load the hook. */
static int hooked_environment(const struct hook *h, const struct strlist *env, struct strlist *out, struct cordon_error *err)
{
	const size_t name = strlen(h->variable);
	for (size_t i = 0; i < env->count; i++) {
		const char *item = env->items[i];
		const bool is = strncmp(item, h->variable, name) == 0 && item[name] == '=';
		_cleanup_free_ char *text = NULL;
		if (is && asprintf(&text, "%s=%s/%s:%s", h->variable, CODE_DIR, HOOK_DIR, item + name + 1) < 0)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		if (strlist_add(out, is ? text : item, err) < 0)
			return -1;
	}
	return 0;
}

static int send_park(struct cordon_sandbox *s, const struct hook *h, const struct zygote *z, const struct strlist *preload,
                     const struct exec_ends *ends, struct cordon_error *err)
{
	struct language_program program;
	struct strlist env = {0};
	_cleanup_buf_ struct buf names = {0};
	for (size_t i = 0; preload && i < preload->count; i++)
		buf_addf(&names, "%s\n", preload->items[i]);
	struct code_file files[HOOK_FILES_MAX] = {
		{.path = HOOK_DIR "/preload", .mode = 0444, .data = names.data ? names.data : "", .len = names.len},
	};
	for (uint32_t i = 0; i < h->count; i++)
		files[i + 1] = (struct code_file){.path = h->files[i].path,
		                                  .mode = 0444,
		                                  .data = h->files[i].text,
		                                  .len = (size_t)(h->files[i].end - h->files[i].text)};
	struct exec_spec spec = {
		.parked = 1,
		.more = 1,
		.tracked = s->live != NULL,
		.files = s->policy.limits.files,
		.cwd = "/",
		.code = files,
		.code_count = h->count + 1,
	};
	const struct backend_exec b = {.spec = &spec, .sock = ends->sock, .stdio = {ends->stdio[0], ends->stdio[1], ends->stdio[2]}};
	int r = language_program(z->language, &(struct language_code){.dir = CODE_DIR, .data = ""}, &program, err);
	if (r == 0)
		r = hooked_environment(h, &z->env, &env, err);
	spec.argv = (struct string_list){(const char **)(void *)program.argv.items, (uint32_t)program.argv.count};
	spec.env = (struct string_list){(const char **)(void *)env.items, (uint32_t)env.count};
	if (r == 0)
		r = names.failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : s->backend->exec(&s->state, &b, err);
	strlist_free(&env);
	language_program_clear(&program);
	return r;
}

int zygote_park(struct cordon_sandbox *s, const char *language, const struct strlist *preload, struct cordon_error *err)
{
	const struct language *l = language_find(language);
	const struct hook *h = find_hook(l);
	struct exec_ends theirs = EXEC_NO_ENDS, ours = EXEC_NO_ENDS;
	if (!h)
		return err_set(err, CORDON_ERR_INPUT, "there is no interpreter of '%.60s' that could wait", language);
	end(take(s));
	struct zygote *z = calloc(1, sizeof(*z));
	if (!z)
		return err_sys(err, "cannot park an interpreter");
	*z = (struct zygote){.language = l, .preloads = preload && preload->count, .sock = -1, .input = -1, .out = -1, .err = -1};
	int r = exec_environment(s, NULL, l, &z->env, err);
	if (r == 0)
		r = exec_make_ends(true, &ours, &theirs, err);
	z->sock = ours.sock;
	z->input = ours.stdio[0];
	z->out = ours.stdio[1];
	z->err = ours.stdio[2];
	if (r == 0)
		r = send_park(s, h, z, preload, &theirs, err);
	exec_close_ends(&theirs);
	if (r < 0) {
		zygote_free(z);
		return -1;
	}
	zygote_free(atomic_exchange(&s->zygote, z));
	return 0;
}

/* Takes note of one message. False: there is none yet. */
static bool hear(struct zygote *z)
{
	struct pollfd p = {.fd = z->sock, .events = POLLIN};
	_cleanup_msg_ struct wire_msg msg = {0};
	if (poll(&p, 1, 0) <= 0)
		return false;
	const int r = wire_recv(z->sock, &msg, &z->why);
	if (r > 0 && msg.type == WIRE_STARTED)
		return true;
	z->ready = r > 0 && msg.type == WIRE_PARKED;
	z->failed = !z->ready; /* also one that started other programs while it started: they are not in the audit */
	if (r > 0 && msg.type == WIRE_ERROR)
		error_decode(msg.body, msg.len, &z->why);
	if (z->why.code == CORDON_ERR_NOT_FOUND)
		language_missing(z->language, &z->why);
	return true;
}

static enum zygote_state look(struct zygote *z)
{
	while (!z->failed && hear(z))
		;
	return z->failed ? ZYGOTE_FAILED : z->ready ? ZYGOTE_READY : ZYGOTE_STARTING;
}

enum zygote_state zygote_look(struct cordon_sandbox *s, struct cordon_error *err)
{
	struct zygote *z = atomic_load(&s->zygote);
	if (!z)
		return ZYGOTE_NONE;
	const enum zygote_state state = look(z);
	if (state == ZYGOTE_FAILED && err)
		*err = z->why;
	return state;
}

int zygote_fd(const struct cordon_sandbox *s)
{
	const struct zygote *z = atomic_load(&s->zygote);
	return z ? z->sock : -1;
}

/* ---- using one ---------------------------------------------------------------------------------------------------------------- */

static bool is_named(const char *const *names, size_t count, const char *item)
{
	const size_t len = strcspn(item, "=");
	for (size_t i = 0; i < count; i++) {
		const size_t n = strlen(names[i]);
		if (names[i][n - 1] == '*' ? len >= n - 1 && strncmp(names[i], item, n - 1) == 0
		                           : len == n && strncmp(names[i], item, n) == 0)
			return true;
	}
	return false;
}

/* Every variable of `env` that was looked at when the zygote started has the value there that it has in `other`. */
static bool env_within(const struct zygote *z, const struct strlist *env, const struct strlist *other)
{
	for (size_t i = 0; i < env->count; i++) {
		const char *item = env->items[i];
		if ((is_named(read_at_start, ARRAY_SIZE(read_at_start), item) ||
		     (z->preloads && is_named(read_by_modules, ARRAY_SIZE(read_by_modules), item))) &&
		    !strlist_has(other, item))
			return false;
	}
	return true;
}

/* A zygote can have but one name for the code, the one that it was started with. */
static bool is_named_main(const struct language_program *p)
{
	static const char start[] = CODE_DIR "/main.";
	return p->file_count == 1 && strncmp(p->paths[0], start, sizeof(start) - 1) == 0 &&
	       strcmp(p->paths[0] + sizeof(start) - 1, p->language->extension) == 0;
}

static bool fits(const struct zygote *z, const struct zygote_request *r)
{
	return r->program && r->program->language == z->language && is_named_main(r->program) && !r->spec->tty && !r->spec->remounted &&
	       env_within(z, r->env, &z->env) && env_within(z, &z->env, r->env);
}

bool zygote_fits(const struct cordon_sandbox *s, const struct zygote_request *r)
{
	const struct zygote *z = atomic_load(&s->zygote);
	return z && fits(z, r);
}

static void put_field(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s) + 1);
}

static void put_payload(struct buf *b, const struct zygote_request *r)
{
	const struct strlist *argv = &r->program->argv;
	size_t first = 0;
	while (strcmp(argv->items[first], r->program->paths[0]) != 0)
		first++;
	put_field(b, r->options->flags & CORDON_EXEC_STDIN ? "pipe" : "null");
	put_field(b, r->spec->cwd);
	buf_addf(b, "%zu", argv->count - first - 1);
	put_field(b, "");
	for (size_t i = first + 1; i < argv->count; i++)
		put_field(b, argv->items[i]);
	for (size_t i = 0; i < r->env->count; i++)
		put_field(b, r->env->items[i]);
}

static bool send_go(const struct zygote *z, const struct zygote_request *r)
{
	_cleanup_buf_ struct buf payload = {0}, body = {0};
	put_payload(&payload, r);
	if (payload.failed || payload.len > GO_PAYLOAD_MAX)
		return false;
	const struct go_spec go = {
		.more = r->spec->more,
		.timeout_ms = r->spec->timeout_ms,
		.cwd = r->spec->cwd,
		.payload = payload.data,
		.payload_len = payload.len,
		.code = r->spec->code,
		.code_count = r->spec->code_count,
	};
	go_spec_encode(&go, &body);
	return wire_send(z->sock, WIRE_GO, &body, NULL, 0, NULL) == 0;
}

bool zygote_go(struct cordon_exec *e, const struct zygote_request *r)
{
	struct zygote *z = take(e->sandbox);
	if (!z)
		return false;
	if (!fits(z, r) || look(z) != ZYGOTE_READY || !send_go(z, r)) {
		end(z);
		return false;
	}
	e->sock = steal_fd(&z->sock);
	e->out.fd = steal_fd(&z->out);
	e->err_stream.fd = steal_fd(&z->err);
	if (r->options->flags & CORDON_EXEC_STDIN)
		e->input = steal_fd(&z->input);
	zygote_free(z);
	return true;
}
