/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/lockdown.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/landlock.h"

#define NOBODY 65534

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "which architecture is this?"
#endif

#define LIMITED_INSNS (2 + LOCKDOWN_CONDITIONS * (3 + LOCKDOWN_VALUES)) /* of one, at most */

struct program {
	struct sock_filter insns[LOCKDOWN_CALLS_MAX + LOCKDOWN_LIMITED_MAX * LIMITED_INSNS + 8];
	unsigned short len;
};

static void add(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	p->insns[p->len++] = (struct sock_filter){code, yes, no, k};
}

static void add_condition(struct program *p, const struct lockdown_condition *c)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8u * c->argument), 0, 0);
	add(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	for (uint8_t i = 0; i < c->count; i++)
		add(p, BPF_JMP | BPF_JEQ | BPF_K, c->values[i], (uint8_t)(c->count - i), 0);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

static void add_limited(struct program *p, const struct lockdown_limited *l)
{
	const unsigned short at = p->len;
	add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)l->nr, 0, 0);
	for (size_t i = 0; i < LOCKDOWN_CONDITIONS && l->conditions[i].count; i++)
		add_condition(p, &l->conditions[i]);
	add(p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	p->insns[at].jf = (uint8_t)(p->len - at - 1);
}

static int load_filter(const struct lockdown *l)
{
	struct program p = {.len = 0};
	const uint8_t count = (uint8_t)l->call_count;
	if (l->call_count > LOCKDOWN_CALLS_MAX || l->limited_count > LOCKDOWN_LIMITED_MAX) {
		errno = E2BIG;
		return -1;
	}
	add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	add(&p, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
	add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	for (size_t i = 0; i < l->limited_count; i++)
		add_limited(&p, &l->limited[i]);
	for (uint8_t i = 0; i < count; i++)
		add(&p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)l->calls[i], (uint8_t)(count - i), 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	const struct sock_fprog prog = {.len = p.len, .filter = p.insns};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

/* As root of a user namespace there may be no other user to become: then its capabilities are what can be given up. */
static int give_up_user(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	if (geteuid() == 0 && syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	    setresuid(NOBODY, NOBODY, NOBODY) == 0)
		return 0;
	return (int)syscall(SYS_capset, &header, none);
}

int lockdown(const struct lockdown *l, struct cordon_error *err)
{
#ifdef ADDRESS_SANITIZER
	const struct rlimit memory = {RLIM_INFINITY, RLIM_INFINITY}; /* its shadow is a matter of terabytes */
	const struct rlimit files = memory;                          /* and it writes its reports somewhere */
#else
	const struct rlimit memory = {l->memory, l->memory}, files = {l->files, l->files};
#endif
	const struct rlimit none = {0, 0};
	_cleanup_fd_ int ruleset = landlock_abi() > 0 ? landlock_ruleset(NULL, 0, err) : -1;
	if (give_up_user() < 0)
		return err_sys(err, "%s cannot give up its user", l->who);
	if (chdir("/") < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_FSIZE, &files) < 0 || setrlimit(RLIMIT_AS, &memory) < 0 ||
	    setrlimit(RLIMIT_NPROC, &none) < 0 || (ruleset >= 0 && landlock_restrict(ruleset) < 0))
		return err_sys(err, "%s cannot lock itself in", l->who);
	return load_filter(l) < 0 ? err_sys(err, "%s cannot load its filter", l->who) : 0;
}
