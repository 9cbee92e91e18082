/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon ps`, `cordon kill`: services and running commands of live sandboxes. */
#include <ctype.h>
#include <signal.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"
#include "cmd/tree.h"

/* ---- ps ---------------------------------------------------------------------------------------------------------------------- */

struct ps_flags {
	bool json, quiet;
};

const struct option_def ps_options[] = {
	{.name = "quiet", .letter = 'q', .offset = offsetof(struct ps_flags, quiet), .help = "only the ids"},
	{.name = "json", .offset = offsetof(struct ps_flags, json), .help = "print a JSON list"},
	{0},
};

const char ps_about[] =
	"Services (exec --detach) and commands that run or wait for their turn, in the sandboxes given or in all of them. A\n"
	"service that ended is listed with its exit status until the sandbox is stopped.";

struct ps {
	const struct ps_flags *flags;
	struct colours colours;
	struct table table;
	struct json json;
};

static void json_process(struct json *j, const struct box *b, const struct keeper_process *p)
{
	char time[FORMAT_MAX];

	json_object(j);
	json_kstr(j, "sandbox", b->id);
	json_kstr(j, "id", p->id);
	json_kstr(j, "name", p->name[0] ? p->name : NULL);
	json_kstr(j, "command", p->command);
	json_kstr(j, "started", format_time(p->started_ms, time));
	json_kint(j, "started_ms", p->started_ms);
	json_kstr(j, "state", p->running ? "running" : p->queued ? "queued" : "ended");
	json_key(j, "exit_code");
	if (p->running || p->queued)
		json_null(j);
	else
		json_int(j, p->exit_code);
	json_end(j);
}

static void row(struct ps *ps, const struct box *b, const struct keeper_process *p)
{
	const struct colours *c = &ps->colours;
	char age[FORMAT_MAX];

	table_add(&ps->table, c->name, "%.*s", b->name[0] ? (int)sizeof(b->name) : SHORT_ID, b->name[0] ? b->name : b->id);
	table_add(&ps->table, NULL, "%.*s", SHORT_ID, p->id);
	table_add(&ps->table, c->bold, "%s", p->name);
	if (p->running)
		table_add(&ps->table, c->good, "running");
	else if (p->queued)
		table_add(&ps->table, c->dim, "queued");
	else
		table_add(&ps->table, p->exit_code ? c->bad : c->dim, "ended (%d)", p->exit_code);
	table_add(&ps->table, NULL, "%s", format_age(now_ms() - p->started_ms, age));
	table_add(&ps->table, NULL, "%s", p->command);
}

static int list_box(struct ps *ps, const char *home, const struct box *b, struct cordon_error *err)
{
	struct keeper_processes all;

	if (keeper_ps(home, b->id, &all, err) < 0)
		return -1;
	for (size_t i = 0; i < all.count; i++) {
		if (ps->flags->json)
			json_process(&ps->json, b, &all.items[i]);
		else if (ps->flags->quiet)
			puts(all.items[i].id);
		else
			row(ps, b, &all.items[i]);
	}
	keeper_processes_free(&all);
	return 0;
}

static int list_given(struct ps *ps, struct store *s, const struct tree_args *a, struct cordon_error *err)
{
	for (int i = 0; i < a->count; i++) {
		_cleanup_box_ struct box b = {0};

		if (box_find(s, a->operands[i], &b, err) < 0 || list_box(ps, a->home, &b, err) < 0)
			return -1;
	}
	return 0;
}

static int list_all(struct ps *ps, struct store *s, const struct tree_args *a, struct cordon_error *err)
{
	struct box_list all = {0};
	int r = box_list(s, &all, err);

	for (size_t i = 0; r == 0 && i < all.count; i++)
		if (!all.items[i].damaged)
			r = list_box(ps, a->home, &all.items[i].box, err);
	box_list_free(&all);
	return r;
}

int cmd_ps(int argc, char **argv)
{
	static const struct table_column columns[] = {
		{.title = "SANDBOX", .least = 8}, {.title = "ID"},
		{.title = "NAME", .least = 8},    {.title = "STATE"},
		{.title = "AGE", .right = true},  {.title = "COMMAND", .least = 16},
	};
	struct ps_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	_cleanup_buf_ struct buf line = {0};
	struct cordon_error err = {0};
	struct store s;
	const struct tree_form form = {.command = "ps", .target = &f, .json = &f.json, .most = -1};
	struct ps ps = {.flags = &f,
	                .colours = colours_for(STDOUT_FILENO),
	                .table = {.columns = columns, .count = ARRAY_SIZE(columns)},
	                .json = {.out = &line}};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if (store_open(&s, a.home, &err) < 0)
		return tree_fail(&a, &err);
	json_array(&ps.json);
	int r = a.count ? list_given(&ps, &s, &a, &err) : list_all(&ps, &s, &a, &err);
	json_end(&ps.json);
	store_close(&s);
	if (r == 0 && !f.json && ps.table.used && table_print(&ps.table, stdout) < 0)
		r = err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
	table_free(&ps.table);
	if (r < 0)
		return tree_fail(&a, &err);
	return f.json ? tree_print_json(&a, &line, EXIT_OK) : EXIT_OK;
}

/* ---- kill -------------------------------------------------------------------------------------------------------------------- */

struct kill_flags {
	bool json;
	const char *signal;
};

const struct option_def kill_options[] = {
	{.name = "signal",
         .letter = 's',
         .argument = "SIGNAL",
         .offset = offsetof(struct kill_flags, signal),
         .complete = COMPLETE_WORDS,
         .words = "TERM KILL INT HUP QUIT USR1 USR2 STOP CONT",
         .help = "a name or a number (default TERM)"},
	{.name = "json", .offset = offsetof(struct kill_flags, json), .help = "print a JSON object"},
	{0},
};

const struct example kill_examples[] = {
	{"cordon kill box web", "ends the service web of the sandbox box"},
	{"cordon kill box web --signal HUP", "another signal"},
	{0},
};

/* "TERM", "SIGTERM", "15" */
static int parse_signal(const char *text, struct cordon_error *err)
{
	static const struct {
		const char *name;
		int number;
	} names[] = {
		{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},   {"ABRT", SIGABRT}, {"KILL", SIGKILL},
		{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},   {"ALRM", SIGALRM}, {"TERM", SIGTERM},
		{"CONT", SIGCONT}, {"STOP", SIGSTOP}, {"WINCH", SIGWINCH}, {"TSTP", SIGTSTP},
	};
	const char *bare = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	uint64_t number;

	if (isdigit((unsigned char)text[0]) && units_parse_count(text, 1, 64, &number, NULL) == 0)
		return (int)number;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(bare, names[i].name) == 0)
			return names[i].number;
	return err_set(err, CORDON_ERR_INPUT, "--signal: '%.40s' is not a signal; give a name such as TERM or a number from 1 to 64", text);
}

int cmd_kill(int argc, char **argv)
{
	struct kill_flags f = {.signal = "TERM"};
	_cleanup_args_ struct tree_args a = {0};
	_cleanup_box_ struct box b = {0};
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};
	struct cordon_error err = {0};
	struct store s;
	const struct tree_form form = {.command = "kill", .target = &f, .json = &f.json, .least = 2, .most = 2};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	int signo = parse_signal(f.signal, &err);
	if (signo < 0 || store_open(&s, a.home, &err) < 0)
		return tree_fail(&a, &err);
	int r = box_find(&s, a.operands[0], &b, &err);
	store_close(&s);
	if (r < 0 || keeper_kill(a.home, b.id, a.operands[1], signo, &err) < 0)
		return tree_fail(&a, &err);
	if (!f.json)
		return EXIT_OK;
	json_object(&j);
	json_kstr(&j, "sandbox", b.id);
	json_kstr(&j, "target", a.operands[1]);
	json_kint(&j, "signal", signo);
	json_end(&j);
	return tree_print_json(&a, &line, EXIT_OK);
}
