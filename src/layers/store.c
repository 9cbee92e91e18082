/* SPDX-License-Identifier: Apache-2.0 */
/* The store itself, and the life of one layer: begun, sealed, renamed, dropped. */
#include "layers/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/id.h"
#include "base/util.h"
#include "layers/record.h"
#include "layers/store_parts.h"

_Static_assert(LAYER_ID_LEN == ID_LEN, "layers are named by ids");

const char *const layer_tree_names[TREE_ALL] = {[TREE_APP] = "app", [TREE_HOME] = "home", [TREE_ROOT] = "root"};

static const char *const kind_names[LAYER_KIND_COUNT] = {
	[LAYER_EXEC] = "exec", [LAYER_SNAPSHOT] = "snapshot", [LAYER_CHECKPOINT] = "checkpoint", [LAYER_FAILED] = "failed"};

static const struct record_key layer_keys[] = {
	{"id", RECORD_ID, offsetof(struct layer, id), 0, NULL},
	{"parent", RECORD_ID, offsetof(struct layer, parent), 0, NULL},
	{"over", RECORD_ID, offsetof(struct layer, over), 0, NULL},
	{"sandbox", RECORD_ID, offsetof(struct layer, sandbox), 0, NULL},
	{"kind", RECORD_WORD, offsetof(struct layer, kind), LAYER_KIND_COUNT, kind_names},
	{"created", RECORD_I64, offsetof(struct layer, created_ms), 0, NULL},
	{"exit", RECORD_INT, offsetof(struct layer, exit_code), 0, NULL},
	{"changes", RECORD_U64, offsetof(struct layer, changes), 0, NULL},
	{"bytes", RECORD_U64, offsetof(struct layer, bytes), 0, NULL},
	{"disk", RECORD_U64, offsetof(struct layer, disk), RECORD_LATER, NULL},
	{"name", RECORD_TEXT, offsetof(struct layer, name), 0, NULL},
	{"note", RECORD_TEXT, offsetof(struct layer, note), 0, NULL},
	{"command", RECORD_TEXT, offsetof(struct layer, command), 0, NULL},
};
static const struct record_kind layer_record = {"layer", layer_keys, ARRAY_SIZE(layer_keys)};

/* ---- the store ---------------------------------------------------------------------------------------------------------------- */

/* Whoever can write there could have us remove or mount something else. A sticky directory of root's (/tmp) protects what is ours in it. */
static int check_private(int fd, const char *path, bool parent, struct cordon_error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot examine %s", path);
	bool ours = st.st_uid == geteuid() || (parent && st.st_uid == 0);
	bool closed = !(st.st_mode & 022) || (parent && (st.st_mode & S_ISVTX));
	if (ours && closed)
		return 0;
	err_set(err, CORDON_ERR_DENIED, "%s belongs to or can be written by somebody else", path);
	return err_hint(err, "if it is yours, chmod go-w it; or set CORDON_HOME to a directory of your own");
}

static int open_part(int home, const char *home_path, const char *name, struct cordon_error *err)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", home_path, name);
	bool made = mkdirat(home, name, 0700) == 0;
	if (!made && errno != EEXIST) {
		err_sys(err, "cannot create %s", path);
		return err_hint(err, "set CORDON_HOME to a directory that you can write to");
	}
	_cleanup_fd_ int fd = openat(home, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "cannot open %s", path);
	if (check_private(fd, path, false, err) < 0)
		return -1;
	if (made)
		fs_spread(fd);
	return steal_fd(&fd);
}

int store_open(struct store *s, const char *home, struct cordon_error *err)
{
	*s = (struct store){.layers_fd = -1, .boxes_fd = -1};
	if (strlen(home) > 4000)
		return err_set(err, CORDON_ERR_INPUT, "CORDON_HOME is too long");
	int fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && fs_mkdirs(AT_FDCWD, home, 0700, err) < 0)
		return err_hint(err, "set CORDON_HOME to a directory that you can write to");
	_cleanup_fd_ int home_fd = fd >= 0 ? fd : open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return err_sys(err, "cannot open %s", home);
	s->home = strdup(home);
	if (!s->home)
		err_sys(err, "strdup");
	else if (check_private(home_fd, home, true, err) == 0 && (s->layers_fd = open_part(home_fd, home, "layers", err)) >= 0 &&
	         (s->boxes_fd = open_part(home_fd, home, "sandboxes", err)) >= 0)
		return 0;
	store_close(s);
	return -1;
}

void store_close(struct store *s)
{
	cleanup_fd(&s->layers_fd);
	cleanup_fd(&s->boxes_fd);
	free(s->home);
	*s = (struct store){.layers_fd = -1, .boxes_fd = -1};
}

int store_lock(struct store *s, bool exclusive, struct cordon_error *err)
{
	/* an open file description of its own: locks belong to those, see flock(2) */
	_cleanup_fd_ int fd = openat(s->layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "cannot open the layers");
	while (flock(fd, exclusive ? LOCK_EX : LOCK_SH) < 0)
		if (errno != EINTR)
			return err_sys(err, "cannot lock the layers");
	return steal_fd(&fd);
}

static bool is_full(int error)
{
	return error == ENOSPC || error == EDQUOT;
}

/* After a failure: what failed commands left to be looked at goes first. True if that is worth another try. */
static bool make_room(struct store *s, const struct cordon_error *why)
{
	return is_full(why->sys_errno) && store_collect(s, INT64_MAX, NULL) > 0;
}

int store_check_id(const char *id, struct cordon_error *err)
{
	return id_valid(id) ? 0 : err_set(err, CORDON_ERR_INPUT, "'%.40s' is not an id: 20 of a-z and 0-9", id ? id : "");
}

void store_path(char out[STORE_PATH_MAX], const char *id, const char *name)
{
	snprintf(out, STORE_PATH_MAX, "%s/%s", id, name);
}

/*
 * A new name may need a new block for the directory. What is to go has blocks to give; without it, it is garbage as before. Blocks that are free can be had when the
 * file system's journal says so, hence the sync.
 */
static bool give_blocks_back(int dirfd, const char *id)
{
	static const char *const bulky[] = {"app", "home", "root", "full", LAYER_FLAT, LAYER_WORK, "logs"};
	_cleanup_fd_ int dir = openat(dirfd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (size_t i = 0; dir >= 0 && i < ARRAY_SIZE(bulky); i++)
		fs_remove_tree(dir, bulky[i], NULL);
	return dir >= 0 && syncfs(dir) == 0;
}

int store_retire(int dirfd, const char *id, struct cordon_error *err)
{
	char gone[STORE_PATH_MAX];
	snprintf(gone, sizeof(gone), GONE "%s", id);
	int r = renameat(dirfd, id, dirfd, gone);
	if (r < 0 && is_full(errno) && give_blocks_back(dirfd, id)) {
		r = renameat(dirfd, id, dirfd, gone);
		if (r < 0 && is_full(errno)) /* killed in the middle of this, what is left of it counts as damaged, and is small */
			return fs_remove_tree(dirfd, id, err);
	}
	if (r == 0)
		return 0;
	return errno == ENOENT ? err_set(err, CORDON_ERR_NOT_FOUND, "%s does not exist", id) : err_sys(err, "cannot remove %s", id);
}

void store_remove_gone(int dirfd, const char *id)
{
	char gone[STORE_PATH_MAX];
	snprintf(gone, sizeof(gone), GONE "%s", id);
	fs_remove_tree(dirfd, gone, NULL); /* what is left is the next collection's */
}

/* ---- one layer ---------------------------------------------------------------------------------------------------------------- */

void layer_free(struct layer *l)
{
	free(l->name);
	free(l->note);
	free(l->command);
	*l = (struct layer){0};
}

int layer_open_dir(struct store *s, const char *id, struct cordon_error *err)
{
	if (store_check_id(id, err) < 0)
		return -1;
	int fd = openat(s->layers_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no layer %s", id);
	return fd >= 0 ? fd : err_sys(err, "cannot open layer %s", id);
}

int layer_load(struct store *s, const char *id, struct layer *out, struct cordon_error *err)
{
	char path[STORE_PATH_MAX];
	*out = (struct layer){0};
	if (store_check_id(id, err) < 0)
		return -1;
	int r = record_load(s->layers_fd, id, &layer_record, out, out->id, err);
	if (r <= 0)
		return r;
	store_path(path, id, LAYER_OPEN_MARK);
	if (faccessat(s->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, CORDON_ERR_NOT_FOUND, "layer %s is still open", id);
	return record_missing(s->layers_fd, id, &layer_record, err);
}

int layer_read(struct store *s, const char *id, struct layer *out, struct cordon_error *err)
{
	int r = layer_load(s, id, out, err);
	if (r < 0)
		layer_free(out);
	return r;
}

/* Modes are set afterwards, since the umask may be anything. */
static int make_tree(int dir, const char *name, uid_t owner, gid_t group)
{
	if (mkdirat(dir, name, 0755) < 0 || fchmodat(dir, name, 0755, 0) < 0)
		return -1;
	if (owner == geteuid() && group == getegid())
		return 0;
	return fchownat(dir, name, owner, group, AT_SYMLINK_NOFOLLOW);
}

/* overlayfs wants a working directory per mount; nobody inside ever sees it. */
static int make_work(int dir)
{
	char path[STORE_PATH_MAX];
	if (mkdirat(dir, LAYER_WORK, 0700) < 0)
		return -1;
	for (int i = 0; i < TREE_COUNT; i++) {
		store_path(path, LAYER_WORK, layer_tree_names[i]);
		if (mkdirat(dir, path, 0700) < 0)
			return -1;
	}
	return 0;
}

static int fill_new_layer(int dir, uid_t owner, gid_t group, const char *mark, struct cordon_error *err)
{
	for (int i = 0; i < TREE_COUNT; i++)
		if (make_tree(dir, layer_tree_names[i], owner, group) < 0)
			return err_sys(err, "cannot make %s", layer_tree_names[i]);
	if (make_work(dir) < 0)
		return err_sys(err, "cannot make " LAYER_WORK);
	return fs_write_file(dir, LAYER_OPEN_MARK, mark, strlen(mark), 0600, err);
}

/* It gets its name when it is complete: nobody ever sees one without its mark. */
static int begin_layer(struct store *s, uid_t owner, gid_t group, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	char temp[RECORD_TEMP_MAX], mark[RECORD_TEMP_MAX + 1];
	if (record_temp_name(temp, RECORD_TEMP, err) < 0)
		return err_wrap(err, "cannot begin a layer");
	snprintf(mark, sizeof(mark), "%s\n", temp + strlen(RECORD_TEMP));
	id_new(id);
	_cleanup_fd_ int dir = -1;
	if (mkdirat(s->layers_fd, temp, 0700) < 0 ||
	    (dir = openat(s->layers_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		err_sys(err, "cannot make its directory");
	else if (fill_new_layer(dir, owner, group, mark, err) == 0) {
		if (renameat(s->layers_fd, temp, s->layers_fd, id) == 0)
			return 0;
		err_sys(err, "cannot name it");
	}
	fs_remove_tree(s->layers_fd, temp, NULL);
	return err_wrap(err, "cannot begin a layer");
}

int layer_begin(struct store *s, uid_t owner, gid_t group, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	struct cordon_error why = {0};
	int r = begin_layer(s, owner, group, id, &why);
	if (r < 0 && make_room(s, &why))
		r = begin_layer(s, owner, group, id, &why);
	if (r < 0 && err)
		*err = why;
	return r;
}

int layer_add_root(struct store *s, const char *id, struct cordon_error *err)
{
	char path[STORE_PATH_MAX];
	_cleanup_fd_ int dir = layer_open_dir(s, id, err);
	if (dir < 0)
		return -1;
	store_path(path, LAYER_WORK, layer_tree_names[TREE_ROOT]);
	if (make_tree(dir, layer_tree_names[TREE_ROOT], geteuid(), getegid()) < 0 || mkdirat(dir, path, 0700) < 0)
		return err_sys(err, "cannot make %s of layer %s", layer_tree_names[TREE_ROOT], id);
	return 0;
}

static int check_can_seal(struct store *s, const struct layer *l, struct cordon_error *err)
{
	char path[STORE_PATH_MAX];
	if (store_check_id(l->id, err) < 0 || (*l->parent && store_check_id(l->parent, err) < 0) ||
	    (*l->sandbox && store_check_id(l->sandbox, err) < 0))
		return -1;
	if (l->kind >= LAYER_KIND_COUNT)
		return err_set(err, CORDON_ERR_INPUT, "there is no kind %u of layers", (unsigned)l->kind);
	if (strcmp(l->parent, l->id) == 0)
		return err_set(err, CORDON_ERR_INPUT, "it cannot stand on itself");
	store_path(path, l->id, LAYER_RECORD);
	if (faccessat(s->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, CORDON_ERR_INPUT, "it is sealed already");
	return 0;
}

static int seal_layer(struct store *s, const struct layer *l, struct cordon_error *err)
{
	if (check_can_seal(s, l, err) < 0)
		return err_wrap(err, "cannot seal layer %.40s", l->id);
	_cleanup_fd_ int dir = layer_open_dir(s, l->id, err);
	/* the contents first: once the record is there, the layer counts */
	if (dir < 0 || layer_sync(s, dir, err) < 0)
		return err_wrap(err, "cannot seal layer %s", l->id);
	if (record_write(dir, LAYER_RECORD, &layer_record, l, err) < 0) {
		unlinkat(dir, LAYER_RECORD, 0); /* it may be there, and only the directory could not be synced */
		return err_wrap(err, "cannot seal layer %s", l->id);
	}
	fs_remove_tree(dir, LAYER_WORK, NULL); /* what stays of these does no harm, and is the next collection's */
	unlinkat(dir, LAYER_OPEN_MARK, 0);
	return 0;
}

int layer_seal(struct store *s, const struct layer *l, struct cordon_error *err)
{
	struct cordon_error why = {0};
	int r = seal_layer(s, l, &why);
	if (r < 0 && make_room(s, &why))
		r = seal_layer(s, l, &why);
	if (r < 0 && err)
		*err = why;
	return r;
}

int layer_update(struct store *s, const struct layer *l, struct cordon_error *err)
{
	_cleanup_layer_ struct layer old = {0};
	if (layer_read(s, l->id, &old, err) < 0)
		return err_wrap(err, "cannot change layer %.40s", l->id);
	struct layer changed = old;
	changed.name = l->name;
	changed.note = l->note;
	changed.kind = l->kind;
	_cleanup_fd_ int dir = layer_open_dir(s, l->id, err);
	if (dir < 0 || record_write(dir, LAYER_RECORD, &layer_record, &changed, err) < 0)
		return err_wrap(err, "cannot change layer %s", l->id);
	return 0;
}

int layer_retire(struct store *s, const char *id, struct cordon_error *err)
{
	if (store_check_id(id, err) < 0 || store_retire(s->layers_fd, id, err) < 0)
		return err_wrap(err, "cannot drop a layer");
	return 0;
}

void layer_remove_retired(struct store *s, const char *id)
{
	store_remove_gone(s->layers_fd, id);
}

int layer_drop(struct store *s, const char *id, struct cordon_error *err)
{
	if (layer_retire(s, id, err) < 0)
		return -1;
	layer_remove_retired(s, id);
	return 0;
}
