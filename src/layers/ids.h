/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers have the host's ids, a tree that a sandbox uses those of the sandbox's range: `disk` on disk is the user inside, which the tree shows as `shown`;
 * other ids of the first 65,536 lie relative to `base`, but for `inside` (the user's own number), which has changed places with `disk`.
 */
#ifndef CORDON_LAYERS_IDS_H
#define CORDON_LAYERS_IDS_H

#include <stdbool.h>

#include "layers/filemeta.h"

struct layer_ids {
	bool mapped; /* false: ids are the same, and files of others cannot be made */
	uid_t disk_uid, shown_uid, inside_uid, base_uid;
	gid_t disk_gid, shown_gid, inside_gid, base_gid;
	bool nobodys; /* ids that have no place in the range are shown as the overflow id's, and not as the user's own */
};

/* From the ids on disk to those that the tree shows, and back. */
void ids_show(const struct layer_ids *ids, struct file_meta *m);
void ids_store(const struct layer_ids *ids, struct file_meta *m);

#endif
