/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "lib/launch.h"
#include "lib/program.h"
#include "sandbox/launcher.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u /* Linux 6.3: executable although vm.memfd_noexec=1 */
#endif
#define HIGH_FD 10 /* above the descriptors that the launcher gets */

extern const char launcher_blob[], launcher_blob_end[];

/*
 * The launcher is part of the library and is executed from a sealed memfd: nothing has to be found on disk, and the running program cannot be
 * changed through /proc/PID/exe (CVE-2019-5736).
 */
static int launcher_memfd(struct cordon_error *err)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	size_t len = (size_t)(launcher_blob_end - launcher_blob);
	_cleanup_fd_ int fd = (int)syscall(SYS_memfd_create, "cordon-launcher", flags | MFD_EXEC);
	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_memfd_create, "cordon-launcher", flags);
	if (fd < 0)
		return err_sys(err, "memfd_create");
	if (fs_write_full(fd, launcher_blob, len) < 0)
		return err_sys(err, "cannot write the launcher");
	if (fcntl(fd, F_ADD_SEALS, seals) < 0)
		return err_sys(err, "cannot seal the launcher");
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	return high >= 0 ? high : err_sys(err, "dup");
}

int launch(int sock, pid_t *pid, struct cordon_error *err)
{
	_cleanup_fd_ int theirs = fcntl(sock, F_DUPFD_CLOEXEC, HIGH_FD);
	struct cordon_error why = {0};
	_cleanup_fd_ int program = launcher_memfd(&why);
	if (theirs < 0)
		return err_sys(err, "dup");
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
	int r = program < 0 ? why.sys_errno : program_spawn_on(path, "cordon-launcher", theirs, LAUNCHER_FD, pid);
	if (r == EACCES || r == EPERM) { /* vm.memfd_noexec=2, or a policy against executing memory: the installed one, if there is one */
		int installed = program_spawn_on(CORDON_LIBEXECDIR "/cordon-launcher", "cordon-launcher", theirs, LAUNCHER_FD, pid);
		r = installed == ENOENT ? r : installed;
	}
	if (r && r == why.sys_errno) {
		if (err)
			*err = why;
		return -1;
	}
	if (r) {
		errno = r;
		err_sys(err, "cannot start the launcher");
		return r == EPERM ? err_hint(err, "a filter around this program forbids new processes (clone, clone3)") : -1;
	}
	return 0;
}
