/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker gives up what it does not need: its user, every file, every system call but those that move bytes between sockets. Whoever takes it over by what a server or a
 * sandbox sends can open connections, which is bad enough, and nothing else.
 */
#ifndef CORDON_EGRESS_CONFINE_H
#define CORDON_EGRESS_CONFINE_H

#include <stdint.h>

#include "base/err.h"

/* As many connections, of those wanted, as there can be descriptors for. */
uint32_t confine_descriptors(uint32_t wanted);
/* From here on no file can be opened. */
int confine(struct cordon_error *err);

#endif
