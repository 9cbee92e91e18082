/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller of rename(2) asks for, read from its memory and its descriptors while it waits. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/notify.h"
#include "sandbox/renames_parts.h"

#define FLAG_NOREPLACE 1u /* RENAME_NOREPLACE; <linux/fs.h> and <stdio.h> of some C libraries clash over it */

/* ---- who confined itself -------------------------------------------------------------------------------------------------------- */

uint64_t ticks_since_boot(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return ((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000) * (uint64_t)sysconf(_SC_CLK_TCK) / 1000;
}

uint64_t start_ticks(pid_t pid)
{
	struct notify_stat st;
	return notify_read_stat(pid, &st) ? st.born : 0;
}

void note_narrowing(struct narrowed *n, pid_t thread)
{
	pid_t process = notify_process_of(thread);
	if (n->count == 0 && !n->anybody)
		n->since = ticks_since_boot();
	if (process > 0 && n->count < NARROWED_MAX)
		n->processes[n->count++] = process;
	else
		n->anybody = true;
}

bool may_be_narrowed(const struct narrowed *n, pid_t thread)
{
	if (n->anybody || n->count == 0)
		return n->anybody;
	pid_t process = notify_process_of(thread);
	uint64_t born = process > 0 ? start_ticks(process) : 0;
	if (born == 0 || born >= n->since)
		return true;
	for (size_t i = 0; i < n->count; i++)
		if (n->processes[i] == process)
			return true;
	return false;
}

/* ---- one request ---------------------------------------------------------------------------------------------------------------- */

static const struct call calls[] = {
#ifdef SYS_rename
	{SYS_rename, -1, 0, -1, 1, -1},
#endif
	{SYS_renameat, 0, 1, 2, 3, -1},
	{SYS_renameat2, 0, 1, 2, 3, 4},
};

const struct call *call_of(int nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return NULL;
}

unsigned flags_of(const struct call *c, const uint64_t *args)
{
	return c->flags < 0 ? 0 : (unsigned)args[c->flags];
}

/* False: the kernel shall say what is wrong with it. */
static bool read_path(struct notify_memory *mem, uint64_t address, char out[PATH_MAX])
{
	return notify_read_string(mem, address, out, PATH_MAX) > 1;
}

static int open_base(pid_t thread, const char *path, int argument, const uint64_t *args)
{
	return notify_open_base(thread, path, argument < 0 ? AT_FDCWD : (int)args[argument]);
}

/* /proc/self and the like would be ours, not the caller's: no magic links. Where files may get no set-id bits, the filter hides openat2(2). */
static int open_dir_at(int base, const char *path)
{
	const int flags = O_PATH | O_DIRECTORY;
	int fd = fs_open(base, path, flags, 0, FS_ANYWHERE);
	return fd < 0 && errno == ENOSYS ? openat(base, path, flags | O_CLOEXEC) : fd;
}

/* Takes the base over. False for "/", or "." or ".." at the end: the kernel has enough to say of these. */
static bool find_place(int base, struct place *p)
{
	char dir[PATH_MAX];
	const char *path = p->path;
	_cleanup_fd_ int from = base;
	size_t end = strlen(path), begin, len;
	while (end > 1 && path[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
		;
	len = end - begin;
	if (from < 0 || len == 0 || len > NAME_MAX || (path[begin] == '.' && (len == 1 || (len == 2 && path[begin + 1] == '.'))))
		return false;
	memcpy(p->name, path + begin, len);
	p->name[len] = '\0';
	memcpy(dir, path, begin);
	dir[begin] = '\0';
	p->parent = begin ? open_dir_at(from, dir) : steal_fd(&from);
	return p->parent >= 0;
}

static bool is_overlay_directory(const struct place *p)
{
	struct statfs fs;
	_cleanup_fd_ int fd = openat(p->parent, p->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

void close_request(struct request *r)
{
	cleanup_fd(&r->old.parent);
	cleanup_fd(&r->new.parent);
	r->old.parent = r->new.parent = -1;
}

bool read_request(const struct seccomp_notif *n, struct request *r)
{
	const struct call *c = call_of(n->data.nr);
	r->old.parent = r->new.parent = -1;
	r->id = n->id;
	r->thread = (pid_t)n->pid;
	r->nr = n->data.nr;
	memcpy(r->args, n->data.args, sizeof(r->args));
	if (!c || (flags_of(c, r->args) & ~FLAG_NOREPLACE))
		return false;
	_cleanup_memory_ struct notify_memory mem;
	notify_memory_open(&mem, r->thread);
	if (!read_path(&mem, r->args[c->old], r->old.path) ||
	    !find_place(open_base(r->thread, r->old.path, c->old_dir, r->args), &r->old) || !is_overlay_directory(&r->old))
		return false;
	r->born = start_ticks(r->thread);
	return read_path(&mem, r->args[c->new], r->new.path) && find_place(open_base(r->thread, r->new.path, c->new_dir, r->args), &r->new);
}

bool is_repeated(const struct request *before, const struct seccomp_notif *n, struct request *now)
{
	const struct call *c = call_of(before->nr);
	if (before->nr != n->data.nr || memcmp(before->args, n->data.args, sizeof(before->args)) != 0 ||
	    before->born != start_ticks(before->thread))
		return false;
	_cleanup_memory_ struct notify_memory mem;
	notify_memory_open(&mem, before->thread);
	return read_path(&mem, before->args[c->old], now->old.path) && read_path(&mem, before->args[c->new], now->new.path) &&
	       strcmp(before->old.path, now->old.path) == 0 && strcmp(before->new.path, now->new.path) == 0;
}

bool find_again(const struct request *before, struct request *now)
{
	const struct call *c = call_of(before->nr);
	now->old.parent = now->new.parent = -1;
	return find_place(open_base(before->thread, now->old.path, c->old_dir, before->args), &now->old) &&
	       find_place(open_base(before->thread, now->new.path, c->new_dir, before->args), &now->new);
}
