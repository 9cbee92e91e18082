/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon exec`: a command in a sandbox that stays. Its keeper runs it (keeper/attach.h); how it is shown is what `cordon run` does, too. */
#include "cmd/exec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cmd/policy_file.h"
#include "cmd/run_changes.h"
#include "cmd/table.h"
#include "keeper/attach.h"
#include "lib/gate.h"
#include "lib/live.h"

extern char **environ;

#define OPTION(member) offsetof(struct exec_options, member)

/* clang-format off */
const struct option_def exec_options[] = {
	{.group = "What to run", .name = "command", .letter = 'c', .argument = "LINE", .offset = OPTION(run.line),
	 .help = "a shell line (or code, with --lang) instead of CMD"},
	{.name = "lang", .argument = "LANG", .offset = OPTION(run.lang), .complete = COMPLETE_WORDS, .words = language_words,
	 .help = "run code: python, javascript, typescript, ruby or bash; from -c, FILE or stdin"},
	{.name = "policy", .argument = "FILE", .offset = OPTION(run.policy_file), .complete = COMPLETE_FILE,
	 .help = "timeout, variables and transaction of this command, from a policy file"},
	{.name = "cwd", .argument = "DIR", .offset = OPTION(run.cwd), .help = "working directory inside, also relative to /app (default /app)"},
	{.name = "env", .argument = "NAME[=VALUE]", .offset = OPTION(run.env), .repeat = true, .complete = COMPLETE_VARIABLE,
	 .help = "set a variable, or take it over from here; may be repeated"},
	{.name = "timeout", .argument = "TIME", .offset = OPTION(timeout),
	 .help = "end it after this long (default: the sandbox's; a service: none)"},
	{.group = "Beside others", .name = "detach", .letter = 'd', .offset = OPTION(detach),
	 .help = "a service: it runs on when this command has returned; prints its id"},
	{.name = "name", .argument = "NAME", .offset = OPTION(name), .help = "what the service is called by logs, kill and ps"},
	{.name = "parallel", .offset = OPTION(parallel), .help = "do not wait for other commands; no transaction of its own"},
	{.name = "no-wait", .offset = OPTION(no_wait), .help = "fail if another command is running"},
	{.group = "Its changes", .name = "on-failure", .argument = "ACTION", .offset = OPTION(on_failure), .complete = COMPLETE_WORDS,
	 .words = "rollback keep", .help = "if it fails or is ended: rollback or keep (default: the sandbox's; keep)"},
	{.name = "ok", .argument = "LIST", .offset = OPTION(ok), .help = "exit statuses besides 0 that are no failure: 1 or 1,2"},
	{.group = "Terminal and output", .name = "interactive", .letter = 'i', .offset = OPTION(run.interactive),
	 .help = "pass standard input on even if it is a terminal"},
	{.name = "tty", .letter = 't', .offset = OPTION(run.tty), .help = "give the command a terminal"},
	{.name = "json", .offset = OPTION(run.json), .help = "print one JSON object with output, usage and changes at the end"},
	{.name = "events", .offset = OPTION(run.events), .help = "print a line of JSON per event: start, stdout, stderr, denial, end"},
	{.name = "result", .argument = "FILE", .offset = OPTION(run.result), .complete = COMPLETE_FILE,
	 .help = "write the JSON object to FILE; stdout stays live"},
	{.name = "quiet", .offset = OPTION(run.quiet), .help = "no remarks, only errors"},
	{0},
};
/* clang-format on */

const char exec_about[] =
	"The first command starts the sandbox: a small process, its keeper, stays with it until it has been idle for a while\n"
	"(create --idle) or `cordon stop` ends it. Commands see the same /app, home, /tmp and network, one after the other;\n"
	"each is a transaction. What a command leaves running ends with it, unless it is a service (--detach). The exit status\n"
	"is as with `cordon run`.";

const struct example exec_examples[] = {
	{"cordon exec box -- make test", "a command; ID may be a name or the beginning of an id"},
	{"cordon exec box -c 'echo $HOME > /app/x'", "a shell line"},
	{"cordon exec box --lang python -c 'print(6 * 7)'", "code; also from a FILE of the host, or from standard input"},
	{"cordon exec box -d --name web -- npm run dev", "a service …"},
	{"cordon exec box -- curl localhost:3000", "… and a command that reaches it"},
	{"cordon exec box --on-failure rollback --json -- ./migrate", "undone if it fails, with a list of changes"},
	{0},
};

/* ---- arguments --------------------------------------------------------------------------------------------------------------- */

void exec_begin(struct exec *x, const char *command, const char *who)
{
	*x = (struct exec){.command = command_find(command), .io = {.signals = -1, .out.fd = STDOUT_FILENO, .err.fd = STDERR_FILENO}};
	x->report = (struct run_report){.who = who, .o = &x->o.run, .io = &x->io, .raise_with = "create --max-output"};
}

void exec_clear(struct exec *x)
{
	run_io_end(&x->io);
	run_program_clear(&x->program);
	denials_free(&x->report.refused);
	strlist_free(&x->o.run.env);
	strlist_free(&x->o.run.mounts);
}

bool exec_parse(struct exec *x, int argc, char **argv, const char **what, int *first, int *status)
{
	struct parsed_options before, behind = {0};
	int at;

	options_parse(x->command, argc, argv, &x->o, NULL, &before);
	at = before.first;
	*what = at < argc ? argv[at] : NULL;
	*first = argc;
	if (*what) {
		options_parse(x->command, argc - at, argv + at, &x->o, NULL, &behind); /* argv[0] is not looked at */
		*first = at + behind.first;
	}
	if (before.err.code == CORDON_OK)
		before.err = behind.err;
	before.help = before.help || behind.help;
	before.usage = before.usage || behind.usage;
	if (!before.help && before.err.code == CORDON_OK && !*what) {
		err_set(&before.err, CORDON_ERR_INPUT, "which sandbox? give its id, the beginning of it, or its name");
		err_hint(&before.err, "cordon ls shows them, cordon create makes one");
	}
	if (!before.help && before.err.code == CORDON_OK)
		return true;
	if (before.help) {
		options_help(x->command, stdout);
		*status = EXIT_OK;
		return false;
	}
	*status = run_fail(&x->report, &before.err);
	if (before.usage)
		fprintf(stderr, "see: %s --help\n", x->report.who);
	return false;
}

static int check_timeout(struct exec *x, struct cordon_error *err)
{
	uint64_t ms;

	if (!x->o.timeout)
		return 0;
	if (units_parse_duration(x->o.timeout, &ms, err) < 0)
		return err_wrap(err, "--timeout");
	x->timeout_ms = (int64_t)ms;
	return 0;
}

static int check_options(struct exec *x, struct cordon_error *err)
{
	const struct exec_options *o = &x->o;

	if (o->name && !o->detach)
		return err_set(err, CORDON_ERR_INPUT, "--name is for services: add --detach");
	if (o->detach && (o->run.interactive || o->run.tty))
		return err_set(err, CORDON_ERR_INPUT, "--detach and -i or -t exclude each other: a service has no terminal");
	if (o->detach && (o->run.events || o->run.result))
		return err_set(err, CORDON_ERR_INPUT, "--detach and --%s exclude each other: a service's output goes to its log",
		               o->run.events ? "events" : "result");
	if ((o->detach || o->parallel) && (o->on_failure || o->ok))
		return err_set(err, CORDON_ERR_INPUT, "--%s has no transaction of its own: --%s has no meaning for it",
		               o->detach ? "detach" : "parallel", o->ok ? "ok" : "on-failure");
	return run_check_output(&o->run, err) < 0 || check_timeout(x, err) < 0 ? -1 : 0;
}

/* ---- the request ------------------------------------------------------------------------------------------------------------- */

/* What is built for one request, and freed after it. */
struct draft {
	struct keeper_request request;
	struct strlist extra, env, file_env;
	char *cwd;
};

static void draft_free(struct draft *d)
{
	strlist_free(&d->extra);
	strlist_free(&d->env);
	strlist_free(&d->file_env);
	free(d->cwd);
}

/* "K=V", or "K" for what it is here. The policy checks the names. */
static int add_env(struct draft *d, struct cordon_policy *policy, const char *item, struct cordon_error *err)
{
	const bool assigned = strchr(item, '=');
	const char *value = assigned ? NULL : getenv(item);
	_cleanup_free_ char *pair = NULL;

	if (options_set_policy(policy, assigned ? "env.set" : "env.allow", "--env", item, err) < 0)
		return -1;
	if (assigned)
		return strlist_assign(&d->extra, item, err);
	if (!value)
		return 0;
	if (asprintf(&pair, "%s=%s", item, value) < 0) {
		pair = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return strlist_assign(&d->extra, pair, err);
}

/* The caller's, as far as the policy lets it in, then the policy's own, then the sandbox's (create --env), then that of
 * --policy, then --env. */
static int build_env(struct exec *x, struct draft *d, const struct box *b, struct cordon_policy *policy, struct cordon_error *err)
{
	const struct run_options *o = &x->o.run;

	if (o->tty && !getenv("TERM") && strlist_add(&d->extra, "TERM=xterm", err) < 0)
		return -1;
	for (size_t i = 0; i < x->program.env.count; i++)
		if (strlist_assign(&d->extra, x->program.env.items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < b->env.count; i++)
		if (strlist_assign(&d->extra, b->env.items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < d->file_env.count; i++)
		if (strlist_assign(&d->extra, d->file_env.items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < o->env.count; i++)
		if (add_env(d, policy, o->env.items[i], err) < 0)
			return -1;
	run_note_env(o);
	/* where its keeper finds that the image is gone, it says so */
	_cleanup_image_ struct image image = {0};
	_cleanup_free_ char *home = b->image ? context_find_home(err) : NULL;
	if (b->image && (!home || image_find(home, b->image, &image, NULL) < 0))
		image = (struct image){0};
	return policy_environment_on(policy, environ, &image.env, (const char *const *)d->extra.items, &d->env, err);
}

static int build_transaction(const struct exec_options *o, struct keeper_request *r, struct cordon_error *err)
{
	struct cordon_policy policy;

	if (policy_init(&policy, err) < 0)
		return -1;
	int result = 0;
	if (o->on_failure && (result = options_set_policy(&policy, "transaction.exit", "--on-failure", o->on_failure, err)) == 0)
		r->on_failure = 1 + (uint32_t)policy.transaction.exit;
	if (o->ok && result == 0 && (result = options_set_policy(&policy, "transaction.ok", "--ok", o->ok, err)) == 0) {
		r->flags |= KEEPER_HAS_OK;
		memcpy(r->ok, policy.transaction.ok, sizeof(r->ok));
	}
	policy_clear(&policy);
	return result;
}

/* What options say wins. */
static int apply_policy_file(struct exec *x, struct draft *d, struct cordon_policy *policy, struct cordon_error *err)
{
	struct policy_file_exec file = {0};

	if (!x->o.run.policy_file)
		return 0;
	if (policy_file_for_exec(x->o.run.policy_file, policy, &file, err) < 0)
		return -1;
	if (!x->timeout_ms)
		x->timeout_ms = file.timeout_ms;
	d->file_env = file.env;
	d->request.on_failure = file.on_failure;
	if (file.has_ok) {
		d->request.flags |= KEEPER_HAS_OK;
		memcpy(d->request.ok, policy->transaction.ok, sizeof(d->request.ok));
	}
	return 0;
}

static int build_request(struct exec *x, struct draft *d, bool feed, struct cordon_error *err)
{
	const struct exec_options *o = &x->o;
	struct keeper_request *r = &d->request;
	unsigned short rows = 0, cols = 0;

	r->verb = KEEPER_EXEC;
	r->flags |= (o->run.tty ? KEEPER_TTY : 0u) | (feed ? KEEPER_STDIN : 0u) | (o->detach ? KEEPER_DETACH : 0u) |
	            (o->parallel ? KEEPER_PARALLEL : 0u) | (o->no_wait ? KEEPER_NO_WAIT : 0u);
	r->timeout_ms = x->timeout_ms;
	r->name = o->name;
	if (o->run.cwd && asprintf(&d->cwd, "%s%s", o->run.cwd[0] == '/' ? "" : "/app/", o->run.cwd) < 0) {
		d->cwd = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	r->cwd = d->cwd;
	if (o->run.tty)
		run_io_window(&rows, &cols);
	r->rows = rows;
	r->cols = cols;
	r->argv.items = (const char **)(void *)(uintptr_t)x->program.argv;
	while (x->program.argv[r->argv.count])
		r->argv.count++;
	r->env = (struct string_list){(const char **)(void *)d->env.items, (uint32_t)d->env.count};
	return build_transaction(o, r, err);
}

/* ---- running it -------------------------------------------------------------------------------------------------------------- */

static int target_fd(void *exec)
{
	return keeper_exec_fd(exec);
}

static int target_step(void *exec, struct cordon_error *err)
{
	return keeper_exec_step(exec, err);
}

static ssize_t target_write(void *exec, const void *data, size_t len)
{
	return keeper_exec_write(exec, data, len);
}

static short target_sink(void *exec)
{
	return keeper_exec_sink(exec);
}

static void target_close_stdin(void *exec)
{
	keeper_exec_close_stdin(exec);
}

static int target_cancel(void *exec, struct cordon_error *err)
{
	return keeper_exec_cancel(exec, err);
}

static int target_resize(void *exec, unsigned short rows, unsigned short cols)
{
	return keeper_exec_resize(exec, rows, cols);
}

static const struct run_target through_keeper = {
	.fd = target_fd,
	.step = target_step,
	.write = target_write,
	.sink = target_sink,
	.close_stdin = target_close_stdin,
	.cancel = target_cancel,
	.resize = target_resize,
};

static void say_waiting(void *user, const char *who)
{
	const struct exec *x = user;
	struct colours c = colours_for(STDERR_FILENO);
	_cleanup_buf_ struct buf text = {0};

	text_plain(&text, who);
	if (!x->o.run.quiet && isatty(STDERR_FILENO) && !text.failed)
		fprintf(stderr, "%scordon: waiting for %s%s\n", c.dim, text.data ? text.data : "", c.off);
}

static int print_service(const struct exec *x, const char *sandbox, const char *id, struct cordon_error *err)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	if (!x->o.run.json) {
		puts(id);
		return EXIT_OK;
	}
	json_object(&j);
	json_kstr(&j, "id", id);
	json_kstr(&j, "sandbox", sandbox);
	json_kstr(&j, "name", x->o.name);
	json_end(&j);
	if (line.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	puts(line.data);
	return EXIT_OK;
}

/* It has started: from here on it is as with `run`. */
static int show(struct exec *x, const char *sandbox, struct keeper_exec *e, bool feed, struct cordon_error *err)
{
	const struct run_options *o = &x->o.run;
	enum run_output mode = o->json ? RUN_OUTPUT_NONE : o->events ? RUN_OUTPUT_EVENTS : RUN_OUTPUT_LIVE;
	bool raw = o->interactive && o->tty && mode == RUN_OUTPUT_LIVE && isatty(STDIN_FILENO);

	if (run_io_begin(&x->io, mode, feed, o->tty, err) < 0 ||
	    (o->events && run_start_event(&x->io, sandbox, x->program.argv, NULL, err) < 0) || (raw && run_io_raw(&x->io, err) < 0))
		return -1;
	if (run_io_pump(&x->io, &through_keeper, e, err) < 0) {
		run_io_flush(&x->io);
		return -1;
	}
	return run_finish(&x->report, keeper_exec_result(e));
}

/* The first command finds out whether its layers can be mounted; what came of it is in the record. */
static void note_first_start(const struct exec *x, const char *home, const char *id)
{
	_cleanup_box_ struct box b = {0};
	struct store s;

	if (store_open(&s, home, NULL) < 0)
		return;
	if (box_load(&s, id, &b, NULL) == 0)
		run_note_copied(&x->o.run, b.copy);
	store_close(&s);
}

/* A program that is missing inside: of a language, what has to be installed for it. */
static int start_failed(const struct exec *x, struct cordon_error *err)
{
	_cleanup_free_ char *missing = NULL;

	if (asprintf(&missing, "%s: not found", x->program.argv[0]) < 0)
		missing = NULL;
	if (missing && err->code == CORDON_ERR_NOT_FOUND && strcmp(err->message, missing) == 0)
		run_program_missing(&x->program, x->o.run.image, err);
	return -1;
}

static int start_and_show(struct exec *x, const char *home, const struct box *b, struct draft *d, struct cordon_error *err)
{
	const bool feed = !x->o.detach && run_feeds_stdin(&x->o.run, &x->program);
	const struct keeper_exec_options options = {
		.request = &d->request,
		.keep_output = x->o.run.json || x->o.run.result,
		.on_output = run_io_output,
		.on_denial = run_io_denial,
		.user = &x->io,
		.waiting = say_waiting,
		.waiting_user = x,
	};
	struct keeper_exec *e = NULL;

	if (build_request(x, d, feed, err) < 0)
		return -1;
	if (keeper_exec_start(home, b->id, &options, &e, err) < 0)
		return start_failed(x, err);
	if (!b->used_ms && !b->copy)
		note_first_start(x, home, b->id);
	int status = x->o.detach ? print_service(x, b->id, keeper_exec_id(e), err) : show(x, b->id, e, feed, err);
	run_io_end(&x->io);
	keeper_exec_free(e);
	return status;
}

/* That there is no such sandbox is an error of ours, not the 127 of a command that was not found. */
static int find_box(const char *home, const char *what, struct box *out, struct cordon_error *err)
{
	struct store s;

	if (store_open(&s, home, err) < 0)
		return -1;
	int r = box_find(&s, what, out, err);
	if (r < 0 && err->code == CORDON_ERR_NOT_FOUND)
		err->code = CORDON_ERR_INPUT;
	store_close(&s);
	return r;
}

/* The sandbox is there, and has said why it does not run the command. */
static bool never_started(const struct cordon_error *err)
{
	return err->code == CORDON_ERR_NOT_FOUND || err->code == CORDON_ERR_NOT_RUNNABLE || err->code == CORDON_ERR_INPUT ||
	       err->code == CORDON_ERR_BUSY;
}

/* Before anything of it is in the sandbox. */
static int check_program(struct exec *x, const struct box *b, const struct cordon_policy *policy, struct cordon_error *err)
{
	struct cordon *ctx = NULL;

	if (context_open_bare(&ctx, err) < 0)
		return -1;
	const struct gate_for who = {.ctx = ctx, .policy = policy, .sandbox = b->id};
	int r = run_program_check(&x->program, &who, &x->report.refused, err);
	cordon_close(ctx);
	return r;
}

/* Its code goes before it; a service may want to read it for as long as it runs. */
static int run_program(struct exec *x, const char *home, const struct box *b, struct draft *d, struct cordon_error *err)
{
	const struct string_list env = {(const char **)(void *)d->env.items, (uint32_t)d->env.count};
	const struct exec_place place = {home, b->id, &env};

	if (exec_code_place(&place, &x->program, err) < 0)
		return -1;
	int status = start_and_show(x, home, b, d, err);
	if (x->program.made.file_count && (status < 0 ? never_started(err) : !x->o.detach))
		exec_code_remove(&place, x->o.run.code_dir);
	return status;
}

/* Now that the sandbox is known: a FILE of its workspace is in it already. */
static int prepare(struct exec *x, const struct box *b, char code_dir[EXEC_CODE_DIR_MAX], struct cordon_error *err)
{
	if (x->program.argv)
		return 0;
	if (exec_code_dir(code_dir, err) < 0)
		return -1;
	x->o.run.code_dir = code_dir;
	x->o.run.workspace = b->workspace;
	x->o.run.image = b->image;
	return run_program_prepare(&x->o.run, x->count, x->operands, &x->program, err);
}

int exec_in_sandbox(struct exec *x, const char *what, struct cordon_error *err)
{
	char code_dir[EXEC_CODE_DIR_MAX];
	_cleanup_free_ char *home = context_find_home(err);
	_cleanup_box_ struct box b = {0};
	struct draft d = {0};

	if (!home || check_options(x, err) < 0 || find_box(home, what, &b, err) < 0 || prepare(x, &b, code_dir, err) < 0)
		return -1;
	struct cordon_policy *policy = live_policy(&b, err);
	int status = policy ? apply_policy_file(x, &d, policy, err) : -1;
	if (status == 0)
		status = build_env(x, &d, &b, policy, err);
	if (status == 0)
		status = check_program(x, &b, policy, err);
	if (status == 0) {
		x->report.begun = true;
		x->report.max_output = policy->limits.max_output;
		status = run_program(x, home, &b, &d, err);
	}
	cordon_policy_free(policy);
	draft_free(&d);
	x->o.run.code_dir = x->o.run.workspace = x->o.run.image = NULL; /* they end here */
	return status;
}

int cmd_exec(int argc, char **argv)
{
	struct exec x;
	struct cordon_error err = {0};
	const char *what;
	int first, status;

	exec_begin(&x, "exec", "cordon exec");
	if (exec_parse(&x, argc, argv, &what, &first, &status) && !policy_file_hand_over(x.o.run.policy_file, argc, argv, &status)) {
		x.count = argc - first;
		x.operands = argv + first;
		if (x.count == 0 && !x.o.run.line && !x.o.run.lang) {
			err_set(&err, CORDON_ERR_INPUT, "nothing to run");
			err_hint(
				&err,
				"give a command (cordon exec %s -- ls), a shell line (-c LINE) or code (--lang python FILE); cordon shell %s "
				"opens a shell",
				what, what);
			status = -1;
		} else {
			status = exec_in_sandbox(&x, what, &err);
		}
		if (status < 0)
			status = run_fail(&x.report, &err);
	}
	exec_clear(&x);
	return status;
}
