/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage: records in ids/ without a name that nobody holds, layers that no record needs, and what dead processes left in tmp/. In doubt, everything
 * stays: where a record cannot be read, nobody knows what it needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/store_parts.h"
#include "layers/box.h"
#include "layers/store_parts.h"
#include "sandbox/owner.h"

struct collection {
	const struct image_store *s;
	struct image_list named;
	struct strlist needed; /* layers; some of them several times */
	bool doubt;
};

static int need(struct collection *c, const struct image *i, struct cordon_error *err)
{
	for (size_t n = 0; n < i->layers.count; n++)
		if (strlist_add(&c->needed, i->layers.items[n], err) < 0)
			return -1;
	return 0;
}

static int need_named(struct collection *c, struct cordon_error *err)
{
	if (image_load_all(c->s, &c->named, err) < 0)
		return -1;
	for (size_t i = 0; i < c->named.count; i++) {
		c->doubt |= c->named.items[i].damaged;
		if (need(c, &c->named.items[i].image, err) < 0)
			return -1;
	}
	return 0;
}

static bool is_named(const struct collection *c, const char *id)
{
	for (size_t i = 0; i < c->named.count; i++)
		if (strcmp(c->named.items[i].image.id, id) == 0)
			return true;
	return false;
}

/* Has no name any more. Held, it is needed as before; else it goes, and whoever waits for its lock sees that. */
static int need_or_forget(struct collection *c, const char *id, struct cordon_error *err)
{
	_cleanup_fd_ int fd = -1;
	_cleanup_image_ struct image i = {0};
	int r = image_open_id(c->s, id, &fd, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (!c->doubt && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return unlinkat(c->s->parts[PART_IDS], id, 0) < 0 ? err_sys(err, "cannot forget image %.12s", id) : 0;
	if (record_read(c->s->parts[PART_IDS], id, &image_record, &i, NULL) < 0)
		c->doubt = true;
	return need(c, &i, err);
}

static int need_held(struct collection *c, struct cordon_error *err)
{
	struct strlist ids = {0};
	int r = store_list(c->s->parts[PART_IDS], &ids, err);
	for (size_t i = 0; r == 0 && i < ids.count; i++)
		if (image_digest_valid(ids.items[i]) && !is_named(c, ids.items[i]))
			r = need_or_forget(c, ids.items[i], err);
	strlist_free(&ids);
	return r;
}

static int retire(struct collection *c, const char *digest, uint64_t *freed, struct cordon_error *err)
{
	char gone[IMAGE_PATH_MAX];
	struct image_layer l;
	int layers = c->s->parts[PART_LAYERS];
	if (image_layer_load(c->s, digest, &l, NULL) == 0 && freed)
		*freed += l.disk;
	snprintf(gone, sizeof(gone), IMAGE_GONE "%s", digest);
	fs_remove_tree(layers, gone, NULL); /* left by somebody who was killed; a rename needs its place */
	return renameat(layers, digest, layers, gone) < 0 ? err_sys(err, "cannot remove layer %.12s", digest) : 0;
}

static int retire_layers(struct collection *c, uint64_t *freed, struct cordon_error *err)
{
	struct strlist layers = {0};
	int r = c->doubt ? 0 : store_list(c->s->parts[PART_LAYERS], &layers, err);
	for (size_t i = 0; r == 0 && i < layers.count; i++)
		if (image_digest_valid(layers.items[i]) && !strlist_has(&c->needed, layers.items[i]))
			r = retire(c, layers.items[i], freed, err);
	strlist_free(&layers);
	return r;
}

int image_store_collect(const struct image_store *s, uint64_t *freed, struct cordon_error *err)
{
	struct collection c = {.s = s};
	int r = need_named(&c, err);
	if (r == 0)
		r = need_held(&c, err);
	if (r == 0)
		r = retire_layers(&c, freed, err);
	image_list_free(&c.named);
	strlist_free(&c.needed);
	return r < 0 ? err_wrap(err, "cannot collect images") : 0;
}

static bool is_left_over(int part, const char *name)
{
	switch (part) {
	case PART_TMP:
		return owner_is_dead(name);
	case PART_LAYERS:
		return strncmp(name, IMAGE_GONE, strlen(IMAGE_GONE)) == 0;
	default:
		return record_temp_is_dead(name, RECORD_TEMP);
	}
}

void image_store_sweep(const struct image_store *s)
{
	for (int part = 0; part < PART_COUNT; part++) {
		struct strlist names = {0};
		store_list(s->parts[part], &names, NULL);
		for (size_t i = 0; i < names.count; i++)
			if (is_left_over(part, names.items[i]))
				fs_remove_tree(s->parts[part], names.items[i],
				               NULL); /* what cannot be removed now stays for the next time */
		strlist_free(&names);
	}
}

void image_sweep(const char *home)
{
	_cleanup_image_store_ struct image_store s;
	if (image_store_open(&s, home, false, NULL) != 0)
		return;
	int lock = image_store_lock(&s, NULL);
	if (lock >= 0)
		image_store_collect(&s, NULL, NULL);
	cleanup_fd(&lock);
	image_store_sweep(&s);
}

/* ---- removing ----------------------------------------------------------------------------------------------------------------- */

static bool has_other_name(const struct image_list *all, const struct image *i)
{
	for (size_t n = 0; n < all->count; n++)
		if (strcmp(all->items[n].image.id, i->id) == 0 && strcmp(all->items[n].image.name, i->name) != 0)
			return true;
	return false;
}

static int refuse_held(const char *home, const struct image *i, struct cordon_error *err)
{
	pid_t pid = 0;
	size_t count = 0;
	image_holders(home, i, &pid, 1, &count, NULL);
	if (count > 0)
		err_set(err, CORDON_ERR_BUSY, "image '%s' is in use by process %d", i->name, (int)pid);
	else
		err_set(err, CORDON_ERR_BUSY, "image '%s' is in use", i->name);
	return err_hint(
		err, "stop what runs on it (cordon ls shows sandboxes); or use --force: its name goes now, its layers with the last user");
}

static int refuse_needed(const struct image *i, const struct box *b, struct cordon_error *err)
{
	const char *name = b->name[0] ? b->name : b->id;
	err_set(err, CORDON_ERR_BUSY, "image '%s' is in use by sandbox %s", i->name, name);
	return err_hint(err,
	                "remove that first: cordon rm %s; or use --force: it cannot be started then until there is an image of this name",
	                name);
}

/* Sandboxes that stay know their image by name. */
static int check_boxes(const char *home, const struct image *i, struct cordon_error *err)
{
	struct box_list boxes = {0};
	struct store s;
	char path[4096];
	snprintf(path, sizeof(path), "%s/sandboxes", home);
	if (access(path, F_OK) < 0) /* opening a store would make it */
		return 0;
	int r = store_open(&s, home, err);
	if (r < 0)
		return -1;
	r = box_list(&s, &boxes, err);
	for (size_t n = 0; r == 0 && n < boxes.count; n++)
		if (boxes.items[n].box.image && strcmp(boxes.items[n].box.image, i->name) == 0)
			r = refuse_needed(i, &boxes.items[n].box, err);
	box_list_free(&boxes);
	store_close(&s);
	return r;
}

/* Sandboxes that run on it hold it. */
static int check_unheld(const struct image_store *s, const char *home, const struct image *i, struct cordon_error *err)
{
	struct image_list all = {0};
	_cleanup_fd_ int fd = -1;
	int r = image_load_all(s, &all, err);
	bool shared = r == 0 && has_other_name(&all, i);
	image_list_free(&all);
	if (r < 0 || shared || !image_digest_valid(i->id))
		return r;
	r = image_open_id(s, i->id, &fd, err);
	if (r == 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? refuse_held(home, i, err) : err_sys(err, "cannot lock image %s", i->name);
	return r < 0 ? -1 : 0;
}

static int remove_locked(const struct image_store *s, const char *home, const struct image *i, bool force, uint64_t *freed,
                         struct cordon_error *err)
{
	int names = s->parts[PART_NAMES];
	if (!force && (check_unheld(s, home, i, err) < 0 || check_boxes(home, i, err) < 0))
		return -1;
	if (unlinkat(names, i->name, 0) < 0 || fsync(names) < 0)
		return err_sys(err, "cannot remove image %s", i->name);
	image_store_collect(s, freed, NULL); /* it is gone; what could not be collected is the next command's */
	return 0;
}

int image_remove(const char *home, const char *name, bool force, uint64_t *freed, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s = {.dir = -1, .parts = {-1, -1, -1, -1}};
	_cleanup_image_ struct image i = {0};
	uint64_t none = 0;
	if (image_check_name(name, err) < 0)
		return -1;
	int r = image_store_open(&s, home, false, err);
	if (r > 0)
		return image_find(home, name, &i, err); /* says that there is none, and which there are */
	int lock = r < 0 ? -1 : image_store_lock(&s, err);
	if (lock < 0)
		return -1;
	if (image_load(&s, name, &i, NULL) > 0) /* a damaged one can be removed, too */
		r = image_find(home, name, &i, err);
	else
		r = remove_locked(&s, home, &i, force, freed ? freed : &none, err);
	cleanup_fd(&lock);
	if (r == 0)
		image_store_sweep(&s);
	return r;
}
