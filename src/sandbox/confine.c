/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/confine.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

static int set_capabilities(uint64_t permitted, uint64_t inheritable)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {
		{(uint32_t)permitted, (uint32_t)permitted, (uint32_t)inheritable},
		{(uint32_t)(permitted >> 32), (uint32_t)(permitted >> 32), (uint32_t)(inheritable >> 32)},
	};
	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

static int permitted_capabilities(uint64_t *out)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];
	if (syscall(SYS_capget, &h, d) < 0)
		return -errno;
	*out = d[0].permitted | (uint64_t)d[1].permitted << 32;
	return 0;
}

int confine_capabilities(uint64_t keep)
{
	uint64_t have = 0;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	int r = permitted_capabilities(&have);
	return r < 0 ? r : set_capabilities(keep & have, 0);
}

int confine_bounding_set(uint64_t keep)
{
	/* the kernel may know capabilities that our headers do not: go on until it says EINVAL */
	for (unsigned long cap = 0; cap < 64; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return errno == EINVAL && cap > CAP_CHECKPOINT_RESTORE - 1 ? 0 : -errno;
	return 0;
}

int confine_keep_all_capabilities(void)
{
	uint64_t all = 0;
	int r = permitted_capabilities(&all);
	if (r == 0)
		r = set_capabilities(all, all);
	for (unsigned long cap = 0; r == 0 && cap < 64; cap++)
		if (all & (1ull << cap))
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
	return r;
}

/* A limit above what the caller may set anyway becomes that: nobody can be given more than the caller has. */
static int limit(int resource, uint64_t value)
{
	struct rlimit r;
	if (getrlimit((__typeof__(RLIMIT_NOFILE))resource, &r) < 0)
		return -errno;
	rlim_t v = value > r.rlim_max ? r.rlim_max : (rlim_t)value;
	r.rlim_cur = r.rlim_max = v;
	return setrlimit((__typeof__(RLIMIT_NOFILE))resource, &r) < 0 ? -errno : 0;
}

int confine_rlimits(const struct confine_limits *l)
{
	const struct {
		int resource;
		uint64_t value;
		bool on;
	} table[] = {
		{RLIMIT_CORE, 1, true}, /* not 0: the kernel would still start a core_pattern that is a pipe, outside (fs/coredump.c) */
		{RLIMIT_NOFILE, l->files, true},
		{RLIMIT_FSIZE, l->disk, true},
		{RLIMIT_MEMLOCK, 8u << 20, true},
		{RLIMIT_MSGQUEUE, 1u << 20, true},
		{RLIMIT_NICE, 0, true},
		{RLIMIT_RTPRIO, 0, true},
		{RLIMIT_DATA, l->data, l->data != 0},
		{RLIMIT_NPROC, l->procs, l->procs != 0},
	};
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		int r = table[i].on ? limit(table[i].resource, table[i].value) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#define PR_GET_MDWE 66
#endif

bool confine_has_no_exec_gain(void)
{
	return prctl(PR_GET_MDWE, 0, 0, 0, 0) >= 0;
}

int confine_no_exec_gain(void)
{
	return prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) < 0 ? -errno : 0;
}

static int close_range_(unsigned first, unsigned last)
{
	return syscall(SYS_close_range, first, last, 0u) < 0 ? -errno : 0;
}

int confine_close_from(unsigned first)
{
	return close_range_(first, UINT_MAX);
}

int confine_close_except(int *keep, unsigned count)
{
	for (unsigned i = 1; i < count; i++) /* a handful: insertion sort */
		for (unsigned j = i; j > 0 && keep[j - 1] > keep[j]; j--) {
			int t = keep[j];
			keep[j] = keep[j - 1];
			keep[j - 1] = t;
		}
	unsigned from = 0;
	for (unsigned i = 0; i < count; i++) {
		if (keep[i] < 0)
			continue;
		if ((unsigned)keep[i] > from) {
			int r = close_range_(from, (unsigned)keep[i] - 1);
			if (r < 0)
				return r;
		}
		from = (unsigned)keep[i] + 1;
	}
	return close_range_(from, UINT_MAX);
}
