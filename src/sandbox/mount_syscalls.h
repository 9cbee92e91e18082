/* SPDX-License-Identifier: Apache-2.0 */
/* The mount system calls of Linux 5.2–5.12, by number: musl and older C libraries have no wrappers, and some headers no constants. */
#ifndef CORDON_SANDBOX_MOUNT_SYSCALLS_H
#define CORDON_SANDBOX_MOUNT_SYSCALLS_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not <linux/mount.h>: it clashes with <sys/mount.h> of some C libraries. Values are kernel ABI. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOUNT_ATTR_RDONLY
#define MOUNT_ATTR_RDONLY 0x00000001
#define MOUNT_ATTR_NOSUID 0x00000002
#define MOUNT_ATTR_NODEV 0x00000004
#define MOUNT_ATTR_NOEXEC 0x00000008
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#define CORDON_MOVE_MOUNT_FROM_EMPTY 0x00000004u /* MOVE_MOUNT_F_EMPTY_PATH */
#define CORDON_MOVE_MOUNT_TO_EMPTY 0x00000040u   /* MOVE_MOUNT_T_EMPTY_PATH */

#ifndef FSOPEN_CLOEXEC /* else <sys/mount.h> brought these as an enum */
enum { FSCONFIG_SET_FLAG = 0, FSCONFIG_SET_STRING = 1, FSCONFIG_CMD_CREATE = 6 };
#endif

struct cordon_mount_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};

static inline int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dirfd, path, flags | O_CLOEXEC);
}

/* Onto `path` below `to`, or onto `to` itself if path is empty. A symbolic link at the end is not followed. */
static inline int sys_move_mount(int from, int to, const char *path)
{
	return (int)syscall(SYS_move_mount, from, "", to, path, CORDON_MOVE_MOUNT_FROM_EMPTY | (*path ? 0 : CORDON_MOVE_MOUNT_TO_EMPTY));
}

static inline int sys_mount_setattr(int fd, unsigned at_flags, uint64_t set, uint64_t propagation, int userns_fd)
{
	struct cordon_mount_attr a = {.attr_set = set, .propagation = propagation, .userns_fd = userns_fd < 0 ? 0 : (uint64_t)userns_fd};
	return (int)syscall(SYS_mount_setattr, fd, "", at_flags | AT_EMPTY_PATH, &a, sizeof(a));
}

static inline int sys_mount_clear_attr(int fd, unsigned at_flags, uint64_t clear)
{
	struct cordon_mount_attr a = {.attr_clr = clear};
	return (int)syscall(SYS_mount_setattr, fd, "", at_flags | AT_EMPTY_PATH, &a, sizeof(a));
}

static inline int sys_fsopen(const char *type)
{
	return (int)syscall(SYS_fsopen, type, 1u /* FSOPEN_CLOEXEC */);
}

static inline int sys_fsconfig(int fs, unsigned cmd, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fs, cmd, key, value, 0);
}

static inline int sys_fsmount(int fs, unsigned attr)
{
	return (int)syscall(SYS_fsmount, fs, 1u /* FSMOUNT_CLOEXEC */, attr);
}

#endif
