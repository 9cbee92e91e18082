/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/util.h"
#include "layers/commit_parts.h"

#define NAME "key"

/* 1: there is none. */
static int read_key(int home, struct commit_key *out, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = openat(home, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 1 : err_sys(err, "cannot open the key of commits");
	if (fstat(fd, &st) < 0 || read(fd, out->bytes, sizeof(out->bytes)) != (ssize_t)sizeof(out->bytes) || st.st_uid != geteuid() ||
	    (st.st_mode & 077)) {
		err_set(err, CORDON_ERR_DENIED, "the key of commits in $CORDON_HOME is damaged, or others can read it");
		return err_hint(err, "remove the file `" NAME "` there; a commit that was interrupted before cannot be recovered then");
	}
	return 0;
}

/* Complete under its name, or not there: it is written elsewhere and linked, and whoever is first wins. */
static int make_key(int home, struct cordon_error *err)
{
	struct commit_key key;
	char id[ID_LEN + 1], name[ID_LEN + 8];
	id_new(id);
	snprintf(name, sizeof(name), ".key-%s", id);
	if (getrandom(key.bytes, sizeof(key.bytes), 0) != (ssize_t)sizeof(key.bytes))
		return err_sys(err, "no random numbers");
	_cleanup_fd_ int fd = openat(home, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool ok = fd >= 0 && write(fd, key.bytes, sizeof(key.bytes)) == (ssize_t)sizeof(key.bytes) && fsync(fd) == 0 &&
	          (linkat(home, name, home, NAME, 0) == 0 || errno == EEXIST);
	if (!ok)
		err_sys(err, "cannot write the key of commits");
	if (fd >= 0)
		unlinkat(home, name, 0);
	return ok && fsync(home) == 0 ? 0 : -1;
}

int commit_key_load(const char *home, bool make, struct commit_key *out, struct cordon_error *err)
{
	_cleanup_fd_ int dir = openat(AT_FDCWD, home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT && !make ? 1 : err_sys(err, "cannot open %s", home);
	int r = read_key(dir, out, err);
	if (r != 1 || !make)
		return r;
	return make_key(dir, err) < 0 ? -1 : read_key(dir, out, err);
}
