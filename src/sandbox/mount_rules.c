/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/mount_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/util.h"

#define MOUNTINFO_MAX ((size_t)1 << 20)

/*
 * A name does not say what it is a name of: a bind mount shows a directory under another path. So objects are compared by their place in
 * their file system: the device, and the path from the file system's own root, both from /proc/self/mountinfo (proc(5)).
 */
struct place {
	unsigned major, minor;
	char path[PATH_MAX];
};

struct mount_line {
	int id;
	struct place root; /* of the mount, in its file system */
	char point[PATH_MAX];
};

static int refuse(struct cordon_error *err, const char *name, const char *path, const char *why, const char *entry)
{
	if (strcmp(name, path) == 0)
		err_set(err, CORDON_ERR_DENIED, "cannot mount %s: it %s %s, which is forbidden", name, why, entry);
	else
		err_set(err, CORDON_ERR_DENIED, "cannot mount %s (really %s): it %s %s, which is forbidden", name, path, why, entry);
	return err_hint(err, "the forbidden list cannot be overridden; mount something narrower");
}

/* Space, tab, newline and backslash are written as three octal digits. */
static bool unescape(const char *from, size_t len, char *to)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		if (n == PATH_MAX - 1)
			return false;
		if (from[i] == '\\' && i + 3 < len && from[i + 1] >= '0' && from[i + 1] <= '3') {
			to[n++] = (char)((from[i + 1] - '0') * 64 + (from[i + 2] - '0') * 8 + (from[i + 3] - '0'));
			i += 3;
		} else {
			to[n++] = from[i];
		}
	}
	to[n] = '\0';
	return true;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime …"; returns the next line, NULL at the end. */
static const char *parse_line(const char *line, struct mount_line *m, bool *ok)
{
	const char *end = strchrnul(line, '\n');
	int root_at = 0, root_end = 0, point_at = 0, point_end = 0;
	*ok = sscanf(line, "%d %*d %u:%u %n%*s%n %n%*s%n", &m->id, &m->root.major, &m->root.minor, &root_at, &root_end, &point_at,
	             &point_end) >= 3 &&
	      point_end > point_at && point_at > root_end && unescape(line + root_at, (size_t)(root_end - root_at), m->root.path) &&
	      unescape(line + point_at, (size_t)(point_end - point_at), m->point);
	return *end ? end + 1 : NULL;
}

static char *read_mountinfo(struct cordon_error *err)
{
	_cleanup_free_ char *text = malloc(MOUNTINFO_MAX);
	ssize_t n = text ? fs_read_small(AT_FDCWD, "/proc/self/mountinfo", text, MOUNTINFO_MAX) : -1;
	if (n < 0 || (size_t)n == MOUNTINFO_MAX - 1) {
		err_sys(err, "cannot read the table of mounts");
		return NULL;
	}
	return steal_ptr(&text);
}

static int mount_id(int fd)
{
	char path[48], text[256];
	int id = -1;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fs_read_small(AT_FDCWD, path, text, sizeof(text)) < 0)
		return -1;
	const char *p = strstr(text, "mnt_id:");
	return p && sscanf(p, "mnt_id: %d", &id) == 1 ? id : -1;
}

/* Joins the mount's root with what lies between its mount point and the object. */
static bool find_place(const char *mountinfo, int fd, const char *path, struct place *out)
{
	static struct mount_line m; /* large; the launcher has one thread */
	int id = mount_id(fd);
	bool ok;
	for (const char *line = mountinfo; line && *line;) {
		line = parse_line(line, &m, &ok);
		if (!ok || m.id != id || !fs_path_within(path, m.point))
			continue;
		const char *rest = path + (strcmp(m.point, "/") == 0 ? 0 : strlen(m.point));
		const char *root = strcmp(m.root.path, "/") == 0 && *rest ? "" : m.root.path;
		*out = (struct place){.major = m.root.major, .minor = m.root.minor};
		return (size_t)snprintf(out->path, sizeof(out->path), "%s%s", root, rest[0] == '/' && rest[1] == '\0' ? "" : rest) <
		       sizeof(out->path);
	}
	return false;
}

/* Is one of them the other, or below it? */
static bool overlap(const struct place *a, const struct place *b)
{
	return a->major == b->major && a->minor == b->minor && (fs_path_within(a->path, b->path) || fs_path_within(b->path, a->path));
}

/* A clone of the object brings along what is mounted below it. */
static bool mounted_below(const char *mountinfo, const char *path, const struct place *forbidden)
{
	static struct mount_line m;
	bool ok;
	for (const char *line = mountinfo; line && *line;) {
		line = parse_line(line, &m, &ok);
		if (ok && strcmp(m.point, path) != 0 && fs_path_within(m.point, path) && overlap(&m.root, forbidden))
			return true;
	}
	return false;
}

/* The object that is to be mounted. */
struct object {
	int fd;
	const char *name; /* what the user wrote */
	char path[PATH_MAX];
	struct stat st;
	struct place place;
};

/* One forbidden entry against the object: by name, by place, by what is mounted below, and (hard links) by inode. */
static int check_forbidden(const struct object *o, const char *mountinfo, const char *entry, struct cordon_error *err)
{
	static struct place place;
	char real[PATH_MAX];
	struct stat st;
	if (fs_path_within(o->path, entry))
		return refuse(err, o->name, o->path, "is or lies below", entry);
	_cleanup_fd_ int fd = fs_open(AT_FDCWD, entry, O_PATH, 0, FS_ANYWHERE);
	if (fd < 0 && errno == EACCES && fs_path_within(entry, o->path))
		return refuse(err, o->name, o->path, "contains", entry);
	if (fd < 0) /* does not exist, or is closed to us and so to everything inside */
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0
		                                                              : err_sys(err, "cannot check %s against %s", o->name, entry);
	if (fstat(fd, &st) < 0 || fs_fd_path(fd, real, sizeof(real)) < 0 || !find_place(mountinfo, fd, real, &place))
		return err_set(err, CORDON_ERR_DENIED, "cannot mount %s: it cannot be compared with %s, which is forbidden", o->name,
		               entry);
	if (fs_path_within(o->path, real))
		return refuse(err, o->name, o->path, "is or lies below", entry);
	if (fs_path_within(entry, o->path) || fs_path_within(real, o->path))
		return refuse(err, o->name, o->path, "contains", entry);
	if (overlap(&o->place, &place) || (o->st.st_dev == st.st_dev && o->st.st_ino == st.st_ino))
		return refuse(err, o->name, o->path, "is, contains or lies below another name of", entry);
	if (mounted_below(mountinfo, o->path, &place))
		return refuse(err, o->name, o->path, "has mounted below it", entry);
	return 0;
}

static bool granted(const char *path, const struct string_list *list)
{
	char real[PATH_MAX];
	for (uint32_t i = 0; i < list->count; i++) {
		if (fs_path_within(path, list->items[i]))
			return true;
		_cleanup_fd_ int fd = fs_open(AT_FDCWD, list->items[i], O_PATH, 0, FS_ANYWHERE);
		if (fd >= 0 && fs_fd_path(fd, real, sizeof(real)) == 0 && fs_path_within(path, real))
			return true;
	}
	return false;
}

int mount_rules_check_name(const char *name, const struct string_list *forbid, struct cordon_error *err)
{
	for (uint32_t i = 0; i < forbid->count; i++)
		if (fs_path_within(name, forbid->items[i]))
			return refuse(err, name, name, "is or lies below", forbid->items[i]);
	return 0;
}

int mount_rules_check(int fd, const char *name, bool writable, const struct string_list *forbid, const struct string_list *read,
                      const struct string_list *write, struct cordon_error *err)
{
	static struct object o; /* large; the launcher has one thread */
	o.fd = fd;
	o.name = name;
	if (fstat(fd, &o.st) < 0 || fs_fd_path(fd, o.path, sizeof(o.path)) < 0)
		return err_sys(err, "cannot check %s", name);
	if (!S_ISDIR(o.st.st_mode) && !S_ISREG(o.st.st_mode))
		return err_set(err, CORDON_ERR_DENIED,
		               "cannot mount %s: only files and directories can be mounted, no sockets, pipes or devices", name);
	_cleanup_free_ char *mountinfo = read_mountinfo(err);
	if (!mountinfo)
		return -1;
	if (!find_place(mountinfo, fd, o.path, &o.place))
		return err_set(err, CORDON_ERR_DENIED, "cannot mount %s: its place in the file system cannot be found", name);
	for (uint32_t i = 0; i < forbid->count; i++)
		if (check_forbidden(&o, mountinfo, forbid->items[i], err) < 0)
			return -1;
	if (granted(o.path, write) || (!writable && granted(o.path, read)))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "cannot mount %s%s: not granted by %s", name, writable ? " writable" : "",
	        writable ? "mounts.write" : "mounts.read or mounts.write");
	return err_hint(err, "an empty list grants nothing; add %s to the policy", o.path);
}
