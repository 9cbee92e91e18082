/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/airlock_plan.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "egress/addresses.h"
#include "policy/maps.h"

static int add_port(struct airlock_spec *a, uint16_t port, struct cordon_error *err)
{
	for (uint32_t i = 0; i < a->port_count; i++)
		if (a->ports[i] == port)
			return 0;
	if (a->port_count == AIRLOCK_PORTS_MAX) {
		err_set(err, CORDON_ERR_INPUT, "network.outbound names more than %d different ports", AIRLOCK_PORTS_MAX);
		return err_hint(err, "sandboxes that need others can be run beside this one");
	}
	a->ports[a->port_count++] = port;
	return 0;
}

/* "10.0.0.0/8", as host_canonical() made it. */
static bool parse_block(const char *text, struct airlock_block *out)
{
	char address[INET6_ADDRSTRLEN];
	unsigned bits;
	const char *slash = strchr(text, '/');
	if (!slash || (size_t)(slash - text) >= sizeof(address) || sscanf(slash + 1, "%u", &bits) != 1)
		return false;
	snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
	*out = (struct airlock_block){.family = strchr(address, ':') ? AF_INET6 : AF_INET, .bits = (uint8_t)bits};
	return inet_pton(out->family, address, out->address) == 1;
}

static int add_block(struct airlock_spec *a, const struct airlock_block *block, struct cordon_error *err)
{
	for (uint32_t i = 0; i < a->block_count; i++)
		if (memcmp(&a->blocks[i], block, sizeof(*block)) == 0)
			return 0;
	if (a->block_count == AIRLOCK_BLOCKS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "network.outbound names more than %d blocks of addresses", AIRLOCK_BLOCKS_MAX);
	a->blocks[a->block_count++] = *block;
	return 0;
}

int airlock_plan(const struct cordon_policy *policy, struct airlock_spec *out, struct cordon_error *err)
{
	*out = (struct airlock_spec){0};
	for (size_t i = 0; i < policy->network.outbound.count; i++) {
		const struct policy_outbound *rule = maplist_item(&policy->network.outbound, &map_outbound, i);
		struct airlock_block block;
		for (size_t k = 0; k < rule->ports.count; k++)
			if (add_port(out, rule->ports.items[k], err) < 0)
				return -1;
		if (parse_block(rule->host, &block) && add_block(out, &block, err) < 0)
			return -1;
	}
	return 0;
}

const char *airlock_resolver(const struct airlock_spec *a)
{
	return a->port_count ? "nameserver " AIRLOCK_DNS4_TEXT "\noptions edns0 timeout:2 attempts:2\n" : "# no network\n";
}
