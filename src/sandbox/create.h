/* SPDX-License-Identifier: Apache-2.0 */
/* Making one sandbox, and taking it apart again: the launcher's half outside, and the half that runs in the new namespaces. */
#ifndef CORDON_SANDBOX_CREATE_H
#define CORDON_SANDBOX_CREATE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/idmap.h"
#include "sandbox/limits.h"
#include "sandbox/mounts.h"
#include "sandbox/scratch.h"
#include "sandbox/spec.h"
#include "sandbox/watch.h"

/* What a launcher has for all its sandboxes. */
struct host {
	struct idmap_pool ids;
	struct limits_host limits;
	char *limits_forced; /* what limits was probed with */
	bool limits_probed;
	bool kernel_checked;
	unsigned births; /* sandboxes that are being set up now */
	long cpus;
	char stamp[64];
	struct scratch_host scratch;
};

struct sandbox {
	pid_t pid; /* init's, 0: free slot or gone */
	int pidfd;
	pid_t watcher;
	bool parked; /* made ahead and not used yet: there is nothing to watch */
	bool queued; /* the CPUs have enough to do: it is made with little effort and not in little time */
	bool dead;   /* init was reaped; what is left are cgroups and scratch */
	bool limits_gone, scratch_gone;
	int busy;       /* attempts at removing the cgroups so far */
	char name[128]; /* STAMP.ID */
	char id[SPEC_ID_LEN + 1];
	struct idmap ids;
	struct limits limits;
	uint64_t disk, memory;
	uint64_t watch_at_ms;   /* when a watcher is due, UINT64_MAX: never */
	uint64_t used_at_ms;    /* when there began to be something to watch */
	struct watch_used used; /* what the disk had in use when its trees were opened, or less */
	int handshake;          /* our end; closed when no longer needed */
	int proc_fd, root_fd;   /* for the watcher */
	int user_ns, mount_ns;  /* SPEC_LIVE: to come back to; -1: none */
	struct mounts_cache mounts;
	int tree_fds[3]; /* what commands write to on disk, for the watcher; -1: none */
	int record_fd;
	struct scratch scratch;
};

/* Makes it. Replies CREATED over sock; init replies READY or ERROR itself. On failure nothing is left behind and err says why. */
int sandbox_create(struct host *host, const struct sandbox_spec *spec, int sock, struct sandbox *out, struct cordon_error *err);

/* The child has sent what the watcher needs; it is started a few milliseconds from now, if the sandbox still lives. */
void sandbox_handshake(struct sandbox *s);
/* Or a little later still, if there would be nothing for it to see. */
void sandbox_start_watcher(struct sandbox *s);
/* One that was made ahead is used from now on. */
void sandbox_unpark(struct sandbox *s);
void sandbox_kill(const struct sandbox *s);

/* One attempt at removing what an ended sandbox left; true when nothing is left. Large trees are removed by a child process. */
bool sandbox_clean_up(struct host *host, struct sandbox *s);

/*
 * Exchanges the layers of a live sandbox, by a child process that enters its namespaces; the answer goes to sock, from there. The caller
 * has seen to it that no command runs inside.
 */
void sandbox_relayer(struct host *host, struct sandbox *s, const struct sandbox_spec *spec, int sock);

/* Opens what the operations write to, for the watcher, in place of what it looked at before. */
int sandbox_open_trees(struct sandbox *s, const struct sandbox_spec *spec, struct cordon_error *err);

uint64_t clock_ms(void);

#endif
