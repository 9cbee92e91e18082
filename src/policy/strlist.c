/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

int strlist_add(struct strlist *l, const char *s, struct cordon_error *err)
{
	char **items = realloc(l->items, (l->count + 2) * sizeof(*items));

	if (!items)
		return out_of_memory(err);
	l->items = items;
	items[l->count] = strdup(s);
	if (!items[l->count])
		return out_of_memory(err); /* the NULL that is there now ends the list as before */
	items[++l->count] = NULL;
	return 0;
}

/* `to` is overwritten, so it need not be initialised; it is empty after a failure. */
int strlist_copy(struct strlist *to, const struct strlist *from, struct cordon_error *err)
{
	*to = (struct strlist){0};
	for (size_t i = 0; i < from->count; i++) {
		if (strlist_add(to, from->items[i], err) < 0) {
			strlist_free(to);
			return -1;
		}
	}
	return 0;
}

void strlist_free(struct strlist *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i]);
	free(l->items);
	*l = (struct strlist){0};
}

bool strlist_has(const struct strlist *l, const char *s)
{
	for (size_t i = 0; i < l->count; i++)
		if (!strcmp(l->items[i], s))
			return true;
	return false;
}
