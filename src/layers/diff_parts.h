/* SPDX-License-Identifier: Apache-2.0 */
/* What diff.c and its parts share; nobody else needs it. */
#ifndef CORDON_LAYERS_DIFF_PARTS_H
#define CORDON_LAYERS_DIFF_PARTS_H

#include "base/buf.h"
#include "layers/diff.h"

#define DIFF_FILE_MAX ((size_t)8 << 20)

/* As git's */
#define COLOUR_BOLD "\033[1m"
#define COLOUR_RED "\033[31m"
#define COLOUR_GREEN "\033[32m"
#define COLOUR_CYAN "\033[36m"
#define COLOUR_OFF "\033[m"

/* ---- diff_lines.c ------------------------------------------------------------------------------------------------------------- */

struct diff_line {
	const char *text; /* with the line feed, if there is one */
	size_t len;
	unsigned id; /* equal lines have equal ids */
	bool changed;
};
struct diff_side {
	struct diff_line *lines;
	size_t count;
};
bool diff_same_line(const struct diff_line *a, const struct diff_line *b);
/* Marks the lines that are not common to both, few of them. False: too many lines, too different, or no memory. */
bool diff_lines(struct diff_side *a, struct diff_side *b);

/* ---- diff_content.c ----------------------------------------------------------------------------------------------------------- */

/* One side of a path: what it is, and the text of a regular file or the target of a link. */
struct content {
	struct stat st; /* st_mode 0: absent */
	enum { CONTENT_NONE, CONTENT_TEXT, CONTENT_BINARY, CONTENT_LARGE, CONTENT_UNREADABLE } kind;
	char *data; /* of CONTENT_TEXT; owned */
	size_t len;
	char problem[104]; /* of CONTENT_UNREADABLE */
};
#define _cleanup_content_ __attribute__((cleanup(content_free)))
void content_free(struct content *c);
/* mode: what it is expected to be, 0: not looked at. What cannot be read is no failure: the difference says so. */
void content_load(const struct view *v, const char *path, mode_t mode, struct content *out);
uint64_t content_size(const struct content *c);
/* Counts lines and, unless out is NULL, adds the hunks. False: no comparison by lines. Something that is absent is an empty text. */
bool content_diff(struct buf *out, const struct content *a, const struct content *b, const struct diff_style *style, size_t *added,
                  size_t *removed);

/* ---- diff_stat.c -------------------------------------------------------------------------------------------------------------- */

int diff_print_stat(FILE *out, const struct view *before, const struct view *after, const struct changes *changes,
                    const struct diff_style *style, struct cordon_error *err);

/* Prints what was gathered, and empties it. */
int diff_flush(FILE *out, struct buf *b, struct cordon_error *err);

#endif
