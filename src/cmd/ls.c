/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon ls`, `cordon info`, `cordon rm`: the sandboxes that stay. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"
#include "cmd/published.h"
#include "cmd/sums.h"
#include "cmd/tree.h"

enum { LS_PATIENCE = 50000 };

/* ---- what is told about a sandbox -------------------------------------------------------------------------------------------- */

static void json_strings(struct json *j, const char *key, const struct strlist *list)
{
	json_key(j, key);
	json_array(j);
	for (size_t i = 0; i < list->count; i++)
		json_str(j, list->items[i]);
	json_end(j);
}

/* {"K":"V"} of "K=V" */
static void json_map(struct json *j, const char *key, const struct strlist *list)
{
	json_key(j, key);
	json_object(j);
	for (size_t i = 0; i < list->count; i++) {
		_cleanup_free_ char *name = strdup(list->items[i]);
		char *value = name ? strchr(name, '=') : NULL;

		if (!value)
			continue;
		*value = '\0';
		json_kstr(j, name, value + 1);
	}
	json_end(j);
}

static void json_duration(struct json *j, const char *key, int64_t ms)
{
	json_key(j, key);
	if (ms)
		json_int(j, ms);
	else
		json_null(j);
}

static const char *state_name(enum box_state state, bool damaged)
{
	return damaged ? "damaged" : box_state_names[state];
}

/* What `ls` and `info` have in common. */
static void json_box(struct json *j, const struct box *b, const char *state, const struct sums *sums)
{
	char time[FORMAT_MAX];

	json_kstr(j, "id", b->id);
	json_kstr(j, "name", b->name[0] ? b->name : NULL);
	json_kstr(j, "state", state);
	json_kstr(j, "image", b->image ? b->image : "host");
	json_kstr(j, "workspace", b->workspace);
	json_kstr(j, "mechanism", b->copy ? "copy" : "overlay");
	json_kstr(j, "mechanism_reason", b->copy);
	json_kstr(j, "head", b->head[0] ? b->head : NULL);
	json_kstr(j, "created", format_time(b->created_ms, time));
	json_kint(j, "created_ms", b->created_ms);
	json_kint(j, "used_ms", b->used_ms);
	json_duration(j, "ttl_ms", b->ttl_ms);
	json_duration(j, "idle_ms", b->idle_ms);
	json_map(j, "labels", &b->labels);
	json_kint(j, "layers", (int64_t)sums->layers);
	json_kint(j, "snapshots", (int64_t)sums->snapshots);
	json_kint(j, "changes", (int64_t)sums->changes);
	json_kint(j, "bytes", (int64_t)sums->bytes);
	json_key(j, "changes_total");
	if (sums->compared)
		json_int(j, (int64_t)sums->differ);
	else
		json_null(j);
	json_key(j, "changes_bytes");
	if (sums->compared)
		json_int(j, (int64_t)sums->differ_bytes);
	else
		json_null(j);
	json_kint(j, "transactions", (int64_t)b->tx.count);
}

/* ---- ls ---------------------------------------------------------------------------------------------------------------------- */

struct ls_flags {
	bool json, quiet;
	struct strlist labels;
};

const struct option_def ls_options[] = {
	{.name = "label",
         .argument = "KEY[=VALUE]",
         .offset = offsetof(struct ls_flags, labels),
         .repeat = true,
         .help = "only those with this label; may be repeated"},
	{.name = "quiet", .letter = 'q', .offset = offsetof(struct ls_flags, quiet), .help = "only the ids"},
	{.name = "json", .offset = offsetof(struct ls_flags, json), .help = "print a JSON list"},
	{0},
};

static bool has_label(const struct box *b, const char *wanted)
{
	size_t len = strlen(wanted);

	for (size_t i = 0; i < b->labels.count; i++)
		if (strncmp(b->labels.items[i], wanted, len) == 0 &&
		    (!b->labels.items[i][len] || (b->labels.items[i][len] == '=' && !strchr(wanted, '='))))
			return true;
	return false;
}

static bool is_wanted(const struct box_item *item, const struct strlist *labels)
{
	for (size_t i = 0; i < labels->count; i++)
		if (item->damaged || !has_label(&item->box, labels->items[i]))
			return false;
	return true;
}

static void add_row(struct table *t, const struct colours *c, const struct box *b, const char *state, const struct sums *sums)
{
	const char *style = strcmp(state, "live") == 0 ? c->good : strcmp(state, "stopped") == 0 ? c->dim : c->bad;
	_cleanup_buf_ struct buf labels = {0};
	char age[FORMAT_MAX];

	for (size_t i = 0; i < b->labels.count; i++)
		buf_addf(&labels, "%s%s", i ? " " : "", b->labels.items[i]);
	table_add(t, c->name, "%.*s", SHORT_ID, b->id);
	table_add(t, c->bold, "%s", b->name);
	table_add(t, style, "%s", state);
	table_add(t, NULL, "%s", b->created_ms ? format_age(now_ms() - b->created_ms, age) : "");
	if (sums->damaged)
		table_add(t, NULL, "%s", "?");
	else
		table_add(t, NULL, "%s%" PRIu64, sums->compared ? "" : "~", sums->compared ? sums->differ : sums->changes);
	if (sums->snapshots)
		table_add(t, NULL, "%" PRIu64, sums->snapshots);
	else
		table_add(t, NULL, "%s", "");
	table_add(t, NULL, "%s", b->workspace ? b->workspace : "");
	table_add(t, c->dim, "%s", labels.data ? labels.data : "");
}

/* One pass for all three forms. */
struct listing {
	const struct ls_flags *flags;
	struct store *store;
	const char *home;
	struct colours colours;
	struct table table;
	struct json json;
	struct scan layers;
	uint64_t patience; /* so many changes of layers are looked at: a list is to be quick */
};

/* What `info` says, as long as that does not take long; else about that. */
static struct sums sum_up_quickly(struct listing *l, const struct box *b)
{
	struct sums sums = sum_up(l->store, &l->layers, b);
	struct live live;

	if (sums.damaged || sums.changes > l->patience)
		return sums;
	l->patience -= sums.changes;
	if (tree_peek(&live, l->home, b->id, NULL, NULL) == 0) {
		sum_differences(&sums, &live, NULL);
		live_close(&live);
	}
	return sums;
}

static int list_one(struct listing *l, const struct box_item *item, struct cordon_error *err)
{
	enum box_state state = BOX_STOPPED;

	if (l->flags->quiet && !l->flags->json) {
		puts(item->box.id);
		return 0;
	}
	/* one that cannot be asked does not keep the others from being listed */
	const bool silent = !item->damaged && keeper_state(l->home, item->box.id, &state, err) < 0;
	const char *text = silent ? "unknown" : state_name(state, item->damaged);
	const struct sums sums = item->damaged ? (struct sums){.damaged = true} : sum_up_quickly(l, &item->box);
	if (silent && err->code == CORDON_ERR_NOT_FOUND)
		return 0; /* removed meanwhile */
	if (l->flags->json) {
		json_object(&l->json);
		json_box(&l->json, &item->box, text, &sums);
		json_end(&l->json);
	} else {
		add_row(&l->table, &l->colours, &item->box, text, &sums);
	}
	return 0;
}

static int list(struct listing *l, struct cordon_error *err)
{
	struct box_list all = {0};
	int r = box_list(l->store, &all, err);

	if (r == 0 && (!l->flags->quiet || l->flags->json))
		r = store_scan(l->store, &l->layers, err); /* after the boxes: their heads are in it */
	for (size_t i = 0; r == 0 && i < all.count; i++)
		if (is_wanted(&all.items[i], &l->flags->labels))
			r = list_one(l, &all.items[i], err);
	box_list_free(&all);
	return r;
}

static int print_list(const struct tree_args *a, const struct ls_flags *f, struct cordon_error *err)
{
	static const struct table_column columns[] = {
		{.title = "ID"},
		{.title = "NAME", .least = 8},
		{.title = "STATE"},
		{.title = "AGE", .right = true},
		{.title = "CHANGES", .right = true},
		{.title = "SNAPSHOTS", .right = true},
		{.title = "WORKSPACE", .least = 12, .tail = true},
		{.title = "LABELS", .least = 8},
	};
	_cleanup_buf_ struct buf line = {0};
	struct store s;
	struct listing l = {.flags = f,
	                    .store = &s,
	                    .home = a->home,
	                    .colours = colours_for(fileno(stdout)),
	                    .table = {.columns = columns, .count = ARRAY_SIZE(columns)},
	                    .json = {.out = &line},
	                    .patience = LS_PATIENCE};
	int r = store_open(&s, a->home, err);

	if (r < 0)
		return -1;
	tree_expire(&s, a->home);
	json_array(&l.json);
	r = list(&l, err);
	json_end(&l.json);
	scan_free(&l.layers);
	store_close(&s);
	if (r == 0 && f->json)
		r = tree_print_json(a, &line, EXIT_OK);
	else if (r == 0 && l.table.used && table_print(&l.table, stdout) < 0)
		r = err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	else if (r == 0 && !l.table.used && !f->quiet && terminal_width(fileno(stdout)))
		puts("no sandboxes; make one with: cordon create --workspace .");
	table_free(&l.table);
	return r;
}

int cmd_ls(int argc, char **argv)
{
	struct ls_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	const struct tree_form form = {.command = "ls", .target = &f, .json = &f.json};
	int status;

	if (tree_parse(&form, argc, argv, &a, &status)) {
		status = print_list(&a, &f, &err);
		if (status < 0)
			status = tree_fail(&a, &err);
	}
	strlist_free(&f.labels);
	return status;
}

/* ---- info -------------------------------------------------------------------------------------------------------------------- */

struct info_flags {
	bool json;
};

const struct option_def info_options[] = {
	{.name = "json", .offset = offsetof(struct info_flags, json), .help = "print JSON"},
	{0},
};

__attribute__((format(printf, 4, 5))) static void fact(struct table *t, const struct colours *c, const char *name, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	table_add(t, c->dim, "%s", name);
	table_add(t, NULL, "%s", text ? text : "");
	t->failed = t->failed || !text;
}

static void facts(struct table *t, const struct colours *c, const char *name, const struct strlist *list)
{
	for (size_t i = 0; i < list->count; i++)
		fact(t, c, i ? "" : name, "%s", list->items[i]);
}

/* The head with its name, and where it is in the tree. */
static void fact_head(struct table *t, const struct colours *c, struct live *l, const struct sums *sums)
{
	_cleanup_layer_ struct layer head = {0};

	if (!l->box.head[0])
		fact(t, c, "head", "seed");
	else if (layer_read(&l->store, l->box.head, &head, NULL) < 0)
		fact(t, c, "head", "%s, damaged", l->box.head);
	else
		fact(t, c, "head", "%s%s%s%s, %" PRIu64 " layer%s above the seed", l->box.head, head.name ? " (" : "",
		     head.name ? head.name : "", head.name ? ")" : "", sums->layers, sums->layers == 1 ? "" : "s");
}

static int print_info(struct live *l, const char *state, const struct sums *sums, const struct strlist *published, struct cordon_error *err)
{
	static const struct table_column columns[] = {{.title = ""}, {.title = ""}};
	const struct colours c = colours_for(fileno(stdout));
	_cleanup_table_ struct table t = {.columns = columns, .count = ARRAY_SIZE(columns), .bare = true};
	const struct box *b = &l->box;
	char one[FORMAT_MAX * 2], two[FORMAT_MAX];

	fact(&t, &c, "id", "%s", b->id);
	if (b->name[0])
		fact(&t, &c, "name", "%s", b->name);
	fact(&t, &c, "state", "%s", state);
	fact(&t, &c, "created", "%s, %s ago", format_time(b->created_ms, one), format_age(now_ms() - b->created_ms, two));
	if (b->used_ms)
		fact(&t, &c, "used", "%s ago", format_age(now_ms() - b->used_ms, two));
	if (b->ttl_ms)
		fact(&t, &c, "goes away", "in %s", format_age(b->created_ms + b->ttl_ms - now_ms(), two));
	if (b->idle_ms)
		fact(&t, &c, "stops", "after %s without a command", units_format_duration((uint64_t)b->idle_ms, two));
	if (b->image)
		fact(&t, &c, "image", "%s (%.12s)", b->image, b->image_id ? b->image_id : "");
	fact(&t, &c, "workspace", "%s", b->workspace ? b->workspace : "none: /app began empty");
	fact(&t, &c, "mechanism", "%s%s", b->copy ? "copy: " : "overlay", b->copy ? b->copy : "");
	fact_head(&t, &c, l, sums);
	fact(&t, &c, "changes", "%s since the seed, %s", tree_count(sums->differ, "change", one), format_bytes(sums->differ_bytes, two));
	if (sums->snapshots)
		fact(&t, &c, "snapshots", "%" PRIu64, sums->snapshots);
	if (b->tx.count)
		fact(&t, &c, "transactions", "%zu open", b->tx.count);
	for (size_t i = 0; i < published->count; i++) {
		_cleanup_free_ char *text = published_text(published->items[i]);

		if (text)
			fact(&t, &c, i ? "" : "published", "%s", text);
	}
	facts(&t, &c, "labels", &b->labels);
	facts(&t, &c, "env", &b->env);
	facts(&t, &c, "mounts", &b->mounts);
	facts(&t, &c, "policy", &b->policy);
	return table_print(&t, stdout) < 0 ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

static int print_info_json(const struct tree_args *a, const struct box *b, const char *state, const struct sums *sums,
                           const struct strlist *published)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_box(&j, b, state, sums);
	published_json(&j, published);
	json_map(&j, "env", &b->env);
	json_strings(&j, "mounts", &b->mounts);
	json_strings(&j, "policy", &b->policy);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

static int info(const struct tree_args *a, struct cordon_error *err)
{
	_cleanup_scan_ struct scan layers = {0};
	struct strlist published = {0};
	struct sums sums = {0};
	enum box_state state;
	struct live l;

	if (tree_peek(&l, a->home, a->operands[0], &state, err) < 0)
		return -1;
	int r = store_scan(&l.store, &layers, err);
	if (r == 0 && state != BOX_STOPPED)
		r = keeper_published(a->home, l.box.id, &published, err);
	if (r == 0)
		sums = sum_up(&l.store, &layers, &l.box);
	if (r == 0 && !sums.damaged)
		r = sum_differences(&sums, &l, err);
	if (r == 0)
		r = a->json ? print_info_json(a, &l.box, box_state_names[state], &sums, &published)
		            : print_info(&l, box_state_names[state], &sums, &published, err);
	strlist_free(&published);
	live_close(&l);
	return r;
}

int cmd_info(int argc, char **argv)
{
	struct info_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	const struct tree_form form = {.command = "info", .target = &f, .json = &f.json, .least = 1, .most = 1};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	status = info(&a, &err);
	return status < 0 ? tree_fail(&a, &err) : status;
}

/* ---- rm ---------------------------------------------------------------------------------------------------------------------- */

struct rm_flags {
	bool force, all, json;
};

const struct option_def rm_options[] = {
	{.name = "force", .letter = 'f', .offset = offsetof(struct rm_flags, force), .help = "also if it is live: it is stopped first"},
	{.name = "all", .offset = offsetof(struct rm_flags, all), .help = "all that there are"},
	{.name = "json", .offset = offsetof(struct rm_flags, json), .help = "print JSON: {\"removed\":[...],\"errors\":[...]}"},
	{0},
};

/* Damaged ones, too: they can be removed, if nothing else. */
static int find_id(struct store *s, const char *what, struct strlist *ids, struct cordon_error *err)
{
	_cleanup_box_ struct box b = {0};
	struct box_list all = {0};
	bool found = false;

	if (box_find(s, what, &b, err) == 0)
		return strlist_has(ids, b.id) ? 0 : strlist_add(ids, b.id, err);
	if (box_list(s, &all, NULL) == 0)
		for (size_t i = 0; i < all.count; i++)
			found = found || (all.items[i].damaged && strcmp(all.items[i].box.id, what) == 0);
	box_list_free(&all);
	return found ? strlist_add(ids, what, err) : -1;
}

static int find_all(struct store *s, struct strlist *ids, struct cordon_error *err)
{
	struct box_list all = {0};
	int r = box_list(s, &all, err);

	for (size_t i = 0; r == 0 && i < all.count; i++)
		r = strlist_add(ids, all.items[i].box.id, err);
	box_list_free(&all);
	return r;
}

static int remove_one(struct store *s, const struct tree_args *a, const char *id, bool force, struct cordon_error *err)
{
	enum box_state state;

	if (keeper_state(a->home, id, &state, err) < 0)
		return -1;
	if (state != BOX_STOPPED && !force) {
		_cleanup_box_ struct box b = {0};
		const bool named = box_load(s, id, &b, NULL) == 0 && b.name[0];
		const char *name = named ? b.name : id;
		const int length = named ? BOX_NAME_MAX : SHORT_ID;

		err_set(err, CORDON_ERR_BUSY, "sandbox %.*s is %s", length, name, box_state_names[state]);
		return err_hint(err, "stop it first (cordon stop %.*s), or give --force", length, name);
	}
	if (state != BOX_STOPPED && keeper_stop(a->home, id, err) < 0)
		return -1;
	return live_remove(s, id, "remove", err);
}

/* All are looked for before any is removed; then one that cannot be removed does not keep the others. */
static int remove_all(struct store *s, const struct tree_args *a, const struct rm_flags *f, struct strlist *removed, struct strlist *errors,
                      struct cordon_error *err)
{
	struct strlist ids = {0};
	int r = f->all ? find_all(s, &ids, err) : 0;

	for (int i = 0; r == 0 && i < a->count; i++)
		r = find_id(s, a->operands[i], &ids, err);
	for (size_t i = 0; r == 0 && i < ids.count; i++) {
		struct cordon_error why = {0};

		if (remove_one(s, a, ids.items[i], f->force, &why) < 0) {
			report_error("cordon rm", &why);
			r = strlist_add(errors, why.message, err);
			continue;
		}
		r = strlist_add(removed, ids.items[i], err);
		if (!a->json)
			puts(ids.items[i]);
	}
	strlist_free(&ids);
	return r;
}

static int print_removed(const struct tree_args *a, const struct strlist *removed, const struct strlist *errors)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_strings(&j, "removed", removed);
	json_strings(&j, "errors", errors);
	json_end(&j);
	return tree_print_json(a, &line, errors->count ? EXIT_CORDON_FAILED : EXIT_OK);
}

int cmd_rm(int argc, char **argv)
{
	struct rm_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct strlist removed = {0}, errors = {0};
	const struct tree_form form = {.command = "rm", .target = &f, .json = &f.json, .most = -1};
	struct store s;
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if ((a.count == 0) != f.all) {
		err_set(&err, CORDON_ERR_INPUT, f.all ? "--all and names exclude each other" : "which one? give an id or a name, or --all");
		return tree_fail(&a, &err);
	}
	if (store_open(&s, a.home, &err) < 0)
		return tree_fail(&a, &err);
	status = remove_all(&s, &a, &f, &removed, &errors, &err);
	tree_expire(&s, a.home);
	if (removed.count)
		store_collect(&s, now_ms(), NULL); /* what cannot be removed now is removed the next time */
	store_close(&s);
	if (status < 0)
		status = tree_fail(&a, &err);
	else if (a.json)
		status = print_removed(&a, &removed, &errors);
	else
		status = errors.count ? EXIT_CORDON_FAILED : EXIT_OK;
	strlist_free(&removed);
	strlist_free(&errors);
	return status;
}
