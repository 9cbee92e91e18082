/* SPDX-License-Identifier: Apache-2.0 */
/* The records of sandboxes on disk, their locks, and the list of them. */
#include "layers/box.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/id.h"
#include "base/util.h"
#include "layers/record.h"
#include "layers/store_parts.h"

#define BOX_RECORD "sandbox"    /* in a box's directory */
#define BOX_SOON "sandbox.soon" /* a later one, that was not waited for */
#define BOX_LOCK "lock"
#define BOX_LOGS "logs"
#define WHO_MAX 256

#define FIELD(name) offsetof(struct box, name)
/* clang-format off */
static const struct record_key box_keys[] = {
	{"id", RECORD_ID, FIELD(id), 0, NULL},
	{"name", RECORD_CHARS, FIELD(name), BOX_NAME_MAX + 1, NULL},
	{"head", RECORD_ID, FIELD(head), 0, NULL},
	{"open", RECORD_ID, FIELD(open), 0, NULL},
	{"lower", RECORD_ID, FIELD(lower), 0, NULL},
	{"image", RECORD_TEXT, FIELD(image), 0, NULL},
	{"image_id", RECORD_TEXT, FIELD(image_id), 0, NULL},
	{"workspace", RECORD_TEXT, FIELD(workspace), 0, NULL},
	{"copy", RECORD_TEXT, FIELD(copy), 0, NULL},
	{"created", RECORD_I64, FIELD(created_ms), 0, NULL},
	{"used", RECORD_I64, FIELD(used_ms), 0, NULL},
	{"ttl", RECORD_I64, FIELD(ttl_ms), 0, NULL},
	{"idle", RECORD_I64, FIELD(idle_ms), 0, NULL},
	{"uid", RECORD_U32, FIELD(uid), 0, NULL},
	{"gid", RECORD_U32, FIELD(gid), 0, NULL},
	{"label", RECORD_LIST, FIELD(labels), 0, NULL},
	{"env", RECORD_LIST, FIELD(env), 0, NULL},
	{"policy", RECORD_LIST, FIELD(policy), 0, NULL},
	{"mount", RECORD_LIST, FIELD(mounts), 0, NULL},
	{"tx", RECORD_LIST, FIELD(tx), 0, NULL},
};
/* clang-format on */
static const struct record_kind box_record = {"sandbox", box_keys, ARRAY_SIZE(box_keys)};

void box_free(struct box *b)
{
	free(b->image);
	free(b->image_id);
	free(b->workspace);
	free(b->copy);
	strlist_free(&b->labels);
	strlist_free(&b->env);
	strlist_free(&b->policy);
	strlist_free(&b->mounts);
	strlist_free(&b->tx);
	*b = (struct box){0};
}

/* ---- records ------------------------------------------------------------------------------------------------------------------ */

/* What was saved last, if that was without waiting for the disk. Should it be damaged, the other still is what it was before. */
static void load_soon(struct store *s, const char *id, struct box *out)
{
	char path[STORE_PATH_MAX];
	struct box later = {0};
	store_path(path, id, BOX_SOON);
	bool newer = record_read(s->boxes_fd, path, &box_record, &later, NULL) == 0 && strcmp(later.id, id) == 0;
	if (newer) {
		box_free(out);
		*out = later;
	} else {
		box_free(&later);
	}
}

/* Leaves in *out what could be read of a damaged record; to be freed even after a failure. */
static int load_box(struct store *s, const char *id, struct box *out, struct cordon_error *err)
{
	*out = (struct box){0};
	if (store_check_id(id, err) < 0)
		return -1;
	int r = record_load(s->boxes_fd, id, &box_record, out, out->id, err);
	if (r == 0)
		load_soon(s, id, out);
	return r <= 0 ? r : record_missing(s->boxes_fd, id, &box_record, err);
}

int box_load(struct store *s, const char *id, struct box *out, struct cordon_error *err)
{
	int r = load_box(s, id, out, err);
	if (r < 0)
		box_free(out);
	return r;
}

int box_open_dir(struct store *s, const char *id, struct cordon_error *err)
{
	if (store_check_id(id, err) < 0)
		return -1;
	int fd = openat(s->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no sandbox %s", id);
	return fd >= 0 ? fd : err_sys(err, "cannot open sandbox %s", id);
}

/* Under the store's lock: what is there now stays, since the record will name it before the lock is released. */
static int check_head(struct store *s, const struct box *b, struct cordon_error *err)
{
	char path[STORE_PATH_MAX];
	if (!*b->head)
		return 0;
	if (store_check_id(b->head, err) < 0)
		return -1;
	store_path(path, b->head, LAYER_RECORD);
	if (faccessat(s->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return errno == ENOENT ? err_set(err, CORDON_ERR_NOT_FOUND, "there is no layer %s", b->head)
	                       : err_sys(err, "cannot examine %s", path);
}

static int save(struct store *s, const struct box *b, bool soon, struct cordon_error *err)
{
	_cleanup_fd_ int dir = box_open_dir(s, b->id, err);
	if (dir < 0)
		return -1;
	_cleanup_fd_ int lock = store_lock(s, false, err);
	int r = lock < 0 || check_head(s, b, err) < 0 ? -1 : 0;
	/* where there is one that was not waited for: first in its place, then with that in the record's. At no moment does an older one count */
	const bool twice = r == 0 && !soon && faccessat(dir, BOX_SOON, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	if (r == 0)
		r = (soon ? record_write_soon : record_write)(dir, soon || twice ? BOX_SOON : BOX_RECORD, &box_record, b, err);
	if (r == 0 && twice && (renameat(dir, BOX_SOON, dir, BOX_RECORD) < 0 || fsync(dir) < 0))
		r = err_sys(err, "cannot rename " BOX_SOON);
	return r < 0 ? err_wrap(err, "cannot save sandbox %s", b->id) : 0;
}

int box_save(struct store *s, const struct box *b, struct cordon_error *err)
{
	return save(s, b, false, err);
}

int box_save_soon(struct store *s, const struct box *b, struct cordon_error *err)
{
	return save(s, b, true, err);
}

/* ---- creation ----------------------------------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The caller holds the lock on names. */
static int check_name_is_free(struct store *s, const char *name, struct cordon_error *err)
{
	struct box_list all;
	int r = box_list(s, &all, err);
	for (size_t i = 0; i < all.count && r == 0; i++)
		if (strcmp(all.items[i].box.name, name) == 0)
			r = err_set(err, CORDON_ERR_INPUT, "the name '%s' is taken by sandbox %s", name, all.items[i].box.id);
	box_list_free(&all);
	return r;
}

/* Whoever gives a name holds this. Returns a descriptor; closing it unlocks. */
static int lock_names(struct store *s, struct cordon_error *err)
{
	_cleanup_fd_ int fd = openat(s->boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "cannot open the sandboxes");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(err, "cannot lock the sandboxes");
	return steal_fd(&fd);
}

static int fill_new_box(int dir, const struct box *b, struct cordon_error *err)
{
	if (fs_write_file(dir, BOX_LOCK, "", 0, 0600, err) < 0)
		return -1;
	if (mkdirat(dir, BOX_LOGS, 0700) < 0)
		return err_sys(err, "cannot make " BOX_LOGS);
	return record_write(dir, BOX_RECORD, &box_record, b, err);
}

/* It gets its name when it is complete. */
static int publish_box(struct store *s, const struct box *b, struct cordon_error *err)
{
	char temp[RECORD_TEMP_MAX];
	if (record_temp_name(temp, RECORD_TEMP, err) < 0)
		return -1;
	_cleanup_fd_ int dir = -1;
	if (mkdirat(s->boxes_fd, temp, 0700) < 0 || (dir = openat(s->boxes_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		err_sys(err, "cannot make its directory");
	else if (fill_new_box(dir, b, err) == 0) {
		if (renameat(s->boxes_fd, temp, s->boxes_fd, b->id) == 0)
			return fsync(s->boxes_fd) == 0 ? 0 : err_sys(err, "cannot write the directory of sandboxes to the disk");
		err_sys(err, "cannot name it");
	}
	fs_remove_tree(s->boxes_fd, temp, NULL);
	return -1;
}

int box_create(struct store *s, struct box *b, struct cordon_error *err)
{
	if (*b->name && box_check_name(b->name, err) < 0)
		return -1;
	id_new(b->id);
	b->created_ms = now_ms();
	_cleanup_fd_ int names = *b->name ? lock_names(s, err) : -1;
	if (*b->name && (names < 0 || check_name_is_free(s, b->name, err) < 0))
		return -1;
	_cleanup_fd_ int lock = store_lock(s, false, err);
	if (lock < 0 || check_head(s, b, err) < 0 || publish_box(s, b, err) < 0)
		return err_wrap(err, "cannot create a sandbox");
	return 0;
}

/* ---- the list ----------------------------------------------------------------------------------------------------------------- */

static int by_age(const void *a, const void *b)
{
	const struct box *x = &((const struct box_item *)a)->box, *y = &((const struct box_item *)b)->box;
	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* A box that was removed meanwhile is not added. */
static int add_box(struct store *s, const char *id, struct box_list *out, struct cordon_error *err)
{
	struct cordon_error why = {0};
	struct box_item *item = &out->items[out->count];
	int r = load_box(s, id, &item->box, &why);
	if (r == 0 || why.code == CORDON_ERR_INPUT) {
		item->damaged = r < 0;
		out->count++;
		return 0;
	}
	box_free(&item->box);
	if (why.code == CORDON_ERR_NOT_FOUND)
		return 0;
	if (err)
		*err = why;
	return -1;
}

int box_list(struct store *s, struct box_list *out, struct cordon_error *err)
{
	struct strlist names = {0};
	*out = (struct box_list){0};
	int r = store_list(s->boxes_fd, &names, err);
	if (r == 0 && !(out->items = calloc(names.count + 1, sizeof(*out->items))))
		r = err_sys(err, "cannot list the sandboxes");
	for (size_t i = 0; i < names.count && r == 0; i++)
		if (id_valid(names.items[i]))
			r = add_box(s, names.items[i], out, err);
	strlist_free(&names);
	if (r < 0)
		box_list_free(out);
	else
		qsort(out->items, out->count, sizeof(*out->items), by_age);
	return r;
}

void box_list_free(struct box_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		box_free(&l->items[i].box);
	free(l->items);
	*l = (struct box_list){0};
}

/* ---- locks -------------------------------------------------------------------------------------------------------------------- */

/* One line. Written before it is cut to its length, so that who reads meanwhile finds the new first line or the old one. */
static void say_who(int fd, const char *who)
{
	char line[WHO_MAX];
	int len = snprintf(line, sizeof(line) - 1, "%s", who);
	len = MIN(len, (int)sizeof(line) - 2);
	for (int i = 0; i < len; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = ' ';
	line[len++] = '\n';
	if (pwrite(fd, line, (size_t)len, 0) != len || ftruncate(fd, len) < 0)
		return; /* a full disk: the lock holds all the same, others are just not told whose it is */
}

static int refuse(int fd, const char *id, struct cordon_error *err)
{
	char line[WHO_MAX] = "";
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	err_set(err, CORDON_ERR_BUSY, "sandbox %s is busy: %s", id, *line ? line : "another process is working on it");
	return err_hint(err, "wait until it is done");
}

/* Who waited may hold the lock of a box that is gone now. */
static int check_still_there(struct store *s, int fd, const char *id, const char *path, struct cordon_error *err)
{
	struct stat locked, now;
	if (fstat(fd, &locked) < 0)
		return err_sys(err, "cannot examine the lock of sandbox %s", id);
	if (fstatat(s->boxes_fd, path, &now, AT_SYMLINK_NOFOLLOW) < 0 || now.st_dev != locked.st_dev || now.st_ino != locked.st_ino)
		return err_set(err, CORDON_ERR_NOT_FOUND, "sandbox %s was removed", id);
	return 0;
}

int box_lock(struct store *s, const char *id, const char *who, bool wait, struct cordon_error *err)
{
	char path[STORE_PATH_MAX];
	if (store_check_id(id, err) < 0)
		return -1;
	store_path(path, id, BOX_LOCK);
	_cleanup_fd_ int fd = openat(s->boxes_fd, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no sandbox %s", id);
	if (fd < 0)
		return err_sys(err, "cannot open the lock of sandbox %s", id);
	if (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0)
		return errno == EWOULDBLOCK ? refuse(fd, id, err) : err_sys(err, "cannot lock sandbox %s", id);
	if (check_still_there(s, fd, id, path, err) < 0)
		return -1;
	say_who(fd, who);
	return steal_fd(&fd);
}

int box_remove(struct store *s, const char *id, struct cordon_error *err)
{
	_cleanup_fd_ int lock = box_lock(s, id, "removal", false, err);
	if (lock < 0)
		return -1;
	if (store_retire(s->boxes_fd, id, err) < 0)
		return err_wrap(err, "cannot remove sandbox");
	if (fsync(s->boxes_fd) < 0)
		return err_sys(err, "cannot write the removal of sandbox %s to the disk", id);
	store_remove_gone(s->boxes_fd, id);
	return 0;
}
