/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/host.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/units.h"
#include "base/util.h"

#define LABEL_MAX 63
#define BLOCK_TEXT_MAX (INET6_ADDRSTRLEN + 4) /* "/128" */

static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* ---- addresses ---------------------------------------------------------------------------------------------------------------- */

struct block {
	int family;
	unsigned char address[16];
	unsigned prefix;
};

static unsigned bits_of(int family)
{
	return family == AF_INET ? 32 : 128;
}

/* inet_pton(3) takes no short, octal or hexadecimal forms. */
static bool parse_address(const char *text, struct block *out)
{
	*out = (struct block){0};
	if (inet_pton(AF_INET, text, out->address) == 1)
		out->family = AF_INET;
	else if (inet_pton(AF_INET6, text, out->address) == 1)
		out->family = AF_INET6;
	out->prefix = bits_of(out->family);
	return out->family != 0;
}

static void unmap(struct block *b)
{
	if (b->family != AF_INET6 || b->prefix < 96 || memcmp(b->address, mapped, sizeof(mapped)) != 0)
		return;
	memmove(b->address, b->address + 12, 4);
	memset(b->address + 4, 0, 12);
	b->family = AF_INET;
	b->prefix -= 96;
}

static void keep_prefix(unsigned char address[16], unsigned prefix)
{
	for (unsigned i = 0; i < 16; i++) {
		unsigned bits = prefix > 8 * i ? MIN(prefix - 8 * i, 8u) : 0;

		address[i] &= (unsigned char)(0xff00u >> bits);
	}
}

static bool in_block(const struct block *b, int family, const unsigned char address[16])
{
	unsigned char masked[16];

	memcpy(masked, address, sizeof(masked));
	keep_prefix(masked, b->prefix);
	return b->family == family && memcmp(masked, b->address, bits_of(family) / 8) == 0;
}

static void format_block(const struct block *b, char text[BLOCK_TEXT_MAX])
{
	char address[INET6_ADDRSTRLEN];

	inet_ntop(b->family, b->address, address, sizeof(address));
	snprintf(text, BLOCK_TEXT_MAX, "%s/%u", address, b->prefix);
}

/* "ADDRESS" or "ADDRESS/PREFIX"; false if it does not begin with an address at all. *wrong: it does, but the rest is not right. */
static bool parse_block(const char *text, struct block *out, bool *wrong)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	char address[INET6_ADDRSTRLEN];
	uint64_t prefix;

	*wrong = false;
	if (len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	if (!parse_address(address, out))
		return false;
	if (slash && units_parse_count(slash + 1, 0, bits_of(out->family), &prefix, NULL) < 0)
		*wrong = true;
	else if (slash)
		out->prefix = (unsigned)prefix;
	unmap(out);
	return true;
}

static char *canonical_block(const char *text, struct block *b, bool wrong, struct cordon_error *err)
{
	char shown[BLOCK_TEXT_MAX];
	unsigned char given[16];
	char *copy;

	if (wrong) {
		err_set(err, CORDON_ERR_INPUT, "'%.60s' is not a block of addresses (write ADDRESS/PREFIX, such as 10.0.0.0/8)", text);
		return NULL;
	}
	memcpy(given, b->address, sizeof(given));
	keep_prefix(b->address, b->prefix);
	format_block(b, shown);
	if (memcmp(given, b->address, sizeof(given)) != 0) {
		err_set(err, CORDON_ERR_INPUT, "'%.60s' has bits behind its prefix", text);
		err_hint(err, "did you mean %s?", shown);
		return NULL;
	}
	copy = strdup(shown);
	if (!copy)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return copy;
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool label_valid(const char *label, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = label[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
			return false;
	}
	return len > 0 && len <= LABEL_MAX && label[0] != '-' && label[len - 1] != '-';
}

/* "1", "0x7f": what inet_aton(3) reads as a number, and with it the whole name as an address. */
static bool is_number(const char *label)
{
	if (label[0] == '0' && label[1] == 'x')
		return label[strspn(label + 2, "0123456789abcdef") + 2] == '\0';
	return label[strspn(label, "0123456789")] == '\0';
}

/* name: lower case, without a dot at the end. */
static bool name_valid(const char *name)
{
	const char *last = name;

	for (const char *s = name;; s++) {
		size_t len = strcspn(s, ".");

		if (!label_valid(s, len))
			return false;
		last = s;
		s += len;
		if (!*s)
			break;
	}
	return strlen(name) <= HOST_NAME_MAX_LEN && !is_number(last);
}

static bool has_other_than_ascii(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80)
			return true;
	return false;
}

/* What people write instead of a host, and what it should have been. */
static void explain_name(const char *text, unsigned kinds, struct cordon_error *err)
{
	const char *colon = strchr(text, ':');

	err_set(err, CORDON_ERR_INPUT, "'%.60s' is not a host (write a name%s%s)", text, kinds & HOST_SUFFIX ? ", *.SUFFIX" : "",
	        kinds & HOST_BLOCK ? " or ADDRESS/PREFIX" : "");
	if (has_other_than_ascii(text))
		err_hint(err, "only ASCII: write the name in punycode, with labels such as xn--bcher-kva");
	else if (strstr(text, "://"))
		err_hint(err, "write the host of this URL only");
	else if (colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")])
		err_hint(err, "the port is a value of its own");
	else if (strchr(text, '*'))
		err_hint(err, "a star may only stand for the first labels: *.example.com");
}

/* Lower case, one dot at the end taken away. False: too long. */
static bool fold(const char *text, char out[HOST_TEXT_MAX])
{
	size_t len = strlen(text);

	if (len > 1 && text[len - 1] == '.')
		len--;
	if (len >= HOST_TEXT_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		out[i] = lower(text[i]);
	out[len] = '\0';
	return true;
}

static bool below_localhost(const char *name)
{
	static const char localhost[] = "localhost";
	size_t len = strlen(name), tail = sizeof(localhost) - 1;

	return len >= tail && strcmp(name + len - tail, localhost) == 0 && (len == tail || name[len - tail - 1] == '.');
}

static char *canonical_name(const char *text, unsigned kinds, struct cordon_error *err)
{
	char folded[HOST_TEXT_MAX];
	bool fits = fold(text, folded), suffix = fits && strncmp(folded, "*.", 2) == 0;
	char *copy;

	if (!fits || !name_valid(suffix ? folded + 2 : folded) || !(kinds & (suffix ? HOST_SUFFIX : HOST_NAME))) {
		explain_name(text, kinds, err);
		return NULL;
	}
	if (below_localhost(folded)) {
		err_set(err, CORDON_ERR_INPUT, "'%.60s' is the sandbox itself, which network.localhost is about", text);
		err_hint(err, "this machine's own loopback is host.cordon.internal");
		return NULL;
	}
	copy = strdup(folded);
	if (!copy)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return copy;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

char *host_canonical(const char *text, unsigned kinds, struct cordon_error *err)
{
	struct block b;
	bool wrong;

	if (!parse_block(text, &b, &wrong))
		return canonical_name(text, kinds, err);
	if (kinds & HOST_BLOCK)
		return canonical_block(text, &b, wrong, err);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is an address (write a name%s)", text, kinds & HOST_SUFFIX ? " or *.SUFFIX" : "");
	return NULL;
}

int host_target_parse(const char *text, struct host_target *out, struct cordon_error *err)
{
	struct block b;

	*out = (struct host_target){0};
	if (parse_address(text, &b)) {
		unmap(&b);
		out->is_address = true;
		out->family = b.family;
		memcpy(out->address, b.address, sizeof(out->address));
		inet_ntop(b.family, b.address, out->name, sizeof(out->name));
		return 0;
	}
	if (fold(text, out->name) && name_valid(out->name))
		return 0;
	explain_name(text, HOST_NAME, err);
	return -1;
}

bool host_matches(const char *pattern, const struct host_target *target)
{
	struct block b;
	bool wrong;

	if (target->is_address)
		return parse_block(pattern, &b, &wrong) && !wrong && in_block(&b, target->family, target->address);
	if (strncmp(pattern, "*.", 2) == 0) {
		size_t len = strlen(target->name), tail = strlen(pattern) - 1; /* with the dot */

		return len > tail && strcmp(target->name + len - tail, pattern + 1) == 0;
	}
	return strcmp(pattern, target->name) == 0;
}

bool host_covers(const char *pattern, const char *other)
{
	struct block a, b;
	bool wrong_a, wrong_b;
	const size_t len = strlen(other), tail = strlen(pattern) - (pattern[0] == '*'); /* with the dot */

	if (parse_block(other, &b, &wrong_b))
		return parse_block(pattern, &a, &wrong_a) && !wrong_a && !wrong_b && a.prefix <= b.prefix &&
		       in_block(&a, b.family, b.address);
	if (strcmp(pattern, other) == 0)
		return true;
	return strncmp(pattern, "*.", 2) == 0 && len > tail && strcmp(other + len - tail, pattern + 1) == 0;
}

bool host_is_loopback(const struct host_target *target)
{
	static const struct block v4 = {AF_INET, {127}, 8}, v6 = {AF_INET6, {[15] = 1}, 128};

	if (!target->is_address)
		return below_localhost(target->name);
	return in_block(&v4, target->family, target->address) || in_block(&v6, target->family, target->address);
}
