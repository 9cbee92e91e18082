/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

bool notify_fits(void)
{
	struct seccomp_notif_sizes sizes;
	return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 && sizes.seccomp_notif <= sizeof(union notification) &&
	       sizes.seccomp_notif_resp <= sizeof(union notification) && sizes.seccomp_data == sizeof(struct seccomp_data);
}

bool notify_receive(int listener, union notification *out)
{
	memset(out, 0, sizeof(*out)); /* the kernel insists */
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, out) == 0;
}

static void respond(int listener, uint64_t id, int error, uint32_t flags)
{
	union {
		struct seccomp_notif_resp r;
		char room[512];
	} answer = {.r = {.id = id, .error = -error, .flags = flags}};
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

void notify_answer(int listener, uint64_t id, int error)
{
	respond(listener, id, error, 0);
}

void notify_go_on(int listener, uint64_t id)
{
	respond(listener, id, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

bool notify_is_waiting(int listener, uint64_t id)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

void notify_wake_nearby(int listener)
{
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}

/* ---- who waits ------------------------------------------------------------------------------------------------------------------ */

void notify_memory_open(struct notify_memory *m, pid_t thread)
{
	m->thread = thread;
	m->fd = -1;
	m->len = 0;
}

void notify_memory_close(struct notify_memory *m)
{
	cleanup_fd(&m->fd);
	m->fd = -1;
}

/* Where a kernel has no process_vm_readv(2). */
static ssize_t read_by_proc(struct notify_memory *m, uint64_t page)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)m->thread);
	if (m->fd < 0)
		m->fd = open(path, O_RDONLY | O_CLOEXEC);
	return m->fd < 0 ? -1 : pread(m->fd, m->data, sizeof(m->data), (off_t)page);
}

/* What is known of the page that the address lies in, from there on; 0: nothing. The next page may not be there. */
static size_t window(struct notify_memory *m, uint64_t address, const char **from)
{
	const uint64_t page = address & ~(uint64_t)(sizeof(m->data) - 1);
	const size_t offset = (size_t)(address - page);
	if (m->len == 0 || m->at != page) {
		const struct iovec here = {m->data, sizeof(m->data)}, there = {(void *)(uintptr_t)page, sizeof(m->data)};
		ssize_t n = syscall(SYS_process_vm_readv, m->thread, &here, 1, &there, 1, 0);
		if (n < 0 && (errno == ENOSYS || errno == EPERM))
			n = read_by_proc(m, page);
		m->at = page;
		m->len = n > 0 ? (size_t)n : 0;
	}
	*from = m->data + offset;
	return m->len > offset ? m->len - offset : 0;
}

static uint64_t without_tag(uint64_t address)
{
#ifdef __aarch64__
	return address & ((UINT64_C(1) << 56) - 1); /* the kernel ignores the top byte */
#else
	return address;
#endif
}

size_t notify_read(struct notify_memory *m, uint64_t address, void *out, size_t size)
{
	size_t done = 0, n;
	const char *from;
	address = without_tag(address);
	while (done < size && (n = MIN(window(m, address + done, &from), size - done)) > 0) {
		memcpy((char *)out + done, from, n);
		done += n;
	}
	return done;
}

size_t notify_read_string(struct notify_memory *m, uint64_t address, char *out, size_t size)
{
	size_t done = 0, n;
	const char *from;
	address = without_tag(address);
	while (done < size && (n = MIN(window(m, address + done, &from), size - done)) > 0) {
		const char *end = memchr(from, '\0', n);
		n = end ? (size_t)(end - from) + 1 : n;
		memcpy(out + done, from, n);
		done += n;
		if (end)
			return done;
	}
	return 0;
}

int notify_open_base(pid_t thread, const char *path, int dirfd)
{
	char link[48];
	if (path[0] == '/')
		snprintf(link, sizeof(link), "/");
	else if (dirfd == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/%d/cwd", (int)thread);
	else
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)thread, dirfd);
	return open(link, O_PATH | O_CLOEXEC);
}

bool notify_read_stat(pid_t pid, struct notify_stat *out)
{
	enum { STATE = 3, PARENT = 4, FLAGS = 9, BORN = 22, STACK = 28, CODE = 52 }; /* as proc(5) counts them */
	char path[40], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	const char *p = strrchr(text, ')'); /* the name may hold anything */
	*out = (struct notify_stat){0};
	for (int field = STATE; p && field <= CODE; field++) {
		p = strchr(p + 1, ' ');
		if (!p)
			break;
		if (field == STATE)
			out->state = p[1];
		else if (field == PARENT)
			out->parent = (pid_t)strtol(p + 1, NULL, 10);
		else if (field == FLAGS)
			out->flags = (uint32_t)strtoul(p + 1, NULL, 10);
		else if (field == BORN)
			out->born = strtoull(p + 1, NULL, 10);
		else if (field == STACK)
			out->stack = strtoull(p + 1, NULL, 10);
		else if (field == CODE)
			out->exit_code = (int)strtol(p + 1, NULL, 10);
	}
	return out->born != 0;
}

pid_t notify_process_of(pid_t thread)
{
	char path[40], text[2048];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)thread);
	if (fs_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	const char *p = strstr(text, "\nTgid:");
	return p ? (pid_t)strtol(p + 6, NULL, 10) : 0;
}
