/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deleted names in a layer: a character device 0:0; and where there can be none (on overlayfs itself, on some FUSE) the other form that overlayfs reads since
 * Linux 6.7: an empty file with the attribute user.overlay.whiteout, in a directory with user.overlay.opaque=x. Such a directory cannot be opaque.
 */
#ifndef CORDON_LAYERS_WHITEOUT_H
#define CORDON_LAYERS_WHITEOUT_H

/* 0, or -1 with errno. The directory must not be opaque: nothing of a lower layer shows there. */
int whiteout_make(int dir, const char *name);
/* Makes a directory opaque; empty files that stood for whiteouts in it would be files then, and go. */
int whiteout_make_opaque(int dir);

#endif
