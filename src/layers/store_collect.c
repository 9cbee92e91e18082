/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage collection: mark what the boxes need, rename the rest away, and remove it.
 *
 * Needed is what a box names (its head, its open layer, what that is mounted over, the heads of its transactions), what was made in its history, and
 * all that these stand on. The boxes cannot change meanwhile: whoever writes a box's record holds the store's lock, shared, and looks there
 * whether the head still exists. In doubt, everything stays: where a record that is needed cannot be read, nobody knows what it needs in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/id.h"
#include "base/util.h"
#include "layers/box.h"
#include "layers/record.h"
#include "layers/store_parts.h"

#define FAILED_KEPT_MS ((int64_t)24 * 3600 * 1000)

struct collection {
	struct store *s;
	struct scan layers;
	struct box_list boxes;
	int64_t now_ms;
	bool doubt; /* something needed is damaged: no sealed layer can be told to be garbage */
};

/* ---- marking ------------------------------------------------------------------------------------------------------------------ */

/* This layer and what it stands on. One that should be sealed but cannot be read may stand on anything. */
static void need(struct collection *c, const char *id)
{
	while (*id) {
		struct scanned *l = scan_find(&c->layers, id);
		if (l && l->state != LAYER_SEALED && !*l->layer.parent)
			c->doubt = true;
		if (!l || l->marked)
			return;
		l->marked = true;
		if (*l->layer.over)
			need(c, l->layer.over); /* the seed's id is no layer */
		id = l->layer.parent;
	}
}

static void need_box(struct collection *c, const struct box_item *item)
{
	const struct box *b = &item->box;
	struct scanned *open = scan_find(&c->layers, b->open);
	if (open)
		open->marked = true;
	if (item->damaged)
		c->doubt = true;
	need(c, b->head);
	need(c, b->lower);
	for (size_t i = 0; i < b->tx.count; i++)
		need(c, b->tx.items[i]); /* "-" is no layer */
}

static bool box_exists(const struct collection *c, const char *id)
{
	for (size_t i = 0; i < c->boxes.count; i++)
		if (strcmp(c->boxes.items[i].box.id, id) == 0)
			return true;
	return false;
}

/* A failed layer is there to be looked at, for a day; a name keeps it. */
static bool has_expired(const struct collection *c, const struct layer *l)
{
	return l->kind == LAYER_FAILED && !l->name && l->created_ms < c->now_ms - FAILED_KEPT_MS;
}

/* Also a damaged one of which no sandbox can be read, as long as there is one that it may belong to; it does not put the others in doubt. */
static void need_history(struct collection *c)
{
	for (size_t i = 0; i < c->layers.count; i++) {
		struct scanned *l = &c->layers.items[i];
		if (l->state == LAYER_DAMAGED && !*l->layer.sandbox && c->boxes.count > 0)
			l->marked = true;
		else if ((l->state == LAYER_SEALED && !has_expired(c, &l->layer) && box_exists(c, l->layer.sandbox)) ||
		         (l->state == LAYER_DAMAGED && box_exists(c, l->layer.sandbox)))
			need(c, l->layer.id);
	}
}

static bool is_garbage(const struct collection *c, const struct scanned *l)
{
	if (l->marked || l->state == LAYER_OPEN)
		return false;
	return l->state == LAYER_ABANDONED || !c->doubt;
}

/* ---- removing ----------------------------------------------------------------------------------------------------------------- */

static int retire_garbage(struct collection *c, struct cordon_error *err)
{
	int count = 0;
	for (size_t i = 0; i < c->layers.count; i++) {
		const struct scanned *l = &c->layers.items[i];
		if (!is_garbage(c, l))
			continue;
		if (store_retire(c->s->layers_fd, l->layer.id, err) < 0)
			return -1;
		count++;
	}
	return count;
}

static int mark_and_retire(struct collection *c, struct cordon_error *err)
{
	_cleanup_fd_ int lock = store_lock(c->s, true, err);
	if (lock < 0 || box_list(c->s, &c->boxes, err) < 0 || store_scan(c->s, &c->layers, err) < 0)
		return -1;
	for (size_t i = 0; i < c->boxes.count; i++)
		need_box(c, &c->boxes.items[i]);
	need_history(c);
	return retire_garbage(c, err);
}

/* Temporary names whose makers are dead, and what was renamed away. */
static void sweep(int dirfd, bool with_gone)
{
	struct strlist names = {0};
	store_list(dirfd, &names, NULL);
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		if ((with_gone && strncmp(name, GONE, strlen(GONE)) == 0) || record_temp_is_dead(name, RECORD_TEMP) ||
		    record_temp_is_dead(name, FLAT_TEMP))
			fs_remove_tree(dirfd, name, NULL); /* what cannot be removed now stays for the next time */
	}
	strlist_free(&names);
}

static void sweep_inside(int dirfd, const char *id, bool sealed)
{
	_cleanup_fd_ int fd = openat(dirfd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	sweep(fd, false);
	if (sealed) { /* by a process that died before it could tidy up */
		fs_remove_tree(fd, LAYER_WORK, NULL);
		unlinkat(fd, LAYER_OPEN_MARK, 0);
	}
}

static void sweep_all(const struct collection *c)
{
	sweep(c->s->layers_fd, true);
	sweep(c->s->boxes_fd, true);
	for (size_t i = 0; i < c->layers.count; i++)
		if (!is_garbage(c, &c->layers.items[i]))
			sweep_inside(c->s->layers_fd, c->layers.items[i].layer.id, c->layers.items[i].state == LAYER_SEALED);
	for (size_t i = 0; i < c->boxes.count; i++)
		sweep_inside(c->s->boxes_fd, c->boxes.items[i].box.id, false);
}

int store_collect(struct store *s, int64_t now_ms, struct cordon_error *err)
{
	struct collection c = {.s = s, .now_ms = now_ms};
	int count = mark_and_retire(&c, err);
	if (count < 0)
		err_wrap(err, "cannot collect layers");
	else
		sweep_all(&c); /* without the lock: trees may be large, and nobody uses these names */
	scan_free(&c.layers);
	box_list_free(&c.boxes);
	return count;
}
