/* SPDX-License-Identifier: Apache-2.0 */
/* A new image: its place to be written to, and how it gets its name. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/sha256.h"
#include "base/units.h"
#include "base/util.h"
#include "image/store_parts.h"
#include "sandbox/watch_parts.h"

/* ---- the place ---------------------------------------------------------------------------------------------------------------- */

static int make_place(struct image_staging *s, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store store;
	char name[RECORD_TEMP_MAX];
	if (image_store_open(&store, s->home, true, err) != 0 || record_temp_name(name, "", err) < 0)
		return -1;
	s->name = strdup(name);
	if (!s->name || mkdirat(store.parts[PART_TMP], name, 0700) < 0)
		return err_sys(err, "cannot make images/tmp/%s", name);
	s->dir = openat(store.parts[PART_TMP], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir < 0 || fchmod(s->dir, 0700) < 0)
		return err_sys(err, "cannot open images/tmp/%s", name);
	return 0;
}

int image_stage(const char *home, const char *quota, struct image_staging *out, struct cordon_error *err)
{
	*out = (struct image_staging){.home = strdup(home), .dir = -1};
	if (!out->home)
		return err_sys(err, "strdup");
	image_sweep(home); /* first: what is garbage must not count */
	if (image_room(home, quota, &out->room, err) == 0 && make_place(out, err) == 0)
		return 0;
	image_unstage(out);
	return -1;
}

void image_unstage(struct image_staging *s)
{
	struct image_store store;
	if (s->name && image_store_open(&store, s->home, false, NULL) == 0) {
		fs_remove_tree(store.parts[PART_TMP], s->name, NULL); /* what stays is swept when we are gone */
		image_store_close(&store);
	}
	cleanup_fd(&s->dir);
	free(s->name);
	free(s->home);
	*s = (struct image_staging){.dir = -1};
}

/* ---- what it is ---------------------------------------------------------------------------------------------------------------- */

static void add_list(struct buf *b, const char *key, const struct strlist *l)
{
	for (size_t i = 0; i < l->count; i++)
		buf_addf(b, "%s %zu %s\n", key, strlen(l->items[i]), l->items[i]);
}

static void add_text(struct buf *b, const char *key, const char *text)
{
	if (text)
		buf_addf(b, "%s %zu %s\n", key, strlen(text), text);
}

/* Everything that a sandbox on it can tell; not its name, nor where it came from and when. */
static int name_content(struct image *i, struct cordon_error *err)
{
	_cleanup_buf_ struct buf b = {0};
	unsigned char digest[SHA256_SIZE];
	struct sha256 h;
	add_list(&b, "layer", &i->layers);
	add_list(&b, "env", &i->env);
	add_text(&b, "cwd", i->cwd);
	add_text(&b, "user", i->user);
	add_text(&b, "arch", i->arch);
	add_list(&b, "preload", &i->preload);
	if (b.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	sha256_begin(&h);
	sha256_add(&h, b.data, b.len);
	sha256_end(&h, digest);
	sha256_hex(digest, i->id);
	return 0;
}

/* Of one that comes several times the topmost says all that the others could; overlayfs takes none twice. Returns how many are left. */
static size_t keep_topmost(struct image_layer *layers, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		size_t n = 0;
		while (n < kept && strcmp(layers[n].digest, layers[i].digest) != 0)
			n++;
		if (n == kept)
			layers[kept++] = layers[i];
	}
	return kept;
}

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int describe(struct image *i, const struct image_layer *layers, size_t count, struct cordon_error *err)
{
	if (image_check_name(i->name, err) < 0)
		return -1;
	if (count == 0)
		return err_set(err, CORDON_ERR_INPUT, "an image needs a layer at least");
	strlist_free(&i->layers);
	i->bytes = 0;
	i->created_ms = now_ms();
	for (size_t n = 0; n < count; n++) {
		if (!image_digest_valid(layers[n].digest))
			return err_set(err, CORDON_ERR_INPUT, "'%.80s' is not the digest of a layer", layers[n].digest);
		if (strlist_add(&i->layers, layers[n].digest, err) < 0)
			return -1;
		i->bytes += layers[n].bytes;
	}
	return name_content(i, err);
}

/* ---- to the disk --------------------------------------------------------------------------------------------------------------- */

/* Blocks, after they were allocated; what cannot be walked (a user, and a directory without r) counts as its bytes. */
static uint64_t measure(int layer, uint64_t bytes)
{
	_cleanup_fd_ int tree = openat(layer, IMAGE_TREE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_free_ struct watch_walk *walk = tree < 0 ? NULL : malloc(sizeof(*walk));
	if (!walk)
		return bytes;
	watch_walk_start(walk, (const int[WATCH_TREES]){tree, -1, -1});
	while (!watch_walk_step(walk, UINT_MAX))
		;
	return walk->torn ? MAX(walk->bytes, bytes) : walk->bytes;
}

static int write_record(int staging, struct image_layer *l, int64_t now, struct cordon_error *err)
{
	char name[16];
	snprintf(name, sizeof(name), "%d", l->staged);
	_cleanup_fd_ int dir = openat(staging, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, "cannot open layer %s", name);
	l->disk = measure(dir, l->bytes);
	l->created_ms = now;
	return record_write_soon(dir, IMAGE_RECORD, &image_layer_record, l, err);
}

/* Contents first, then the records, which is what makes layers of them, and then those. */
static int write_out(const struct image_staging *s, struct image_layer *layers, size_t count, int64_t now, struct cordon_error *err)
{
	if (syncfs(s->dir) < 0)
		return err_sys(err, "cannot write the image to the disk");
	for (size_t i = 0; i < count; i++)
		if (layers[i].staged >= 0 && write_record(s->dir, &layers[i], now, err) < 0)
			return -1;
	if (syncfs(s->dir) < 0)
		return err_sys(err, "cannot write the image to the disk");
	return 0;
}

/* ---- giving it its name --------------------------------------------------------------------------------------------------------- */

struct adding {
	const struct image_store *store;
	const struct image_staging *staging;
	struct image_layer *layers;
	size_t count;
	int64_t now;  /* when it was made */
	bool written; /* to the disk */
	struct image_added *out;
};

static bool is_there(const struct adding *a, const struct image_layer *l)
{
	struct image_layer there;
	return image_layer_load(a->store, l->digest, &there, NULL) == 0;
}

/* What the store has already needs no writing. Asked again with the lock held: it may have been removed meanwhile. */
static int write_if_new(struct adding *a, struct cordon_error *err)
{
	bool new = false;
	for (size_t i = 0; i < a->count; i++)
		new |= a->layers[i].staged >= 0 && !is_there(a, &a->layers[i]);
	if (!new || a->written)
		return 0;
	a->written = true;
	return write_out(a->staging, a->layers, a->count, a->now, err);
}

/* What the quota lacks, told before anything is moved. */
static int check_room(const struct adding *a, struct cordon_error *err)
{
	uint64_t used, more = 0, quota = a->staging->room.quota;
	char text[2][32];
	if (image_used(a->store, &used, err) < 0)
		return -1;
	for (size_t i = 0; i < a->count; i++)
		if (a->layers[i].staged >= 0 && !is_there(a, &a->layers[i]))
			more += a->layers[i].disk;
	if (more == 0 || used + more <= quota)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "the quota of images is exceeded: it needs %s more than the %s that all may take",
	        units_format_size(used + more - quota, text[0]), units_format_size(quota, text[1]));
	return err_hint(err, "remove some (cordon image rm), or raise it: --quota, or a size in $CORDON_HOME/images/quota");
}

/* A directory without a record, or a damaged one, is no layer: it is put aside. */
static int move_layer(const struct adding *a, const struct image_layer *l, struct cordon_error *err)
{
	char from[16], gone[IMAGE_PATH_MAX];
	int layers = a->store->parts[PART_LAYERS];
	snprintf(from, sizeof(from), "%d", l->staged);
	snprintf(gone, sizeof(gone), IMAGE_GONE "%s", l->digest);
	if (renameat(a->staging->dir, from, layers, l->digest) == 0)
		return 0;
	if (errno != EEXIST && errno != ENOTEMPTY)
		return err_sys(err, "cannot move layer %.12s to its place", l->digest);
	fs_remove_tree(layers, gone, NULL);
	if (renameat(layers, l->digest, layers, gone) < 0 || renameat(a->staging->dir, from, layers, l->digest) < 0)
		return err_sys(err, "cannot replace the damaged layer %.12s", l->digest);
	return 0;
}

static int place_layer(const struct adding *a, const struct image_layer *l, struct cordon_error *err)
{
	if (is_there(a, l)) {
		a->out->shared++;
		return 0;
	}
	if (l->staged < 0)
		return err_set(err, CORDON_ERR_NOT_FOUND, "layer %.12s does not exist any more", l->digest);
	a->out->new_bytes += l->disk;
	return move_layer(a, l, err);
}

static int place_layers(const struct adding *a, struct cordon_error *err)
{
	int layers = a->store->parts[PART_LAYERS];
	for (size_t i = 0; i < a->count; i++)
		if (place_layer(a, &a->layers[i], err) < 0)
			return -1;
	return fsync(layers) < 0 ? err_sys(err, "cannot write images/layers to the disk") : 0;
}

/* Both names are records by rename; names/NAME is what counts. */
static int write_names(const struct adding *a, const struct image *i, struct cordon_error *err)
{
	struct image nameless = *i;
	_cleanup_fd_ int fd = -1;
	nameless.name[0] = '\0';
	int there = image_open_id(a->store, i->id, &fd, err);
	if (there < 0)
		return -1;
	/* one that is there may be held: another file in its place would hide that from the collector */
	if (there > 0 && record_write(a->store->parts[PART_IDS], i->id, &image_record, &nameless, err) < 0)
		return -1;
	return record_write(a->store->parts[PART_NAMES], i->name, &image_record, i, err);
}

static int check_free(const struct adding *a, const struct image *i, bool replace, struct cordon_error *err)
{
	_cleanup_image_ struct image old = {0};
	a->out->replaced = image_load(a->store, i->name, &old, NULL) <= 0;
	if (!a->out->replaced || replace)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "image '%s' exists", i->name);
	return err_hint(err, "give another name, or --force to replace it");
}

static int add_locked(struct adding *a, const struct image *i, bool replace, struct cordon_error *err)
{
	if (check_free(a, i, replace, err) < 0 || write_if_new(a, err) < 0 || check_room(a, err) < 0)
		return -1;
	int r = place_layers(a, err);
	if (r == 0)
		r = write_names(a, i, err);
	image_store_collect(a->store, NULL, NULL); /* what it has replaced, or what a failure left */
	return r;
}

int image_add(struct image_staging *s, struct image *i, const struct image_layer *layers, size_t count, bool replace,
              struct image_added *out, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store store = {.dir = -1, .parts = {-1, -1, -1, -1}};
	_cleanup_free_ struct image_layer *own = calloc(count + 1, sizeof(*own));
	*out = (struct image_added){0};
	if (!own)
		return err_sys(err, "cannot add an image");
	if (count > 0)
		memcpy(own, layers, count * sizeof(*own));
	count = keep_topmost(own, count);
	struct adding a = {.store = &store, .staging = s, .layers = own, .count = count, .out = out};
	int described = describe(i, own, count, err);
	a.now = i->created_ms;
	if (described < 0 || image_store_open(&store, s->home, true, err) != 0 || write_if_new(&a, err) < 0)
		return err_wrap(err, "cannot add image %s", i->name);
	int lock = image_store_lock(&store, err);
	int r = lock < 0 ? -1 : add_locked(&a, i, replace, err);
	cleanup_fd(&lock);
	image_store_sweep(&store);
	return r < 0 ? err_wrap(err, "cannot add image %s", i->name) : 0;
}
