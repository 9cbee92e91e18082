/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's target: "/path?query", or the same behind "http://host". The path is decoded once, where it stands, and must then be a plain
 * one: nobody behind this has to ask what "%2e%2e" or "a%2Fb" would have meant.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/util.h"
#include "server/http_parts.h"

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "%XX" stands for; -1: these are not two hex digits, or more than there are. */
static int escaped(const char *at, const char *end)
{
	if (end - at < 3)
		return -1;
	const int high = hex_value(at[1]), low = hex_value(at[2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* ---- the path ------------------------------------------------------------------------------------------------------------------ */

static bool decode_path(struct http_exchange *x, char *path, char *end, char **decoded_end)
{
	char *to = path;

	for (const char *at = path; at < end; at++) {
		int c = (unsigned char)*at;
		if (c == '%') {
			c = escaped(at, end);
			if (c < 0)
				return problem_bad(x, "the request's path has a \"%\" without two hex digits");
			if (c == '/' || c == '\\')
				return problem_bad(x, "the request's path has an encoded slash");
			at += 2;
		} else if (strchr("\"<>\\^`{|}", c)) {
			return problem_bad(x, "the request's path has a character that must be encoded");
		}
		if (c < 0x20 || c == 0x7f)
			return problem_bad(x, "the request's path has a control character");
		*to++ = (char)c;
	}
	*decoded_end = to;
	return utf8_valid(path, (size_t)(to - path)) || problem_bad(x, "the request's path is not UTF-8");
}

static bool has_dot_segment(const char *path)
{
	for (const char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
		const size_t n = strcspn(at + 1, "/");
		if ((n == 1 || n == 2) && strspn(at + 1, ".") >= n)
			return true;
	}
	return false;
}

static bool take_path(struct http_exchange *x, char *path, char *end)
{
	char *decoded_end = end;

	if (path == end) {
		x->request.path = "/";
		return true;
	}
	if (!decode_path(x, path, end, &decoded_end))
		return false;
	*decoded_end = '\0'; /* at the latest where the "?" or the space was */
	x->request.path = path;
	return !has_dot_segment(path) || problem_bad(x, "the request's path has a \".\" or \"..\" segment");
}

/* ---- the query ----------------------------------------------------------------------------------------------------------------- */

static bool take_query(struct http_exchange *x, char *query, char *end)
{
	for (const char *at = query; at < end; at++)
		if (*at == '%' && escaped(at, end) <= 0)
			return problem_bad(x, "the request's query has a \"%\" that stands for nothing");
	*end = '\0';
	x->request.query = query;
	return true;
}

struct http_query http_query(struct http_exchange *x)
{
	return (struct http_query){.x = x, .rest = x->request.query};
}

static char *decode(char *to, const char *at, const char *end)
{
	for (; at < end; at++) {
		if (*at == '%') {
			*to++ = (char)escaped(at, end);
			at += 2;
		} else {
			*to++ = *at == '+' ? ' ' : *at;
		}
	}
	*to = '\0';
	return to;
}

/* A pair is decoded to where it stands in the query: what it becomes is not longer, and the NULs take the places of "=" and "&". */
bool http_query_next(struct http_query *q)
{
	while (*q->rest == '&')
		q->rest++;
	if (!*q->rest)
		return false;
	const char *pair = q->rest, *end = pair + strcspn(pair, "&"), *equals = memchr(pair, '=', (size_t)(end - pair));
	char *to = q->x->query_text + (pair - q->x->request.query);
	q->name = to;
	to = decode(to, pair, equals ? equals : end);
	q->value = equals ? to + 1 : to;
	if (equals)
		decode(to + 1, equals + 1, end);
	q->rest = end;
	return true;
}

const char *http_query_get(struct http_exchange *x, const char *name)
{
	for (struct http_query q = http_query(x); http_query_next(&q);)
		if (strcmp(q.name, name) == 0)
			return q.value;
	return NULL;
}

/* ---- the host ------------------------------------------------------------------------------------------------------------------ */

/* "name", "192.0.2.1", "[2001:db8::1]", each with ":port" or without. */
bool host_valid(const char *at, size_t len)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	static const char six[] = "0123456789abcdefABCDEF:.";
	const bool bracket = len && at[0] == '[';
	size_t n = bracket, name, digits = 0;

	while (n < len && at[n] && strchr(bracket ? six : letters, at[n]))
		n++;
	name = n - bracket;
	if (bracket && (n == len || at[n++] != ']'))
		return false;
	if (name == 0 || n == len)
		return name > 0;
	if (at[n++] != ':')
		return false;
	for (; n < len && at[n] >= '0' && at[n] <= '9'; n++)
		digits++;
	return n == len && digits <= 5;
}

/* "http://host": of the host there is a copy one byte before it, so that a NUL fits behind it. *rest: the path. */
static bool take_authority(struct http_exchange *x, struct text target, char **rest)
{
	const size_t scheme = strncasecmp(target.at, "https://", 8) == 0 ? 8 : 7;
	char *host = target.at + scheme;
	size_t n = 0;

	while (host + n < target.at + target.len && host[n] != '/' && host[n] != '?')
		n++;
	if (!host_valid(host, n))
		return problem_bad(x, "the request's target has no valid host");
	*rest = host + n;
	memmove(host - 1, host, n);
	host[n - 1] = '\0';
	if (x->hosts && strcasecmp(host - 1, x->request.host) != 0)
		return problem_bad(x, "the request's target and its Host are not of the same host");
	x->request.host = host - 1;
	return true;
}

bool target_take(struct http_exchange *x)
{
	struct text t = x->target;
	char *path = t.at, *end = t.at + t.len, *mark;

	x->request.query = "";
	if (memchr(t.at, '#', t.len))
		return problem_bad(x, "the request's target has a fragment");
	if (t.at[0] != '/') {
		const bool http = t.len > 7 && strncasecmp(t.at, "http://", 7) == 0,
			   https = t.len > 8 && strncasecmp(t.at, "https://", 8) == 0;
		if (!http && !https)
			return problem_bad(x, "the request's target is neither a path nor an http:// address");
		if (!take_authority(x, t, &path))
			return false;
	}
	mark = memchr(path, '?', (size_t)(end - path));
	if (mark && !take_query(x, mark + 1, end))
		return false;
	return take_path(x, path, mark ? mark : end);
}

void http_peer_name(const struct http_peer *peer, char *out, size_t size)
{
	char address[INET6_ADDRSTRLEN];

	if (peer->family == AF_UNIX)
		snprintf(out, size, "unix:uid=%ld", (long)(int32_t)peer->uid);
	else if (inet_ntop(peer->family, peer->address, address, sizeof(address)))
		snprintf(out, size, peer->family == AF_INET6 ? "[%s]:%u" : "%s:%u", address, (unsigned)peer->port);
	else
		snprintf(out, size, "unknown");
}
