/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of the watcher (watch.c): what the processes of a sandbox hold in memory, and what its writable trees hold on disk. */
#ifndef CORDON_SANDBOX_WATCH_PARTS_H
#define CORDON_SANDBOX_WATCH_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/watch.h"

#define WATCH_PROCS 8192   /* processes that are told apart; what more there are counts with its resident size */
#define WATCH_INODES 65536 /* open deleted files that are told apart, a power of two */
#define WATCH_DEPTH 16384  /* directories below each other; deeper is taken as an attempt to hide */
#define WATCH_KEEP_FDS 24  /* levels of which the walk keeps the descriptor, so that renames do not matter there */

/* ---- memory -------------------------------------------------------------------------------------------------------------------- */

struct watch_proc {
	pid_t pid;
	uint32_t size, rss, shared; /* pages, from statm */
	uint64_t shmem;             /* bytes mapped, proportional, once measured */
};

/* What the last pass found of a process, at its pid modulo WATCH_PROCS; bytes. */
struct watch_base {
	pid_t pid;
	unsigned pass;      /* which pass that was */
	uint64_t pss, anon; /* proportional and resident anonymous size */
};

/* A child that may be in its parent's memory, see drop_twins(). */
struct watch_twin {
	pid_t pid;
	uint64_t since, seen;
};

struct watch_memory {
	uint64_t limit, page;
	int proc_fd, tmpfs_fd;    /* not owned; tmpfs_fd -1: none */
	dev_t shm_dev, tmpfs_dev; /* where memfds live; the sandbox's tmpfs (0: none) */
	bool counts_sysv;         /* this process has joined the sandbox's ipc namespace */
	unsigned join_tries;

	uint64_t cpu_ticks;                   /* of all processes, summed up when they are killed */
	uint64_t total;                       /* best estimate of the last look */
	uint64_t bound;                       /* … and what it was at most */
	uint64_t memfd_bytes, unlinked_bytes; /* of the last scan of descriptors */
	uint64_t now;
	uint64_t next_look, next_fds, next_pass, next_learn, pass_cost, fds_at; /* monotonic ns */
	uint64_t host_free, host_shared, fds_shared;         /* sysinfo(): the best since the last look, since the last scan */
	uint64_t shm_exact, shm_shared, shm_held, shm_until; /* what full smaps said last, and of which sums */
	uint64_t pass_rss;                                   /* sum of resident sizes at the last pass */

	struct watch_twin twins[8];
	unsigned pass;
	bool base_ok;       /* no process came or went during the last pass */
	uint64_t signature; /* of the pids at the last scan */

	unsigned count;              /* procs that are filled in */
	uint64_t rss, shared, extra; /* sums in bytes; extra: of processes that did not fit */
	struct watch_proc procs[WATCH_PROCS];
	struct watch_base base[WATCH_PROCS];
	uint32_t generation;
	unsigned inode_count;
	struct {
		uint64_t key;
		uint32_t generation;
	} inodes[WATCH_INODES];
	char buf[16384];
};

void watch_memory_init(struct watch_memory *m, uint64_t limit, int proc_fd, int tmpfs_fd, int memfd);
/* Looks, if it is time to. true: over the limit. */
bool watch_memory_over(struct watch_memory *m, uint64_t now);
/* Near the limit: look again at once. */
bool watch_memory_close(const struct watch_memory *m);
/* More than half full. */
bool watch_memory_filling(const struct watch_memory *m);
/* SIGKILL to every process of the sandbox. */
void watch_kill_procs(struct watch_memory *m);

/* Sums up deleted files that are held open: m->memfd_bytes, m->unlinked_bytes. */
void watch_scan_fds(struct watch_memory *m);
/* Bytes held by memfds (as of the last scan), tmpfs and System V segments. */
uint64_t watch_held(const struct watch_memory *m);
/* Bytes of shared memory that p has mapped, proportional, and that watch_held() does not have. */
uint64_t watch_mapped_not_held(struct watch_memory *m, const struct watch_proc *p);
/* Enters the sandbox's ipc namespace once that is possible, to be able to ask for its segments. */
void watch_join_ipc(struct watch_memory *m);

/* Reading a sandbox's /proc */
char *watch_put_number(char *p, unsigned number); /* the end of what was put, not terminated */
const char *watch_pid_path(char path[48], pid_t pid, const char *file);
ssize_t watch_read(const struct watch_memory *m, pid_t pid, const char *file, char *buf, size_t size); /* a terminated string, or -1 */
/* Calls each() for every name in dir that is a number. */
void watch_each(int dir, void (*each)(struct watch_memory *, int dir, unsigned number), struct watch_memory *m);

/* ---- disk ---------------------------------------------------------------------------------------------------------------------- */

struct watch_level {
	ino_t ino;
	off_t next; /* where to go on in this directory */
	int fd;     /* -1: reopen it as ".." of the one below */
};

struct watch_walk {
	int roots[WATCH_TREES]; /* not owned */
	unsigned root, depth;
	int fd; /* the directory being read, -1: between roots */
	dev_t dev;
	ino_t ino;
	bool active, torn; /* torn: something could not be read, so bytes and files are too low */
	bool too_deep;
	uint64_t bytes, files;
	size_t pos, len;
	char buf[4096];
	struct watch_level stack[WATCH_DEPTH];
};

void watch_walk_start(struct watch_walk *w, const int roots[WATCH_TREES]);
/* Goes on for about `entries` directory entries; true: finished, w->active is false again. */
bool watch_walk_step(struct watch_walk *w, unsigned entries);

uint64_t watch_clock(void); /* monotonic, ns */

#endif
