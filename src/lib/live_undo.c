/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last resort of a transaction whose end could not be written. Keeping needs room on the disk, and so does setting aside; taking away needs none.
 */
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/util.h"
#include "lib/live.h"

#define WAIT_STEPS 50 /* of 10 ms */

static uint64_t free_bytes(const struct live *l)
{
	struct statvfs disk;
	return fstatvfs(l->store.layers_fd, &disk) == 0 ? (uint64_t)disk.f_bfree * disk.f_frsize : UINT64_MAX;
}

/* The kernel takes the mounts of a dead sandbox down a moment after the last process is gone, and only that lets go of files which are no more. */
static void await_bytes(const struct live *l, uint64_t wanted)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	for (int i = 0; i < WAIT_STEPS && free_bytes(l) < wanted; i++)
		nanosleep(&pause, NULL);
}

/* While it is stopped, whatever is left of the open layer can go at once. */
static int drop_open(struct live *l, struct cordon_error *err)
{
	char open[sizeof(l->box.open)];
	memcpy(open, l->box.open, sizeof(open));
	memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
	l->box.open[0] = '\0';
	live_forget_checkpoint(l);
	if (!open[0])
		return 0;
	const uint64_t bytes = live_tree_bytes(l, open, TREE_APP) + live_tree_bytes(l, open, TREE_HOME) +
	                       live_tree_bytes(l, open, TREE_ROOT),
		       before = free_bytes(l);
	if (layer_drop(&l->store, open, err) < 0)
		return -1;
	await_bytes(l, before + bytes / 2);
	return 0;
}

int live_exec_undo(struct live *l, struct live_tx *tx, struct cordon_error *err)
{
	int r;
	if (l->running && l->state) {
		r = live_put_back(l, tx->before, &l->policy->transaction.preserve, err);
	} else {
		memcpy(l->box.head, tx->before, sizeof(tx->before)); /* it may have moved before something failed */
		r = l->state ? live_remount(l, err) : drop_open(l, err);
		live_remount_keep(l); /* first: the record may need its room */
		if (r == 0)
			box_save(&l->store, &l->box, NULL);
	}
	if (r < 0)
		return -1;
	memcpy(tx->after, tx->before, sizeof(tx->after));
	tx->outcome = OUTCOME_ROLLED_BACK;
	return 0;
}
