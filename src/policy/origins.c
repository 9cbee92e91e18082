/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/origins.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static const struct policy_origin nowhere;

static size_t place(const struct policy_key *key)
{
	return (size_t)((key->alias ? policy_key_find(key->alias) : key) - policy_keys);
}

void origins_free(struct policy_origins *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(o->keys); i++)
		free(o->keys[i].items);
	strlist_free(&o->names);
	*o = (struct policy_origins){0};
}

const char *origins_name(struct policy_origins *o, const char *text, struct cordon_error *err)
{
	for (size_t i = 0; i < o->names.count; i++)
		if (!strcmp(o->names.items[i], text))
			return o->names.items[i];
	return strlist_add(&o->names, text, err) < 0 ? NULL : o->names.items[o->names.count - 1];
}

int origins_note(struct policy_origins *o, const struct policy_key *key, size_t index, const struct policy_origin *from,
                 struct cordon_error *err)
{
	struct origin_key *k = &o->keys[place(key)];

	if (index >= k->count) {
		struct policy_origin *more = realloc(k->items, (index + 1) * sizeof(*more));

		if (!more)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		memset(more + k->count, 0, (index + 1 - k->count) * sizeof(*more));
		k->items = more;
		k->count = index + 1;
	}
	k->items[index] = k->whole = *from;
	return 0;
}

void origins_forget(struct policy_origins *o, const struct policy_key *key, const struct policy_origin *from)
{
	struct origin_key *k = &o->keys[place(key)];

	k->count = 0;
	k->whole = *from;
}

const struct policy_origin *origins_of(const struct policy_origins *o, const struct policy_key *key, size_t index)
{
	const struct origin_key *k = &o->keys[place(key)];

	return index < k->count ? &k->items[index] : &nowhere;
}

const struct policy_origin *origins_of_key(const struct policy_origins *o, const struct policy_key *key)
{
	return &o->keys[place(key)].whole;
}

int policy_put_from(struct cordon_policy *p, const struct policy_key *key, const char *value, struct policy_origins *o,
                    const struct policy_origin *from, struct cordon_error *err)
{
	size_t index;

	if (policy_put(p, key, value, &index, err) < 0)
		return -1;
	return o ? origins_note(o, key, index, from, err) : 0;
}

void origin_text(const struct policy_origin *from, struct buf *out)
{
	switch (from->kind) {
	case ORIGIN_NONE:
		break;
	case ORIGIN_PROFILE:
		buf_addf(out, "profile %s", from->name);
		break;
	case ORIGIN_FILE:
		buf_addf(out, "%s:%u", from->name, from->line);
		break;
	case ORIGIN_OPTION:
		buf_add_str(out, from->name);
		break;
	}
}
