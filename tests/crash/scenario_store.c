/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer store: whatever the moment at which sealing, squashing or collecting is killed, what was sealed shows what it showed, and the
 * sandbox stands on one of the states that it may stand on.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "crash.h"
#include "layers/box.h"
#include "layers/view.h"

#define DEPTH 8

static struct cordon_error err;

static void open_store(int base, struct store *s)
{
	char path[PATH_MAX], home[PATH_MAX + 8];
	MUST(fs_fd_path(base, path, sizeof(path)) == 0);
	snprintf(home, sizeof(home), "%s/home", path);
	MUST(store_open(s, home, &err) == 0);
}

/* What the scenario goes on with is remembered beside the store: each step runs in a process of its own. */
static void note(int base, const char *name, const char *id)
{
	unlinkat(base, name, 0);
	MUST(fs_write_file(base, name, id, strlen(id), 0600, NULL) == 0);
}

static void noted(int base, const char *name, char id[LAYER_ID_LEN + 1])
{
	MUST(fs_read_small(base, name, id, LAYER_ID_LEN + 1) == LAYER_ID_LEN);
}

static void whiteout(int dir, const char *path)
{
	MUST(mknodat(dir, path, S_IFCHR, makedev(0, 0)) == 0);
}

/* Layer i: a file of its own, one that every layer writes, one that the next deletes again. */
static void fill(struct store *s, const char *id, int i)
{
	char path[64], text[32];
	snprintf(path, sizeof(path), "%s/app", id);
	_cleanup_fd_ int app = openat(s->layers_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(app >= 0);
	snprintf(path, sizeof(path), "dir%d/own", i);
	snprintf(text, sizeof(text), "%d\n", i);
	put_file(app, path, text, 0644);
	put_file(app, "every/one", text, 0600);
	snprintf(path, sizeof(path), "brief%d", i);
	put_file(app, path, text, 0644);
	snprintf(path, sizeof(path), "brief%d", i - 1);
	if (i > 0)
		whiteout(app, path);
}

static void begin(struct store *s, int i, char id[LAYER_ID_LEN + 1])
{
	MUST(layer_begin(s, geteuid(), getegid(), id, &err) == 0);
	fill(s, id, i);
}

static int seal(struct store *s, const char *id, const char *parent, const char *sandbox)
{
	struct layer l = {.kind = LAYER_EXEC, .created_ms = 1700000000000};
	snprintf(l.id, sizeof(l.id), "%s", id);
	snprintf(l.parent, sizeof(l.parent), "%s", parent);
	snprintf(l.sandbox, sizeof(l.sandbox), "%s", sandbox);
	return layer_seal(s, &l, &err);
}

/* True if a chain shows what DEPTH `layers` of fill() show. */
static bool shows(struct store *s, const char *head, int layers)
{
	_cleanup_view_ struct view v = {0};
	char path[64], text[32], want[32];
	struct view_entry e;
	if (view_open(s, head, NULL, TREE_APP, -1, &v, &err) < 0)
		return false;
	for (int i = 0; i < layers; i++) {
		snprintf(path, sizeof(path), "dir%d/own", i);
		if (view_stat(&v, path, &e, &err) < 0 || !S_ISREG(e.st.st_mode))
			return false;
		snprintf(path, sizeof(path), "brief%d", i);
		if (view_stat(&v, path, &e, &err) < 0 || S_ISREG(e.st.st_mode) != (i == layers - 1))
			return false;
	}
	if (view_stat(&v, "every/one", &e, &err) < 0 || (e.st.st_mode & 07777) != 0600)
		return false;
	_cleanup_fd_ int fd = view_open_entry(&v, "every/one", &e, &err);
	snprintf(want, sizeof(want), "%d\n", layers - 1);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	return n == (ssize_t)strlen(want) && memcmp(text, want, (size_t)n) == 0;
}

/* ---- what each starts from --------------------------------------------------------------------------------------------------- */

static const char *nothing_to_set_up(int base)
{
	(void)base;
	return NULL;
}

static void nothing_to_tear_down(int base)
{
	(void)base;
}

/* A sandbox that stands on DEPTH layers, of which it made those from `own` on. The others are needed for nothing but what they stand under. */
static void make_chain(int base, int own)
{
	struct store s;
	struct box b = {.uid = UINT32_MAX, .gid = UINT32_MAX};
	char id[LAYER_ID_LEN + 1];
	fs_remove_tree(base, "home", NULL);
	open_store(base, &s);
	MUST(box_create(&s, &b, &err) == 0);
	for (int i = 0; i < DEPTH; i++) {
		begin(&s, i, id);
		MUST(seal(&s, id, b.head, i < own ? "" : b.id) == 0);
		memcpy(b.head, id, sizeof(id));
	}
	MUST(box_save(&s, &b, &err) == 0);
	note(base, "box", b.id);
	note(base, "head", b.head);
	box_free(&b);
	store_close(&s);
}

static void reset_chain(int base)
{
	make_chain(base, 0);
}

/* … and has an open one. */
static void reset_open(int base)
{
	struct store s;
	struct box b;
	char id[LAYER_ID_LEN + 1];
	reset_chain(base);
	open_store(base, &s);
	noted(base, "box", id);
	MUST(box_load(&s, id, &b, &err) == 0);
	begin(&s, DEPTH, b.open);
	MUST(box_save(&s, &b, &err) == 0);
	note(base, "open", b.open);
	box_free(&b);
	store_close(&s);
}

/* One that was forked from a sandbox that is gone, and layers beside it that no sandbox needs. */
static void reset_garbage(int base)
{
	struct store s;
	char id[LAYER_ID_LEN + 1], parent[LAYER_ID_LEN + 1] = "";
	make_chain(base, DEPTH / 2);
	open_store(base, &s);
	for (int i = 0; i < 4; i++) {
		begin(&s, i, id);
		MUST(seal(&s, id, parent, "") == 0);
		memcpy(parent, id, sizeof(id));
	}
	note(base, "garbage", parent);
	store_close(&s);
}

/* ---- what is done and looked at ---------------------------------------------------------------------------------------------- */

static int do_seal(int base)
{
	struct store s;
	struct box b;
	char id[LAYER_ID_LEN + 1];
	open_store(base, &s);
	noted(base, "box", id);
	if (box_load(&s, id, &b, &err) < 0 || seal(&s, b.open, b.head, b.id) < 0)
		return 1;
	memcpy(b.head, b.open, sizeof(b.head));
	b.open[0] = '\0';
	int r = box_save(&s, &b, &err) < 0;
	box_free(&b);
	store_close(&s);
	return r;
}

static int do_flatten(int base)
{
	struct store s;
	char head[LAYER_ID_LEN + 1];
	open_store(base, &s);
	noted(base, "head", head);
	int r = layer_flatten(&s, head, &err) < 0;
	store_close(&s);
	return r;
}

static int do_collect(int base)
{
	struct store s;
	open_store(base, &s);
	int r = store_collect(&s, 1700000000000, &err) < 0;
	store_close(&s);
	return r;
}

static const char *check_box(int base, bool may_move)
{
	struct store s;
	struct box b = {0};
	char id[LAYER_ID_LEN + 1], head[LAYER_ID_LEN + 1];
	const char *wrong = NULL;
	open_store(base, &s);
	noted(base, "box", id);
	noted(base, "head", head);
	if (box_load(&s, id, &b, &err) < 0)
		wrong = "the sandbox's record cannot be read";
	else if (strcmp(b.head, head) != 0 && !may_move)
		wrong = "the head has moved";
	else if (!shows(&s, head, DEPTH))
		wrong = "the layers do not show what they showed";
	else if (strcmp(b.head, head) != 0 && !shows(&s, b.head, DEPTH + 1))
		wrong = "the head is on a layer that is not whole";
	box_free(&b);
	store_close(&s);
	return wrong;
}

static const char *check_seal(int base, bool killed, int recovered)
{
	(void)killed;
	(void)recovered;
	return check_box(base, true);
}

static const char *check_flatten(int base, bool killed, int recovered)
{
	(void)killed;
	(void)recovered;
	return check_box(base, false);
}

static const char *check_collect(int base, bool killed, int recovered)
{
	struct store s;
	struct layer l = {0};
	char id[LAYER_ID_LEN + 1];
	const char *wrong = check_box(base, false);
	(void)killed;
	(void)recovered;
	open_store(base, &s);
	noted(base, "garbage", id);
	if (!wrong && layer_read(&s, id, &l, NULL) == 0)
		wrong = "garbage is still there after a collection";
	layer_free(&l);
	store_close(&s);
	return wrong;
}

const struct scenario seal_scenario = {.name = "seal",
                                       .set_up = nothing_to_set_up,
                                       .reset = reset_open,
                                       .operate = do_seal,
                                       .recover = do_collect,
                                       .check = check_seal,
                                       .tear_down = nothing_to_tear_down,
                                       .least = 10,
                                       .samples = 4};
const struct scenario flatten_scenario = {.name = "flatten",
                                          .set_up = nothing_to_set_up,
                                          .reset = reset_chain,
                                          .operate = do_flatten,
                                          .recover = do_collect,
                                          .check = check_flatten,
                                          .tear_down = nothing_to_tear_down,
                                          .least = 50,
                                          .samples = 4};
const struct scenario collect_scenario = {.name = "collect",
                                          .set_up = nothing_to_set_up,
                                          .reset = reset_garbage,
                                          .operate = do_collect,
                                          .recover = do_collect,
                                          .check = check_collect,
                                          .tear_down = nothing_to_tear_down,
                                          .least = 30,
                                          .samples = 4};
