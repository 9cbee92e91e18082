/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images without Docker: mmdebstrap makes a root file system from the distribution's packages and writes it as a tar archive, which comes into the store as any other
 * archive does; debootstrap, where only that is there, makes a directory.
 */
#ifndef CORDON_IMAGE_BUILD_H
#define CORDON_IMAGE_BUILD_H

#include "image/import.h"
#include "image/recipe.h"

/* Called for each line that the programs say. */
typedef void image_said(void *arg, const char *line);

struct image_build {
	const char *name;
	bool replace;
	image_said *said;
	image_progress *progress; /* of taking it over; and, with done and total 0, asked every now and then whether to go on */
	void *arg;
};

/* Errors name what is missing on this machine, or the last that the programs said. */
int image_build(struct image_staging *s, const struct recipe *r, const struct image_build *what, struct image_imported *out,
                struct cordon_error *err);

/* ---- what does the work --------------------------------------------------------------------------------------------------------- */

enum build_mode {
	BUILD_ROOT,       /* mmdebstrap as root */
	BUILD_UNSHARE,    /* mmdebstrap in a user namespace with subordinate ids */
	BUILD_FAKECHROOT, /* mmdebstrap with a library that pretends */
	BUILD_DEBOOTSTRAP,
	BUILD_MODE_COUNT
};
extern const char *const build_mode_names[BUILD_MODE_COUNT]; /* "root", ... : as mmdebstrap calls them */

/* The best that this machine has for this caller. -1: none, and the error says which packages to install. */
int build_find_mode(enum build_mode *out, struct cordon_error *err);

/* The machine's own release, "bookworm"; -1 where /etc/os-release does not tell. */
int build_host_suite(char *out, size_t size, struct cordon_error *err);

/* argv for a program that makes the root file system of a recipe in `target` ("-": a tar archive on standard output). */
int build_command(enum build_mode mode, const struct recipe *r, const char *target, struct strlist *out, struct cordon_error *err);
/* The environment of that program: the caller's, and the recipe for the script that finishes it. */
int build_environment(const struct recipe *r, const char *finish, const char *tmp, struct strlist *out, struct cordon_error *err);

#endif
