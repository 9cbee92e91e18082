/* SPDX-License-Identifier: Apache-2.0 */
#include "image/commit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

/* Each layer of the sandbox as one of the image. */
static int write_chain(const struct image_staging *s, const struct image_commit *what, struct image_write_result *out,
                       struct cordon_error *err)
{
	const uint64_t room = s->room.quota > s->room.used ? s->room.quota - s->room.used : 0;
	struct image_write_limits limits = {
		.bytes = room, .entries = IMAGE_ENTRIES_MAX, .file_bytes = IMAGE_FILE_MAX, .depth = IMAGE_DEPTH_MAX};
	for (size_t i = 0; i < what->chain->count; i++) {
		_cleanup_fd_ int dir = fs_open(what->layers, what->chain->items[i], O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
		if (dir < 0)
			return err_sys(err, "cannot open layer %s", what->chain->items[i]);
		if (image_write_upper(dir, s->dir, &limits, out, what->progress, what->arg, err) < 0)
			return -1;
		limits.bytes -= MIN(limits.bytes, out->layers[out->layer_count - 1].bytes);
	}
	return 0;
}

/* Topmost first: the sandbox's own, then the image's, which are in the store. */
static int list_layers(const struct image_staging *s, const struct image_commit *what, const struct image_write_result *w,
                       struct image_layer *out, size_t *count, struct cordon_error *err)
{
	*count = 0;
	for (size_t i = 0; i < w->layer_count; i++) {
		struct image_layer *l = &out[(*count)++];
		*l = (struct image_layer){.bytes = w->layers[i].bytes, .files = w->layers[i].entries, .staged = (int)i};
		memcpy(l->digest, w->layers[i].digest, sizeof(l->digest));
	}
	for (size_t i = 0; i < what->base->layers.count; i++) {
		struct image_layer *l = &out[(*count)++];
		if (image_layer_read(s->home, what->base->layers.items[i], l, err) < 0)
			return -1;
		l->staged = -1;
	}
	return 0;
}

static int copy_text(char **to, const char *from, struct cordon_error *err)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

static int describe(const struct image_commit *what, struct image *out, struct cordon_error *err)
{
	const struct image *b = what->base;
	snprintf(out->name, sizeof(out->name), "%s", what->name);
	if (copy_text(&out->cwd, b->cwd, err) < 0 || copy_text(&out->user, b->user, err) < 0 || copy_text(&out->arch, b->arch, err) < 0 ||
	    copy_text(&out->source, what->source, err) < 0)
		return -1;
	return strlist_copy(&out->env, &b->env, err) < 0 || strlist_copy(&out->preload, &b->preload, err) < 0 ? -1 : 0;
}

int image_commit(struct image_staging *s, const struct image_commit *what, struct image_imported *out, struct cordon_error *err)
{
	_cleanup_write_result_ struct image_write_result w = {0};
	_cleanup_free_ struct image_layer *layers = calloc(what->chain->count + what->base->layers.count + 1, sizeof(*layers));
	size_t count;
	*out = (struct image_imported){.kind = IMAGE_DIRECTORY, .shell = true};
	if (!layers)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (write_chain(s, what, &w, err) < 0 || list_layers(s, what, &w, layers, &count, err) < 0 || describe(what, &out->image, err) < 0)
		return -1;
	out->neutralised = w.neutralised;
	return image_add(s, &out->image, layers, count, what->replace, &out->added, err);
}
