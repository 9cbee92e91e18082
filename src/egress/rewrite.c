/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* Fields by which some servers take a request for another one than it seems to be: not where rules tell requests apart. */
static const struct {
	const char *field;
	bool method; /* … or the path */
} overrides[] = {
	{"x-http-method-override", true}, {"x-http-method", true},    {"x-method-override", true}, {"x-original-method", true},
	{"x-forwarded-method", true},     {"x-original-url", false},  {"x-original-uri", false},   {"x-original-path", false},
	{"x-rewrite-url", false},         {"x-forwarded-uri", false}, {"x-forwarded-path", false}, {"x-forwarded-prefix", false},
	{"x-envoy-original-path", false}, {"destination", false}, /* RFC 4918, 10.3: where COPY and MOVE write */
};
/* And the parameters of a query by which some do: for methods only. */
static const char *const parameters[] = {"_method", "x-http-method-override", "$httpmethod"};

static const char identity[] = "Accept-Encoding: identity\r\n";

struct choice {
	const struct rewrite *how;
	size_t keys[KEYRING_MAX];
	size_t count;
	bool by_method, by_path; /* a rule is for some only */
};

static void find_limits(struct choice *c)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct policy_secret *rule = c->how->keys->keys[c->keys[i]].rule;
		c->by_method = c->by_method || rule->methods.count;
		c->by_path = c->by_path || rule->paths.count;
	}
}

static const char *overriding(const struct choice *c, struct http_text name)
{
	for (size_t i = 0; i < ARRAY_SIZE(overrides); i++)
		if ((overrides[i].method ? c->by_method : c->by_path) && http_same_field(name, overrides[i].field))
			return overrides[i].field;
	return NULL;
}

static const char *overriding_parameter(const struct choice *c, struct http_text target)
{
	for (size_t i = 0; c->by_method && i < ARRAY_SIZE(parameters); i++)
		if (keyring_query_has(target, parameters[i]))
			return parameters[i];
	return NULL;
}

static enum rewrite_verdict deny_override(const char *what, char why[KEYRING_WHY])
{
	snprintf(why, KEYRING_WHY, "%s would make another request of it than its secret is for", what);
	return REWRITE_DENIED;
}

static bool is_replaced(const struct choice *c, struct http_text name)
{
	for (size_t i = 0; i < c->count; i++)
		if (http_same_field(name, c->how->keys->keys[c->keys[i]].rule->header))
			return true;
	return http_same_field(name, "accept-encoding") || (c->how->plain_port && http_same_field(name, "host"));
}

/* All of the room at once: what grows is moved, and what was moved stays behind. */
static bool make_room(const struct choice *c, size_t head, struct buf *out)
{
	size_t need = head + strlen(identity) + strlen("Host: \r\n") + strlen(c->how->host->name);
	for (size_t i = 0; i < c->count; i++) {
		const struct key *k = &c->how->keys->keys[c->keys[i]];
		need += strlen(k->rule->header) + strlen(": \r\n") + strlen(k->rule->format) + k->value.len;
	}
	return buf_reserve(out, need);
}

static void add_keys(const struct choice *c, struct buf *out)
{
	for (size_t i = 0; i < c->count; i++) {
		const struct key *k = &c->how->keys->keys[c->keys[i]];
		const char *place = strstr(k->rule->format, "{}");
		buf_add_str(out, k->rule->header);
		buf_add_str(out, ": ");
		buf_add(out, k->rule->format, (size_t)(place - k->rule->format));
		buf_add(out, k->value.data, k->value.len);
		buf_add_str(out, place + strlen("{}"));
		buf_add_str(out, "\r\n");
	}
}

/* Line by line; the first is no field, and the last is empty. */
static enum rewrite_verdict copy_lines(const struct choice *c, const char *head, size_t len, struct buf *out, char why[KEYRING_WHY])
{
	const char *at = head, *end = head + len;
	for (bool first = true; at < end; first = false) {
		const char *next = memchr(at, '\n', (size_t)(end - at)), *colon;
		next = next ? next + 1 : end;
		const size_t line = (size_t)(next - at);
		if (line == strlen("\r\n"))
			break;
		colon = first ? NULL : memchr(at, ':', line);
		const struct http_text name = {at, colon ? (size_t)(colon - at) : 0};
		const char *field = overriding(c, name);
		if (field)
			return deny_override(field, why);
		if (!is_replaced(c, name))
			buf_add(out, at, line);
		at = next;
	}
	return REWRITE_OK;
}

enum rewrite_verdict rewrite_head(const struct rewrite *r, const struct http_part *part, const char *head, size_t len, struct buf *out,
                                  char why[KEYRING_WHY])
{
	const struct keyring_request request = {r->host, part->method, part->target};
	struct choice c = {.how = r};
	if (strcmp(part->method, "TRACE") == 0) {
		snprintf(why, KEYRING_WHY, "TRACE would have the secret sent back");
		return REWRITE_DENIED;
	}
	if (part->target.len == 0 || (part->target.at[0] != '/' && part->target.at[0] != '*')) {
		snprintf(why, KEYRING_WHY, "the request's target is not a path");
		return REWRITE_DENIED;
	}
	c.count = keyring_choose(r->keys, &request, c.keys, why);
	if (c.count == 0)
		return REWRITE_DENIED;
	find_limits(&c);
	const char *parameter = overriding_parameter(&c, part->target);
	if (parameter)
		return deny_override(parameter, why);
	if (!make_room(&c, len, out))
		return REWRITE_FAILED;
	const enum rewrite_verdict v = copy_lines(&c, head, len, out, why);
	if (v != REWRITE_OK)
		return v;
	if (r->plain_port)
		buf_addf(out, "Host: %s\r\n", r->host->name);
	buf_add_str(out, identity);
	add_keys(&c, out);
	buf_add_str(out, "\r\n");
	return out->failed ? REWRITE_FAILED : REWRITE_OK;
}

void rewrite_wipe(struct buf *out)
{
	if (out->data)
		explicit_bzero(out->data, out->size);
	buf_free(out);
}
