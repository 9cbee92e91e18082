/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root that is an imported image (image/image.h): what the plan of a sandbox makes of it, and a look into its layers before anything is mounted.
 *
 * Images hold what somebody else made. Nothing here follows a link out of one: links are resolved by hand, over the layers as overlayfs would show them.
 */
#ifndef CORDON_BACKEND_IMAGE_ROOT_H
#define CORDON_BACKEND_IMAGE_ROOT_H

#include <limits.h>
#include <sys/types.h>

#include "backend/image_host.h"
#include "image/image.h"
#include "layers/view.h"

struct image_root {
	struct image image;
	char dir[PATH_MAX]; /* that holds the layers */
	struct view view;
	int hold; /* as long as it is open, nobody removes the image */
};

/* By name. CORDON_ERR_NOT_FOUND; CORDON_ERR_INPUT for one of another architecture. Holds it. */
int image_root_open(const char *home, const char *name, struct image_root *out, struct cordon_error *err);
void image_root_close(struct image_root *r);
#define IMAGE_ROOT_NONE ((struct image_root){.hold = -1})

/* What a path inside is, through links: 1 and its real path, 0 if there is nothing, -1 on errors. `/` is found. */
int image_root_find(const struct image_root *r, const char *path, char real[PATH_MAX], struct view_entry *out, struct cordon_error *err);

/* Each entry of a directory (a real path inside), by name; dir: where it lies on disk. Ends with the first that is not 0. */
struct stat;
typedef int image_root_entry(void *arg, const char *name, const struct stat *st, int dir, struct cordon_error *err);
int image_root_list(const struct image_root *r, const char *path, image_root_entry *entry, void *arg, struct cordon_error *err);

/* As image_host_plan(). over: layers that are written on it; none: it cannot be written. */
void image_root_plan(struct plan *p, const struct image_root *r, const struct string_list *over, const struct plan_names *names);
/*
 * After it, where layers are written: rules that open everything but /proc, /dev and the names at the top itself, which set-up depends on. one_id: commands have no ids to
 * give to files or to become, and apt must not try.
 */
int image_root_open_up(struct plan *p, const struct image_root *r, bool one_id, struct cordon_error *err);
/* As image_host_trust(), with the image's own. */
int image_root_trust(struct plan *p, const struct image_root *r, const char *certificate, struct cordon_error *err);

#endif
