/* SPDX-License-Identifier: Apache-2.0 */
/* Text → pointer, in an arena. Keys are not copied. */
#ifndef CORDON_GATE_MAP_H
#define CORDON_GATE_MAP_H

#include <stdint.h>

#include "gate/arena.h"
#include "gate/text.h"

struct map_slot {
	struct text key; /* s == NULL: empty */
	uint32_t hash;
	void *value;
};

struct map {
	struct map_slot *slots;
	size_t size, count; /* size is a power of two, or 0 */
};

void *map_get(const struct map *m, struct text key);
/* The place of the value, which is NULL if the key is new. Valid until the next call. */
void **map_put(struct map *m, struct arena *a, struct text key);

#endif
