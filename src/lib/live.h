/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox that stays on disk, opened and locked by this process: its record, its layers, and, while it is live, the running sandbox.
 *
 * Theory of operation. A live sandbox writes into one open layer. While nothing else runs in it, an exec has that layer for itself: when it ends, the layer is
 * sealed (kept: the head moves onto it; rolled back: it stays beside the tree as a failed one), and a new, empty layer is mounted in its place. An exec that
 * changed nothing leaves the open layer empty, and nothing has to be done. While services run, their mounts cannot be exchanged: what the open layer holds is
 * copied into a sealed layer when it has to be kept, and files are put back in place when it has to be undone (live_place.c).
 */
#ifndef CORDON_LIB_LIVE_H
#define CORDON_LIB_LIVE_H

#include "backend/backend.h"
#include "layers/box.h"
#include "layers/commit.h"
#include "layers/diff.h"
#include "layers/full.h"
#include "layers/index.h"
#include "layers/view.h"
#include "lib/context.h"

struct live {
	struct store store;
	struct box box;
	int lock;                        /* held while this is open */
	int seed;                        /* the workspace's directory on the host, -1: none */
	enum commit_recovered recovered; /* what became of a commit that was interrupted in the workspace */
	int64_t birth_ns;                /* when the open layer was made, CLOCK_REALTIME */
	struct cordon *ctx;              /* while it runs */
	const struct backend *backend;
	struct cordon_policy *policy;
	struct backend_sandbox *state; /* the running sandbox, NULL: stopped */
	struct cordon_mount *mounts;   /* parsed from the record */
	struct cordon_sandbox_options options;
	char user[32];                                                     /* "UID:GID" for it, or empty */
	unsigned running;                                                  /* execs inside, services included */
	uint64_t used;                                                     /* bytes in the layers of its history */
	char next[LAYER_ID_LEN + 1];                                       /* an empty layer, made while there was time; "": none */
	char retired[LAYER_ID_LEN + 1];                                    /* one that is yet to be removed; "": none */
	char replaced[LAYER_ID_LEN + 1], replaced_lower[LAYER_ID_LEN + 1]; /* by live_remount() */
	struct tree_index last[TREE_COUNT];                                /* what the open layer held at the last checkpoint … */
	char last_layer[LAYER_ID_LEN + 1];                                 /* … and the copy that was made then; "": it was empty */
	bool sheds; /* what of it is unchanged since and not in that copy was put back, and is as it is below the open layer */
	/* of one whose trees are full copies (box.copy) */
	struct full_size copied;        /* when it was started */
	char present[LAYER_ID_LEN + 1]; /* a layer that was taken from the copy to compare it, "": none */
	bool lost; /* the copy is neither the old state nor the new one, or layers are not mounted: the sandbox has to be started anew */
};

/* Makes a record. b: as filled in by the caller; id and times are set. */
int live_create(const char *home, struct box *b, struct cordon_error *err);

/* Removes a record that nobody has open. why: "remove", "expire". */
int live_remove(struct store *s, const char *id, const char *why, struct cordon_error *err);

/* Finds it and takes its lock; `who` is what others are told who want it. Recovers what a killed process left. */
int live_open(struct live *l, const char *home, const char *what, const char *who, bool wait, struct cordon_error *err);
/* The sandbox must have been stopped. */
void live_close(struct live *l);

/* commit_request.forbids by the files.* keys of a policy (struct cordon_policy). */
const char *live_forbids(const void *policy, const char *path);
/* The policy that the record asks for: profile dev and the record's own settings. To be released with cordon_policy_free(). */
struct cordon_policy *live_policy(const struct box *b, struct cordon_error *err);

/* Starts it with the layers of its head. state: filled in by the backend, must stay until live_stop(). */
int live_start(struct live *l, struct cordon *ctx, const struct backend *backend, struct cordon_policy *policy,
               struct backend_sandbox *state, struct cordon_error *err);
/* After the last process is gone and the backend was told to stop: what the open layer holds is kept. */
int live_stop(struct live *l, struct cordon_error *err);

/* ---- transactions ------------------------------------------------------------------------------------------------------------ */

enum live_outcome { OUTCOME_NONE, OUTCOME_COMMITTED, OUTCOME_KEPT, OUTCOME_ROLLED_BACK };
extern const char *const live_outcome_names[]; /* "none", … */

struct live_tx {
	bool own;                                               /* a transaction of its own; false: --parallel, services */
	char before[LAYER_ID_LEN + 1], after[LAYER_ID_LEN + 1]; /* "": the seed */
	enum live_outcome outcome;
	char layer[LAYER_ID_LEN + 1]; /* that holds what it did, kept or not; "": none */
	struct changes changes;       /* in the workspace */
	struct strlist services;      /* that were running and saw files put back */
};
void live_tx_free(struct live_tx *tx);

int live_exec_begin(struct live *l, bool own, struct live_tx *tx, struct cordon_error *err);
/* keep: by the policy's transaction settings. meta: command, exit code; kind is set here. */
int live_exec_end(struct live *l, struct live_tx *tx, bool failed, bool keep, const char *command, int exit_code, struct cordon_error *err);

/* The same when that has failed beside services and the sandbox was stopped for it: what is kept or undone is certain then. */
int live_exec_end_stopped(struct live *l, struct live_tx *tx, bool failed, bool keep, const char *command, int exit_code,
                          struct cordon_error *err);

/*
 * The same when both have failed, for want of room as a rule: everything is as it was before the exec, and nothing of what it did is kept. Beside services
 * files are put back in place. 0 also if the record could not be saved: what it says then is what counts after a crash anyway.
 */
int live_exec_undo(struct live *l, struct live_tx *tx, struct cordon_error *err);

/* ---- the layer tree ---------------------------------------------------------------------------------------------------------- */

/* Names the present state; id gets the layer. */
int live_snapshot(struct live *l, const char *name, const char *note, char id[LAYER_ID_LEN + 1], struct cordon_error *err);
/* Moves the head. Nothing of the history goes away. */
int live_restore(struct live *l, const char *layer, struct cordon_error *err);
/* A new sandbox on the same layers. layer NULL: the present state. */
int live_fork(struct live *l, const char *layer, const char *name, char id[LAYER_ID_LEN + 1], struct cordon_error *err);

int live_tx_begin(struct live *l, struct cordon_error *err);
int live_tx_commit(struct live *l, struct cordon_error *err);
int live_tx_rollback(struct live *l, struct cordon_error *err);

/* What two states differ in; a, b: layer ids, "" the seed, NULL for b: the present state. The views are to be closed by the caller. */
int live_compare(struct live *l, const char *a, const char *b, struct view *before, struct view *after, struct changes *changes,
                 struct cordon_error *err);

struct live_commit {
	unsigned flags;           /* enum commit_flags */
	const char *const *paths; /* NULL: all */
	const char *const *force;
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *user;
};
/* As commit_run(): 0, 1 refused, -1. */
int live_commit(struct live *l, const struct live_commit *c, struct commit_report *report, struct cordon_error *err);
/* All changes since the seed go away: the head moves to the seed. */
int live_discard(struct live *l, struct cordon_error *err);

/* ---- for the files of this module -------------------------------------------------------------------------------------------- */

/* live_start.c: calls the backend with the stacks: `below`, `under_open` on it if given, and the open layer on top. */
int live_mount(struct live *l, const struct cordon_policy *policy, const char *below, const char *under_open, bool start,
               struct cordon_error *err);
/* "UID[:GID]" into a record; NULL: nothing. */
int live_parse_user(const char *text, struct box *b, struct cordon_error *err);
/* live_place.c: the same when files were put back in it: a copy without those is sealed, if there is anything else, and the layer goes. */
int live_turn_over_shed(struct live *l, bool keep, struct layer *meta, struct changes *changes, struct cordon_error *err);
/* Seals the open layer and mounts an empty one; keep: on top of it, else in its place. Nothing may run inside. */
int live_turn_over(struct live *l, bool keep, struct layer *meta, struct changes *changes, struct cordon_error *err);
bool live_open_is_empty(const struct live *l);
/* While it runs: its root is a third tree. That is mounted when it is started, and never exchanged: it is ended instead, and started anew. */
bool live_layered(const struct live *l);
/* An empty open layer on the head, in place of what is mounted. Nothing may run inside. */
int live_remount(struct live *l, struct cordon_error *err);
/* When the record says so, what was mounted before goes; or, when it could not be written, comes back (the head is what it was, again). */
void live_remount_keep(struct live *l);
void live_remount_back(struct live *l);
/* What the layer (open or sealed) changes on the head, in the workspace; and what the host's files were, for a later commit. */
int live_describe(struct live *l, const char *layer, int64_t birth_ns, struct changes *out, struct cordon_error *err);
int64_t live_clock_ns(void);
/* Fills in the rest of the metadata and seals. */
int live_seal(struct live *l, struct layer *meta, const char *id, const struct changes *changes, struct cordon_error *err);
/* The blocks that a tree of a layer holds on disk, of hard links its share; 0 if that cannot be told. */
uint64_t live_tree_bytes(struct live *l, const char *layer, enum layer_tree tree);
/* While a command runs: what the end of its transaction, or going back, will need. */
void live_prepare(struct live *l);
/* A new open layer, not mounted. */
int live_begin_layer(struct live *l, char id[LAYER_ID_LEN + 1], struct cordon_error *err);

/* live_place.c: while something runs inside. A copy of the open layer becomes a sealed one; if nothing changed since the last, meta->id is "". */
int live_checkpoint(struct live *l, struct layer *meta, bool move_head, struct changes *changes, struct cordon_error *err);
/* Files are put back until the trees show what `layer` shows, but for those that match `spare` (NULL: none), and the head moves there. */
int live_put_back(struct live *l, const char *layer, const struct strlist *spare, struct cordon_error *err);
/* transaction.preserve: what a rolled-back exec leaves after all, carried over into a layer that is not mounted yet. */
int live_preserve(struct live *l, const char *from, const char *to, const struct changes *changes, struct cordon_error *err);
void live_forget_checkpoint(struct live *l);
/* As live_describe(), also where a command has closed what it wrote to its owner. */
int live_describe_closed(struct live *l, const char *layer, int64_t birth_ns, struct changes *out, struct cordon_error *err);
/* Whether mode and attributes of the trees' tops are those that the open layer began with: an empty one may differ in nothing else. */
bool live_tops_are_fresh(const struct live *l);

/*
 * live_copy.c: full copies, where overlayfs cannot write. CORDON_LAYERS=overlay or =copy in the environment forces one or the other; else a copy is made when
 * mounting layers was refused, and the record says so from then on.
 */
enum live_choice { CHOICE_AUTO, CHOICE_OVERLAY, CHOICE_COPY };
int live_copy_choice(enum live_choice *out, struct cordon_error *err);
/* Whether the open layer has a copy. */
bool live_copies(const struct live *l);
bool live_copy_is_empty(const struct live *l);
/* Starts with an empty copy, by `start`, and fills it. */
typedef int (*live_starter)(struct live *l, const struct cordon_policy *policy, struct cordon_error *err);
int live_copy_run(struct live *l, live_starter start, struct cordon_error *err);
/* Why it is one; why->code 0: because it was asked for. */
int live_copy_note(struct live *l, const struct cordon_error *why, struct cordon_error *err);
/* As the functions without "copy", for the open layer's copy. live_copy_put_back() does not freeze, and leaves the head to the caller. */
int live_copy_turn_over(struct live *l, bool keep, struct layer *meta, struct changes *changes, struct cordon_error *err);
int live_copy_checkpoint(struct live *l, struct layer *meta, bool move_head, struct changes *changes, struct cordon_error *err);
int live_copy_put_back(struct live *l, const char *layer, const struct strlist *spare, struct cordon_error *err);
/* Takes l->present from the copy, which may be in use. */
int live_copy_present(struct live *l, struct cordon_error *err);
void live_copy_forget_present(struct live *l);
/* What a tree shows now, whether it is layered or copied. */
int live_view(const struct live *l, enum layer_tree tree, struct view *out, struct cordon_error *err);

/*
 * One that does not stay, and has no record: its workspace as a copy, in an open layer that goes away with it. options must stay valid during the call, policy and state
 * until live_end_scratch(). why: of the attempt with layers, code 0: none was made.
 */
struct live *live_start_scratch(struct cordon *ctx, const struct backend *backend, struct cordon_policy *policy,
                                const struct cordon_sandbox_options *options, struct backend_sandbox *state, const struct cordon_error *why,
                                struct cordon_error *err);
/* Views of the seed and of what the sandbox has made of it. */
int live_scratch_views(struct live *l, struct view *before, struct view *after, struct cordon_error *err);
/* Nothing may run inside any more. */
void live_end_scratch(struct live *l);

#endif
