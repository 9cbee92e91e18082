/* SPDX-License-Identifier: Apache-2.0 */
/* What `cordon audit` shows to people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/util.h"
#include "cmd/audit.h"

enum { PAGE_ROWS = 500, TOP = 10, SHOWN_ID = 8 };

static const struct table_column columns[] = {
	{.title = "TIME (UTC)"},
	{.title = "LEVEL"},
	{.title = "CATEGORY"},
	{.title = "OK"},
	{.title = "ACTION"},
	{.title = "TARGET", .least = 24},
	{.title = "RULE", .least = 12},
	{.title = "SANDBOX"},
	{.title = "EXEC"},
};

/* ---- records ----------------------------------------------------------------------------------------------------------------- */

void audit_page_begin(struct audit_page *p)
{
	*p = (struct audit_page){.colours = colours_for(STDOUT_FILENO), .utf8 = terminal_utf8()};
	p->table = (struct table){.columns = columns, .count = ARRAY_SIZE(columns)};
}

static const char *level_style(const struct audit_page *p, enum audit_level level)
{
	static const char yellow[] = "\033[33m";
	const char *const styles[AUDIT_LEVEL_COUNT] = {p->colours.dim, "", *p->colours.off ? yellow : "", p->colours.bad, p->colours.bad};

	return styles[level];
}

static const char *mark(const struct audit_page *p, enum audit_allowed allowed)
{
	static const char *const marks[2][AUDIT_ALLOWED_COUNT] = {{"", "yes", "NO"}, {"", "\xe2\x9c\x93", "\xe2\x9c\x97"}};

	return marks[p->utf8][allowed];
}

static const char *mark_style(const struct audit_page *p, enum audit_allowed allowed)
{
	return allowed == AUDIT_ALLOWED ? p->colours.good : allowed == AUDIT_DENIED ? p->colours.bad : "";
}

/* "2026-01-31 12:00:00" */
static void format_ts(const char *ts, char out[20])
{
	memcpy(out, ts, 19);
	out[10] = ' ';
	out[19] = '\0';
}

/* A string of the record for people; "" for null. To be freed; NULL: out of memory. */
static char *people(struct slice s)
{
	struct buf text = {0};

	if (s.at)
		audit_decode(&text, s, TEXT_PEOPLE);
	char *owned = buf_steal(&text);
	buf_free(&text);
	return owned;
}

static void add_text(struct table *t, const char *style, struct slice s, int most)
{
	_cleanup_free_ char *text = people(s);

	table_add(t, style, "%.*s", most, text ? text : "");
	t->failed = t->failed || !text;
}

static int print_page(struct audit_page *p, struct cordon_error *err)
{
	p->table.bare = p->continued;
	p->continued = true;
	p->rows = 0;
	int r = table_print(&p->table, stdout);
	table_free(&p->table);
	return r < 0 ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

int audit_page_add(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	struct audit_page *p = arg;
	struct table *t = &p->table;
	char when[20];

	format_ts(l->ts, when);
	table_add(t, p->colours.dim, "%s", when);
	table_add(t, level_style(p, l->level), "%s", audit_level_names[l->level]);
	table_add(t, NULL, "%s", audit_category_names[l->category]);
	table_add(t, mark_style(p, l->allowed), "%s", mark(p, l->allowed));
	add_text(t, p->colours.bold, l->action, 64);
	add_text(t, NULL, l->target, 2000);
	add_text(t, p->colours.dim, l->rule, 2000);
	add_text(t, p->colours.name, l->sandbox, SHOWN_ID);
	add_text(t, p->colours.dim, l->exec, SHOWN_ID);
	return ++p->rows < PAGE_ROWS ? 0 : print_page(p, err);
}

int audit_page_end(struct audit_page *p, struct cordon_error *err)
{
	int r = p->rows ? print_page(p, err) : 0;

	table_free(&p->table);
	return r;
}

/* At least `width` columns, if something follows. */
static void put(const char *style, const char *off, const char *text, size_t width)
{
	size_t own = text_width(text);

	printf("%s%s%s", style, text, *style ? off : "");
	for (; own < width; own++)
		putchar(' ');
	putchar(' ');
}

static int put_text(const char *style, const char *off, struct slice s, size_t width, int most)
{
	_cleanup_free_ char *text = people(s);
	_cleanup_buf_ struct buf plain = {0};

	if (!text)
		return -1;
	if (strlen(text) > (size_t)most)
		text[most] = '\0';
	text_plain(&plain, text);
	put(style, off, plain.data ? plain.data : "", width);
	return plain.failed ? -1 : 0;
}

int audit_print_line(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	const struct audit_page *p = arg;
	const struct colours *c = &p->colours;
	char when[20];

	format_ts(l->ts, when);
	put(c->dim, c->off, when, 0);
	put(level_style(p, l->level), c->off, audit_level_names[l->level], 8);
	put("", c->off, audit_category_names[l->category], 8);
	put(mark_style(p, l->allowed), c->off, mark(p, l->allowed), p->utf8 ? 1 : 3);
	if (put_text(c->name, c->off, l->sandbox, SHOWN_ID, SHOWN_ID) < 0 || put_text(c->bold, c->off, l->action, 8, 64) < 0 ||
	    put_text("", c->off, l->target, 0, 2000) < 0 || (l->rule.at && put_text(c->dim, c->off, l->rule, 0, 2000) < 0))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	putchar('\n');
	return 0;
}

/* ---- summary ----------------------------------------------------------------------------------------------------------------- */

static void add_counts(struct table *t, const struct colours *c, const char *title, const char *const *names, const uint64_t *counts,
                       size_t count)
{
	bool first = true;

	for (size_t i = 0; i < count; i++) {
		if (!counts[i])
			continue;
		table_add(t, c->bold, "%s", first ? title : "");
		table_add(t, NULL, "%s", names[i]);
		table_add(t, NULL, "%" PRIu64, counts[i]);
		first = false;
	}
}

static int print_counts(const struct audit_summary *s, const struct colours *c)
{
	static const char *const verdicts[AUDIT_ALLOWED_COUNT] = {"neither", "allowed", "denied"};
	static const struct table_column three[] = {{.title = ""}, {.title = ""}, {.title = "", .right = true}};
	_cleanup_table_ struct table t = {.columns = three, .count = ARRAY_SIZE(three), .bare = true};

	table_add(&t, c->bold, "records");
	table_add(&t, NULL, "%s", "");
	table_add(&t, NULL, "%" PRIu64, s->records);
	add_counts(&t, c, "level", audit_level_names, s->levels, AUDIT_LEVEL_COUNT);
	add_counts(&t, c, "category", audit_category_names, s->categories, AUDIT_CATEGORY_COUNT);
	add_counts(&t, c, "verdict", verdicts, s->allowed, AUDIT_ALLOWED_COUNT);
	if (s->records)
		printf("%.19sZ to %.19sZ\n\n", s->first, s->last);
	return table_print(&t, stdout);
}

static int print_top(const struct audit_counts *counts, const char *title, bool categories, const struct colours *c)
{
	const struct table_column top[] = {{.title = "COUNT", .right = true},
	                                   {.title = "DENIED", .right = true},
	                                   {.title = categories ? "CATEGORY" : ""},
	                                   {.title = title, .least = 24}};
	_cleanup_table_ struct table t = {.columns = top, .count = ARRAY_SIZE(top)};

	for (size_t i = 0; i < MIN(counts->used, (size_t)TOP); i++) {
		const struct audit_count *k = &counts->slots[i];

		table_add(&t, NULL, "%" PRIu64, k->count);
		if (k->denied)
			table_add(&t, c->bad, "%" PRIu64, k->denied);
		else
			table_add(&t, NULL, "%s", "");
		table_add(&t, NULL, "%s", categories ? audit_category_names[k->category] : "");
		add_text(&t, NULL, (struct slice){k->key, k->len}, 2000);
	}
	if (!t.used)
		return 0;
	putchar('\n');
	int r = table_print(&t, stdout);
	if (counts->used > TOP)
		printf("%s%zu more%s%s\n", c->dim, counts->used - TOP,
		       counts->others ? ", and some that were too many to be told apart" : "", c->off);
	return r;
}

int audit_print_summary(const struct audit_summary *s, const struct audit_found *found, struct cordon_error *err)
{
	const struct colours c = colours_for(STDOUT_FILENO);

	(void)found;
	if (print_counts(s, &c) < 0 || print_top(&s->targets, "TARGET", true, &c) < 0 || print_top(&s->sandboxes, "SANDBOX", false, &c) < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return 0;
}

static void json_counts(struct json *j, const char *key, const char *const *names, const uint64_t *counts, size_t count)
{
	json_key(j, key);
	json_object(j);
	for (size_t i = 0; i < count; i++)
		json_kint(j, names[i], (int64_t)counts[i]);
	json_end(j);
}

static void json_top(struct json *j, const char *key, const struct audit_counts *counts, const char *what)
{
	json_key(j, key);
	json_array(j);
	for (size_t i = 0; i < MIN(counts->used, (size_t)TOP); i++) {
		const struct audit_count *k = &counts->slots[i];
		_cleanup_buf_ struct buf text = {0};

		audit_decode(&text, (struct slice){k->key, k->len}, TEXT_UNICODE);
		json_object(j);
		json_kstr(j, what, text.data ? text.data : "");
		if (strcmp(what, "target") == 0)
			json_kstr(j, "category", audit_category_names[k->category]);
		json_kint(j, "count", (int64_t)k->count);
		json_kint(j, "denied", (int64_t)k->denied);
		json_end(j);
		j->out->failed = j->out->failed || text.failed;
	}
	json_end(j);
}

void audit_json_summary(const struct audit_summary *s, const struct audit_found *found, struct buf *out)
{
	struct json j = {.out = out};

	json_object(&j);
	json_kint(&j, "records", (int64_t)s->records);
	json_kstr(&j, "first", s->records ? s->first : NULL);
	json_kstr(&j, "last", s->records ? s->last : NULL);
	json_counts(&j, "levels", audit_level_names, s->levels, AUDIT_LEVEL_COUNT);
	json_counts(&j, "categories", audit_category_names, s->categories, AUDIT_CATEGORY_COUNT);
	json_kint(&j, "allowed", (int64_t)s->allowed[AUDIT_ALLOWED]);
	json_kint(&j, "denied", (int64_t)s->allowed[AUDIT_DENIED]);
	json_kint(&j, "neither", (int64_t)s->allowed[AUDIT_NEITHER]);
	json_top(&j, "targets", &s->targets, "target");
	json_kint(&j, "targets_total", (int64_t)s->targets.used);
	json_top(&j, "sandboxes", &s->sandboxes, "sandbox");
	json_kint(&j, "sandboxes_total", (int64_t)s->sandboxes.used);
	json_kint(&j, "damaged", (int64_t)found->damaged);
	json_end(&j);
}
