/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/map.h"

/* FNV-1a; whoever writes a text that collides makes only the check of that text slow, which has a limit. */
static uint32_t hash_of(struct text t)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < t.n; i++)
		h = (h ^ (unsigned char)t.s[i]) * 16777619u;
	return h;
}

static struct map_slot *slot_of(const struct map *m, struct text key, uint32_t hash)
{
	for (size_t i = hash & (m->size - 1);; i = (i + 1) & (m->size - 1)) {
		struct map_slot *s = &m->slots[i];
		if (!s->key.s || (s->hash == hash && text_same(s->key, key)))
			return s;
	}
}

void *map_get(const struct map *m, struct text key)
{
	return m->size ? slot_of(m, key, hash_of(key))->value : NULL;
}

static void grow(struct map *m, struct arena *a)
{
	struct map bigger = {.size = m->size ? m->size * 2 : 16, .count = m->count};
	bigger.slots = arena_alloc(a, bigger.size * sizeof(*bigger.slots));
	for (size_t i = 0; i < m->size; i++)
		if (m->slots[i].key.s)
			*slot_of(&bigger, m->slots[i].key, m->slots[i].hash) = m->slots[i];
	*m = bigger;
}

void **map_put(struct map *m, struct arena *a, struct text key)
{
	if (m->count * 4 >= m->size * 3)
		grow(m, a);
	uint32_t hash = hash_of(key);
	struct map_slot *s = slot_of(m, key, hash);
	if (!s->key.s) {
		s->key = key.s ? key : TEXT("");
		s->hash = hash;
		m->count++;
	}
	return &s->value;
}
