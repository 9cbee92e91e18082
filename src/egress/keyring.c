/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/keyring.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/glob.h"
#include "base/util.h"
#include "policy/maps.h"

/* ---- making one ----------------------------------------------------------------------------------------------------------------- */

int keyring_init(struct keyring *k, const struct cordon_policy *policy, struct cordon_error *err)
{
	*k = (struct keyring){0};
	if (policy->secrets.count > KEYRING_MAX)
		return err_set(err, CORDON_ERR_INPUT, "secrets: at most %d rules", KEYRING_MAX);
	for (size_t i = 0; i < policy->secrets.count; i++)
		k->keys[i].rule = maplist_item(&policy->secrets, &map_secret, i);
	k->count = policy->secrets.count;
	return 0;
}

void keyring_clear(struct keyring *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->keys); i++)
		secret_wipe(&k->keys[i].value);
	*k = (struct keyring){0};
}

int keyring_read(struct keyring *k, int fd, struct cordon_error *err)
{
	if (k->given == k->count)
		return err_set(err, CORDON_ERR_INPUT, "there are more values than secrets");
	struct key *key = &k->keys[k->given];
	if (secret_read(&key->value, fd, key->rule->from, err) < 0)
		return -1;
	if (secret_check_header(&key->value, err) < 0)
		return err_wrap(err, "%s", key->rule->from);
	k->given++;
	return 0;
}

/* ---- paths ---------------------------------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* The byte that begins at `i`, and where the next one does. -1: a percent sign that does not stand for one. */
static int byte_at(struct http_text t, size_t i, size_t *next)
{
	*next = i + 1;
	if (t.at[i] != '%')
		return (unsigned char)t.at[i];
	const int high = i + 2 < t.len ? hex_digit(t.at[i + 1]) : -1, low = i + 2 < t.len ? hex_digit(t.at[i + 2]) : -1;
	if (high < 0 || low < 0)
		return -1;
	*next = i + 3;
	return high * 16 + low;
}

/*
 * What must not be written with percent signs: it would be a dot, a slash, a parameter or the end to those that decode before they look; "%" itself to those that do so twice;
 * 0xc0 and 0xc1 begin what is a dot or a slash to careless readers of UTF-8.
 */
static bool is_meant_otherwise(int byte)
{
	return byte < 0x20 || byte == 0x7f || byte == 0xc0 || byte == 0xc1 || strchr("./\\%;?#", byte);
}

/* The same in more bytes: UTF-8 that is longer than it need be, and what compatibility forms (NFKC) make of other characters. `at` has three bytes. */
static bool is_meant_otherwise_in_utf8(const unsigned char *at)
{
	static const struct {
		unsigned char first, from, to;
	} overlong[] = {{0xe0, 0x80, 0x9f}, {0xf0, 0x80, 0x8f}, {0xf8, 0x80, 0x87}, {0xfc, 0x80, 0x83}};
	static const struct {
		unsigned char first, second;
		const char *third;
	} forms[] = {
		{0xef, 0xbc, "\x83\x85\x8e\x8f\x9b\x9f\xbc"}, /* fullwidth # % . / ; ? \ */
		{0xef, 0xb9, "\x92\x94\x96\x9f\xa8\xaa"},     /* small . ; ? # \ % */
		{0xe2, 0x80, "\xa4\xa5"},                     /* leaders of one dot, of two */
	};
	for (size_t i = 0; i < ARRAY_SIZE(overlong); i++)
		if (at[0] == overlong[i].first && at[1] >= overlong[i].from && at[1] <= overlong[i].to)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (at[0] == forms[i].first && at[1] == forms[i].second && at[2] && strchr(forms[i].third, at[2]))
			return true;
	return false;
}

struct plain {
	unsigned char bytes[KEYRING_PATH_MAX + 3]; /* zeroes behind them */
	size_t len;
};

/* Into bytes: none of them is now a slash, or the like, that was not one before. */
static const char *decode(struct http_text path, struct plain *out)
{
	for (size_t i = 0, next; i < path.len; i = next) {
		if (path.at[i] == '\\' || path.at[i] == '#')
			return "its path has a backslash or a fragment, which servers read differently";
		const int byte = byte_at(path, i, &next);
		if (byte < 0)
			return "its path has a percent sign that does not stand for a byte";
		if (path.at[i] == '%' && is_meant_otherwise(byte))
			return "its path has a dot, a slash or the like written with a percent sign, which servers read differently";
		out->bytes[out->len++] = (unsigned char)byte;
	}
	for (size_t i = 0; i < out->len; i++)
		if (is_meant_otherwise_in_utf8(out->bytes + i))
			return "its path has what some servers take for a dot, a slash or the like";
	return NULL;
}

/* One or two dots, and else only what some take for white space, and trim: a space, and bytes of those of Latin-1 and of UTF-8. */
static bool is_step(const unsigned char *s, size_t len)
{
	size_t dots = 0;
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '.')
			dots++;
		else if (s[i] != ' ' && !(s[i] >= 0x80 && s[i] <= 0xbf) && s[i] != 0xc2 && s[i] != 0xe2 && s[i] != 0xe3 && s[i] != 0xef)
			return false;
	}
	return dots == 1 || dots == 2;
}

/* "." and "..", also with parameters behind, which some leave away before they look ("..;x"); and nothing, but behind the last slash. */
static const char *check_segment(const unsigned char *s, size_t all, bool last)
{
	const unsigned char *semicolon = memchr(s, ';', all);
	const size_t len = semicolon ? (size_t)(semicolon - s) : all;
	if (len == 0 && !(last && !semicolon))
		return "its path has two slashes side by side, which servers read differently";
	if (is_step(s, len))
		return "its path has \".\" or \"..\" in it";
	return NULL;
}

const char *keyring_path_check(struct http_text path)
{
	struct plain plain = {0};
	if (path.len == 0 || path.at[0] != '/')
		return "its target is not a path";
	if (path.len > KEYRING_PATH_MAX)
		return "its path is too long";
	const char *why = decode(path, &plain);
	for (size_t i = 1; !why && i <= plain.len;) {
		const unsigned char *slash = memchr(plain.bytes + i, '/', plain.len - i);
		const size_t end = slash ? (size_t)(slash - plain.bytes) : plain.len;
		why = check_segment(plain.bytes + i, end - i, !slash);
		i = end + 1;
	}
	return why;
}

/* As PHP reads names, which is the widest way: without spaces before, "_" for a dot or a space, nothing from "[" on. Capitals do not matter. */
static bool is_parameter(struct http_text p, const char *name)
{
	size_t n = 0;
	for (size_t i = 0, next; i < p.len; i = next) {
		int c = byte_at(p, i, &next);
		if (c == '=' || c == '[')
			break;
		if (n == 0 && (c == ' ' || c == '+'))
			continue;
		c = c < 0 ? '%' : c == '.' || c == ' ' || c == '+' ? '_' : tolower(c);
		if (c != name[n])
			return false;
		n++;
	}
	return name[n] == '\0';
}

bool keyring_query_has(struct http_text target, const char *name)
{
	const char *at = target.len ? memchr(target.at, '?', target.len) : NULL, *end = target.at + target.len;
	while (at && ++at < end) {
		size_t len = 0;
		while (at + len < end && at[len] != '&' && at[len] != ';')
			len++;
		if (is_parameter((struct http_text){at, len}, name))
			return true;
		at += len;
	}
	return false;
}

/* ---- choosing ------------------------------------------------------------------------------------------------------------------- */

static bool names_host(const struct policy_secret *rule, const struct host_target *host)
{
	for (size_t i = 0; i < rule->hosts.count; i++)
		if (host_matches(rule->hosts.items[i], host))
			return true;
	return false;
}

bool keyring_is_for(const struct keyring *k, size_t i, const struct host_target *host)
{
	return names_host(k->keys[i].rule, host);
}

bool keyring_has(const struct keyring *k, const struct host_target *host)
{
	for (size_t i = 0; i < k->count; i++)
		if (names_host(k->keys[i].rule, host))
			return true;
	return false;
}

static bool has_method(const struct policy_secret *rule, const char *method)
{
	for (size_t i = 0; i < rule->methods.count; i++)
		if (strcmp(rule->methods.items[i], method) == 0)
			return true;
	return rule->methods.count == 0;
}

/* path: NULL if it is none that could be compared. */
static bool has_path(const struct policy_secret *rule, const char *path)
{
	for (size_t i = 0; path && i < rule->paths.count; i++)
		if (glob_match(rule->paths.items[i], path))
			return true;
	return rule->paths.count == 0;
}

static bool is_taken(const struct keyring *k, const size_t *chosen, size_t count, const char *header)
{
	for (size_t i = 0; i < count; i++)
		if (http_same_field((struct http_text){header, strlen(header)}, k->keys[chosen[i]].rule->header))
			return true;
	return false;
}

static void add_list(struct buf *b, const char *what, const struct strlist *list)
{
	for (size_t i = 0; i < list->count; i++)
		buf_addf(b, "%s%s", i ? ", " : what, list->items[i]);
}

/* What there are rules for. */
static void say_why(const struct keyring *k, const struct keyring_request *r, struct http_text path, const char *odd, char why[KEYRING_WHY])
{
	_cleanup_buf_ struct buf b = {.cap = 4096};
	buf_addf(&b, "no secret is for %s %.*s", r->method, (int)MIN(path.len, (size_t)80), path.at);
	if (odd)
		buf_addf(&b, ": %s", odd);
	for (size_t i = 0; i < k->count; i++) {
		const struct policy_secret *rule = k->keys[i].rule;
		if (!names_host(rule, r->host))
			continue;
		buf_addf(&b, "; %s is for", rule->from);
		add_list(&b, " ", &rule->methods);
		add_list(&b, " ", &rule->paths);
	}
	snprintf(why, KEYRING_WHY, "%s", b.data ? b.data : "out of memory");
}

size_t keyring_choose(const struct keyring *k, const struct keyring_request *r, size_t chosen[KEYRING_MAX], char why[KEYRING_WHY])
{
	const char *query = r->target.len ? memchr(r->target.at, '?', r->target.len) : NULL;
	const struct http_text path = {r->target.at, query ? (size_t)(query - r->target.at) : r->target.len};
	const char *odd = keyring_path_check(path);
	_cleanup_free_ char *plain = odd ? NULL : strndup(path.at, path.len);
	size_t count = 0;
	for (size_t i = 0; i < k->given; i++) {
		const struct policy_secret *rule = k->keys[i].rule;
		if (names_host(rule, r->host) && has_method(rule, r->method) && has_path(rule, plain) &&
		    !is_taken(k, chosen, count, rule->header))
			chosen[count++] = i;
	}
	if (count == 0)
		say_why(k, r, path, odd, why);
	return count;
}
