/* SPDX-License-Identifier: Apache-2.0 */
/* --stat: one line per file with a bar of what was added and removed, in the columns that git would use. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "layers/diff_parts.h"

struct stat_line {
	char *name;
	size_t width;            /* columns of the name */
	bool binary;             /* or otherwise not compared by lines */
	uint64_t added, removed; /* lines; of binary files the bytes after and before */
};

struct stat_table {
	struct stat_line *lines;
	size_t count;
	size_t names, numbers, graph; /* columns */
	uint64_t most;                /* changes of one file */
};

static void table_free(struct stat_table *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->lines[i].name);
	free(t->lines);
}
#define _cleanup_table_ __attribute__((cleanup(table_free)))

/* Every character counts as one column. */
static size_t columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static size_t digits(uint64_t n)
{
	size_t d = 1;

	for (; n >= 10; n /= 10)
		d++;
	return d;
}

/* ---- counting ----------------------------------------------------------------------------------------------------------------- */

/* Another type is all of the old and all of the new. */
static bool count_lines(const struct content *a, const struct content *b, const struct diff_style *style, size_t *added, size_t *removed)
{
	const struct content nothing = {0};
	size_t none;

	if ((a->st.st_mode & S_IFMT) == (b->st.st_mode & S_IFMT))
		return content_diff(NULL, a, b, style, added, removed);
	return content_diff(NULL, a, &nothing, style, &none, removed) && content_diff(NULL, &nothing, b, style, added, &none);
}

static int add_line(struct stat_table *t, const struct view *before, const struct view *after, const struct change *c,
                    const struct diff_style *style, struct cordon_error *err)
{
	_cleanup_content_ struct content a = {0}, b = {0};
	struct stat_line *line = &t->lines[t->count];
	struct buf name = {0};
	size_t added, removed;

	escape_name(&name, "", c->path);
	*line = (struct stat_line){.name = buf_steal(&name)};
	if (!line->name)
		return err_sys(err, "cannot print the difference");
	t->count++;
	line->width = columns(line->name);
	content_load(before, c->path, c->before, &a);
	content_load(after, c->path, c->after, &b);
	line->binary = !count_lines(&a, &b, style, &added, &removed);
	line->added = line->binary ? content_size(&b) : added;
	line->removed = line->binary ? content_size(&a) : removed;
	return 0;
}

/* As in git's table, directories have no line of their own; times are nothing to look at. */
static bool has_no_line(const struct change *c)
{
	return c->op == CHANGE_TIME || ((!c->before || S_ISDIR(c->before)) && (!c->after || S_ISDIR(c->after)));
}

static int gather(struct stat_table *t, const struct view *before, const struct view *after, const struct changes *changes,
                  const struct diff_style *style, struct cordon_error *err)
{
	t->lines = calloc(MAX(changes->count, (size_t)1), sizeof(*t->lines));
	if (!t->lines)
		return err_sys(err, "cannot print the difference");
	for (size_t i = 0; i < changes->count; i++)
		if (!has_no_line(&changes->items[i]) && add_line(t, before, after, &changes->items[i], style, err) < 0)
			return -1;
	return 0;
}

/* ---- layout ------------------------------------------------------------------------------------------------------------------- */

#define NUMBER_AND_MARKS 6 /* " ", " | ", " " and one column left free */

/* What show_stats() in git's diff.c does: bars get three eighths where names are long too. */
static void lay_out(struct stat_table *t, size_t width)
{
	size_t binary = 0;

	t->numbers = 1;
	for (size_t i = 0; i < t->count; i++) {
		const struct stat_line *line = &t->lines[i];

		t->names = MAX(t->names, line->width);
		if (line->binary) {
			binary = MAX(binary, strlen("Bin  ->  bytes") + digits(line->added) + digits(line->removed));
			t->numbers = MAX(t->numbers, strlen("Bin"));
		} else {
			t->most = MAX(t->most, line->added + line->removed);
		}
	}
	t->numbers = MAX(t->numbers, digits(t->most));
	t->graph = t->most + 4 > binary ? (size_t)t->most : binary - 4;
	width = MAX(width, 16 + NUMBER_AND_MARKS + t->numbers);
	if (t->names + t->numbers + NUMBER_AND_MARKS + t->graph <= width)
		return;
	size_t bar = width * 3 / 8 > t->numbers + NUMBER_AND_MARKS + 6 ? width * 3 / 8 - t->numbers - NUMBER_AND_MARKS : 6;
	t->graph = MIN(t->graph, bar);
	if (t->names > width - t->numbers - NUMBER_AND_MARKS - t->graph)
		t->names = width - t->numbers - NUMBER_AND_MARKS - t->graph;
	else
		t->graph = width - t->numbers - NUMBER_AND_MARKS - t->names;
}

/* A number that is not 0 keeps at least one column. */
static size_t scale(uint64_t n, const struct stat_table *t)
{
	return n ? 1 + (size_t)(n * (t->graph - 1) / t->most) : 0;
}

static void put_bar(struct buf *out, size_t n, char sign, const char *colour, bool colours)
{
	if (n == 0)
		return;
	if (colours)
		buf_add_str(out, colour);
	while (n--)
		buf_add(out, &sign, 1);
	if (colours)
		buf_add_str(out, COLOUR_OFF);
}

static void put_graph(struct buf *out, const struct stat_table *t, const struct stat_line *line, bool colours)
{
	size_t added = (size_t)line->added, removed = (size_t)line->removed;

	if (t->graph <= t->most) {
		size_t total = scale(line->added + line->removed, t);

		if (total < 2 && added && removed)
			total = 2;
		if (added < removed) {
			added = scale(line->added, t);
			removed = total - added;
		} else {
			removed = scale(line->removed, t);
			added = total - removed;
		}
	}
	put_bar(out, added, '+', COLOUR_GREEN, colours);
	put_bar(out, removed, '-', COLOUR_RED, colours);
}

/* A name that is too long loses its beginning, up to a slash where there is one. */
static void put_stat_name(struct buf *out, const struct stat_table *t, const struct stat_line *line)
{
	const char *name = line->name;
	size_t width = line->width;

	if (width > t->names) {
		size_t room = t->names > 3 ? t->names - 3 : 0;

		for (; *name && width > room; width--)
			for (name++; ((unsigned char)*name & 0xc0) == 0x80;)
				name++;
		const char *slash = strchr(name, '/');
		name = slash ? slash : name;
		buf_add_str(out, "...");
		width = columns(name) + 3;
	}
	buf_add_str(out, name);
	for (; width < t->names; width++)
		buf_add_str(out, " ");
}

static void put_stat_line(struct buf *out, const struct stat_table *t, const struct stat_line *line, bool colours)
{
	buf_add_str(out, " ");
	put_stat_name(out, t, line);
	if (line->binary) {
		buf_addf(out, " | %*s ", (int)t->numbers, "Bin");
		buf_addf(out,
		         colours ? COLOUR_RED "%llu" COLOUR_OFF " -> " COLOUR_GREEN "%llu" COLOUR_OFF " bytes\n" : "%llu -> %llu bytes\n",
		         (unsigned long long)line->removed, (unsigned long long)line->added);
		return;
	}
	uint64_t total = line->added + line->removed;
	buf_addf(out, " | %*llu%s", (int)t->numbers, (unsigned long long)total, total ? " " : "");
	put_graph(out, t, line, colours);
	buf_add_str(out, "\n");
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void put_summary(struct buf *out, const struct stat_table *t)
{
	uint64_t added = 0, removed = 0;

	for (size_t i = 0; i < t->count; i++) {
		added += t->lines[i].binary ? 0 : t->lines[i].added;
		removed += t->lines[i].binary ? 0 : t->lines[i].removed;
	}
	buf_addf(out, " %zu file%s changed", t->count, plural(t->count));
	if (t->count && (added || !removed))
		buf_addf(out, ", %llu insertion%s(+)", (unsigned long long)added, plural(added));
	if (t->count && (removed || !added))
		buf_addf(out, ", %llu deletion%s(-)", (unsigned long long)removed, plural(removed));
	buf_add_str(out, "\n");
}

int diff_print_stat(FILE *out, const struct view *before, const struct view *after, const struct changes *changes,
                    const struct diff_style *style, struct cordon_error *err)
{
	_cleanup_table_ struct stat_table t = {0};
	struct buf text = {0};
	int r = 0;

	if (gather(&t, before, after, changes, style, err) < 0)
		return -1;
	lay_out(&t, style->width > 0 ? (size_t)style->width : 80);
	for (size_t i = 0; i < t.count && r == 0; i++) {
		put_stat_line(&text, &t, &t.lines[i], style->colours);
		r = diff_flush(out, &text, err);
	}
	if (r == 0) {
		put_summary(&text, &t);
		r = diff_flush(out, &text, err);
	}
	buf_free(&text);
	return r;
}
