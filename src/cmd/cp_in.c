/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into a stopped sandbox: a layer of its own, made as overlayfs would have made it. A directory that is there below is made again with the same
 * properties and merges; what is new belongs to the sandbox's user. The layer counts from the moment it is sealed: whatever goes wrong before, nothing happened.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/cp.h"
#include "layers/copy.h"

struct in {
	const struct view *below; /* what the sandbox shows without this layer */
	int upper;                /* the layer's tree */
	uid_t owner;
	gid_t group;
	const char *place; /* where the source goes */
	struct copy_links *links;
	struct strlist dirs;    /* made in the layer, parents first; their properties are set at the end */
	struct strlist sources; /* "" for one that is there below, else "MODE SECONDS NANOSECONDS" of the source */
	uint64_t *files;
};

/* ---- directories ------------------------------------------------------------------------------------------------------------- */

static int note_directory(struct in *in, const char *path, const struct stat *source, struct cordon_error *err)
{
	char text[96] = "";

	if (source)
		snprintf(text, sizeof(text), "%o %lld %ld", (unsigned)source->st_mode & 07777, (long long)source->st_mtim.tv_sec,
		         source->st_mtim.tv_nsec);
	return strlist_add(&in->dirs, path, err) < 0 || strlist_add(&in->sources, text, err) < 0 ? -1 : 0;
}

/* source: NULL where it must be there below. */
static int make_directory(struct in *in, const char *path, const struct stat *source, struct cordon_error *err)
{
	struct view_entry e;
	const char *base;

	if (view_stat(in->below, path, &e, err) < 0)
		return -1;
	if (e.st.st_mode && !S_ISDIR(e.st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "%.300s is no directory in the sandbox", path);
	_cleanup_fd_ int parent = path_open_parent(in->upper, path, &base);
	if (parent < 0 || mkdirat(parent, base, 0700) < 0)
		return err_sys(err, "cannot make %s", path);
	return note_directory(in, path, e.st.st_mode ? NULL : source, err);
}

/* Those above the place: they are there below, as cp_place() has seen. */
static int make_parents(struct in *in, struct cordon_error *err)
{
	_cleanup_free_ char *path = strdup(in->place);

	if (!path)
		return err_sys(err, "cp");
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int r = make_directory(in, path, NULL, err);
		*slash = '/';
		if (r < 0)
			return -1;
	}
	return 0;
}

static int finish_new(const struct in *in, int fd, const char *text)
{
	unsigned mode = 0;
	long long seconds = 0;
	long nanoseconds = 0;

	if (sscanf(text, "%o %lld %ld", &mode, &seconds, &nanoseconds) != 3) {
		errno = EINVAL;
		return -1;
	}
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)seconds, .tv_nsec = nanoseconds}};
	if (geteuid() == 0 && fchown(fd, in->owner, in->group) < 0)
		return -1;
	return fchmod(fd, mode & 0777) < 0 || futimens(fd, times) < 0 ? -1 : 0;
}

/* Backwards, so that a directory gets its time after what is in it was made. */
static int finish_directories(const struct in *in, struct cordon_error *err)
{
	for (size_t i = in->dirs.count; i > 0; i--) {
		const char *path = in->dirs.items[i - 1], *base;
		_cleanup_fd_ int parent = path_open_parent(in->upper, path, &base);
		_cleanup_fd_ int fd = parent < 0 ? -1 : openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct view_entry e;

		if (fd < 0)
			return err_sys(err, "%s", path);
		if (in->sources.items[i - 1][0]) {
			if (finish_new(in, fd, in->sources.items[i - 1]) < 0)
				return err_sys(err, "%s", path);
			continue;
		}
		if (view_stat(in->below, path, &e, err) < 0)
			return -1;
		_cleanup_fd_ int was = view_open_entry(in->below, path, &e, err);
		if (was < 0 || copy_dir_meta(was, fd, COPY_OWNER_MAY_FAIL, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

static int make_file(struct in *in, const char *path, int dir, const char *name, struct cordon_error *err)
{
	struct view_entry e;
	const char *base;

	if (view_stat(in->below, path, &e, err) < 0)
		return -1;
	if (S_ISDIR(e.st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "%.300s is a directory in the sandbox", path);
	_cleanup_fd_ int parent = path_open_parent(in->upper, path, &base);
	if (parent < 0)
		return err_sys(err, "%s", path);
	if (copy_entry(dir, name, parent, base, COPY_OWNER_MAY_FAIL, in->links, err) < 0)
		return -1;
	if (geteuid() == 0 && fchownat(parent, base, in->owner, in->group, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "%s", path);
	++*in->files;
	return 0;
}

static int put_entry(void *user, const char *path, int dir, const char *base, const struct stat *st, struct cordon_error *err)
{
	struct in *in = user;
	_cleanup_free_ char *to = NULL;

	if (asprintf(&to, "%s%s%s", in->place, *in->place && *path ? "/" : "", path) < 0) {
		to = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	if (S_ISDIR(st->st_mode))
		return *to ? make_directory(in, to, st, err) : 0; /* the top is there */
	if (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode) || S_ISFIFO(st->st_mode))
		return make_file(in, to, dir, base, err);
	return *path ? 0 : err_set(err, CORDON_ERR_INPUT, "%s is neither a file nor a directory", base);
}

static int fill(struct in *in, int dir, const char *name, struct cordon_error *err)
{
	const struct cp_walk walk = {put_entry, in};

	if (make_parents(in, err) < 0 || cp_walk(dir, name, &walk, err) < 0)
		return -1;
	return finish_directories(in, err);
}

/* ---- the layer --------------------------------------------------------------------------------------------------------------- */

static int open_tree(const struct live *l, const char *layer, enum layer_tree tree, struct in *in, struct cordon_error *err)
{
	char path[LAYER_ID_LEN + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", layer, layer_tree_names[tree]);
	in->upper = openat(l->store.layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in->upper < 0 || fstat(in->upper, &st) < 0)
		return err_sys(err, "cannot open the layer");
	in->owner = st.st_uid;
	in->group = st.st_gid;
	return 0;
}

static int fill_layer(struct live *l, const char *layer, const char *from, const struct cp_inside *to, uint64_t *files,
                      struct cordon_error *err)
{
	_cleanup_view_ struct view below = {0};
	_cleanup_free_ char *place = NULL;
	_cleanup_fd_ int dir = -1;
	char name[NAME_MAX + 1];
	struct cp_source source = {0};
	struct in in = {.below = &below, .upper = -1, .files = files};
	int r = -1;

	if (cp_open_source(from, &dir, name, &source, err) < 0 || tree_view(l, to->tree, &below, err) < 0 ||
	    cp_place(&below, &source, to, &place, err) < 0)
		return -1;
	in.place = place;
	in.links = copy_links_new();
	if (!in.links)
		err_sys(err, "cp");
	else if (open_tree(l, layer, to->tree, &in, err) == 0)
		r = fill(&in, dir, name, err);
	copy_links_free(in.links);
	cleanup_fd(&in.upper);
	strlist_free(&in.dirs);
	strlist_free(&in.sources);
	return r;
}

int cp_in(struct live *l, const char *from, const struct cp_inside *to, const char *command, uint64_t *files, struct cordon_error *err)
{
	struct layer meta = {.kind = LAYER_EXEC, .exit_code = 0, .command = (char *)(uintptr_t)command};
	struct changes changes = {0};
	char id[LAYER_ID_LEN + 1];

	memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
	if (live_begin_layer(l, id, err) < 0)
		return -1;
	if (fill_layer(l, id, from, to, files, err) < 0) {
		layer_drop(&l->store, id, NULL);
		return -1;
	}
	/* from here on the record may name the layer, whatever is reported: what it does not name is collected */
	memcpy(l->box.open, id, sizeof(id));
	int r = live_turn_over(l, true, &meta, &changes, err);
	changes_free(&changes);
	return r;
}
