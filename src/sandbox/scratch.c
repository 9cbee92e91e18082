/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/owner.h"

#define MAX_SWEEP 256
#define MAX_REMOVALS 3
#define STOCK "spare"
#define PROBES 4 /* a coarse clock ticks between two calls once in a thousand times */

static const char *const places[SCRATCH_PLACES] = {[SCRATCH_SMALL] = "scratch", [SCRATCH_LAYERS] = "overlays"};
static const char *const trees[SCRATCH_TREES] = {"app", "home"};

/* ---- places ------------------------------------------------------------------------------------------------------------------ */

static void remove_common(int at, struct scratch *s)
{
	for (size_t i = 0; s->fd >= 0 && i < SCRATCH_TREES; i++)
		unlinkat(s->fd, trees[i], AT_REMOVEDIR);
	unlinkat(at, s->name, AT_REMOVEDIR);
	cleanup_fd(&s->fd);
	s->fd = -1;
}

/* Names are ours alone, so nothing is replaced. What does not fit is removed. */
static void put_away(struct scratch_host *h)
{
	unsigned room = h->stock_fd < 0 ? 0 : SCRATCH_SPARES;
	int fd = room ? openat(h->stock_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *e; dir && room && (e = readdir(dir));)
		room -= e->d_name[0] != '.';
	while (h->spare_count) {
		struct scratch *s = &h->spares[--h->spare_count];
		if (dir && room && renameat(h->fds[s->place], s->name, h->stock_fd, s->name) == 0) {
			room--;
		} else {
			s->fd = openat(h->fds[s->place], s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			remove_common(h->fds[s->place], s);
		}
	}
	cleanup_fd(&h->stock_fd);
	h->stock_fd = -1;
	h->stock_count = 0;
}

static void open_stock(struct scratch_host *h)
{
	char path[4096];
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", h->home, STOCK) >= sizeof(path))
		return;
	struct stat st;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return;
	h->stock_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (h->stock_fd >= 0 && (fstat(h->stock_fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))) { /* as in open_place() */
		cleanup_fd(&h->stock_fd);
		h->stock_fd = -1;
	}
	int fd = h->stock_fd < 0 ? -1 : openat(h->stock_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *e; dir && h->stock_count < SCRATCH_SPARES && (e = readdir(dir));)
		if (e->d_name[0] != '.' && strlen(e->d_name) < SCRATCH_NAME_MAX)
			memcpy(h->stock[h->stock_count++], e->d_name, strlen(e->d_name) + 1);
}

static int set_home(struct scratch_host *h, const char *home, struct cordon_error *err)
{
	if (h->home && strcmp(h->home, home) == 0)
		return 0;
	put_away(h);
	for (int i = 0; i < SCRATCH_PLACES; i++) {
		cleanup_fd(&h->fds[i]);
		h->fds[i] = -1;
	}
	h->swept = h->tried = h->tells = false;
	free(h->home);
	h->home = strdup(home);
	return h->home ? 0 : err_sys(err, "strdup");
}

/* Whether each of two changes that follow one another at once is seen (multigrain timestamps, Linux 6.13). */
static bool probe_times(int at, const char *name)
{
	struct stat before, after;
	if (mkdirat(at, name, 0700) < 0)
		return false;
	bool tells = fstatat(at, name, &before, AT_SYMLINK_NOFOLLOW) == 0;
	for (int i = 0; tells && i < PROBES; i++, before = after)
		tells = fchmodat(at, name, i % 2 ? 0700 : 0711, 0) == 0 && fstatat(at, name, &after, AT_SYMLINK_NOFOLLOW) == 0 &&
		        (before.st_ctim.tv_sec != after.st_ctim.tv_sec || before.st_ctim.tv_nsec != after.st_ctim.tv_nsec);
	unlinkat(at, name, AT_REMOVEDIR);
	return tells;
}

static int open_place(struct scratch_host *h, enum scratch_place place, bool make, struct cordon_error *err)
{
	char path[4096];
	if (h->fds[place] >= 0)
		return 0;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", h->home, places[place]) >= sizeof(path))
		return err_set(err, CORDON_ERR_INPUT, "CORDON_HOME is too long");
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && make) {
		if (fs_mkdirs(AT_FDCWD, path, 0700, err) < 0)
			return err_hint(err, "set CORDON_HOME to a directory that you can write to");
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		err_sys(err, "cannot open %s", path);
		return err_hint(err, "set CORDON_HOME to a directory that you can write to");
	}
	if (st.st_uid != geteuid() || (st.st_mode & 022)) { /* whoever can write there could lead clean-up astray */
		err_set(err, CORDON_ERR_DENIED, "%s belongs to or can be written by somebody else", path);
		return err_hint(err, "if it is yours, chmod go-w it; or set CORDON_HOME to a directory of your own");
	}
	if (place == SCRATCH_LAYERS)
		fs_spread(fd);
	h->fds[place] = steal_fd(&fd);
	return 0;
}

int scratch_open(struct scratch_host *h, const char *home, enum scratch_place place, struct cordon_error *err)
{
	return set_home(h, home, err) < 0 || open_place(h, place, true, err) < 0 ? -1 : 0;
}

/* Not for the first sandbox: who makes only one is better off without. */
static void begin_to_keep(struct scratch_host *h, const char *stamp)
{
	char name[SCRATCH_NAME_MAX];
	h->tried = true;
	snprintf(name, sizeof(name), "%s.0", stamp);
	h->tells = probe_times(h->fds[SCRATCH_SMALL], name);
	if (h->tells)
		open_stock(h);
}

/* ---- one sandbox's ----------------------------------------------------------------------------------------------------------- */

static int make_dir(int at, const char *name, mode_t mode, const struct idmap *ids, uid_t uid, gid_t gid, struct cordon_error *err)
{
	if (mkdirat(at, name, mode) < 0)
		return err_sys(err, "cannot create scratch directory %s", name);
	if (ids->mode != IDMAP_SELF && fchownat(at, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, "cannot give scratch directory %s away", name);
	return 0;
}

const struct string_list *scratch_layers(const struct setup_op *op)
{
	if (op->kind == OP_ROOT)
		return op->over.count ? &op->over : NULL;
	return op->kind == OP_LAYERED ? &op->layers : NULL;
}

/* On disk, layers have the ids of the directory they stand on: what is written there looks as if it had been written on the host. */
static int make_layer(const struct setup_op *op, const struct idmap *ids, int at, struct cordon_error *err)
{
	const struct string_list *layers = scratch_layers(op);
	uid_t uid = idmap_host_id(ids, ids->uid);
	gid_t gid = idmap_host_id(ids, ids->gid);
	struct stat st;
	if (ids->mode == IDMAP_RANGE && op->source && stat(op->source, &st) == 0) {
		uid = st.st_uid;
		gid = st.st_gid;
	}
	if (op->kind == OP_ROOT) /* root's, as the image's own top is */
		uid = gid = 0;
	if (make_dir(at, layers->items[LAYERED_UPPER], 0755, ids, uid, gid, err) < 0)
		return -1;
	return make_dir(at, layers->items[LAYERED_WORK], 0700, ids, uid, gid, err);
}

static bool in_scratch(const struct setup_op *op)
{
	const struct string_list *layers = scratch_layers(op);
	return layers && !*layers->items[LAYERED_STAGE];
}

enum scratch_place scratch_choose(const struct sandbox_spec *spec)
{
	for (uint32_t i = 0; i < spec->op_count; i++)
		if (in_scratch(&spec->ops[i]))
			return SCRATCH_LAYERS;
	return SCRATCH_SMALL;
}

/*
 * Whether the spec wants all of `trees` and nothing else. With a mount that the caller named there may be a socket in it, through which a descriptor of one of the trees gets out and
 * outlives the sandbox.
 */
static bool is_common(const struct sandbox_spec *spec)
{
	unsigned set = 0;
	for (uint32_t i = 0; i < spec->op_count; i++) {
		size_t t = 0;
		if (in_scratch(&spec->ops[i]) || (spec->ops[i].flags & OP_CHECKED))
			return false;
		if (spec->ops[i].kind != OP_SCRATCH)
			continue;
		while (t < SCRATCH_TREES && strcmp(trees[t], spec->ops[i].source) != 0)
			t++;
		if (t == SCRATCH_TREES)
			return false;
		set |= 1U << t;
	}
	return set == (1U << SCRATCH_TREES) - 1;
}

/* From now on its trees belong to others. Their times are set anew, so that nothing of an earlier sandbox shows. */
static bool hand_over(struct scratch *s, uid_t user, gid_t group)
{
	for (size_t i = 0; i < SCRATCH_TREES; i++)
		if (fchownat(s->fd, trees[i], user, group, AT_SYMLINK_NOFOLLOW) < 0 ||
		    utimensat(s->fd, trees[i], NULL, AT_SYMLINK_NOFOLLOW) < 0 ||
		    fstatat(s->fd, trees[i], &s->made[i], AT_SYMLINK_NOFOLLOW) < 0)
			return false;
	return true;
}

/* The stock is ours alone, and what lies in it was as it had been made. But a look is cheap, and who else is root or this user may have been there. */
static bool is_unspoilt(const struct scratch *s)
{
	struct stat top;
	if (fstat(s->fd, &top) < 0 || top.st_uid != geteuid() || (top.st_mode & 022))
		return false;
	for (size_t i = 0; i < SCRATCH_TREES; i++) {
		int fd = openat(s->fd, trees[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
		struct stat st;
		if (!dir || fstat(fd, &st) < 0 || (st.st_mode & 07777) != 0755)
			return false;
		for (struct dirent *e; (e = readdir(dir));)
			if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
				return false;
	}
	return true;
}

static bool take_from_stock(struct scratch_host *h, struct scratch *s)
{
	while (h->stock_count) {
		const char *name = h->stock[--h->stock_count];
		if (renameat(h->stock_fd, name, h->fds[SCRATCH_SMALL], s->name) < 0)
			continue; /* somebody else was faster */
		s->fd = openat(h->fds[SCRATCH_SMALL], s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (s->fd >= 0 && is_unspoilt(s))
			return true;
		cleanup_fd(&s->fd);
		s->fd = -1;
		fs_remove_tree(h->fds[SCRATCH_SMALL], s->name, NULL);
	}
	return false;
}

/* A serial number, not the sandbox's id: the name shows inside (/proc/self/mountinfo), and another sandbox may have had it. */
void scratch_take(struct scratch_host *h, const char *stamp, const struct sandbox_spec *spec, const struct idmap *ids, struct scratch *out)
{
	const bool self = ids->mode == IDMAP_SELF;
	const uid_t user = self ? ids->own_uid : idmap_host_id(ids, ids->uid);
	const gid_t group = self ? ids->own_gid : idmap_host_id(ids, ids->gid);
	*out = (struct scratch){.place = scratch_choose(spec), .fd = -1};
	if (out->place == SCRATCH_SMALL && h->serial && !h->tried)
		begin_to_keep(h, stamp);
	out->common = h->tells && out->place == SCRATCH_SMALL && is_common(spec);
	while (out->common && h->spare_count) {
		*out = h->spares[--h->spare_count];
		out->fd = openat(h->fds[out->place], out->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (out->fd >= 0 && hand_over(out, user, group))
			return;
		remove_common(h->fds[out->place], out);
	}
	do /* a stamp can come back with the machine, after a power loss, before what it was on was swept */
		snprintf(out->name, sizeof(out->name), "%s.%lu", stamp, ++h->serial);
	while (faccessat(h->fds[out->place], out->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	if (out->common && take_from_stock(h, out) && !hand_over(out, user, group))
		remove_common(h->fds[out->place], out);
}

int scratch_path(const struct scratch_host *h, const struct scratch *s, char path[static 4096])
{
	return (size_t)snprintf(path, 4096, "%s/%s/%s", h->home, places[s->place], s->name) < 4096 ? 0 : -1;
}

/* With a sub-directory for each tree that some operation asks for. */
static int make_new(struct scratch_host *h, const struct sandbox_spec *spec, const struct idmap *ids, struct scratch *s,
                    struct cordon_error *err)
{
	const int at = h->fds[s->place];
	const uid_t user = idmap_host_id(ids, ids->uid);
	const gid_t group = idmap_host_id(ids, ids->gid);
	if (mkdirat(at, s->name, 0711) < 0) /* to be passed through from inside; the directory above is ours alone */
		return err_sys(err, "cannot create scratch directory %s", s->name);
	s->fd = openat(at, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0)
		return err_sys(err, "cannot open scratch directory %s", s->name);
	for (uint32_t i = 0; i < spec->op_count; i++) {
		const struct setup_op *op = &spec->ops[i];
		if (op->kind == OP_SCRATCH && make_dir(s->fd, op->source, 0755, ids, user, group, err) < 0)
			return -1;
		if (in_scratch(op) && make_layer(op, ids, s->fd, err) < 0)
			return -1;
	}
	return 0;
}

int scratch_make(struct scratch_host *h, const struct sandbox_spec *spec, const struct idmap *ids, struct scratch *s,
                 struct cordon_error *err)
{
	if (s->fd >= 0)
		return 0;
	if (make_new(h, spec, ids, s, err) < 0)
		return -1;
	for (size_t i = 0; s->common && i < SCRATCH_TREES; i++)
		if (fstatat(s->fd, trees[i], &s->made[i], AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(err, "cannot look at scratch directory %s", trees[i]);
	return 0;
}

/* ---- the end ----------------------------------------------------------------------------------------------------------------- */

static bool is_as_made(const struct scratch *s)
{
	for (size_t i = 0; i < SCRATCH_TREES; i++) {
		const struct stat *then = &s->made[i];
		struct stat now;
		if (!then->st_ino || fstatat(s->fd, trees[i], &now, AT_SYMLINK_NOFOLLOW) < 0 || now.st_ino != then->st_ino ||
		    now.st_dev != then->st_dev || now.st_ctim.tv_sec != then->st_ctim.tv_sec ||
		    now.st_ctim.tv_nsec != then->st_ctim.tv_nsec)
			return false;
	}
	return true;
}

/* Most sandboxes leave nothing or a few files; more than that is not worth stopping the launcher for. */
bool scratch_remove(struct scratch_host *h, struct scratch *s)
{
	static const char *const names[] = {"app", "home", "upper", "work/work", "work", "root", "root-work/work", "root-work"};
	const int at = h->fds[s->place];
	if (s->remover)
		return false;
	if (!s->name[0])
		return true;
	if (s->common && h->spare_count < SCRATCH_SPARES && s->fd >= 0 && is_as_made(s)) {
		cleanup_fd(&s->fd); /* each of them would have to be closed by each child */
		s->fd = -1;
		h->spares[h->spare_count++] = *s;
		return true;
	}
	for (size_t i = 0; s->fd >= 0 && i < ARRAY_SIZE(names); i++)
		unlinkat(s->fd, names[i], AT_REMOVEDIR);
	if (unlinkat(at, s->name, AT_REMOVEDIR) == 0 || errno == ENOENT || s->removals++ == MAX_REMOVALS) {
		cleanup_fd(&s->fd); /* or something is wrong with the disk; a later launcher's sweep may have more luck */
		s->fd = -1;
		return true;
	}
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NAME, "cordon-rm", 0, 0, 0);
		int keep[] = {at};
		confine_close_except(keep, ARRAY_SIZE(keep));
		_exit(fs_remove_tree(at, s->name, NULL) < 0);
	}
	s->remover = MAX(pid, 0);
	return false;
}

static void sweep_place(int at)
{
	int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	for (int n = 0; dir && n < MAX_SWEEP && (e = readdir(dir));)
		if (owner_is_dead(e->d_name)) {
			fs_remove_tree(at, e->d_name, NULL);
			n++;
		}
}

void scratch_sweep(struct scratch_host *h)
{
	put_away(h);
	if (!h->home || h->swept)
		return;
	h->swept = true;
	for (int i = 0; i < SCRATCH_PLACES; i++)
		if (open_place(h, (enum scratch_place)i, false, NULL) == 0)
			sweep_place(h->fds[i]);
}
