/* SPDX-License-Identifier: Apache-2.0 */
/* Differences for people: name-status, --stat, and unified text with colours. */
#ifndef CORDON_LAYERS_DIFF_H
#define CORDON_LAYERS_DIFF_H

#include <stdio.h>

#include "layers/view.h"

enum diff_format { DIFF_NAMES, DIFF_STAT, DIFF_UNIFIED };

struct diff_style {
	enum diff_format format;
	bool colours;
	int width;                       /* columns for --stat; 0: 80 */
	unsigned context;                /* lines around a change */
	const char *prefix_a, *prefix_b; /* "a/", "b/" */
};

/*
 * Prints. Control bytes in names and text are shown escaped when `colours` is set (a terminal), as they are otherwise; names with unusual bytes are quoted as git does. Binary
 * files are said to differ. Files above 8 MiB, or too different to compare in reasonable time, are reported by size. Modes and links are shown as git does, so that `git apply` and `patch -p1` take the
 * unified form; what git has no form for (directories, FIFOs, owners, attributes) is said in lines that both pass over.
 */
int diff_print(FILE *out, const struct view *before, const struct view *after, const struct changes *changes,
               const struct diff_style *style, struct cordon_error *err);

/* The text part alone, for the fuzzer and the tests: the hunks of the unified difference of two buffers; out NULL: only counts. Returns false if it gave up (too different). */
struct buf;
bool diff_text(struct buf *out, const char *a, size_t a_len, const char *b, size_t b_len, unsigned context, bool colours, size_t *added,
               size_t *removed);

/* As git prints names: "a\tb" with quotes if a byte is unusual, else as it is. UTF-8 is not unusual, characters that move the cursor are. */
void escape_name(struct buf *out, const char *prefix, const char *name);
/* For terminals, in less's notation: ^[ for controls (tabs stay), <9B> for stray bytes, <U+202E> for characters that reorder text. */
void escape_text(struct buf *out, const char *text, size_t len);

#endif
