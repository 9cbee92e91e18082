/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/inspect.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "egress/hello.h"
#include "egress/http.h"
#include "policy/host.h"

struct inspect {
	char name[HOST_TEXT_MAX];
	uint16_t port;
	bool begun, is_tls;
	const char *why;
	struct http_check *http;
	/* TLS: what the server has said first, and what that means for the client's next bytes */
	enum hello_answer answer;
	char answered[HELLO_ANSWER_MAX];
	size_t answered_len;
};

struct inspect *inspect_new(const char *name, uint16_t port)
{
	struct inspect *i = calloc(1, sizeof(*i));
	if (!i)
		return NULL;
	memcpy(i->name, name, MIN(strlen(name), sizeof(i->name) - 1));
	i->port = port;
	i->answer = HELLO_ANSWER_MORE;
	return i;
}

void inspect_free(struct inspect *i)
{
	if (!i)
		return;
	http_check_free(i->http);
	free(i);
}

const char *inspect_protocol(const struct inspect *i)
{
	return !i->begun ? "tcp" : i->is_tls ? "tls" : "http";
}

const char *inspect_why(const struct inspect *i)
{
	return i->why;
}

static enum inspect_verdict first_hello(struct inspect *i, const void *data, size_t len, size_t *passed)
{
	const enum hello_verdict v = hello_check(data, len, i->name, &i->why);
	if (v == HELLO_OK)
		*passed = hello_length(data, len); /* what follows must wait for the server's answer */
	return v == HELLO_OK ? INSPECT_OK : v == HELLO_MORE ? INSPECT_MORE : INSPECT_REFUSED;
}

static enum inspect_verdict first_request(struct inspect *i, const void *data, size_t len, size_t *passed)
{
	if (!i->http)
		i->http = http_check_new(i->name, i->port);
	if (!i->http) {
		i->why = "out of memory";
		return INSPECT_REFUSED;
	}
	if (http_check_request(i->http, data, &len, &i->why) == HTTP_REFUSED)
		return INSPECT_REFUSED;
	*passed = len;
	return len ? INSPECT_OK : INSPECT_MORE;
}

enum inspect_verdict inspect_first(struct inspect *i, const void *data, size_t len, size_t *passed)
{
	*passed = 0;
	if (len == 0)
		return INSPECT_MORE;
	i->begun = true;
	i->is_tls = hello_is_tls(*(const unsigned char *)data);
	return i->is_tls ? first_hello(i, data, len, passed) : first_request(i, data, len, passed);
}

static enum relay_verdict check_server_hello(struct inspect *i, const void *data, size_t len)
{
	const size_t more = MIN(len, sizeof(i->answered) - i->answered_len);
	memcpy(i->answered + i->answered_len, data, more);
	i->answered_len += more;
	i->answer = hello_answer(i->answered, i->answered_len);
	return i->answer == HELLO_ANSWER_MORE ? RELAY_PASS : RELAY_FREE;
}

static enum relay_verdict check_later_hello(struct inspect *i, const void *data, size_t *len)
{
	if (i->answer == HELLO_ANSWER_FINAL)
		return RELAY_FREE;
	const size_t held = *len;
	*len = 0;
	if (i->answer == HELLO_ANSWER_MORE)
		return RELAY_WAIT;
	const enum hello_verdict v = hello_check_again(data, held, i->name, &i->why);
	return v == HELLO_OK ? RELAY_FREE : v == HELLO_MORE ? RELAY_PASS : RELAY_STOP;
}

static enum relay_verdict check_http(struct inspect *i, enum relay_way way, const void *data, size_t *len)
{
	const bool up = way == RELAY_UP;
	if ((up ? http_check_request : http_check_response)(i->http, data, len, &i->why) == HTTP_REFUSED)
		return RELAY_STOP;
	if ((up ? http_check_requests_free : http_check_responses_free)(i->http))
		return RELAY_FREE;
	return up && http_check_waits(i->http) ? RELAY_WAIT : RELAY_PASS;
}

enum relay_verdict inspect_check(void *arg, enum relay_way way, const void *data, size_t *len)
{
	struct inspect *i = arg;
	if (!i->is_tls)
		return check_http(i, way, data, len);
	return way == RELAY_UP ? check_later_hello(i, data, len) : check_server_hello(i, data, *len);
}
