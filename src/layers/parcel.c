/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/parcel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

static int receive_all(int fd, void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = read(fd, (char *)data + done, len - done);
		if (n == 0)
			errno = EPIPE;
		if (n == 0 || (n < 0 && errno != EINTR))
			return -1;
		done += n < 0 ? 0 : (size_t)n;
	}
	return 0;
}

/* ---- indexes ------------------------------------------------------------------------------------------------------------------- */

struct index_head {
	uint64_t count, names, top; /* items, bytes, bytes */
	uint32_t top_count;
};

int tree_index_send(const struct tree_index *i, int fd, struct cordon_error *err)
{
	const struct index_head h = {i->count, i->names.len, i->top ? strlen(i->top) : 0, i->top_count};
	if (fs_write_full(fd, &h, sizeof(h)) < 0 || fs_write_full(fd, i->items, i->count * sizeof(*i->items)) < 0 ||
	    fs_write_full(fd, i->names.data, i->names.len) < 0 || fs_write_full(fd, i->top, h.top) < 0)
		return err_sys(err, "cannot pass the list of files on");
	return 0;
}

int tree_index_receive(struct tree_index *out, int fd, struct cordon_error *err)
{
	struct index_head h;
	*out = (struct tree_index){.names = {.cap = INDEX_NAMES_MAX}};
	if (receive_all(fd, &h, sizeof(h)) < 0)
		return err_sys(err, "cannot take the list of files over");
	out->items = malloc((h.count + 1) * sizeof(*out->items));
	out->top = calloc(1, h.top + 1);
	char *names = buf_reserve(&out->names, h.names);
	if (!out->items || !out->top || !names || receive_all(fd, out->items, h.count * sizeof(*out->items)) < 0 ||
	    receive_all(fd, names, h.names) < 0 || receive_all(fd, out->top, h.top) < 0) {
		err_sys(err, "cannot take the list of files over");
		tree_index_free(out);
		return -1;
	}
	out->count = out->size = h.count;
	out->names.len = h.names;
	out->top_count = h.top_count;
	return 0;
}

/* ---- changes ------------------------------------------------------------------------------------------------------------------- */

/* Each with its path behind it. */
struct change_head {
	struct change change;
	size_t len;
};

int changes_send(const struct changes *c, int fd, struct cordon_error *err)
{
	int r = fs_write_full(fd, &c->count, sizeof(c->count));
	for (size_t i = 0; r == 0 && i < c->count; i++) {
		const struct change_head h = {c->items[i], strlen(c->items[i].path)};
		r = fs_write_full(fd, &h, sizeof(h)) < 0 || fs_write_full(fd, c->items[i].path, h.len) < 0 ? -1 : 0;
	}
	return r == 0 ? 0 : err_sys(err, "cannot pass the list of changes on");
}

static int receive_change(struct changes *out, int fd, struct buf *path, struct cordon_error *err)
{
	struct change_head h;
	path->len = 0;
	char *text = receive_all(fd, &h, sizeof(h)) < 0 ? NULL : buf_reserve(path, h.len + 1);
	if (!text || receive_all(fd, text, h.len) < 0)
		return err_sys(err, "cannot take the list of changes over");
	text[h.len] = '\0';
	h.change.path = text;
	return changes_add(out, &h.change, err);
}

int changes_receive(struct changes *out, int fd, struct cordon_error *err)
{
	_cleanup_buf_ struct buf path = {.cap = SIZE_MAX};
	size_t count;
	*out = (struct changes){0};
	int r = receive_all(fd, &count, sizeof(count)) < 0 ? err_sys(err, "cannot take the list of changes over") : 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = receive_change(out, fd, &path, err);
	if (r < 0)
		changes_free(out);
	return r;
}
