/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

#define WIRE_MAGIC 0x434f5231u /* "COR1": a peer of another version is told apart at once */
#define FLAG_MEMFD 1u          /* the body is in the last descriptor */
#define NULL_STR UINT32_MAX

struct wire_header {
	uint32_t magic;
	uint32_t type;
	uint32_t len;
	uint32_t flags;
};

static int body_to_memfd(const struct buf *body, struct cordon_error *err)
{
	_cleanup_fd_ int fd = (int)syscall(SYS_memfd_create, "cordon-message", 1u /* MFD_CLOEXEC */);
	if (fd < 0)
		return err_sys(err, "memfd_create");
	for (size_t done = 0; done < body->len;) {
		ssize_t n = write(fd, body->data + done, body->len - done);
		if (n < 0)
			return err_sys(err, "cannot write a message of %zu bytes", body->len);
		done += (size_t)n;
	}
	return steal_fd(&fd);
}

int wire_send(int sock, enum wire_type type, const struct buf *body, const int *fds, size_t fd_count, struct cordon_error *err)
{
	size_t len = body ? body->len : 0;
	int all[WIRE_MAX_FDS];
	_cleanup_fd_ int memfd = -1;

	if (body && body->failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory while building a message");
	if (len > WIRE_MAX || fd_count > WIRE_MAX_FDS)
		return err_set(err, CORDON_ERR_INPUT, "a message of %zu bytes is too large (at most %zu)", len, WIRE_MAX);
	if (fd_count)
		memcpy(all, fds, fd_count * sizeof(int));

	struct wire_header h = {WIRE_MAGIC, (uint32_t)type, (uint32_t)len, 0};
	struct iovec iov[2] = {{&h, sizeof(h)}, {len ? body->data : NULL, len}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = len ? 2 : 1};
	union {
		struct cmsghdr hdr;
		char space[CMSG_SPACE(sizeof(int) * WIRE_MAX_FDS)];
	} control;

	if (len > WIRE_INLINE) {
		if (fd_count == WIRE_MAX_FDS)
			return err_set(err, CORDON_ERR_INPUT, "too many descriptors in one message");
		memfd = body_to_memfd(body, err);
		if (memfd < 0)
			return -1;
		all[fd_count++] = memfd;
		h.flags = FLAG_MEMFD;
		m.msg_iovlen = 1;
	}
	if (fd_count) {
		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(c), all, sizeof(int) * fd_count);
	}
	ssize_t n;
	do
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(err, "cannot send to the sandbox");
	return 0;
}

/* Collects every descriptor first, so that a malformed message leaks none. */
static void take_fds(struct msghdr *m, struct wire_msg *out)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (out->fd_count < WIRE_MAX_FDS)
				out->fds[out->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

/* Copies instead of mapping: the sender still holds the memfd and could change or truncate it under a mapping. */
static int body_from_memfd(struct wire_msg *out, struct cordon_error *err)
{
	if (out->fd_count == 0)
		return err_set(err, CORDON_ERR_INPUT, "malformed message: no body");
	_cleanup_fd_ int fd = out->fds[--out->fd_count];
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) /* a pipe or a device could block or never end */
		return err_set(err, CORDON_ERR_INPUT, "malformed message: its body is not a file");
	for (size_t done = 0; done < out->len;) {
		ssize_t n = pread(fd, out->body + done, out->len - done, (off_t)done);
		if (n <= 0)
			return err_set(err, CORDON_ERR_INPUT, "malformed message: short body");
		done += (size_t)n;
	}
	return 0;
}

static int check_header(const struct wire_header *h, size_t size, struct cordon_error *err)
{
	if (size < sizeof(*h))
		return err_set(err, CORDON_ERR_INPUT, "malformed message: %zu bytes", size);
	if (h->magic != WIRE_MAGIC || h->type == 0 || h->type >= WIRE_TYPE_COUNT || h->len > WIRE_MAX || (h->flags & ~FLAG_MEMFD))
		return err_set(err, CORDON_ERR_INPUT, "malformed message header");
	if ((h->flags & FLAG_MEMFD) ? size != sizeof(*h) : size != sizeof(*h) + h->len)
		return err_set(err, CORDON_ERR_INPUT, "malformed message: length does not match");
	return 0;
}

static int finish_message(struct wire_msg *out, const struct wire_header *h, const char *body, size_t size, struct cordon_error *err)
{
	if (check_header(h, size, err) < 0)
		return -1;
	out->type = (enum wire_type)h->type;
	out->len = h->len;
	out->body = malloc(out->len + 1);
	if (!out->body)
		return err_sys(err, "cannot receive a message of %zu bytes", out->len);
	out->body[out->len] = '\0';
	if (h->flags & FLAG_MEMFD)
		return body_from_memfd(out, err);
	memcpy(out->body, body, out->len);
	return 0;
}

int wire_recv(int sock, struct wire_msg *out, struct cordon_error *err)
{
	struct wire_header h;
	union {
		struct cmsghdr hdr;
		char space[CMSG_SPACE(sizeof(int) * WIRE_MAX_FDS)];
	} control;

	char body[WIRE_INLINE];
	*out = (struct wire_msg){0};
	struct iovec iov[2] = {{&h, sizeof(h)}, {body, sizeof(body)}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n;
	/* ECONNRESET: the other side closed without reading all we sent. That is told once, before what it sent itself. */
	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	int result = -1;
	if (n < 0) {
		err_sys(err, "cannot receive from the sandbox");
	} else {
		take_fds(&m, out);
		if (n == 0)
			result = 0;
		else if (m.msg_flags & MSG_TRUNC)
			err_set(err, CORDON_ERR_INPUT, "malformed message: too large");
		else if (m.msg_flags & MSG_CTRUNC) /* more descriptors than a message has, or than this process may have */
			err_set(err, CORDON_ERR_SYSTEM, "cannot receive a message: too many descriptors, or too many open files");
		else if (finish_message(out, &h, body, (size_t)n, err) == 0)
			return 1;
	}
	wire_msg_free(out);
	return result;
}

int wire_recv_word(int sock, enum wire_type type)
{
	struct wire_header h;
	ssize_t n;
	do
		n = recv(sock, &h, sizeof(h), MSG_DONTWAIT | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return -1;
	return n == (ssize_t)sizeof(h) && h.magic == WIRE_MAGIC && h.type == (uint32_t)type && h.len == 0 && h.flags == 0;
}

void wire_msg_free(struct wire_msg *msg)
{
	for (size_t i = 0; i < msg->fd_count; i++)
		cleanup_fd(&msg->fds[i]);
	free(msg->body);
	*msg = (struct wire_msg){0};
}

int wire_take_fd(struct wire_msg *msg, size_t i)
{
	return i < msg->fd_count ? steal_fd(&msg->fds[i]) : -1;
}

void wire_put_u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof(v));
}

void wire_put_u64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof(v));
}

void wire_put_bytes(struct buf *b, const void *data, size_t len)
{
	if (len >= NULL_STR) {
		b->failed = true;
		return;
	}
	wire_put_u32(b, (uint32_t)len);
	buf_add(b, data, len);
}

/* Strings carry their NUL, so that a reader can hand out pointers into the body. */
void wire_put_str(struct buf *b, const char *s)
{
	if (!s)
		wire_put_u32(b, NULL_STR);
	else
		wire_put_bytes(b, s, strlen(s) + 1);
}

static const void *get(struct wire_reader *r, size_t len)
{
	if (r->bad || (size_t)(r->end - r->at) < len) {
		r->bad = true;
		return NULL;
	}
	const void *p = r->at;
	r->at += len;
	return p;
}

uint32_t wire_get_u32(struct wire_reader *r)
{
	uint32_t v = 0;
	const void *p = get(r, sizeof(v));
	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

uint64_t wire_get_u64(struct wire_reader *r)
{
	uint64_t v = 0;
	const void *p = get(r, sizeof(v));
	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

const void *wire_get_bytes(struct wire_reader *r, size_t *len)
{
	*len = wire_get_u32(r);
	const void *p = get(r, *len);
	if (!p)
		*len = 0;
	return p;
}

const char *wire_get_str(struct wire_reader *r)
{
	uint32_t len = wire_get_u32(r);
	if (r->bad || len == NULL_STR)
		return NULL;
	const char *s = get(r, len);
	/* exactly one NUL, at the end: a name with a NUL inside would mean different things to different readers */
	if (s && (len == 0 || memchr(s, '\0', len) != s + len - 1)) {
		r->bad = true;
		return NULL;
	}
	return s;
}

uint32_t wire_get_count(struct wire_reader *r, size_t min_size, uint32_t max)
{
	uint32_t n = wire_get_u32(r);
	if (n > max || (uint64_t)n * min_size > (size_t)(r->end - r->at))
		r->bad = true;
	return r->bad ? 0 : n;
}

bool wire_done(const struct wire_reader *r)
{
	return !r->bad && r->at == r->end;
}
