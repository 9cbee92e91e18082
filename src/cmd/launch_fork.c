/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher of the command: a fork of it. What the caller's environment holds is none of a launcher's business, let alone of the sandboxes'
 * inits that it forks: the words are wiped out of memory, which also gives the process its name in `ps`.
 */
#include "cmd/launch_fork.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/launch.h"
#include "sandbox/launcher.h"

static char *words;
static size_t words_len; /* arguments and environment, as the kernel laid them out: one after the other */

void launch_fork_remember(int argc, char **argv)
{
	char *end = argc > 0 ? argv[0] : NULL;
	words = end;
	for (int i = 0; i < argc && argv[i] == end; i++)
		end += strlen(end) + 1;
	for (char **e = environ; e && *e == end; e++)
		end += strlen(end) + 1;
	words_len = (size_t)(end - words);
}

static void wipe(void)
{
	static const char name[] = "cordon-launcher";
	environ = NULL;
	if (!words_len)
		return;
	memset(words, 0, words_len);
	memcpy(words, name, MIN(sizeof(name), words_len) - 1);
}

_Noreturn static void become_launcher(int sock)
{
	char forced[16] = "";
	const char *limits = getenv("CORDON_LIMITS");
	int null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
	if (limits)
		strncat(forced, limits,
		        sizeof(forced) - 1); /* one that is cut off is none that exists, and so is refused when it is asked for */
	wipe();
	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(null, i) < 0)
			_exit(125);
	if (sock != LAUNCHER_FD && dup2(sock, LAUNCHER_FD) < 0)
		_exit(125);
	_exit(launcher_run(forced));
}

int launch(int sock, pid_t *pid, struct cordon_error *err)
{
	*pid = fork();
	if (*pid == 0)
		become_launcher(sock);
	if (*pid > 0)
		return 0;
	err_sys(err, "cannot start the launcher");
	return errno == EPERM ? err_hint(err, "a filter around this program forbids new processes (clone, clone3)") : -1;
}
