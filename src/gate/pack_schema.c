/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a pack file: one row each. The reader and the writer of packs know nothing else about them. */
#include "base/util.h"
#include "gate/pack.h"
#include "gate/text.h"

static const char *const severities[] = {"low", "medium", "high", "critical", NULL};
static const char *const permissions[] = {"subprocess", "network", "files", "dynamic", NULL};
static const char *const verdicts[] = {"allow", "unproven", "deny", NULL};
static const char *const dynamics[] = {"ignore", "unproven", "deny", NULL};
static const char *const shapes[] = {"self-spawn", "endless-spawn", "spin", "self-append", NULL};
static const char *const kinds[] = {"string", "list", "dict", "function", "number", "true", "false", "none", "name", "unknown", NULL};
static const char *const places[] = {"operand", "last",   "option", "word",  "name", "script", "code",    "stdin", "read", "write",
                                     "delete",  "change", "send",   "value", "by",   "arg",    "keyword", "self",  NULL};
static const char *const taints[] = {"decoded", "downloaded", "secret", "foreign", NULL};
static const unsigned taint_bits[] = {1u << MARK_DECODED, 1u << MARK_DOWNLOADED, 1u << MARK_SECRET, 1u << MARK_FOREIGN};
static const char *const styles[] = {"gnu", "words", "assign", "bundled", NULL};
static const char *const runs[] = {"nothing", "rest", "joined", "exec", "appended", "operand", NULL};
static const char *const builtins[] = {"none", "cd",   "assign", "alias", "read",  "set", "source",
                                       "true", "wait", "verify", "link",  "leave", NULL};
static const char *const outputs[] = {"unknown", "args",  "format", "stdin",  "cwd",      "operands", "dir", "base", "path",
                                      "program", "names", "text",   "mapped", "reversed", "base64",   "hex", "same", NULL};
static const char *const gives[] = {"text",  "arg", "self", "join",   "path",   "home-path", "env", "module", "member",  "global", "send",
                                    "below", "dir", "base", "format", "object", "decoded",   "new", "bound",  "methods", NULL};

_Static_assert(ARRAY_SIZE(places) == AT_COUNT + 1, "a word for every place");
_Static_assert(ARRAY_SIZE(shapes) == SHAPE_COUNT + 1, "a word for every shape");
_Static_assert(ARRAY_SIZE(gives) == GIVES_METHODS + 2, "a word for every result");

#define SHAPE(type_, noun_, fields_)                                       \
	{                                                                  \
#type_, noun_, sizeof(type_), fields_, ARRAY_SIZE(fields_) \
	}
#define AT(type, field) offsetof(struct type, field)

static const struct pack_field class_fields[] = {
	{.key = "name", .type = PACK_STR, .offset = AT(gate_class, name), .required = true},
	{.key = "paths", .type = PACK_PATTERNS, .offset = AT(gate_class, paths)},
	{.key = "below", .type = PACK_PATTERNS, .offset = AT(gate_class, below)},
	{.key = "except", .type = PACK_PATTERNS, .offset = AT(gate_class, except)},
	{.key = "taint", .type = PACK_FLAGS, .offset = AT(gate_class, taint), .words = taints, .bits = taint_bits},
};
static const struct pack_shape class_shape = SHAPE(struct gate_class, "class", class_fields);

static const struct pack_field test_fields[] = {
	{.key = "at", .type = PACK_WORD, .offset = AT(gate_test, at), .words = places, .required = true},
	{.key = "index", .type = PACK_INT, .offset = AT(gate_test, index), .fallback = -1},
	{.key = "of", .type = PACK_STRS, .offset = AT(gate_test, of)},
	{.key = "prefix", .type = PACK_STR, .offset = AT(gate_test, prefix)},
	{.key = "in", .type = PACK_STRS, .offset = AT(gate_test, in)},
	{.key = "text", .type = PACK_PATTERNS, .offset = AT(gate_test, text)},
	{.key = "except", .type = PACK_PATTERNS, .offset = AT(gate_test, except)},
	{.key = "kind", .type = PACK_FLAGS, .offset = AT(gate_test, kind), .words = kinds},
	{.key = "taint", .type = PACK_FLAGS, .offset = AT(gate_test, taint), .words = taints, .bits = taint_bits},
	{.key = "absent", .type = PACK_BOOL, .offset = AT(gate_test, absent)},
	{.key = "known", .type = PACK_BOOL, .offset = AT(gate_test, known)},
};
static const struct pack_shape test_shape = SHAPE(struct gate_test, "test", test_fields);

static const struct pack_field rule_fields[] = {
	{.key = "name", .type = PACK_STR, .offset = AT(gate_rule, name), .required = true},
	{.key = "reason", .type = PACK_STR, .offset = AT(gate_rule, reason), .required = true},
	{.key = "severity", .type = PACK_WORD, .offset = AT(gate_rule, severity), .words = severities, .fallback = GATE_HIGH},
	{.key = "needs", .type = PACK_FLAGS, .offset = AT(gate_rule, needs), .words = permissions},
	{.key = "verdict", .type = PACK_WORD, .offset = AT(gate_rule, verdict), .words = verdicts, .fallback = GATE_DENY},
	{.key = "dynamic", .type = PACK_WORD, .offset = AT(gate_rule, dynamic), .words = dynamics, .fallback = DYNAMIC_IGNORE},
	{.key = "command", .type = PACK_PATTERNS, .offset = AT(gate_rule, command)},
	{.key = "options", .type = PACK_STRS, .offset = AT(gate_rule, options)},
	{.key = "without", .type = PACK_STRS, .offset = AT(gate_rule, without)},
	{.key = "assigns", .type = PACK_PATTERNS, .offset = AT(gate_rule, assigns)},
	{.key = "shape", .type = PACK_FLAGS, .offset = AT(gate_rule, shape), .words = shapes},
	{.key = "names", .type = PACK_PATTERNS, .offset = AT(gate_rule, names)},
	{.key = "calls", .type = PACK_PATTERNS, .offset = AT(gate_rule, calls)},
	{.key = "imports", .type = PACK_PATTERNS, .offset = AT(gate_rule, imports)},
	{.key = "except", .type = PACK_PATTERNS, .offset = AT(gate_rule, except)},
	{.key = "args", .type = PACK_LIST, .offset = AT(gate_rule, args), .of = &test_shape},
	{.key = "any", .type = PACK_LIST, .offset = AT(gate_rule, any), .of = &test_shape},
	{.key = "match", .type = PACK_STRS, .offset = AT(gate_rule, match), .required = true},
	{.key = "not", .type = PACK_STRS, .offset = AT(gate_rule, not ), .required = true},
};
static const struct pack_shape rule_shape = SHAPE(struct gate_rule, "rule", rule_fields);

static const struct pack_field code_fields[] = {
	{.key = "at", .type = PACK_STRS, .offset = AT(gate_code, at), .required = true},
	{.key = "text", .type = PACK_PATTERNS, .offset = AT(gate_code, text)},
	{.key = "after", .type = PACK_STR, .offset = AT(gate_code, after)},
	{.key = "language", .type = PACK_WORD, .offset = AT(gate_code, language), .words = gate_language_names, .required = true},
};
static const struct pack_shape code_shape = SHAPE(struct gate_code, "code", code_fields);

static const struct pack_field command_fields[] = {
	{.key = "names", .type = PACK_PATTERNS, .offset = AT(gate_command, names), .required = true},
	{.key = "when", .type = PACK_STRS, .offset = AT(gate_command, when)},
	{.key = "unless", .type = PACK_STRS, .offset = AT(gate_command, unless)},
	{.key = "bare", .type = PACK_BOOL, .offset = AT(gate_command, bare)},
	{.key = "roles", .type = PACK_STRS, .offset = AT(gate_command, roles)},
	{.key = "style", .type = PACK_WORD, .offset = AT(gate_command, style), .words = styles},
	{.key = "values", .type = PACK_STRS, .offset = AT(gate_command, values)},
	{.key = "runs", .type = PACK_WORD, .offset = AT(gate_command, runs), .words = runs},
	{.key = "skip", .type = PACK_INT, .offset = AT(gate_command, skip)},
	{.key = "assigns", .type = PACK_BOOL, .offset = AT(gate_command, assigns)},
	{.key = "exec", .type = PACK_STRS, .offset = AT(gate_command, exec)},
	{.key = "code", .type = PACK_LIST, .offset = AT(gate_command, code), .of = &code_shape},
	{.key = "stdin",
         .c_name = "stdin_code",
         .type = PACK_WORD,
         .offset = AT(gate_command, stdin_code),
         .words = gate_language_names,
         .fallback = GATE_LANGUAGES},
	{.key = "stdin_with", .type = PACK_STRS, .offset = AT(gate_command, stdin_with)},
	{.key = "script", .type = PACK_WORD, .offset = AT(gate_command, script), .words = gate_language_names, .fallback = GATE_LANGUAGES},
	{.key = "builtin", .type = PACK_WORD, .offset = AT(gate_command, builtin), .words = builtins},
	{.key = "read", .type = PACK_STRS, .offset = AT(gate_command, read)},
	{.key = "write", .type = PACK_STRS, .offset = AT(gate_command, write)},
	{.key = "delete", .c_name = "remove", .type = PACK_STRS, .offset = AT(gate_command, remove)},
	{.key = "change", .type = PACK_STRS, .offset = AT(gate_command, change)},
	{.key = "send", .type = PACK_STRS, .offset = AT(gate_command, send)},
	{.key = "narrow", .type = PACK_STRS, .offset = AT(gate_command, narrow)},
	{.key = "output", .type = PACK_WORD, .offset = AT(gate_command, output), .words = outputs},
	{.key = "keeps", .type = PACK_PATTERNS, .offset = AT(gate_command, keeps)},
	{.key = "text", .type = PACK_STR, .offset = AT(gate_command, text)},
	{.key = "taint", .type = PACK_FLAGS, .offset = AT(gate_command, taint), .words = taints, .bits = taint_bits},
};
static const struct pack_shape command_shape = SHAPE(struct gate_command, "command", command_fields);

static const struct pack_field variable_fields[] = {
	{.key = "names", .type = PACK_PATTERNS, .offset = AT(gate_variable, names), .required = true},
	{.key = "language",
         .type = PACK_WORD,
         .offset = AT(gate_variable, language),
         .words = gate_language_names,
         .fallback = GATE_LANGUAGES},
	{.key = "taint", .type = PACK_FLAGS, .offset = AT(gate_variable, taint), .words = taints, .bits = taint_bits},
};
static const struct pack_shape variable_shape = SHAPE(struct gate_variable, "variable", variable_fields);

static const struct pack_field alias_fields[] = {
	{.key = "from", .type = PACK_STR, .offset = AT(gate_alias, from), .required = true},
	{.key = "to", .type = PACK_STR, .offset = AT(gate_alias, to), .required = true},
};
static const struct pack_shape alias_shape = SHAPE(struct gate_alias, "alias", alias_fields);

static const struct pack_field result_fields[] = {
	{.key = "calls", .type = PACK_PATTERNS, .offset = AT(gate_result_of, calls), .required = true},
	{.key = "gives", .type = PACK_WORD, .offset = AT(gate_result_of, gives), .words = gives, .required = true},
	{.key = "arg", .type = PACK_INT, .offset = AT(gate_result_of, arg)},
	{.key = "text", .type = PACK_STR, .offset = AT(gate_result_of, text)},
};
static const struct pack_shape result_shape = SHAPE(struct gate_result_of, "result", result_fields);

static const struct pack_field runs_fields[] = {
	{.key = "calls", .type = PACK_PATTERNS, .offset = AT(gate_runs_of, calls), .required = true},
	{.key = "shell", .type = PACK_INT, .offset = AT(gate_runs_of, shell), .fallback = -1},
	{.key = "argv", .type = PACK_INT, .offset = AT(gate_runs_of, argv), .fallback = -1},
	{.key = "shell_if", .type = PACK_STRS, .offset = AT(gate_runs_of, shell_if)},
};
static const struct pack_shape runs_shape = SHAPE(struct gate_runs_of, "run", runs_fields);

static const struct pack_field pack_fields[] = {
	{.key = "pack", .c_name = "name", .type = PACK_STR, .offset = AT(gate_pack, name), .required = true},
	{.key = "about", .type = PACK_STR, .offset = AT(gate_pack, about), .required = true},
	{.key = "language", .type = PACK_WORD, .offset = AT(gate_pack, language), .words = gate_language_names, .fallback = GATE_LANGUAGES},
	{.key = "include", .type = PACK_STRS, .offset = AT(gate_pack, include)},
	{.key = "also", .type = PACK_STRS, .offset = AT(gate_pack, also)},
	{.key = "classes", .type = PACK_LIST, .offset = AT(gate_pack, classes), .of = &class_shape},
	{.key = "commands", .type = PACK_LIST, .offset = AT(gate_pack, commands), .of = &command_shape},
	{.key = "variables", .type = PACK_LIST, .offset = AT(gate_pack, variables), .of = &variable_shape},
	{.key = "aliases", .type = PACK_LIST, .offset = AT(gate_pack, aliases), .of = &alias_shape},
	{.key = "results", .type = PACK_LIST, .offset = AT(gate_pack, results), .of = &result_shape},
	{.key = "runs", .type = PACK_LIST, .offset = AT(gate_pack, runs), .of = &runs_shape},
	{.key = "rules", .type = PACK_LIST, .offset = AT(gate_pack, rules), .of = &rule_shape},
};
const struct pack_shape pack_shape = SHAPE(struct gate_pack, "pack", pack_fields);
