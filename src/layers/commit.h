/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commit: a sandbox's changes into the host directory it was seeded from, so that after kill -9 or power loss at any instant, and
 * recovery, the directory is exactly the old tree or exactly the new one. Readers may see a mixture while it runs.
 *
 *   DIR/.cordon-commit.MTIME/      MTIME: DIR's own modification time, to be put back (nanoseconds)
 *           new/0, new/1 …         the new files, complete with mode, owner, times, attributes, and the new directories, empty; synced
 *           stages                 the parts on other file systems, if there are any; written before the first of them is made
 *           room                   blocks of the disk, for what the steps may need
 *           manifest               what to do, in order, synced, written by rename: from here on it will be finished, before that undone
 *   DIR/.cordon-commit.MTIME.done/ the same, renamed when all is done: only its removal is left. MTIME is DIR's new time by now
 *   DIR/mnt/.cordon-commit.MTIME.part/   files for another file system, at the top of it (a mount point or subvolume below DIR)
 *
 * Order: stage and sync; look once more whether the host has changed; take room; manifest; give the room back; removals, deepest first; new directories and files, by
 * rename; metadata that changed in place; modes and times of directories, deepest first; sync; done; remove the stage; put back DIR's
 * time (or the sandbox's, if names came or went directly in DIR). Each step of a manifest can be repeated: a new file that is no longer
 * under new/ has been moved, a deletion of what is gone is done. Every step goes through directory descriptors from DIR down and follows
 * no link, so that whoever else writes to DIR cannot lead it elsewhere. A manifest does what it says with our rights, and a directory may come from
 * anywhere, an archive or a repository: it is acted upon only if it was written by us, which a code in its last line proves. What is not
 * ours is left alone. A lock (flock on DIR) keeps two commits apart.
 *
 * A stage is a directory in the workspace, so a sandbox that starts while a commit is under way sees it. It is never a change: names that
 * begin with ".cordon-commit." are refused wherever they are, or a sandbox could plant a manifest in a directory that is itself some
 * other sandbox's workspace.
 *
 * What is kept: contents, holes, modes, owners (of an ordinary user: his own), modification times, user attributes, ACLs, hard links
 * between committed files, symbolic links, FIFOs, empty directories. A link that was made inside to a file that did not change becomes a
 * copy. Sockets and devices are no part of a commit.
 */
#ifndef CORDON_LAYERS_COMMIT_H
#define CORDON_LAYERS_COMMIT_H

#include "layers/identity.h"

#define COMMIT_STAGE ".cordon-commit."

enum commit_flags {
	COMMIT_DRY_RUN = 1 << 0,
	COMMIT_AUTORUN = 1 << 1, /* also what runs by itself later: .git/hooks, .git/config, .envrc, .vscode, … */
	COMMIT_FORCE = 1 << 2,   /* also over the host's own changes */
};

struct commit_request {
	const char *home;              /* $CORDON_HOME, which has the key that proves that a stage is ours */
	int target;                    /* the host directory, open */
	const char *target_path;       /* for messages */
	const struct view *before;     /* the seed alone */
	const struct view *after;      /* what the sandbox shows */
	const struct changes *changes; /* between the two */
	/* What the path was when the sandbox first changed it; `known` false: not known, which is a conflict unless the host has nothing there, or what
	 * `before` shows (and that is a copy, not the host's directory itself). */
	struct identity (*expected)(void *arg, const char *path); /* NULL: nothing is known */
	void *arg;
	const char *const
		*paths; /* only these and what is below (and the new directories they are in); NULL: all. Both lists end in NULL */
	const char *const *force; /* paths whose conflicts do not count, and what is below; NULL: none */
	unsigned flags;
	/* Why this path may not be written, whatever is forced; NULL: it may. May be NULL itself. */
	const char *(*forbids)(const void *policy, const char *path);
	const void *policy;
	void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes staged; may be NULL */
	void *user;
};

/* KIND: cannot be done at all, not even forced: a reserved name, what the policy forbids, a mount point, a directory that one may not write to. */
enum commit_refusal { REFUSED_CONFLICT, REFUSED_AUTORUN, REFUSED_KIND };
struct commit_report {
	size_t applied; /* changes made (or that would be), as `diff` lists them */
	size_t times;   /* besides, files of which only the modification time changed: nothing that a list shows */
	struct commit_problem {
		enum commit_refusal why;
		char *path;
		char text[160]; /* "changed on the host", "deleted on the host", … */
	} * problems;           /* any: nothing was applied */
	size_t problem_count;
	struct strlist executables; /* new files with an x bit: worth a remark */
	struct identities *written; /* what the committed paths are on the host now; owned; NULL after a dry run or a refusal */
};
void commit_report_free(struct commit_report *r);

/*
 * 0: applied (or nothing to do, or a dry run without problems), 1: refused, see the report; nothing was changed. -1: failed; the tree is
 * as before, or will be finished by recovery. The report is to be freed in any case. Recovers DIR first if need be.
 */
int commit_run(const struct commit_request *r, struct commit_report *report, struct cordon_error *err);

/*
 * Finishes or undoes what was interrupted in this directory; `what` says which, for a remark. Quick when there is nothing (one readdir of
 * the top). 1: something was done. A commit that is running is left alone. RECOVERED_FOREIGN: there is a stage that is not ours, or damaged; it
 * is left alone, and nothing can be committed here while it is there.
 */
enum commit_recovered { RECOVERED_NOTHING, RECOVERED_UNDONE, RECOVERED_FINISHED, RECOVERED_FOREIGN };
int commit_recover(int target, const char *target_path, const char *home, enum commit_recovered *what, struct cordon_error *err);

/* A new file that holds so many bytes of the disk, to be removed when they are needed. Fails where the disk is too full for it. */
int room_take(int dir, const char *name, uint64_t bytes, struct cordon_error *err);

/* Whether this change is among those that the paths (NULL: all) stand for: it is one of them, below one, or a new directory above one. */
bool commit_selects(const struct change *c, const char *const *paths);

/* True for paths that some program runs or reads as configuration by itself, and for set-user-id files. *what names the reason. */
bool commit_is_autorun(const char *path, mode_t mode, const char **what);

#endif
