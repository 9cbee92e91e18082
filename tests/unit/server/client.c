/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the tests: it sends bytes, and reads answers in a way of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "serving.h"

static void set_deadline(int fd)
{
	const struct timeval t = {DEADLINE_S, 0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

int client_connect(const struct serving *s)
{
	const struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(s->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	set_deadline(fd);
	return fd;
}

struct adoption {
	struct http_loop *loop;
	int fd;
};

static void adopt(void *arg)
{
	struct adoption *a = arg;

	http_loop_adopt(a->loop, a->fd, NULL);
	free(a);
}

int client_pair(struct serving *s)
{
	struct adoption *a = malloc(sizeof(*a));
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	*a = (struct adoption){s->loop, ends[1]};
	assert_int_equal(http_loop_post(s->loop, adopt, a), 0);
	set_deadline(ends[0]);
	return ends[0];
}

void client_send(int fd, const void *data, size_t len)
{
	while (len) {
		const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		assert_true(n > 0);
		data = (const char *)data + n;
		len -= (size_t)n;
	}
}

void client_say(int fd, const char *words)
{
	client_send(fd, words, strlen(words));
}

static bool hear_byte(int fd, char *c)
{
	const ssize_t n = recv(fd, c, 1, 0);

	assert_true(n >= 0);
	return n == 1;
}

static void hear_bytes(int fd, struct buf *b, size_t n)
{
	char piece[4096];

	while (n) {
		const ssize_t got = recv(fd, piece, MIN(n, sizeof(piece)), 0);
		assert_true(got > 0);
		buf_add(b, piece, (size_t)got);
		n -= (size_t)got;
	}
}

static void hear_line(int fd, struct buf *b)
{
	char c = '\0';

	while (c != '\n') {
		assert_true(hear_byte(fd, &c));
		buf_add(b, &c, 1);
	}
}

const char *answer_header(struct answer *a, const char *name, char *out, size_t size)
{
	const size_t n = strlen(name);

	out[0] = '\0';
	for (const char *line = strstr(a->head.data, "\r\n"); line; line = strstr(line + 2, "\r\n"))
		if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':')
			snprintf(out, size, "%.*s", (int)strcspn(line + 4 + n, "\r"), line + 4 + n);
	return out;
}

static void hear_chunks(int fd, struct answer *a)
{
	size_t size = 1;

	while (size) {
		_cleanup_buf_ struct buf line = {0};
		hear_line(fd, &line);
		size = strtoul(line.data, NULL, 16);
		hear_bytes(fd, &a->body, size);
		_cleanup_buf_ struct buf end = {0};
		hear_bytes(fd, &end, 2);
		assert_string_equal(end.data, "\r\n");
	}
}

void client_hear_answer(int fd, struct answer *a, bool without_body)
{
	char value[64];

	*a = (struct answer){0};
	do {
		buf_free(&a->head);
		while (a->head.len < 4 || memcmp(a->head.data + a->head.len - 4, "\r\n\r\n", 4) != 0)
			hear_line(fd, &a->head);
		assert_int_equal(strncmp(a->head.data, "HTTP/1.1 ", 9), 0);
		a->status = (int)strtol(a->head.data + 9, NULL, 10);
	} while (a->status == 100);
	a->chunked = strcmp(answer_header(a, "transfer-encoding", value, sizeof(value)), "chunked") == 0;
	const bool known = answer_header(a, "content-length", value, sizeof(value))[0];
	assert_false(a->chunked && known);
	if (without_body || a->status == 204 || a->status == 304 || a->status == 101)
		return;
	if (a->chunked)
		hear_chunks(fd, a);
	else if (known)
		hear_bytes(fd, &a->body, strtoul(value, NULL, 10));
	else
		client_hear_all(fd, &a->body);
	buf_add(&a->body, "", 0);
}

void client_hear(int fd, struct answer *a)
{
	client_hear_answer(fd, a, false);
}

void client_expect(int fd, int status, const char *body)
{
	struct answer a;

	client_hear(fd, &a);
	if (a.status != status)
		fail_msg("not %d but %s%s", status, a.head.data, a.body.data);
	if (body)
		assert_string_equal(a.body.data, body);
	answer_free(&a);
}

void client_hear_all(int fd, struct buf *all)
{
	char piece[65536];
	ssize_t n;

	while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
		buf_add(all, piece, (size_t)n);
	assert_true(n == 0 || errno == ECONNRESET);
	buf_add(all, "", 0);
}

void client_expect_end(int fd)
{
	_cleanup_buf_ struct buf rest = {0};

	client_hear_all(fd, &rest);
	assert_string_equal(rest.data, "");
}

void answer_free(struct answer *a)
{
	buf_free(&a->head);
	buf_free(&a->body);
}
