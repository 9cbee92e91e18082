/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/denials.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char **text_of(struct cordon_denial *d, size_t i)
{
	const char **all[] = {&d->category, &d->target, &d->rule, &d->errno_name, &d->hint};
	return i < sizeof(all) / sizeof(all[0]) ? all[i] : NULL;
}

static void release(struct cordon_denial *d)
{
	const char **text;
	for (size_t i = 0; (text = text_of(d, i)); i++)
		free((char *)(uintptr_t)*text);
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

int denials_add(struct denials *d, const struct cordon_denial *denial, struct cordon_error *err)
{
	struct cordon_denial from = *denial, copy = {0};
	const char **text;
	bool whole = true;
	d->total++;
	for (size_t i = 0; i < d->count; i++)
		if (same(d->items[i].category, denial->category) && same(d->items[i].target, denial->target) &&
		    same(d->items[i].rule, denial->rule))
			return 0;
	if (d->count == DENIALS_LISTED)
		return 0;
	struct cordon_denial *more = realloc(d->items, (d->count + 1) * sizeof(*more));
	if (!more)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	d->items = more;
	for (size_t i = 0; (text = text_of(&from, i)); i++)
		if (*text && !(*text_of(&copy, i) = strdup(*text)))
			whole = false;
	if (!whole) {
		release(&copy);
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	d->items[d->count++] = copy;
	return 0;
}

void denials_free(struct denials *d)
{
	for (size_t i = 0; i < d->count; i++)
		release(&d->items[i]);
	free(d->items);
	*d = (struct denials){0};
}
