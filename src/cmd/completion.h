/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CMD_COMPLETION_H
#define CORDON_CMD_COMPLETION_H

/* Lists "sandboxes", "secrets", or the "snapshots" or "services" of the sandbox `what`, for the scripts. Always EXIT_OK. */
int completion_list(const char *kind, const char *what);

#endif
