/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rename(2) of a directory that lies in a lower layer. overlayfs answers EXDEV (its redirect_dir is not for user namespaces), and git mv,
 * os.rename, npm and cargo give up. So the filter hands the three rename calls over (SECCOMP_RENAMES) and this answers them.
 *
 * Theory of operation. The exec's supervisor (supervisor.h) reads the old path from the caller's memory, and if it is no directory on an
 * overlay, the call goes on (SECCOMP_USER_NOTIF_FLAG_CONTINUE): the kernel reads the arguments again and answers itself. For a directory a
 * worker is forked that tries the rename, and on EXDEV does it by hand (rename_by_hand).
 *
 * Who may do what. The supervisor looks: it has the command's user and filter, and CAP_SYS_PTRACE over the sandbox's own user namespace,
 * since Yama lets nobody else read the memory of what is not its descendant. It changes nothing. The worker acts: with the command's user,
 * no capability, the same Landlock rules, filter and limits. So whatever a caller makes of its memory, its descriptors or the tree
 * meanwhile, nothing happens that it could not have done by itself, and "go on" is always what would have happened without us.
 * A process may have confined itself further with Landlock, and nobody can ask the kernel whether it did. So landlock_restrict_self is
 * handed over too: it always goes on, but from then on only processes that were born before, and did not call it, are helped.
 *
 * Limits. By hand is no single step: for a moment both names are there, and a kill in between leaves both, or a directory called
 * .cordon-rename-*. Who has the directory itself open, or as its working directory, keeps the removed one. Open files stay the same ones if
 * they were changed since the sandbox began; others keep showing the lower layer's, as after any copy-up. Programs inside can have no
 * listeners of their own (EBUSY). A signal with a handler interrupts the wait: with SA_RESTART the call comes again and gets its answer,
 * without it the caller sees EINTR, and the rename goes on.
 */
#ifndef CORDON_SANDBOX_RENAMES_H
#define CORDON_SANDBOX_RENAMES_H

#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "sandbox/spec.h"

/* Whether anything in a sandbox lies, or may come to lie, in a lower layer. */
bool renames_needed(const struct sandbox_spec *spec);

#define RENAMES_MAX 16 /* directories that are moved at the same time; further renames wait */

/*
 * In the supervisor. distrust: an earlier one was killed, and with it the knowledge of who confined itself: nobody is helped any more.
 * landlock_fd -1: none. lock: a file that all supervisors of a sandbox share.
 */
struct renames;
struct renames *renames_begin(int listener, int landlock_fd, int lock, bool distrust);
/* False: all workers are busy, and what comes next has to wait. */
bool renames_has_room(struct renames *r);
/* Takes care of one notification: answers it, now or later. */
void renames_handle(struct renames *r, const struct seccomp_notif *n);
/* What the workers say is waited for (at most RENAMES_MAX entries are filled in, how many is returned), and answered. */
size_t renames_wait(const struct renames *r, struct pollfd *p);
void renames_turn(struct renames *r, const struct pollfd *p, size_t count);

/*
 * What rename(2) would do to the directory old_name, on a file system that refuses to; both directories must be of one mount. flags: 0 or
 * RENAME_NOREPLACE. Files older than `born` cannot be in the upper layer and are copied; others are linked, so that who has them open
 * keeps them. 0, or an errno with nothing changed.
 */
int rename_by_hand(int old_parent, const char *old_name, int new_parent, const char *new_name, unsigned flags, const struct timespec *born);

#endif
