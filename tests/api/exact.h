/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the property test.
 *
 * Names with a meaning. "host" and "pin…" at the top of the workspace are edited on the host only, while the sandbox runs, and never by a
 * script. "fix…" at the top are directories that stay where they are. "hl…" are names of files with several names: overlayfs splits them
 * when one is written to (or moved, or chmoded) once they lie in a lower layer, which is documented, so scripts touch them only when they
 * are new, and otherwise remove them, or move them together with their directory.
 */
#ifndef CORDON_TESTS_API_EXACT_H
#define CORDON_TESTS_API_EXACT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "check.h"
#include "tree.h"

/* ---- chance ------------------------------------------------------------------------------------------------------------------ */

struct rng {
	uint64_t state;
};
uint32_t below(struct rng *r, uint32_t n); /* 0 … n-1 */
bool chance(struct rng *r, unsigned percent);

/* ---- tree_make.c ------------------------------------------------------------------------------------------------------------- */

/* A name that no other call gives: mostly a plain one, sometimes with newlines, invalid UTF-8, 255 bytes. */
void add_name(struct rng *r, struct buf *out, const char *prefix);
/* A link's target: there, dangling, absolute, upwards. */
void add_target(struct rng *r, struct buf *out);
mode_t file_mode(struct rng *r);
mode_t directory_mode(struct rng *r);

struct owner {
	uid_t uid;
	gid_t gid;
};
/* Fills an empty directory, which gets the owner, with all kinds of files. The same r gives the same tree. As root some belong to others. */
void make_seed_tree(struct rng *r, int dir, struct owner owner);
/* One of the host's own edits, below "host" and to "pin…". True if what is mounted may not show it at once: a name was removed or replaced. */
bool edit_host(struct rng *r, int dir);
void remove_all(int dir, const char *name);

/* ---- exact_script.c ---------------------------------------------------------------------------------------------------------- */

/* Changes for the state that a manifest tells of. */
char *make_script(struct rng *r, const char *manifest_text, bool pause_in_it, int status);

/* ---- exact_world.c ----------------------------------------------------------------------------------------------------------- */

enum { NODES = 64 };

/* A state of the sandbox that can be gone back to. */
struct node {
	int parent;
	char layer[24]; /* "": the seed */
	char *script;   /* what led here from the parent */
	char *manifest; /* as seen inside, without what the host edits */
	bool valid;     /* false: a commit has changed what lies below it */
};

struct world {
	struct cordon *ctx;
	const char *dir;   /* where everything is: seed/, mirror/ */
	const char *tools; /* the directory with the program `inside` */
	uint64_t number;   /* gives the seed tree */
	struct owner owner;
	int seed; /* the host's directory, open */
	struct cordon_sandbox *sandbox;
	char id[21];
	struct service *service;
	struct node nodes[NODES];
	int count, current;
	int mirrored; /* the node that mirror/ shows; -1: none */
	struct rng rng;
	bool failed;
	bool verbose;    /* says what it does */
	char doing[160]; /* for messages */
};

/* What an exec of the script has shown. */
struct run {
	struct ended ended;
	char *before, *results, *after;
	bool stale; /* the host removed or replaced names meanwhile */
};
void run_free(struct run *r);

void world_begin(struct world *w);
void world_end(struct world *w);
void world_reopen(struct world *w);

/* Runs it in a sandbox; script NULL: only to look. */
struct run run_inside(struct world *w, struct cordon_sandbox *s, const char *script);
/* The same on a plain directory with the same state. */
struct run run_outside(struct world *w, const char *script);

enum filter {
	WITHOUT_HOST = 1 << 0, /* what the host edits is left out … */
	ONLY_HOST = 1 << 1,    /* … or all else */
	ONLY_APP = 1 << 2,
	NO_NEW_TIMES = 1 << 3, /* times of this very test are not told apart */
	OWNERS = 1 << 4,       /* ids of the host become ids inside */
	NO_HOLES = 1 << 5,     /* copy-up fills some of them */
	NO_GROUPS = 1 << 6,    /* which names are of one file */
};
/* To be freed. */
char *filtered(const struct world *w, const char *manifest_text, unsigned filters);
/* Says what differs, and that the world has failed. */
bool same(struct world *w, const char *what, const char *want, const char *got);
bool expect(struct world *w, bool good, const char *what, const char *detail);

/* The host's directory, all of it or what the host edits: as the owner, who is the user inside, sees it. */
char *host_manifest(const struct world *w, bool all);
/* As the one who runs this sees it: root sees all. */
char *full_manifest(int app, int home);

#endif
