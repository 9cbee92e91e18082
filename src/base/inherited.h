/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that the library starts with a known set of descriptors: whoever uses the library may have others that are inherited (a shell's `exec 9<file`, an
 * embedding runtime's), and what is inherited can be read and sent even by a process that cannot open anything.
 */
#ifndef CORDON_BASE_INHERITED_H
#define CORDON_BASE_INHERITED_H

#include <limits.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Closes every descriptor from `first` on. */
static inline void inherited_close(unsigned first)
{
	struct rlimit limit = {.rlim_cur = 0};
	if (syscall(SYS_close_range, first, UINT_MAX, 0u) == 0)
		return;
	getrlimit(RLIMIT_NOFILE, &limit); /* before Linux 5.9 */
	for (unsigned fd = first; fd < limit.rlim_cur && fd < INT_MAX; fd++)
		close((int)fd);
}

#endif
