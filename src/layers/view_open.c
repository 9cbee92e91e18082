/* SPDX-License-Identifier: Apache-2.0 */
/* Views of layers in the store; apart from view.c so that a view of plain directories needs no store. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/view.h"

/* The sandbox may have taken the right to read away from the top of its tree: looking names up needs none. */
static int add_layer(struct store *s, const char *path, struct view *v, struct cordon_error *err)
{
	int fd = fs_open(s->layers_fd, path, O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);

	if (fd < 0 && errno == EACCES)
		fd = fs_open(s->layers_fd, path, O_PATH | O_DIRECTORY, 0, FS_BENEATH);
	if (fd < 0)
		return err_sys(err, "cannot open layer %s", path);
	v->fds[v->count++] = fd;
	return 0;
}

static int add_seed(int seed, struct view *v, struct cordon_error *err)
{
	int fd = fcntl(seed, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return err_sys(err, "cannot open the seed");
	v->fds[v->count++] = fd;
	v->seeded = true;
	return 0;
}

static int fill(struct store *s, const struct strlist *chain, const char *open, enum layer_tree tree, int seed, struct view *out,
                struct cordon_error *err)
{
	char path[LAYER_ID_LEN + 16];

	out->fds = malloc((chain->count + 2) * sizeof(*out->fds));
	if (!out->fds)
		return err_sys(err, "cannot open the layers");
	if (open && *open) {
		snprintf(path, sizeof(path), "%.*s/%s", LAYER_ID_LEN, open, layer_tree_names[tree]);
		if (add_layer(s, path, out, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < chain->count; i++)
		if (add_layer(s, chain->items[i], out, err) < 0)
			return -1;
	return seed < 0 ? 0 : add_seed(seed, out, err);
}

int view_open(struct store *s, const char *head, const char *open, enum layer_tree tree, int seed, struct view *out,
              struct cordon_error *err)
{
	struct strlist chain = {0};

	*out = (struct view){0};
	int r = layer_chain(s, head, tree, &chain, err);
	if (r == 0)
		r = fill(s, &chain, open, tree, seed, out, err);
	strlist_free(&chain);
	if (r < 0)
		view_close(out);
	return r;
}
