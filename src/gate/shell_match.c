/* SPDX-License-Identifier: Apache-2.0 */
/* Commands against rules. */
#include "base/util.h"
#include "gate/match.h"
#include "gate/shell.h"

static bool is_moot(const struct shell *sh, const struct rule *rule)
{
	return rule->r->needs & sh->gate->granted;
}

static enum sure test_fields(struct shell *sh, const struct test *test, const struct fields *f)
{
	enum sure sure = NO;
	for (size_t i = 0; i < f->n && sure != YES; i++)
		sure = sure_max(sure, test_text(sh->run, test, f->v[i], sh->cwd));
	return sure;
}

/* Operands, counted behind the words that are part of the command's name ("git push"). */
static enum sure test_operands(struct shell *sh, const struct test *test, const struct parsed *p, size_t own)
{
	enum sure sure = NO;
	const struct gate_test *t = test->t;
	bool any = false;
	for (size_t i = own; i < p->operand_count && sure != YES; i++) {
		if ((t->at == AT_LAST && i + 1 != p->operand_count) ||
		    (t->at == AT_OPERAND && t->index >= 0 && (size_t)t->index + own != i))
			continue;
		any = true;
		sure = sure_max(sure, test_text(sh->run, test, p->operands[i], sh->cwd));
	}
	if (t->absent)
		return any ? NO : p->maybe_more ? MAYBE : YES;
	return sure;
}

static enum sure test_options(struct shell *sh, const struct test *test, const struct parsed *p)
{
	enum sure sure = NO;
	bool any = false;
	for (size_t i = 0; i < p->option_count && sure != YES; i++) {
		bool named = false;
		for (size_t k = 0; k < test->t->of.count && !named; k++)
			named = text_is(p->options[i].name, test->t->of.items[k]);
		if (!named)
			continue;
		any = true;
		if (p->options[i].value.s)
			sure = sure_max(sure, test_text(sh->run, test, p->options[i].value, sh->cwd));
	}
	return test->t->absent ? (any ? NO : YES) : sure;
}

static enum sure test_words(struct shell *sh, const struct test *test, const struct parsed *p)
{
	struct fields words = {p->command->argv + 1, p->command->n ? p->command->n - 1 : 0};
	enum sure sure = test_fields(sh, test, &words);
	return test->t->absent ? (sure == NO ? YES : NO) : sure;
}

static enum sure test_one(struct shell *sh, const struct test *test, const struct parsed *p, const struct facts *facts, size_t own)
{
	enum gate_at at = test->t->at;
	if (at == AT_OPERAND || at == AT_LAST)
		return test_operands(sh, test, p, own);
	if (at == AT_OPTION)
		return test_options(sh, test, p);
	if (at == AT_WORD)
		return test_words(sh, test, p);
	if (test->t->absent)
		return facts->set & 1u << at ? NO : YES;
	return test_fields(sh, test, &facts->at[at]);
}

/* "@role", "git push", "mkfs*": the number of words behind the first, or -1 if it is not this command. */
static int named(struct shell *sh, const struct rule *rule, const struct parsed *p)
{
	const struct gate_strs *l = &rule->r->command;
	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->items[i];
		char first[PACK_TEXT_MAX + 1];
		if (name[0] == '@') {
			for (size_t k = 0; k < p->desc_count; k++)
				for (size_t r = 0; r < p->descs[k]->roles.count; r++)
					if (strcmp(p->descs[k]->roles.items[r], name + 1) == 0)
						return 0;
			continue;
		}
		const char *space = strchr(name, ' ');
		size_t n = space ? (size_t)(space - name) : strlen(name);
		if (n > PACK_TEXT_MAX)
			continue;
		memcpy(first, name, n);
		first[n] = '\0';
		if (pattern_match(first, p->name) != YES)
			continue;
		if (!space)
			return 0;
		if (!name_has_words(name, p))
			continue;
		int words = 0;
		for (const char *s = name; *s; s++)
			words += *s == ' ';
		return words;
	}
	return l->count ? -1 : 0;
}

/* Every group of "-r -R --recursive" has one that is given. */
static enum sure options(struct shell *sh, const struct gate_strs *groups, const struct parsed *p)
{
	enum sure sure = YES;
	for (size_t i = 0; i < groups->count && sure != NO; i++) {
		enum sure group = NO;
		for (struct text rest = text_of(groups->items[i]); rest.n && group != YES;) {
			struct text one = text_first(rest, text_find(rest, ' '));
			rest = text_from(rest, one.n + 1);
			char spelling[PACK_TEXT_MAX + 1];
			memcpy(spelling, one.s, MIN(one.n, (size_t)PACK_TEXT_MAX));
			spelling[MIN(one.n, (size_t)PACK_TEXT_MAX)] = '\0';
			group = sure_max(group, option_given(p, spelling));
		}
		sure = sure_min(sure, group);
	}
	return sure;
}

static void try_rule(struct shell *sh, const struct rule *rule, const struct parsed *p, const struct facts *facts)
{
	const struct gate_rule *r = rule->r;
	if (is_moot(sh, rule))
		return;
	int own = rule->one_word && text_known(p->name) ? 0 : named(sh, rule, p);
	if (own < 0)
		return;
	enum sure sure = options(sh, &r->options, p), any = r->any.count ? NO : YES;
	for (size_t i = 0; i < r->without.count && sure != NO; i++)
		if (option_given(p, r->without.items[i]) == YES)
			return;
	for (size_t i = 0; i < r->args.count && sure != NO; i++)
		sure = sure_min(sure, test_one(sh, &rule->args[i], p, facts, (size_t)own));
	for (size_t i = 0; i < r->any.count && any != YES && sure != NO; i++)
		any = sure_max(any, test_one(sh, &rule->any[i], p, facts, (size_t)own));
	sure = sure_min(sure, any);
	if (sure == YES)
		run_find(sh->run, r, rule->pack, r->verdict, p->command->start, p->command->end);
	else if (sure == MAYBE && r->dynamic != DYNAMIC_IGNORE)
		run_find(sh->run, r, rule->pack, r->dynamic == DYNAMIC_DENY ? GATE_DENY : GATE_UNPROVEN, p->command->start,
		         p->command->end);
}

void match_command(struct shell *sh, const struct parsed *p, struct facts *facts)
{
	const void **list;
	const struct language *l = sh->language;
	if (p->name.n) {
		size_t count = lookup_all(&l->rules, sh->arena, p->name, &list);
		for (size_t i = 0; i < count; i++)
			try_rule(sh, list[i], p, facts);
	}
	for (size_t k = 0; k < p->desc_count; k++) {
		for (size_t r = 0; r < p->descs[k]->roles.count; r++) {
			char role[64];
			size_t n = strlen(p->descs[k]->roles.items[r]);
			if (n + 2 > sizeof(role))
				continue;
			role[0] = '@';
			memcpy(role + 1, p->descs[k]->roles.items[r], n + 1);
			size_t count = lookup_all(&l->rules, sh->arena, text_of(role), &list);
			for (size_t i = 0; i < count; i++)
				try_rule(sh, list[i], p, facts);
		}
	}
	for (size_t i = 0; i < l->any_command_count; i++)
		if (l->any_command[i]->facts & facts->set)
			try_rule(sh, l->any_command[i], p, facts);
}

void match_assignment(struct shell *sh, struct text name, struct text value, uint32_t start, uint32_t end)
{
	for (size_t i = 0; i < sh->language->assigns_count; i++) {
		const struct rule *rule = sh->language->assigns[i];
		const struct gate_rule *r = rule->r;
		enum sure sure = NO;
		for (size_t k = 0; k < r->assigns.count && sure != YES; k++)
			sure = sure_max(sure, pattern_match(r->assigns.items[k], name));
		for (size_t k = 0; k < r->args.count && sure == YES; k++)
			sure = test_text(sh->run, &rule->args[k], value, sh->cwd);
		if (sure == YES && !is_moot(sh, rule))
			run_find(sh->run, r, rule->pack, r->verdict, start, end);
	}
}

void match_shape(struct shell *sh, enum gate_shape shape, uint32_t start, uint32_t end)
{
	for (size_t i = 0; i < sh->language->shape_count; i++) {
		const struct rule *rule = sh->language->shapes[i];
		if (rule->r->shape & 1u << shape && !is_moot(sh, rule))
			run_find(sh->run, rule->r, rule->pack, rule->r->verdict, start, end);
	}
}
