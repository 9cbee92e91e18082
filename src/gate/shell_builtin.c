/* SPDX-License-Identifier: Apache-2.0 */
/* What the shell does itself: cd, read, set, alias. */
#include "gate/shell_run.h"

static void change_directory(struct shell *sh, const struct parsed *p)
{
	struct text to = p->operand_count ? p->operands[0] : sh->gate->home, old = sh->cwd;
	sh->cwd = text_is(to, "-") ? sh->oldpwd : shell_path(sh, to);
	sh->oldpwd = old;
	sh->own_changes += !text_same(old, sh->cwd);
}

static void assign_words(struct shell *sh, const struct parsed *p)
{
	for (size_t i = 0; i < p->operand_count; i++) {
		struct text t = p->operands[i];
		size_t equals = text_find(t, '=');
		if (equals < t.n) {
			var_set_text(sh, text_first(t, equals), text_from(t, equals + 1));
			match_assignment(sh, text_first(t, equals), text_from(t, equals + 1), p->command->start, p->command->end);
		}
	}
}

static void define_aliases(struct shell *sh, const struct parsed *p)
{
	for (size_t i = 0; i < p->operand_count; i++) {
		struct text t = p->operands[i];
		size_t equals = text_find(t, '=');
		if (equals == t.n)
			continue;
		struct text *value = ARENA_NEW(sh->arena, struct text);
		*value = text_from(t, equals + 1);
		*map_put(&sh->aliases, sh->arena, text_first(t, equals)) = value;
		sh->changes++;
	}
}

/* read a b c; mapfile list */
static void read_words(struct shell *sh, const struct parsed *p)
{
	struct text in = p->command->in.s ? p->command->in : text_mark(MARK_ANY);
	struct fields lines = {0}, words = {0};
	text_split(sh, in, TEXT("\n"), &lines);
	bool list = option_given(p, "-a") == YES || text_is(p->name, "mapfile") || text_is(p->name, "readarray");
	for (size_t i = 0; i < p->option_count; i++) /* read -a NAME */
		if (text_is(p->options[i].name, "-a") && p->options[i].value.s)
			var_set(sh, p->options[i].value, lines, true);
	if (list) {
		if (p->operand_count)
			var_set(sh, p->operands[0], lines, true);
		return;
	}
	if (p->operand_count <= 1) {
		/* A loop of it takes every line. */
		struct text name = p->operand_count ? p->operands[0] : TEXT("REPLY");
		sh->conditions++;
		for (size_t i = 0; i < lines.n && i < ALTS; i++)
			var_set_text(sh, name, lines.v[i]);
		sh->conditions--;
		if (!lines.n)
			var_set_text(sh, name, text_mark(MARK_ANY));
		return;
	}
	text_split(sh, lines.n ? lines.v[0] : text_mark(MARK_ANY), TEXT(" \t,:"), &words);
	for (size_t i = 0; i < p->operand_count; i++)
		var_set_text(sh, p->operands[i], lines.n == 1 && i < words.n ? words.v[i] : text_mark(MARK_ANY));
}

static void set_positional(struct shell *sh, const struct command *c)
{
	for (size_t i = 1; i < c->n; i++) {
		if (!text_is(c->argv[i], "--") && (c->argv[i].n == 0 || c->argv[i].s[0] == '-' || c->argv[i].s[0] == '+'))
			continue;
		struct fields f = {0};
		for (size_t k = i + (text_is(c->argv[i], "--") ? 1 : 0); k < c->n; k++)
			fields_add(sh, &f, c->argv[k]);
		sh->positional = f;
		sh->positional_known = true;
		sh->own_changes++;
		return;
	}
}

/* ln -s TARGET NAME; without a name, that of the target in this directory. */
static void make_link(struct shell *sh, const struct parsed *p)
{
	if (p->operand_count == 1)
		link_put(sh, path_base(p->operands[0]), p->operands[0]);
	else if (p->operand_count == 2)
		link_put(sh, p->operands[1], p->operands[0]);
}

void command_builtin(struct shell *sh, const struct parsed *p, const struct gate_command *d)
{
	switch (d->builtin) {
	case BUILTIN_CD:
		change_directory(sh, p);
		break;
	case BUILTIN_ASSIGN:
		assign_words(sh, p);
		break;
	case BUILTIN_ALIAS:
		define_aliases(sh, p);
		break;
	case BUILTIN_READ:
		read_words(sh, p);
		break;
	case BUILTIN_SET:
		set_positional(sh, p->command);
		break;
	case BUILTIN_WAIT:
		sh->paused = sh->paused || !sh->background;
		break;
	case BUILTIN_LINK:
		make_link(sh, p);
		break;
	case BUILTIN_VERIFY:
		files_verified(sh);
		break;
	case BUILTIN_LEAVE:
		sh->left = true;
		break;
	case BUILTIN_NONE:
	case BUILTIN_SOURCE:
	case BUILTIN_TRUE:
		break;
	}
}
