/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/util.h"
#include "sandbox/lockdown.h"
#include "unpack/unpack.h"

#define MEMORY ((rlim_t)1 << 30) /* xz -9 needs 65 MB, zstd --long 2 GB, which is too much */

/* The rest answers EPERM: nothing can be opened, made, or sent anywhere but to what is open. */
static const int allowed[] = {
	SYS_read,
	SYS_pread64,
	SYS_write,
	SYS_writev,
	SYS_close,
	SYS_fstat,
	SYS_lseek,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_getpid,
	SYS_gettimeofday,
	SYS_exit,
	SYS_exit_group,
	SYS_gettid,
	SYS_rt_sigreturn,
	SYS_clock_gettime,
	SYS_rt_sigprocmask,
	SYS_restart_syscall,
	SYS_getrandom,
#ifdef ADDRESS_SANITIZER /* what its runtime needs */
	SYS_sched_yield,
	SYS_sigaltstack,
	SYS_readlinkat,
	SYS_prctl,
	SYS_sched_getaffinity,
	SYS_openat,
	SYS_newfstatat,
	SYS_rt_sigaction,
#endif
};

static const struct lockdown_limited limited[] = {
	{SYS_mmap, {{.argument = 2, .mask = PROT_EXEC, .count = 1, .values = {0}}}},
	{SYS_mprotect, {{.argument = 2, .mask = PROT_EXEC, .count = 1, .values = {0}}}},
};

int unpack_confine(struct cordon_error *err)
{
	const struct lockdown l = {.who = "the reader of archives",
	                           .calls = allowed,
	                           .call_count = ARRAY_SIZE(allowed),
	                           .limited = limited,
	                           .limited_count = ARRAY_SIZE(limited),
	                           .memory = MEMORY};
	return lockdown(&l, err);
}
