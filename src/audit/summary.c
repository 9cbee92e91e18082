/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/summary.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/util.h"

/* More different ones than this are not told apart: the targets are chosen by those who are watched. */
enum { SLOTS = 1 << 17, KEYS_MAX = SLOTS / 2 };
#define BYTES_MAX ((size_t)64 << 20)

/* Seeded, so that nobody can choose keys that all fall into one place. */
static size_t place(const struct audit_counts *c, unsigned category, struct slice key)
{
	uint64_t h = c->seed ^ category;

	for (size_t i = 0; i < key.len; i++) {
		h = (h ^ (unsigned char)key.at[i]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 32;
	}
	return h & (c->size - 1);
}

static int begin(struct audit_counts *c)
{
	c->size = SLOTS;
	c->slots = calloc(c->size, sizeof(*c->slots));
	if (getrandom(&c->seed, sizeof(c->seed), 0) != sizeof(c->seed))
		c->seed = (uintptr_t)c->slots;
	return c->slots ? 0 : -1;
}

static int count(struct audit_counts *c, enum audit_category category, struct slice key, bool denied)
{
	if (!key.at)
		return 0;
	if (!c->slots && begin(c) < 0)
		return -1;
	size_t i = place(c, category, key);
	struct audit_count *found = &c->slots[i];
	while (found->key && (found->len != key.len || found->category != category || memcmp(found->key, key.at, key.len) != 0)) {
		i = (i + 1) & (c->size - 1);
		found = &c->slots[i];
	}
	if (!found->key) {
		if (c->used == KEYS_MAX || c->bytes + key.len > BYTES_MAX) {
			c->others++;
			return 0;
		}
		found->key = malloc(key.len + 1);
		if (!found->key)
			return -1;
		memcpy(found->key, key.at, key.len);
		found->key[key.len] = '\0';
		found->len = key.len;
		found->category = category;
		c->used++;
		c->bytes += key.len;
	}
	found->count++;
	found->denied += denied;
	return 0;
}

int audit_summary_add(struct audit_summary *s, const struct audit_line *l)
{
	const bool denied = l->allowed == AUDIT_DENIED;

	s->records++;
	s->levels[l->level]++;
	s->categories[l->category]++;
	s->allowed[l->allowed]++;
	if (!s->first[0] || memcmp(l->ts, s->first, TEXT_TIME) < 0)
		memcpy(s->first, l->ts, TEXT_TIME);
	if (!s->last[0] || memcmp(l->ts, s->last, TEXT_TIME) > 0)
		memcpy(s->last, l->ts, TEXT_TIME);
	if (count(&s->targets, l->category, l->target, denied) < 0)
		return -1;
	return count(&s->sandboxes, AUDIT_EXEC, l->sandbox, denied);
}

/* The most frequent first; the same order for the same records. */
static int by_count(const void *a, const void *b)
{
	const struct audit_count *x = a, *y = b;

	if (!x->key || !y->key)
		return x->key ? -1 : y->key != NULL;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	int order = memcmp(x->key, y->key, MIN(x->len, y->len) + 1);
	return order ? order : (int)x->category - (int)y->category;
}

void audit_summary_finish(struct audit_summary *s)
{
	struct audit_counts *both[] = {&s->targets, &s->sandboxes};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		if (both[i]->slots)
			qsort(both[i]->slots, both[i]->size, sizeof(*both[i]->slots), by_count);
}

void audit_summary_free(struct audit_summary *s)
{
	struct audit_counts *both[] = {&s->targets, &s->sandboxes};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		for (size_t k = 0; k < both[i]->size && both[i]->slots; k++)
			free(both[i]->slots[k].key);
		free(both[i]->slots);
	}
	*s = (struct audit_summary){0};
}
