/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "gate/index.h"
#include "gate/run.h"
#include "policy/policy.h"

#define LIMIT_MS 2000
#define LIMIT_BYTES ((size_t)256 << 20)
#define OPEN_BYTES ((size_t)64 << 20)

const char *gate_pack_name(size_t n)
{
	for (size_t i = 0; i <= n; i++)
		if (!gate_builtin_packs[i])
			return NULL;
	return gate_builtin_packs[n]->name;
}

const char *gate_pack_about(const char *name)
{
	for (const struct gate_pack *const *p = gate_builtin_packs; *p; p++)
		if (strcmp((*p)->name, name) == 0)
			return (*p)->about;
	return NULL;
}

/* ---- opening ----------------------------------------------------------------------------------------------------------------- */

static void open_failed(struct arena *a, int out_of_memory) __attribute__((noreturn));
static void open_failed(struct arena *a, int out_of_memory)
{
	(void)out_of_memory;
	longjmp(*(jmp_buf *)a->owner, 1);
}

struct opening {
	const struct gate_config *config;
	const struct gate_pack *const *packs; /* given; or NULL: the configuration names them */
	size_t count;
	const struct gate_pack *const *known; /* where includes are found */
	struct cordon_error *err;
};

static const struct gate_pack *builtin(const char *name)
{
	for (const struct gate_pack *const *p = gate_builtin_packs; *p; p++)
		if (strcmp((*p)->name, name) == 0)
			return *p;
	return NULL;
}

static int unknown_pack(const char *name, struct cordon_error *err)
{
	const char *names[64];
	size_t count = 0;
	for (const struct gate_pack *const *p = gate_builtin_packs; *p && count < ARRAY_SIZE(names); p++)
		names[count++] = (*p)->name;
	const char *near = nearest_word(name, names, count);
	err_set(err, CORDON_ERR_INPUT, "there is no pack of rules named '%s'", name);
	return near ? err_hint(err, "did you mean '%s'? A file is named with a slash: ./%s.yaml", near, name)
	            : err_hint(err, "a file is named with a slash in it: ./%s.yaml", name);
}

/* A pack by its name, or out of a file: then its examples are tried before it is used. */
static int add_named(struct gate *g, const char *name, struct cordon_error *err)
{
	const struct gate_pack *pack = builtin(name);
	if (!pack && !strchr(name, '/'))
		return unknown_pack(name, err);
	if (!pack) {
		struct gate_pack *made;
		if (pack_read(&g->arena, name, NULL, 0, &made, err) < 0 || pack_check(made, gate_builtin_packs, err) < 0)
			return -1;
		pack = made;
	}
	return index_add_pack(g, pack, gate_builtin_packs, err);
}

/* A rule about a command holds for it behind sudo and within sh -c, too: what that is, a pack says. */
static int add_addition(struct gate *g, const struct gate_addition *a, size_t n, struct cordon_error *err)
{
	const struct gate_pack *commands = builtin("shell-commands");
	if (a->language == GATE_SHELL && !g->languages[GATE_SHELL].used && commands &&
	    index_add_tables(g, GATE_SHELL, commands, gate_builtin_packs, err) < 0)
		return -1;
	return index_add_addition(g, a, n, err);
}

static int fill(struct gate *g, const struct opening *o)
{
	const struct gate_config *c = o->config;
	const char *workspace = c->workspace ? c->workspace : "/app", *home = c->home ? c->home : "/home/user";
	g->workspace = path_resolve(&g->arena, TEXT("/"), text_of(arena_text(&g->arena, workspace, strlen(workspace))));
	g->home = path_resolve(&g->arena, TEXT("/"), text_of(arena_text(&g->arena, home, strlen(home))));
	g->granted = c->granted;
	g->limit_ms = c->limit_ms ? c->limit_ms : LIMIT_MS;
	g->limit_bytes = c->limit_bytes ? c->limit_bytes : LIMIT_BYTES;
	for (size_t i = 0; i < o->count; i++)
		if (index_add_pack(g, o->packs[i], o->known, o->err) < 0)
			return -1;
	for (size_t i = 0; i < c->pack_count; i++)
		if (add_named(g, c->packs[i], o->err) < 0)
			return -1;
	for (size_t i = 0; i < c->addition_count; i++)
		if (add_addition(g, &c->additions[i], i, o->err) < 0)
			return -1;
	index_finish(g);
	return 0;
}

/* Apart, so that no local of the caller is live across the jump. */
static int guarded(struct gate *g, const struct opening *o, jmp_buf *stop)
{
	if (setjmp(*stop))
		return err_set(o->err, CORDON_ERR_SYSTEM, "out of memory");
	return fill(g, o);
}

static int open_gate(struct gate **out, const struct opening *o)
{
	struct gate *g = calloc(1, sizeof(*g));
	jmp_buf stop;
	if (!g)
		return err_set(o->err, CORDON_ERR_SYSTEM, "out of memory");
	g->arena.limit = OPEN_BYTES;
	g->arena.fail = open_failed;
	g->arena.owner = &stop;
	if (guarded(g, o, &stop) < 0) {
		gate_close(g);
		return -1;
	}
	g->arena.owner = NULL; /* nothing is added any more */
	*out = g;
	return 0;
}

int gate_open(struct gate **out, const struct gate_config *config, struct cordon_error *err)
{
	return open_gate(out, &(struct opening){.config = config, .err = err});
}

int gate_open_packs(struct gate **out, const struct gate_config *config, const struct gate_pack *const *packs, size_t count,
                    const struct gate_pack *const *known, struct cordon_error *err)
{
	return open_gate(out, &(struct opening){.config = config, .packs = packs, .count = count, .known = known, .err = err});
}

void gate_close(struct gate *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < GATE_LANGUAGES; i++)
		grammar_free(g->languages[i].grammar);
	arena_free(&g->arena);
	free(g);
}

bool gate_reads(const struct gate *g, enum gate_language language)
{
	return g->languages[language].direct;
}

/* ---- checks ------------------------------------------------------------------------------------------------------------------ */

struct request {
	enum gate_language language;
	const char *text;
	size_t len;
	const char *const *argv;
};

/* Bytes that stand for something else inside are no part of any text that means well. */
static void check_bytes(struct run *r)
{
	const struct source *s = r->source;
	for (size_t i = 0; i < s->len; i++) {
		if (s->text[i] == '\0' || is_mark(s->text[i])) {
			run_unproven(r, "control-character", "there are control characters in it", (uint32_t)i, (uint32_t)i + 1);
			return;
		}
	}
}

static void check_text(struct run *r, void *data)
{
	const struct request *q = data;
	struct source *s = ARENA_NEW(&r->arena, struct source);
	if (q->len > UINT32_MAX / 4)
		run_stop(r, "the text is longer than a check may look at");
	/* Markers must not come from outside: they become what they could stand for. */
	char *copy = arena_text(&r->arena, q->text, q->len);
	s->text = copy;
	s->len = q->len;
	r->source = s;
	check_bytes(r);
	for (size_t i = 0; i < q->len; i++)
		if (is_mark(copy[i]) || !copy[i])
			copy[i] = MARK_ANY;
	if (!r->gate->languages[q->language].direct)
		return;
	if (q->language == GATE_SHELL)
		shell_check(r);
	else
		code_check(r, q->language);
}

static void check_argv(struct run *r, void *data)
{
	const struct request *q = data;
	struct text *words = NULL, all = TEXT("");
	size_t count = 0;
	for (size_t i = 0; q->argv[i]; i++) {
		size_t n = strlen(q->argv[i]);
		char *copy = arena_text(&r->arena, q->argv[i], n);
		for (size_t k = 0; k < n; k++)
			if (is_mark(copy[k]))
				copy[k] = MARK_ANY;
		struct text word = {copy, n};
		ARENA_PUSH(&r->arena, words, count, word);
		if (all.n < 4096) /* it is only shown */
			all = all.n ? text_cat3(&r->arena, all, TEXT(" "), word) : word;
	}
	struct source *s = ARENA_NEW(&r->arena, struct source);
	s->text = all.s;
	s->len = all.n;
	r->source = s;
	run_argv(r, words, count, 0, (uint32_t)all.n);
}

int gate_shell(const struct gate *g, const char *text, size_t len, struct gate_result *result, struct cordon_error *err)
{
	return gate_code(g, GATE_SHELL, text, len, result, err);
}

int gate_code(const struct gate *g, enum gate_language language, const char *text, size_t len, struct gate_result *result,
              struct cordon_error *err)
{
	return run_check(g, check_text, &(struct request){.language = language, .text = text, .len = len}, result, err);
}

int gate_argv(const struct gate *g, const char *const *argv, struct gate_result *result, struct cordon_error *err)
{
	return run_check(g, check_argv, &(struct request){.argv = argv}, result, err);
}
