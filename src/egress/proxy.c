/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/proxy.h"

#include <llhttp.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/units.h"
#include "base/util.h"

#define ANSWER_MAX ((size_t)16 << 10) /* of its head */
#define CREDENTIALS_MAX 512

struct proxy_answer {
	llhttp_t parser;
	llhttp_settings_t settings;
	size_t seen;
};

/* ---- the URL ------------------------------------------------------------------------------------------------------------------ */

static int hex(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)((at - digits) % 16) : -1;
}

/* "%41" is "A". -1: it is not right, or too long. */
static int decode(const char *text, size_t len, char out[CREDENTIALS_MAX])
{
	int n = 0;
	for (size_t i = 0; i < len && n < CREDENTIALS_MAX; i++) {
		if (text[i] != '%') {
			out[n++] = text[i];
			continue;
		}
		if (len - i < 3 || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0)
			return -1;
		out[n++] = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
		i += 2;
	}
	return n < CREDENTIALS_MAX ? n : -1;
}

static char *encode_credentials(const char *text, size_t len)
{
	char plain[CREDENTIALS_MAX];
	int n = decode(text, len, plain);
	char *out = n < 0 ? NULL : malloc((size_t)(n + 2) / 3 * 4 + 1);
	if (out)
		EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)plain, n);
	return out;
}

/* "HOST:PORT", "[ADDRESS]:PORT". */
static int parse_authority(const char *text, size_t len, struct proxy *out)
{
	char host[HOST_TEXT_MAX], port_text[8];
	const char *colon = memrchr(text, ':', len);
	uint64_t port;
	if (!colon || colon == text)
		return -1;
	size_t host_len = (size_t)(colon - text), port_len = len - host_len - 1;
	if (host_len > 2 && text[0] == '[' && colon[-1] == ']') {
		text++;
		host_len -= 2;
	}
	if (host_len >= sizeof(host) || port_len >= sizeof(port_text))
		return -1;
	memcpy(host, text, host_len);
	host[host_len] = '\0';
	memcpy(port_text, colon + 1, port_len);
	port_text[port_len] = '\0';
	if (units_parse_count(port_text, 1, UINT16_MAX, &port, NULL) < 0)
		return -1;
	out->port = (uint16_t)port;
	return host_target_parse(host, &out->host, NULL);
}

/* "http://", or nothing, which means the same. NULL: another one. */
static const char *behind_scheme(const char *url)
{
	const char *sep = strstr(url, "://");
	if (!sep)
		return url;
	return sep - url == 4 && strncasecmp(url, "http", 4) == 0 ? sep + 3 : NULL;
}

/* The URL may hold a password: it is not repeated. */
static int parse_url(const char *url, struct proxy *out, struct cordon_error *err)
{
	const char *rest = behind_scheme(url), *slash = rest ? strchr(rest, '/') : NULL;
	if (!rest)
		return err_set(err, CORDON_ERR_INPUT,
		               "%.*s:// is no proxy that cordon can use: it must be http://[USER:PASSWORD@]HOST:PORT",
		               (int)MIN(strcspn(url, ":"), (size_t)16), url);
	const size_t len = slash ? (size_t)(slash - rest) : strlen(rest);
	const char *at = memrchr(rest, '@', len);
	if (slash && slash[1])
		return err_set(err, CORDON_ERR_INPUT, "the URL of a proxy has no path");
	if (at && !(out->credentials = encode_credentials(rest, (size_t)(at - rest))))
		return err_set(err, CORDON_ERR_INPUT, "the user or password of the proxy cannot be read");
	const size_t skip = at ? (size_t)(at - rest) + 1 : 0;
	if (parse_authority(rest + skip, len - skip, out) < 0)
		return err_set(err, CORDON_ERR_INPUT, "the proxy has no host and port: write http://HOST:PORT");
	return 0;
}

int proxy_parse(const char *url, const char *except, struct proxy *out, struct cordon_error *err)
{
	*out = (struct proxy){0};
	out->except = except ? strdup(except) : NULL;
	int r = except && !out->except ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : parse_url(url, out, err);
	if (r < 0)
		proxy_clear(out);
	return r;
}

void proxy_clear(struct proxy *p)
{
	free(p->credentials);
	free(p->except);
	*p = (struct proxy){0};
}

/* ---- who is reached without it ------------------------------------------------------------------------------------------------ */

static bool names_address(const char *entry, const struct host_target *t)
{
	char plain[HOST_TEXT_MAX];
	const size_t len = strlen(entry);
	const bool bracketed = len > 2 && entry[0] == '[' && entry[len - 1] == ']';
	snprintf(plain, sizeof(plain), "%.*s", (int)(bracketed ? len - 2 : len), entry + bracketed);
	_cleanup_free_ char *block = host_canonical(plain, HOST_BLOCK, NULL);
	return block && host_matches(block, t);
}

/* "example.org" and ".example.org" are that name and all below it. */
static bool names_name(const char *entry, const struct host_target *t)
{
	entry += entry[0] == '.';
	size_t len = strlen(entry);
	const size_t whole = strlen(t->name);
	len -= len > 0 && entry[len - 1] == '.';
	return len > 0 && len <= whole && strncasecmp(t->name + whole - len, entry, len) == 0 &&
	       (len == whole || t->name[whole - len - 1] == '.');
}

bool proxy_is_passed_by(const struct proxy *p, const struct host_target *target)
{
	_cleanup_free_ char *list = p->except ? strdup(p->except) : NULL;
	char *save;
	for (char *entry = list ? strtok_r(list, ", \t", &save) : NULL; entry; entry = strtok_r(NULL, ", \t", &save))
		if (strcmp(entry, "*") == 0 || (target->is_address ? names_address(entry, target) : names_name(entry, target)))
			return true;
	return false;
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------- */

void proxy_request(const struct proxy *p, const struct host_target *target, uint16_t port, struct buf *out)
{
	const bool bracketed = target->is_address && target->family == AF_INET6;
	const char *open = bracketed ? "[" : "", *close = bracketed ? "]" : "";
	buf_addf(out, "CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n", open, target->name, close, port, open, target->name, close,
	         port);
	if (p->credentials)
		buf_addf(out, "Proxy-Authorization: Basic %s\r\n", p->credentials);
	buf_add_str(out, "\r\n");
}

/* 2: there is no body, and what follows is not HTTP. */
static int on_head(llhttp_t *parser)
{
	(void)parser;
	return 2;
}

struct proxy_answer *proxy_answer_new(void)
{
	struct proxy_answer *a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	llhttp_settings_init(&a->settings);
	a->settings.on_headers_complete = on_head;
	llhttp_init(&a->parser, HTTP_RESPONSE, &a->settings);
	return a;
}

void proxy_answer_free(struct proxy_answer *a)
{
	free(a);
}

enum proxy_verdict proxy_answer_read(struct proxy_answer *a, const void *data, size_t *len, unsigned *status)
{
	const llhttp_errno_t e = llhttp_execute(&a->parser, data, *len);
	*status = 0;
	if (e == HPE_PAUSED_UPGRADE) {
		*len = (size_t)(llhttp_get_error_pos(&a->parser) - (const char *)data);
		*status = a->parser.status_code;
		return *status >= 200 && *status < 300 ? PROXY_CONNECTED : PROXY_REFUSED;
	}
	a->seen += *len;
	return e == HPE_OK && a->seen < ANSWER_MAX ? PROXY_MORE : PROXY_REFUSED;
}
