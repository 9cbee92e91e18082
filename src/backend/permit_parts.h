/* SPDX-License-Identifier: Apache-2.0 */
/* What permit.c (files) and permit_programs.c (programs) share. */
#ifndef CORDON_BACKEND_PERMIT_PARTS_H
#define CORDON_BACKEND_PERMIT_PARTS_H

#include <limits.h>

#include "backend/permit.h"
#include "backend/programs.h"

/* A tree or file of the sandbox's own: what the image does not hold. */
struct place {
	const char *path; /* inside */
	const char *host; /* what is mounted there for reading only; NULL: something else */
	uint32_t access;  /* the most that it can have: LANDLOCK_RWX, LANDLOCK_RW, LANDLOCK_RX */
	uint32_t op;      /* of the plan */
	bool is_file;
	bool image;  /* a directory at the top of the image that is none of the system's: the mount that it lies in has others, too */
	bool denied; /* by files.deny, as a whole */
	bool runs;   /* it holds programs that are listed by name: it keeps the right to execute, and is granted piece by piece */
};

enum mark { MARK_LISTED = 1, MARK_DENIED = 2 };

/* A directory of the host or of the image in which the system's programs lie, or those of a toolchain. */
struct program_root {
	const char *host, *guest; /* the same directory outside and inside */
	struct programs programs;
	uint8_t *marks;                 /* of each program */
	struct place *place;            /* NULL: the image's own */
	const struct image_root *image; /* that host is a path of; NULL: of the host */
};

struct permit {
	struct plan *plan;
	const struct cordon_policy *policy;
	const char *home;
	const struct image_root *image; /* NULL: the host's */
	struct place *places;
	size_t place_count;
	const char *alias;   /* where the workspace is shown as well; NULL: nowhere */
	struct strlist deny; /* patterns of what has to be masked */
	bool listed;         /* process.allow is a list */
	struct program_root *roots;
	size_t root_count;
	struct strlist bins; /* directories of programs, inside */
};

/* Everything in it may be read. */
bool permit_reads_all_of(const struct permit *x, const char *path);

/* Finds the programs that are listed (place.runs) and those that are denied (added to deny). layers_only: only what lies in mounts is of interest. */
int permit_find_programs(struct permit *x, bool layers_only, struct cordon_error *err);
/* With a list: rules for the programs that are on it, and for everything in their directories that is no program. */
int permit_program_rules(struct permit *x, struct cordon_error *err);
void permit_free_programs(struct permit *x);

/* ---- for permit_grants.c ---- */

/* From a path inside to the one outside, and the root that shows it: NULL where there is none. */
const struct program_root *permit_outward(const struct permit *x, const char *guest, char out[PATH_MAX]);
/* The other way round. One directory may be shown by several roots. */
bool permit_inward(const struct program_root *root, const char *host, char out[PATH_MAX]);
/* Through links, on the host or in the image (NULL: the host). */
bool permit_real_path(const struct image_root *image, const char *path, char real[PATH_MAX]);
bool permit_is_listed(const struct program_root *root, size_t i);
int permit_out_of_memory(struct cordon_error *err);

#endif
