/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what a user types to a sandbox or a layer. Nothing typed becomes part of a path unless it has the form of an id; names and beginnings are
 * compared with what is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/util.h"
#include "layers/box.h"

#define PREFIX_MIN 4
#define NEAREST_MAX 3
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

int box_check_name(const char *name, struct cordon_error *err)
{
	size_t len = strlen(name);
	if (id_valid(name))
		err_set(err, CORDON_ERR_INPUT, "'%s' has the form of an id and cannot be a name", name);
	else if (len == 0 || len > BOX_NAME_MAX || name[strspn(name, LOWER DIGITS "-")] || name[0] == '-' || name[len - 1] == '-')
		err_set(err, CORDON_ERR_INPUT, "'%.80s' cannot be the name of a sandbox", name);
	else
		return 0;
	return err_hint(err, "a-z, 0-9 and hyphens inside, at most %d letters: web, test-2", BOX_NAME_MAX);
}

int box_check_layer_name(const char *name, struct cordon_error *err)
{
	size_t len = strlen(name);
	if (id_valid(name))
		err_set(err, CORDON_ERR_INPUT, "'%s' has the form of an id and cannot be a name", name);
	else if (strcmp(name, "head") == 0 || strcmp(name, "seed") == 0)
		err_set(err, CORDON_ERR_INPUT, "'%s' has a meaning of its own and cannot be the name of a snapshot", name);
	else if (len == 0 || len > BOX_NAME_MAX || name[strspn(name, LOWER UPPER DIGITS "._-")] || strspn(name, "._-") > 0)
		err_set(err, CORDON_ERR_INPUT, "'%.80s' cannot be the name of a snapshot", name);
	else
		return 0;
	return err_hint(err, "letters, digits and, not at the beginning, \".\", \"_\", \"-\"; at most %d: before-upgrade", BOX_NAME_MAX);
}

/* ---- choosing one of several -------------------------------------------------------------------------------------------------- */

struct candidate {
	const char *id, *name; /* name may be NULL or "" */
};

struct candidates {
	struct candidate *items;
	size_t count;
	const char *kind, *kinds; /* "sandbox", "sandboxes" */
	const char *hint;         /* when nothing is near */
};

static bool has_name(const struct candidate *c, const char *name)
{
	return c->name && *c->name && strcmp(c->name, name) == 0;
}

static bool begins_id(const struct candidate *c, const char *what)
{
	return strncmp(c->id, what, strlen(what)) == 0;
}

static void hint_nearest(const struct candidates *all, const char *what, struct cordon_error *err)
{
	_cleanup_free_ const char **words = calloc(all->count * 2 + 1, sizeof(*words));
	char text[224] = "";
	size_t count = 0, len = 0;
	if (!words)
		return;
	for (size_t i = 0; i < all->count; i++) {
		words[count++] = all->items[i].name;
		words[count++] = all->items[i].id;
	}
	for (int n = 0; n < NEAREST_MAX; n++) {
		const char *near = nearest_word(what, words, count);
		if (!near)
			break;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s", n ? ", " : "", (int)(sizeof(text) / NEAREST_MAX - 3),
		                        near);
		for (size_t i = 0; i < count; i++)
			if (words[i] && strcmp(words[i], near) == 0)
				words[i] = NULL;
	}
	if (len > 0)
		err_hint(err, "near: %s", text);
	else
		err_hint(err, "%s", all->hint);
}

/* The names that more than one answers to. */
static int refuse_ambiguous(const struct candidates *all, bool (*matches)(const struct candidate *, const char *), const char *what,
                            struct cordon_error *err)
{
	char text[128] = "";
	size_t len = 0, count = 0;
	for (size_t i = 0; i < all->count; i++)
		if (matches(&all->items[i], what) && count++ < NEAREST_MAX)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.20s", len ? ", " : "", all->items[i].id);
	err_set(err, CORDON_ERR_INPUT, "'%s' could be %zu %s", what, count, all->kinds);
	return err_hint(err, "use an id: %s%s", text, count > NEAREST_MAX ? ", …" : "");
}

/* 1: found, 0: none, -1: several. */
static int choose(const struct candidates *all, bool (*matches)(const struct candidate *, const char *), const char *what, size_t *at,
                  struct cordon_error *err)
{
	size_t count = 0;
	for (size_t i = 0; i < all->count; i++) {
		if (matches(&all->items[i], what)) {
			*at = i;
			count++;
		}
	}
	return count > 1 ? refuse_ambiguous(all, matches, what, err) : (int)count;
}

/* A name wins over the beginning of an id. */
static int find_among(const struct candidates *all, const char *what, size_t *at, struct cordon_error *err)
{
	int r = *what ? choose(all, has_name, what, at, err) : 0;
	size_t len = strlen(what);
	if (r == 0 && len >= PREFIX_MIN && len <= ID_LEN && what[strspn(what, LOWER DIGITS)] == '\0')
		r = choose(all, begins_id, what, at, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	err_set(err, CORDON_ERR_NOT_FOUND, "there is no %s '%.80s'", all->kind, what);
	hint_nearest(all, what, err);
	return -1;
}

/* ---- sandboxes ---------------------------------------------------------------------------------------------------------------- */

static int find_box(const struct box_list *boxes, const char *what, size_t *at, struct cordon_error *err)
{
	struct candidates all = {.count = boxes->count, .kind = "sandbox", .kinds = "sandboxes"};
	_cleanup_free_ struct candidate *items = calloc(boxes->count + 1, sizeof(*items));
	if (!items)
		return err_sys(err, "cannot look for sandbox %.80s", what);
	for (size_t i = 0; i < boxes->count; i++)
		items[i] = (struct candidate){boxes->items[i].box.id, boxes->items[i].box.name};
	all.items = items;
	all.hint = boxes->count ? "cordon ls lists them" : "there are none yet: cordon create makes one";
	return find_among(&all, what, at, err);
}

int box_find(struct store *s, const char *what, struct box *out, struct cordon_error *err)
{
	struct cordon_error why = {0};
	struct box_list boxes;
	size_t at = 0;
	*out = (struct box){0};
	if (id_valid(what)) { /* names cannot look like this: no need to read all the others */
		if (box_load(s, what, out, &why) == 0)
			return 0;
		if (why.code != CORDON_ERR_NOT_FOUND) {
			if (err)
				*err = why;
			return -1;
		}
	}
	if (box_list(s, &boxes, err) < 0)
		return -1;
	int r = find_box(&boxes, what, &at, err);
	if (r == 0)
		r = box_load(s, boxes.items[at].box.id, out, err); /* anew, so that a damaged one says why */
	box_list_free(&boxes);
	return r;
}

/* ---- layers ------------------------------------------------------------------------------------------------------------------- */

static int find_layer(const struct layer_list *layers, const char *what, size_t *at, struct cordon_error *err)
{
	struct candidates all = {.count = layers->count, .kind = "snapshot", .kinds = "snapshots"};
	_cleanup_free_ struct candidate *items = calloc(layers->count + 1, sizeof(*items));
	if (!items)
		return err_sys(err, "cannot look for snapshot %.80s", what);
	for (size_t i = 0; i < layers->count; i++)
		items[i] = (struct candidate){layers->items[i].layer.id, layers->items[i].layer.name};
	all.items = items;
	all.hint = layers->count ? "cordon history lists them" : "this sandbox has none yet";
	return find_among(&all, what, at, err);
}

int box_find_layer(struct store *s, const struct box *b, const char *what, char id[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	struct layer_list layers;
	size_t at = 0;
	bool head = strcmp(what, "head") == 0;
	if (head || strcmp(what, "seed") == 0) {
		snprintf(id, LAYER_ID_LEN + 1, "%s", head ? b->head : "");
		return 0;
	}
	/* a whole id of a layer of its own needs no search, however long the history is; a name cannot have that form */
	_cleanup_layer_ struct layer own = {0};
	if (id_valid(what) && layer_read(s, what, &own, NULL) == 0 && strcmp(own.sandbox, b->id) == 0) {
		memcpy(id, own.id, sizeof(own.id));
		return 0;
	}
	if (layer_history(s, b->id, b->head, &layers, err) < 0)
		return -1;
	int r = find_layer(&layers, what, &at, err);
	if (r == 0)
		snprintf(id, LAYER_ID_LEN + 1, "%s", layers.items[at].layer.id);
	layer_list_free(&layers);
	return r;
}
