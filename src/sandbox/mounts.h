/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file system of a sandbox: a tmpfs as root, on which the set-up operations put read-only binds, device nodes, /proc and the writable
 * trees; then pivot_root, and the host's tree is gone.
 *
 * Everything goes through descriptors (open_tree, fsmount, move_mount): no path is looked up twice, none leaves the new root.
 */
#ifndef CORDON_SANDBOX_MOUNTS_H
#define CORDON_SANDBOX_MOUNTS_H

#include <sys/types.h>

#include "base/err.h"
#include "sandbox/idmap.h"
#include "sandbox/spec.h"

#define MOUNTS_MAX_SOURCES 64
#define MOUNTS_TREES 2 /* /app, /home/user */

/* In the sandbox's mount namespace: opens the trees, as handles for whoever is outside. */
int mounts_open_trees(int trees[MOUNTS_TREES], struct cordon_error *err);

/*
 * Detached mounts that have to be made outside the sandbox's user namespace when cordon runs as root (idmapped mounts, directories that
 * only root can enter), and inside when it runs as a user (who has no rights outside). In the order in which the operations use them.
 */
struct mount_sources {
	int fds[MOUNTS_MAX_SOURCES];
	size_t count;
};

/* What need not be found out again when the layers of a sandbox are exchanged. Start with MOUNTS_NO_CACHE. */
struct mounts_cache {
	int userns; /* for idmapped mounts of what belongs to owner and group; -1: none yet */
	uid_t owner;
	gid_t group;
	bool only;         /* idmap_mount_userns() */
	int own;           /* the sandbox's own, for its root; -1: none */
	bool seed_checked; /* the directory (dev, ino) was held against the rules */
	dev_t seed_dev;
	ino_t seed_ino;
};
#define MOUNTS_NO_CACHE ((struct mounts_cache){.userns = -1, .own = -1})

/* Does now what mounts_prepare() would do each time: checks the seed, makes the namespace. */
int mounts_fill_cache(const struct sandbox_spec *spec, const char *scratch, const struct idmap *ids, struct mounts_cache *cache,
                      struct cordon_error *err);

/* Opens, checks (D2) and clones. `scratch` is the path of the sandbox's scratch directory. On failure nothing is left open. */
int mounts_prepare(const struct sandbox_spec *spec, const char *scratch, const struct idmap *ids, struct mounts_cache *cache,
                   struct mount_sources *out, struct cordon_error *err);
void mount_sources_close(struct mount_sources *s);

/* True if something of the host can be written through a mount. */
bool mounts_writable(const struct sandbox_spec *spec);

/* True if files of the host's are shown, whose owner should be the user inside. */
bool mounts_show_host_files(const struct sandbox_spec *spec);

/* What the watcher needs to see from outside. */
struct mounts_view {
	int proc_fd;  /* the sandbox's /proc */
	int root_fd;  /* its root tmpfs */
	int inbox_fd; /* where files can be put into OP_INBOX, for init alone; -1: there is none */
};

/* Gets the sources when the first operation needs one. */
typedef int (*mounts_get_sources)(void *arg, struct mount_sources *out, struct cordon_error *err);

/* In the new namespaces: builds the tree and enters it. */
int mounts_build(const struct sandbox_spec *spec, const struct idmap *ids, mounts_get_sources get_sources, void *arg,
                 struct mounts_view *view, struct cordon_error *err);

/*
 * In the namespaces of a live sandbox in which no command runs: mounts other layers in the place of those that are there. spec holds
 * OP_LAYERED operations, the OP_ALIAS that go with them, and the OP_BIND, OP_HIDE and OP_EXEC that lie in them, nothing else. self: /proc/self, opened outside.
 * With OP_HIDE and OP_EXEC alone, commands may run: what there is to be hidden by now is hidden.
 */
int mounts_relayer(const struct sandbox_spec *spec, const struct idmap *ids, int self, const struct mount_sources *sources,
                   struct cordon_error *err);

#endif
