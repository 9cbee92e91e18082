/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that only goes forward. */
#ifndef CORDON_EGRESS_CLOCK_H
#define CORDON_EGRESS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static inline uint64_t clock_s(void)
{
	return clock_us() / 1000000;
}

#endif
