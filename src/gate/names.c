/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of the gate call things. */
#include <string.h>

#include "base/util.h"
#include "gate/gate.h"

const char *const gate_language_names[GATE_LANGUAGES + 1] = {"shell", "python", "javascript", "typescript", "ruby",
                                                             "perl",  "php",    "awk",        NULL};
const char *const gate_verdict_names[] = {"allow", "unproven", "deny", NULL};
const char *const gate_severity_names[] = {"low", "medium", "high", "critical", NULL};

int gate_language_find(const char *name)
{
	static const struct {
		const char *name;
		enum gate_language language;
	} others[] = {{"bash", GATE_SHELL},    {"sh", GATE_SHELL},        {"py", GATE_PYTHON},     {"python3", GATE_PYTHON},
	              {"js", GATE_JAVASCRIPT}, {"node", GATE_JAVASCRIPT}, {"ts", GATE_TYPESCRIPT}, {"rb", GATE_RUBY}};
	for (int i = 0; i < GATE_LANGUAGES; i++)
		if (strcmp(name, gate_language_names[i]) == 0)
			return i;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(name, others[i].name) == 0)
			return (int)others[i].language;
	return -1;
}
