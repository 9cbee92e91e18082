/* SPDX-License-Identifier: Apache-2.0 */
/* The two sides of a changed path, loaded for printing. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/diff_parts.h"

#define BINARY_PROBE ((size_t)8000) /* git's: a NUL within these */

void content_free(struct content *c)
{
	free(c->data);
	*c = (struct content){0};
}

static void unreadable(struct content *c, const char *why)
{
	c->kind = CONTENT_UNREADABLE;
	snprintf(c->problem, sizeof(c->problem), "%.100s", why);
}

static ssize_t read_link(int fd, char *data, size_t size)
{
	return readlinkat(fd, "", data, size);
}

static void load(int fd, struct content *out)
{
	size_t size = S_ISLNK(out->st.st_mode) ? (size_t)PATH_MAX : (size_t)out->st.st_size;

	out->data = malloc(size + 1);
	ssize_t n = !out->data ? -1 : S_ISLNK(out->st.st_mode) ? read_link(fd, out->data, size) : fs_pread_full(fd, out->data, size, 0);
	if (n < 0) {
		unreadable(out, strerror(errno));
		return;
	}
	out->len = (size_t)n;
	out->kind = memchr(out->data, '\0', MIN(out->len, BINARY_PROBE)) ? CONTENT_BINARY : CONTENT_TEXT;
}

void content_load(const struct view *v, const char *path, mode_t mode, struct content *out)
{
	struct cordon_error err = {0};
	struct view_entry e;

	*out = (struct content){0};
	if (!mode)
		return;
	if (view_stat(v, path, &e, &err) < 0 || (e.st.st_mode & S_IFMT) != (mode & S_IFMT)) {
		out->st.st_mode = mode;
		unreadable(out, err.sys_errno ? strerror(err.sys_errno) : "it was replaced meanwhile");
		return;
	}
	out->st = e.st;
	if (!S_ISREG(mode) && !S_ISLNK(mode))
		return;
	if (S_ISREG(mode) && (uint64_t)e.st.st_size > DIFF_FILE_MAX) {
		out->kind = CONTENT_LARGE;
		return;
	}
	_cleanup_fd_ int fd = view_open_entry(v, path, &e, &err);
	if (fd < 0)
		unreadable(out, strerror(err.sys_errno));
	else
		load(fd, out);
}

uint64_t content_size(const struct content *c)
{
	return S_ISREG(c->st.st_mode) || S_ISLNK(c->st.st_mode) ? (uint64_t)c->st.st_size : 0;
}

bool content_diff(struct buf *out, const struct content *a, const struct content *b, const struct diff_style *style, size_t *added,
                  size_t *removed)
{
	*added = *removed = 0;
	if ((a->kind != CONTENT_NONE && a->kind != CONTENT_TEXT) || (b->kind != CONTENT_NONE && b->kind != CONTENT_TEXT))
		return false;
	return diff_text(out, a->data ? a->data : "", a->len, b->data ? b->data : "", b->len, style->context, style->colours, added,
	                 removed);
}
