/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/policy.h"
#include "cmd/run.h"

#define OPTION(member) offsetof(struct policy_options, member)

/* clang-format off */
const struct option_def policy_options[] = {
	{.group = "Which policy", .name = "policy", .argument = "FILE", .offset = OPTION(policy), .complete = COMPLETE_FILE,
	 .help = "explain: this file (default: the profile alone)"},
	{.name = "profile", .argument = "NAME", .offset = OPTION(profile), .complete = COMPLETE_WORDS, .words = "default locked dev",
	 .help = "what a file that extends nothing starts from; init: what the new file extends (default: default)"},
	{.name = "set", .argument = "KEY=VALUE", .offset = OPTION(set), .repeat = true,
	 .help = "explain: with this on top, as an option of run would set it; may be repeated"},
	{.name = "ceiling", .argument = "FILE", .offset = OPTION(ceiling), .complete = COMPLETE_FILE,
	 .help = "check: say also what of the files is more than this policy allows"},
	{.group = "What to explain", .name = "path", .argument = "PATH", .offset = OPTION(path),
	 .help = "may this path inside be read?"},
	{.name = "write", .offset = OPTION(write), .help = "with --path: written?"},
	{.name = "execute", .offset = OPTION(execute), .help = "with --path: run as a program?"},
	{.name = "host", .argument = "HOST[:PORT]", .offset = OPTION(host), .help = "may this host be reached? (port 443 by default)"},
	{.name = "command", .letter = 'c', .argument = "LINE", .offset = OPTION(command), .help = "what the gate says about a shell line"},
	{.name = "code", .argument = "FILE", .offset = OPTION(code), .complete = COMPLETE_FILE, .help = "what it says about code, with --lang"},
	{.name = "lang", .argument = "LANG", .offset = OPTION(lang), .complete = COMPLETE_WORDS, .words = language_words,
	 .help = "python, javascript, typescript, ruby or bash"},
	{.group = "Output", .name = "force", .letter = 'f', .offset = OPTION(force), .help = "init: replace a file that exists"},
	{.name = "json", .offset = OPTION(json), .help = "check, explain: print JSON"},
	{.name = "markdown", .offset = OPTION(markdown), .help = "schema: the reference of all keys, as docs/policy.md has it"},
	{0},
};
/* clang-format on */

const char policy_about[] =
	"A policy file says what a sandbox may do; run, create, exec and try take it with --policy FILE.\n"
	"\n"
	"  init [FILE]    write a file with every key, its meaning and its default, to policy.yaml or FILE (- is stdout)\n"
	"  check FILE...  say everything that is wrong with files, each with line and column; status 0 or 125\n"
	"  explain        print the effective policy, and where each value comes from; or answer --path, --host, --command\n"
	"                 or --code with the rule that decides: status 0 if it is allowed, 1 if not\n"
	"  schema         print the JSON schema of policy files, for editors";

const struct example policy_examples[] = {
	{"cordon policy init --profile locked agent.yaml", "a file to begin with"},
	{"cordon policy check *.yaml", "before it is used"},
	{"cordon policy check --ceiling team.yaml agent.yaml", "and whether it stays below another one"},
	{"cordon policy explain --policy agent.yaml", "what is in force, and which line says so"},
	{"cordon policy explain --policy agent.yaml --path /app/.env --write", "one question"},
	{"cordon run --policy agent.yaml -- make test", "what it is for"},
	{0},
};
