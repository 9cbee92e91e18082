/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/tree.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "gate/code.h"
#include "gate/plain.h"
#include "gate/shell.h"

const TSLanguage *tree_sitter_bash(void);
const TSLanguage *tree_sitter_python(void);
const TSLanguage *tree_sitter_javascript(void);
const TSLanguage *tree_sitter_typescript(void);
const TSLanguage *tree_sitter_ruby(void);

static const struct {
	const TSLanguage *(*language)(void);
	const struct tree_kind *kinds;
} languages[GATE_LANGUAGES] = {
	[GATE_SHELL] = {tree_sitter_bash, shell_kinds},
	[GATE_PYTHON] = {tree_sitter_python, python_kinds},
	[GATE_JAVASCRIPT] = {tree_sitter_javascript, javascript_kinds},
	[GATE_TYPESCRIPT] = {tree_sitter_typescript, javascript_kinds},
	[GATE_RUBY] = {tree_sitter_ruby, ruby_kinds},
};

struct grammar {
	const TSLanguage *language;
	bool in_lines; /* read line by line */
	uint16_t *kinds;
	uint8_t *named;
	uint8_t *fields;
	uint32_t symbols, field_count;
};

static const char *const field_names[] = {NULL,
#define X(name) #name,
                                          TREE_FIELDS(X)
#undef X
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tree_kind *)a)->name, ((const struct tree_kind *)b)->name);
}

static uint16_t kind_of(const struct tree_kind *sorted, size_t count, const char *name, bool named)
{
	/* Keywords have the names of the nodes that they begin ("lambda", "if"): of these, only the node is of interest. */
	if (!named && ((name[0] >= 'a' && name[0] <= 'z') || name[0] == '_'))
		return 0;
	struct tree_kind key = {.name = name};
	const struct tree_kind *found = bsearch(&key, sorted, count, sizeof(*sorted), by_name);
	return found ? found->kind : 0;
}

static void fill(struct grammar *g, const struct tree_kind *sorted, size_t count)
{
	for (uint32_t i = 0; i < g->symbols; i++) {
		const char *name = ts_language_symbol_name(g->language, (TSSymbol)i);
		g->named[i] = ts_language_symbol_type(g->language, (TSSymbol)i) == TSSymbolTypeRegular;
		g->kinds[i] = name ? kind_of(sorted, count, name, g->named[i]) : 0;
	}
	for (uint32_t i = 1; i <= g->field_count; i++) {
		const char *name = ts_language_field_name_for_id(g->language, (TSFieldId)i);
		for (uint8_t k = 1; name && k < F_COUNT; k++)
			if (strcmp(name, field_names[k]) == 0)
				g->fields[i] = k;
	}
}

struct grammar *grammar_new(enum gate_language language)
{
	if (!languages[language].language)
		return NULL;
	struct grammar *g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	size_t count = 0;
	while (languages[language].kinds[count].name)
		count++;
	_cleanup_free_ struct tree_kind *sorted = calloc(count + 1, sizeof(*sorted));
	g->language = languages[language].language();
	g->in_lines = language == GATE_SHELL;
	g->symbols = ts_language_symbol_count(g->language);
	g->field_count = ts_language_field_count(g->language);
	g->kinds = calloc(g->symbols, sizeof(*g->kinds));
	g->named = calloc(g->symbols, 1);
	g->fields = calloc(g->field_count + 1, 1);
	if (!sorted || !g->kinds || !g->named || !g->fields) {
		grammar_free(g);
		return NULL;
	}
	memcpy(sorted, languages[language].kinds, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), by_name);
	fill(g, sorted, count);
	return g;
}

void grammar_free(struct grammar *g)
{
	if (!g)
		return;
	free(g->kinds);
	free(g->named);
	free(g->fields);
	free(g);
}

/* ---- parsing ----------------------------------------------------------------------------------------------------------------- */

static uint64_t micros_left(const struct run *r)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t at = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return at < r->deadline ? (r->deadline - at) / 1000 + 1 : 1;
}

#ifndef GATE_TS_TIMEOUT
/* Since 0.26 a callback takes the place of the time-out. */
static bool out_of_time(TSParseState *state)
{
	return micros_left(state->payload) == 1;
}

struct piece {
	const char *text;
	uint32_t len;
};

static const char *read_piece(void *payload, uint32_t offset, TSPoint position, uint32_t *n)
{
	const struct piece *p = payload;
	*n = offset < p->len ? p->len - offset : 0;
	return p->text + (offset < p->len ? offset : p->len);
}
#endif

static void parse(struct run *r, const struct grammar *g, const char *text, uint32_t len)
{
	if (!r->parser && !(r->parser = ts_parser_new())) {
		r->out_of_memory = 1;
		run_stop(r, "out of memory");
	}
	ts_parser_reset(r->parser);
	if (!ts_parser_set_language(r->parser, g->language))
		run_stop(r, "the installed libtree-sitter does not take this grammar");
#ifdef GATE_TS_TIMEOUT
	ts_parser_set_timeout_micros(r->parser, micros_left(r));
	r->tree = ts_parser_parse_string(r->parser, NULL, text, len);
#else
	struct piece piece = {text, len};
	TSInput input = {.payload = &piece, .read = read_piece, .encoding = TSInputEncodingUTF8};
	TSParseOptions options = {.payload = r, .progress_callback = out_of_time};
	r->tree = ts_parser_parse_with_options(r->parser, NULL, input, options);
#endif
	if (!r->tree)
		run_stop(r, "the text takes longer to parse than a check may last");
}

static void forget(struct run *r)
{
	ts_tree_delete(r->tree);
	r->tree = NULL;
}

/* A cursor belongs to the run until it is let go: a check may be abandoned while it is in use. */
static TSTreeCursor *cursor_at(struct run *r, TSNode node)
{
	TSTreeCursor *c = &r->cursors[r->cursor_count];
	*c = ts_tree_cursor_new(node);
	r->cursor_count++;
	return c;
}

static void cursor_done(struct run *r)
{
	ts_tree_cursor_delete(&r->cursors[--r->cursor_count]);
}

struct builder {
	struct run *run;
	const struct grammar *grammar;
	struct tree *tree;
	struct node *nodes;
	uint32_t count;
	uint32_t base; /* of the piece in the text */
	/* of shell: */
	char *text;       /* what is parsed, with a newline behind it: see divide() */
	struct map lines; /* struct line: what a line was that is a statement by itself */
};

/* Nodes, by their place in the list, and where the line began. */
struct line {
	uint32_t from, to, start;
};

#define DEPTH_MAX 2000

static void note_error(struct builder *b, uint32_t start, uint32_t end)
{
	if (b->tree->error == b->tree->error_end) {
		b->tree->error = start;
		b->tree->error_end = end > start ? end : start + 1;
	}
}

static void count_nodes(struct run *r, uint32_t n)
{
	r->nodes += n;
	if (r->nodes > RUN_NODES)
		run_stop(r, "the text has more parts than a check may look at");
}

/* Puts the node at the cursor behind the list; false if it is of no use (a comment). */
static bool add(struct builder *b, TSTreeCursor *cursor)
{
	TSNode n = ts_tree_cursor_current_node(cursor);
	const struct grammar *g = b->grammar;
	TSSymbol symbol = ts_node_symbol(n);
	struct node node = {.start = b->base + ts_node_start_byte(n), .end = b->base + ts_node_end_byte(n), .size = 1};
	if (symbol < g->symbols) {
		node.kind = g->kinds[symbol];
		node.flags = g->named[symbol] ? NODE_NAMED : 0;
	} else { /* what does not parse has a symbol of its own, outside the table */
		node.flags = NODE_ERROR | NODE_NAMED;
		note_error(b, node.start, node.end);
	}
	if (ts_node_is_missing(n)) {
		node.flags |= NODE_MISSING;
		note_error(b, node.start, node.end);
	}
	if (ts_node_is_extra(n) && !(node.flags & NODE_ERROR) && !node.kind)
		return false;
	TSFieldId field = ts_tree_cursor_current_field_id(cursor);
	node.field = field && field <= g->field_count ? g->fields[field] : 0;
	count_nodes(b->run, 1);
	ARENA_PUSH(&b->run->arena, b->nodes, b->count, node);
	return true;
}

/* The node that the cursor begins with, and all below it. Deeper levels than DEPTH_MAX are left out, and are an error. */
static void add_tree(struct builder *b, TSNode top)
{
	uint32_t open[DEPTH_MAX];
	unsigned depth = 0;
	TSTreeCursor *cursor = cursor_at(b->run, top);
	bool added = add(b, cursor);
	for (;;) {
		run_step(b->run);
		if (added && depth < DEPTH_MAX && ts_tree_cursor_goto_first_child(cursor)) {
			open[depth++] = b->count - 1;
			added = add(b, cursor);
			continue;
		}
		if (added && depth == DEPTH_MAX)
			note_error(b, b->nodes[b->count - 1].start, b->nodes[b->count - 1].end);
		bool more = false;
		while (depth && !(more = ts_tree_cursor_goto_next_sibling(cursor))) {
			ts_tree_cursor_goto_parent(cursor);
			depth--;
			b->nodes[open[depth]].size = b->count - open[depth];
		}
		if (!more)
			break;
		added = add(b, cursor);
	}
	cursor_done(b->run);
}

/* ---- shell, line by line ----------------------------------------------------------------------------------------------------- */

/*
 * A script is read line by line: what is plain without the grammar (plain.h), what was read before from memory, the rest by the grammar in pieces. A
 * piece is one line, if that is without errors, else it ends at a line's end; its last statement, which may be cut, and everything from the first error
 * on are parsed again with the next piece. Only whole lines are taken out of a piece.
 */
#define PIECE_MIN 1024
#define PIECE 16384
#define PIECE_MAX (4u << 20)
#define PLAIN_MAX 65536 /* of one statement, so that what turns out not to be plain at its end costs little */

static uint32_t cut(const char *text, uint32_t at, uint32_t len, uint32_t want)
{
	if (want >= len - at)
		return len - at;
	const char *newline = memrchr(text + at, '\n', want);
	return newline ? (uint32_t)(newline - (text + at)) + 1 : want;
}

static uint32_t add_plain_lines(struct builder *b, uint32_t at, uint32_t len)
{
	struct plain p = {.run = b->run, .nodes = b->nodes, .count = b->count, .text = b->text, .at = at};
	do {
		count_nodes(b->run, p.count - b->count);
		b->nodes = p.nodes;
		b->count = p.count;
		run_step(b->run);
		p.end = len - p.at > PLAIN_MAX ? p.at + PLAIN_MAX : len + 1;
	} while (p.at < len && plain_line(&p));
	b->nodes = p.nodes; /* they may have been moved */
	return MIN(p.at, len);
}

/* Long scripts were written by programs, and say the same again and again: a line that was a statement by itself is one wherever a statement begins. */
static uint32_t add_known_lines(struct builder *b, uint32_t at, uint32_t len)
{
	const char *text = b->text;
	for (;;) {
		while (at < len && text[at] == '\n')
			at++;
		const char *end = b->lines.count ? memchr(text + at, '\n', len - at) : NULL;
		const struct line *line = end ? map_get(&b->lines, (struct text){text + at, (size_t)(end - (text + at))}) : NULL;
		if (!line)
			return at;
		for (uint32_t i = line->from; i < line->to; i++) {
			struct node node = b->nodes[i];
			node.start += at - line->start;
			node.end += at - line->start;
			ARENA_PUSH(&b->run->arena, b->nodes, b->count, node);
		}
		count_nodes(b->run, line->to - line->from);
		run_step(b->run);
		at = (uint32_t)(end - text);
	}
}

/* What needs no grammar. */
static uint32_t add_lines(struct builder *b, uint32_t at, uint32_t len)
{
	for (uint32_t next;; at = next) {
		next = add_known_lines(b, add_plain_lines(b, at, len), len);
		if (next == at)
			return at;
	}
}

/* The statement that ends at `end`, and others in front of it from the line's beginning on, make up a line. */
static void remember_line(struct builder *b, uint32_t start, uint32_t end, uint32_t from)
{
	struct text line = {b->text + start, end - start};
	if (b->tree->error != b->tree->error_end || memchr(line.s, '\n', line.n))
		return;
	void **slot = map_put(&b->lines, &b->run->arena, line);
	if (*slot)
		return;
	struct line *l = ARENA_NEW(&b->run->arena, struct line);
	*l = (struct line){from, b->count, start};
	*slot = l;
}

static bool at_line_end(const char *text, uint32_t at, uint32_t end)
{
	while (at < end && (text[at] == ' ' || text[at] == '\t'))
		at++;
	return at < end && text[at] == '\n';
}

/* The words of these are on one line. */
static bool is_on_a_line(const struct node *n)
{
	return n->kind == S_COMMAND || n->kind == S_DECLARE || n->kind == S_UNSET || n->kind == S_REDIRECTED || n->kind == S_FILE_REDIRECT;
}

/* A newline that ends a statement stands between the two. */
static bool is_divided(const char *text, const struct node *left, const struct node *right)
{
	uint32_t end = right->start;
	while (end < right->end &&
	       (text[end] == ' ' || text[end] == '\t' || text[end] == '\n')) /* the grammar may make it part of a word */
		end++;
	for (uint32_t i = left->end; i < end; i++)
		if (text[i] == '\n' && text[i - 1] != '\\')
			return left->kind != S_HEREDOC;
	return false;
}

/*
 * After some statements the grammar takes a newline for a blank, and the next line for more words of the same command: "a | b | c", newline,
 * "rm -rf / || true". There a semicolon takes the place of the newline, for the parser. True if there was one in the statement, which is the last in the list.
 */
static bool divide(struct builder *b, uint32_t from)
{
	bool found = false;
	for (uint32_t n = from; n < b->count; n++) {
		uint32_t end = n + b->nodes[n].size, last = n + 1;
		if (!is_on_a_line(&b->nodes[n]))
			continue;
		for (uint32_t c = n + 1; c < end; last = c, c += b->nodes[c].size) {
			if (c == last || !is_divided(b->text, &b->nodes[last], &b->nodes[c]))
				continue;
			char *at = &b->text[b->nodes[last].end];
			found = found || *at != ';';
			if (*at == ';') /* it did not help */
				note_error(b, b->nodes[c].start, b->nodes[c].end);
			*at = ';';
		}
	}
	return found;
}

/* Adds the lines that are certain to be whole; the place from which to go on, or `at` if a larger piece is needed. `again`: the text has been changed. */
static uint32_t add_piece(struct builder *b, uint32_t at, uint32_t n, bool last, bool large, bool *again)
{
	TSNode root = ts_tree_root_node(b->run->tree);
	const char *text = b->text;
	uint32_t next = at, whole = b->count, line = UINT32_MAX, line_from = 0;
	TSTreeCursor *cursor = cursor_at(b->run, root);
	uint32_t children = ts_node_child_count(root), i = 0;
	b->base = at;
	*again = false;
	bool more = ts_tree_cursor_goto_first_child(cursor);
	/* What cannot be read as a script at all is one error, with what was made of it below. */
	if (ts_node_symbol(root) >= b->grammar->symbols) {
		more = more && (last || large);
		if (more)
			note_error(b, at + ts_node_start_byte(root), at + ts_node_end_byte(root));
	}
	for (; more; more = ts_tree_cursor_goto_next_sibling(cursor), i++) {
		TSNode child = ts_tree_cursor_current_node(cursor);
		bool error = ts_node_has_error(child) || ts_node_is_missing(child);
		/* An error that a larger piece did not heal, with much that is whole behind it, is one of the text itself. */
		bool own = error && large && i == 0 && children > 8 && ts_node_end_byte(child) < n / 2;
		if (!last && ((error && !own) || i + 2 >= children))
			break;
		uint32_t start = at + ts_node_start_byte(child), end = at + ts_node_end_byte(child), from = b->count;
		if (start == 0 || text[start - 1] == '\n') {
			line = start;
			line_from = b->count;
		}
		add_tree(b, child);
		if (b->count > from && !error && (*again = divide(b, from)))
			break;
		if (line != UINT32_MAX && end < at + n && text[end] == '\n')
			remember_line(b, line, end, line_from);
		if (own || at_line_end(text, end, at + n)) {
			next = end;
			whole = b->count;
		}
	}
	cursor_done(b->run);
	if (last && !*again)
		return at + n;
	b->count = whole;
	return next;
}

/* The line at `at`, if it may be a statement by itself; else 0. */
static uint32_t whole_line(const char *text, uint32_t at, uint32_t len)
{
	const char *end = memchr(text + at, '\n', len - at);
	uint32_t n = end ? (uint32_t)(end - (text + at)) + 1 : 0;
	return n < 2 || text[at + n - 2] == '\\' || memmem(text + at, n, "<<", 2) ? 0 : n;
}

/* Parses n bytes, and adds what is certain. `line`: that is nothing unless there is no error in them at all. */
static uint32_t read_piece(struct builder *b, uint32_t at, uint32_t n, bool line, bool last, bool large, bool *again)
{
	uint32_t next = at;
	*again = false;
	parse(b->run, b->grammar, b->text + at, n);
	if (!line || !ts_node_has_error(ts_tree_root_node(b->run->tree)))
		next = add_piece(b, at, n, last || line, large, again);
	forget(b->run);
	return next;
}

static void parse_lines(struct builder *b, uint32_t len)
{
	uint32_t at = 0, want = 0; /* 0: one line */
	for (uint32_t from; (from = add_lines(b, at, len)) < len;) {
		bool again;
		uint32_t line = want && from == at ? 0 : whole_line(b->text, from, len);
		want = line ? 0 : from > at || !want ? PIECE_MIN : want;
		uint32_t n = line ? line : cut(b->text, from, len, want);
		bool last = n == len - from || want >= PIECE_MAX;
		at = read_piece(b, from, n, line, last, want > 2 * PIECE, &again);
		if (at > from)
			want = 0;
		else if (!again)
			want = want ? want * 2 : PIECE_MIN;
	}
}

static struct builder builder_for(struct run *r, const struct grammar *g, struct tree *out)
{
	const struct source *s = r->source;
	*out = (struct tree){.text = {s->text, s->len}};
	if (s->len > UINT32_MAX / 2)
		run_stop(r, "the text is longer than a check may look at");
	return (struct builder){.run = r, .grammar = g, .tree = out};
}

void tree_read_lines(struct run *r, const struct grammar *g, struct tree *out)
{
	struct builder b = builder_for(r, g, out);
	struct node root = {.end = (uint32_t)out->text.n, .size = 1, .flags = NODE_NAMED};
	ARENA_PUSH(&r->arena, b.nodes, b.count, root);
	b.text = arena_text(&r->arena, out->text.s, out->text.n);
	b.text[root.end] = '\n'; /* instead of the NUL */
	parse_lines(&b, root.end);
	b.nodes[0].size = b.count;
	out->nodes = b.nodes;
	out->count = b.count;
}

void tree_read_whole(struct run *r, const struct grammar *g, struct tree *out)
{
	struct builder b = builder_for(r, g, out);
	parse(r, g, out->text.s, (uint32_t)out->text.n);
	add_tree(&b, ts_tree_root_node(r->tree));
	forget(r);
	out->nodes = b.nodes;
	out->count = b.count;
}

/* What a script hands to other programs (python3 -c, sh -c) is often the same: it is read once. */
#define KNOWN_MAX 4096

struct known {
	const struct grammar *grammar;
	struct tree tree;
};

void tree_read(struct run *r, const struct grammar *g, struct tree *out)
{
	struct text text = {r->source->text, r->source->len};
	void **slot = r->nesting && text.n <= KNOWN_MAX ? map_put(&r->trees, &r->arena, text) : NULL;
	struct known *known = slot ? *slot : NULL;
	if (known && known->grammar == g) {
		*out = known->tree;
		out->text = text;
		return;
	}
	if (g->in_lines)
		tree_read_lines(r, g, out);
	else
		tree_read_whole(r, g, out);
	if (slot && !known) {
		known = ARENA_NEW(&r->arena, struct known);
		*known = (struct known){g, *out};
		*slot = known;
	}
}
