/* SPDX-License-Identifier: Apache-2.0 */
/* cordon-broker: see broker.h. Started by the library (lib/egress.h), with a socket to it as its only descriptor; it says what to do (messages.h). */
#include <event2/util.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/inherited.h"
#include "base/util.h"
#include "egress/broker.h"
#include "egress/confine.h"
#include "egress/couriers.h"
#include "egress/hello.h"
#include "egress/messages.h"
#include "sandbox/wire.h"

struct sockets {
	struct airlock_socket items[BROKER_SOCKETS_MAX];
	size_t count;
	bool whole; /* these are all */
};

/* One message with some of them. */
static int receive_sockets(struct sockets *s, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	struct airlock_socket some[WIRE_MAX_FDS];
	size_t count;
	if (wire_recv(BROKER_FD, &msg, err) <= 0 || msg.type != WIRE_BROKER ||
	    broker_sockets_decode(msg.body, msg.len, some, &count, &s->whole, err) < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the broker was not told its sockets");
	if (count != msg.fd_count || s->count + count > BROKER_SOCKETS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "sockets for the broker: %zu were told, %zu came", count, msg.fd_count);
	for (size_t i = 0; i < count; i++) {
		s->items[s->count] = some[i];
		s->items[s->count++].fd = wire_take_fd(&msg, i);
	}
	return 0;
}

static int take_sockets(struct broker *b, struct cordon_error *err)
{
	struct sockets sockets = {0};
	while (!sockets.whole)
		if (receive_sockets(&sockets, err) < 0)
			return -1;
	return broker_listen(b, sockets.items, sockets.count, err);
}

/* The certificate that the sandbox is to believe, before there is a sandbox. */
static int send_authority(const struct authority *a, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	const struct broker_authority pem = authority_pem(a);
	broker_authority_encode(&pem, &body);
	const int r = wire_send(BROKER_FD, WIRE_BROKER, &body, NULL, 0, err);
	OPENSSL_cleanse(body.data, body.len);
	return r;
}

/* A pipe, out of which the value of the next secret comes: it is in no message. */
static int receive_secret(struct keyring *keys, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	if (wire_recv(BROKER_FD, &msg, err) <= 0 || msg.type != WIRE_BROKER || broker_message_kind(msg.body, msg.len) != BROKER_SECRETS ||
	    msg.fd_count != 1)
		return err_set(err, CORDON_ERR_SYSTEM, "the broker was not told its secrets");
	_cleanup_fd_ int fd = wire_take_fd(&msg, 0);
	return keyring_read(keys, fd, err);
}

static int take_secrets(struct broker *b, struct cordon_error *err)
{
	if (!b->couriers)
		return 0;
	if (send_authority(b->couriers->authority, err) < 0)
		return -1;
	struct keyring *keys = &b->couriers->keys;
	while (keys->given < keys->count)
		if (receive_secret(keys, err) < 0)
			return -1;
	return 0;
}

static struct broker *start(const struct wire_msg *msg, struct cordon_error *err)
{
	struct broker_config config;
	if (msg->type != WIRE_BROKER || broker_config_decode(msg->body, msg->len, &config, err) < 0) {
		err_set(err, CORDON_ERR_SYSTEM, "the broker was not told what to do");
		return NULL;
	}
	const uint32_t most = config.connections ? MIN(config.connections, (uint32_t)BROKER_CONNECTIONS) : BROKER_CONNECTIONS;
	const uint32_t connections = confine_descriptors(most);
	struct broker *b = broker_new(&config, connections, err);
	free(config.policy.items);
	if (!b)
		return NULL;
	/* what libraries would read when it is first needed */
	hello_warm_up();
	evutil_secure_rng_init();
	if (take_secrets(b, err) == 0 && take_sockets(b, err) == 0 && confine(err) == 0)
		return b;
	broker_free(b);
	return NULL;
}

/* What was on its way before the library knew of the error: it must find somebody who takes it, or would not come to read that. */
static void hear_out(void)
{
	int r = 1;
	while (r > 0) {
		_cleanup_msg_ struct wire_msg msg = {0};
		r = wire_recv(BROKER_FD, &msg, NULL);
	}
}

static int send_ready(void)
{
	_cleanup_buf_ struct buf body = {0};
	wire_put_u32(&body, BROKER_READY);
	return wire_send(BROKER_FD, WIRE_BROKER, &body, NULL, 0, NULL);
}

int main(void)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	struct cordon_error err = {0};
	inherited_close(BROKER_FD + 1);
	signal(SIGPIPE, SIG_IGN); /* splice(2) has no flag to do without */
	if (wire_recv(BROKER_FD, &msg, &err) == 0)
		return 1;
	struct broker *b = start(&msg, &err);
	OPENSSL_cleanse(msg.body, msg.len); /* with the authority's key, if there was one */
	if (!b) {
		_cleanup_buf_ struct buf body = {0};
		error_encode(&err, &body);
		wire_send(BROKER_FD, WIRE_ERROR, &body, NULL, 0, NULL);
		hear_out();
		return 1;
	}
	if (send_ready() == 0)
		broker_run(b);
	_exit(0); /* everything is closed: what is left, the kernel takes back faster */
}
