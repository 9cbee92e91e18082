/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of paths, all asked at once: which of them is this path in? Patterns are found by a name in the path, so a path that has nothing to do with any
 * of them costs a few lookups, however many there are.
 */
#ifndef CORDON_GATE_CLASSES_H
#define CORDON_GATE_CLASSES_H

#include <stdint.h>

#include "gate/map.h"
#include "gate/pack.h"

#define CLASSES_MAX 64

struct class_pattern {
	const char *pattern;
	struct letters letters;
	uint32_t class;
	bool except;
};

struct class_patterns {
	const struct class_pattern **items;
	size_t count;
};

struct classes {
	const char **names;
	unsigned *taints; /* 1 << enum text_mark: of what is read from there */
	size_t count;
	struct class_pattern *all;
	size_t pattern_count;
	struct map by_first; /* struct class_patterns, by the first component of patterns that begin with "/" */
	struct map by_any;   /* … by the one behind the slash of patterns that begin with two stars and a slash */
	struct class_patterns others;
};

/* Bit n stands for class n. */
struct class_set {
	uint64_t yes, maybe, except;
};

/* -1 if there is none. */
int class_find(const struct classes *c, const char *name);
/* `fill` puts values in for ${workspace} and the like. False: there are too many. */
bool classes_add(struct classes *c, struct arena *a, const struct gate_class *class, const char *(*fill)(void *data, const char *pattern),
                 void *data);
/* When all are there. */
void classes_index(struct classes *c, struct arena *a);

/* The path is absolute and normal, or begins with a marker. Not `maybe`: only what is certain is asked for. */
struct class_set classes_of(const struct classes *c, struct text path, bool maybe);

#endif
