/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `cordon image` share. */
#ifndef CORDON_CMD_IMAGE_H
#define CORDON_CMD_IMAGE_H

#include "cmd/commit.h"
#include "cmd/tree.h"
#include "image/import.h"

struct image_flags {
	bool json, force, quiet, verbose;
	const char *quota;
	const char *preload; /* "numpy,pandas" */
	const char *recipe;
};

int image_cmd_import(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err);
int image_cmd_commit(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err);
int image_cmd_build(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err);

/* ---- what import and build share ---------------------------------------------------------------------------------------------- */

/* Runs while an image is being made: shows how far it is, and sees whether it is to end. */
struct image_work {
	struct progress bar;
	double begun;
	bool quiet;
};
void image_work_begin(struct image_work *w, const struct image_flags *f, const char *what);
bool image_work_progress(void *arg, uint64_t done, uint64_t total); /* as image_progress; arg: the struct image_work */
void image_work_end(struct image_work *w);
/* The signal that asked us to end; 0: none. */
int image_work_signal(void);

/* "Imported base (3 layers, 187M, 1 shared) in 2.1 s" and what was left out, or JSON. Returns the exit status. */
int image_report(const struct tree_args *a, const struct image_flags *f, const char *verb, const struct image_work *w,
                 const struct image_imported *done);

/* Reports an error of an import or a build, or that it was interrupted. Returns the exit status. */
int image_fail(const struct tree_args *a, const struct cordon_error *err);

#endif
