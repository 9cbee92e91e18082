/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts files back in place: makes a mounted tree, which programs are using, show what a stack of layers shows. A file that is still a file is written in place, so
 * that whoever has it open sees it revert; nothing else of the tree is touched.
 */
#ifndef CORDON_LAYERS_PUTBACK_H
#define CORDON_LAYERS_PUTBACK_H

#include "layers/view.h"

/*
 * Layers have the host's ids, the mounted tree those of the sandbox's range: `disk` on disk is the user inside, which the tree shows as `shown`;
 * other ids of the first 65,536 lie relative to `base`, but for `inside` (the user's own number), which has changed places with `disk`.
 */
struct putback_ids {
	bool mapped; /* false: ids are the same, and files of others cannot be made */
	uid_t disk_uid, shown_uid, inside_uid, base_uid;
	gid_t disk_gid, shown_gid, inside_gid, base_gid;
};

/* changes: from what the tree shows now to what it should show. */
int putback(int tree, const struct view *want, const struct changes *changes, const struct putback_ids *ids, struct cordon_error *err);

#endif
