/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ids a sandbox gets. As root each sandbox has a range of 65,536 host ids of its own, so that two sandboxes never share an owner and
 * nothing inside equals an id of the host; in a container that lacks such ids, three ids per sandbox; as an ordinary user only the
 * caller's own id can be mapped. Nobody is root inside unless asked for.
 */
#ifndef CORDON_SANDBOX_IDMAP_H
#define CORDON_SANDBOX_IDMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum idmap_mode { IDMAP_RANGE, IDMAP_SMALL, IDMAP_SELF };

struct idmap {
	enum idmap_mode mode;
	uint32_t slot;
	uint32_t base;             /* host id of the first id of the range */
	uint32_t uid, gid;         /* the command's, inside */
	uint32_t own_uid, own_gid; /* IDMAP_SELF: ours, which these two stand for */
	bool root;                 /* commands have capabilities over whatever has an id in here */
};

/* Hands out ranges; one per launcher. Ranges in use by other launchers on this host are seen through locks on one file. */
struct idmap_pool {
	int lock_fd; /* /run/cordon/ids; byte N locked = slot N taken; locks vanish with their holder */
	enum idmap_mode mode;
	uint32_t next;
	uint8_t taken[512]; /* slots this launcher holds: locks of one open file do not exclude each other */
};

#define IDMAP_SLOTS 4096u
#define IDMAP_BASE 1879048192u /* above every range that systemd hands out (systemd.io/UIDS-GIDS), below 2^31 */
#define IDMAP_USER 1000u

int idmap_pool_open(struct idmap_pool *pool, struct cordon_error *err);
/*
 * uid/gid: as asked for inside, UINT32_MAX for the default. host_files: files of the host's will be shown; where there are no ids for
 * idmapped mounts (IDMAP_SMALL), the user inside then has to be ourselves to own them.
 */
int idmap_take(struct idmap_pool *pool, uint32_t uid, uint32_t gid, bool host_files, struct idmap *out, struct cordon_error *err);
void idmap_release(struct idmap_pool *pool, const struct idmap *m);

/* The host's id of an id inside (0 or the user's own). */
uint32_t idmap_host_id(const struct idmap *m, uint32_t inside);

/* Writes the maps of a process in a new user namespace. */
int idmap_write(const struct idmap *m, pid_t pid, struct cordon_error *err);

/*
 * A user namespace for an idmapped mount, under which files of (owner, group) on disk belong to the sandbox's user inside, and files
 * that the user makes belong to (owner, group) on disk. only: files of others have no owner inside, so that nobody there has capabilities over them, or could make any. Only for
 * IDMAP_RANGE. Returns a descriptor.
 */
int idmap_mount_userns(const struct idmap *m, uid_t owner, gid_t group, bool only, struct cordon_error *err);

#endif
