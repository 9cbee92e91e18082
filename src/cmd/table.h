/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables and lines for people: aligned columns that fit the terminal, numbers in a short form, and text from elsewhere (commands, paths, notes) so that
 * it can do nothing to the terminal.
 */
#ifndef CORDON_CMD_TABLE_H
#define CORDON_CMD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

struct table_column {
	const char *title;
	bool right;     /* numbers */
	unsigned least; /* on a narrow terminal it is cut down to this; 0: never */
	bool tail;      /* its end is what counts: cut at the beginning */
};

struct table_cell {
	char *text;        /* owned, printable, one line */
	const char *style; /* an escape sequence; NULL: none */
};

struct table {
	const struct table_column *columns;
	size_t count; /* of the columns */
	bool bare;    /* no line of titles */
	struct table_cell *cells;
	size_t used, size;
	bool failed;
};
void table_free(struct table *t);
#define _cleanup_table_ __attribute__((cleanup(table_free)))

/* The next cell, row by row; style may be NULL. */
void table_add(struct table *t, const char *style, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Columns without any text are left out. Colours and cutting only where `out` is a terminal. -1: out of memory. */
int table_print(const struct table *t, FILE *out);

/* Columns of the terminal behind fd, 0 if it is none. */
int terminal_width(int fd);
/* Whether the terminal shows UTF-8, by the locale's variables. */
bool terminal_utf8(void);

/* Adds s as one line: line feeds and tabs become blanks; other control characters, bytes that are no UTF-8 and what reorders text become '?'. */
void text_plain(struct buf *out, const char *s);
/* Columns that it takes. */
size_t text_width(const char *s);

enum { FORMAT_MAX = 32 };
/* "12s", "5m", "3h", "2d": one unit is enough for an age. */
const char *format_age(int64_t ms, char buf[FORMAT_MAX]);
/* "0", "512", "4.2K", "1.3G" */
const char *format_bytes(uint64_t bytes, char buf[FORMAT_MAX]);
/* "2026-01-31T12:00:00Z" */
const char *format_time(int64_t ms, char buf[FORMAT_MAX]);

#endif
