/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/http_head.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "egress/http.h"

static bool text_is(struct http_text t, const char *word)
{
	return t.len == strlen(word) && strncasecmp(t.at, word, t.len) == 0;
}

static bool text_begins(struct http_text t, const char *word)
{
	return t.len >= strlen(word) && strncasecmp(t.at, word, strlen(word)) == 0;
}

/* ---- bytes --------------------------------------------------------------------------------------------------------------------- */

/* In the first line each space counts, as some split it at any white space (Python: at 0x85 and 0xa0 as well), others at the first and the last. */
static const char *first_line_byte(struct http_lines *l, unsigned char c)
{
	if (c == '\t' || c >= 0x80)
		return "the request line has a byte that does not belong there";
	if (c == ' ' && ++l->spaces > 2)
		return "the request line has too many spaces";
	return NULL;
}

static const char *scan_byte(struct http_lines *l, unsigned char c)
{
	if (c == '\n')
		return l->last == '\r' ? NULL : "the request has a line feed without a carriage return";
	if (l->last == '\r')
		return "the request has a carriage return without a line feed";
	if (c == '\r')
		return NULL;
	if ((c < 0x20 && c != '\t') || c == 0x7f)
		return "the request has a control character";
	if (l->line == 0 && (c == ' ' || c == '\t'))
		return l->first ? "the request has a folded line" : "the request begins with white space";
	l->line++;
	return l->first || l->answer ? NULL : first_line_byte(l, c);
}

const char *http_lines_scan(struct http_lines *l, const char *data, size_t len, size_t *whole)
{
	const char *why;

	for (*whole = 0; !*whole && l->seen < len; l->seen++) {
		if (l->seen == HTTP_HEAD_MAX)
			return "the request's head is too long";
		char c = data[l->seen];
		if ((why = scan_byte(l, (unsigned char)c)))
			return why;
		l->last = c;
		if (c != '\n')
			continue;
		if (l->line == 0 && !l->first)
			return "the request begins with an empty line";
		if (l->line == 0)
			*whole = l->seen + 1;
		else if (!l->first)
			l->first = l->seen + 1;
		l->line = 0;
	}
	return NULL;
}

const char *http_line_check(const char *line, size_t len)
{
	static const struct {
		const char *begin, *why;
	} refused[] = {
		{"PRI * HTTP/2", "HTTP/2 without TLS may be for any host"},
		{"CONNECT ", "CONNECT may lead to any host"},
	};
	const struct http_text text = {line, len - strlen("\r\n")};
	const size_t version = strlen(" HTTP/1.x");

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (text_begins(text, refused[i].begin))
			return refused[i].why;
	if (text.len < version)
		return "this is not an HTTP/1 request";
	const char *end = text.at + text.len - version;
	if (memcmp(end, " HTTP/1.1", version) != 0 && memcmp(end, " HTTP/1.0", version) != 0)
		return "this is not an HTTP/1 request";
	return NULL;
}

/* ---- hosts --------------------------------------------------------------------------------------------------------------------- */

/* How much of the text is the name that was dialled; 0: it is another. An IPv6 address may be written in many ways. */
static size_t match_name(const char *name, struct http_text text)
{
	unsigned char wanted[16], got[16];
	char inside[INET6_ADDRSTRLEN] = "";
	const char *end;

	if (inet_pton(AF_INET6, name, wanted) != 1)
		return text_begins(text, name) ? strlen(name) : 0;
	if (text.len == 0 || text.at[0] != '[' || !(end = memchr(text.at, ']', text.len)) || end - text.at > (ptrdiff_t)sizeof(inside))
		return 0;
	memcpy(inside, text.at + 1, (size_t)(end - text.at) - 1);
	if (inet_pton(AF_INET6, inside, got) != 1 || memcmp(wanted, got, sizeof(got)) != 0)
		return 0;
	return (size_t)(end - text.at) + 1;
}

/* "NAME" or "NAME:PORT": without a port it is 80's, or 443's. */
static bool is_authority(const struct http_target *t, struct http_text text)
{
	char port[8];
	size_t n = match_name(t->name, text);
	const struct http_text rest = {text.at + n, text.len - n};

	snprintf(port, sizeof(port), ":%u", (unsigned)t->port);
	return n && (text_is(rest, port) || (rest.len == 0 && t->port == (t->secure ? 443 : 80)));
}

/* "/path", "*" of OPTIONS, or "http://NAME/path" ("https:…"). */
static const char *check_target(const struct http_target *t, struct http_text target, bool options)
{
	const char *scheme = t->secure ? "https://" : "http://";

	if (target.len && target.at[0] == '/')
		return NULL;
	if (options && text_is(target, "*"))
		return NULL;
	if (!text_begins(target, scheme))
		return "the request's target is neither a path nor an http:// address";
	struct http_text authority = {target.at + strlen(scheme), 0};
	const char *end = target.at + target.len;
	while (authority.at + authority.len < end && !memchr("/?#", authority.at[authority.len], 3))
		authority.len++;
	return is_authority(t, authority) ? NULL : "the request's target is at another host or port";
}

/* ---- fields -------------------------------------------------------------------------------------------------------------------- */

static struct http_text trimmed(struct http_text t)
{
	while (t.len && (t.at[0] == ' ' || t.at[0] == '\t'))
		t.at++, t.len--;
	while (t.len && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
		t.len--;
	return t;
}

/* The next word of a list with commas; false: there is none. */
static bool next_word(struct http_text *list, struct http_text *word)
{
	const char *comma;

	if (!list->at)
		return false;
	comma = list->len ? memchr(list->at, ',', list->len) : NULL;
	size_t n = comma ? (size_t)(comma - list->at) : list->len;
	*word = trimmed((struct http_text){list->at, n});
	*list = comma ? (struct http_text){comma + 1, list->len - n - 1} : (struct http_text){0};
	return true;
}

static const char *on_host(struct http_head *h, const struct http_target *t, struct http_text value)
{
	h->hosts++;
	return is_authority(t, value) ? NULL : "the request's Host is another host or port";
}

/* Digits, of which the first is no zero (some take it for octal), and not too many for anybody. */
static const char *on_length(struct http_head *h, const struct http_target *t, struct http_text value)
{
	const bool zero_first = value.len > 1 && value.at[0] == '0';

	if (++h->lengths > 1)
		return "the request has two lengths";
	for (size_t i = 0; i < value.len; i++)
		if (value.at[i] < '0' || value.at[i] > '9')
			return "the request's Content-Length is not a number";
	return value.len == 0 || value.len > 18 || zero_first ? "the request's Content-Length is not a plain number" : NULL;
}

/* In these letters: who does not know "Chunked" would not see a body. */
static const char *on_coding(struct http_head *h, const struct http_target *t, struct http_text value)
{
	h->codings++;
	return h->codings == 1 && value.len == 7 && memcmp(value.at, "chunked", 7) == 0
	               ? NULL
	               : "the request's Transfer-Encoding is not just \"chunked\"";
}

/* Proxies take out the fields that are named here: not those that say whose the request is, and where it ends. */
static const char *on_connection(struct http_head *h, const struct http_target *t, struct http_text value)
{
	static const char *const kept[] = {"host", "content-length", "transfer-encoding"};
	struct http_text word;

	while (next_word(&value, &word))
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if (text_is(word, kept[i]))
				return "the request's Connection names a field that must stay";
	return NULL;
}

static const char *on_upgrade(struct http_head *h, const struct http_target *t, struct http_text value)
{
	struct http_text word;

	h->upgrade = true;
	while (next_word(&value, &word))
		h->websocket = h->websocket || http_is_websocket(word);
	return NULL;
}

/* Fields that say whose a request is or where it ends; `plain`: only in the form "Name: value", with no other white space. */
static const struct field {
	const char *name;
	const char *(*check)(struct http_head *h, const struct http_target *t, struct http_text value);
	bool plain;
} fields[] = {
	{"host", on_host, true},
	{"content-length", on_length, true},
	{"transfer-encoding", on_coding, true},
	{"connection", on_connection, false},
	{"upgrade", on_upgrade, false},
};

bool http_same_field(struct http_text name, const char *field)
{
	if (name.len != strlen(field))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		const char a = name.at[i] == '_' ? '-' : name.at[i], b = field[i] == '_' ? '-' : field[i];

		if (strncasecmp(&a, &b, 1) != 0)
			return false;
	}
	return true;
}

static bool is_plain(struct http_text name, struct http_text value)
{
	const char *colon = name.at + name.len;

	return value.at == colon + 1 || (value.at == colon + 2 && colon[1] == ' ');
}

const char *http_head_field(struct http_head *h, const struct http_target *t, struct http_text name, struct http_text value)
{
	if (name.len == 0)
		return "the request has a field without a name"; /* llhttp 8 has nothing against it */
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!http_same_field(name, fields[i].name))
			continue;
		if (!text_is(name, fields[i].name))
			return "the request has a field name with \"_\" for \"-\"";
		if (fields[i].plain && value.len && !is_plain(name, value))
			return "the request has white space around a value that must be plain";
		return fields[i].check(h, t, value);
	}
	return NULL;
}

const char *http_head_end(const struct http_head *h, const struct http_target *t, struct http_text target, bool options, bool http_1_0)
{
	if (h->hosts != 1)
		return h->hosts ? "the request has several Host fields" : "the request has no Host field";
	if (h->lengths && h->codings)
		return "the request has two lengths";
	if (h->codings && http_1_0)
		return "the request is HTTP/1.0, which knows no chunks";
	return check_target(t, target, options);
}

bool http_is_websocket(struct http_text value)
{
	return text_is(value, "websocket");
}
