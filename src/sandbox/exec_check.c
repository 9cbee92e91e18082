/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/exec_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/descriptor.h"
#include "sandbox/landlock.h"

#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000 /* Linux 6.14; EINVAL before */
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

#define HEAD 4096 /* where the loader of a program is named, in practice */
#define LINE 256  /* BINPRM_BUF_SIZE: what the kernel reads of a script */
#define DEPTH 5   /* scripts whose interpreters are scripts; the kernel ends there with ELOOP */

static bool is_same(const struct exec_file *f, const struct stat *st)
{
	return f->ino == st->st_ino && f->dev == st->st_dev && f->changed.tv_sec == st->st_ctim.tv_sec &&
	       f->changed.tv_nsec == st->st_ctim.tv_nsec;
}

static void remember(struct exec_file *f, const struct stat *st)
{
	*f = (struct exec_file){st->st_dev, st->st_ino, st->st_ctim};
}

/* ---- interpreters --------------------------------------------------------------------------------------------------------------- */

/* The path behind "#!", or of a dynamic program's loader; NULL: there is none, or it cannot be told. */
static const char *interpreter_in(char *head, size_t len)
{
	if (len >= 3 && head[0] == '#' && head[1] == '!') {
		char *name = head + 2 + strspn(head + 2, " \t");
		head[MIN(len, (size_t)LINE)] = '\0';
		name[strcspn(name, " \t\n")] = '\0';
		return name;
	}
	Elf64_Ehdr e;
	if (len < sizeof(e) || memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64)
		return NULL;
	memcpy(&e, head, sizeof(e));
	for (size_t i = 0; i < e.e_phnum && e.e_phentsize == sizeof(Elf64_Phdr); i++) {
		Elf64_Phdr p;
		if (e.e_phoff > len || len - e.e_phoff < (i + 1) * sizeof(p))
			return NULL;
		memcpy(&p, head + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_INTERP)
			return p.p_offset < len && p.p_filesz && p.p_filesz <= len - p.p_offset && !head[p.p_offset + p.p_filesz - 1]
			               ? head + p.p_offset
			               : NULL;
	}
	return NULL;
}

/* -1: it does not exist; -2: there is none, or nobody can tell; else an O_PATH descriptor of it. */
static int open_interpreter(int fd)
{
	char link[32], head[HEAD + 1];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	_cleanup_fd_ int file = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = file < 0 ? -1 : pread(file, head, HEAD, 0);
	const char *name = n > 0 ? interpreter_in(head, (size_t)n) : NULL;
	if (!name || *name != '/') /* relative ones are the caller's */
		return -2;
	int found = open(name, O_PATH | O_CLOEXEC);
	return found < 0 && errno != ENOENT && errno != ENOTDIR ? -2 : found;
}

/* ---- the child ------------------------------------------------------------------------------------------------------------------ */

static char empty[] = "";
static char *const no_words[] = {empty, NULL}, *const no_env[] = {NULL};

/*
 * Without AT_EXECVE_CHECK it is done, by a child that is traced: it stops before the first instruction of the program, and is killed. EINVAL: it could not be
 * done. That takes time, and so each file is tried once.
 */
static int try_it(int fd)
{
	int status;
	sigset_t none;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		sigemptyset(&none); /* what stops it is a SIGTRAP: blocked, as all are here, it would wait and the program run */
		if (sigprocmask(SIG_SETMASK, &none, NULL) < 0 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(EINVAL);
		char path[32];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		execve(path, no_words, no_env);
		_exit(errno);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return EINVAL;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return 0;
}

static int try_once(int fd)
{
	static struct {
		struct exec_file file;
		int error;
	} tried[64];
	struct stat st;
	if (fstat(fd, &st) < 0)
		return EINVAL;
	__typeof__(tried[0]) *t = &tried[st.st_ino % ARRAY_SIZE(tried)];
	if (!is_same(&t->file, &st)) {
		t->error = try_it(fd);
		remember(&t->file, &st);
	}
	return t->error;
}

static int ask(int fd)
{
	static bool unknown;
	if (unknown)
		return try_once(fd);
	if (syscall(SYS_execveat, fd, "", no_words, no_env, AT_EMPTY_PATH | AT_EXECVE_CHECK) == 0)
		return 0;
	unknown = errno == EINVAL;
	return unknown ? try_once(fd) : errno;
}

_Noreturn static void serve(int sock, int landlock_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_NAME, "cordon-check", 0, 0, 0);
	int keep[] = {0, 1, 2, sock, landlock_fd};
	if (confine_close_except(keep, ARRAY_SIZE(keep)) < 0 || confine_capabilities(0) < 0 || landlock_restrict(landlock_fd) < 0)
		_exit(1);
	for (;;) {
		int fd = -1, error = 0;
		char byte;
		if (descriptor_receive(sock, &byte, sizeof(byte), &fd) <= 0)
			_exit(0);
		for (int depth = 0; fd >= 0 && error == 0 && depth < DEPTH; depth++) {
			error = ask(fd);
			int next = error == 0 ? open_interpreter(fd) : -1;
			close(fd);
			fd = next;
		}
		cleanup_fd(&fd);
		if (send(sock, &error, sizeof(error), MSG_NOSIGNAL) != (ssize_t)sizeof(error))
			_exit(0);
	}
}

/* ---- the supervisor ------------------------------------------------------------------------------------------------------------- */

void exec_check_begin(struct exec_check *c, int landlock_fd)
{
	*c = (struct exec_check){.landlock_fd = landlock_fd, .sock = -1, .silent = landlock_fd < 0};
}

static bool start(struct exec_check *c)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	pid_t pid = fork();
	if (pid == 0)
		serve(pair[1], c->landlock_fd);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return false;
	}
	c->sock = pair[0];
	return true;
}

/* Programs are started again and again: what was looked into lately is not opened again. */
static bool is_complete(struct exec_check *c, int fd, const struct stat *st)
{
	struct exec_file *known = &c->complete[st->st_ino % ARRAY_SIZE(c->complete)];
	if (is_same(known, st))
		return true;
	int found = open_interpreter(fd);
	if (found == -1)
		return false;
	cleanup_fd(&found);
	remember(known, st);
	return true;
}

/* It is not waited for with waitpid(): it ends with us, and init reaps it. */
int exec_check(struct exec_check *c, int fd, const struct stat *st)
{
	int error = 0;
	if (syscall(SYS_faccessat2, fd, "", X_OK, AT_EMPTY_PATH) < 0 && errno == EACCES)
		return EACCES;
	if (!is_complete(c, fd, st))
		return ENOENT;
	if (c->landlock_fd < 0)
		return 0;
	if (!c->silent && c->sock < 0)
		c->silent = !start(c);
	if (!c->silent &&
	    (descriptor_send(c->sock, fd) < 0 || recv(c->sock, &error, sizeof(error), 0) != (ssize_t)sizeof(error) || error == EINVAL))
		c->silent = true;
	return c->silent ? -1 : error == EACCES || error == EPERM ? error : 0;
}
