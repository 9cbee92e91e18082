/* SPDX-License-Identifier: Apache-2.0 */
/* The small things every file needs: scope-bound cleanup, array sizes, minimum and maximum. */
#ifndef CORDON_BASE_UTIL_H
#define CORDON_BASE_UTIL_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* AddressSanitizer is built in: gcc and clang say so in different words. */
#ifdef __SANITIZE_ADDRESS__
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static inline void cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd); /* never retried: on Linux the descriptor is gone even after EINTR, see close(2) */
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define _cleanup_fd_ __attribute__((cleanup(cleanup_fd)))
#define _cleanup_free_ __attribute__((cleanup(cleanup_free)))
#define _cleanup_dir_ __attribute__((cleanup(cleanup_dir)))

/* Takes the value out of a variable with a cleanup attribute, so that it outlives the scope. */
static inline int steal_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

static inline void *steal_ptr_(void *p)
{
	void *taken = *(void **)p;
	*(void **)p = NULL;
	return taken;
}
#define steal_ptr(p) ((__typeof__(*(p)))steal_ptr_(p))

#endif
