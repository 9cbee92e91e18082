/* SPDX-License-Identifier: Apache-2.0 */
/* How much a sandbox holds, for `ls` and `info`. */
#ifndef CORDON_CMD_SUMS_H
#define CORDON_CMD_SUMS_H

#include "cmd/tree.h"
#include "layers/store_parts.h"

struct sums {
	uint64_t layers, changes, bytes; /* along the line from the head to the seed, layer by layer */
	uint64_t snapshots;              /* all that `restore` can go to, also beside that line */
	uint64_t differ, differ_bytes;   /* what `diff` lists and `commit` would write */
	bool compared, damaged;          /* whether these two are known; a layer cannot be read */
};

/* All but what `differ` needs. The scan's marks are used. */
struct sums sum_up(struct store *s, struct scan *layers, const struct box *b);
/* The rest: what stands in the directory and what the sandbox shows are compared, now. */
int sum_differences(struct sums *sums, struct live *l, struct cordon_error *err);

#endif
