/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image is built from: lines of "key: value", "#" begins a comment line. Lists may come several times, and add up.
 *
 *   summary:   what it is, for people
 *   include:   another recipe whose lines come first (one that comes with cordon, or a file beside this one)
 *   suite:     of Debian or Ubuntu: "bookworm"; "host" (the default) is this machine's own, from the sources that its apt has
 *   variant:   of mmdebstrap: what is installed besides packages: "essential", "apt" (the default), "minbase", ...
 *   packages:  of the distribution
 *   pip:       of PyPI, as requirements without blanks: "numpy", "uv>=0.4"
 *   user:      an account, "app" or "app:1000"; it owns the working directory
 *   workdir:   the working directory, made if it is not there
 *   env:       one variable, "K=V"
 *   preload:   Python modules that parked interpreters have loaded
 *   run:       one line for the image's shell, as its root, after all else
 */
#ifndef CORDON_IMAGE_RECIPE_H
#define CORDON_IMAGE_RECIPE_H

#include <limits.h>

#include "base/err.h"
#include "policy/policy.h"

#define RECIPE_SUITE_HOST "host"
#define RECIPE_FINISH "finish" /* beside the recipes: the script that does what comes after the packages */

struct recipe {
	char *name; /* of the recipe, for people */
	char *summary, *suite, *variant, *user, *workdir;
	struct strlist packages, pip, env, preload, run;
};
void recipe_free(struct recipe *r);
#define _cleanup_recipe_ __attribute__((cleanup(recipe_free)))

/* The directory of the recipes that come with cordon: of a build, of an installation that was moved, else where it was to be installed. */
void recipe_directory(char out[PATH_MAX]);

/* One that comes with cordon. CORDON_ERR_NOT_FOUND names those that there are. */
int recipe_find(const char *name, struct recipe *out, struct cordon_error *err);
/* A file. Errors name the line. */
int recipe_read(const char *path, struct recipe *out, struct cordon_error *err);

#endif
