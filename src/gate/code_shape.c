/* SPDX-License-Identifier: Apache-2.0 */
/* What only the shape of code shows: loops without end, texts of a size that no machine has. */
#include "base/util.h"
#include "gate/code.h"

#define BODY_MAX 4096 /* of a loop that is looked at: in a longer one somebody waits or leaves somewhere */

static bool has_any(struct text t, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (memmem(t.s, t.n, words[i], strlen(words[i])))
			return true;
	return false;
}

static struct text without_parens(struct text t)
{
	while (t.n > 1 && (t.s[0] == '(' || t.s[0] == ' '))
		t = text_from(t, 1);
	while (t.n > 1 && (t.s[t.n - 1] == ')' || t.s[t.n - 1] == ' '))
		t.n--;
	return t;
}

void shape_loop(struct code *c, uint32_t n)
{
	/* Ways out of a loop, and ways to wait in it. */
	static const char *const ways[] = {"break",  "return",   "raise",      "throw", "exit",  "yield", "await", "sleep",
	                                   "input",  "recv",     "accept",     ".read", ".get(", "wait",  "next(", "poll",
	                                   "select", "_forever", "gets",       "join",  "abort", "quit",  "stop",  "listen",
	                                   "pop(",   "prompt",   "setTimeout", "tick",  "step",  "y <<",  "fork"};
	static const char *const always[] = {"True", "true", "1", "not False", "!false", "!0"};
	uint32_t condition = tree_field(&c->tree, n, F_condition);
	struct text all = tree_text(&c->tree, n), test = condition ? without_parens(tree_text(&c->tree, condition)) : TEXT("");
	bool endless = text_begins(all, "for (;;)") || text_begins(all, "for(;;)") || text_begins(all, "for (; ;");
	endless = endless || (c->which == GATE_RUBY && (text_begins(all, "loop {") || text_begins(all, "loop do")));
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		endless = endless || text_is(test, always[i]);
	if (!endless || c->run->quiet || all.n > BODY_MAX || has_any(all, ways, ARRAY_SIZE(ways)))
		return;
	run_unproven(c->run, "endless-loop", "it goes on for ever, and never waits for anything", c->tree.nodes[n].start,
	             c->tree.nodes[n].end);
}

/* 10**12, 2**40, 1 << 34, 10_000_000_000: how many digits it has, about. */
static unsigned digits_of(struct text t)
{
	unsigned digits = 0, exponent = 0;
	size_t power = t.n, i;
	for (i = 0; i + 1 < t.n && power == t.n; i++)
		if ((t.s[i] == '*' && t.s[i + 1] == '*') || (t.s[i] == '<' && t.s[i + 1] == '<'))
			power = i;
	for (i = 0; i < power; i++)
		digits += t.s[i] >= '0' && t.s[i] <= '9';
	for (i = power; i < t.n && exponent < 10000; i++)
		if (t.s[i] >= '0' && t.s[i] <= '9')
			exponent = exponent * 10 + (unsigned)(t.s[i] - '0');
	return text_begins(t, "2") || text_begins(t, "1 <<") || text_begins(t, "1<<") ? digits + exponent * 3 / 10 : digits + exponent;
}

void shape_repeat(struct code *c, uint32_t n, struct text op, uint32_t left, uint32_t right)
{
	if (!text_is(op, "*") || !left || !right || c->run->quiet)
		return;
	uint16_t kind = c->tree.nodes[left].kind;
	struct text count = tree_text(&c->tree, right);
	if ((kind == C_STRING || kind == C_LIST) && count.n < 64 && digits_of(count) >= 10)
		run_unproven(c->run, "huge-value", "it takes more memory than there may be", c->tree.nodes[n].start, c->tree.nodes[n].end);
}
