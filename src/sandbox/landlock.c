/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock by raw system calls, see landlock(7) and Documentation/userspace-api/landlock.rst: neither glibc nor musl wrap them.
 *
 * The kernel's ABI version decides which rights exist; asking for one that it does not know fails with EINVAL, and not handling one
 * that it knows leaves it open. So everything known is handled, in every ruleset, and the access sets are cut to it.
 */
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/types.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/landlock.h"

/* Debian 12's headers (Linux 6.1) end with ABI 2. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13) /* ABI 2, Linux 5.19 */
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* ABI 3, Linux 6.2 */
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15) /* ABI 5, Linux 6.10 */
#endif
#ifndef LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0) /* ABI 6, Linux 6.12 */
#endif
#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1) /* ABI 6 */
#endif

/* The kernel's struct landlock_ruleset_attr as of ABI 6; an older kernel accepts the longer form if the rest is zero. */
struct ruleset_attr {
	__u64 handled_access_fs;
	__u64 handled_access_net; /* ABI 4; unused: the network namespace and the egress proxy decide */
	__u64 scoped;
};

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define EXECUTE LANDLOCK_ACCESS_FS_EXECUTE
#define WRITE                                                                                                                         \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |    \
	 LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REFER)

/* What a rule for something other than a directory may carry; more is EINVAL (ACCESS_FILE in security/landlock/fs.c). */
#define FILE_RIGHTS                                                                                                                \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_TRUNCATE | \
	 LANDLOCK_ACCESS_FS_IOCTL_DEV)

/* MAKE_CHAR and MAKE_BLOCK are in no set: nobody inside makes device nodes, whatever its capabilities. */
static const __u64 access_sets[] = {
	[LANDLOCK_RX] = READ | EXECUTE,
	[LANDLOCK_RW] = READ | WRITE,
	[LANDLOCK_RWX] = READ | WRITE | EXECUTE,
	[LANDLOCK_TTY] = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_IOCTL_DEV,
	/* Without IOCTL_DEV: isatty(3) on /dev/null gets EACCES instead of ENOTTY, which is "no" all the same. */
	[LANDLOCK_DEV] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE,
	[LANDLOCK_R] = READ,
	[LANDLOCK_X] = EXECUTE,
	[LANDLOCK_LIST] = LANDLOCK_ACCESS_FS_READ_DIR,
};

/* Every file system right of an ABI. */
static __u64 rights_of_abi(int abi)
{
	__u64 rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1; /* ABI 1, Linux 5.13: bits 0 to 12 */

	if (abi >= 2) /* before, a rename or link to another directory always answered EXDEV, for which mv(1) and others copy */
		rights |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		rights |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi >= 5)
		rights |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	return rights;
}

int landlock_abi(void)
{
	long abi = syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	/* ENOSYS: not built in; EOPNOTSUPP: switched off at boot (lsm=). */
	return abi > 0 ? (int)abi : 0;
}

static int openat2_(const char *path, uint64_t flags, uint64_t resolve)
{
	const struct open_how how = {.flags = flags, .resolve = resolve};
	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int add_rule(int ruleset, const struct landlock_rule *rule, __u64 handled, struct cordon_error *err)
{
	struct landlock_path_beneath_attr attr = {.allowed_access = access_sets[rule->access] & handled};
	struct stat st;
	/*
	 * Links at the top are followed: /bin is one, and nothing inside can write there. Links further down may have been made by what ran in a
	 * sandbox before.
	 */
	const bool at_top = strrchr(rule->path, '/') == rule->path;
	_cleanup_fd_ int fd =
		at_top ? openat(AT_FDCWD, rule->path, O_PATH | O_CLOEXEC) : openat2_(rule->path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);

	if (fd < 0) {
		if (rule->optional && (errno == ENOENT || errno == ENOTDIR || errno == EACCES || (errno == ELOOP && !at_top)))
			return 0;
		return err_sys(err, "cannot open %s for a Landlock rule", rule->path);
	}
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot stat %s for a Landlock rule", rule->path);
	if (!S_ISDIR(st.st_mode))
		attr.allowed_access &= FILE_RIGHTS;
	if (attr.allowed_access == 0) /* the kernel's answer would be ENOMSG */
		return 0;
	attr.parent_fd = fd;
	if (syscall(__NR_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		return err_sys(err, "cannot add a Landlock rule for %s", rule->path);
	return 0;
}

int landlock_ruleset(const struct landlock_rule *rules, size_t count, struct cordon_error *err)
{
	_cleanup_fd_ int ruleset = -1;
	struct ruleset_attr attr = {0};
	int abi = landlock_abi();

	if (abi == 0) {
		err_set(err, CORDON_ERR_WEAK_HOST, "Landlock is missing or switched off in this kernel");
		err_hint(err, "it needs Linux 5.13 and landlock in the kernel's lsm= list");
		return -1;
	}
	attr.handled_access_fs = rights_of_abi(abi);
	if (abi >= 6)
		attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
	/* The descriptor is O_CLOEXEC by itself. */
	ruleset = (int)syscall(__NR_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return err_sys(err, "cannot create a Landlock ruleset (ABI %d)", abi);
	for (size_t i = 0; i < count; i++)
		if (add_rule(ruleset, &rules[i], attr.handled_access_fs, err) < 0)
			return -1;
	return steal_fd(&ruleset);
}

int landlock_restrict(int ruleset_fd)
{
	if (syscall(__NR_landlock_restrict_self, ruleset_fd, 0) < 0)
		return -errno;
	return 0;
}
