/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `cordon audit`. The command itself is in cordon-full only, but its help is everywhere. */
#include <stddef.h>

#include "cmd/audit.h"

#define FLAG(member) offsetof(struct audit_flags, member)

/* clang-format off */
const struct option_def audit_options[] = {
	{.group = "Which records", .name = "sandbox", .argument = "ID", .offset = FLAG(sandbox), .help = "of this sandbox: its id, how that begins, or its name"},
	{.name = "exec", .argument = "ID", .offset = FLAG(exec), .help = "of this command: its id, or how that begins"},
	{.name = "tenant", .argument = "NAME", .offset = FLAG(tenant), .help = "of this tenant"},
	{.name = "level", .argument = "LEVEL", .offset = FLAG(level), .complete = COMPLETE_WORDS, .words = "debug info warning error critical",
	 .help = "this level or a more severe one: debug, info, warning, error, critical"},
	{.name = "category", .argument = "NAME", .offset = FLAG(categories), .repeat = true, .complete = COMPLETE_WORDS,
	 .words = "exec file network policy snapshot auth system",
	 .help = "exec, file, network, policy, snapshot, auth or system; may be repeated"},
	{.name = "denied", .offset = FLAG(denied), .help = "only what was refused"},
	{.name = "action", .argument = "GLOB", .offset = FLAG(action), .help = "what was done: start, connect ..."},
	{.name = "target", .argument = "GLOB", .offset = FLAG(target), .help = "what it was done to; ** also matches slashes"},
	{.name = "since", .argument = "TIME", .offset = FLAG(since), .help = "from then on: 2026-01-31T12:00:00Z, 2026-01-31, or how long ago: 90m, 2d"},
	{.name = "until", .argument = "TIME", .offset = FLAG(until), .help = "before then"},
	{.name = "limit", .argument = "N", .offset = FLAG(limit), .help = "the last N of these; 0: all (default: 100 in a table, else all)"},
	{.group = "What to do with them", .name = "summary", .offset = FLAG(summary),
	 .help = "count them: by level, category, verdict, target and sandbox"},
	{.name = "follow", .letter = 'f', .offset = FLAG(follow), .help = "and those still to come, until interrupted"},
	{.name = "export", .argument = "FILE", .offset = FLAG(export_to), .complete = COMPLETE_FILE,
	 .help = "write them to FILE.jsonl or FILE.csv; - is standard output"},
	{.name = "format", .argument = "FORMAT", .offset = FLAG(format), .complete = COMPLETE_WORDS, .words = "jsonl csv",
	 .help = "of --export, whatever the file is called: jsonl or csv"},
	{.name = "json", .offset = FLAG(json), .help = "print JSON: the records as they are, one per line; else one object"},
	{.group = "The log as a whole", .name = "verify", .offset = FLAG(verify), .help = "check every record, the chain and all seals; 1 if something is wrong"},
	{.name = "pub", .argument = "FILE", .offset = FLAG(pub), .complete = COMPLETE_FILE,
	 .help = "--verify with this public key (PEM), not the one that lies beside the log"},
	{.name = "expect", .argument = "SEQ:HASH", .offset = FLAG(expect), .help = "--verify that this record, noted earlier, is still there"},
	{.name = "seal", .offset = FLAG(seal), .help = "end the present segment, and sign all that are not signed yet"},
	{.name = "max-age", .argument = "TIME", .offset = FLAG(max_age), .help = "--seal, then remove signed segments that are older"},
	{.name = "max-size", .argument = "SIZE", .offset = FLAG(max_size), .help = "--seal, then remove the oldest signed segments beyond this size"},
	{0},
};
/* clang-format on */

const struct example audit_examples[] = {
	{"cordon audit", "what happened last"},
	{"cordon audit --denied --since 1h", "what was refused in the last hour"},
	{"cordon audit --sandbox web --category network --follow", "connections of a sandbox, as they are tried"},
	{"cordon audit --target '/app/**' --json | jq .detail", "everything about the workspace, for other programs"},
	{"cordon audit --summary --since 1d", "counts"},
	{"cordon audit --export week.csv --since 7d", "for a spreadsheet"},
	{"cordon audit --seal --max-age 90d --max-size 10G", "daily, by a timer"},
	{"cordon audit --verify --pub key.pub --expect 4711:9f86d0...", "with a key and a record that were noted elsewhere"},
	{0},
};

const char audit_about[] =
	"Every command, decision, file change, network attempt, snapshot and rollback is a record in $CORDON_HOME/audit, out of reach of what\n"
	"runs in a sandbox. Each record holds the hash of the one before it, and full segments are signed: a changed byte, a missing or\n"
	"moved record is found by --verify, which names it. Times are UTC. Secrets in commands are replaced by [redacted] before they\n"
	"are recorded.";
