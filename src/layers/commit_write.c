/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's files into their stages, and its steps into a manifest. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/view_parts.h"

/* ---- staging ------------------------------------------------------------------------------------------------------------------ */

/* Directories come empty: what is in them is moved there on its own. Their mode and times follow at the end. */
static int stage_item(struct plan *p, size_t number, unsigned flags, struct copy_links *links, struct cordon_error *err)
{
	const struct plan_item *item = &p->items[number];
	int files = p->stages.items[item->stage].files;
	char name[24];
	const char *base;
	snprintf(name, sizeof(name), "%zu", number);
	if (S_ISDIR(item->after))
		return mkdirat(files, name, 0700) < 0 ? err_sys(err, "cannot create a directory for %s", item->path) : 0;
	_cleanup_fd_ int parent = path_open_parent(p->r->after->fds[item->layer], item->path, &base);
	if (parent < 0)
		return err_sys(err, "cannot open the directory of %s in the sandbox", item->path);
	return copy_entry(parent, base, files, name, flags, links, err) < 0 ? err_wrap(err, "cannot copy %s", item->path) : 0;
}

static int stage_items(struct plan *p, unsigned flags, struct copy_links *links, struct cordon_error *err)
{
	uint64_t done = 0, total = 0;
	for (size_t i = 0; i < p->count; i++)
		total += p->items[i].action == ACT_WRITE ? p->items[i].bytes : 0;
	for (size_t i = 0; i < p->count; i++) {
		if (p->items[i].action != ACT_WRITE)
			continue;
		if (stage_item(p, i, flags, links, err) < 0)
			return -1;
		done += p->items[i].bytes;
		if (p->r->progress)
			p->r->progress(p->r->user, done, total);
	}
	return 0;
}

int plan_stage(struct plan *p, struct cordon_error *err)
{
	struct copy_links *links = copy_links_new();
	if (!links)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	int r = stage_items(p, geteuid() ? COPY_OWNER_MAY_FAIL : 0, links, err);
	copy_links_free(links);
	return r;
}

/* ---- removals and moves ------------------------------------------------------------------------------------------------------- */

static void add_removals(const struct plan *p, struct buf *out)
{
	for (size_t i = p->count; i-- > 0;) { /* what is in a directory comes after it, so from the end */
		const struct plan_item *item = &p->items[i];
		bool clash = item->action == ACT_WRITE && item->host && S_ISDIR(item->host) != S_ISDIR(item->after);
		if (item->action != ACT_DELETE && !clash)
			continue;
		if (!S_ISDIR(item->host))
			manifest_step(out, STEP_UNLINK, item->path);
		else
			manifest_step(out, item->tree ? STEP_TREE : STEP_RMDIR, item->path);
	}
}

static int add_meta(const struct plan *p, const struct plan_item *item, struct buf *out, struct cordon_error *err)
{
	_cleanup_file_meta_ struct file_meta meta = {0};
	struct view_entry e = {.layer = item->layer, .st = {.st_mode = item->after}};
	_cleanup_fd_ int fd = view_open_entry(p->r->after, item->path, &e, err);
	if (fd < 0 || file_meta_read(fd, item->path, 0, &meta, err) < 0)
		return -1;
	manifest_meta(out, item->path, &meta);
	for (size_t i = 0; i < p->stages.count; i++)
		if (strcmp(p->stages.items[i].top, item->path) == 0)
			p->stages.items[i].after = timespec_ns(meta.mtime);
	return 0;
}

static int add_moves(const struct plan *p, struct buf *out, struct cordon_error *err)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->items[i].action == ACT_WRITE)
			manifest_move(out, p->items[i].stage, i, p->items[i].path);
	for (size_t i = 0; i < p->count; i++)
		if (p->items[i].action == ACT_META && !S_ISDIR(p->items[i].after) && add_meta(p, &p->items[i], out, err) < 0)
			return -1;
	return 0;
}

/* ---- directories, last -------------------------------------------------------------------------------------------------------- */

/* A directory that gets its mode and times at the end: since it is new or changed (item), or only because something in it is. */
struct final_dir {
	const char *path; /* its first len bytes */
	size_t len;
	const struct plan_item *item;
};

static int deepest_first(const void *a, const void *b)
{
	const struct final_dir *x = a, *y = b;
	int r = strncmp(y->path, x->path, MIN(x->len, y->len));
	if (r == 0)
		r = x->len < y->len ? 1 : x->len > y->len ? -1 : 0;
	return r ? r : (y->item != NULL) - (x->item != NULL);
}

static size_t collect_dirs(const struct plan *p, struct final_dir *out)
{
	size_t n = 0, kept = 0;
	for (size_t i = 0; i < p->count; i++) {
		const struct plan_item *item = &p->items[i];
		const char *slash = strrchr(item->path, '/');
		size_t len = slash ? (size_t)(slash - item->path) : 0;
		if (S_ISDIR(item->after) && (item->action == ACT_WRITE || item->action == ACT_META))
			out[n++] = (struct final_dir){item->path, strlen(item->path), item};
		if (item->action != ACT_WRITE && item->action != ACT_DELETE)
			continue;
		const struct plan_item *parent = len ? plan_find(p, item->path, len) : NULL;
		if (!parent || S_ISDIR(parent->after)) /* else it goes, too */
			out[n++] = (struct final_dir){item->path, len, NULL};
	}
	qsort(out, n, sizeof(*out), deepest_first);
	for (size_t i = 0; i < n; i++) /* of the same path, the one with an item comes first */
		if (kept == 0 || out[i].len != out[kept - 1].len || strncmp(out[i].path, out[kept - 1].path, out[i].len) != 0)
			out[kept++] = out[i];
	return kept;
}

/* Whether names came or went directly in DIR, as the sandbox saw it. */
static bool top_changed(const struct plan *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct plan_item *item = &p->items[i];
		if ((item->action == ACT_WRITE || item->action == ACT_DELETE) && !strchr(item->path, '/') &&
		    (item->host & S_IFMT) != (item->after & S_IFMT))
			return true;
	}
	return false;
}

/* The time a directory should have: the sandbox's, if it wrote to it, else what it had. */
static int final_mtime(const struct plan *p, const char *path, int64_t host, int64_t *out, struct cordon_error *err)
{
	const struct view *v = p->r->after;
	struct view_entry e;
	if (view_stat(v, path, &e, err) < 0)
		return -1;
	bool seen = S_ISDIR(e.st.st_mode) && !(v->seeded && e.layer == v->count - 1) && (*path || top_changed(p));
	*out = seen ? timespec_ns(e.st.st_mtim) : host;
	return 0;
}

static int add_touch(const struct plan *p, const struct final_dir *d, struct buf *out, struct cordon_error *err)
{
	struct stat st;
	_cleanup_free_ char *path = strndup(d->path, d->len);
	if (!path)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	_cleanup_fd_ int fd = path_open_dir(p->dir, path, O_PATH);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open %s", path);
	int64_t mtime = timespec_ns(st.st_mtim);
	struct stage *top = NULL;
	for (size_t i = 0; i < p->stages.count; i++)
		if (strcmp(p->stages.items[i].top, path) == 0)
			top = &p->stages.items[i];
	if (final_mtime(p, path, top ? top->before : mtime, &mtime, err) < 0)
		return -1;
	if (top)
		top->after = mtime;
	manifest_touch(out, path, st.st_mode, mtime);
	return 0;
}

static int add_dirs(const struct plan *p, struct buf *out, struct cordon_error *err)
{
	_cleanup_free_ struct final_dir *dirs = malloc((2 * p->count + 1) * sizeof(*dirs));
	if (!dirs)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	size_t count = collect_dirs(p, dirs);
	for (size_t i = 0; i < count; i++)
		if (dirs[i].item ? add_meta(p, dirs[i].item, out, err) < 0 : add_touch(p, &dirs[i], out, err) < 0)
			return -1;
	return 0;
}

/* ---- all of it ---------------------------------------------------------------------------------------------------------------- */

int plan_manifest(struct plan *p, struct buf *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf steps = {.cap = MANIFEST_MAX};
	add_removals(p, &steps);
	if (add_moves(p, &steps, err) < 0 || add_dirs(p, &steps, err) < 0)
		return -1;
	manifest_begin(out, &p->stages); /* only now are the stages' times known */
	buf_add(out, steps.data, steps.len);
	manifest_end(out, p->stages.key);
	return out->failed || steps.failed ? err_set(err, CORDON_ERR_SYSTEM, "the list of changes is too large") : 0;
}
