/* SPDX-License-Identifier: Apache-2.0 */
/* The way from a layer down to the seed, and the history of a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "layers/store_parts.h"

/* ---- one way down ------------------------------------------------------------------------------------------------------------- */

/*
 * Parents never change, so a circle can only come from a record that somebody edited. Brent's way to find one without remembering the
 * whole path: compare with a mark that is moved on after 1, 2, 4, 8 … steps.
 */
struct descent {
	char id[LAYER_ID_LEN + 1]; /* where we are; "": at the seed */
	char mark[LAYER_ID_LEN + 1];
	size_t steps, limit;
	char over[LAYER_ID_LEN + 1]; /* of the layer that was left last */
};

static int descent_start(struct descent *d, const char *head, struct cordon_error *err)
{
	*d = (struct descent){.limit = 1};
	if (*head && store_check_id(head, err) < 0)
		return -1;
	snprintf(d->id, sizeof(d->id), "%s", head);
	return 0;
}

static int descent_next(struct descent *d, struct store *s, struct cordon_error *err)
{
	_cleanup_layer_ struct layer l = {0};
	if (layer_load(s, d->id, &l, err) < 0)
		return -1;
	if (++d->steps == d->limit) {
		d->steps = 0;
		d->limit *= 2;
		memcpy(d->mark, d->id, sizeof(d->mark));
	}
	if (*l.parent && strcmp(l.parent, d->mark) == 0)
		return err_set(err, CORDON_ERR_INPUT, "layer %s: damaged: it stands on itself, by way of its parents", d->id);
	memcpy(d->id, l.parent, sizeof(d->id));
	memcpy(d->over, l.over, sizeof(d->over));
	return 0;
}

/* A layer that holds all that was written on another one stands on that, whatever its parent is. */
static void descend_over(struct descent *d)
{
	if (strcmp(d->over, LAYER_OVER_SEED) == 0)
		d->id[0] = '\0';
	else if (*d->over)
		memcpy(d->id, d->over, sizeof(d->id));
}

static bool is_directory(int dirfd, const char *path)
{
	struct stat st;
	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int fill_chain(struct store *s, const char *head, enum layer_tree tree, struct strlist *out, struct cordon_error *err)
{
	char plain[STORE_PATH_MAX], flat[STORE_PATH_MAX];
	struct descent d;
	if (descent_start(&d, head, err) < 0)
		return -1;
	while (*d.id) {
		snprintf(plain, sizeof(plain), "%s/%s", d.id, layer_tree_names[tree]);
		snprintf(flat, sizeof(flat), "%s/" LAYER_FLAT "/%s", d.id, layer_tree_names[tree]);
		if (descent_next(&d, s, err) < 0)
			return -1;
		if (is_directory(s->layers_fd, flat))
			return strlist_add(out, flat, err);
		const bool there = is_directory(s->layers_fd, plain);
		if (!there && tree < TREE_COUNT)
			return err_set(err, CORDON_ERR_INPUT, "layer %.*s: damaged: its directory \"%s\" is missing", LAYER_ID_LEN, plain,
			               layer_tree_names[tree]);
		if (there && strlist_add(out, plain, err) < 0)
			return -1;
		descend_over(&d);
	}
	return 0;
}

int layer_chain(struct store *s, const char *head, enum layer_tree tree, struct strlist *out, struct cordon_error *err)
{
	*out = (struct strlist){0};
	if (fill_chain(s, head, tree, out, err) == 0)
		return 0;
	strlist_free(out);
	return -1;
}

int layer_ancestors(struct store *s, const char *head, struct strlist *out, struct cordon_error *err)
{
	struct descent d;
	*out = (struct strlist){0};
	int r = descent_start(&d, head, err);
	while (r == 0 && *d.id) {
		r = strlist_add(out, d.id, err);
		if (r == 0)
			r = descent_next(&d, s, err);
	}
	if (r < 0)
		strlist_free(out);
	return r;
}

/* ---- history ------------------------------------------------------------------------------------------------------------------ */

void layer_list_free(struct layer_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		layer_free(&l->items[i].layer);
	free(l->items);
	*l = (struct layer_list){0};
}

/* Marks a layer and all below it. What is named as a parent but does not exist is remembered in `missing`. */
static int mark_down(struct scan *all, const char *id, struct strlist *missing, struct cordon_error *err)
{
	while (*id) {
		struct scanned *l = scan_find(all, id);
		if (!l)
			return strlist_has(missing, id) ? 0 : strlist_add(missing, id, err);
		if (l->marked)
			return 0;
		l->marked = true;
		if (*l->layer.over && strcmp(l->layer.over, LAYER_OVER_SEED) != 0 && mark_down(all, l->layer.over, missing, err) < 0)
			return -1;
		id = l->layer.parent;
	}
	return 0;
}

static int mark_history(struct scan *all, const char *sandbox, const char *head, struct strlist *missing, struct cordon_error *err)
{
	if (mark_down(all, head, missing, err) < 0)
		return -1;
	for (size_t i = 0; i < all->count; i++) {
		const struct scanned *l = &all->items[i];
		bool its_own = *sandbox && strcmp(l->layer.sandbox, sandbox) == 0;
		if (its_own && (l->state == LAYER_SEALED || l->state == LAYER_DAMAGED) && mark_down(all, l->layer.id, missing, err) < 0)
			return -1;
	}
	return 0;
}

/* Moves what is marked out of the scan. An open layer under a sealed one (or as a head) has lost its record. */
static int take_marked(struct scan *all, const struct strlist *missing, struct layer_list *out, struct cordon_error *err)
{
	size_t count = missing->count;
	for (size_t i = 0; i < all->count; i++)
		count += all->items[i].marked;
	out->items = calloc(count ? count : 1, sizeof(*out->items));
	if (!out->items)
		return err_sys(err, "cannot list the history");
	for (size_t i = 0; i < all->count; i++) {
		struct scanned *l = &all->items[i];
		if (!l->marked)
			continue;
		out->items[out->count++] = (struct layer_item){.layer = l->layer, .damaged = l->state != LAYER_SEALED};
		l->layer = (struct layer){0};
	}
	for (size_t i = 0; i < missing->count; i++) {
		struct layer_item *item = &out->items[out->count++];
		item->damaged = true;
		snprintf(item->layer.id, sizeof(item->layer.id), "%s", missing->items[i]);
	}
	return 0;
}

/* ---- oldest first ------------------------------------------------------------------------------------------------------------- */

/* By time of making; but whatever the clock did, a parent comes before its children: its time counts as at most theirs. */
struct aged {
	struct layer_item item;
	int64_t time;
	size_t depth;
	bool known;
};

static int by_aged_id(const void *a, const void *b)
{
	return strcmp(((const struct aged *)a)->item.layer.id, ((const struct aged *)b)->item.layer.id);
}

static int by_age(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return by_aged_id(a, b);
}

static struct aged *find_aged(struct aged *items, size_t count, const char *id)
{
	struct aged key = {0};
	snprintf(key.item.layer.id, sizeof(key.item.layer.id), "%s", id);
	return *id ? bsearch(&key, items, count, sizeof(*items), by_aged_id) : NULL;
}

/* Down to an ancestor whose age is known, then up again; `path` has room for all of them. */
static void settle_age(struct aged *items, size_t count, struct aged *start, struct aged **path)
{
	size_t n = 0;
	struct aged *at = start;
	while (at && !at->known && n < count) {
		path[n++] = at;
		at = find_aged(items, count, at->item.layer.parent);
	}
	while (n > 0) {
		struct aged *child = path[--n];
		child->time = child->item.layer.created_ms;
		if (at && at->known) {
			child->time = MAX(child->time, at->time);
			child->depth = at->depth + 1;
		}
		child->known = true;
		at = child;
	}
}

static int sort_by_age(struct layer_list *l, struct cordon_error *err)
{
	if (l->count == 0)
		return 0;
	_cleanup_free_ struct aged *items = calloc(l->count, sizeof(*items));
	_cleanup_free_ struct aged **path = calloc(l->count, sizeof(*path));
	if (!items || !path)
		return err_sys(err, "cannot sort the history");
	for (size_t i = 0; i < l->count; i++)
		items[i].item = l->items[i];
	qsort(items, l->count, sizeof(*items), by_aged_id);
	for (size_t i = 0; i < l->count; i++)
		settle_age(items, l->count, &items[i], path);
	qsort(items, l->count, sizeof(*items), by_age);
	for (size_t i = 0; i < l->count; i++)
		l->items[i] = items[i].item;
	return 0;
}

int layer_history(struct store *s, const char *sandbox, const char *head, struct layer_list *out, struct cordon_error *err)
{
	_cleanup_scan_ struct scan all = {0};
	struct strlist missing = {0};
	*out = (struct layer_list){0};
	int r = store_scan(s, &all, err);
	if (r == 0)
		r = mark_history(&all, sandbox, head, &missing, err);
	if (r == 0)
		r = take_marked(&all, &missing, out, err);
	if (r == 0)
		r = sort_by_age(out, err);
	strlist_free(&missing);
	if (r < 0)
		layer_list_free(out);
	return r;
}
