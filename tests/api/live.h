/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the program live. */
#ifndef CORDON_TESTS_API_LIVE_H
#define CORDON_TESTS_API_LIVE_H

#include "check.h"

struct scene {
	struct cordon *ctx;
	const char *
		seed; /* a host directory with "file" ("seed\n"), "other" ("other\n") and "dir/in" ("in\n"), also called "dir/twin", in it */
};

/* live_service.c: while something else runs inside. */
void test_services(const struct scene *t);

/* Counts the sealed layers whose metadata have this line; NULL: all. */
int count_layers(const char *line);

#endif
