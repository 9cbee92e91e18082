/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox on disk: $CORDON_HOME/sandboxes/ID/ with
 *
 *   sandbox       what it is, text, one "key value" per line, written by rename
 *   sandbox.soon  a later one that was not waited for: a loss of power may take it, and then `sandbox` counts
 *   lock          whoever changes the sandbox holds an exclusive flock on it; its text says who ("exec PID make test")
 *   committed     what the host's files were right after our own commits (identity.h)
 *   keeper        socket of the process that keeps it alive, while it is live
 *   logs/         output of services and detached execs
 */
#ifndef CORDON_LAYERS_BOX_H
#define CORDON_LAYERS_BOX_H

#include "layers/store.h"

#define BOX_NAME_MAX 63 /* a DNS label */

struct box {
	char id[LAYER_ID_LEN + 1];
	char name[BOX_NAME_MAX + 1]; /* "": none */
	char head[LAYER_ID_LEN + 1]; /* the layer it stands on; "": the seed itself */
	char open[LAYER_ID_LEN + 1]; /* its open layer while it is live; "": none */
	/* what the open layer is mounted on: the head, until checkpoints or a restore beside services move that; "": the seed, or none */
	char lower[LAYER_ID_LEN + 1];
	char *image;                 /* by name; NULL: the host's */
	char *image_id;              /* what it was when the sandbox was made; NULL: the host's */
	char *workspace;             /* the host directory it was seeded from; NULL: none */
	char *copy;                  /* why its trees are full copies (full.h) and no overlays; NULL: they are overlays */
	int64_t created_ms, used_ms; /* used: the last exec began or ended */
	int64_t ttl_ms, idle_ms;     /* 0: for ever */
	uint32_t uid, gid;           /* the user inside; UINT32_MAX: the default */
	struct strlist labels;       /* "k=v" */
	struct strlist env;          /* "K=V" */
	struct strlist policy;       /* "limits.memory=1G": what differs from the profile, in order */
	struct strlist mounts;       /* "HOST:GUEST[:rw]" */
	struct strlist tx;           /* heads at which transactions were begun, outermost first; "-" stands for the seed */
};
void box_free(struct box *b);
#define _cleanup_box_ __attribute__((cleanup(box_free)))

/*
 * Fills in id and created_ms, makes the directory, writes the record. CORDON_ERR_INPUT if the name is malformed or taken; CORDON_ERR_NOT_FOUND if
 * the head is gone (collected after the sandbox that it was taken from was removed).
 */
int box_create(struct store *s, struct box *b, struct cordon_error *err);
/* The record of a box that exists; the caller holds its lock. CORDON_ERR_NOT_FOUND if the box or its head does not exist (any more). */
int box_save(struct store *s, const struct box *b, struct cordon_error *err);
/* The same, but after a loss of power it may be what it was before: for what is undone, where nothing is lost by that. */
int box_save_soon(struct store *s, const struct box *b, struct cordon_error *err);
int box_load(struct store *s, const char *id, struct box *out, struct cordon_error *err);

/* By id, by a unique beginning of one (4 letters at least), or by name. CORDON_ERR_NOT_FOUND names the nearest ones in the hint. */
int box_find(struct store *s, const char *what, struct box *out, struct cordon_error *err);

/* All of them, by age; one that cannot be read is listed with `damaged`. */
struct box_list {
	struct box_item {
		struct box box;
		bool damaged;
	} * items;
	size_t count;
};
int box_list(struct store *s, struct box_list *out, struct cordon_error *err);
void box_list_free(struct box_list *l);

/*
 * Removes the record (by rename first), damaged or not; its layers become garbage, to be collected. Takes the lock itself: CORDON_ERR_BUSY while
 * anybody (the caller included) holds it.
 */
int box_remove(struct store *s, const char *id, struct cordon_error *err);

/*
 * Takes the lock; `who` is what others are told. wait: block. Not waiting and taken: CORDON_ERR_BUSY, the message says by whom. Returns a
 * descriptor that holds it (a forked child holds it, too); CORDON_ERR_NOT_FOUND also if the box was removed while we waited.
 */
int box_lock(struct store *s, const char *id, const char *who, bool wait, struct cordon_error *err);

/* The directory of the box. */
int box_open_dir(struct store *s, const char *id, struct cordon_error *err);

/* [a-z0-9][a-z0-9-]*, no hyphen at the end, at most 63; not of the form of an id. */
int box_check_name(const char *name, struct cordon_error *err);
/* What a layer may be called: [A-Za-z0-9][A-Za-z0-9._-]*, at most 63; neither "head" nor "seed" nor of the form of an id. */
int box_check_layer_name(const char *name, struct cordon_error *err);

/*
 * By id, unique beginning (4 letters at least) or name, among the history of a box. "head" is the head, "seed" gives "". The hint names the nearest.
 * A damaged layer is found, too: whoever uses it is told.
 */
int box_find_layer(struct store *s, const struct box *b, const char *what, char id[LAYER_ID_LEN + 1], struct cordon_error *err);

#endif
