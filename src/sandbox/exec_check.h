/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file could be executed, for the record. By mode, mount and interpreter the supervisor can tell itself; by Landlock only somebody can who is under the
 * rules, and the supervisor cannot be: it could not read the memory of the command any more. So a child of it is, which does nothing but ask the kernel
 * (AT_EXECVE_CHECK, Linux 6.14; before that it tries, and stops short of the program's first instruction).
 */
#ifndef CORDON_SANDBOX_EXEC_CHECK_H
#define CORDON_SANDBOX_EXEC_CHECK_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct exec_file {
	dev_t dev;
	ino_t ino;
	struct timespec changed;
};

struct exec_check {
	int landlock_fd;               /* -1: nobody is asked */
	int sock;                      /* to the child, -1: not started yet */
	bool silent;                   /* there is none, or it cannot tell */
	struct exec_file complete[16]; /* files whose interpreters were there a moment ago */
};

void exec_check_begin(struct exec_check *c, int landlock_fd);

/* Of a regular file; fd may be O_PATH. 0: yes; EACCES or EPERM: no; ENOENT: its interpreter does not exist; -1: yes, as far as can be told. */
int exec_check(struct exec_check *c, int fd, const struct stat *st);

#endif
