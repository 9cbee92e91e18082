/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holding memory, process and CPU limits with what the host has: cgroup v2 controllers, cgroup v1 hierarchies (mixed freely, per
 * resource), or rlimits plus a watcher process. Runs in the launcher, on the host's side; nothing here is reachable from inside.
 *
 * Life of a limits object:  limits_probe() once → limits_begin() before the clone, which is into the v2 cgroup → limits_complete(), and the
 * child enters the v1 cgroups → watch_run() in a process of its own where a watcher is needed → limits_destroy() after the last process
 * is gone.
 */
#ifndef CORDON_SANDBOX_LIMITS_H
#define CORDON_SANDBOX_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum limit_method { LIMIT_NONE, LIMIT_CGROUP2, LIMIT_CGROUP1, LIMIT_RLIMIT };

/* Which mechanism holds which limit on this host; filled in once per launcher. */
struct limits_host {
	enum limit_method memory, pids, cpu;
	int v2_fd; /* our subtree of the v2 hierarchy (…/cordon), -1: none; also for kill and freeze beside v1 controllers */
	int memory_fd, pids_fd, cpu_fd; /* our subtree of each v1 hierarchy, -1: none */
	char why[192];                  /* why the better mechanism is missing, for people: "memory controller not delegated to uid 1000" */
};

/* What one sandbox asks for; 0: no such limit. One more process than `pids` is allowed, for pid 1. */
struct limits_request {
	uint64_t memory, pids, cpus_milli, disk;
	bool freezes; /* limits_freeze() will be asked for */
};

#define LIMITS_NAME_MAX 96

struct limits {
	enum limit_method memory, pids, cpu;
	char name[LIMITS_NAME_MAX]; /* the cgroup's directory name below each subtree */
	int v2_fd;                  /* the sandbox's own v2 cgroup (for CLONE_INTO_CGROUP), -1: none */
	bool has_v2;                /* … was made, and is to be removed */
	int enter_fds[3];           /* v1 `tasks` files that the child writes "0" to; -1: unused */
	/* Descriptors for whoever reports usage: read with pread(), -1 where the mechanism has none. */
	int usage_memory_fd; /* memory.peak, memory.max_usage_in_bytes or the watcher's record */
	int usage_oom_fd;    /* memory.events, memory.oom_control */
	int usage_pids_fd;   /* pids.peak */
	int usage_cpu_fd;    /* cpu.stat, v2 only: elsewhere init knows */
};

/*
 * Finds what works here. CORDON_LIMITS in `forced` ("cgroup2", "cgroup1", "rlimit", NULL or "" = best) pins the choice, for tests; a
 * forced mechanism that does not work is an error. Creates the `cordon` subtree where it may. Never moves the calling process.
 */
int limits_probe(const char *forced, struct limits_host *host, struct cordon_error *err);
void limits_host_close(struct limits_host *host);

/*
 * Chooses by what each limit is held, and makes what has to exist before the clone: the v2 cgroup, which is entered by CLONE_INTO_CGROUP.
 * Nothing is limited yet. On failure nothing is left behind.
 */
int limits_begin(const struct limits_host *host, const struct limits_request *req, const char *name, struct limits *out,
                 struct cordon_error *err);

/*
 * Sets the limits and makes the rest, while the child is already at work: the v1 cgroups, which it enters by writing "0"
 * to each of enter_fds. On failure limits_destroy() removes what there is.
 */
int limits_complete(const struct limits_host *host, const struct limits_request *req, struct limits *l, struct cordon_error *err);

/* Kills whatever is left in the sandbox's v2 cgroup, if there is one (cgroup.kill); its pid namespace has done that before. Works after limits_destroy() returned 1, too. */
void limits_kill(const struct limits_host *host, const struct limits *l);

/* Stops everything inside, init included, until it is thawed (cgroup.freeze). ENOTSUP in err->sys_errno: there is no v2 cgroup, or none was asked for. */
int limits_freeze(const struct limits_host *host, const struct limits *l, bool frozen, struct cordon_error *err);

/* Closes and removes. 0, or 1 if a cgroup is still busy (try again later). */
int limits_destroy(const struct limits_host *host, struct limits *l);

/*
 * Removes cgroups whose owner is dead, and kills what is left in them. Only names of the form "PIDNSINODE-PID-STARTTIME.ID" (owner stamps,
 * launcher.c) of our own pid namespace are touched; does nothing if /proc is not that of our pid namespace. Takes up to 100 ms for a cgroup
 * whose processes die slowly, so call it off the request path.
 */
void limits_sweep(const struct limits_host *host);

const char *limit_method_name(enum limit_method m, const char *rlimit_name);

#endif
