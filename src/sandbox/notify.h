/* SPDX-License-Identifier: Apache-2.0 */
/* A listener's side of SECCOMP_RET_USER_NOTIF (seccomp_unotify(2)), and reading from who waits there. */
#ifndef CORDON_SANDBOX_NOTIFY_H
#define CORDON_SANDBOX_NOTIFY_H

#include <limits.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Newer kernels may have longer forms; notify_fits() tells whether these do. */
union notification {
	struct seccomp_notif n;
	char room[512];
};
bool notify_fits(void);

/* False: who waited is gone. Blocks where nobody waits: to be called after POLLIN only. */
bool notify_receive(int listener, union notification *out);

/* error: what the call fails with, 0: it succeeded. If nobody waits for it any more, nothing happens. */
void notify_answer(int listener, uint64_t id, int error);
/* The kernel makes the call, and reads the arguments again. */
void notify_go_on(int listener, uint64_t id);

/* The process that was read may have been another by then, if the caller died: then nobody waits for an answer. */
bool notify_is_waiting(int listener, uint64_t id);

/* Asks for an answer to wake its caller on the same CPU (Linux 6.6). */
void notify_wake_nearby(int listener);

/* The memory of a thread that waits, and the page of it that was read last. To be closed in any case. */
struct notify_memory {
	pid_t thread;
	int fd;      /* -1: not needed so far */
	uint64_t at; /* of data; where len is 0, nothing is known */
	size_t len;
	char data[4096];
};
void notify_memory_open(struct notify_memory *m, pid_t thread);
void notify_memory_close(struct notify_memory *m);
#define _cleanup_memory_ __attribute__((cleanup(notify_memory_close)))

/* Reads up to `size` bytes; how many there were before the first that cannot be read. */
size_t notify_read(struct notify_memory *m, uint64_t address, void *out, size_t size);

/* Reads a string, its NUL included, and returns its length with it; 0 if there is no NUL within `size` bytes that can be read. */
size_t notify_read_string(struct notify_memory *m, uint64_t address, char *out, size_t size);

/* What a path of the caller's is relative to: "/", its working directory (AT_FDCWD) or its descriptor. -1: cannot tell. */
int notify_open_base(pid_t thread, const char *path, int dirfd);

/* Some fields of /proc/PID/stat. */
struct notify_stat {
	char state;
	pid_t parent;
	uint32_t flags; /* PF_* */
	uint64_t born;  /* clock ticks since boot: numbers of processes are used again */
	uint64_t stack; /* where its stack begins: another address, most probably, for each program it ran; 0: cannot tell */
	int exit_code;  /* of a zombie; as from wait4(2) */
};
bool notify_read_stat(pid_t pid, struct notify_stat *out);

/* The process that a thread belongs to; 0: cannot tell. */
pid_t notify_process_of(pid_t thread);

#endif
