/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks are those of the IANA registries of special-purpose addresses (RFC 6890 and what came after), and some that are public in name only. */
#include "egress/address.h"

#include <netinet/in.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"
#include "policy/host.h"
#include "policy/maps.h"

struct special {
	unsigned char prefix[16];
	unsigned bits;
	const char *why;
};

static const char metadata[] = "an address of a cloud's metadata service", loopback[] = "a loopback address",
		  private[] = "a private address", link_local[] = "a link-local address",
		  assigned[] = "an address of protocols (IETF assignments)", documentation[] = "an address for documentation",
		  multicast[] = "a multicast address", reserved[] = "a reserved address", not_internet[] = "not an internet address";

/* The first that matches counts. */
static const struct special special4[] = {
	{{169, 254, 169, 254}, 32, metadata},
	{{168, 63, 129, 16}, 32, metadata},   /* Azure: a public address that leads to the host below */
	{{100, 100, 100, 200}, 32, metadata}, /* Alibaba Cloud */
	{{192, 0, 0, 192}, 32, metadata},     /* Oracle Cloud */
	{{0}, 8, "an address of this host"},  /* RFC 1122; Linux connects 0.0.0.0 to loopback */
	{{10}, 8, private},                   /* RFC 1918 */
	{{172, 16}, 12, private},
	{{192, 168}, 16, private},
	{{100, 64}, 10, "a shared address (carrier-grade NAT)"}, /* RFC 6598 */
	{{127}, 8, loopback},
	{{169, 254}, 16, link_local},     /* RFC 3927 */
	{{192, 0, 0}, 24, assigned},      /* RFC 6890 */
	{{192, 0, 2}, 24, documentation}, /* RFC 5737 */
	{{198, 51, 100}, 24, documentation},
	{{203, 0, 113}, 24, documentation},
	{{192, 88, 99}, 24, reserved},                /* 6to4 relays, RFC 7526 */
	{{198, 18}, 15, "an address for benchmarks"}, /* RFC 2544; the airlock's own, too */
	{{255, 255, 255, 255}, 32, "the broadcast address"},
	{{224}, 4, multicast}, /* RFC 5771 */
	{{240}, 4, reserved},  /* RFC 1112 */
};

static const struct special special6[] = {
	{{0}, 128, "the unspecified address"},
	{{[15] = 1}, 128, loopback},
	{{0}, 96, "an IPv4-compatible address"}, /* RFC 4291, deprecated; mapped ones are IPv4 here */
	{{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48, "an address of a local translator to IPv4 (NAT64)"}, /* RFC 8215 */
	{{0x01, 0x00}, 64, "a discard address"},                                                  /* RFC 6666 */
	{{0x20, 0x01, 0x00, 0x00}, 32, "a Teredo address"},           /* RFC 4380: IPv4 of strangers, in disguise */
	{{0x20, 0x01}, 23, assigned},                                 /* RFC 2928: ORCHID and more */
	{{0x20, 0x01, 0x0d, 0xb8}, 32, documentation},                /* RFC 3849 */
	{{0x3f, 0xff, 0x00}, 20, documentation},                      /* RFC 9637 */
	{{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, metadata}, /* EC2 */
	{{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, metadata}, /* Google Cloud */
	{{0xfc}, 7, "a unique local address"},                        /* RFC 4193 */
	{{0xfe, 0x80}, 10, link_local},
	{{0xfe, 0xc0}, 10, "a site-local address"}, /* RFC 3879 */
	{{0xff}, 8, multicast},
	{{0x00, 0x64, 0xff, 0x9b}, 96, NULL}, /* as public as the IPv4 address in it, see below */
	/* All else that is public is in 2000::/3 (RFC 4291 2.4, IANA). */
	{{0x00}, 3, reserved},
	{{0x40}, 2, reserved},
	{{0x80}, 1, reserved},
};

/* IPv6 addresses that lead to the IPv4 address in them. */
struct carrier {
	unsigned char prefix[16], mask[16];
	unsigned at;   /* where the IPv4 address is */
	unsigned bits; /* of a rule that names it */
};

static const struct carrier carriers[] = {
	/* NAT64, RFC 6052: where the host has IPv6 only, all of IPv4 is here. */
	{{0x00, 0x64, 0xff, 0x9b}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 12, 96},
	/* 6to4, RFC 3056. */
	{{0x20, 0x02}, {0xff, 0xff}, 2, 16},
	/* ISATAP, RFC 5214 6.1: the interface identifier is [02]00:5efe:a.b.c.d, in any network. */
	{{[10] = 0x5e, 0xfe}, {[8] = 0xfd, 0xff, 0xff, 0xff}, 12, 64},
};

/* An address as rules see it: what is mapped (::ffff:1.2.3.4) is IPv4. */
struct place {
	int family;
	unsigned char bytes[16];
};

static bool has_prefix(const unsigned char *address, const struct special *s)
{
	unsigned whole = s->bits / 8, rest = s->bits % 8;

	if (memcmp(address, s->prefix, whole) != 0)
		return false;
	return rest == 0 || ((address[whole] ^ s->prefix[whole]) & (0xff00u >> rest) & 0xff) == 0;
}

static bool carries(const struct carrier *c, const unsigned char address[16])
{
	for (size_t i = 0; i < 16; i++)
		if ((address[i] ^ c->prefix[i]) & c->mask[i])
			return false;
	return true;
}

static bool place_of(const struct sockaddr *a, struct place *out)
{
	static const unsigned char mapped[12] = {[10] = 0xff, 0xff};
	struct sockaddr_in6 six;
	struct sockaddr_in four;

	*out = (struct place){.family = a->sa_family};
	if (a->sa_family == AF_INET) {
		memcpy(&four, a, sizeof(four));
		memcpy(out->bytes, &four.sin_addr, 4);
		return true;
	}
	if (a->sa_family != AF_INET6)
		return false;
	memcpy(&six, a, sizeof(six));
	memcpy(out->bytes, &six.sin6_addr, 16);
	if (memcmp(out->bytes, mapped, sizeof(mapped)) == 0) {
		out->family = AF_INET;
		memmove(out->bytes, out->bytes + 12, 4);
		memset(out->bytes + 4, 0, 12);
	}
	return true;
}

static struct place inside(const struct carrier *c, const struct place *p)
{
	struct place inner = {.family = AF_INET};

	memcpy(inner.bytes, p->bytes + c->at, 4);
	return inner;
}

static const struct special *find(const struct special *table, size_t count, const unsigned char *address)
{
	for (size_t i = 0; i < count; i++)
		if (has_prefix(address, &table[i]))
			return &table[i];
	return NULL;
}

/* Why it is special, NULL if it is not. *bits: how long the prefix of a rule must be at least that names its block. */
static const char *judge(const struct place *p, unsigned *bits)
{
	const bool four = p->family == AF_INET;
	const struct special *found =
		four ? find(special4, ARRAY_SIZE(special4), p->bytes) : find(special6, ARRAY_SIZE(special6), p->bytes);

	if (found && found->why) {
		*bits = found->bits;
		return found->why;
	}
	for (size_t i = 0; i < ARRAY_SIZE(carriers) && !four; i++) {
		const struct place inner = inside(&carriers[i], p);

		found = carries(&carriers[i], p->bytes) ? find(special4, ARRAY_SIZE(special4), inner.bytes) : NULL;
		if (found) {
			*bits = carriers[i].bits;
			return found->why;
		}
	}
	return NULL;
}

const char *address_special(const struct sockaddr *a)
{
	struct place p;
	unsigned bits;

	return place_of(a, &p) ? judge(&p, &bits) : not_internet;
}

size_t address_carried(const struct sockaddr *a, struct sockaddr_in out[ADDRESS_CARRIED_MAX])
{
	struct place p;
	size_t count = 0;

	_Static_assert(ARRAY_SIZE(carriers) == ADDRESS_CARRIED_MAX, "one for each way");
	for (size_t i = 0; place_of(a, &p) && p.family == AF_INET6 && i < ARRAY_SIZE(carriers); i++) {
		if (!carries(&carriers[i], p.bytes))
			continue;
		out[count] = (struct sockaddr_in){.sin_family = AF_INET};
		memcpy(&out[count++].sin_addr, p.bytes + carriers[i].at, 4);
	}
	return count;
}

/* ---- by policy ---------------------------------------------------------------------------------------------------------------- */

static struct host_target target_of(const struct place *p)
{
	struct host_target t = {.is_address = true, .family = p->family};

	memcpy(t.address, p->bytes, sizeof(t.address));
	return t;
}

static bool denied(const struct cordon_policy *policy, const struct place *p)
{
	const struct host_target t = target_of(p);

	for (size_t i = 0; i < policy->network.deny.count; i++)
		if (host_matches(policy->network.deny.items[i], &t))
			return true;
	return false;
}

/* Itself, or where it leads to. */
static bool denied_anyhow(const struct cordon_policy *policy, const struct place *p)
{
	if (denied(policy, p))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(carriers) && p->family == AF_INET6; i++) {
		const struct place inner = inside(&carriers[i], p);

		if (carries(&carriers[i], p->bytes) && denied(policy, &inner))
			return true;
	}
	return false;
}

static bool has_port(const struct policy_ports *ports, uint16_t port)
{
	for (size_t i = 0; i < ports->count; i++)
		if (ports->items[i] == port)
			return true;
	return false;
}

/* Its block, or a part of it: who allows 0.0.0.0/0 has the internet in mind, not this host's loopback. */
static bool names_block(const char *rule, unsigned bits)
{
	const char *slash = strchr(rule, '/');
	uint64_t prefix;

	return slash && units_parse_count(slash + 1, 0, 128, &prefix, NULL) == 0 && prefix >= bits;
}

static bool has_rule(const struct cordon_policy *policy, const struct place *p, uint16_t port, unsigned bits)
{
	const struct host_target t = target_of(p);

	for (size_t i = 0; i < policy->network.outbound.count; i++) {
		const struct policy_outbound *rule = maplist_item(&policy->network.outbound, &map_outbound, i);

		if (host_matches(rule->host, &t) && has_port(&rule->ports, port) && names_block(rule->host, bits))
			return true;
	}
	return false;
}

bool address_named(const struct cordon_policy *policy, const struct sockaddr *a, uint16_t port, unsigned bits)
{
	struct place p;

	return place_of(a, &p) && has_rule(policy, &p, port, bits);
}

bool address_allowed(const struct cordon_policy *policy, const struct sockaddr *a, uint16_t port, const char **why)
{
	struct place p;
	unsigned bits = 0;

	*why = not_internet;
	if (!place_of(a, &p))
		return false;
	*why = "an address that network.deny lists";
	if (denied_anyhow(policy, &p))
		return false;
	*why = judge(&p, &bits);
	if (*why && !has_rule(policy, &p, port, bits))
		return false;
	*why = NULL;
	return true;
}
