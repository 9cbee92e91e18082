/* SPDX-License-Identifier: Apache-2.0 */
/* What renames.c and renames_request.c share; nobody else needs it. */
#ifndef CORDON_SANDBOX_RENAMES_PARTS_H
#define CORDON_SANDBOX_RENAMES_PARTS_H

#include <limits.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A path as the caller gave it, and what it leads to: a directory of ours (O_PATH) and a name in it. */
struct place {
	int parent;
	char name[NAME_MAX + 1];
	char path[PATH_MAX];
};

struct request {
	uint64_t id;
	pid_t thread;
	uint64_t born; /* of the thread: numbers are used again */
	int nr;
	uint64_t args[6];
	struct place old, new;
};

/* Where the five things lie that renameat2(2) takes; the others imply some. */
struct call {
	int nr;
	signed char old_dir, old, new_dir, new, flags; /* argument, -1: AT_FDCWD or 0 */
};

const struct call *call_of(int nr);
unsigned flags_of(const struct call *c, const uint64_t *args);

/* Reads what the caller asks for. False if it is nothing for us; mostly that is known after the first path. To be closed in any case. */
bool read_request(const struct seccomp_notif *n, struct request *r);
void close_request(struct request *r);

/* The thread asks for the same thing as before. Fills in the paths of `now` only: once the directory is moved, the old one is none any more. */
bool is_repeated(const struct request *before, const struct seccomp_notif *n, struct request *now);
/* Finds where the paths of `now` lead for the thread of `before`. To be closed in any case. */
bool find_again(const struct request *before, struct request *now);

#define NARROWED_MAX 64

/* Processes that called landlock_restrict_self, and when the first did: who was born before, of another process, inherited nothing. */
struct narrowed {
	pid_t processes[NARROWED_MAX];
	size_t count;
	uint64_t since; /* clock ticks since boot, as in /proc/PID/stat */
	bool anybody;   /* too many to tell */
};

void note_narrowing(struct narrowed *n, pid_t thread);
bool may_be_narrowed(const struct narrowed *n, pid_t thread);

uint64_t ticks_since_boot(void);
/* When a process or thread was started, in clock ticks since boot. 0: cannot tell. */
uint64_t start_ticks(pid_t pid);

#endif
