/* SPDX-License-Identifier: Apache-2.0 */
/* Other layers in the place of those that a live sandbox shows. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/mounts_parts.h"

/*
 * What is mounted there goes away first. A walked overlay takes long to die: the descriptor, which the caller's process holds until it
 * exits, puts that off until its answer is out.
 */
static int detach_target(const struct setup_op *op, struct cordon_error *err)
{
	int held = openat(AT_FDCWD, op->target, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (held < 0 || umount2(op->target, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		return err_sys(err, "cannot detach /%s", op->target);
	return 0;
}

/* Undoes the escapes of mountinfo, \040 for a space. */
static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++, to++) {
		bool octal = s[0] == '\\' && strspn(s + 1, "01234567") >= 3;
		*to = octal ? (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0')) : *s;
		s += octal ? 3 : 0;
	}
	*to = '\0';
}

struct mount_line {
	char where[32], root[4096], at[4096]; /* device, directory of its file system, mount point */
};

static bool next_line(FILE *f, struct mount_line *m)
{
	int n = fscanf(f, "%*s %*s %31s %4095s %4095s%*[^\n]", m->where, m->root, m->at);
	unescape(m->at);
	return n == 3;
}

/* Takes away every other place where /SOURCE is shown, wherever that was moved to. self: /proc/self of the caller's own namespace. */
static int detach_everywhere(int self, const char *source, struct cordon_error *err)
{
	static struct mount_line want, m;
	int fd = openat(self, "mountinfo", O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	int r = 0;
	if (!f)
		return err_sys(err, "cannot list the mounts");
	while (next_line(f, &m))
		if (m.at[0] == '/' && strcmp(m.at + 1, source) == 0)
			want = m;
	rewind(f);
	while (r == 0 && next_line(f, &m))
		if (strcmp(m.where, want.where) == 0 && strcmp(m.root, want.root) == 0 && strcmp(m.at, want.at) != 0 &&
		    umount2(m.at, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
			r = err_sys(err, "cannot detach %s", m.at);
	fclose(f);
	return r;
}

/* An alias may lie below a directory that the code inside can move or replace. */
static int detach_alias(struct builder *b, int self, const struct setup_op *op, struct cordon_error *err)
{
	struct stat source, alias;
	const char *slash = strrchr(op->target, '/'), *name = slash ? slash + 1 : op->target;
	char dir[4096];
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - op->target) : 1, slash ? op->target : ".");
	_cleanup_fd_ int parent = fs_open(b->root, dir, O_PATH | O_DIRECTORY, 0, FS_BENEATH);
	const bool there = parent >= 0 && fstatat(b->root, op->source, &source, 0) == 0 &&
	                   fstatat(parent, name, &alias, AT_SYMLINK_NOFOLLOW) == 0 && source.st_dev == alias.st_dev &&
	                   source.st_ino == alias.st_ino && fchdir(parent) == 0;
	const bool gone = there && umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
	if (there && fchdir(b->root) < 0)
		return err_sys(err, "cannot enter the sandbox's root");
	return gone ? 0 : detach_everywhere(self, op->source, err);
}

static int detach(struct builder *b, int self, const struct setup_op *op, struct cordon_error *err)
{
	if (op->kind == OP_BIND || op->kind == OP_HIDE || op->kind == OP_EXEC) /* lies in one of the others */
		return 0;
	return op->kind == OP_ALIAS ? detach_alias(b, self, op, err) : detach_target(op, err);
}

int mounts_relayer(const struct sandbox_spec *spec, const struct idmap *ids, int self, const struct mount_sources *sources,
                   struct cordon_error *err)
{
	struct builder b = {.spec = spec,
	                    .ids = ids,
	                    .root = -1,
	                    .top = -1,
	                    .dev = -1,
	                    .masks = {{.fd = -1}, {.fd = -1}},
	                    .sources = *sources,
	                    .keep_stages = true};
	umask(0);
	b.root = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b.root < 0 || chdir("/") < 0)
		return err_sys(err, "cannot open the sandbox's root");
	for (uint32_t i = spec->op_count; i > 0; i--)
		if (detach(&b, self, &spec->ops[i - 1], err) < 0)
			return -1;
	for (uint32_t i = 0; i < spec->op_count; i++) {
		const struct setup_op *op = &spec->ops[i];
		b.careful = op->flags & OP_CAREFUL;
		if (op->kind != OP_LAYERED && op->kind != OP_ALIAS && op->kind != OP_BIND && op->kind != OP_HIDE && op->kind != OP_EXEC)
			return err_set(err, CORDON_ERR_INPUT, "only layers, and what is mounted in them, can be exchanged");
		if (mounts_execute(&b, op, err) == 0)
			continue;
		if (op->kind != OP_ALIAS)
			return -1;
		*err = (struct cordon_error){0}; /* the code inside has put something in its way: then it is not shown there any more */
	}
	return 0;
}
