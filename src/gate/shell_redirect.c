/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/shell_redirect.h"

static const struct node *node_at(const struct shell *sh, uint32_t n)
{
	return &sh->tree->nodes[n];
}

static bool is_number(struct text t)
{
	if (text_is(t, "-"))
		return true;
	for (size_t i = 0; i < t.n; i++)
		if (t.s[i] < '0' || t.s[i] > '9')
			return i > 0 && i + 1 == t.n && t.s[i] == '-'; /* 3>&1- */
	return t.n > 0;
}

static void redirect_file(struct shell *sh, uint32_t n, struct command *c, struct after *after)
{
	struct text all = tree_text(sh->tree, n);
	size_t i = 0;
	while (i < all.n && ((all.s[i] >= '0' && all.s[i] <= '9') || all.s[i] == '{'))
		i++;
	struct text descriptor = text_first(all, i), op = text_from(all, i);
	size_t len = 0;
	while (len < op.n && strchr("<>&|", op.s[len]))
		len++;
	op.n = len;
	uint32_t to = tree_field(sh->tree, n, F_destination);
	if (!to)
		return;
	bool closes = i + len < all.n && all.s[i + len] == '-' && node_at(sh, to)->start > node_at(sh, n)->start + i + len;
	struct fields f = {0};
	word_fields(sh, to, &f);
	/* rm 2>x -rf y: for the grammar the words behind it are part of it. */
	TREE_CHILDREN(sh->tree, n, word)
	if ((word != to || closes) && node_at(sh, word)->field == F_destination)
		word_fields(sh, word, &after->args);
	if (closes)
		return;
	struct text path = f.n ? f.v[0] : TEXT("");
	bool dup = len > 0 && op.s[len - 1] == '&';
	if (dup && is_number(path)) {
		const struct text *opened = map_get(&sh->opened, path);
		if (!opened)
			return;
		path = *opened; /* exec 3<>FILE; cat <&3 */
	} else if (descriptor.n > 1 || (descriptor.n && descriptor.s[0] > '2')) {
		struct text *opened = ARENA_NEW(sh->arena, struct text);
		*opened = path;
		*map_put(&sh->opened, sh->arena, descriptor) = opened;
		sh->changes++;
	}
	bool in = op.n && op.s[0] == '<', out = text_find(op, '>') < op.n;
	uint32_t start = node_at(sh, n)->start;
	if (start >= 2 && memcmp(sh->tree->text.s + start - 2, "<<<", 3) == 0) { /* see shell_for_parser() */
		c->in = text_cat(sh->arena, word_text(sh, to), TEXT("\n"));
		return;
	}
	if (in || (out && op.n > 1 && op.s[0] == '<')) {
		bool known;
		ARENA_PUSH(sh->arena, c->reads, c->read_count, path);
		struct text content = file_get(sh, path, &known);
		if (!descriptor.n || text_is(descriptor, "0"))
			c->in = content;
	}
	if (!out)
		return;
	struct write w = {.path = path, .append = text_ends(op, ">>")};
	ARENA_PUSH(sh->arena, c->writes, c->write_count, w);
	if (!descriptor.n || text_is(descriptor, "1"))
		c->to_file = true;
}

static struct text without_tabs(struct shell *sh, struct text t)
{
	char *out = arena_alloc(sh->arena, t.n);
	size_t n = 0;
	bool start = true;
	for (size_t i = 0; i < t.n; i++) {
		if (start && t.s[i] == '\t')
			continue;
		start = t.s[i] == '\n';
		out[n++] = t.s[i];
	}
	return (struct text){out, n};
}

/* The word behind <<, without its quotes. */
static struct text delimiter(struct shell *sh, struct text start)
{
	char *out = arena_alloc(sh->arena, start.n);
	size_t n = 0;
	for (size_t i = 0; i < start.n; i++)
		if (!strchr("'\"\\", start.s[i]))
			out[n++] = start.s[i];
	return (struct text){out, n};
}

/* From the line behind the one with << to the line that is the delimiter. */
static struct text between(struct text all, size_t from, struct text end, bool tabs)
{
	size_t at = from, next;
	for (; at < all.n; at = next) {
		struct text line = text_first(text_from(all, at), text_find(text_from(all, at), '\n'));
		next = at + line.n + 1;
		while (tabs && line.n && line.s[0] == '\t')
			line = text_from(line, 1);
		if (text_same(line, end))
			break;
	}
	return (struct text){all.s + from, (at < all.n ? at : all.n) - from};
}

/* Where the line ends that the here-document is announced on. */
static size_t line_end(const struct shell *sh, uint32_t start)
{
	struct text rest = text_from(sh->tree->text, node_at(sh, start)->end);
	return node_at(sh, start)->end + text_find(rest, '\n') + 1;
}

/* The grammar takes a body that begins with a backslash for words of the line: so its place is looked for here. */
static struct text heredoc_text(struct shell *sh, uint32_t n, uint32_t start)
{
	uint32_t body = 0;
	TREE_CHILDREN(sh->tree, n, c)
	if (node_at(sh, c)->kind == S_HEREDOC_BODY)
		body = c;
	if (!start)
		return TEXT("");
	struct text all = tree_text(sh->tree, n), mark = tree_text(sh->tree, start);
	size_t op = text_find(all, '<'), from = line_end(sh, start);
	bool tabs = op + 2 < all.n && all.s[op + 2] == '-',
	     raw = text_find(mark, '\'') < mark.n || text_find(mark, '"') < mark.n || text_find(mark, '\\') < mark.n;
	struct text t = from < sh->tree->text.n ? between(sh->tree->text, from, delimiter(sh, mark), tabs) : TEXT("");
	if (!raw && body && node_at(sh, body)->start == from)
		t = word_range(sh, body, node_at(sh, body)->start, node_at(sh, body)->end, true);
	return tabs ? without_tabs(sh, t) : t;
}

static void set_input(struct shell *sh, struct command *c, struct text descriptor, struct text t)
{
	if (!descriptor.n || text_is(descriptor, "0"))
		c->in = t;
	else
		file_put(sh, text_cat(sh->arena, TEXT("/dev/fd/"), descriptor), t, false);
}

static struct text descriptor_of(struct shell *sh, uint32_t n)
{
	uint32_t d = tree_field(sh->tree, n, F_descriptor);
	return d ? tree_text(sh->tree, d) : TEXT("");
}

static void heredoc(struct shell *sh, uint32_t n, struct command *c, struct after *after)
{
	uint32_t start = 0;
	TREE_CHILDREN(sh->tree, n, part)
	if (node_at(sh, part)->kind == S_HEREDOC_START)
		start = part;
	set_input(sh, c, descriptor_of(sh, n), heredoc_text(sh, n, start));
	TREE_CHILDREN(sh->tree, n, part)
	{
		const struct node *p = node_at(sh, part);
		if (p->field == F_right)
			after->right = part;
		else if (p->kind == S_PIPELINE)
			after->pipe = part;
		else if (p->field == F_argument && start && p->start < line_end(sh, start))
			word_fields(sh, part, &after->args);
	}
}

void redirects(struct shell *sh, uint32_t n, struct command *c, struct after *after)
{
	TREE_CHILDREN(sh->tree, n, child)
	{
		const struct node *node = node_at(sh, child);
		switch (node->kind) {
		case S_FILE_REDIRECT:
			redirect_file(sh, child, c, after);
			break;
		case S_HERESTRING:
			TREE_CHILDREN(sh->tree, child, word)
			if (node_at(sh, word)->flags & NODE_NAMED && node_at(sh, word)->kind != S_DESCRIPTOR)
				set_input(sh, c, descriptor_of(sh, child), text_cat(sh->arena, word_text(sh, word), TEXT("\n")));
			break;
		case S_HEREDOC:
			heredoc(sh, child, c, after);
			redirects(sh, child, c, after);
			break;
		default:
			break;
		}
	}
}
