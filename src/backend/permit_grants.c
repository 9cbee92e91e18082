/* SPDX-License-Identifier: Apache-2.0 */
/* With a list of programs: what Landlock has to be told, so that those that are not on it can be neither executed nor read. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/permit_parts.h"
#include "base/fs.h"
#include "base/util.h"
#include "sandbox/landlock.h"

/* What is left out of a root: directories of programs, and programs that are not listed. Sorted, so that what lies in one directory is together. */
struct left_out {
	const char **items;
	size_t count;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int find_left_out(struct permit *x, const struct program_root *root, struct left_out *out, struct cordon_error *err)
{
	char host[PATH_MAX];

	out->count = 0;
	out->items = calloc(root->programs.count + x->bins.count + 1, sizeof(*out->items));
	if (!out->items)
		return permit_out_of_memory(err);
	for (size_t i = 0; i < x->bins.count; i++) {
		const struct program_root *shown = permit_outward(x, x->bins.items[i], host);

		if (shown && shown->image == root->image && fs_path_within(host, root->host))
			out->items[out->count++] = plan_string(x->plan, host);
	}
	for (size_t i = 0; i < root->programs.count; i++)
		if ((root->programs.items[i].kind == PROGRAM_NATIVE || (root->marks[i] & MARK_DENIED)) && !permit_is_listed(root, i))
			out->items[out->count++] = root->programs.items[i].path;
	qsort(out->items, out->count, sizeof(*out->items), by_text);
	return 0;
}

/* The first of them that is not before the text. */
static size_t first_from(const struct left_out *l, const char *text)
{
	size_t low = 0, high = l->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(l->items[middle], text) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

enum part { PART_WHOLE, PART_HOLDS, PART_LEFT_OUT };

static enum part part_of(const struct left_out *l, const char *path)
{
	char below[PATH_MAX + 1];
	size_t at = first_from(l, path), len = (size_t)snprintf(below, sizeof(below), "%s/", path);

	if (at < l->count && strcmp(l->items[at], path) == 0)
		return PART_LEFT_OUT;
	at = first_from(l, below);
	return at < l->count && strncmp(l->items[at], below, len) == 0 ? PART_HOLDS : PART_WHOLE;
}

static int grant_around(struct permit *x, const struct program_root *root, const struct left_out *l, const char *host,
                        struct cordon_error *err);

struct grants {
	struct permit *x;
	const struct program_root *root;
	const struct left_out *left;
	const char *dir;
};

static int grant_entry(void *arg, const char *name, const struct stat *st, int dir, struct cordon_error *err)
{
	const struct grants *g = arg;
	char path[PATH_MAX];

	(void)dir;
	if (S_ISLNK(st->st_mode) || snprintf(path, sizeof(path), "%s/%s", g->dir, name) >= (int)sizeof(path))
		return 0;
	return grant_around(g->x, g->root, g->left, path, err);
}

static int grant_in_image(struct permit *x, const struct program_root *root, const struct left_out *l, const char *dir,
                          struct cordon_error *err)
{
	struct grants g = {x, root, l, dir};

	return image_root_list(root->image, dir, grant_entry, &g, err);
}

/* Landlock grants trees and takes nothing away again: of a directory that holds what is left out, everything else is granted by itself. */
static int grant_around(struct permit *x, const struct program_root *root, const struct left_out *l, const char *host,
                        struct cordon_error *err)
{
	char path[PATH_MAX], guest[PATH_MAX];
	const struct dirent *d;
	int r = 0;
	const enum part part = part_of(l, host);

	if (part == PART_LEFT_OUT)
		return 0;
	if (part == PART_WHOLE) {
		if (permit_inward(root, host, guest))
			plan_rule(x->plan, plan_string(x->plan, guest), LANDLOCK_R);
		return 0;
	}
	if (root->image)
		return grant_in_image(x, root, l, host, err);
	_cleanup_dir_ DIR *dir = opendir(host);
	while (dir && r == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 || d->d_type == DT_LNK)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", host, d->d_name) < (int)sizeof(path))
			r = grant_around(x, root, l, path, err);
	}
	return r;
}

static void grant_listed(struct permit *x, const struct program_root *root)
{
	char guest[PATH_MAX], real[PATH_MAX];

	for (size_t i = 0; i < root->programs.count; i++)
		if (permit_is_listed(root, i) && permit_inward(root, root->programs.items[i].path, guest))
			plan_rule(x->plan, plan_string(x->plan, guest), LANDLOCK_RX);
	for (size_t i = 0; i < root->programs.loaders.count; i++)
		for (size_t r = 0; r < x->root_count && permit_real_path(root->image, root->programs.loaders.items[i], real); r++)
			if (x->roots[r].image == root->image && permit_inward(&x->roots[r], real, guest))
				plan_rule(x->plan, plan_string(x->plan, guest), LANDLOCK_RX);
}

int permit_program_rules(struct permit *x, struct cordon_error *err)
{
	int r = 0;

	for (size_t i = 0; i < x->place_count; i++)
		if (x->places[i].is_file && x->places[i].runs)
			plan_rule(x->plan, x->places[i].path, LANDLOCK_RX);
	for (size_t i = 0; i < x->root_count && r == 0 && x->listed; i++) {
		struct program_root *root = &x->roots[i];
		struct left_out left = {0};

		if (root->place && !root->place->runs)
			continue;
		plan_rule(x->plan, root->guest, LANDLOCK_LIST);
		r = find_left_out(x, root, &left, err);
		if (r == 0)
			r = grant_around(x, root, &left, root->host, err);
		grant_listed(x, root);
		free(left.items);
	}
	return r;
}
