/* SPDX-License-Identifier: Apache-2.0 */
/* The other programs of an installation: cordon-full, cordon-gate. */
#ifndef CORDON_LIB_PROGRAM_H
#define CORDON_LIB_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/*
 * Where it is: beside this program or library (a build directory), in libexec/cordon of the prefix that these are in (an installation that was moved), else where it
 * was to be installed.
 */
void program_find(const char *name, char out[PATH_MAX]);

/* A descriptor that a helper gets, and the number under which it finds it. It must lie above all of these numbers. */
struct program_fd {
	int fd, at;
};

/* Starts a helper: no environment, no signals blocked, standard streams at /dev/null but for those that are among `fds`. 0 or an errno. */
int program_spawn(const char *path, char *const argv[], const struct program_fd *fds, size_t count, pid_t *pid);
/* The same for one that has no arguments and talks over one socket. */
int program_spawn_on(const char *path, const char *name, int sock, int at, pid_t *pid);

#endif
