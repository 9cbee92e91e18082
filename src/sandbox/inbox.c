/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/inbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

#define NAME_SIZE 256

/* The directory that a path lies in, "": the inbox itself. False: its name is too long. */
static bool parent_of(const char *path, char out[NAME_SIZE])
{
	const char *slash = strchr(path, '/');
	const size_t n = slash ? (size_t)(slash - path) : 0;
	if (n >= NAME_SIZE)
		return false;
	memcpy(out, path, n);
	out[n] = '\0';
	return true;
}

/* Which file it is that has this name. 0: there is none. */
static ino_t number_of(int dir, const char *path)
{
	struct stat st;
	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ino : 0;
}

static int put(int dir, const struct code_file *f, struct buf *names, struct cordon_error *err)
{
	char parent[NAME_SIZE];
	if (!parent_of(f->path, parent))
		return err_set(err, CORDON_ERR_INPUT, "%.60s…: name too long", f->path);
	if (*parent && mkdirat(dir, parent, 0755) < 0 && errno != EEXIST)
		return err_sys(err, "cannot make %s", parent);
	if (unlinkat(dir, f->path, 0) < 0 && errno != ENOENT)
		return err_sys(err, "cannot replace %s", f->path);
	const int r = fs_write_file(dir, f->path, f->data, f->len, f->mode ? f->mode : 0444, err);
	const ino_t number = number_of(dir, f->path);
	buf_add(names, &number, sizeof(number));
	buf_add(names, f->path, strlen(f->path) + 1);
	return names->failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : r;
}

int inbox_put(int dir, const struct code_file *files, uint32_t count, struct buf *names, struct cordon_error *err)
{
	if (count && dir < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "this sandbox has no place for files");
	for (uint32_t i = 0; i < count; i++)
		if (put(dir, &files[i], names, err) < 0)
			return err_wrap(err, "cannot put files into the sandbox");
	return 0;
}

void inbox_remove(int dir, struct buf *names)
{
	char parent[NAME_SIZE];
	for (const char *p = names->data; p && p < names->data + names->len; p += strlen(p) + 1) {
		ino_t number;
		memcpy(&number, p, sizeof(number));
		p += sizeof(number);
		if (number != number_of(dir, p))
			continue; /* somebody else's by now */
		unlinkat(dir, p, 0);
		if (parent_of(p, parent) && *parent)
			unlinkat(dir, parent, AT_REMOVEDIR);
	}
	buf_free(names);
}
