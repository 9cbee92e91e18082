/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and what the gate must make of them: a verdict, and the rule that the first finding of its kind names. */
#ifndef CORDON_TESTS_GATE_CASE_H
#define CORDON_TESTS_GATE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "gate/gate.h"

struct gate_case {
	const char *text;
	enum gate_verdict verdict;
	const char *rule; /* NULL: any, or none */
};

#define DENY(text, rule)              \
	{                             \
		text, GATE_DENY, rule \
	}
#define UNPROVEN(text, rule)              \
	{                                 \
		text, GATE_UNPROVEN, rule \
	}
#define ALLOW(text)                    \
	{                              \
		text, GATE_ALLOW, NULL \
	}

static const char *const all_packs[] = {"shell-destructive", "python-dangerous", "javascript-dangerous", "typescript-dangerous",
                                        "ruby-dangerous"};
static struct gate *gate;

static inline struct gate *open_with(unsigned granted)
{
	/* time without end: under valgrind, or on a busy machine, a long text takes longer than anybody else would wait */
	struct gate_config config = {.packs = all_packs, .pack_count = ARRAY_SIZE(all_packs), .granted = granted, .limit_ms = 600000};
	struct cordon_error err = {0};
	struct gate *g = NULL;
	if (gate_open(&g, &config, &err) < 0)
		fail_msg("%s", err.message);
	return g;
}

static inline int open_gate(void **state)
{
	(void)state;
	gate = open_with(GATE_SUBPROCESS);
	return 0;
}

static inline int close_gate(void **state)
{
	(void)state;
	gate_close(gate);
	return 0;
}

static inline bool names_rule(const struct gate_result *r, const char *rule)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->items[i].rule, rule) == 0)
			return true;
	return false;
}

static inline void check_cases(const struct gate *g, enum gate_language language, const struct gate_case *cases, size_t count)
{
	int wrong = 0;
	for (size_t i = 0; i < count; i++) {
		struct gate_result r;
		struct cordon_error err = {0};
		if (gate_code(g, language, cases[i].text, strlen(cases[i].text), &r, &err) < 0)
			fail_msg("%s", err.message);
		if (r.verdict != cases[i].verdict || (cases[i].rule && !names_rule(&r, cases[i].rule))) {
			print_error("%s%s%s expected, but %s (%s): %s\n", gate_verdict_names[cases[i].verdict], cases[i].rule ? " by " : "",
			            cases[i].rule ? cases[i].rule : "", gate_verdict_names[r.verdict],
			            r.count ? r.items[0].rule : "nothing found", cases[i].text);
			wrong++;
		}
		gate_result_free(&r);
	}
	assert_int_equal(wrong, 0);
}

#define CHECK(cases) check_cases(gate, GATE_SHELL, cases, ARRAY_SIZE(cases))

#endif
