/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting programs as posix_spawn(3) does, by a child that borrows our memory until its exec, and what that cannot do: in another mount namespace, which a
 * process with threads can enter for a child only.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/bench.h"

extern char **environ;

#define STACK 65536

struct child {
	struct bench_command *command;
	int out, errors, null;
	int failed; /* errno */
};

/* Shares everything with us but descriptors: no allocation, no locks. */
#if defined(__clang__) || defined(__GNUC__)
__attribute__((no_sanitize("address")))
#endif
static int
child_main(void *arg)
{
	struct child *c = arg;
	sigset_t none;

	/* Ctrl-C is for us: a runtime that is killed half-way leaves containers behind, and we wait for it to end */
	setpgid(0, 0);
	sigemptyset(&none);
	if ((c->command->mount_ns < 0 || setns(c->command->mount_ns, CLONE_NEWNS) == 0) && dup2(c->null, 0) == 0 &&
	    dup2(c->out < 0 ? c->null : c->out, 1) == 1 && dup2(c->errors < 0 ? c->null : c->errors, 2) == 2 &&
	    sigprocmask(SIG_SETMASK, &none, NULL) == 0)
		execve(c->command->program, c->command->argv.items, environ);
	c->failed = errno;
	_exit(127);
}

static void new_id(struct bench *b, struct bench_command *c)
{
	if (c->id_at)
		snprintf(c->argv.items[c->id_at], sizeof(BENCH_ID), "cordon-bench-%d-%u", (int)getpid(), b->serial++);
}

pid_t bench_spawn(struct bench *b, struct bench_command *c, int out, int errors, struct cordon_error *err)
{
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	_cleanup_free_ char *stack = malloc(STACK);
	struct child child = {.command = c, .out = out, .errors = errors, .null = null};
	sigset_t all, before;

	if (null < 0 || !stack)
		return err_sys(err, "cannot start %s", c->program);
	new_id(b, c);
	sigfillset(&all); /* no handler of ours runs in the child */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = clone(child_main, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
	int failed = pid < 0 ? errno : child.failed;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!failed)
		return pid;
	if (pid > 0)
		waitpid(pid, NULL, 0);
	errno = failed;
	return err_sys(err, "cannot start %s", c->program);
}

/* What was written to the memfd: its first line that says something, or its last one, which is where programs say why they end. */
static void one_line(int fd, bool last, char *line, size_t size)
{
	char text[4096], *save = NULL;
	ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);

	*line = '\0';
	text[MAX(n, 0)] = '\0';
	for (char *l = strtok_r(text, "\n", &save); l && (last || !*line); l = strtok_r(NULL, "\n", &save))
		if (l[strspn(l, " \t\r")])
			snprintf(line, size, "%s", l);
}

int bench_spawn_wait(pid_t pid, int errors, struct cordon_error *err)
{
	char line[256];
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_sys(err, "waitpid");
		if (bench_interrupted() > 1)
			kill(-pid, SIGKILL);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	one_line(errors, true, line, sizeof(line));
	return err_set(err, CORDON_ERR_SYSTEM, "%s %d%s%s", WIFEXITED(status) ? "exit status" : "signal",
	               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), *line ? ": " : "", line);
}

static int empty(int fd, struct cordon_error *err)
{
	return ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ? err_sys(err, "cannot empty a memory file") : 0;
}

int bench_spawn_once(struct bench *b, struct bench_command *c, double *ms, struct cordon_error *err)
{
	if (empty(b->errors, err) < 0)
		return -1;
	double start = bench_now_ms();
	pid_t pid = bench_spawn(b, c, -1, b->errors, err);
	int r = pid < 0 ? -1 : bench_spawn_wait(pid, b->errors, err);
	*ms = bench_now_ms() - start;
	return r;
}

int bench_spawn_line(struct bench *b, struct bench_command *c, char *line, size_t size, struct cordon_error *err)
{
	if (empty(b->errors, err) < 0)
		return -1;
	pid_t pid = bench_spawn(b, c, line ? b->errors : -1, b->errors, err);
	int r = pid < 0 ? -1 : bench_spawn_wait(pid, b->errors, err);
	if (r == 0 && line)
		one_line(b->errors, false, line, size);
	return r;
}

int bench_spawn_words(struct bench *b, const char *const *words, char *line, size_t size, struct cordon_error *err)
{
	struct bench_command c = {.program = words[0], .mount_ns = -1};
	int r = bench_add_words(&c.argv, words, err);

	if (r == 0)
		r = bench_spawn_line(b, &c, line, size, err);
	bench_command_free(&c);
	return r;
}

int bench_add_words(struct strlist *argv, const char *const *words, struct cordon_error *err)
{
	for (size_t i = 0; words[i]; i++)
		if (strlist_add(argv, words[i], err) < 0)
			return -1;
	return 0;
}

void bench_command_free(struct bench_command *c)
{
	strlist_free(&c->argv);
	if (c->mount_ns >= 0)
		close(c->mount_ns);
	c->mount_ns = -1;
	c->id_at = 0;
}
