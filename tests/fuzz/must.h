/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target holds the code to; scripts/fuzz shows the line. */
#ifndef CORDON_FUZZ_MUST_H
#define CORDON_FUZZ_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                      \
	do {                                                                 \
		if (!(condition)) {                                          \
			fprintf(stderr, "broken promise: %s\n", #condition); \
			abort();                                             \
		}                                                            \
	} while (0)

#endif
