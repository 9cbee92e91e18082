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
	for (size_t i = 0; i < ARRAY_SIZE(k->keys); i++) {
		needle_clear(&k->keys[i].needle);
		secret_wipe(&k->keys[i].value);
	}
	*k = (struct keyring){0};
}

/* A line break in it would be a header of its own, or another request. */
static bool fits_header(const struct secret *s)
{
	for (size_t i = 0; i < s->len; i++)
		if (((unsigned char)s->data[i] < 0x20 && s->data[i] != '\t') || s->data[i] == 0x7f)
			return false;
	return true;
}

int keyring_read(struct keyring *k, int fd, struct cordon_error *err)
{
	if (k->given == k->count)
		return err_set(err, CORDON_ERR_INPUT, "there are more values than secrets");
	struct key *key = &k->keys[k->given];
	if (secret_read(&key->value, fd, key->rule->from, err) < 0)
		return -1;
	if (!fits_header(&key->value))
		return err_set(err, CORDON_ERR_INPUT, "%s has a control character, and cannot be part of a header", key->rule->from);
	if (needle_init(&key->needle, key->value.data, key->value.len) < 0)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	k->given++;
	return 0;
}

/* ---- paths ---------------------------------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
	return at ? (int)(at - digits) : -1;
}

/*
 * What must not be written with percent signs: it would be a dot, a slash, a parameter or the end to those that decode before they look; "%" itself to those that do so twice;
 * 0xc0 and 0xc1 begin what is a dot or a slash to careless readers of UTF-8.
 */
static bool is_meant_otherwise(int byte)
{
	return byte < 0x20 || byte == 0x7f || byte == 0xc0 || byte == 0xc1 || strchr("./\\%;?#", byte);
}

static const char *check_escapes(struct http_text path)
{
	for (size_t i = 0; i < path.len; i++) {
		if (path.at[i] == '\\' || path.at[i] == '#')
			return "its path has a backslash or a fragment, which servers read differently";
		if (path.at[i] != '%')
			continue;
		const int high = i + 2 < path.len ? hex_digit(path.at[i + 1]) : -1, low = i + 2 < path.len ? hex_digit(path.at[i + 2]) : -1;
		if (high < 0 || low < 0)
			return "its path has a percent sign that does not stand for a byte";
		if (is_meant_otherwise(high * 16 + low))
			return "its path has a dot, a slash or the like written with a percent sign, which servers read differently";
	}
	return NULL;
}

/* "." and "..", also with parameters behind, which some leave away before they look ("..;x"); and nothing, but behind the last slash. */
static const char *check_segment(struct http_text s, bool last)
{
	const char *semicolon = s.len ? memchr(s.at, ';', s.len) : NULL;
	const size_t len = semicolon ? (size_t)(semicolon - s.at) : s.len;
	if (len == 0 && !(last && !semicolon))
		return "its path has two slashes side by side, which servers read differently";
	if ((len == 1 && s.at[0] == '.') || (len == 2 && s.at[0] == '.' && s.at[1] == '.'))
		return "its path has \".\" or \"..\" in it";
	return NULL;
}

const char *keyring_path_check(struct http_text path)
{
	if (path.len == 0 || path.at[0] != '/')
		return "its target is not a path";
	if (path.len > KEYRING_PATH_MAX)
		return "its path is too long";
	const char *why = check_escapes(path);
	for (size_t i = 1; !why && i <= path.len;) {
		const char *slash = i < path.len ? memchr(path.at + i, '/', path.len - i) : NULL;
		const size_t end = slash ? (size_t)(slash - path.at) : path.len;
		why = check_segment((struct http_text){path.at + i, end - i}, !slash);
		i = end + 1;
	}
	return why;
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
