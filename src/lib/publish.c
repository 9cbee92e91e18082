/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/publish.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/egress.h"
#include "lib/events.h"
#include "policy/maps.h"

#define BACKLOG 1024
#define ATTEMPTS 32 /* to find a number that is free for IPv4 and IPv6 */

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static socklen_t loopback(int family, uint16_t port, union address *out)
{
	*out = (union address){0};
	if (family == AF_INET) {
		out->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		return sizeof(out->in);
	}
	out->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	return sizeof(out->in6);
}

/* A listener on the loopback, -1 with errno; *port 0: any, and then which. */
static int open_listener(int family, uint16_t *port)
{
	const int on = 1;
	union address to;
	socklen_t len = loopback(family, *port, &to);
	_cleanup_fd_ int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* what was closed a moment ago does not keep others from it; what listens does */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -1;
	if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -1;
	if (bind(fd, &to.any, len) < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, &to.any, &len) < 0)
		return -1;
	*port = ntohs(family == AF_INET ? to.in.sin_port : to.in6.sin6_port);
	return steal_fd(&fd);
}

static void add(struct published *p, int family, uint16_t inside, int fd)
{
	p->sockets[p->count++] = (struct airlock_socket){.kind = AIRLOCK_PUBLISHED, .family = (uint16_t)family, .port = inside, .fd = fd};
}

/* Both families with the same number; a host without IPv6, or whose loopback has none, has one. */
static int open_both(struct published *p, uint16_t inside, uint16_t *port)
{
	_cleanup_fd_ int four = open_listener(AF_INET, port);
	if (four < 0)
		return -1;
	const int six = open_listener(AF_INET6, port);
	if (six < 0 && errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)
		return -1;
	add(p, AF_INET, inside, steal_fd(&four));
	if (six >= 0)
		add(p, AF_INET6, inside, six);
	return 0;
}

static int open_any(struct published *p, uint16_t inside, uint16_t *port)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		*port = 0;
		if (open_both(p, inside, port) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -1;
	}
	return -1;
}

static int refuse(uint16_t inside, uint16_t port, struct cordon_error *err)
{
	const unsigned in = inside, out = port;
	if (errno == EADDRINUSE) {
		err_set(err, CORDON_ERR_INPUT, "cannot publish port %u: port %u of this host is taken", in, out);
		return err_hint(err, "--publish 0:%u takes any free port", in);
	}
	if (errno == EACCES) {
		err_set(err, CORDON_ERR_INPUT, "cannot publish port %u: port %u of this host is for root", in, out);
		return err_hint(err, "--publish %u:%u takes another one", in < 1024 ? in + 8000 : in, in);
	}
	return err_sys(err, "cannot publish port %u as port %u of this host", in, out);
}

/* *known: by which number it was published before. */
static int open_one(struct published *p, const struct policy_inbound *rule, uint16_t *known, struct cordon_error *err)
{
	const uint16_t inside = rule->port.items[0], wanted = policy_inbound_host_port(rule);
	uint16_t port = wanted ? wanted : *known;
	int r = port ? open_both(p, inside, &port) : -1;
	if (r < 0 && !wanted)
		r = open_any(p, inside, &port);
	*known = r < 0 ? *known : port;
	return r < 0 ? refuse(inside, wanted, err) : 0;
}

int publish_open(struct published *p, const struct cordon_policy *policy, struct cordon_error *err)
{
	for (size_t i = 0; i < policy->network.inbound.count; i++) {
		if (open_one(p, maplist_item(&policy->network.inbound, &map_inbound, i), &p->host_ports[i], err) == 0)
			continue;
		publish_close(p);
		return -1;
	}
	return 0;
}

void publish_close(struct published *p)
{
	while (p->count)
		close(p->sockets[--p->count].fd);
}

static int announce_one(struct cordon_sandbox *s, uint16_t inside, uint16_t port, struct audit *log, struct cordon_error *err)
{
	char target[32];
	snprintf(target, sizeof(target), "127.0.0.1:%u", (unsigned)port);
	const struct audit_field detail[] = {AUDIT_INT("port", inside), AUDIT_END};
	const struct audit_event event = {.level = AUDIT_INFO,
	                                  .category = AUDIT_NETWORK,
	                                  .action = "publish",
	                                  .allowed = AUDIT_ALLOWED,
	                                  .sandbox = cordon_sandbox_id(s),
	                                  .target = target,
	                                  .rule = "network.inbound",
	                                  .detail = detail};
	return audit_add(log, &event, err);
}

int publish_announce(struct cordon_sandbox *s, const struct published *p, struct cordon_error *err)
{
	struct audit *log = events_log(s->ctx, &s->policy, err);
	for (size_t i = 0; log && i < s->policy.network.inbound.count; i++) {
		const struct policy_inbound *rule = maplist_item(&s->policy.network.inbound, &map_inbound, i);
		if (announce_one(s, rule->port.items[0], p->host_ports[i], log, err) < 0)
			return -1;
	}
	return log ? audit_write(log, err) : -1;
}

int publish_list(struct cordon_sandbox *s, struct strlist *out, struct cordon_error *err)
{
	struct egress_port port;
	for (size_t i = 0; egress_published(s, i, &port); i++) {
		char text[16];
		snprintf(text, sizeof(text), "%u %u", (unsigned)port.inside, (unsigned)port.host);
		if (strlist_add(out, text, err) < 0)
			return -1;
	}
	return 0;
}

int publish_door(struct cordon_sandbox *s, struct airlock_socket *out, struct cordon_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(err, "socketpair");
	const int r = s->backend->door(&s->state, pair[1], err);
	close(pair[1]);
	if (r < 0)
		close(pair[0]);
	else
		*out = (struct airlock_socket){.kind = AIRLOCK_DOOR, .family = AF_UNIX, .fd = pair[0]};
	return r;
}
