/* SPDX-License-Identifier: Apache-2.0 */
/* Which changes are to be committed, what each of them takes, and on which file system. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/view_parts.h"

void commit_plan_free(struct plan *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->items[i].own_path);
	free(p->items);
	stages_free(&p->stages);
	autorun_free(p->autorun);
	*p = (struct plan){.dir = -1};
}

/* ---- items -------------------------------------------------------------------------------------------------------------------- */

static struct plan_item *add_item(struct plan *p, struct cordon_error *err)
{
	if (p->count == p->size) {
		size_t size = p->size ? p->size * 2 : 64;
		struct plan_item *more = realloc(p->items, size * sizeof(*more));
		if (!more) {
			err_set(err, CORDON_ERR_SYSTEM, "out of memory");
			return NULL;
		}
		p->items = more;
		p->size = size;
	}
	p->items[p->count] = (struct plan_item){0};
	return &p->items[p->count++];
}

/* strcmp() with a path that ends after len bytes. */
static int compare_path(const char *path, size_t len, const char *other)
{
	int r = strncmp(path, other, len);
	return r ? r : other[len] ? -1 : 0;
}

struct plan_item *plan_find(const struct plan *p, const char *path, size_t len)
{
	size_t low = 0, high = p->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int r = compare_path(path, len, p->items[middle].path);
		if (r == 0)
			return &p->items[middle];
		if (r < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct plan_item *)a)->path, ((const struct plan_item *)b)->path);
}

/* ---- selection ---------------------------------------------------------------------------------------------------------------- */

/* True if path is one of the list or below one. */
static bool covered(const char *path, const char *const *list)
{
	for (; list && *list; list++) {
		size_t n = strlen(*list);
		if (n == 0 || (strncmp(path, *list, n) == 0 && (path[n] == '\0' || path[n] == '/')))
			return true;
	}
	return false;
}

/* A new directory is needed for what is selected in it. */
static bool leads_to_selected(const struct change *c, const char *const *list)
{
	size_t n = strlen(c->path);
	if (!S_ISDIR(c->after) || S_ISDIR(c->before))
		return false;
	for (; *list; list++)
		if (strncmp(*list, c->path, n) == 0 && (*list)[n] == '/')
			return true;
	return false;
}

bool commit_selects(const struct change *c, const char *const *paths)
{
	return !paths || covered(c->path, paths) || leads_to_selected(c, paths);
}

static int select_changes(struct plan *p, struct cordon_error *err)
{
	const struct commit_request *r = p->r;
	for (size_t i = 0; i < r->changes->count; i++) {
		const struct change *c = &r->changes->items[i];
		if (!commit_selects(c, r->paths))
			continue;
		struct plan_item *item = add_item(p, err);
		if (!item)
			return -1;
		item->change = c;
		item->path = c->path;
		item->forced = (r->flags & COMMIT_FORCE) || covered(c->path, r->force);
	}
	return 0;
}

/* A path that neither side knows is a mistake; one that did not change is not. */
static int check_named(const struct commit_request *r, const char *const *list, struct cordon_error *err)
{
	struct view_entry before, after;
	for (; list && *list; list++) {
		if (!**list)
			continue;
		if (!path_is_clean(*list))
			return err_set(err, CORDON_ERR_INPUT, "%s: not a plain relative path", *list);
		if (view_stat(r->before, *list, &before, err) < 0 || view_stat(r->after, *list, &after, err) < 0)
			return -1;
		if (before.st.st_mode == 0 && after.st.st_mode == 0)
			return err_set(err, CORDON_ERR_NOT_FOUND, "%s: neither the sandbox nor the host has it", *list);
	}
	return 0;
}

/* ---- directories that a forced change needs ----------------------------------------------------------------------------------- */

static bool host_has_dir(int dir, const char *path, size_t len)
{
	_cleanup_free_ char *copy = strndup(path, len);
	_cleanup_fd_ int fd = copy ? path_open_dir(dir, copy, O_PATH) : -1;
	return fd >= 0;
}

static int add_missing_parent(struct plan *p, const char *path, size_t len, struct cordon_error *err)
{
	struct plan_item *item = add_item(p, err);
	if (!item)
		return -1;
	item->own_path = strndup(path, len);
	item->path = item->own_path;
	item->forced = true;
	if (!item->path) {
		p->count--;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return check_item(p, item, err);
}

/* The host deleted or replaced a directory in which a forced change is to be made. Items are sorted up to `known`. */
static int add_missing_parents(struct plan *p, struct cordon_error *err)
{
	size_t known = p->count;
	for (size_t i = 0; i < known; i++) {
		if (!p->items[i].forced || p->items[i].action != ACT_WRITE)
			continue;
		for (const char *path = p->items[i].path, *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
			size_t len = (size_t)(slash - path);
			struct plan sorted = {.items = p->items, .count = known};
			bool have = plan_find(&sorted, path, len) || host_has_dir(p->dir, path, len);
			for (size_t k = known; !have && k < p->count; k++)
				have = compare_path(path, len, p->items[k].path) == 0;
			if (!have && add_missing_parent(p, path, len, err) < 0)
				return -1;
		}
	}
	if (p->count)
		qsort(p->items, p->count, sizeof(*p->items), by_path);
	return 0;
}

/* ---- file systems ------------------------------------------------------------------------------------------------------------- */

/* Which mount a directory is on, and which device: files can be moved only within both (bind mounts, subvolumes). */
static int find_mount(int fd, uint64_t *mount, uint64_t *dev)
{
	char path[48], text[512];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fstat(fd, &st) < 0 || fs_read_small(AT_FDCWD, path, text, sizeof(text)) < 0)
		return -1;
	const char *id = strstr(text, "mnt_id:");
	if (!id || sscanf(id, "mnt_id: %" SCNu64, mount) != 1)
		return -1;
	*dev = (uint64_t)st.st_dev;
	return 0;
}

/* The mount of the directory path[0..len), or of the nearest above it that exists. Returns that one's length, or -1. */
static ssize_t existing_mount(int dir, char *path, size_t len, uint64_t *mount, uint64_t *dev)
{
	for (;;) {
		path[len] = '\0';
		_cleanup_fd_ int fd = path_open_dir(dir, path, O_PATH);
		if (fd >= 0)
			return find_mount(fd, mount, dev) < 0 ? -1 : (ssize_t)len;
		if (len == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP))
			return -1;
		char *slash = strrchr(path, '/');
		len = slash ? (size_t)(slash - path) : 0;
	}
}

/* The index of the stage with this mount, or a new one at the top of it. `path` is a directory on it. */
static ssize_t stage_for_mount(struct plan *p, char *path, size_t len, uint64_t mount, uint64_t dev)
{
	for (size_t i = 0; i < p->stages.count; i++)
		if (p->stages.items[i].mount == mount && p->stages.items[i].dev == dev)
			return (ssize_t)i;
	for (size_t above = len; above > 0;) {
		uint64_t other_mount, other_dev;
		char *slash = memrchr(path, '/', above);
		above = slash ? (size_t)(slash - path) : 0;
		char cut = path[above];
		ssize_t r = existing_mount(p->dir, path, above, &other_mount, &other_dev);
		path[above] = cut;
		if (r < 0)
			return -1;
		if (other_mount != mount || other_dev != dev)
			break;
		len = above;
	}
	struct stage *s = stages_add(&p->stages, strndup(path, len), 0);
	if (!s)
		return -1;
	s->mount = mount;
	s->dev = dev;
	return (ssize_t)p->stages.count - 1;
}

static int find_stage(struct plan *p, struct plan_item *item, const struct plan_item *previous, struct cordon_error *err)
{
	uint64_t mount, dev;
	const char *slash = strrchr(item->path, '/');
	size_t len = slash ? (size_t)(slash - item->path) : 0;
	if (len == 0)
		return 0;
	if (previous && strncmp(item->path, previous->path, len + 1) == 0 && !strchr(previous->path + len + 1, '/')) {
		item->stage = previous->stage; /* in the same directory */
		return 0;
	}
	_cleanup_free_ char *path = strndup(item->path, len);
	ssize_t there = path ? existing_mount(p->dir, path, len, &mount, &dev) : -1;
	ssize_t stage = there < 0 ? -1 : stage_for_mount(p, path, (size_t)there, mount, dev);
	if (stage < 0)
		return err_sys(err, "cannot find the file system of %s", item->path);
	item->stage = (size_t)stage;
	return 0;
}

static int find_stages(struct plan *p, struct cordon_error *err)
{
	const struct plan_item *previous = NULL;
	struct stage *own = stages_add(&p->stages, strdup(""), 0);
	if (!own)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (find_mount(p->dir, &own->mount, &own->dev) < 0)
		return err_sys(err, "cannot find the directory's file system");
	for (size_t i = 0; i < p->count; i++) {
		if (p->items[i].action == ACT_NOTHING) /* whatever else is done, its file system is one to be synced */
			continue;
		if (find_stage(p, &p->items[i], previous, err) < 0)
			return -1;
		previous = &p->items[i];
	}
	return 0;
}

/* ---- the plan ----------------------------------------------------------------------------------------------------------------- */

int plan_make(struct plan *p, struct cordon_error *err)
{
	if (check_named(p->r, p->r->paths, err) < 0 || check_named(p->r, p->r->force, err) < 0 || select_changes(p, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++)
		if (check_item(p, &p->items[i], err) < 0)
			return -1;
	if (add_missing_parents(p, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++)
		if (check_emptied(p, &p->items[i], err) < 0)
			return -1;
	return p->report->problem_count ? 0 : find_stages(p, err);
}

int plan_recheck(struct plan *p, struct cordon_error *err)
{
	for (size_t i = 0; i < p->count; i++) {
		struct identity now;
		if (identity_now(p->dir, p->items[i].path, &now, err) < 0)
			return -1;
		if (!p->items[i].forced && !identity_equal(&now, &p->items[i].now) &&
		    report_problem(p->report, REFUSED_CONFLICT, p->items[i].path, "changed on the host during the commit", err) < 0)
			return -1;
	}
	return 0;
}
