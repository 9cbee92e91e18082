/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/ceiling.h"

#include <string.h>

#include "base/fs.h"
#include "base/glob.h"
#include "base/util.h"
#include "policy/cover.h"
#include "policy/host.h"
#include "policy/maps.h"
#include "policy/values.h"

/* How one value of a key can be more than another. */
enum bound {
	BOUND_NONE,   /* it cannot: it is about what happens inside */
	BOUND_NUMBER, /* the larger one is; 0 where that stands for "no limit" */
	BOUND_HIGHER, /* of a word or a bool: the one that comes later */
	BOUND_LOWER,  /* … earlier */
	BOUND_GRANTS, /* of a list: what has an entry that no entry of the other covers */
	BOUND_DENIES, /* … what lacks one */
	BOUND_SAME,   /* it is the operator's alone */
};

/* Whether what the entry `b` stands for is all in `a`. Entries are texts, or structures where the key is a list of them. */
typedef bool covers_fn(const struct cordon_policy *ceiling, const void *a, const void *b);

struct ceiling_row {
	const char *key;
	enum bound bound;
	covers_fn *covers;
	const char *also; /* BOUND_GRANTS: another list whose entries grant this as well */
};

/* ---- what covers what --------------------------------------------------------------------------------------------------------- */

static bool same_text(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	(void)ceiling;
	return strcmp(a, b) == 0;
}

static bool is_wild(const char *pattern)
{
	return strpbrk(pattern, "*?") != NULL;
}

/* Only a tree whose place is written out has another pattern in it for certain: all that this one can match begins with its own plain part. */
static bool covers_pattern(const char *a, const char *b)
{
	char tree[GLOB_MAX + 1], place[GLOB_MAX + 1];
	const size_t stem = cover_stem(a), plain = cover_plain_part(b);

	if (strcmp(a, b) == 0)
		return true;
	if (!cover_is_tree(a) || stem > GLOB_MAX || plain > GLOB_MAX)
		return false;
	memcpy(tree, a, stem);
	tree[stem] = '\0';
	memcpy(place, b, plain);
	place[plain] = '\0';
	return !is_wild(tree) && (stem == 0 || strcmp(tree, "/") == 0 || (plain > 0 && fs_path_within(place, tree)));
}

/* A dot that a pattern spells out is not covered by wildcards that match none. */
static bool covers_files(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	char place[GLOB_MAX + 1];
	const size_t plain = cover_plain_part(b);

	if (!covers_pattern(a, b))
		return false;
	if (ceiling->files.hidden || plain > GLOB_MAX)
		return ceiling->files.hidden;
	memcpy(place, b, plain);
	place[plain] = '\0';
	const size_t hidden = cover_hidden_part(place);
	return hidden == 0 || cover_spells(a, place, hidden);
}

static bool covers_denied(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	(void)ceiling;
	return covers_pattern(a, b);
}

static bool covers_program(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	const char *wide = a, *narrow = b;

	(void)ceiling;
	if (strcmp(wide, "*") == 0 || strcmp(wide, narrow) == 0)
		return true;
	if (wide[0] == '/' || narrow[0] == '/')
		return wide[0] == '/' && narrow[0] == '/' && covers_pattern(wide, narrow);
	return !is_wild(narrow) && glob_match(wide, narrow);
}

static bool covers_host(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	(void)ceiling;
	return host_covers(a, b);
}

static bool covers_ports(const struct policy_ports *a, const struct policy_ports *b)
{
	for (size_t i = 0; i < b->count; i++) {
		size_t n = 0;
		while (n < a->count && a->items[n] != b->items[i])
			n++;
		if (n == a->count)
			return false;
	}
	return true;
}

/* What is looked at on its way may be what is not looked at; not the other way round. */
static bool covers_outbound(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	const struct policy_outbound *wide = a, *narrow = b;

	(void)ceiling;
	return host_covers(wide->host, narrow->host) && covers_ports(&wide->ports, &narrow->ports) &&
	       (wide->protocol == narrow->protocol || wide->protocol == PROTOCOL_TCP);
}

static bool covers_inbound(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	const struct policy_inbound *wide = a, *narrow = b;

	(void)ceiling;
	return covers_ports(&wide->port, &narrow->port) && policy_inbound_host_port(wide) == policy_inbound_host_port(narrow);
}

static bool same_item(const struct policy_map *map, const void *a, const void *b)
{
	_cleanup_buf_ struct buf one = {0}, other = {0};

	policy_item_text(map, a, &one);
	policy_item_text(map, b, &other);
	return !one.failed && !other.failed && one.data && other.data && strcmp(one.data, other.data) == 0;
}

static bool same_pattern(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	(void)ceiling;
	return same_item(&map_pattern, a, b);
}

static bool same_secret(const struct cordon_policy *ceiling, const void *a, const void *b)
{
	(void)ceiling;
	return same_item(&map_secret, a, b);
}

/* ---- the table ---------------------------------------------------------------------------------------------------------------- */

/* In the order of policy_keys; a key that is missing here is refused unless it is the ceiling's. */
static const struct ceiling_row rows[] = {
	{.key = "limits.timeout", .bound = BOUND_NUMBER},
	{.key = "limits.memory", .bound = BOUND_NUMBER},
	{.key = "limits.cpus", .bound = BOUND_NUMBER},
	{.key = "limits.pids", .bound = BOUND_NUMBER},
	{.key = "limits.max_output", .bound = BOUND_NUMBER},
	{.key = "limits.disk", .bound = BOUND_NUMBER},
	{.key = "limits.files", .bound = BOUND_NUMBER},
	{.key = "limits.strict", .bound = BOUND_LOWER},
	{.key = "env.allow", .bound = BOUND_GRANTS, .covers = same_text},
	{.key = "env.set", .bound = BOUND_NONE},
	{.key = "root", .bound = BOUND_HIGHER},
	{.key = "files.read", .bound = BOUND_GRANTS, .covers = covers_files, .also = "files.write"},
	{.key = "files.write", .bound = BOUND_GRANTS, .covers = covers_files},
	{.key = "files.deny", .bound = BOUND_DENIES, .covers = covers_denied},
	{.key = "files.hidden", .bound = BOUND_HIGHER},
	{.key = "network.outbound", .bound = BOUND_GRANTS, .covers = covers_outbound},
	{.key = "network.deny", .bound = BOUND_DENIES, .covers = covers_host},
	{.key = "network.inbound", .bound = BOUND_GRANTS, .covers = covers_inbound},
	{.key = "network.localhost", .bound = BOUND_HIGHER},
	{.key = "network.connections", .bound = BOUND_NUMBER},
	{.key = "network.bandwidth", .bound = BOUND_NUMBER},
	{.key = "process.subprocess", .bound = BOUND_HIGHER},
	{.key = "process.shell", .bound = BOUND_HIGHER},
	{.key = "process.allow", .bound = BOUND_GRANTS, .covers = covers_program},
	{.key = "process.deny", .bound = BOUND_DENIES, .covers = covers_program},
	{.key = "process.native", .bound = BOUND_HIGHER},
	{.key = "process.max", .bound = BOUND_NUMBER},
	{.key = "patterns.use", .bound = BOUND_DENIES, .covers = same_text},
	{.key = "patterns.add", .bound = BOUND_DENIES, .covers = same_pattern},
	{.key = "patterns.action", .bound = BOUND_LOWER},
	{.key = "patterns.unproven", .bound = BOUND_LOWER},
	/* not what lies below: the host's paths may have links in them, which lead where a text does not show */
	{.key = "mounts.read", .bound = BOUND_GRANTS, .covers = same_text, .also = "mounts.write"},
	{.key = "mounts.write", .bound = BOUND_GRANTS, .covers = same_text},
	{.key = "mounts.forbid", .bound = BOUND_DENIES, .covers = same_text},
	{.key = "transaction.exit", .bound = BOUND_NONE},
	{.key = "transaction.abort", .bound = BOUND_NONE},
	{.key = "transaction.denial", .bound = BOUND_NONE},
	{.key = "transaction.ok", .bound = BOUND_NONE},
	{.key = "transaction.preserve", .bound = BOUND_NONE},
	{.key = "secrets", .bound = BOUND_GRANTS, .covers = same_secret},
	{.key = "audit.sync", .bound = BOUND_SAME},
	{.key = "audit.retain_age", .bound = BOUND_SAME},
	{.key = "audit.retain_size", .bound = BOUND_SAME},
	{.key = "audit.max_entries", .bound = BOUND_SAME},
	{.key = "weak.allow", .bound = BOUND_GRANTS, .covers = same_text},
};

static const struct ceiling_row *row_of(const struct policy_key *key)
{
	static const struct ceiling_row unknown = {.bound = BOUND_SAME};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].key, key->name) == 0)
			return &rows[i];
	return &unknown;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------- */

static const void *at(const struct cordon_policy *p, const struct policy_key *key)
{
	return (const char *)p + key->offset;
}

/* As a number that grows with what it allows. */
static uint64_t number(const struct cordon_policy *p, const struct policy_key *key)
{
	uint64_t n;
	unsigned word;
	bool yes;

	switch (key->type) {
	case POLICY_BOOL:
		memcpy(&yes, at(p, key), sizeof(yes));
		return yes;
	case POLICY_WORD:
		memcpy(&word, at(p, key), sizeof(word));
		return word;
	case POLICY_SIZE:
	case POLICY_DURATION:
	case POLICY_CPUS:
	case POLICY_COUNT:
		memcpy(&n, at(p, key), sizeof(n));
		return n == 0 && key->words ? UINT64_MAX : n;
	case POLICY_LIST:
	case POLICY_ASSIGN_LIST:
	case POLICY_STATUSES:
	case POLICY_MAPS:
	default:
		return 0;
	}
}

static size_t entry_count(const struct cordon_policy *p, const struct policy_key *key)
{
	return key->type == POLICY_MAPS ? ((const struct maplist *)at(p, key))->count : ((const struct strlist *)at(p, key))->count;
}

static const void *entry(const struct cordon_policy *p, const struct policy_key *key, size_t i)
{
	return key->type == POLICY_MAPS ? maplist_item(at(p, key), key->map, i) : ((const struct strlist *)at(p, key))->items[i];
}

static bool covered(const struct cordon_policy *ceiling, const struct cordon_policy *by, const struct policy_key *key, covers_fn *covers,
                    const void *what)
{
	for (size_t i = 0; i < entry_count(by, key); i++)
		if (covers(ceiling, entry(by, key, i), what))
			return true;
	return false;
}

static bool granted(const struct cordon_policy *ceiling, const struct policy_key *key, const struct ceiling_row *row, const void *what)
{
	return covered(ceiling, ceiling, key, row->covers, what) ||
	       (row->also && covered(ceiling, ceiling, policy_key_find(row->also), row->covers, what));
}

/* The text of one entry, for a message or for policy_put(). NULL: out of memory. */
static char *entry_text(const struct policy_key *key, const void *item)
{
	struct buf b = {0};

	if (key->type == POLICY_MAPS)
		policy_item_text(key->map, item, &b);
	else
		buf_add_str(&b, item);
	return buf_steal(&b);
}

/* ---- is it within ------------------------------------------------------------------------------------------------------------- */

static int refuse_value(const struct cordon_policy *asked, const struct cordon_policy *ceiling, const struct policy_key *key,
                        struct cordon_error *err)
{
	struct strlist got = {0}, may = {0};

	if (policy_values(asked, key, &got, NULL) == 0 && policy_values(ceiling, key, &may, NULL) == 0 && got.count && may.count)
		err_set(err, CORDON_ERR_DENIED, "%s: %.100s is more than the ceiling allows (%.100s)", key->name, got.items[0],
		        may.items[0]);
	else
		err_set(err, CORDON_ERR_DENIED, "%s: only the ceiling says what it is", key->name);
	strlist_free(&got);
	strlist_free(&may);
	return -1;
}

static int refuse_entry(const struct policy_key *key, const char *why, const void *item, struct cordon_error *err)
{
	_cleanup_free_ char *text = entry_text(key, item);

	return err_set(err, CORDON_ERR_DENIED, "%s: %s %.200s", key->name, why, text ? text : "?");
}

static int check_grants(const struct cordon_policy *asked, const struct cordon_policy *ceiling, const struct policy_key *key,
                        const struct ceiling_row *row, struct cordon_error *err)
{
	for (size_t i = 0; i < entry_count(asked, key); i++)
		if (!granted(ceiling, key, row, entry(asked, key, i)))
			return refuse_entry(key, "the ceiling does not allow", entry(asked, key, i), err);
	return 0;
}

static int check_denies(const struct cordon_policy *asked, const struct cordon_policy *ceiling, const struct policy_key *key,
                        const struct ceiling_row *row, struct cordon_error *err)
{
	for (size_t i = 0; i < entry_count(ceiling, key); i++)
		if (!covered(ceiling, asked, key, row->covers, entry(ceiling, key, i)))
			return refuse_entry(key, "must be as strict as the ceiling, which has", entry(ceiling, key, i), err);
	return 0;
}

int policy_key_within(const struct cordon_policy *asked, const struct cordon_policy *ceiling, const struct policy_key *key,
                      struct cordon_error *err)
{
	const struct ceiling_row *row = row_of(key);
	int same;

	switch (row->bound) {
	case BOUND_NONE:
		return 0;
	case BOUND_NUMBER:
	case BOUND_HIGHER:
		return number(asked, key) <= number(ceiling, key) ? 0 : refuse_value(asked, ceiling, key, err);
	case BOUND_LOWER:
		return number(asked, key) >= number(ceiling, key) ? 0 : refuse_value(asked, ceiling, key, err);
	case BOUND_GRANTS:
		return check_grants(asked, ceiling, key, row, err);
	case BOUND_DENIES:
		return check_denies(asked, ceiling, key, row, err);
	case BOUND_SAME:
	default:
		same = policy_same(asked, ceiling, key, err);
		return same == 0 ? refuse_value(asked, ceiling, key, err) : same < 0 ? -1 : 0;
	}
}

int policy_within(const struct cordon_policy *asked, const struct cordon_policy *ceiling, struct cordon_error *err)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (policy_key_within(asked, ceiling, &policy_keys[i], err) < 0)
			return -1;
	return 0;
}

/* ---- make it so --------------------------------------------------------------------------------------------------------------- */

static int keep_entry(struct strlist *kept, const struct policy_key *key, const void *item, struct cordon_error *err)
{
	_cleanup_free_ char *text = entry_text(key, item);

	if (!text)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return strlist_has(kept, text) ? 0 : strlist_add(kept, text, err);
}

/* What of either list the other covers, too: all that both are sure to grant. */
static int common_entries(const struct cordon_policy *p, const struct cordon_policy *ceiling, const struct policy_key *key,
                          const struct ceiling_row *row, struct strlist *kept, struct cordon_error *err)
{
	for (size_t i = 0; i < entry_count(p, key); i++)
		if (granted(ceiling, key, row, entry(p, key, i)) && keep_entry(kept, key, entry(p, key, i), err) < 0)
			return -1;
	for (size_t i = 0; i < entry_count(ceiling, key); i++)
		if (covered(p, p, key, row->covers, entry(ceiling, key, i)) && keep_entry(kept, key, entry(ceiling, key, i), err) < 0)
			return -1;
	return 0;
}

static int all_entries(const struct cordon_policy *p, const struct cordon_policy *ceiling, const struct policy_key *key,
                       struct strlist *kept, struct cordon_error *err)
{
	const struct cordon_policy *const both[] = {p, ceiling};

	for (size_t n = 0; n < ARRAY_SIZE(both); n++)
		for (size_t i = 0; i < entry_count(both[n], key); i++)
			if (keep_entry(kept, key, entry(both[n], key, i), err) < 0)
				return -1;
	return 0;
}

static int set_entries(struct cordon_policy *p, const struct policy_key *key, const struct strlist *values, struct cordon_error *err)
{
	if (policy_key_is_list(key))
		policy_empty(p, key);
	for (size_t i = 0; i < values->count; i++)
		if (policy_put(p, key, values->items[i], NULL, err) < 0)
			return -1;
	return 0;
}

static int narrow_key(struct cordon_policy *p, const struct cordon_policy *ceiling, const struct policy_key *key, struct cordon_error *err)
{
	const struct ceiling_row *row = row_of(key);
	struct strlist values = {0};
	int r;

	if (row->bound == BOUND_GRANTS)
		r = common_entries(p, ceiling, key, row, &values, err);
	else if (row->bound == BOUND_DENIES)
		r = all_entries(p, ceiling, key, &values, err);
	else
		r = policy_values(ceiling, key, &values, err);
	if (r == 0)
		r = set_entries(p, key, &values, err);
	strlist_free(&values);
	return r;
}

int policy_narrow(struct cordon_policy *p, const struct cordon_policy *ceiling, struct cordon_error *err)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (policy_key_within(p, ceiling, &policy_keys[i], NULL) < 0 && narrow_key(p, ceiling, &policy_keys[i], err) < 0)
			return -1;
	return 0;
}
