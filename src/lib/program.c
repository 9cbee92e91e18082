/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cordon.h"

/* From the directory of a program or library: PREFIX/bin, PREFIX/lib, PREFIX/lib/ARCHITECTURE. */
static bool find_from(const char *path, size_t len, const char *name, char out[PATH_MAX])
{
	static const char *const places[] = {"", "../libexec/cordon/", "../../libexec/cordon/"};
	const char *slash = memrchr(path, '/', len);
	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++)
		if ((size_t)snprintf(out, PATH_MAX, "%.*s/%s%s", (int)(slash - path), path, places[i], name) < PATH_MAX &&
		    access(out, X_OK) == 0)
			return true;
	return false;
}

void program_find(const char *name, char out[PATH_MAX])
{
	char self[PATH_MAX];
	Dl_info info = {0};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
	if (n > 0 && find_from(self, (size_t)n, name, out))
		return;
	if (dladdr((const void *)(uintptr_t)cordon_version, &info) && info.dli_fname &&
	    find_from(info.dli_fname, strlen(info.dli_fname), name, out))
		return;
	snprintf(out, PATH_MAX, "%s/%s", CORDON_LIBEXECDIR, name);
}

static int add_actions(posix_spawn_file_actions_t *actions, const struct program_fd *fds, size_t count)
{
	int r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0);
	for (int i = 1; i <= 2 && !r; i++)
		r = posix_spawn_file_actions_adddup2(actions, 0, i);
	for (size_t i = 0; i < count && !r; i++)
		r = posix_spawn_file_actions_adddup2(actions, fds[i].fd, fds[i].at);
	return r;
}

/* posix_spawn does not copy the caller's memory (CLONE_VM): its cost does not grow with the caller. */
int program_spawn(const char *path, char *const argv[], const struct program_fd *fds, size_t count, pid_t *pid)
{
	char *const envp[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
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
	if (!(r = add_actions(&actions, fds, count)))
		r = posix_spawn(pid, path, &actions, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

int program_spawn_on(const char *path, const char *name, int sock, int at, pid_t *pid)
{
	char *const argv[] = {(char *)(uintptr_t)name, NULL};
	return program_spawn(path, argv, &(struct program_fd){sock, at}, 1, pid);
}
