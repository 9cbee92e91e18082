/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/descriptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

int descriptor_send(int sock, int fd)
{
	char byte = 0;
	union control control = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t descriptor_receive(int sock, void *data, size_t len, int *fd)
{
	union control control = {0};
	struct iovec iov = {data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		cleanup_fd(fd);
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	}
	return n;
}
