/* SPDX-License-Identifier: Apache-2.0 */
/* network.inbound as a whole. */
#include "policy/maps.h"
#include "policy/policy.h"

static const struct policy_inbound *rule(const struct cordon_policy *p, size_t i)
{
	return maplist_item(&p->network.inbound, &map_inbound, i);
}

uint16_t policy_inbound_host_port(const struct policy_inbound *i)
{
	return i->host_port.count ? i->host_port.items[0] : i->port.items[0];
}

/* Any that is free is another one for each. */
static bool is_taken(const struct cordon_policy *p, size_t before, uint16_t port)
{
	for (size_t i = 0; i < before; i++)
		if (port && policy_inbound_host_port(rule(p, i)) == port)
			return true;
	return false;
}

int policy_check_inbound(const struct cordon_policy *p, struct cordon_error *err)
{
	const size_t count = p->network.inbound.count;

	if (count > POLICY_INBOUND_MAX)
		return err_set(err, CORDON_ERR_INPUT, "network.inbound: more than %d ports", POLICY_INBOUND_MAX);
	for (size_t i = 0; i < count; i++) {
		const uint16_t port = policy_inbound_host_port(rule(p, i));

		if (!is_taken(p, i, port))
			continue;
		err_set(err, CORDON_ERR_INPUT, "network.inbound: port %u of the host is given twice", (unsigned)port);
		return err_hint(err, "--publish 0:%u takes any free one", (unsigned)rule(p, i)->port.items[0]);
	}
	if (count == 0 || p->network.localhost)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "network.inbound publishes ports, but network.localhost is false: nothing can listen on them");
	return err_hint(err, "set network.localhost to true, or publish nothing");
}
