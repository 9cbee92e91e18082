/* SPDX-License-Identifier: Apache-2.0 */
/* What a command was refused, as its result tells it. */
#ifndef CORDON_LIB_DENIALS_H
#define CORDON_LIB_DENIALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DENIALS_LISTED 100

struct denials {
	struct cordon_denial *items; /* each owns its texts */
	size_t count;
	int64_t total; /* also what is not listed */
};

/* Copies it. What is refused again is one. */
int denials_add(struct denials *d, const struct cordon_denial *denial, struct cordon_error *err);
void denials_free(struct denials *d);

#endif
