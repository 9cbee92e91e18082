/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SANDBOX_LAUNCHER_H
#define CORDON_SANDBOX_LAUNCHER_H

#define LAUNCHER_FD 3 /* where the launcher finds its request socket */

/* All of a launcher's life; its exit status. forced: CORDON_LIMITS, or NULL. */
int launcher_run(const char *forced);

#endif
