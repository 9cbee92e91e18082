/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences as git prints them, so that `git apply` and `patch -p1` take them. What git has no form for (directories, FIFOs, owners, attributes, files too large to
 * compare) is said in a line between the patches, which both programs pass over.
 */
#include "layers/diff.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "layers/diff_parts.h"

#define FILE_OUTPUT_MAX ((size_t)512 << 20) /* of one file: 16 MiB of text at worst, each byte escaped */

struct printer {
	struct buf out;
	const struct view *before, *after;
	const struct changes *changes;
	const struct diff_style *style;
};

int diff_flush(FILE *out, struct buf *b, struct cordon_error *err)
{
	if (b->failed) {
		errno = ENOMEM;
		return err_sys(err, "cannot print the difference");
	}
	if (b->len && fwrite(b->data, 1, b->len, out) != b->len)
		return err_sys(err, "cannot print the difference");
	b->len = 0;
	return 0;
}

/* ---- parts of a patch --------------------------------------------------------------------------------------------------------- */

static void begin(struct printer *p)
{
	if (p->style->colours)
		buf_add_str(&p->out, COLOUR_BOLD);
}

static void end(struct printer *p)
{
	buf_add_str(&p->out, p->style->colours ? COLOUR_OFF "\n" : "\n");
}

static void name_a(struct printer *p, const char *path)
{
	escape_name(&p->out, p->style->prefix_a ? p->style->prefix_a : "a/", path);
}

static void name_b(struct printer *p, const char *path)
{
	escape_name(&p->out, p->style->prefix_b ? p->style->prefix_b : "b/", path);
}

/* The bits as they are, where git would say 100644 or 100755: it takes any, and a reader wants to know. */
static void mode_line(struct printer *p, const char *what, mode_t mode)
{
	begin(p);
	buf_addf(&p->out, "%s %06o", what, S_ISLNK(mode) ? (unsigned)S_IFLNK : (unsigned)mode);
	end(p);
}

/* The name of the empty file in git's object store: with it, patch(1) knows that an empty file is to be made or removed. */
static void put_index_of_empty(struct printer *p, bool is_new)
{
	begin(p);
	buf_add_str(&p->out, is_new ? "index 0000000..e69de29" : "index e69de29..0000000");
	end(p);
}

static void put_modes(struct printer *p, mode_t before, mode_t after)
{
	if (!before) {
		mode_line(p, "new file mode", after);
	} else if (!after) {
		mode_line(p, "deleted file mode", before);
	} else if (before != after || S_ISLNK(after)) { /* patch(1) wants to be told that it is a link */
		mode_line(p, "old mode", before);
		mode_line(p, "new mode", after);
	}
}

/* "--- a/x": a name with blanks ends in a tab, so that patch(1) takes all of it. */
static void file_line(struct printer *p, const char *mark, void (*name)(struct printer *, const char *), const char *path, bool there)
{
	begin(p);
	buf_add_str(&p->out, mark);
	if (there)
		name(p, path);
	else
		buf_add_str(&p->out, "/dev/null");
	if (there && strchr(path, ' '))
		buf_add_str(&p->out, "\t");
	end(p);
}

static void put_git_line(struct printer *p, const char *path)
{
	begin(p);
	buf_add_str(&p->out, "diff --git ");
	name_a(p, path);
	buf_add_str(&p->out, " ");
	name_b(p, path);
	end(p);
}

static void put_name_or_null(struct printer *p, void (*name)(struct printer *, const char *), const char *path, const struct content *c)
{
	if (c->st.st_mode)
		name(p, path);
	else
		buf_add_str(&p->out, "/dev/null");
}

/* Why there are no lines to show. */
static void put_incomparable(struct printer *p, const char *path, const struct content *a, const struct content *b)
{
	bool binary = a->kind == CONTENT_BINARY || b->kind == CONTENT_BINARY;
	const struct content *hidden = a->kind == CONTENT_UNREADABLE ? a : b->kind == CONTENT_UNREADABLE ? b : NULL;

	buf_add_str(&p->out, hidden ? "Files " : binary ? "Binary files " : "Large files ");
	put_name_or_null(p, name_a, path, a);
	buf_add_str(&p->out, " and ");
	put_name_or_null(p, name_b, path, b);
	buf_add_str(&p->out, " differ");
	if (hidden) {
		buf_add_str(&p->out, hidden == a ? ", the first cannot be read: " : ", the second cannot be read: ");
		escape_text(&p->out, hidden->problem, strlen(hidden->problem));
	} else if (!binary) {
		buf_addf(&p->out, ": %llu and %llu bytes", (unsigned long long)content_size(a), (unsigned long long)content_size(b));
	}
	buf_add_str(&p->out, "\n");
}

/* ---- one change --------------------------------------------------------------------------------------------------------------- */

static bool git_knows(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

static void put_patch(struct printer *p, const char *path, const struct content *a, const struct content *b)
{
	_cleanup_buf_ struct buf hunks = {.cap = FILE_OUTPUT_MAX};
	size_t added, removed;

	bool compared = content_diff(&hunks, a, b, p->style, &added, &removed);
	bool same_mode = a->st.st_mode == b->st.st_mode;
	if (compared && hunks.len == 0 && same_mode)
		return;
	put_git_line(p, path);
	put_modes(p, a->st.st_mode, b->st.st_mode);
	if (!compared) {
		put_incomparable(p, path, a, b);
	} else if (hunks.len > 0) {
		file_line(p, "--- ", name_a, path, a->st.st_mode);
		file_line(p, "+++ ", name_b, path, b->st.st_mode);
		buf_add(&p->out, hunks.data, hunks.len);
	} else if (!a->st.st_mode || !b->st.st_mode) {
		put_index_of_empty(p, !a->st.st_mode);
	}
}

static const char *kind_name(mode_t mode)
{
	return S_ISDIR(mode) ? "directory" : S_ISFIFO(mode) ? "fifo" : S_ISLNK(mode) ? "link" : "file";
}

/* The files of a directory show well enough that it is new or gone. */
static bool something_below(const struct changes *c, const char *path)
{
	size_t low = 0, high = c->count, len = strlen(path);

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strncmp(c->items[mid].path, path, len);

		if (order < 0 || (order == 0 && (unsigned char)c->items[mid].path[len] < '/'))
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->count && strncmp(c->items[low].path, path, len) == 0 && c->items[low].path[len] == '/';
}

/* A line about what git has no form for. */
static void put_note(struct printer *p, const char *what, mode_t mode, bool gone, const char *path)
{
	if (S_ISDIR(mode) && something_below(p->changes, path))
		return;
	buf_addf(&p->out, "%s %s ", what, kind_name(mode));
	(gone ? name_a : name_b)(p, path);
	buf_add_str(&p->out, "\n");
}

static void put_removal(struct printer *p, const char *path, const struct content *a)
{
	if (git_knows(a->st.st_mode))
		put_patch(p, path, a, &(struct content){0});
	else if (a->st.st_mode)
		put_note(p, "deleted", a->st.st_mode, true, path);
}

static void put_addition(struct printer *p, const char *path, const struct content *b)
{
	if (git_knows(b->st.st_mode))
		put_patch(p, path, &(struct content){0}, b);
	else if (b->st.st_mode)
		put_note(p, "new", b->st.st_mode, false, path);
}

/* Modes of what is no file, owners, attributes. */
static void put_properties(struct printer *p, const struct change *c, const struct content *a, const struct content *b)
{
	bool said = a->st.st_mode != b->st.st_mode;

	if (said && !git_knows(b->st.st_mode)) {
		buf_addf(&p->out, "mode of %s ", kind_name(b->st.st_mode));
		name_b(p, c->path);
		buf_addf(&p->out, ": %04o -> %04o\n", (unsigned)a->st.st_mode & 07777, (unsigned)b->st.st_mode & 07777);
	}
	if (a->st.st_uid != b->st.st_uid || a->st.st_gid != b->st.st_gid) {
		said = true;
		buf_add_str(&p->out, "owner of ");
		name_b(p, c->path);
		buf_addf(&p->out, ": %u:%u -> %u:%u\n", (unsigned)a->st.st_uid, (unsigned)a->st.st_gid, (unsigned)b->st.st_uid,
		         (unsigned)b->st.st_gid);
	}
	if (!said && c->op == CHANGE_MODE) {
		buf_add_str(&p->out, "attributes of ");
		name_b(p, c->path);
		buf_add_str(&p->out, " changed\n");
	}
}

/* As git does it, another type is a removal and an addition. */
static void put_change(struct printer *p, const struct change *c)
{
	_cleanup_content_ struct content a = {0}, b = {0};

	content_load(p->before, c->path, c->before, &a);
	content_load(p->after, c->path, c->after, &b);
	if (!c->before || !c->after || (c->before & S_IFMT) != (c->after & S_IFMT)) {
		put_removal(p, c->path, &a);
		put_addition(p, c->path, &b);
		return;
	}
	if (git_knows(c->after))
		put_patch(p, c->path, &a, &b);
	put_properties(p, c, &a, &b);
}

static void put_name(struct printer *p, const struct change *c)
{
	static const char letters[CHANGE_OP_COUNT] = {
		[CHANGE_ADD] = 'A',  [CHANGE_MODIFY] = 'M', [CHANGE_DELETE] = 'D',
		[CHANGE_MODE] = 'm', [CHANGE_TYPE] = 'T',   [CHANGE_TIME] = 't',
	};

	buf_addf(&p->out, "%c\t", letters[c->op]);
	escape_name(&p->out, "", c->path);
	buf_add_str(&p->out, "\n");
}

int diff_print(FILE *out, const struct view *before, const struct view *after, const struct changes *changes,
               const struct diff_style *style, struct cordon_error *err)
{
	struct printer p = {.out = {.cap = FILE_OUTPUT_MAX}, .before = before, .after = after, .changes = changes, .style = style};
	int r = 0;

	if (style->format == DIFF_STAT)
		return diff_print_stat(out, before, after, changes, style, err);
	for (size_t i = 0; i < changes->count && r == 0; i++) {
		if (style->format == DIFF_NAMES)
			put_name(&p, &changes->items[i]);
		else
			put_change(&p, &changes->items[i]);
		r = diff_flush(out, &p.out, err);
	}
	buf_free(&p.out);
	return r;
}
