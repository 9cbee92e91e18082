/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-attacks: tries to do harm from where it is started.
 *
 *   cordon-attacks NAME [KEY=VALUE…]                  one attack; exit status 0 if it worked
 *   cordon-attacks --all [--only NAME] [KEY=VALUE…]   every attack, a line each
 *   cordon-attacks --controls [--only NAME] …         the same, each where it is supposed to work
 *   cordon-attacks --decoy MARKER TOKEN               the decoy process, see decoy.c; MARKER is only there to be seen
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest/attack.h"

/* No attack takes longer, unless it hangs; then SIGALRM ends it. */
#define ATTACK_SECONDS 10

static const char *signal_name(int signo)
{
	switch (signo) {
	case SIGSYS:
		return "SIGSYS";
	case SIGKILL:
		return "SIGKILL";
	case SIGSEGV:
		return "SIGSEGV";
	case SIGALRM:
		return "timed out";
	case SIGABRT:
		return "SIGABRT";
	case SIGBUS:
		return "SIGBUS";
	case SIGPIPE:
		return "SIGPIPE";
	default:
		return "a signal";
	}
}

void attack_try(const struct attack *a, const struct decoys *d, bool own_mounts, struct outcome *out)
{
	const char *why = "";
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		/* A group of its own, so that what it leaves behind can be found; the alarm because a wall may also be silence. */
		setpgid(0, 0);
		alarm(ATTACK_SECONDS);
		if (own_mounts && unshare(CLONE_NEWNS) < 0)
			_exit(errno);
		_exit(-a->run(d));
	}
	*out = (struct outcome){0};
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		why = "cannot fork";
	else if (WIFSIGNALED(status))
		why = signal_name(WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		why = errno_name(WEXITSTATUS(status));
	else
		out->worked = true;
	snprintf(out->detail, sizeof(out->detail), "%s", why);
	if (pid > 0)
		kill(-pid, SIGKILL);
}

void attacks_try_all(const char *only, const struct decoys *d)
{
	for (size_t i = 0; i < attack_count; i++) {
		const struct attack *a = &attack_table[i];
		struct outcome o;

		if (only && strcmp(only, a->name) != 0)
			continue;
		attack_try(a, d, false, &o);
		dprintf(STDOUT_FILENO, "%s\t%s\t%s\n", a->name, o.worked ? "worked" : "failed", o.detail);
	}
}

static int try_one(const char *name, const struct decoys *d)
{
	for (size_t i = 0; i < attack_count; i++) {
		struct outcome o;

		if (strcmp(name, attack_table[i].name) != 0)
			continue;
		attack_try(&attack_table[i], d, false, &o);
		dprintf(STDOUT_FILENO, "%s\t%s\t%s\n", name, o.worked ? "worked" : "failed", o.detail);
		return o.worked ? 0 : 1;
	}
	dprintf(STDERR_FILENO, "cordon-attacks: no attack is called %s\n", name);
	return 125;
}

int main(int argc, char **argv)
{
	struct decoys d = {.items = argv + 2, .count = argc - 2};
	const char *only = NULL;
	int status = 0;

	if (argc < 2) {
		dprintf(STDERR_FILENO, "usage: cordon-attacks NAME|--all|--controls [--only NAME] [KEY=VALUE...]\n");
		return 125;
	}
	if (argc >= 4 && strcmp(argv[2], "--only") == 0) {
		only = argv[3];
		d = (struct decoys){.items = argv + 4, .count = argc - 4};
	}
	if (strcmp(argv[1], "--all") == 0)
		attacks_try_all(only, &d);
	else if (strcmp(argv[1], "--controls") == 0)
		controls_try_all(only, &d);
	else if (strcmp(argv[1], "--decoy") == 0 && argc == 4)
		status = decoy_main(argv[2], argv[3]);
	else
		status = try_one(argv[1], &d);
	_exit(status); /* not exit(): a sanitized build's leak check at exit would trace itself, which a sandbox forbids */
}
