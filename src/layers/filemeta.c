/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/filemeta.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/util.h"

#define ATTR_LIST_MAX ((size_t)64 << 10) /* XATTR_LIST_MAX and XATTR_SIZE_MAX of the kernel, see xattr(7) */
#define ATTR_VALUE_MAX ((size_t)64 << 10)

struct proc_path {
	char s[40];
};

static struct proc_path proc_path(int fd)
{
	struct proc_path p;
	snprintf(p.s, sizeof(p.s), "/proc/self/fd/%d", fd);
	return p;
}

void file_meta_free(struct file_meta *m)
{
	for (size_t i = 0; i < m->attr_count; i++) {
		free(m->attrs[i].name);
		free(m->attrs[i].value);
	}
	free(m->attrs);
	*m = (struct file_meta){0};
}

/* ---- extended attributes ------------------------------------------------------------------------------------------------------ */

static bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Labels of the security modules stay the place's own; what a file may do and who may use it travels with it. */
static bool attr_wanted(const char *name, unsigned flags)
{
	if (starts_with(name, "user.overlay.") || starts_with(name, "trusted.overlay."))
		return flags & COPY_OVERLAY;
	if (starts_with(name, "user.cordon.")) /* our own notes on a directory, see commit_stage.c */
		return false;
	return starts_with(name, "user.") || starts_with(name, "trusted.") || strcmp(name, "security.capability") == 0 ||
	       strcmp(name, "system.posix_acl_access") == 0 || strcmp(name, "system.posix_acl_default") == 0;
}

/* Names of the attributes, each with its NUL; file systems without attributes have none. */
static ssize_t attr_names(const char *path, char **out)
{
	char small[1024];
	ssize_t n = listxattr(path, small, sizeof(small));
	*out = NULL;
	if (n == 0 || (n < 0 && (errno == ENOTSUP || errno == ENOSYS)))
		return 0;
	if (n < 0 && errno != ERANGE)
		return -1;
	*out = malloc(n < 0 ? ATTR_LIST_MAX : (size_t)n);
	if (!*out)
		return -1;
	if (n < 0)
		return listxattr(path, *out, ATTR_LIST_MAX);
	memcpy(*out, small, (size_t)n);
	return n;
}

/* The value in memory of its own, to be freed in any case; -1 with errno ENODATA if it is gone. */
static ssize_t attr_value(const char *path, const char *name, char **out)
{
	char small[512];
	ssize_t n = getxattr(path, name, small, sizeof(small));
	*out = NULL;
	if (n < 0 && errno != ERANGE)
		return -1;
	*out = malloc(n < 0 ? ATTR_VALUE_MAX : (size_t)n + 1);
	if (!*out)
		return -1;
	if (n < 0)
		return getxattr(path, name, *out, ATTR_VALUE_MAX);
	memcpy(*out, small, (size_t)n);
	return n;
}

/* Takes over the value. */
static int attr_add(struct file_meta *m, const char *name, char *value, size_t len)
{
	struct file_attr *more = realloc(m->attrs, (m->attr_count + 1) * sizeof(*more));
	if (more)
		m->attrs = more;
	char *copy = more ? strdup(name) : NULL;
	if (!copy) {
		free(value);
		errno = ENOMEM;
		return -1;
	}
	m->attrs[m->attr_count++] = (struct file_attr){copy, value, len};
	return 0;
}

static int attrs_read(const char *path, unsigned flags, struct file_meta *out)
{
	_cleanup_free_ char *names = NULL;
	ssize_t len = attr_names(path, &names);
	if (len < 0)
		return -1;
	for (const char *name = names; name && name < names + len; name += strlen(name) + 1) {
		if (!attr_wanted(name, flags))
			continue;
		char *value;
		ssize_t n = attr_value(path, name, &value);
		if (n < 0) {
			free(value);
			if (errno == ENODATA)
				continue;
			return -1;
		}
		if (attr_add(out, name, value, (size_t)n) < 0)
			return -1;
	}
	return 0;
}

int file_meta_read(int fd, const char *name, unsigned flags, struct file_meta *out, struct cordon_error *err)
{
	struct stat st;
	*out = (struct file_meta){0};
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot stat %s", name);
	out->mode = st.st_mode;
	out->uid = st.st_uid;
	out->gid = st.st_gid;
	out->atime = st.st_atim;
	out->mtime = st.st_mtim;
	if (attrs_read(proc_path(fd).s, flags, out) < 0) {
		err_sys(err, "cannot read the attributes of %s", name);
		file_meta_free(out);
		return -1;
	}
	return 0;
}

/* ---- onto a file -------------------------------------------------------------------------------------------------------------- */

int file_chmod(int fd, mode_t mode)
{
	return chmod(proc_path(fd).s, mode);
}

int file_set_mtime(int fd, int64_t mtime_ns)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -1;
	/* not UTIME_OMIT: some FUSE set both times or none, and say nothing */
	struct timespec times[2] = {st.st_atim, ns_timespec(mtime_ns)};
	return utimensat(AT_FDCWD, proc_path(fd).s, times, 0);
}

static const struct file_attr *attr_find(const struct file_meta *m, const char *name)
{
	for (size_t i = 0; i < m->attr_count; i++)
		if (strcmp(m->attrs[i].name, name) == 0)
			return &m->attrs[i];
	return NULL;
}

/* Capabilities and trusted attributes are root's to give; an ordinary user's copy goes without them, as with cp -a. */
static bool attr_may_fail(const char *name)
{
	return (errno == EPERM || errno == ENOTSUP) && (starts_with(name, "trusted.") || starts_with(name, "security."));
}

/* Attributes of a file that its owner may not write can only be set while he may; the right mode is given afterwards. */
static bool opened_up(const char *path, const struct stat *now)
{
	return errno == EACCES && !S_ISLNK(now->st_mode) && chmod(path, (now->st_mode & 07777) | 0600) == 0;
}

static int attr_set(const char *path, const struct file_attr *a, const struct stat *now)
{
	char *there;
	ssize_t n = attr_value(path, a->name, &there);
	bool same = n >= 0 && (size_t)n == a->len && memcmp(there, a->value, a->len) == 0;
	free(there);
	if (same || setxattr(path, a->name, a->value, a->len, 0) == 0)
		return 0;
	if (opened_up(path, now) && setxattr(path, a->name, a->value, a->len, 0) == 0)
		return 0;
	return attr_may_fail(a->name) ? 0 : -1;
}

static int attr_remove(const char *path, const char *name, const struct stat *now)
{
	if (removexattr(path, name) == 0 || errno == ENODATA)
		return 0;
	if (opened_up(path, now) && removexattr(path, name) == 0)
		return 0;
	return attr_may_fail(name) ? 0 : -1;
}

/* Removes the others, too: a directory's default ACL, for instance, gives one to every new file in it. */
static int attrs_apply(const char *path, const struct file_meta *m, const struct stat *now, unsigned flags)
{
	_cleanup_free_ char *names = NULL;
	ssize_t len = attr_names(path, &names);
	if (len < 0)
		return -1;
	for (const char *name = names; name && name < names + len; name += strlen(name) + 1)
		if (attr_wanted(name, flags) && !attr_find(m, name) && attr_remove(path, name, now) < 0)
			return -1;
	for (size_t i = 0; i < m->attr_count; i++)
		if (attr_set(path, &m->attrs[i], now) < 0)
			return -1;
	return 0;
}

/* Fills in the bits of the mode that must not be given because the owner is another than it should be. */
static int owner_apply(const char *path, const struct file_meta *m, const struct stat *now, unsigned flags, mode_t *withheld)
{
	*withheld = 0;
	if (now->st_uid == m->uid && now->st_gid == m->gid)
		return 0;
	if (chown(path, m->uid, m->gid) == 0)
		return 0;
	if (!(flags & COPY_OWNER_MAY_FAIL) || (errno != EPERM && errno != EINVAL))
		return -1;
	bool group = now->st_gid == m->gid || chown(path, (uid_t)-1, m->gid) == 0;
	if (!S_ISDIR(m->mode))
		*withheld = (now->st_uid == m->uid ? 0 : S_ISUID) | (group ? 0 : S_ISGID);
	return 0;
}

int file_meta_apply(int fd, const char *name, const struct file_meta *m, unsigned flags, struct cordon_error *err)
{
	struct proc_path path = proc_path(fd);
	struct timespec times[2] = {m->atime, m->mtime};
	struct stat now;
	mode_t withheld;

	if (fstat(fd, &now) < 0)
		return err_sys(err, "cannot stat %s", name);
	if ((now.st_mode & S_IFMT) != (m->mode & S_IFMT))
		return err_set(err, CORDON_ERR_SYSTEM, "%s became a file of another kind", name);
	if (owner_apply(path.s, m, &now, flags, &withheld) < 0)
		return err_sys(err, "cannot change the owner of %s", name);
	if (attrs_apply(path.s, m, &now, flags) < 0)
		return err_sys(err, "cannot set the attributes of %s", name);
	/* after the owner and the attributes: chown(2) clears set-user-id, an ACL sets the group's bits */
	if (!S_ISLNK(m->mode) && chmod(path.s, m->mode & 07777 & ~withheld) < 0)
		return err_sys(err, "cannot change the mode of %s", name);
	if (utimensat(AT_FDCWD, path.s, times, 0) < 0)
		return err_sys(err, "cannot set the times of %s", name);
	return 0;
}

/* ---- as text ------------------------------------------------------------------------------------------------------------------ */

static const char hex_digits[] = "0123456789abcdef";

void path_encode(struct buf *out, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c > 0x20 && c < 0x7f && !strchr("%=,", c))
			buf_add(out, s, 1);
		else
			buf_addf(out, "%%%02x", c);
	}
}

static int hex_byte(const char *s)
{
	const char *high = s[0] ? strchr(hex_digits, s[0]) : NULL;
	const char *low = high && s[1] ? strchr(hex_digits, s[1]) : NULL;
	return low ? (int)((high - hex_digits) * 16 + (low - hex_digits)) : -1;
}

char *path_decode(const char *s, size_t len)
{
	char *out = malloc(len + 1), *to = out;
	for (size_t i = 0; out && i < len; i++) {
		int c = (unsigned char)s[i];
		if (c == '%') {
			c = i + 2 < len ? hex_byte(s + i + 1) : -1;
			i += 2;
		} else if (c <= 0x20 || c >= 0x7f) {
			c = -1;
		}
		if (c <= 0) {
			free(out);
			return NULL;
		}
		*to++ = (char)c;
	}
	if (out)
		*to = '\0';
	return out;
}

void file_meta_format(struct buf *out, const struct file_meta *m)
{
	buf_addf(out, "%o %u %u %" PRId64 " ", (unsigned)m->mode, (unsigned)m->uid, (unsigned)m->gid, timespec_ns(m->mtime));
	if (m->attr_count == 0)
		buf_add_str(out, "-");
	for (size_t i = 0; i < m->attr_count; i++) {
		buf_add_str(out, i ? "," : "");
		path_encode(out, m->attrs[i].name);
		buf_add_str(out, "=");
		for (size_t k = 0; k < m->attrs[i].len; k++)
			buf_addf(out, "%02x", (unsigned char)m->attrs[i].value[k]);
	}
}

/* One "name=hex"; len is its length. */
static bool parse_attr(const char *text, size_t len, struct file_meta *out)
{
	const char *equals = memchr(text, '=', len);
	size_t digits = equals ? len - (size_t)(equals + 1 - text) : 1;
	if (!equals || digits % 2)
		return false;
	_cleanup_free_ char *name = path_decode(text, (size_t)(equals - text));
	char *value = malloc(digits / 2 + 1);
	bool fine = name && value && attr_wanted(name, 0);
	for (size_t i = 0; fine && i < digits / 2; i++) {
		int byte = hex_byte(equals + 1 + 2 * i);
		fine = byte >= 0;
		value[i] = (char)byte;
	}
	if (!fine) {
		free(value);
		return false;
	}
	return attr_add(out, name, value, digits / 2) == 0;
}

int file_meta_parse(const char *text, struct file_meta *out, struct cordon_error *err)
{
	unsigned mode, uid, gid;
	int64_t mtime;
	int at = 0;

	*out = (struct file_meta){0};
	if (sscanf(text, "%o %u %u %" SCNd64 " %n", &mode, &uid, &gid, &mtime, &at) != 4 || at == 0 || !text[at])
		return err_set(err, CORDON_ERR_INPUT, "damaged metadata");
	*out = (struct file_meta){.mode = mode, .uid = uid, .gid = gid, .mtime = ns_timespec(mtime), .atime = {.tv_nsec = UTIME_OMIT}};
	text += at;
	if (strcmp(text, "-") == 0)
		return 0;
	for (;;) {
		size_t len = strcspn(text, ",");
		if (!parse_attr(text, len, out)) {
			file_meta_free(out);
			return err_set(err, CORDON_ERR_INPUT, "damaged attributes");
		}
		if (!text[len])
			return 0;
		text += len + 1;
	}
}
