/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries never move: an entry's place is its number. Each is in a chain of the hash table, by its name; those that no connection holds are in a ring as well, from the one
 * that was used last to the one that was not used for longest, which is the next to go. All of it is found in one step, however many names somebody asks for.
 *
 * Inside, they choose the names, below a suffix that is allowed: the hash has a secret key, so that they cannot choose those of one chain (SipHash, by Aumasson and Bernstein).
 */
#include "egress/names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/util.h"
#include "egress/addresses.h"

#define NUMBERS ((uint32_t)(AIRLOCK_NAME_LAST - AIRLOCK_NAME_FIRST + 1))

/* Entries are named by their index; 0 is none of them, but the ring's beginning and end. */
struct entry {
	char *name;
	uint64_t used_s;
	uint32_t holds;        /* connections */
	uint32_t chain;        /* the next with the same hash */
	uint32_t newer, older; /* in the ring, if holds is 0 */
};

struct names {
	struct entry *entries; /* capacity + 1 */
	uint32_t *chains;      /* mask + 1 */
	uint32_t capacity, count, mask;
	uint32_t first;  /* number of the first entry, from AIRLOCK_NAME_FIRST on */
	uint64_t now_s;  /* the latest that anybody said */
	uint64_t key[2]; /* of the hash */
};

/* ---- the hash ----------------------------------------------------------------------------------------------------------------- */

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned count)
{
	while (count--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static uint64_t sip_hash(const uint64_t key[2], const char *text)
{
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
	                 key[1] ^ 0x7465646279746573};
	size_t len = strlen(text), at = 0;

	for (bool last = false; !last; at += 8) {
		uint64_t word = 0;

		last = len - at < 8;
		memcpy(&word, text + at, last ? len - at : 8);
		if (last)
			word ^= (uint64_t)len << 56;
		v[3] ^= word;
		sip_rounds(v, 2);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint32_t *chain_of(const struct names *n, const char *name)
{
	return &n->chains[sip_hash(n->key, name) & n->mask];
}

static void chain_remove(struct names *n, uint32_t i)
{
	uint32_t *at = chain_of(n, n->entries[i].name);

	while (*at != i)
		at = &n->entries[*at].chain;
	*at = n->entries[i].chain;
}

static void chain_insert(struct names *n, uint32_t i)
{
	uint32_t *at = chain_of(n, n->entries[i].name);

	n->entries[i].chain = *at;
	*at = i;
}

static uint32_t find(const struct names *n, const char *name)
{
	uint32_t i = *chain_of(n, name);

	while (i && strcmp(n->entries[i].name, name) != 0)
		i = n->entries[i].chain;
	return i;
}

/* ---- the ring ----------------------------------------------------------------------------------------------------------------- */

static void ring_remove(struct names *n, uint32_t i)
{
	n->entries[n->entries[i].newer].older = n->entries[i].older;
	n->entries[n->entries[i].older].newer = n->entries[i].newer;
}

/* Marked with the latest time there is: so the ring is in the order of time, too. */
static void ring_insert_newest(struct names *n, uint32_t i)
{
	struct entry *e = &n->entries[i], *start = &n->entries[0];

	e->used_s = n->now_s;
	e->newer = 0;
	e->older = start->older;
	n->entries[start->older].newer = i;
	start->older = i;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

/* Both random: the hash's key, and where numbers begin. A broker that is started again knows no name that the one before gave out, and must not give its address to another. */
static bool choose_secrets(struct names *n)
{
	struct {
		uint64_t key[2];
		uint32_t first;
	} random;
	ssize_t got;

	do
		got = getrandom(&random, sizeof(random), 0);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(random)) /* up to 256 bytes come at once, see getrandom(2) */
		return false;
	memcpy(n->key, random.key, sizeof(n->key));
	n->first = random.first % NUMBERS;
	return true;
}

struct names *names_new(uint32_t capacity)
{
	struct names *n = calloc(1, sizeof(*n));
	uint32_t chains = 1;

	if (!n)
		return NULL;
	n->capacity = MAX(MIN(capacity, NUMBERS), 1u);
	while (chains < n->capacity)
		chains *= 2;
	n->mask = chains - 1;
	n->entries = calloc((size_t)n->capacity + 1, sizeof(*n->entries));
	n->chains = calloc(chains, sizeof(*n->chains));
	if (n->entries && n->chains && choose_secrets(n))
		return n;
	names_free(n);
	return NULL;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (uint32_t i = 1; i <= n->count; i++)
		free(n->entries[i].name);
	free(n->entries);
	free(n->chains);
	free(n);
}

/* The entry of a number; 0: nobody has it. */
static uint32_t entry_of(const struct names *n, uint32_t number)
{
	uint32_t i;

	if (number < AIRLOCK_NAME_FIRST || number > AIRLOCK_NAME_LAST)
		return 0;
	i = (number - AIRLOCK_NAME_FIRST + NUMBERS - n->first) % NUMBERS + 1;
	return i <= n->count ? i : 0;
}

static uint32_t number_of(const struct names *n, uint32_t i)
{
	return AIRLOCK_NAME_FIRST + (n->first + i - 1) % NUMBERS;
}

/* A place that was never used, or that of the name which has not been used for longest; 0: all are still in use. */
static uint32_t free_place(const struct names *n)
{
	uint32_t oldest = n->entries[0].newer;

	if (n->count < n->capacity)
		return n->count + 1;
	return oldest && n->now_s - n->entries[oldest].used_s > NAMES_TTL_S ? oldest : 0;
}

static uint32_t add(struct names *n, const char *name)
{
	uint32_t i = free_place(n);
	char *copy = i ? strdup(name) : NULL;

	if (!copy)
		return 0;
	if (i <= n->count) {
		chain_remove(n, i);
		ring_remove(n, i);
		free(n->entries[i].name);
	} else {
		n->count = i;
	}
	n->entries[i].name = copy;
	chain_insert(n, i);
	ring_insert_newest(n, i);
	return i;
}

uint32_t names_number(struct names *n, const char *name, uint64_t now_s)
{
	uint32_t i = find(n, name);

	n->now_s = MAX(n->now_s, now_s);
	if (!i) {
		i = add(n, name);
	} else if (n->entries[i].holds == 0) {
		ring_remove(n, i);
		ring_insert_newest(n, i);
	}
	return i ? number_of(n, i) : 0;
}

const char *names_of(const struct names *n, uint32_t number)
{
	uint32_t i = entry_of(n, number);

	return i ? n->entries[i].name : NULL;
}

void names_hold(struct names *n, uint32_t number)
{
	uint32_t i = entry_of(n, number);

	if (i && n->entries[i].holds++ == 0)
		ring_remove(n, i);
}

void names_release(struct names *n, uint32_t number)
{
	uint32_t i = entry_of(n, number);

	if (i && n->entries[i].holds > 0 && --n->entries[i].holds == 0)
		ring_insert_newest(n, i);
}

/* ---- addresses ---------------------------------------------------------------------------------------------------------------- */

static const uint8_t block4[4] = {AIRLOCK_BLOCK4}, block6[16] = {AIRLOCK_BLOCK6};

static uint32_t number_in(const uint8_t low[2])
{
	uint32_t number = (uint32_t)low[0] << 8 | low[1];

	return number >= AIRLOCK_NAME_FIRST && number <= AIRLOCK_NAME_LAST ? number : 0;
}

uint32_t names_number_of4(const uint8_t address[4])
{
	return memcmp(address, block4, 2) == 0 ? number_in(address + 2) : 0;
}

/* The whole block is local in the airlock: fd00:c0::1:10 arrives, too, and is nobody's. */
uint32_t names_number_of6(const uint8_t address[16])
{
	return memcmp(address, block6, 14) == 0 ? number_in(address + 14) : 0;
}

void names_address4(uint32_t number, uint8_t out[4])
{
	memcpy(out, block4, sizeof(block4));
	out[2] = (uint8_t)(number >> 8);
	out[3] = (uint8_t)number;
}

void names_address6(uint32_t number, uint8_t out[16])
{
	memcpy(out, block6, sizeof(block6));
	out[14] = (uint8_t)(number >> 8);
	out[15] = (uint8_t)number;
}
