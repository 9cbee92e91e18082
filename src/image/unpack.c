/* SPDX-License-Identifier: Apache-2.0 */
#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/program.h"

#define PROGRAM "cordon-unpack"
#define HIGH_FD 10
#define PIPE_BYTES (1 << 20)

int unpack_start(int archive, uint64_t most, int *stream, pid_t *pid, struct cordon_error *err)
{
	char path[PATH_MAX], name[] = PROGRAM, number[24];
	char *const argv[] = {name, number, NULL};
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	_cleanup_fd_ int ours = ends[0], theirs = ends[1];
	_cleanup_fd_ int high_archive = fcntl(archive, F_DUPFD_CLOEXEC, HIGH_FD), high_stream = fcntl(theirs, F_DUPFD_CLOEXEC, HIGH_FD);
	fcntl(ours, F_SETPIPE_SZ, PIPE_BYTES); /* more at once, where the user's share of pipes allows it */
	program_find(PROGRAM, path);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)most);
	const struct program_fd fds[] = {{high_archive, 0}, {high_stream, 1}};
	errno = high_archive < 0 || high_stream < 0 ? errno : program_spawn(path, argv, fds, ARRAY_SIZE(fds), pid);
	if (errno != 0) {
		err_sys(err, "cannot start the reader of archives, %s", path);
		return err_hint(err, "`make install` puts it there");
	}
	*stream = steal_fd(&ours);
	return 0;
}

void unpack_end(pid_t pid, struct cordon_error *err)
{
	int status = 0;
	siginfo_t info = {0};
	/* one that is done by itself keeps how it ended */
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGPIPE && err && err->code != CORDON_OK)
		err_hint(err, "the archive made its reader fail (%s): it is damaged, or made to do harm", strsignal(WTERMSIG(status)));
}
