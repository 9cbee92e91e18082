/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#include "base/util.h"
#include "egress/addresses.h"
#include "egress/dial.h"
#include "policy/maps.h"

static bool refuse(struct policy_verdict *v, const char *key, const char *why)
{
	*v = (struct policy_verdict){.allowed = false, .key = key, .why = why};
	return false;
}

static const struct policy_outbound *rule_at(const struct cordon_policy *p, size_t i)
{
	return maplist_item(&p->network.outbound, &map_outbound, i);
}

/*
 * policy_match_host(), but for what it leaves to others: the sandbox's own loopback is never outside, and the host's own is reached only if a rule names it in full, not
 * because a suffix happens to fit.
 */
static bool match(const struct cordon_policy *p, const struct host_target *t, uint16_t port, struct policy_verdict *v)
{
	if (host_is_loopback(t))
		return refuse(v, "network.localhost", "it is the sandbox's own loopback");
	policy_match_host(p, t, port, v);
	if (!v->allowed || t->is_address || strcmp(t->name, DIAL_HOST) != 0)
		return v->allowed;
	for (size_t i = v->index; i < p->network.outbound.count; i++) {
		const struct policy_outbound *rule = rule_at(p, i);
		for (size_t k = 0; k < rule->ports.count && strcmp(rule->host, DIAL_HOST) == 0; k++) {
			if (rule->ports.items[k] != port)
				continue;
			v->index = i;
			v->rule = rule->host;
			return true;
		}
	}
	return refuse(v, "network.outbound", "this machine is reached by a rule for " DIAL_HOST " itself only");
}

bool rules_resolvable(const struct cordon_policy *p, const struct host_target *name, struct policy_verdict *v)
{
	for (size_t i = 0; i < p->network.outbound.count; i++) {
		const struct policy_outbound *rule = rule_at(p, i);
		for (size_t k = 0; k < rule->ports.count && host_matches(rule->host, name); k++)
			if (match(p, name, rule->ports.items[k], v))
				return true;
	}
	policy_match_host(p, name, 0, v); /* for its reasons: no rule has this port */
	return v->allowed ? refuse(v, v->key, v->why) : false;
}

static bool in_block(const uint8_t *address, const uint8_t *block, unsigned bits)
{
	const unsigned whole = bits / 8, rest = bits % 8;
	return memcmp(address, block, whole) == 0 && (rest == 0 || (address[whole] ^ block[whole]) >> (8 - rest) == 0);
}

/* Addresses that are the airlock's own, whatever block a rule names. */
static bool is_own(int family, const uint8_t *address)
{
	static const struct {
		int family;
		unsigned bits;
		uint8_t block[16];
	} own[] = {
		{AF_INET, AIRLOCK_BLOCK4_BITS, {AIRLOCK_BLOCK4}},
		{AF_INET, AIRLOCK_LINK4_BITS, {AIRLOCK_LINK4_OUTSIDE}},
		{AF_INET6, AIRLOCK_BLOCK6_BITS, {AIRLOCK_BLOCK6}},
		{AF_INET6, AIRLOCK_LINK6_BITS, {AIRLOCK_LINK6_OUTSIDE}},
	};
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (own[i].family == family && in_block(address, own[i].block, own[i].bits))
			return true;
	return false;
}

bool rules_connection(const struct cordon_policy *p, const struct names *names, const struct sockaddr *local, struct destination *out,
                      struct policy_verdict *v)
{
	const struct sockaddr_in *v4 = (const void *)local;
	const struct sockaddr_in6 *v6 = (const void *)local;
	const bool is4 = local->sa_family == AF_INET;
	const uint8_t *address = is4 ? (const uint8_t *)&v4->sin_addr : v6->sin6_addr.s6_addr;
	const uint32_t number = is4 ? names_number_of4(address) : names_number_of6(address);
	const char *name = number ? names_of(names, number) : NULL;
	char text[INET6_ADDRSTRLEN];

	*out = (struct destination){.port = ntohs(is4 ? v4->sin_port : v6->sin6_port)};
	inet_ntop(local->sa_family, address, text, sizeof(text));
	if (host_target_parse(name ? name : text, &out->target, NULL) < 0)
		return refuse(v, "network.outbound", "nobody can tell what it is");
	if (!name && is_own(local->sa_family, address))
		return refuse(v, "network.outbound", "no name that was asked for has this address");
	if (!match(p, &out->target, out->port, v))
		return false;
	out->number = name ? number : 0;
	out->protocol = rule_at(p, v->index)->protocol;
	return true;
}

bool rules_other_port(const struct cordon_policy *p, const struct host_target *target, uint16_t port, struct policy_verdict *v)
{
	return match(p, target, port, v);
}
