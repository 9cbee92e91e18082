/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon image commit`: the root of a sandbox, with what was installed in it, as an image. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cmd/image.h"
#include "image/commit.h"

/* What it stands on must be what it was made with. */
static int find_base(const char *home, const struct box *b, struct image *out, struct cordon_error *err)
{
	if (!b->image) {
		err_set(err, CORDON_ERR_INPUT, "sandbox %s has the host's own root, which is no image", b->id);
		return err_hint(err, "cordon create --image NAME --root layered makes one whose root can be kept");
	}
	if (image_find(home, b->image, out, err) < 0)
		return -1;
	if (b->image_id && strcmp(out->id, b->image_id) != 0)
		return err_set(err, CORDON_ERR_INPUT, "image %s is another one than sandbox %s was made with", b->image, b->id);
	return 0;
}

static int commit(const struct tree_args *a, const struct image_flags *f, struct image_work *w, struct image_imported *done,
                  struct cordon_error *err)
{
	_cleanup_staging_ struct image_staging s = {.dir = -1};
	_cleanup_image_ struct image base = {0};
	_cleanup_fd_ int hold = -1;
	struct strlist chain = {0};
	enum box_state state;
	char source[128];
	struct live l;

	if (tree_peek(&l, a->home, a->operands[0], &state, err) < 0)
		return -1;
	snprintf(source, sizeof(source), "sandbox %s", l.box.name[0] ? l.box.name : l.box.id);
	int r = find_base(a->home, &l.box, &base, err);
	if (r == 0)
		r = (hold = image_hold(a->home, &base, err)) < 0 ? -1 : layer_chain(&l.store, l.box.head, TREE_ROOT, &chain, err);
	if (r == 0)
		r = image_stage(a->home, f->quota, &s, err);
	const struct image_commit what = {.name = a->operands[1],
	                                  .source = source,
	                                  .replace = f->force,
	                                  .base = &base,
	                                  .layers = l.store.layers_fd,
	                                  .chain = &chain,
	                                  .progress = image_work_progress,
	                                  .arg = w};
	if (r == 0)
		r = image_commit(&s, &what, done, err);
	strlist_free(&chain);
	live_close(&l);
	return r;
}

int image_cmd_commit(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err)
{
	_cleanup_imported_ struct image_imported done = {0};
	struct image_work w = {0};
	int failed;

	if (a->count != 2)
		failed = err_set(err, CORDON_ERR_INPUT, "give a sandbox and a name: cordon image commit ID NAME");
	else
		failed = image_check_name(a->operands[1], err);
	image_work_begin(&w, f, "saving");
	if (failed == 0 && (failed = commit(a, f, &w, &done, err)) < 0)
		err_wrap(err, "cannot make an image of %s", a->operands[0]);
	image_work_end(&w);
	return failed < 0 ? image_fail(a, err) : image_report(a, f, "Saved", &w, &done);
}
