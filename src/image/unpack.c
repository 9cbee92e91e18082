/* SPDX-License-Identifier: Apache-2.0 */
#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/program.h"

#define PROGRAM "cordon-unpack"
#define HIGH_FD 10
#define PIPE_BYTES (1 << 20)

static int add_actions(posix_spawn_file_actions_t *actions, int archive, int stream)
{
	int r = posix_spawn_file_actions_adddup2(actions, archive, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(actions, stream, 1);
	return r ? r : posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_RDWR, 0);
}

/* As program_spawn(), with two descriptors. 0 or an errno. Both lie above those that they become. */
static int spawn(const char *path, uint64_t most, int archive, int stream, pid_t *pid)
{
	char name[] = PROGRAM, number[24];
	char *const argv[] = {name, number, NULL}, *const envp[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)most);
	int r = posix_spawn_file_actions_init(&actions);
	if (r)
		return r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		posix_spawn_file_actions_destroy(&actions);
		return r;
	}
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	r = add_actions(&actions, archive, stream);
	if (!r)
		r = posix_spawn(pid, path, &actions, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

int unpack_start(int archive, uint64_t most, int *stream, pid_t *pid, struct cordon_error *err)
{
	char path[PATH_MAX];
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	_cleanup_fd_ int ours = ends[0], theirs = ends[1];
	_cleanup_fd_ int high_archive = fcntl(archive, F_DUPFD_CLOEXEC, HIGH_FD), high_stream = fcntl(theirs, F_DUPFD_CLOEXEC, HIGH_FD);
	fcntl(ours, F_SETPIPE_SZ, PIPE_BYTES); /* more at once, where the user's share of pipes allows it */
	program_find(PROGRAM, path);
	errno = high_archive < 0 || high_stream < 0 ? errno : spawn(path, most, high_archive, high_stream, pid);
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
