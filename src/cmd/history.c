/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cordon history`: the layer tree, drawn.
 *
 *   ○ seed
 *   ○ 4k2jd8sa  green      3 changes  1.2K            5m  make test
 *   ├─○ x81mmb2p  (failed)   1 change     12  exit 2  4m  ./configure
 *   ├─○ q0c7ahz1             2 changes   340          3m  python3 fix.py
 *   │ ○ tt5b0e6v             1 change     12          3m  make
 *   ● 9s8d7f6g  (head)       1 change     80          1m  make
 *
 * Time goes down. The line to the head is drawn straight; whatever leaves it is one step to the right, before the line goes on. So a long history
 * without branches stays at the left edge.
 */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "cmd/tree.h"

struct history_flags {
	bool json;
};

const struct option_def history_options[] = {
	{.name = "json", .offset = offsetof(struct history_flags, json), .help = "print a JSON list; each layer names its parent"},
	{0},
};

const char history_about[] =
	"Each command that changed something is a layer; time goes down. The head is where the sandbox stands. Layers of commands that\n"
	"failed and were rolled back stay for a day; cordon restore goes to any of them.";

/* ---- the shape --------------------------------------------------------------------------------------------------------------- */

#define NONE SIZE_MAX

struct node {
	const struct layer_item *item; /* NULL: the seed */
	size_t first, last, next;      /* children and siblings, oldest first; NONE: none */
	bool straight;                 /* on the way to the head */
};

/* nodes[0] is the seed, nodes[i + 1] is items[i]. */
struct history {
	struct live live;
	struct layer_list list;
	struct node *nodes;
	bool utf8;
	struct colours colours;
	struct table table;
	struct buf graph; /* what is in front of the node that is being drawn */
};

static bool is_failed(const struct node *n)
{
	return n->item && n->item->layer.kind == LAYER_FAILED;
}

/* Layers come oldest first, so a parent is most often just before its child: `from` says where to begin. */
static size_t find_node(const struct history *h, const char *id, size_t from)
{
	for (size_t i = 0; id[0] && i < h->list.count; i++) {
		size_t at = from > i ? from - i : h->list.count - (i - from);

		if (strcmp(h->nodes[at].item->layer.id, id) == 0)
			return at;
	}
	return id[0] ? NONE : 0;
}

static int build(struct history *h, struct cordon_error *err)
{
	h->nodes = calloc(h->list.count + 1, sizeof(*h->nodes));
	if (!h->nodes)
		return err_sys(err, "cannot draw the history");
	for (size_t i = 0; i <= h->list.count; i++)
		h->nodes[i] = (struct node){i ? &h->list.items[i - 1] : NULL, NONE, NONE, NONE, false};
	for (size_t i = 1; i <= h->list.count; i++) {
		size_t parent = find_node(h, h->nodes[i].item->layer.parent, i);

		/* damaged, or its parent is gone: beside the seed is where it can be seen */
		if (parent == NONE || parent == i)
			parent = 0;
		if (h->nodes[parent].last == NONE)
			h->nodes[parent].first = i;
		else
			h->nodes[h->nodes[parent].last].next = i;
		h->nodes[parent].last = i;
	}
	/* at most as many steps as there are layers: damaged records may point in a circle */
	size_t at = find_node(h, h->live.box.head, h->list.count);
	for (size_t steps = 0; at != NONE && at != 0 && steps <= h->list.count; steps++) {
		h->nodes[at].straight = true;
		at = find_node(h, h->nodes[at].item->layer.parent, at);
	}
	return 0;
}

/* The child that goes on in its parent's column: towards the head, else the youngest that counts. */
static size_t heir(const struct history *h, size_t node)
{
	size_t found = NONE;

	for (size_t c = h->nodes[node].first; c != NONE; c = h->nodes[c].next) {
		if (h->nodes[c].straight)
			return c;
		if (!is_failed(&h->nodes[c]))
			found = c;
	}
	return found;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static const struct table_column columns[] = {
	{.title = "LAYER"},
	{.title = "NAME", .least = 12},
	{.title = "CHANGES", .right = true},
	{.title = "SIZE", .right = true},
	{.title = "EXIT", .right = true},
	{.title = "AGE", .right = true},
	{.title = "COMMAND", .least = 10},
};

/* "green (head, tx)" */
static void add_name(struct history *h, const struct layer *l, bool damaged, const char *style)
{
	const char *id = l ? l->id : "";
	const char *marks[4];
	size_t count = 0;
	_cleanup_buf_ struct buf text = {0};

	if (strcmp(id, h->live.box.head) == 0)
		marks[count++] = "head";
	if (strlist_has(&h->live.box.tx, id[0] ? id : "-"))
		marks[count++] = "tx";
	if (damaged)
		marks[count++] = "damaged";
	else if (l && l->kind == LAYER_FAILED)
		marks[count++] = "failed";
	buf_add_str(&text, l && l->name ? l->name : "");
	for (size_t i = 0; i < count; i++)
		buf_addf(&text, "%s%s%s", i ? ", " : text.len ? " (" : "(", marks[i], i + 1 == count ? ")" : "");
	table_add(&h->table, damaged ? h->colours.bad : style, "%s", text.data ? text.data : "");
}

/* -c LINE is stored as what was run: "/bin/sh -c LINE sh". */
static void add_command(struct history *h, const struct layer *l, const char *style)
{
	static const char shell[] = "/bin/sh -c ", own_name[] = " sh";
	const char *text = l->command ? l->command : "", *note = l->note ? l->note : "";
	size_t len = strlen(text);

	if (strncmp(text, shell, sizeof(shell) - 1) == 0) {
		text += sizeof(shell) - 1;
		len -= sizeof(shell) - 1;
		if (len >= sizeof(own_name) && strcmp(text + len - (sizeof(own_name) - 1), own_name) == 0)
			len -= sizeof(own_name) - 1;
	}
	table_add(&h->table, style, "%.*s%s%s", (int)len, text, *note ? len ? "  # " : "# " : "", note);
}

static void add_numbers(struct history *h, const struct layer *l, const char *style)
{
	char text[FORMAT_MAX];

	table_add(&h->table, style, "%" PRIu64, l->changes);
	table_add(&h->table, style, "%s", l->changes ? format_bytes(l->bytes, text) : "");
	if (l->exit_code > 0)
		table_add(&h->table, style ? style : h->colours.bad, "%d", l->exit_code);
	else
		table_add(&h->table, style, "%s", l->exit_code == 0 ? "0" : "");
	table_add(&h->table, style, "%s", format_age(now_ms() - l->created_ms, text));
	add_command(h, l, style);
}

static void add_row(struct history *h, size_t node)
{
	const struct node *n = &h->nodes[node];
	const struct layer *l = n->item ? &n->item->layer : NULL;
	const bool head = strcmp(l ? l->id : "", h->live.box.head) == 0, damaged = n->item && n->item->damaged;
	const char *style = is_failed(n) ? h->colours.dim : NULL;
	const char *mark = h->utf8 ? (head ? "\xe2\x97\x8f" : "\xe2\x97\x8b") : head ? "*" : "o";

	table_add(&h->table,
	          head    ? h->colours.good
	          : style ? style
	                  : h->colours.name,
	          "%s%s %.*s", h->graph.data ? h->graph.data : "", mark, SHORT_ID, l ? l->id : "seed");
	add_name(h, l, damaged, head ? h->colours.bold : style ? style : h->colours.bold);
	if (l && !damaged) {
		add_numbers(h, l, style);
		return;
	}
	for (size_t i = 2; i + 1 < ARRAY_SIZE(columns); i++)
		table_add(&h->table, NULL, "%s", "");
	table_add(&h->table, h->colours.dim, "%s", !l && h->live.box.workspace ? h->live.box.workspace : "");
}

/* ---- drawing ----------------------------------------------------------------------------------------------------------------- */

/* What is in front of a branch's first node, and of the others in it. */
static const char *connector(const struct history *h, bool first, bool more)
{
	static const char *const drawn[2][2] = {{"  ", "\xe2\x94\x82 "}, {"\xe2\x94\x94\xe2\x94\x80", "\xe2\x94\x9c\xe2\x94\x80"}};
	static const char *const plain[2][2] = {{"  ", "| "}, {"`-", "|-"}};

	return (h->utf8 ? drawn : plain)[first][more];
}

static void set_graph(struct history *h, size_t len, const char *add)
{
	if (h->graph.data)
		h->graph.data[len] = '\0';
	h->graph.len = len;
	buf_add_str(&h->graph, add);
}

static void draw_line(struct history *h, size_t node);

/* Everything that leaves the line at this node. */
static void draw_branches(struct history *h, size_t node, size_t keep)
{
	size_t len = h->graph.len, rest = 0;

	for (size_t c = h->nodes[node].first; c != NONE; c = h->nodes[c].next)
		rest += c != keep;
	for (size_t c = h->nodes[node].first; c != NONE; c = h->nodes[c].next) {
		if (c == keep)
			continue;
		bool more = --rest > 0 || keep != NONE;
		size_t next = heir(h, c);

		set_graph(h, len, connector(h, true, more));
		add_row(h, c);
		set_graph(h, len, connector(h, false, more));
		draw_branches(h, c, next);
		if (next != NONE)
			draw_line(h, next);
		set_graph(h, len, "");
	}
}

/* A node and all that follows it, straight down. */
static void draw_line(struct history *h, size_t node)
{
	while (node != NONE) {
		size_t next = heir(h, node);

		add_row(h, node);
		draw_branches(h, node, next);
		node = next;
	}
}

static int draw(struct history *h, struct cordon_error *err)
{
	h->table = (struct table){.columns = columns, .count = ARRAY_SIZE(columns)};
	h->utf8 = terminal_utf8();
	h->colours = colours_for(fileno(stdout));
	if (build(h, err) < 0)
		return -1;
	draw_line(h, 0);
	return h->graph.failed || table_print(&h->table, stdout) < 0 ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------------- */

static const char *const kinds[LAYER_KIND_COUNT] = {"exec", "snapshot", "checkpoint", "failed"};

static void json_layer(struct json *j, const struct layer_item *item, const char *head)
{
	const struct layer *l = &item->layer;
	char time[FORMAT_MAX];

	json_object(j);
	json_kstr(j, "id", l->id);
	json_kstr(j, "parent", l->parent[0] ? l->parent : NULL);
	json_kbool(j, "head", strcmp(l->id, head) == 0);
	json_kbool(j, "damaged", item->damaged);
	json_kstr(j, "kind", (size_t)l->kind < ARRAY_SIZE(kinds) ? kinds[l->kind] : NULL);
	json_kstr(j, "name", l->name);
	json_kstr(j, "note", l->note);
	json_kstr(j, "created", format_time(l->created_ms, time));
	json_kint(j, "created_ms", l->created_ms);
	json_kstr(j, "sandbox", l->sandbox[0] ? l->sandbox : NULL);
	json_kstr(j, "command", l->command);
	json_key(j, "exit_code");
	if (l->exit_code >= 0)
		json_int(j, l->exit_code);
	else
		json_null(j);
	json_kint(j, "changes", (int64_t)l->changes);
	json_kint(j, "bytes", (int64_t)l->bytes);
	json_end(j);
}

static int print_json(const struct tree_args *a, const struct history *h)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_array(&j);
	for (size_t i = 0; i < h->list.count; i++)
		json_layer(&j, &h->list.items[i], h->live.box.head);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

static int history(const struct tree_args *a, struct history *h, struct cordon_error *err)
{
	const struct box *b = &h->live.box;

	if (tree_peek(&h->live, a->home, a->operands[0], NULL, err) < 0)
		return -1;
	int r = layer_history(&h->live.store, b->id, b->head, &h->list, err);
	if (r == 0)
		r = a->json ? print_json(a, h) : draw(h, err);
	layer_list_free(&h->list);
	live_close(&h->live);
	return r;
}

int cmd_history(int argc, char **argv)
{
	struct history_flags f = {0};
	struct history h = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	const struct tree_form form = {.command = "history", .target = &f, .json = &f.json, .least = 1, .most = 1};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	status = history(&a, &h, &err);
	free(h.nodes);
	buf_free(&h.graph);
	table_free(&h.table);
	return status < 0 ? tree_fail(&a, &err) : status;
}
