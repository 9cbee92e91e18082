/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SANDBOX_LAUNCHER_H
#define CORDON_SANDBOX_LAUNCHER_H

#define LAUNCHER_FD 3 /* where the launcher finds its request socket */

#endif
