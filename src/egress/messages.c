/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/messages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "sandbox/wire.h"

static int malformed(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "malformed message to or from the broker");
}

enum broker_message broker_message_kind(const void *body, size_t len)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	uint32_t kind = wire_get_u32(&r);
	return !r.bad && kind < BROKER_MESSAGE_COUNT ? (enum broker_message)kind : 0;
}

/* A reader behind the kind; bad if the body is of another one. */
static struct wire_reader read_body(const void *body, size_t len, enum broker_message kind)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	if (wire_get_u32(&r) != (uint32_t)kind)
		r.bad = true;
	return r;
}

void broker_config_encode(const struct broker_config *c, struct buf *b)
{
	wire_put_u32(b, BROKER_CONFIG);
	string_list_put(b, &c->policy);
	wire_put_str(b, c->proxy);
	wire_put_str(b, c->proxy_from);
	wire_put_str(b, c->no_proxy);
	wire_put_str(b, c->resolv);
	wire_put_str(b, c->hosts);
	wire_put_str(b, c->trust);
	wire_put_str(b, c->authority.certificate);
	wire_put_str(b, c->authority.key);
	wire_put_u32(b, c->connections);
	wire_put_u64(b, c->bandwidth);
}

int broker_config_decode(const void *body, size_t len, struct broker_config *c, struct cordon_error *err)
{
	struct wire_reader r = read_body(body, len, BROKER_CONFIG);
	*c = (struct broker_config){0};
	string_list_get(&r, &c->policy);
	c->proxy = wire_get_str(&r);
	c->proxy_from = wire_get_str(&r);
	c->no_proxy = wire_get_str(&r);
	c->resolv = wire_get_str(&r);
	c->hosts = wire_get_str(&r);
	c->trust = wire_get_str(&r);
	c->authority.certificate = wire_get_str(&r);
	c->authority.key = wire_get_str(&r);
	c->connections = wire_get_u32(&r);
	c->bandwidth = wire_get_u64(&r);
	if (wire_done(&r) && !c->authority.certificate == !c->authority.key)
		return 0;
	free(c->policy.items);
	*c = (struct broker_config){0};
	return malformed(err);
}

void broker_fresh_encode(const char *resolv, struct buf *b)
{
	wire_put_u32(b, BROKER_FRESH);
	wire_put_str(b, resolv);
}

int broker_fresh_decode(const void *body, size_t len, const char **resolv, struct cordon_error *err)
{
	struct wire_reader r = read_body(body, len, BROKER_FRESH);
	*resolv = wire_get_str(&r);
	return wire_done(&r) ? 0 : malformed(err);
}

void broker_authority_encode(const struct broker_authority *a, struct buf *b)
{
	wire_put_u32(b, BROKER_AUTHORITY);
	wire_put_str(b, a->certificate);
	wire_put_str(b, a->key);
}

int broker_authority_decode(const void *body, size_t len, struct broker_authority *a, struct cordon_error *err)
{
	struct wire_reader r = read_body(body, len, BROKER_AUTHORITY);
	a->certificate = wire_get_str(&r);
	a->key = wire_get_str(&r);
	return wire_done(&r) && a->certificate && a->key ? 0 : malformed(err);
}

void broker_sockets_encode(const struct airlock_socket *s, size_t count, bool last, struct buf *b)
{
	wire_put_u32(b, BROKER_SOCKETS);
	wire_put_u32(b, last);
	wire_put_u32(b, (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		airlock_socket_put(b, &s[i]);
}

int broker_sockets_decode(const void *body, size_t len, struct airlock_socket *out, size_t *count, bool *last, struct cordon_error *err)
{
	struct wire_reader r = read_body(body, len, BROKER_SOCKETS);
	const uint32_t is_last = wire_get_u32(&r);
	*last = is_last == 1;
	*count = wire_get_count(&r, 3 * sizeof(uint32_t), WIRE_MAX_FDS);
	for (size_t i = 0; i < *count; i++)
		if (!airlock_socket_get(&r, &out[i]))
			r.bad = true;
	return wire_done(&r) && *count && is_last <= 1 ? 0 : malformed(err);
}

void broker_event_encode(const struct broker_event *e, struct buf *b)
{
	wire_put_u32(b, BROKER_EVENT);
	wire_put_u32(b, e->kind);
	wire_put_u64(b, e->id);
	wire_put_str(b, e->target);
	wire_put_u32(b, e->port);
	wire_put_str(b, e->protocol);
	wire_put_str(b, e->rule);
	wire_put_str(b, e->reason);
	wire_put_str(b, e->address);
	wire_put_u64(b, e->sent);
	wire_put_u64(b, e->received);
	wire_put_u64(b, e->duration_us);
	wire_put_u64(b, e->again);
}

static bool is_one_of(const char *const *known, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (text && strcmp(text, known[i]) == 0)
			return true;
	return false;
}

static bool is_printable(const char *text)
{
	for (; text && *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

/* These texts reach terminals: a broker that was taken over says nothing there that one of ours could not. */
static bool event_valid(const struct broker_event *e)
{
	static const char *const protocols[] = {"dns", "tls", "http", "tcp"};
	static const char *const rules[] = {"network.outbound", "network.inbound", "network.deny", "network.localhost",
	                                    "network.name",     "network.address", "secrets"};
	return e->target && is_printable(e->target) && is_one_of(protocols, ARRAY_SIZE(protocols), e->protocol) &&
	       is_one_of(rules, ARRAY_SIZE(rules), e->rule) && is_printable(e->reason) && is_printable(e->address);
}

int broker_event_decode(const void *body, size_t len, struct broker_event *e, struct cordon_error *err)
{
	struct wire_reader r = read_body(body, len, BROKER_EVENT);
	uint32_t kind = wire_get_u32(&r), port;
	*e = (struct broker_event){.kind = (enum broker_event_kind)kind, .id = wire_get_u64(&r)};
	e->target = wire_get_str(&r);
	port = wire_get_u32(&r);
	e->port = (uint16_t)port;
	e->protocol = wire_get_str(&r);
	e->rule = wire_get_str(&r);
	e->reason = wire_get_str(&r);
	e->address = wire_get_str(&r);
	e->sent = wire_get_u64(&r);
	e->received = wire_get_u64(&r);
	e->duration_us = wire_get_u64(&r);
	e->again = wire_get_u64(&r);
	if (wire_done(&r) && kind > 0 && kind < BROKER_EVENT_COUNT && port <= UINT16_MAX && event_valid(e))
		return 0;
	return malformed(err);
}
