/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that run commands: sudo, xargs, find -exec, eval. */
#include "gate/shell_run.h"

#include <string.h>

static struct text run_rest(struct shell *sh, const struct parsed *p, const struct gate_command *d)
{
	size_t k = (size_t)d->skip;
	struct saved saved = shell_fork(sh); /* what is assigned is for that command only */
	for (; d->assigns && k < p->operand_count && text_find(p->operands[k], '=') < p->operands[k].n; k++) {
		size_t equals = text_find(p->operands[k], '=');
		match_assignment(sh, text_first(p->operands[k], equals), text_from(p->operands[k], equals + 1), p->command->start,
		                 p->command->end);
		var_set_text(sh, text_first(p->operands[k], equals), text_from(p->operands[k], equals + 1));
	}
	bool assigned = k > (size_t)d->skip;
	if (!assigned)
		shell_join(sh, saved);
	/* What an option says is "in" the command's place: chroot DIR, env -C DIR */
	size_t from = k < p->operand_count ? p->operand_at[k] : p->command->n;
	struct text out = from < p->command->n ? command_inner(sh, p->command, p->command->argv + from, p->command->n - from) : TEXT("");
	if (assigned)
		shell_join(sh, saved);
	return out;
}

static struct text run_joined(struct shell *sh, const struct parsed *p, const struct gate_command *d)
{
	struct fields rest = words_from(p, (size_t)d->skip);
	return command_code(sh, p->command, GATE_SHELL, fields_join(sh, &rest), d->skip == 0, NULL);
}

static struct text replaced(struct shell *sh, struct text t, struct text what, struct text with)
{
	struct text out = TEXT("");
	for (size_t i = 0; i < t.n;) {
		if (i + what.n <= t.n && memcmp(t.s + i, what.s, what.n) == 0) {
			out = text_cat(sh->arena, out, with);
			i += what.n;
		} else {
			out = text_cat(sh->arena, out, (struct text){t.s + i++, 1});
		}
	}
	return out;
}

/* find -exec: {} is what was found. */
static struct text run_execs(struct shell *sh, const struct parsed *p, const struct gate_command *d)
{
	struct fields starts = {0};
	static const char *const places[] = {"operands", "or-cwd"};
	place_values(sh, p, d, d->read.count ? &d->read : &(struct gate_strs){places, 2}, &starts);
	for (size_t i = 0; i < p->exec_count; i++) {
		for (size_t s = 0; s < starts.n && s < 8; s++) {
			struct text path =
				is_narrow(p, d) ? found_below(sh, p, starts.v[s]) : text_cat(sh->arena, starts.v[s], TEXT("/\2"));
			struct fields argv = {0};
			bool marked = false;
			for (size_t k = p->execs[i][0]; k < p->execs[i][1]; k++) {
				struct text w = p->command->argv[k];
				marked = marked || memmem(w.s, w.n, "{}", 2);
				fields_add(sh, &argv, replaced(sh, w, TEXT("{}"), path));
			}
			if (!marked && !text_is(p->name, "find"))
				fields_add(sh, &argv, path);
			command_inner(sh, p->command, argv.v, argv.n);
		}
	}
	return text_mark(MARK_ANY);
}

/* xargs and parallel: what they append, or put in the place of {}, comes from standard input or from behind ":::". */
static struct text run_appended(struct shell *sh, const struct parsed *p, const struct gate_command *d)
{
	struct fields items = {0}, argv = {0};
	struct text mark = TEXT("{}"), in = p->command->in;
	bool known, marked = false, lines = false;
	for (size_t i = 0; i < p->option_count; i++) {
		struct text name = p->options[i].name, value = p->options[i].value;
		if (text_is(name, "-I") && value.s && value.n) {
			mark = value;
			lines = true;
		}
		lines = lines || text_is(name, "-d") || text_is(name, "-L");
		if ((text_is(name, "-a") || text_is(name, "--arg-file")) && value.s)
			in = file_get(sh, value, &known);
	}
	size_t end = p->operand_count;
	for (size_t i = 0; i < p->operand_count; i++) {
		if (!text_begins(p->operands[i], ":::"))
			continue;
		end = end == p->operand_count ? i : end;
		for (size_t k = i + 1; k < p->operand_count; k++)
			fields_add(sh, &items, p->operands[k]);
		break;
	}
	if (!items.n && in.s)
		text_split(sh, in, lines ? TEXT("\n") : TEXT(" \t\n"), &items);
	if (!items.n)
		fields_add(sh, &items, text_mark(MARK_ANY));
	for (size_t i = (size_t)d->skip; i < end; i++)
		marked = marked || memmem(p->operands[i].s, p->operands[i].n, mark.s, mark.n);
	if (items.n > 64)
		items.n = 64;
	for (size_t k = 0; k < (marked ? items.n : 1); k++) {
		argv = (struct fields){0};
		for (size_t i = (size_t)d->skip; i < end; i++)
			fields_add(sh, &argv, marked ? replaced(sh, p->operands[i], mark, items.v[k]) : p->operands[i]);
		for (size_t i = 0; !marked && i < items.n; i++)
			fields_add(sh, &argv, items.v[i]);
		struct command inner = *p->command;
		inner.in = (struct text){NULL, 0}; /* it has been read */
		/* parallel 'a line for the shell' */
		if (argv.n && text_find(argv.v[0], ' ') < argv.v[0].n)
			command_code(sh, &inner, GATE_SHELL, fields_join(sh, &argv), false, NULL);
		else
			command_inner(sh, &inner, argv.v, argv.n);
	}
	return text_mark(MARK_ANY);
}

/* ---- commands that nobody has described --------------------------------------------------------------------------------------- */

static bool has_role(const struct gate_command *d, const char *role)
{
	for (size_t i = 0; i < d->roles.count; i++)
		if (strcmp(d->roles.items[i], role) == 0)
			return true;
	return false;
}

/* A word that hardly means anything but a command of that name. */
static bool names_command(struct shell *sh, struct text word)
{
	const void **list;
	struct text name = path_base(word);
	size_t count = name.n && text_known(name) ? lookup_all(&sh->language->commands, sh->arena, name, &list) : 0;
	for (size_t i = 0; i < count; i++)
		if (has_role(list[i], "inner"))
			return true;
	return false;
}

static bool may_wrap(const struct parsed *p)
{
	for (size_t i = 0; i < p->desc_count; i++)
		if (has_role(p->descs[i], "wrapper"))
			return true;
	return !p->desc_count;
}

void command_embedded(struct shell *sh, const struct parsed *p)
{
	const struct command *c = p->command;
	if (!may_wrap(p))
		return;
	for (size_t i = 1; i < c->n; i++) {
		struct text word = c->argv[i];
		size_t equals = text_find(word, '=');
		if (text_begins(word, "-") && equals < word.n) /* --exec='rm -rf x' */
			word = text_from(word, equals + 1);
		while (text_begins(word, "!") || text_begins(word, "+") || text_begins(word, ":"))
			word = text_from(word, 1);
		size_t space = text_find(word, ' ');
		if (!names_command(sh, text_first(word, space)))
			continue;
		if (space < word.n)
			command_code(sh, c, GATE_SHELL, word, false, NULL);
		else
			command_inner(sh, c, c->argv + i, c->n - i);
		return;
	}
}

struct text command_others(struct shell *sh, const struct parsed *p, const struct gate_command *d, bool *ran)
{
	*ran = true;
	switch (d->runs) {
	case RUNS_REST:
		*ran = p->operand_count > (size_t)d->skip;
		return run_rest(sh, p, d);
	case RUNS_JOINED:
		return run_joined(sh, p, d);
	case RUNS_EXEC:
		*ran = p->exec_count > 0;
		return *ran ? run_execs(sh, p, d) : TEXT("");
	case RUNS_APPENDED:
		return run_appended(sh, p, d);
	case RUNS_OPERAND:
		return p->operand_count > (size_t)d->skip ? command_code(sh, p->command, GATE_SHELL, p->operands[d->skip], true, NULL)
		                                          : TEXT("");
	case RUNS_NOTHING:
		break;
	}
	*ran = false;
	return TEXT("");
}
