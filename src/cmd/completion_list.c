/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to name: asked by the completion scripts at every TAB, so it is silent whatever is wrong, leaves no trace, and is in no
 * table. A line per word: the word, a tab, and what to say about it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "cmd/completion.h"
#include "cmd/tree.h"
#include "image/image.h"
#include "image/recipe.h"
#include "layers/store_parts.h"
#include "secrets/store.h"

/* What needs no quoting, in any shell: a script may paste it as it is. */
static bool is_plain(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return *word && *word != '-' && word[strspn(word, plain)] == '\0';
}

static void offer(const char *word, int length, const char *about)
{
	_cleanup_free_ char *shown = strndup(word, (size_t)length);
	_cleanup_buf_ struct buf text = {0};

	if (!shown || !is_plain(shown))
		return;
	text_plain(&text, about ? about : "");
	printf("%s\t%s\n", shown, text.data && !text.failed ? text.data : "");
}

static void list_sandboxes(struct store *s, const char *home, const char *what)
{
	struct box_list all = {0};

	(void)home;
	(void)what;
	if (box_list(s, &all, NULL) == 0)
		for (size_t i = 0; i < all.count; i++) {
			const struct box *b = &all.items[i].box;

			offer(b->name, BOX_NAME_MAX, b->workspace);
			offer(b->id, SHORT_ID, b->name[0] ? b->name : b->workspace);
		}
	box_list_free(&all);
}

static void list_snapshots(struct store *s, const char *home, const char *what)
{
	_cleanup_box_ struct box b = {0};
	struct layer_list all = {0};

	(void)home;
	if (box_find(s, what, &b, NULL) < 0 || layer_history(s, b.id, b.head, &all, NULL) < 0)
		return;
	offer("seed", BOX_NAME_MAX, "the directory it was made from");
	for (size_t i = 0; i < all.count; i++) {
		const struct layer *l = &all.items[i].layer;

		if (all.items[i].damaged)
			continue;
		if (l->name)
			offer(l->name, BOX_NAME_MAX, l->note ? l->note : l->command);
		else if (l->kind == LAYER_SNAPSHOT)
			offer(l->id, SHORT_ID, l->note ? l->note : l->command);
	}
	layer_list_free(&all);
}

static void list_services(struct store *s, const char *home, const char *what)
{
	_cleanup_box_ struct box b = {0};
	struct keeper_processes all = {0};

	if (box_find(s, what, &b, NULL) < 0 || keeper_ps(home, b.id, &all, NULL) < 0)
		return;
	for (size_t i = 0; i < all.count; i++) {
		const struct keeper_process *p = &all.items[i];

		offer(p->name[0] ? p->name : p->id, p->name[0] ? (int)sizeof(p->name) : SHORT_ID, p->command);
	}
	keeper_processes_free(&all);
}

/* They have a place of their own. */
static void list_secrets(const char *home)
{
	struct secret_list all = {0};

	if (secrets_list(home, &all, NULL) == 0)
		for (size_t i = 0; i < all.count; i++)
			offer(all.items[i].name, SECRET_NAME_MAX, all.items[i].damaged ? "damaged" : "a secret");
	secrets_list_free(&all);
}

static void list_recipes(void)
{
	char path[PATH_MAX];
	struct strlist names = {0};

	recipe_directory(path);
	_cleanup_fd_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0 && store_list(dir, &names, NULL) == 0)
		for (size_t i = 0; i < names.count; i++) {
			_cleanup_recipe_ struct recipe r = {0};

			if (recipe_find(names.items[i], &r, NULL) == 0)
				offer(names.items[i], IMAGE_NAME_MAX, r.summary);
		}
	strlist_free(&names);
}

/* For what cordon image is to do with one, or (what is "") for --image. A tag's colon would have to be quoted in some shells: those are left out. */
static void list_images(const char *home, const char *what)
{
	struct image_list all = {0};

	if (strcmp(what, "build") == 0) {
		list_recipes();
		return;
	}
	if (strcmp(what, "commit") == 0) {
		completion_list("sandboxes", NULL);
		return;
	}
	if (!*what)
		offer(IMAGE_HOST, IMAGE_NAME_MAX, "the machine's own");
	if (image_list(home, &all, NULL) == 0)
		for (size_t i = 0; i < all.count; i++)
			offer(all.items[i].image.name, IMAGE_NAME_MAX, all.items[i].damaged ? "damaged" : all.items[i].image.source);
	image_list_free(&all);
}

static const struct {
	const char *name;
	void (*list)(struct store *s, const char *home, const char *what);
} kinds[] = {{"sandboxes", list_sandboxes}, {"snapshots", list_snapshots}, {"services", list_services}};

/* Opening a store makes one where there is none. */
static bool has_store(const char *home)
{
	_cleanup_free_ char *boxes = NULL;
	struct stat st;

	if (asprintf(&boxes, "%s/sandboxes", home) < 0)
		boxes = NULL;
	return boxes && stat(boxes, &st) == 0 && S_ISDIR(st.st_mode);
}

int completion_list(const char *kind, const char *what)
{
	_cleanup_free_ char *home = context_find_home(NULL);
	struct store s;

	if (kind && strcmp(kind, "secrets") == 0 && home)
		list_secrets(home);
	if (kind && strcmp(kind, "images") == 0 && home)
		list_images(home, what ? what : "");
	if (!home || !has_store(home) || store_open(&s, home, NULL) < 0)
		return EXIT_OK;
	for (size_t i = 0; kind && i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kind, kinds[i].name) == 0)
			kinds[i].list(&s, home, what ? what : "");
	store_close(&s);
	return EXIT_OK;
}
