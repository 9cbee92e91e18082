/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/answered.h"

#include <string.h>

/* 1: it has no body, whatever it says (RFC 9112, 6.3). */
static int on_head(llhttp_t *p)
{
	const struct answered *a = p->data;
	return p->status_code < 200 || p->status_code == 204 || p->status_code == 304 || (a->heads >> (a->answers % ANSWERED_AHEAD)) & 1;
}

/* Those of 1xx only come before the answer. */
static int on_done(llhttp_t *p)
{
	struct answered *a = p->data;
	a->answers += p->status_code >= 200;
	return 0;
}

static const llhttp_settings_t calls = {.on_headers_complete = on_head, .on_message_complete = on_done};

void answered_init(struct answered *a)
{
	*a = (struct answered){0};
	llhttp_init(&a->parser, HTTP_RESPONSE, &calls);
	a->parser.data = a;
}

void answered_request(struct answered *a, const char *method)
{
	const uint64_t bit = (uint64_t)1 << (a->requests % ANSWERED_AHEAD);
	if (a->requests - a->answers == ANSWERED_AHEAD)
		a->lost = true;
	a->heads = strcmp(method, "HEAD") == 0 ? a->heads | bit : a->heads & ~bit;
	a->requests++;
}

void answered_feed(struct answered *a, const char *data, size_t len)
{
	if (a->lost || len == 0)
		return;
	/* an answer to nothing is not for a later request, either */
	a->lost = llhttp_execute(&a->parser, data, len) != HPE_OK || a->answers > a->requests;
}

enum answered_state answered_state(const struct answered *a)
{
	if (a->lost)
		return ANSWERED_LOST;
	return a->answers == a->requests ? ANSWERED_ALL : ANSWERED_SOME;
}
