/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that run commands: sudo, xargs, find -exec, eval. */
#include "gate/shell_run.h"

static struct text run_rest(struct shell *sh, const struct parsed *p, const struct gate_command *d)
{
	size_t k = (size_t)d->skip;
	while (d->assigns && k < p->operand_count && text_find(p->operands[k], '=') < p->operands[k].n)
		k++;
	/* What an option says is "in" the command's place: chroot DIR, env -C DIR */
	if (k >= p->operand_count)
		return TEXT("");
	size_t from = p->operand_at[k];
	return command_inner(sh, p->command, p->command->argv + from, p->command->n - from);
}

static struct text run_joined(struct shell *sh, const struct parsed *p, const struct gate_command *d)
{
	struct fields rest = operands_from(sh, p, (size_t)d->skip);
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
