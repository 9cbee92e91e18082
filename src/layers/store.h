/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer tree on disk.
 *
 *   $CORDON_HOME/layers/ID/           one layer: what one exec (or a snapshot) changed
 *           layer                     its metadata, text, one "key value" per line; written last, by rename: a layer without it is open
 *           app/  home/  root/        the trees, in overlayfs' upper format (whiteouts, user.overlay.opaque)
 *           base                      what the changed paths were on the host before (identity.h)
 *           work/app  work/home …     overlayfs' own, while the layer is open
 *           open                      the owner stamp of the process that began it, while the layer is open
 *           flat/app  flat/home …     optional: this layer and all below it in one (squashed); links, not copies
 *   $CORDON_HOME/sandboxes/ID/        one sandbox (box.h)
 *
 * Theory of operation. A layer is written only while it is open; sealing writes the metadata file and nothing in it changes any more
 * (squashing adds flat/, removal renames the directory to ".gone-ID" first). Layers point to their parent, so they form trees; a sandbox is a
 * position in one. Several sandboxes may stand on one layer (fork); a layer that no sandbox needs is garbage. A layer whose metadata cannot be
 * read is damaged: it and what stands on it cannot be used, all else can. Everything that is written here is written to a temporary name, synced, renamed, and the directory synced.
 */
#ifndef CORDON_LAYERS_STORE_H
#define CORDON_LAYERS_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "policy/policy.h"

#define LAYER_ID_LEN 20
#define LAYER_FLATTEN_DEPTH 16 /* more layers than this below the open one are squashed */

#define LAYER_OVER_SEED "00000000000000000000" /* layer.over where that is the seed itself */

/* Every layer has the first two; the third those of sandboxes with root: layered, whatever lies below it being an image. */
enum layer_tree { TREE_APP, TREE_HOME, TREE_COUNT, TREE_ROOT = TREE_COUNT, TREE_ALL };
extern const char *const layer_tree_names[TREE_ALL]; /* "app", "home", "root" */

struct store {
	char *home;    /* $CORDON_HOME */
	int layers_fd; /* $CORDON_HOME/layers */
	int boxes_fd;  /* $CORDON_HOME/sandboxes */
};

/* Makes the directories if they are missing (0700), and refuses those that others can write. */
int store_open(struct store *s, const char *home, struct cordon_error *err);
void store_close(struct store *s);

enum layer_kind { LAYER_EXEC, LAYER_SNAPSHOT, LAYER_CHECKPOINT, LAYER_FAILED, LAYER_KIND_COUNT };

struct layer {
	char id[LAYER_ID_LEN + 1];
	char parent[LAYER_ID_LEN + 1]; /* "": stands on the seed */
	char over[LAYER_ID_LEN +
	          1]; /* a copy of all that a live sandbox had written on this one: it is mounted on that; "": on its parent */
	char sandbox[LAYER_ID_LEN + 1]; /* in whose history it was made */
	enum layer_kind kind;
	int64_t created_ms; /* since the epoch */
	int exit_code;      /* of the exec; -1: none */
	uint64_t changes, bytes;
	uint64_t disk;               /* what it takes there: blocks, of hard links its share */
	char *name, *note, *command; /* NULL: none; owned */
};
void layer_free(struct layer *l);
#define _cleanup_layer_ __attribute__((cleanup(layer_free)))

/*
 * A new open layer: directories app/ and home/, and for overlayfs work/app and work/home. owner: whose the trees are on disk (their mode is
 * 0755). The open layer carries the stamp of this process (sandbox/owner.h) in a file "open", so that what a dead process left is told apart:
 * this process must live on until the layer is sealed, or dropped, or saved as the open layer of a box.
 */
int layer_begin(struct store *s, uid_t owner, gid_t group, char id[LAYER_ID_LEN + 1], struct cordon_error *err);
/* Adds the third tree, root/, to an open layer. As root it belongs to root, as the top of an image does. */
int layer_add_root(struct store *s, const char *id, struct cordon_error *err);
/*
 * Writes l's metadata; l->id names an open layer that is not mounted any more. Removes work/ and "open". On the disk when
 * it returns, file data too. After a failure the layer is open as before.
 */
int layer_seal(struct store *s, const struct layer *l, struct cordon_error *err);
/* Changes name, note and kind of a sealed layer to those of l; all else stays as it was. */
int layer_update(struct store *s, const struct layer *l, struct cordon_error *err);
/* Removes it, sealed or open. Quick: the rename is what counts, the tree is removed afterwards (also by the next collection). */
int layer_drop(struct store *s, const char *id, struct cordon_error *err);
/* The two halves of that. */
int layer_retire(struct store *s, const char *id, struct cordon_error *err);
void layer_remove_retired(struct store *s, const char *id);

/*
 * CORDON_ERR_NOT_FOUND if there is none, or if it is still open; CORDON_ERR_INPUT with "damaged" in the message if it cannot be read, or with
 * "version" if another release of cordon wrote it. (layer_history() counts both as damaged.)
 */
int layer_read(struct store *s, const char *id, struct layer *out, struct cordon_error *err);

/*
 * The directories to mount, topmost first, relative to layers_fd, for one tree: "ID/app", "ID2/app", …, and "IDn/flat/app" as the last one where
 * that layer was squashed. Fails if a layer on the way is damaged or missing. `head` "" gives an empty list. Layers without TREE_ROOT are left out of its list.
 */
int layer_chain(struct store *s, const char *head, enum layer_tree tree, struct strlist *out, struct cordon_error *err);
/* The ids from head down to the oldest. */
int layer_ancestors(struct store *s, const char *head, struct strlist *out, struct cordon_error *err);

/* Makes flat/ of a sealed layer unless it is there. Safe against kill -9 at any moment, and against another process doing the same. */
int layer_flatten(struct store *s, const char *id, struct cordon_error *err);

/* Every layer in whose history `sandbox` is, and their ancestors, oldest first; damaged ones are listed with `damaged` set. */
struct layer_list {
	struct layer_item {
		struct layer layer;
		bool damaged;
	} * items;
	size_t count;
};
int layer_history(struct store *s, const char *sandbox, const char *head, struct layer_list *out, struct cordon_error *err);
void layer_list_free(struct layer_list *l);

/*
 * Removes what no sandbox needs: layers that are not in the history of an existing sandbox and not below its head, failed ones older than a
 * day without a name, open ones whose process is dead and which are not the open layer of a box, ".gone-*", and temporary names. Returns how
 * many layers, or -1. Where a record that is needed is damaged, all sealed layers stay.
 */
int store_collect(struct store *s, int64_t now_ms, struct cordon_error *err);

#endif
