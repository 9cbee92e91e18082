/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of an image, found in its layers as they would be mounted. An image never changes: what was found once is good for ever. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/image_root.h"
#include "backend/programs.h"
#include "base/util.h"
#include "layers/view_parts.h"

#define DEPTH_MAX 200

int image_root_list(const struct image_root *r, const char *path, image_root_entry *entry, void *arg, struct cordon_error *err)
{
	_cleanup_merged_ struct merged dir = {0};
	_cleanup_names_ struct names names = {0};
	if (merged_find(&r->view, path + 1, strlen(path + 1), &dir, err) < 0)
		return -1;
	for (size_t i = 0; i < dir.count; i++)
		if (names_read(&names, dir.dirs[i].fd, err) < 0)
			return -1;
	names_tidy(&names);
	for (size_t i = 0; i < names.count; i++) {
		struct view_entry e;
		if (merged_stat(&r->view, &dir, names.items[i], &e, err) < 0)
			return -1;
		if (e.st.st_mode && entry(arg, names.items[i], &e.st, merged_fd(&dir, e.layer), err) < 0)
			return -1;
	}
	return 0;
}

struct scan {
	const struct image_root *image;
	struct programs *out;
	char path[PATH_MAX];
	size_t len;
	int depth;
};

static int scan_entry(void *arg, const char *name, const struct stat *st, int dir, struct cordon_error *err)
{
	struct scan *s = arg;
	const size_t len = s->len;
	int r = 0;
	int n = snprintf(s->path + len, sizeof(s->path) - len, "/%s", name);
	if (n > 0 && (size_t)n < sizeof(s->path) - len) {
		s->len = len + (size_t)n;
		if (S_ISREG(st->st_mode)) {
			r = programs_look(s->out, s->path, dir, name, st, err);
		} else if (S_ISDIR(st->st_mode) && s->depth < DEPTH_MAX) {
			s->depth++;
			r = image_root_list(s->image, s->path, scan_entry, s, err);
			s->depth--;
		}
	}
	s->len = len;
	s->path[len] = '\0';
	return r;
}

int programs_scan_image(const struct image_root *image, const char *root, struct programs *out, struct cordon_error *err)
{
	struct scan s = {.image = image, .out = out};
	s.len = (size_t)snprintf(s.path, sizeof(s.path), "%s", root);
	if (image_root_list(image, root, scan_entry, &s, err) < 0)
		return err_wrap(err, "cannot search %s of image %s for programs", root, image->image.name);
	programs_sort(out);
	return 0;
}
