/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a commit share; nobody else needs it. The theory is in commit.h. */
#ifndef CORDON_LAYERS_COMMIT_PARTS_H
#define CORDON_LAYERS_COMMIT_PARTS_H

#include "base/buf.h"
#include "layers/commit.h"
#include "layers/filemeta.h"

#define COMMIT_DONE ".done"
#define COMMIT_PART ".part"
#define STAGE_NAME_MAX 64
#define MANIFEST "manifest"
#define STAGES "stages"
#define ROOM "room"
#define MANIFEST_MAX ((size_t)2 << 30)

/* ---- the key: commit_key.c ---------------------------------------------------------------------------------------------------- */

/* What proves that a manifest is ours: a file in $CORDON_HOME. */
struct commit_key {
	unsigned char bytes[32];
};
/* make: if there is none. Else 1: there is none, so nothing can be ours. */
int commit_key_load(const char *home, bool make, struct commit_key *out, struct cordon_error *err);

/* ---- stages: commit_stage.c --------------------------------------------------------------------------------------------------- */

/* A directory of staged files, at the top of one file system. The first is DIR's own. */
struct stage {
	char *top;             /* path of the directory it is in, below DIR; "": DIR */
	int64_t before, after; /* that directory's modification time before the commit, and after it */
	int top_fd, fd, files; /* that directory, the stage, and its new/; -1: not open */
	uint64_t mount, dev;   /* of that directory; for the plan */
};

struct stage_list {
	struct stage *items;
	size_t count;
	const struct commit_key *key;
};
void stages_free(struct stage_list *l);
/* Takes the path over. NULL without memory. */
struct stage *stages_add(struct stage_list *l, char *top, int64_t before);

void stage_name(char out[STAGE_NAME_MAX], int64_t mtime, const char *suffix);
/* Understands ".cordon-commit.MTIME" and ".cordon-commit.MTIME.done"; false for anything else. */
bool stage_name_parse(const char *name, int64_t *mtime, bool *done);
/* True for a name that only stages may have. */
bool stage_name_reserved(const char *name, size_t len);

/* Makes the directories of all stages. What was made when it fails is left for stages_undo(). */
int stages_create(int dir, struct stage_list *l, struct cordon_error *err);
/*
 * Removes DIR's stage, called `name`, and its parts; each directory gets the time back that it had before or should have after the
 * commit.
 */
int stages_discard(int dir, const char *name, const struct stage_list *l, bool done, struct cordon_error *err);
/* An existing stage, or part of one. Refuses what is not ours. */
int stage_open(int top_fd, const char *name, struct cordon_error *err);
/* Opens top_fd, fd and files of all; a part that is gone already stays -1. */
int stages_open(int dir, const char *name, struct stage_list *l, struct cordon_error *err);

/* A directory whose stage was removed, but whose time was not put back any more. 1: it has been now; *done: what the stage was. */
int stage_settle(int top_fd, bool *done, struct cordon_error *err);
bool stage_unsettled(int top_fd);

/* ---- the manifest: commit_manifest.c ------------------------------------------------------------------------------------------ */

enum step_op {
	STEP_UNLINK, /* remove what is no directory; done if there is nothing, or a directory by now */
	STEP_RMDIR,  /* remove an empty directory; done if there is none; left alone if it is not empty: the host has put something in */
	STEP_TREE,   /* remove a directory with all that is in it (forced) */
	STEP_MOVE,   /* a new file or directory to its place; done if it is no longer in the stage */
	STEP_META,   /* mode, owner, times and attributes of what is there */
	STEP_TOUCH,  /* mode and modification time of a directory that was written to, as they should be */
	STEP_OP_COUNT
};

struct step {
	enum step_op op;
	char *path;
	size_t stage, number; /* STEP_MOVE */
	mode_t mode;          /* STEP_TOUCH */
	int64_t mtime;
	const char *meta; /* STEP_META: for file_meta_parse() */
};

struct manifest {
	char *data; /* the text; lines end in NUL once it is parsed */
	struct stage_list stages;
	char **lines; /* of the steps */
	size_t count;
};
void manifest_free(struct manifest *m);
#define _cleanup_manifest_ __attribute__((cleanup(manifest_free)))

/* A manifest is built line by line: first the stages, then steps, then the end. */
void manifest_begin(struct buf *out, const struct stage_list *l);
void manifest_step(struct buf *out, enum step_op op, const char *path);
void manifest_move(struct buf *out, size_t stage, size_t number, const char *path);
void manifest_meta(struct buf *out, const char *path, const struct file_meta *meta);
void manifest_touch(struct buf *out, const char *path, mode_t mode, int64_t mtime);
void manifest_end(struct buf *out, const struct commit_key *key);

/* From a file in a stage. 1: there is none. CORDON_ERR_DENIED: it is not ours, or damaged. */
int manifest_load(int stage, const char *name, const struct commit_key *key, struct manifest *out, struct cordon_error *err);
/* The path is the caller's to free. */
int manifest_get(const struct manifest *m, size_t i, struct step *out, struct cordon_error *err);

/* ---- getting it to the disk: commit_sync.c ------------------------------------------------------------------------------------- */

enum sync_way {
	SYNC_EACH,    /* fsync(2) for every file and directory */
	SYNC_JOURNAL, /* data, and one commit of the journal */
	SYNC_WHOLE,   /* syncfs(2) */
};
/* For so many files or steps on the file system of fd. */
enum sync_way sync_way(int fd, size_t count);

struct plan;
/* What was staged. On return all of it is on the disk, or will be with the next fsync(2) in DIR's stage. */
int sync_staged(const struct plan *p, struct cordon_error *err);
/* What was applied: will be on the disk with the next fsync(2) of DIR, unless *each: then every step is still to be synced. */
int sync_applied(const struct manifest *m, bool *each, struct cordon_error *err);
int sync_whole(const struct manifest *m, struct cordon_error *err);

/* ---- room for the steps: commit_room.c ---------------------------------------------------------------------------------------- */

/* In each stage, a file that holds blocks for what its steps may need. */
int plan_take_room(const struct plan *p, struct cordon_error *err);
void stages_give_room(const struct stage_list *l);

/* ---- the rest ----------------------------------------------------------------------------------------------------------------- */

/* Does everything a manifest says, and syncs it as sync_applied() says: commit_apply.c. */
int commit_apply(int dir, const struct manifest *m, struct cordon_error *err);

/* Waits for the lock on DIR (or not: -1 with errno EWOULDBLOCK). Returns a descriptor of DIR that holds it. */
int commit_lock(int target, bool wait);
/* Recovery, with the lock held. */
int commit_recover_locked(int dir, const char *path, const struct commit_key *key, enum commit_recovered *what, struct cordon_error *err);
/* From the manifest on: apply, mark as done, clean up. `name` is DIR's stage. */
int commit_finish(int dir, const char *name, const struct commit_key *key, struct cordon_error *err);

/* ---- the plan: commit_plan.c, commit_check.c ---------------------------------------------------------------------------------- */

enum action {
	ACT_NOTHING, /* the host has it already */
	ACT_DELETE,
	ACT_WRITE, /* stage and move */
	ACT_META,  /* in place */
};

struct plan_item {
	const char *path;
	const struct change *change; /* NULL: a directory that a forced path needs */
	char *own_path;              /* path, if it is ours to free */
	enum action action;
	bool forced;
	bool tree;          /* a directory of the host's is in the way, and what is in it goes too */
	size_t layer;       /* of the after view */
	mode_t after, host; /* st_mode, 0: absent */
	nlink_t host_links;
	struct identity now;
	size_t stage;
	uint64_t bytes;
};

struct autorun;
struct plan {
	const struct commit_request *r;
	int dir;
	struct plan_item *items; /* sorted by path */
	size_t count, size;
	struct stage_list stages;
	struct commit_report *report;
	struct autorun *autorun; /* NULL until somebody asks */
};
void commit_plan_free(struct plan *p);
#define _cleanup_plan_ __attribute__((cleanup(commit_plan_free)))

/* Fills in items and problems, and the stages that are needed. */
int plan_make(struct plan *p, struct cordon_error *err);
/* Looks again at what the host has: a difference becomes a problem. */
int plan_recheck(struct plan *p, struct cordon_error *err);
struct plan_item *plan_find(const struct plan *p, const char *path, size_t len);

/* Stages everything: commit_write.c. */
int plan_stage(struct plan *p, struct cordon_error *err);
/* The manifest's text, and each stage's `after`. */
int plan_manifest(struct plan *p, struct buf *out, struct cordon_error *err);

/* Whether this change may be made, and what is to be done: commit_check.c. Problems go to the report. */
int check_item(struct plan *p, struct plan_item *item, struct cordon_error *err);
/* After all have been checked: a directory that goes must hold nothing but what goes too. */
int check_emptied(struct plan *p, struct plan_item *item, struct cordon_error *err);
int report_problem(struct commit_report *report, enum commit_refusal why, const char *path, const char *text, struct cordon_error *err);

/* ---- what runs by itself: commit_autorun*.c, see autorun_parts.h ---------------------------------------------------------------- */

/*
 * What commit_is_autorun() cannot see by the name: what git takes for a repository on the host as it will be, and what the host's own
 * configuration leads to. *what is NULL if there is nothing. autorun_look() is for all items of a plan, once they are selected; what it
 * made is to be freed in any case.
 */
int autorun_look(const struct plan *p, struct autorun **out, struct cordon_error *err);
void autorun_free(struct autorun *a);
int autorun_on_host(struct autorun *a, const char *path, mode_t mode, const char **what, struct cordon_error *err);
/* And what only the file itself tells. */
int autorun_of_contents(const struct view *after, const char *path, const struct view_entry *e, const char **what,
                        struct cordon_error *err);

#endif
