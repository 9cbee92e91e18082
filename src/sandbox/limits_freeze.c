/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/limits.h"

#define FREEZE_MS 2000 /* a process in uninterruptible sleep can take this long */

static bool is_frozen(int fd, bool want)
{
	char text[256];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return strstr(text, want ? "frozen 1" : "frozen 0");
}

int limits_freeze(const struct limits_host *host, const struct limits *l, bool frozen, struct cordon_error *err)
{
	char path[LIMITS_NAME_MAX + 32];
	if (!l->has_v2) {
		errno = ENOTSUP;
		return err_sys(err, "no cgroup to freeze");
	}
	snprintf(path, sizeof(path), "%s/cgroup.events", l->name);
	_cleanup_fd_ int events = openat(host->v2_fd, path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/cgroup.freeze", l->name);
	_cleanup_fd_ int fd = openat(host->v2_fd, path, O_WRONLY | O_CLOEXEC);
	if (events < 0 || fd < 0 || write(fd, frozen ? "1" : "0", 1) != 1)
		return err_sys(err, "cannot %s the sandbox", frozen ? "freeze" : "thaw");
	struct pollfd p = {.fd = events, .events = POLLPRI};
	for (int waited = 0; !is_frozen(events, frozen); waited += 10) {
		if (waited >= FREEZE_MS) {
			if (frozen && pwrite(fd, "0", 1, 0) < 0)
				errno = 0; /* it was not going to be frozen, then */
			errno = ETIMEDOUT;
			return err_sys(err, "cannot %s the sandbox", frozen ? "freeze" : "thaw");
		}
		poll(&p, 1, 10);
	}
	return 0;
}
