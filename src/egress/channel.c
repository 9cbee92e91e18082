/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/channel.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "egress/relay.h"
#include "egress/socket.h"
#include "egress/tls.h"

/* ---- the socket ----------------------------------------------------------------------------------------------------------------- */

static ssize_t blocked(bool *able)
{
	*able = false;
	errno = EAGAIN;
	return -1;
}

static ssize_t socket_read(struct channel *c, void *data, size_t len)
{
	if (c->taken < c->first.len) {
		const size_t n = MIN(len, c->first.len - c->taken);
		memcpy(data, c->first.data + c->taken, n);
		c->taken += n;
		if (c->taken == c->first.len)
			buf_free(&c->first);
		c->taken = c->first.len ? c->taken : 0;
		return (ssize_t)n;
	}
	if (!c->readable)
		return blocked(&c->readable);
	ssize_t n;
	do
		n = recv(c->fd, data, len, 0);
	while (n < 0 && errno == EINTR);
	c->eof = c->eof || n == 0;
	return n < 0 && errno == EAGAIN ? blocked(&c->readable) : n;
}

static ssize_t socket_write(struct channel *c, const void *data, size_t len)
{
	if (!c->writable)
		return blocked(&c->writable);
	ssize_t n;
	do
		n = send(c->fd, data, len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 && errno == EAGAIN ? blocked(&c->writable) : n;
}

/* ---- as OpenSSL sees it --------------------------------------------------------------------------------------------------------- */

static int on_read(BIO *bio, char *data, int len)
{
	BIO_clear_retry_flags(bio);
	const ssize_t n = socket_read(BIO_get_data(bio), data, (size_t)len);
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_read(bio);
	return (int)n;
}

static int on_write(BIO *bio, const char *data, int len)
{
	BIO_clear_retry_flags(bio);
	const ssize_t n = socket_write(BIO_get_data(bio), data, (size_t)len);
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	return (int)n;
}

static long on_control(BIO *bio, int what, long number, void *pointer)
{
	const struct channel *c = BIO_get_data(bio);
	(void)number;
	(void)pointer;
	if (what == BIO_CTRL_EOF)
		return c->eof;
	return what == BIO_CTRL_FLUSH;
}

/* Made once: there is no other kind. */
static BIO_METHOD *socket_method(void)
{
	static BIO_METHOD *method;
	if (method)
		return method;
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "channel");
	if (m && BIO_meth_set_read(m, on_read) && BIO_meth_set_write(m, on_write) && BIO_meth_set_ctrl(m, on_control))
		method = m;
	else
		BIO_meth_free(m);
	return method;
}

static int attach(struct channel *c)
{
	BIO_METHOD *method = socket_method();
	BIO *bio = method ? BIO_new(method) : NULL;
	if (!bio)
		return -1;
	BIO_set_data(bio, c);
	BIO_set_init(bio, 1);
	SSL_set_bio(c->ssl, bio, bio);
	return 0;
}

/* ---- its life ------------------------------------------------------------------------------------------------------------------- */

int channel_open(struct channel *c, struct event_base *base, int fd, SSL *ssl, struct buf *first, event_callback_fn on, void *arg)
{
	*c = (struct channel){.fd = -1, .ssl = ssl, .readable = true, .writable = true, .shaken = !ssl};
	if (ssl && attach(c) < 0) {
		c->ssl = NULL; /* the caller's, as is all else */
		return -1;
	}
	event_assign(&c->event, base, fd, EV_READ | EV_WRITE | EV_PERSIST | EV_ET, on, arg);
	if (event_add(&c->event, NULL) < 0) {
		if (ssl)
			SSL_set_bio(ssl, NULL, NULL);
		c->ssl = NULL;
		return -1;
	}
	c->fd = fd;
	if (first) {
		c->first = *first;
		*first = (struct buf){0};
	}
	socket_reset_unless_closed(fd);
	return 0;
}

void channel_edge(struct channel *c, short what)
{
	c->readable |= (what & EV_READ) != 0;
	c->writable |= (what & EV_WRITE) != 0;
}

void channel_close(struct channel *c, bool reset)
{
	if (c->fd < 0)
		return;
	event_del(&c->event);
	SSL_free(c->ssl);
	buf_free(&c->first);
	socket_close(c->fd, reset);
	*c = (struct channel){.fd = -1};
}

/* ---- what is said --------------------------------------------------------------------------------------------------------------- */

static enum channel_result fail(struct channel *c, const char *why)
{
	snprintf(c->why, sizeof(c->why), "%s", why);
	ERR_clear_error();
	return CHANNEL_FAILED;
}

/* Of a certificate there is more to say than that it was not accepted. */
static enum channel_result fail_ssl(struct channel *c)
{
	const long verified = SSL_get_verify_result(c->ssl);
	c->failed_tls = true;
	if (!SSL_is_server(c->ssl) && verified != X509_V_OK) {
		char why[CHANNEL_WHY];
		snprintf(why, sizeof(why), "its certificate is not accepted: %s", X509_verify_cert_error_string(verified));
		return fail(c, why);
	}
	return fail(c, tls_reason());
}

/* Of an operation that has not succeeded. */
static enum channel_result outcome(struct channel *c, int r)
{
	const int failure = errno, what = SSL_get_error(c->ssl, r);
	if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE)
		return CHANNEL_BLOCKED;
	if (what == SSL_ERROR_ZERO_RETURN || (what == SSL_ERROR_SYSCALL && c->eof)) {
		c->notified = !c->eof; /* what TLS says is read before the socket's end is */
		fail(c, "it ended");
		return CHANNEL_ENDED;
	}
	return what == SSL_ERROR_SYSCALL ? fail(c, strerror(failure)) : fail_ssl(c);
}

static enum channel_result plain_outcome(struct channel *c, ssize_t n)
{
	if (n == 0)
		return CHANNEL_ENDED;
	return errno == EAGAIN ? CHANNEL_BLOCKED : fail(c, strerror(errno));
}

enum channel_result channel_handshake(struct channel *c)
{
	if (c->shaken)
		return CHANNEL_OK;
	ERR_clear_error();
	errno = 0;
	const int r = SSL_do_handshake(c->ssl);
	if (r != 1) {
		const enum channel_result result = outcome(c, r);
		return result == CHANNEL_ENDED ? CHANNEL_FAILED : result;
	}
	/* it would have failed before; but of all things this must not be taken for granted */
	if (!SSL_is_server(c->ssl) && (SSL_get_verify_result(c->ssl) != X509_V_OK || !SSL_get0_peer_certificate(c->ssl)))
		return fail_ssl(c);
	c->shaken = true;
	return CHANNEL_OK;
}

enum channel_result channel_read(struct channel *c, void *data, size_t len, size_t *got)
{
	*got = 0;
	errno = 0;
	if (!c->ssl) {
		const ssize_t n = socket_read(c, data, len);
		if (n <= 0)
			return plain_outcome(c, n);
		*got = (size_t)n;
		return CHANNEL_OK;
	}
	ERR_clear_error();
	const int r = SSL_read_ex(c->ssl, data, len, got);
	return r == 1 ? CHANNEL_OK : outcome(c, r);
}

enum channel_result channel_write(struct channel *c, const void *data, size_t len, size_t *put)
{
	*put = 0;
	errno = 0;
	if (!c->ssl) {
		const ssize_t n = socket_write(c, data, len);
		if (n < 0)
			return plain_outcome(c, n);
		*put = (size_t)n;
		return CHANNEL_OK;
	}
	ERR_clear_error();
	const int r = SSL_write_ex(c->ssl, data, len, put);
	return r == 1 ? CHANNEL_OK : outcome(c, r);
}

enum channel_result channel_end(struct channel *c, bool notify)
{
	if (c->shut)
		return CHANNEL_OK;
	ERR_clear_error();
	errno = 0;
	if (c->ssl && notify && c->shaken) {
		const int r = SSL_shutdown(c->ssl);
		if (r < 0 && SSL_get_error(c->ssl, r) == SSL_ERROR_WANT_WRITE)
			return CHANNEL_BLOCKED;
	}
	ERR_clear_error();
	shutdown(c->fd, SHUT_WR);
	c->shut = true;
	return CHANNEL_OK;
}
