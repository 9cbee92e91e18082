/* SPDX-License-Identifier: Apache-2.0 */
/* One change against the host: may it be made, and what does it take. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/view_parts.h"

int report_problem(struct commit_report *report, enum commit_refusal why, const char *path, const char *text, struct cordon_error *err)
{
	struct commit_problem *more = realloc(report->problems, (report->problem_count + 1) * sizeof(*more));
	if (more)
		report->problems = more;
	char *copy = more ? strdup(path) : NULL;
	if (!copy)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	struct commit_problem *p = &more[report->problem_count++];
	*p = (struct commit_problem){.why = why, .path = copy};
	snprintf(p->text, sizeof(p->text), "%s", text);
	for (char *c = p->text; *c; c++)
		*c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c; /* it may quote a name */
	return 0;
}

/* ---- the host's side ---------------------------------------------------------------------------------------------------------- */

struct host {
	int parent; /* -1: its directory is not there */
	const char *base;
	struct stat st; /* st_mode 0: absent */
};

static void host_close(struct host *h)
{
	cleanup_fd(&h->parent);
}
#define _cleanup_host_ __attribute__((cleanup(host_close)))

static bool nothing_there(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

static int host_look(int dir, const char *path, struct host *h, struct cordon_error *err)
{
	*h = (struct host){.parent = -1};
	h->parent = path_open_parent(dir, path, &h->base);
	if (h->parent < 0)
		return nothing_there(errno) ? 0 : err_sys(err, "cannot open the directory of %s", path);
	if (fstatat(h->parent, h->base, &h->st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	h->st = (struct stat){0};
	return nothing_there(errno) ? 0 : err_sys(err, "cannot look at %s", path);
}

/* Whether the host has what a view shows: kind, contents, mode. 1, 0, or -1. */
static int host_equals(const struct host *h, const struct view *v, const char *path, const struct view_entry *e, struct cordon_error *err)
{
	const char *base;
	enum change_op op;
	if (h->st.st_mode != e->st.st_mode)
		return 0;
	if (h->st.st_mode == 0)
		return 1;
	_cleanup_fd_ int parent = path_open_parent(v->fds[e->layer], path, &base);
	if (parent < 0)
		return err_sys(err, "cannot open the directory of %s", path);
	struct found before = {h->parent, &h->st}, after = {parent, &e->st};
	int differs = entry_compare(h->base, &before, &after, &op, err);
	if (differs < 0)
		return -1;
	return !differs || op == CHANGE_MODE ||
	       op == CHANGE_TIME; /* owners, times and attributes: no reason to call it somebody else's work */
}

/*
 * Whether the host has what the sandbox itself showed at some time: then it comes from an earlier commit of ours (one that was finished
 * by recovery, say, and so not recorded), and nothing is lost. A state that only the seed shows proves nothing: the seed is the host.
 */
static int sandbox_once_showed(const struct plan *p, const struct host *h, const char *path, struct cordon_error *err)
{
	const struct view *v = p->r->after;
	for (size_t i = 1; h->st.st_mode != 0 && i < v->count; i++) {
		struct view older = {.fds = v->fds + i, .count = v->count - i, .seeded = v->seeded};
		struct view_entry e;
		if (view_stat(&older, path, &e, err) < 0)
			return -1;
		if (e.st.st_mode == 0 || (v->seeded && e.layer == older.count - 1))
			continue;
		int same = host_equals(h, &older, path, &e, err);
		if (same != 0)
			return same;
	}
	return 0;
}

/* ---- conflicts ---------------------------------------------------------------------------------------------------------------- */

static const char *conflict_text(const struct plan_item *item, const struct identity *was)
{
	const struct identity *now = &item->now;
	if (was->raced)
		return "changed on the host while the command ran";
	if (!was->known && item->after == 0)
		return "created on the host, in a directory that the sandbox deleted";
	if (!was->known)
		return "it is not known what the host had when the sandbox changed it";
	if (was->absent)
		return now->absent ? "its directory was moved or replaced on the host" : "created on the host";
	if (now->absent)
		return "deleted on the host";
	if (was->ino == now->ino && was->ctime_ns == now->ctime_ns && was->parents != now->parents)
		return "its directory was moved or replaced on the host";
	return "changed on the host";
}

/*
 * Where nothing was recorded, what the seed shows can stand in for it; but not if the seed is the host's directory itself, which always
 * shows what the host has. (A file that the host makes in a directory which the sandbox has deleted looks like one more deletion.)
 */
static int unchanged_by_contents(const struct plan *p, const struct plan_item *item, const struct host *h, struct cordon_error *err)
{
	const struct view *before = p->r->before;
	struct stat seed, dir;
	struct view_entry e;
	if (h->st.st_mode == 0)
		return item->change->before == 0;
	if (before->count && (fstat(before->fds[before->count - 1], &seed) < 0 || fstat(p->dir, &dir) < 0))
		return err_sys(err, "cannot look at the seed");
	if (before->count && seed.st_dev == dir.st_dev && seed.st_ino == dir.st_ino)
		return 0;
	if (view_stat(before, item->path, &e, err) < 0)
		return -1;
	return host_equals(h, before, item->path, &e, err);
}

/* Whether the host has what the sandbox saw when it changed the path. */
static int host_unchanged(const struct plan *p, struct plan_item *item, const struct host *h, struct identity *was,
                          struct cordon_error *err)
{
	const struct commit_request *r = p->r;
	bool same;
	*was = r->expected ? r->expected(r->arg, item->path) : (struct identity){0};
	if (identity_check(p->dir, item->path, was, &item->now, &same, err) < 0)
		return -1;
	if (was->known)
		return same && (item->change->before != 0 || h->st.st_mode == 0);
	return unchanged_by_contents(p, item, h, err);
}

/* Sets *settled if the host already has what is to be written, and *clean if it has what the sandbox saw. */
static int check_conflict(struct plan *p, struct plan_item *item, const struct host *h, const struct view_entry *e, bool *settled,
                          bool *clean, struct cordon_error *err)
{
	struct identity was;
	int same = host_unchanged(p, item, h, &was, err);
	*settled = false;
	*clean = same > 0;
	if (same != 0)
		return same < 0 ? -1 : 0;
	int equal = host_equals(h, p->r->after, item->path, e, err);
	*settled = equal > 0;
	if (equal == 0 && !item->forced)
		equal = sandbox_once_showed(p, h, item->path, err);
	if (equal != 0 || item->forced)
		return equal < 0 ? -1 : 0;
	return report_problem(p->report, REFUSED_CONFLICT, item->path, conflict_text(item, &was), err);
}

/* ---- what cannot be done ------------------------------------------------------------------------------------------------------ */

static bool is_mount_point(const struct host *h)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV};
	_cleanup_fd_ int fd = (int)syscall(SYS_openat2, h->parent, h->base, &how, sizeof(how));
	return fd < 0 && errno == EXDEV;
}

/* chattr +i or +a; file systems without such flags say so. */
static bool is_immutable(int dir, const char *name, mode_t mode)
{
	int flags = 0;
	if (!S_ISREG(mode) && !S_ISDIR(mode))
		return false;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & (FS_IMMUTABLE_FL | FS_APPEND_FL));
}

/* The directory can be written to, or its owner is us and can make it so. */
static bool may_write_in(const struct host *h, const struct stat *parent)
{
	uid_t me = geteuid();
	if ((parent->st_mode & S_ISVTX) && me != 0 && h->st.st_mode && h->st.st_uid != me && parent->st_uid != me)
		return false;
	if (faccessat(h->parent, ".", W_OK | X_OK, 0) == 0)
		return true;
	return errno == EACCES && parent->st_uid == me;
}

/* What would stop us half-way is found out before the first step. NULL: nothing. */
static const char *obstacle(const struct plan_item *item, const struct host *h)
{
	struct stat parent;
	if (h->parent < 0)
		return NULL; /* it is going to be made */
	if (item->action == ACT_META)
		return geteuid() != 0 && h->st.st_uid != geteuid() ? "belongs to another user" : NULL;
	if (fstat(h->parent, &parent) < 0 || !may_write_in(h, &parent))
		return errno == EROFS ? "is on a read-only file system" : "you may not write to its directory";
	if (is_immutable(h->parent, ".", S_IFDIR) || (h->st.st_mode && is_immutable(h->parent, h->base, h->st.st_mode)))
		return "is immutable or append-only (chattr)";
	return h->st.st_mode && is_mount_point(h) ? "is a mount point on the host" : NULL;
}

static bool has_reserved_name(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (stage_name_reserved(p, strcspn(p, "/")))
			return true;
	}
	return false;
}

static int check_autorun(struct plan *p, const struct plan_item *item, const struct view_entry *e, struct cordon_error *err)
{
	char text[sizeof(((struct commit_problem *)0)->text)];
	const char *what;
	if ((p->r->flags & COMMIT_AUTORUN) || e->st.st_mode == 0)
		return 0;
	if (!p->autorun && autorun_look(p, &p->autorun, err) < 0)
		return -1;
	if (!commit_is_autorun(item->path, e->st.st_mode, &what) && autorun_on_host(p->autorun, item->path, e->st.st_mode, &what, err) < 0)
		return -1;
	if (!what && autorun_of_contents(p->r->after, item->path, e, &what, err) < 0)
		return -1;
	if (!what)
		return 0;
	snprintf(text, sizeof(text), "runs by itself: %s", what);
	return report_problem(p->report, REFUSED_AUTORUN, item->path, text, err);
}

/* ---- one change --------------------------------------------------------------------------------------------------------------- */

static int after_entry(const struct plan *p, const struct plan_item *item, struct view_entry *e, struct cordon_error *err)
{
	*e = (struct view_entry){0};
	if (item->change && item->change->after == 0)
		return 0;
	if (view_stat(p->r->after, item->path, e, err) < 0)
		return -1;
	if (e->st.st_mode == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "%s vanished while it was being committed", item->path);
	return 0;
}

static enum action action_for(const struct plan_item *item, bool settled, bool clean)
{
	if (settled)
		return ACT_NOTHING;
	if (item->after == 0)
		return item->host == 0 ? ACT_NOTHING : ACT_DELETE;
	if (S_ISDIR(item->after))
		return S_ISDIR(item->host) ? ACT_META : ACT_WRITE;
	/*
	 * In place only if the contents are known to be right and no other name of the file changes with it: inside, the names are apart
	 * by now.
	 */
	bool in_place = clean && item->change && (item->change->op == CHANGE_MODE || item->change->op == CHANGE_TIME) &&
	                S_ISREG(item->after) && S_ISREG(item->host) && item->host_links == 1;
	return in_place ? ACT_META : ACT_WRITE;
}

static bool newly_executable(const struct plan_item *item)
{
	mode_t before = item->change ? item->change->before : 0;
	return S_ISREG(item->after) && (item->after & 0111) && !(S_ISREG(before) && (before & 0111));
}

/* As an ordinary user we are the owner of what a sandbox makes, and bound by its modes. */
static bool is_readable(const struct view *v, const char *path, const struct view_entry *e)
{
	const char *base;
	if (!S_ISREG(e->st.st_mode) && !S_ISDIR(e->st.st_mode))
		return true;
	_cleanup_fd_ int parent = path_open_parent(v->fds[e->layer], path, &base);
	return parent >= 0 && faccessat(parent, base, S_ISDIR(e->st.st_mode) ? R_OK | X_OK : R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
}

int check_item(struct plan *p, struct plan_item *item, struct cordon_error *err)
{
	struct view_entry e;
	_cleanup_host_ struct host h = {.parent = -1};
	bool settled = false, clean = false;
	size_t problems = p->report->problem_count;

	if (has_reserved_name(item->path))
		return report_problem(p->report, REFUSED_KIND, item->path, "the name is cordon's own", err);
	const char *forbidden = p->r->forbids && item->change ? p->r->forbids(p->r->policy, item->path) : NULL;
	if (forbidden)
		return report_problem(p->report, REFUSED_KIND, item->path, forbidden, err);
	if (after_entry(p, item, &e, err) < 0 || check_autorun(p, item, &e, err) < 0 || host_look(p->dir, item->path, &h, err) < 0)
		return -1;
	item->layer = e.layer;
	item->after = e.st.st_mode;
	item->bytes = S_ISREG(e.st.st_mode) ? (uint64_t)e.st.st_size : 0;
	item->host = h.st.st_mode;
	item->host_links = h.st.st_nlink;
	if (item->change ? check_conflict(p, item, &h, &e, &settled, &clean, err) < 0
	                 : identity_now(p->dir, item->path, &item->now, err) < 0)
		return -1;
	item->action = action_for(item, settled, clean);
	if (item->action == ACT_WRITE && !is_readable(p->r->after, item->path, &e))
		return report_problem(p->report, REFUSED_KIND, item->path, "its mode does not let us read it", err);
	if (item->action == ACT_NOTHING || p->report->problem_count > problems)
		return 0;
	const char *why = obstacle(item, &h);
	if (why)
		return report_problem(p->report, REFUSED_KIND, item->path, why, err);
	return newly_executable(item) ? strlist_add(&p->report->executables, item->path, err) : 0;
}

/* ---- directories that go ------------------------------------------------------------------------------------------------------ */

/* 1, 0, or -1. */
static int child_goes(const struct plan *p, const struct plan_item *dir, const char *name, struct cordon_error *err)
{
	_cleanup_buf_ struct buf path = {0};
	buf_addf(&path, "%s/%s", dir->path, name);
	if (path.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	const struct plan_item *child = plan_find(p, path.data, path.len);
	return child && child->after == 0;
}

int check_emptied(struct plan *p, struct plan_item *item, struct cordon_error *err)
{
	char text[sizeof(((struct commit_problem *)0)->text)];
	_cleanup_names_ struct names names = {0};
	if (!S_ISDIR(item->host) || S_ISDIR(item->after) || item->action == ACT_NOTHING)
		return 0;
	_cleanup_fd_ int fd = path_open_dir(p->dir, item->path, O_RDONLY);
	if (fd < 0 || names_read(&names, fd, err) < 0)
		return fd < 0 ? err_sys(err, "cannot read %s", item->path) : -1;
	names_tidy(&names);
	for (size_t i = 0; i < names.count; i++) {
		int goes = child_goes(p, item, names.items[i], err);
		if (goes < 0)
			return -1;
		if (goes)
			continue;
		item->tree = item->forced;
		if (item->forced)
			return 0;
		snprintf(text, sizeof(text), "the host has files in it that the sandbox did not delete: %.80s", names.items[i]);
		return report_problem(p->report, REFUSED_CONFLICT, item->path, text, err);
	}
	return 0;
}
