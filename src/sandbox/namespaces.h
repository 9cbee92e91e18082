/* SPDX-License-Identifier: Apache-2.0 */
/* Making processes in new namespaces. */
#ifndef CORDON_SANDBOX_NAMESPACES_H
#define CORDON_SANDBOX_NAMESPACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/airlock.h"

/*
 * Forks into the given CLONE_NEW* namespaces, into a v2 cgroup (cgroup_fd, or -1), with a pidfd (if pidfd is not NULL). Returns as fork(2).
 * The child has a copy of everything and must not return to the caller's loop.
 */
pid_t namespaces_clone(uint64_t flags, int cgroup_fd, int *pidfd, struct cordon_error *err);

/*
 * A network namespace for the calling process, with lo up or, on demand, not even that: then nothing inside talks to anything by IP. Making one takes as long as everything else that a clone does together, so it
 * is made by a helper process while the caller goes on; join() waits for it and enters the namespace. Once per process. With an airlock, if the
 * spec (which must stay until then) has ports: its sockets are in *out. Where nobody waits, make() in place of begin() does without the helper, and join() has nothing to do.
 */
int namespaces_network_begin(bool loopback, const struct airlock_spec *airlock, struct cordon_error *err);
int namespaces_network_make(bool loopback, struct cordon_error *err);
int namespaces_network_join(struct airlock *out, struct cordon_error *err);

#endif
