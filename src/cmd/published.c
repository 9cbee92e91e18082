/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/published.h"

#include <stdio.h>

#include "lib/egress.h"

#define HOST "127.0.0.1"

void published_note(const struct run_options *o, struct cordon_sandbox *s)
{
	struct egress_port port;

	for (size_t i = 0; !o->quiet && !o->events && egress_published(s, i, &port); i++)
		fprintf(stderr, "cordon: port %u inside is " HOST ":%u outside\n", (unsigned)port.inside, (unsigned)port.host);
}

static bool parse(const char *item, unsigned *inside, unsigned *host)
{
	return sscanf(item, "%u %u", inside, host) == 2;
}

char *published_text(const char *item)
{
	unsigned inside, host;
	char *text = NULL;

	if (parse(item, &inside, &host) && asprintf(&text, HOST ":%u for port %u", host, inside) < 0)
		text = NULL;
	return text;
}

void published_json(struct json *j, const struct strlist *items)
{
	unsigned inside, host;

	json_key(j, "published");
	json_array(j);
	for (size_t i = 0; i < items->count; i++) {
		if (!parse(items->items[i], &inside, &host))
			continue;
		json_object(j);
		json_kint(j, "port", inside);
		json_kstr(j, "host", HOST);
		json_kint(j, "host_port", host);
		json_end(j);
	}
	json_end(j);
}
