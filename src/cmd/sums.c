/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/sums.h"

#include <string.h>

#include "base/util.h"

/* Down to the seed, or to where somebody was before. */
static void mark_line(const struct scan *layers, const char *id)
{
	for (struct scanned *l; *id && (l = scan_find(layers, id)) && !l->marked; id = l->layer.parent)
		l->marked = true;
}

/* Of the line that is in use, and of those that were left: a restore goes to any of them. */
static uint64_t count_snapshots(struct scan *layers, const struct box *b)
{
	uint64_t n = 0;

	for (size_t i = 0; i < layers->count; i++)
		layers->items[i].marked = false;
	mark_line(layers, b->head);
	for (size_t i = 0; i < layers->count; i++)
		if (layers->items[i].state == LAYER_SEALED && strcmp(layers->items[i].layer.sandbox, b->id) == 0)
			mark_line(layers, layers->items[i].layer.id);
	for (size_t i = 0; i < layers->count; i++)
		n += layers->items[i].marked && layers->items[i].layer.kind == LAYER_SNAPSHOT;
	return n;
}

struct sums sum_up(struct store *s, struct scan *layers, const struct box *b)
{
	struct sums sums = {.snapshots = count_snapshots(layers, b)};
	struct strlist ids = {0};

	sums.damaged = layer_ancestors(s, b->head, &ids, NULL) < 0;
	for (size_t i = 0; i < ids.count; i++) {
		_cleanup_layer_ struct layer l = {0};

		if (layer_read(s, ids.items[i], &l, NULL) < 0) {
			sums.damaged = true;
			continue;
		}
		sums.layers++;
		sums.changes += l.changes;
		sums.bytes += l.bytes;
	}
	strlist_free(&ids);
	return sums;
}

int sum_differences(struct sums *sums, struct live *l, struct cordon_error *err)
{
	_cleanup_view_ struct view before = {0}, after = {0};
	struct changes changes = {0};
	int r = 0;

	if (l->box.head[0] || l->box.open[0])
		r = live_compare(l, "", NULL, &before, &after, &changes, err);
	sums->compared = r == 0;
	sums->differ = changes.count;
	sums->differ_bytes = changes.bytes;
	changes_free(&changes);
	return r;
}
