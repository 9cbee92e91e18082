/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two entries of the same type are the same: contents first, then mode, owner and extended attributes. A tree may be in use and
 * may be hostile: everything is opened O_PATH first, only what is a regular file by then is opened for reading, and the reading ends at
 * the size that was seen, holes left out, so that neither a growing file nor a sparse one of many terabytes keeps us.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/view_parts.h"

#define CHUNK ((size_t)128 << 10)
#define XATTRS_MAX ((size_t)64 << 10) /* the kernel's own limits for a list and for a value */

struct pair {
	int before, after; /* O_PATH, or files being read */
};

static void pair_close(struct pair *p)
{
	cleanup_fd(&p->before);
	cleanup_fd(&p->after);
}
#define _cleanup_pair_ __attribute__((cleanup(pair_close)))

/* What was there a moment ago is gone, or is ours to see but not to read: it counts as changed. Anything else is a failure. */
static int unreadable(const char *name, struct cordon_error *err)
{
	switch (errno) {
	case ENOENT:
	case EACCES:
	case EPERM:
	case ESTALE:
		return 1;
	default:
		return err_sys(err, "cannot read %s", name);
	}
}

/* ---- contents ----------------------------------------------------------------------------------------------------------------- */

static off_t next_data(int fd, off_t from, off_t size)
{
	off_t at = lseek(fd, from, SEEK_DATA);

	if (at >= 0)
		return MIN(at, size);
	return errno == ENXIO ? size : from; /* ENXIO: only a hole from here on; anything else: read it all */
}

static bool is_sparse(const struct stat *st)
{
	return (off_t)st->st_blocks * 512 < st->st_size;
}

/* 1: different, 0: equal, -1 with errno. */
static int compare_bytes(const struct pair *p, off_t size, bool sparse)
{
	_cleanup_free_ char *buf = malloc(2 * CHUNK);

	if (!buf)
		return -1;
	for (off_t at = 0; at < size;) {
		if (sparse) {
			at = MIN(next_data(p->before, at, size), next_data(p->after, at, size));
			if (at == size)
				break;
		}
		size_t len = (size_t)MIN((off_t)CHUNK, size - at);
		ssize_t a = fs_pread_full(p->before, buf, len, at);
		ssize_t b = a < 0 ? -1 : fs_pread_full(p->after, buf + CHUNK, len, at);
		if (a < 0 || b < 0)
			return -1;
		if (a != b || memcmp(buf, buf + CHUNK, (size_t)a) != 0)
			return 1;
		if ((size_t)a < len)
			break; /* both were cut off meanwhile, at the same place */
		at += a;
	}
	return 0;
}

static int open_checked(int fd, mode_t type)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if ((st.st_mode & S_IFMT) != type) {
		errno = ESTALE;
		return -1;
	}
	return type == S_IFREG ? open(fd_link(fd).path, O_RDONLY | O_NOCTTY | O_CLOEXEC) : 0;
}

static int compare_files(const struct pair *p, const struct found *before, const struct found *after)
{
	if (before->st->st_size != after->st->st_size)
		return 1;
	if (after->st->st_size == 0)
		return 0;
	_cleanup_pair_ struct pair files = {open_checked(p->before, S_IFREG), -1};
	if (files.before < 0)
		return -1;
	files.after = open_checked(p->after, S_IFREG);
	if (files.after < 0)
		return -1;
	return compare_bytes(&files, after->st->st_size, is_sparse(before->st) && is_sparse(after->st));
}

static int compare_links(const struct pair *p)
{
	char a[PATH_MAX], b[PATH_MAX];
	ssize_t la = readlinkat(p->before, "", a, sizeof(a));
	ssize_t lb = la < 0 ? -1 : readlinkat(p->after, "", b, sizeof(b));

	if (la < 0 || lb < 0) {
		errno = errno == EINVAL ? ESTALE : errno; /* no link any more */
		return -1;
	}
	return la != lb || memcmp(a, b, (size_t)la) != 0;
}

/* ---- attributes --------------------------------------------------------------------------------------------------------------- */

/*
 * Only what travels with a file through overlayfs mounted by an ordinary user: its own marks are none of the file's, trusted.* is not seen there, and labels of
 * security modules are given anew to a copy.
 */
static bool attribute_counts(const char *name)
{
	if (strncmp(name, "security.", 9) == 0)
		return strcmp(name, "security.capability") == 0;
	return strncmp(name, "trusted.", 8) != 0 && strncmp(name, "user.overlay.", 13) != 0;
}

/* The attributes that count, by name. */
struct attributes {
	char *text;    /* as the kernel lists them */
	char **sorted; /* into text */
	size_t count;
};

static void attributes_free(struct attributes *a)
{
	free(a->text);
	free(a->sorted);
}
#define _cleanup_attributes_ __attribute__((cleanup(attributes_free)))

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int attributes_list(int fd, struct attributes *out)
{
	ssize_t len = listxattr(fd_link(fd).path, NULL, 0);

	if (len <= 0) /* by far the most have none */
		return len == 0 || errno == ENOTSUP ? 0 : -1;
	out->text = malloc(XATTRS_MAX);
	len = out->text ? listxattr(fd_link(fd).path, out->text, XATTRS_MAX) : -1;
	if (len < 0)
		return -1;
	out->sorted = malloc(((size_t)len + 1) * sizeof(*out->sorted));
	if (!out->sorted)
		return -1;
	for (char *p = out->text, *end = p + len; p < end; p += strnlen(p, (size_t)(end - p)) + 1)
		if (memchr(p, '\0', (size_t)(end - p)) && attribute_counts(p))
			out->sorted[out->count++] = p;
	qsort(out->sorted, out->count, sizeof(*out->sorted), by_name);
	return 0;
}

/* An attribute that cannot be read (only root may, or it was just removed) counts as equal where that is so on both sides. */
static bool same_value(const struct pair *p, const char *name, char *a, char *b)
{
	ssize_t la = getxattr(fd_link(p->before).path, name, a, XATTRS_MAX);
	ssize_t lb = getxattr(fd_link(p->after).path, name, b, XATTRS_MAX);

	return la == lb && (la <= 0 || memcmp(a, b, (size_t)la) == 0);
}

/* 1: different, 0: equal, -1 with errno. */
static int compare_attributes(const struct pair *p)
{
	_cleanup_attributes_ struct attributes a = {0}, b = {0};

	if (attributes_list(p->before, &a) < 0 || attributes_list(p->after, &b) < 0)
		return -1;
	if (a.count != b.count)
		return 1;
	if (a.count == 0)
		return 0;
	_cleanup_free_ char *values = malloc(2 * XATTRS_MAX);
	if (!values)
		return -1;
	for (size_t i = 0; i < a.count; i++)
		if (strcmp(a.sorted[i], b.sorted[i]) != 0 || !same_value(p, a.sorted[i], values, values + XATTRS_MAX))
			return 1;
	return 0;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------ */

static int compare_contents(const struct pair *p, const struct found *before, const struct found *after)
{
	if (S_ISREG(after->st->st_mode))
		return compare_files(p, before, after);
	return S_ISLNK(after->st->st_mode) ? compare_links(p) : 0;
}

int entry_compare(const char *name, const struct found *before, const struct found *after, enum change_op *op, struct cordon_error *err)
{
	const struct stat *b = before->st, *a = after->st;

	if (b->st_dev == a->st_dev && b->st_ino == a->st_ino)
		return 0; /* the same layer, or a link to it: one file */
	_cleanup_pair_ struct pair p = {openat(before->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), -1};
	if (p.before >= 0)
		p.after = openat(after->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	*op = CHANGE_MODIFY;
	if (p.before < 0 || p.after < 0)
		return unreadable(name, err);
	int differs = compare_contents(&p, before, after);
	if (differs)
		return differs < 0 ? unreadable(name, err) : 1;
	*op = CHANGE_MODE;
	if (b->st_mode != a->st_mode || b->st_uid != a->st_uid || b->st_gid != a->st_gid)
		return 1;
	differs = compare_attributes(&p);
	if (differs)
		return differs < 0 ? unreadable(name, err) : 1;
	*op = CHANGE_TIME;
	return b->st_mtim.tv_sec != a->st_mtim.tv_sec || b->st_mtim.tv_nsec != a->st_mtim.tv_nsec;
}
