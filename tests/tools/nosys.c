/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nosys NAME[,NAME…] [--] COMMAND [ARG…]: runs a command for which, and for all its descendants, the named system calls do not exist.
 *
 * An older kernel in a bottle: a seccomp filter answers ENOSYS to these calls and allows the rest. Filters stack, and the strictest
 * answer wins, so a program that loads one of its own under this one is not disturbed. A name may be followed by =ERRNO
 * (EPERM, EINVAL, EOPNOTSUPP), for what containers' filters answer.
 * Build: cc -static -o nosys nosys.c
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "unknown architecture"
#endif

#define MOST 64

static const struct {
	const char *name;
	uint32_t nr;
} calls[] = {
	{"openat2", 437},
	{"clone3", 435},
	{"close_range", 436},
	{"pidfd_open", 434},
	{"pidfd_send_signal", 424},
	{"pidfd_getfd", 438},
	{"faccessat2", 439},
	{"open_tree", 428},
	{"move_mount", 429},
	{"fsopen", 430},
	{"fsconfig", 431},
	{"fsmount", 432},
	{"mount_setattr", 442},
	{"landlock_create_ruleset", 444},
	{"landlock_add_rule", 445},
	{"landlock_restrict_self", 446},
	{"io_uring_setup", 425},
	{"memfd_create", SYS_memfd_create},
	{"getrandom", SYS_getrandom},
	{"unshare", SYS_unshare},
	{"pivot_root", SYS_pivot_root},
	{"seccomp", SYS_seccomp},
	{"statx", SYS_statx},
	{"copy_file_range", SYS_copy_file_range},
	{"execveat", SYS_execveat},
	{"process_vm_readv", SYS_process_vm_readv},
	{"ptrace", SYS_ptrace},
};

static const struct {
	const char *name;
	int value;
} errors[] = {{"ENOSYS", ENOSYS}, {"EPERM", EPERM}, {"EINVAL", EINVAL}, {"EOPNOTSUPP", EOPNOTSUPP}};

static int number_of(const char *name, size_t len, uint32_t *nr)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strlen(calls[i].name) == len && strncmp(calls[i].name, name, len) == 0) {
			*nr = calls[i].nr;
			return 0;
		}
	}
	return -1;
}

static int error_of(const char *name, size_t len, int *value)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (strlen(errors[i].name) == len && strncmp(errors[i].name, name, len) == 0) {
			*value = errors[i].value;
			return 0;
		}
	}
	return -1;
}

/* Load arch, load number, then a pair per name: "is it n? return the error", and at the end: allow. */
static int build(const char *names, struct sock_filter *f, unsigned short *len)
{
	unsigned short n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	while (*names) {
		size_t word = strcspn(names, ","), name = strcspn(names, ",=");
		int error = ENOSYS;
		uint32_t nr;

		if (n > 4 + 2 * MOST || number_of(names, name, &nr) < 0 ||
		    (name < word && error_of(names + name + 1, word - name - 1, &error) < 0)) {
			dprintf(STDERR_FILENO, "nosys: '%.*s' is not known\n", (int)word, names);
			return -1;
		}
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA));
		names += word + (names[word] == ',');
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	*len = n;
	return 0;
}

int main(int argc, char **argv)
{
	struct sock_filter f[8 + 2 * MOST];
	struct sock_fprog program = {.filter = f};
	int at = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;

	if (argc <= at) {
		dprintf(STDERR_FILENO, "usage: nosys NAME[=ERRNO][,NAME...] [--] COMMAND [ARG...]\n");
		return 125;
	}
	if (build(argv[1], f, &program.len) < 0)
		return 125;
	/* Without no_new_privs it needs CAP_SYS_ADMIN, with it setuid programs do not work below; cordon has none. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)) {
		perror("nosys: cannot load the filter");
		return 125;
	}
	execvp(argv[at], argv + at);
	perror(argv[at]);
	return 127;
}
