/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/options.h"

enum { GAP = 2, COLUMNS_MAX = 16 };

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

/* The character at *s, which is moved behind it; -1 for a byte that is part of none. */
static int32_t next_char(const char **s)
{
	static const struct {
		unsigned char mask, lead;
		int32_t least;
	} forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
	const unsigned char *p = (const unsigned char *)*s;

	(*s)++;
	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
		int32_t c = p[0] & (unsigned char)~forms[form].mask;

		if ((p[0] & forms[form].mask) != forms[form].lead)
			continue;
		for (size_t i = 1; i <= form; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return -1;
			c = (int32_t)((uint32_t)c << 6 | (p[i] & 0x3f));
		}
		if (c < forms[form].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return -1;
		*s += form;
		return c;
	}
	return -1;
}

static bool within(int32_t c, const int32_t (*ranges)[2], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return false;
}

/* Controls, and what changes the direction or order of the text around it. */
static bool disturbs(int32_t c)
{
	static const int32_t ranges[][2] = {{-1, 0x1f},       {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200e, 0x200f},
	                                    {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};

	return within(c, ranges, ARRAY_SIZE(ranges));
}

static size_t char_width(int32_t c)
{
	static const int32_t none[][2] = {{0x300, 0x36f}, {0x200b, 0x200d}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}};
	static const int32_t wide[][2] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
	                                  {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};

	return within(c, none, ARRAY_SIZE(none)) ? 0 : within(c, wide, ARRAY_SIZE(wide)) ? 2 : 1;
}

void text_plain(struct buf *out, const char *s)
{
	while (*s) {
		const char *start = s;
		int32_t c = next_char(&s);

		if (c == '\n' || c == '\t' || c == '\r')
			buf_add_str(out, " ");
		else if (disturbs(c))
			buf_add_str(out, "?");
		else
			buf_add(out, start, (size_t)(s - start));
	}
}

size_t text_width(const char *s)
{
	size_t width = 0;

	while (*s)
		width += char_width(next_char(&s));
	return width;
}

int terminal_width(int fd)
{
	struct winsize size;

	if (!isatty(fd))
		return 0;
	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

bool terminal_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "utf-8") || strstr(value, "UTF8");
	}
	return false;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------------- */

const char *format_age(int64_t ms, char buf[FORMAT_MAX])
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
	int64_t seconds = MAX(ms, (int64_t)0) / 1000;
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && seconds < units[i].seconds)
		i++;
	snprintf(buf, FORMAT_MAX, "%" PRId64 "%c", seconds / units[i].seconds, units[i].unit);
	return buf;
}

const char *format_bytes(uint64_t bytes, char buf[FORMAT_MAX])
{
	static const char units[] = "KMGTP";
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(buf, FORMAT_MAX, "%" PRIu64, bytes);
		return buf;
	}
	for (value /= 1024; value >= 1023.95 && unit + 2 < sizeof(units); unit++)
		value /= 1024;
	snprintf(buf, FORMAT_MAX, value < 9.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
	return buf;
}

const char *format_time(int64_t ms, char buf[FORMAT_MAX])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || strftime(buf, FORMAT_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		snprintf(buf, FORMAT_MAX, "?");
	return buf;
}

/* ---- tables ------------------------------------------------------------------------------------------------------------------ */

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->used; i++)
		free(t->cells[i].text);
	free(t->cells);
	t->cells = NULL;
	t->used = t->size = 0;
}

void table_add(struct table *t, const char *style, const char *fmt, ...)
{
	_cleanup_free_ char *raw = NULL;
	_cleanup_buf_ struct buf text = {0};
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&raw, fmt, args) < 0)
		raw = NULL;
	va_end(args);
	if (raw)
		text_plain(&text, raw);
	if (t->used == t->size) {
		size_t size = t->size ? t->size * 2 : 64;
		struct table_cell *cells = realloc(t->cells, size * sizeof(*cells));

		if (!cells) {
			t->failed = true;
			return;
		}
		t->cells = cells;
		t->size = size;
	}
	char *owned = raw ? buf_steal(&text) : NULL;
	if (!owned) {
		t->failed = true;
		return;
	}
	t->cells[t->used++] = (struct table_cell){owned, style && *style ? style : NULL};
}

/* The widths that the texts ask for; 0: an empty column. */
static void measure(const struct table *t, size_t widths[COLUMNS_MAX])
{
	for (size_t i = 0; i < t->count; i++)
		widths[i] = 0;
	for (size_t i = 0; i < t->used; i++)
		widths[i % t->count] = MAX(widths[i % t->count], text_width(t->cells[i].text));
	for (size_t i = 0; i < t->count && !t->bare; i++)
		if (widths[i] || t->used == 0)
			widths[i] = MAX(widths[i], strlen(t->columns[i].title));
}

/* Takes columns from the widest of those that can spare them, until the row fits or none can. */
static void squeeze(const struct table *t, size_t widths[COLUMNS_MAX], size_t room)
{
	for (;;) {
		size_t total = 0, widest = COLUMNS_MAX;

		for (size_t i = 0; i < t->count; i++) {
			total += widths[i] ? widths[i] + (total ? GAP : 0) : 0;
			if (t->columns[i].least && widths[i] > t->columns[i].least && (widest == COLUMNS_MAX || widths[i] > widths[widest]))
				widest = i;
		}
		if (total <= room || widest == COLUMNS_MAX)
			return;
		widths[widest]--;
	}
}

static void pad(size_t n, FILE *out)
{
	while (n--)
		fputc(' ', out);
}

/* As much of the text as fits; returns the columns that were used. */
static size_t print_cut(const char *text, size_t width, bool tail, FILE *out)
{
	const char *mark = terminal_utf8() ? "\xe2\x80\xa6" : "~", *s = text;
	size_t all = text_width(text), used = 0;

	if (all <= width) {
		fputs(text, out);
		return all;
	}
	if (tail) {
		while (all + 1 > width && *s)
			all -= char_width(next_char(&s));
		fprintf(out, "%s%s", mark, s);
		return all + 1;
	}
	while (*s) {
		const char *start = s;
		size_t more = char_width(next_char(&s));

		if (used + more + 1 > width)
			break;
		fwrite(start, 1, (size_t)(s - start), out);
		used += more;
	}
	fputs(mark, out);
	return used + 1;
}

static void print_row(const struct table *t, const struct table_cell *row, const size_t *widths, const struct colours *c, FILE *out)
{
	size_t last = 0, debt = 0; /* blanks still to be printed, if anything follows */

	for (size_t i = 0; i < t->count; i++)
		if (widths[i])
			last = i;
	for (size_t i = 0; i <= last; i++) {
		size_t own = MIN(text_width(row[i].text), widths[i]), used;

		if (widths[i] == 0)
			continue;
		if (own == 0) {
			debt += widths[i] + GAP;
			continue;
		}
		pad(debt + (t->columns[i].right ? widths[i] - own : 0), out);
		if (row[i].style && *c->off)
			fputs(row[i].style, out);
		used = print_cut(row[i].text, widths[i], t->columns[i].tail, out);
		if (row[i].style && *c->off)
			fputs(c->off, out);
		debt = GAP + (t->columns[i].right ? 0 : widths[i] - MIN(used, widths[i]));
	}
	fputc('\n', out);
}

int table_print(const struct table *t, FILE *out)
{
	const struct colours c = colours_for(fileno(out));
	struct table_cell titles[COLUMNS_MAX];
	size_t widths[COLUMNS_MAX];
	int room = terminal_width(fileno(out));

	if (t->failed || t->count > COLUMNS_MAX)
		return -1;
	measure(t, widths);
	if (room > 0)
		squeeze(t, widths, (size_t)room);
	for (size_t i = 0; i < t->count; i++)
		titles[i] = (struct table_cell){(char *)(uintptr_t)t->columns[i].title, c.dim};
	if (!t->bare)
		print_row(t, titles, widths, &c, out);
	for (size_t i = 0; i + t->count <= t->used; i += t->count)
		print_row(t, t->cells + i, widths, &c, out);
	return 0;
}
