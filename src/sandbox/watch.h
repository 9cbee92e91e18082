/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher: a process of its own, on the host's side, for limits that no kernel object holds here. It looks every 5 ms at what a
 * sandbox uses and kills all of it when it is over; that is weaker than a controller (it can be outrun for a few milliseconds), so
 * results call it `weak` and report the overshoot that was seen.
 *
 * The watcher competes with the sandbox for the CPU. Run by root it takes a real-time priority. Run by an ordinary user it cannot raise
 * itself, so whoever starts the sandbox should lower it: nice 19 for pid 1 (inherited), a session of its own, and, where the CPU limit is
 * an affinity mask, at least one CPU left out of it. Without any of these 200 busy processes on two CPUs outrun it by far.
 *
 * Memory: resident set sizes first (cheap, too high when pages are shared), proportional ones (exact, slow) only when the cheap sum is over
 * the limit; plus blocks of memfds that are open but not mapped, each inode once; plus the sandbox's tmpfs.
 * Disk: the blocks below the writable trees, walked only when the file system's free space has fallen enough for it to matter.
 */
#ifndef CORDON_SANDBOX_WATCH_H
#define CORDON_SANDBOX_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Shared with whoever reports usage, as a one-page memfd: the watcher writes, the reader only reads. */
struct watch_record {
	uint64_t memory_peak; /* bytes, highest total seen */
	uint64_t disk_peak;   /* bytes below the writable trees, highest seen */
	uint32_t over_memory; /* 1: killed for memory */
	uint32_t over_disk;   /* 1: killed for disk */
	uint64_t cpu_us;      /* of all processes, at the moment of killing */
};

/* Further on in the record: what the cgroup's files (enum created_fd) said last, as text. Written before the cgroup is removed, so that
 * whoever finds it gone can rely on them. */
#define WATCH_TEXT_SIZE 448
#define WATCH_TEXT_AT(i) ((off_t)(1024 + (i)*WATCH_TEXT_SIZE))

#define WATCH_TREES 3

struct watch_request {
	uint64_t memory; /* 0: do not watch memory */
	uint64_t disk;   /* 0: do not watch disk */
	uint64_t inodes; /* with disk: most files below the writable trees */
	int init_pidfd;  /* pid 1 of the sandbox; killed when over, and the watcher ends when it dies */
	int proc_fd;     /* the sandbox's own /proc (lists exactly its processes), O_DIRECTORY. -1: none, allowed if memory is 0; deleted
	                   * files that are still open then do not count as disk */
	int tmpfs_fd;    /* a descriptor on the sandbox's tmpfs, for fstatfs; -1: none */
	int tree_fds[WATCH_TREES]; /* the writable trees (workspace upper, home, root); -1: none */
	int oom_fd;                /* memory.oom_control of a v1 cgroup: one process killed there means all are; -1: none */
	int record_fd;             /* the memfd */
};

/* What the file systems of the writable trees have in use, all writers together. */
struct watch_used {
	uint64_t bytes, files;
	bool counts_bytes, counts_files; /* btrfs has no inode counts, a tmpfs without size no blocks */
};
struct watch_used watch_used(const int tree_fds[WATCH_TREES]);

/* Whether so much was added since `then` that it is worth a look at how much of it these trees hold. */
bool watch_grew(const struct watch_used *then, const struct watch_used *now, uint64_t disk, uint64_t inodes);

/* Whether the kernel has killed a process in the v1 cgroup whose memory.oom_control this is; -1: it has not. */
bool watch_oom_killed(int oom_fd);

/* A new record: a memfd of one page, zeroed. */
int watch_record_new(struct cordon_error *err);

/*
 * The body of the watcher process (forked, one thread); returns when the sandbox is gone. Uses nothing but the descriptors it was given and
 * /proc/self. Becomes a session of its own, changes its priority, and joins the sandbox's ipc namespace to count its segments; as an
 * ordinary user that takes its user namespace as well, where RLIMIT_NPROC then counts the watcher as one process more.
 */
void watch_run(const struct watch_request *req);

#endif
