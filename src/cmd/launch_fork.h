/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CMD_LAUNCH_FORK_H
#define CORDON_CMD_LAUNCH_FORK_H

/* First thing in main(): where arguments and environment lie, which a launcher gives up. */
void launch_fork_remember(int argc, char **argv);

#endif
