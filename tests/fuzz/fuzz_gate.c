/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands, code and packs of rules that strangers wrote. The first byte says which: a language, an argv (words end with NUL), or a pack. Besides memory errors and
 * what takes too long, the target fails when a verdict is not that of its findings, when a finding has no name, no reason or a place outside the text, when
 * a snippet is not one line of valid UTF-8, when the same text is judged otherwise the second time, and when a statement that is read without the
 * grammar (gate/plain.h) is not what the grammar makes of it.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "fuzz_seeds.h"
#include "gate/index.h"
#include "gate/pack.h"
#include "gate/plain.h"
#include "must.h"

enum { KIND_ARGV = GATE_LANGUAGES, KIND_PACK, KIND_ALL };

static struct gate *gate;

static const char *const packs[] = {"shell-destructive", "python-dangerous", "javascript-dangerous", "typescript-dangerous",
                                    "ruby-dangerous",    "perl-dangerous",   "php-dangerous",        "awk-dangerous"};

/* ---- seeds ------------------------------------------------------------------------------------------------------------------- */

static void seed_examples(const char *dir, const struct gate_pack *pack)
{
	for (size_t i = 0; i < pack->rules.count; i++) {
		const struct gate_rule *r = &pack->rules.items[i];
		const struct gate_strs *lists[] = {&r->match, &r->not };
		for (size_t l = 0; l < ARRAY_SIZE(lists); l++) {
			for (size_t k = 0; k < lists[l]->count; k++) {
				char name[160];
				snprintf(name, sizeof(name), "%s-%s-%zu-%zu", pack->name, r->name, l, k);
				seed_write(dir, name, (uint8_t)pack->language, lists[l]->items[k], strlen(lists[l]->items[k]));
			}
		}
	}
}

/* What the examples of rules have none of. */
static const char *const shell_seeds[] = {
	"cat <<'A' <<-B | sh\nrm -rf /\nA\n\t$(id)\n\tB\n",
	"for ((i = 0; i < 3; i++)); do echo \"${a[i]//x/y}\" ${b:1:2} ${c^^} ${!d}; done",
	"case $x in a|b) f ;; *) { g; } & esac; f() { f | f & }; coproc N { cat; }",
	"x=`echo \\`id\\`` ; [[ $x =~ ^a.*$ ]] && y+=(1 \"${x@Q}\") ; echo {a,b}{1..3} $'\\x41' $((1 + $(id)))",
	"if ! read -r a <<< \"$b\"; then exec 3<>/dev/tcp/a/1; cat <&3; fi 2>&1 >| x",
	"a\\\nb c\\\n\"d\" # e\\\nf",
	"A=1; B=\"$x $(y | z)\"\nif [ -f a ]; then b > c; else\n\td 'e' && f\nfi\nfor i in $j; do k & done 2>&1 | l\n",
	"f() {\n\tlocal a=\"$1\"\n}\ncase $a in\nb|c) d ;;\nesac\ncat > e <<F\ng\nF\nexport H=i J\nwhile k; do l; done\n",
	"a | b | c\nd || e\nf\n\\g h=1 i=2\nj=3 k\n",
};

static void write_seeds(const char *dir)
{
	static const char argv[] = "sudo\0sh\0-c\0rm -rf /\0";
	static const char pack[] =
		"pack: x\nabout: y\nlanguage: shell\ninclude: [shell-commands]\nrules:\n  - name: a\n    reason: b\n    command: [rm]\n"
		"    args:\n      - {at: delete, in: vital}\n    match: ['rm /']\n    not: ['ls']\n";
	for (const struct gate_pack *const *p = gate_builtin_packs; *p; p++)
		seed_examples(dir, *p);
	for (size_t i = 0; i < ARRAY_SIZE(shell_seeds); i++) {
		char name[32];
		snprintf(name, sizeof(name), "shell-%zu", i);
		seed_write(dir, name, GATE_SHELL, shell_seeds[i], strlen(shell_seeds[i]));
	}
	seed_write(dir, "argv", KIND_ARGV, argv, sizeof(argv) - 1);
	seed_write(dir, "pack", KIND_PACK, pack, sizeof(pack) - 1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct gate_config config = {.packs = packs, .pack_count = ARRAY_SIZE(packs), .limit_ms = 3000, .limit_bytes = (size_t)128 << 20};
	const char *dir = seeds_directory(*argc, *argv);
	MUST(gate_open(&gate, &config, NULL) == 0);
	if (dir)
		write_seeds(dir);
	return 0;
}

/* ---- what must hold ---------------------------------------------------------------------------------------------------------- */

static bool limited(const struct gate_result *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->items[i].rule, "limit") == 0)
			return true;
	return false;
}

static void check_result(const struct gate_result *r, size_t lines)
{
	enum gate_verdict worst = GATE_ALLOW;
	MUST(r->count <= GATE_FINDINGS);
	for (size_t i = 0; i < r->count; i++) {
		const struct gate_finding *f = &r->items[i];
		MUST(f->verdict == GATE_DENY || f->verdict == GATE_UNPROVEN);
		MUST(f->rule && f->rule[0] && f->reason && f->reason[0]);
		MUST(f->line >= 1 && f->line <= lines && f->column >= 1);
		MUST(f->snippet && strlen(f->snippet) <= GATE_SNIPPET && utf8_valid(f->snippet, strlen(f->snippet)));
		for (const char *s = f->snippet; *s; s++)
			MUST((unsigned char)*s >= 0x20 && *s != 0x7f);
		worst = f->verdict > worst ? f->verdict : worst;
	}
	MUST(r->verdict == worst || (r->more && r->verdict > worst));
}

struct script {
	const char *text;
	size_t len;
};

/* Behind a pipe of three parts the grammar may take a newline for a blank (gate/tree.c): within a statement there is nothing to compare then. */
static bool is_comparable(const char *s, size_t len)
{
	size_t pipes = 0;
	for (size_t i = 0; i < len; i++)
		pipes += s[i] == '|';
	const char *newline = memchr(s, '\n', len);
	return pipes < 2 || !newline || newline == s + len - 1;
}

static void compare_plain(struct run *r, void *data)
{
	const struct script *script = data;
	for (size_t at = 0; at < script->len;) {
		struct source *s = ARENA_NEW(&r->arena, struct source);
		struct plain p = {.run = r, .text = script->text + at, .end = (uint32_t)(script->len - at)};
		const char *newline = memchr(p.text, '\n', p.end);
		struct node root = {0};
		struct tree tree;
		ARENA_PUSH(&r->arena, p.nodes, p.count, root);
		if (plain_line(&p) && is_comparable(p.text, p.at)) {
			*s = (struct source){.text = p.text, .len = p.at};
			r->source = s;
			tree_read_whole(r, r->gate->languages[GATE_SHELL].grammar, &tree);
			MUST(tree.count == p.count && memcmp(tree.nodes + 1, p.nodes + 1, (p.count - 1) * sizeof(*p.nodes)) == 0);
		}
		at += p.at ? p.at : newline ? (size_t)(newline - p.text) + 1 : p.end;
	}
}

static void check_plain(const char *text, size_t len)
{
	struct script script = {text, len};
	struct gate_result r;
	MUST(run_check(gate, compare_plain, &script, &r, NULL) == 0);
	gate_result_free(&r);
}

static void check_text(enum gate_language language, const char *text, size_t len)
{
	struct gate_result first, second;
	size_t lines = 1;
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	MUST(gate_code(gate, language, text, len, &first, NULL) == 0);
	check_result(&first, lines);
	MUST(gate_code(gate, language, text, len, &second, NULL) == 0);
	MUST(limited(&first) || limited(&second) || (first.verdict == second.verdict && first.count == second.count));
	gate_result_free(&first);
	gate_result_free(&second);
}

static void check_argv(const char *data, size_t len)
{
	const char *argv[64] = {NULL};
	char *copy = malloc(len + 1);
	struct gate_result r;
	size_t count = 0, lines = 1;
	MUST(copy);
	memcpy(copy, data, len);
	copy[len] = '\0';
	for (size_t i = 0; i < len && count < ARRAY_SIZE(argv) - 1; i += strlen(copy + i) + 1)
		argv[count++] = copy + i;
	for (size_t i = 0; i < len; i++)
		lines += copy[i] == '\n';
	MUST(gate_argv(gate, argv, &r, NULL) == 0);
	check_result(&r, lines);
	gate_result_free(&r);
	free(copy);
}

static void full(struct arena *a, int out_of_memory) __attribute__((noreturn));
static void full(struct arena *a, int out_of_memory)
{
	(void)out_of_memory;
	longjmp(*(jmp_buf *)a->owner, 1);
}

/* A pack that is accepted can be used. */
static void use_pack(const struct gate_pack *pack)
{
	struct gate_config config = {.limit_ms = 500, .limit_bytes = (size_t)32 << 20};
	struct cordon_error err = {0};
	struct gate_result r;
	struct gate *g;
	static const char text[] = "sudo rm -rf / | sh -c 'curl x | sh'";
	if (gate_open_packs(&g, &config, &pack, 1, gate_builtin_packs, &err) < 0) {
		MUST(err.message[0]);
		return;
	}
	if (pack->language != GATE_LANGUAGES) {
		MUST(gate_code(g, pack->language, text, sizeof(text) - 1, &r, NULL) == 0);
		gate_result_free(&r);
	}
	gate_close(g);
}

static void check_pack(const char *text, size_t len)
{
	jmp_buf stop;
	struct arena arena = {.limit = (size_t)64 << 20, .fail = full, .owner = &stop};
	struct gate_pack *pack = NULL;
	struct cordon_error err = {0};
	if (setjmp(stop) == 0) {
		if (pack_read(&arena, "pack.yaml", text, len, &pack, &err) == 0)
			use_pack(pack);
		else
			MUST(err.message[0]);
	}
	arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	unsigned kind = data[0] % KIND_ALL;
	const char *text = (const char *)data + 1;
	if (kind < GATE_LANGUAGES)
		check_text((enum gate_language)kind, text, size - 1);
	if (kind == GATE_SHELL)
		check_plain(text, size - 1);
	if (kind < GATE_LANGUAGES)
		return 0;
	if (kind == KIND_ARGV)
		check_argv(text, size - 1);
	else
		check_pack(text, size - 1);
	return 0;
}
