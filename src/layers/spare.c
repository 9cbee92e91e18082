/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/spare.h"

#include <stdlib.h>
#include <string.h>

#include "base/glob.h"

bool spare_matches(const struct strlist *globs, const char *path)
{
	for (size_t i = 0; globs && i < globs->count; i++)
		if (glob_match(globs->items[i], path))
			return true;
	return false;
}

static bool is_above(const char *dir, const char *path)
{
	size_t n = strlen(dir);
	return strncmp(dir, path, n) == 0 && path[n] == '/';
}

/* From the end, since the directories above something come before it. */
int spare_changes(struct changes *c, const struct strlist *globs, struct strlist *spared, struct cordon_error *err)
{
	const char *last = NULL;
	size_t n = 0;
	for (size_t i = c->count; globs && globs->count && i > 0; i--) {
		struct change *at = &c->items[i - 1];
		if (!at->before || (!spare_matches(globs, at->path) && !(last && is_above(at->path, last))))
			continue;
		last = at->path;
		at->op = CHANGE_OP_COUNT; /* to be taken out */
		if (spared && strlist_add(spared, at->path, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < c->count; i++) {
		if (c->items[i].op == CHANGE_OP_COUNT)
			free(c->items[i].path);
		else
			c->items[n++] = c->items[i];
	}
	c->count = n;
	return 0;
}
