/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random changes. A list of what is there follows them roughly, as if each succeeded; what then fails (a directory that cannot be
 * written, a name that is gone) must fail in the same way inside a sandbox and on a plain directory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "exact.h"

enum { MAX_OPS = 24, TRIES = 20, DEEP = 2000 };

struct item {
	char *path; /* decoded; NULL: gone */
	char type;
	bool recent;  /* changed by one of the last scripts */
	bool foreign; /* somebody else's, or a directory that cannot be looked into: what holds it is not moved */
};

struct maker {
	struct rng *r;
	struct buf out;
	struct item *items;
	size_t count, size;
	unsigned slot;
};

/* ---- what is there ----------------------------------------------------------------------------------------------------------- */

static void add_item(struct maker *m, const char *path, char type)
{
	if (m->count == m->size) {
		m->size = m->size ? m->size * 2 : 256;
		m->items = realloc(m->items, m->size * sizeof(*m->items));
		if (!m->items)
			abort();
	}
	m->items[m->count++] = (struct item){.path = strdup(path), .type = type};
}

/* In a line of a manifest: not as the first line, the workspace itself, which is the user's. */
static bool is_foreign(const char *line, const char *first)
{
	unsigned mode_bits = 0, uid = 0, gid = 0, my_uid = 0, my_gid = 0;
	char type = 0;

	if (sscanf(line, "%*s %c %o %u %u", &type, &mode_bits, &uid, &gid) != 4 ||
	    sscanf(first, "%*s %*s %*s %u %u", &my_uid, &my_gid) != 2)
		return true;
	return uid != my_uid || gid != my_gid || (type == 'd' && (mode_bits & 0500) != 0500);
}

/* Trees and scripts give times of long ago. */
static bool is_recent(const char *line)
{
	long long seconds = 0;
	return sscanf(line, "%*s %*s %*s %*s %*s %*s %lld", &seconds) == 1 && seconds > 1600000000;
}

static void read_items(struct maker *m, const char *text)
{
	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		size_t len = strcspn(line, " ");
		char *path = strndup(line, len);
		decode(path);
		if (strchr(path, '/') && strncmp(path, "app/host", 8) != 0 && strncmp(path, "app/pin", 7) != 0)
			add_item(m, path, line[len + 1]);
		if (m->count) {
			m->items[m->count - 1].foreign = is_foreign(line, text);
			m->items[m->count - 1].recent = is_recent(line);
		}
		free(path);
	}
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

/* It and all that is in it. */
static void forget(struct maker *m, const char *path)
{
	char *gone = strdup(path);

	for (size_t i = 0; i < m->count; i++) {
		char *p = m->items[i].path;
		if (p && (strcmp(p, gone) == 0 || is_below(p, gone))) {
			free(p);
			m->items[i].path = NULL;
		}
	}
	free(gone);
}

static void moved(struct maker *m, const char *from, const char *to)
{
	char *old = strdup(from);
	size_t len = strlen(old);

	for (size_t i = 0; i < m->count; i++) {
		char *p = m->items[i].path;
		if (!p || (strcmp(p, old) != 0 && !is_below(p, old)))
			continue;
		struct buf path = {0};
		buf_add_str(&path, to);
		buf_add_str(&path, p + len);
		m->items[i].path = buf_steal(&path);
		free(p);
	}
	free(old);
}

static const char *base_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* Of one of the types; with several names only if asked for. Layers that change the same things tell more. NULL: none was found. */
static const struct item *pick(struct maker *m, const char *types, bool linked)
{
	const bool again = chance(m->r, 40);

	for (int i = 0; i < TRIES && m->count; i++) {
		const struct item *t = &m->items[below(m->r, (uint32_t)m->count)];
		if (t->path && strchr(types, t->type) && (linked || strncmp(base_of(t->path), "hl", 2) != 0) && (!again || t->recent))
			return t;
	}
	return NULL;
}

/* One that may be moved or removed. */
static const struct item *pick_directory(struct maker *m)
{
	const struct item *t = pick(m, "d", false);
	return t && strncmp(t->path, "app/fix", 7) == 0 && strlen(t->path) == 8 ? NULL : t;
}

static bool holds_foreign(const struct maker *m, const struct item *t)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].path && m->items[i].foreign && (&m->items[i] == t || is_below(m->items[i].path, t->path)))
			return true;
	return false;
}

/*
 * One that may be moved: without files of others in it. What the kernel refuses to rename is moved with the rights of the user, who
 * cannot make such files.
 */
static const struct item *pick_movable(struct maker *m)
{
	const struct item *t = pick_directory(m);
	return t && holds_foreign(m, t) ? NULL : t;
}

/* What cannot be removed stays, in directories that are then no longer movable. */
static void mark_above(struct maker *m, const char *path)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->items[i].path && is_below(path, m->items[i].path))
			m->items[i].foreign = true;
}

/*
 * A path for something new: in a directory that is there, in the same tree as `like`. Files with several names, and directories that may
 * hold such, stay where a path of ordinary length leads: moved from further down than that, the names become separate files. And no
 * directory goes into one that cannot be read: outside that is possible, by hand it is not.
 */
static void new_path(struct maker *m, struct buf *out, const char *like, const char *prefix)
{
	const struct item *dir = chance(m->r, 75) ? pick(m, "d", false) : NULL;

	if (dir && like && (dir->path[0] != like[0] || strcmp(dir->path, like) == 0 || is_below(dir->path, like)))
		dir = NULL;
	if (dir && prefix[0] != 'f' && (dir->foreign || strlen(dir->path) > DEEP))
		dir = NULL;
	buf_addf(out, "%s/", dir ? dir->path : like ? (like[0] == 'h' ? "home" : "app") : chance(m->r, 15) ? "home" : "app");
	add_name(m->r, out, prefix);
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------- */

static void line(struct maker *m, const char *name, const char *path)
{
	buf_addf(&m->out, "%s ", name);
	encode(&m->out, path);
}

static void numbers(struct maker *m, long a, long b, long c)
{
	const long all[] = {a, b, c};

	for (size_t i = 0; i < 3 && all[i] >= 0; i++)
		buf_addf(&m->out, " %ld", all[i]);
	buf_add_str(&m->out, "\n");
}

static void mode(struct maker *m, mode_t value)
{
	buf_addf(&m->out, " 0%o", (unsigned)value);
}

static mode_t directory_mode_for(struct maker *m, size_t item)
{
	mode_t value = directory_mode(m->r);

	m->items[item].foreign = m->items[item].foreign || (value & 0500) != 0500;
	return value;
}

/* ---- operations -------------------------------------------------------------------------------------------------------------- */

static void make_contents(struct maker *m)
{
	static const char *const names[] = {"write", "append", "truncate", "empty", "mmap", "punch"};
	const struct item *t = pick(m, "f", false);
	const unsigned kind = below(m->r, ARRAY_SIZE(names));
	const long offset = below(m->r, 8000), len = below(m->r, 5000), seed = below(m->r, 1000);

	if (!t)
		return;
	line(m, names[kind], t->path);
	if (kind == 0 || kind == 4)
		numbers(m, chance(m->r, 5) ? 400000 : offset, len, seed);
	else if (kind == 1)
		numbers(m, len, seed, -1);
	else if (kind == 5)
		numbers(m, offset, 4096 + len, -1);
	else
		numbers(m, kind == 2 ? offset : -1, -1, -1);
}

static void make_new(struct maker *m)
{
	_cleanup_buf_ struct buf path = {0}, target = {0};
	const unsigned kind = below(m->r, 10);

	new_path(m, &path, NULL, kind < 5 ? "f" : "d");
	add_item(m, path.data, "fffffddllp"[kind]);
	line(m, kind < 5 ? "create" : kind < 7 ? "mkdir" : kind < 9 ? "symlink" : "mkfifo", path.data);
	if (kind >= 7 && kind < 9) {
		add_target(m->r, &target);
		buf_add_str(&m->out, " ");
		encode(&m->out, target.data);
		numbers(m, -1, -1, -1);
	} else {
		mode(m, kind >= 5 && kind < 7 ? directory_mode_for(m, m->count - 1) : file_mode(m->r));
		numbers(m, kind < 5 ? (long)below(m->r, chance(m->r, 5) ? 200000 : 5000) : -1, (long)below(m->r, 1000), -1);
	}
}

static void make_replacement(struct maker *m)
{
	const struct item *t = pick(m, "f", true);

	if (!t)
		return;
	line(m, "replace", t->path);
	mode(m, file_mode(m->r));
	numbers(m, below(m->r, 5000), below(m->r, 1000), -1);
}

static void make_removal(struct maker *m)
{
	const bool tree = chance(m->r, 30);
	const struct item *t = tree ? pick_directory(m) : pick(m, "flp", true);

	if (!t)
		return;
	line(m, tree ? chance(m->r, 80) ? "rmtree" : "rmdir" : "unlink", t->path);
	numbers(m, -1, -1, -1);
	if (tree && holds_foreign(m, t))
		mark_above(m, t->path);
	forget(m, t->path);
}

static void rename_line(struct maker *m, const char *from, const char *to, long flags)
{
	line(m, "rename", from);
	buf_add_str(&m->out, " ");
	encode(&m->out, to);
	numbers(m, flags, -1, -1);
}

static void make_rename(struct maker *m)
{
	_cleanup_buf_ struct buf to = {0};
	const struct item *t = chance(m->r, 50) ? pick_movable(m) : pick(m, "flp", false);
	const struct item *over = t && t->type != 'd' && chance(m->r, 30) ? pick(m, "fl", false) : NULL;

	if (!t || over == t || (over && over->path[0] != t->path[0]))
		return;
	if (over && chance(m->r, 30)) {
		rename_line(m, t->path, over->path, 2); /* RENAME_EXCHANGE */
		return;
	}
	if (over)
		buf_add_str(&to, over->path);
	else
		new_path(m, &to, t->path, t->type == 'd' ? "d" : "f");
	rename_line(m, t->path, to.data, chance(m->r, 10)); /* RENAME_NOREPLACE */
	if (over)
		forget(m, over->path);
	moved(m, t->path, to.data);
}

/*
 * A file with several names, written to through one of them. A new one: a file that was copied up from a lower layer shows another inode
 * under each new name until it is mounted again, which overlayfs does in user namespaces only.
 */
static void make_links(struct maker *m)
{
	_cleanup_buf_ struct buf first = {0}, second = {0};

	if (chance(m->r, 30)) {
		buf_add_str(&first, "app/fix0/");
		add_name(m->r, &first, "hl");
		buf_add_str(&second, "app/fix1/");
	} else {
		new_path(m, &first, NULL, "hl");
		buf_addf(&second, "%.*s", (int)(base_of(first.data) - first.data), first.data);
	}
	add_name(m->r, &second, "hl");
	line(m, "create", first.data);
	mode(m, 0644);
	numbers(m, below(m->r, 3000), below(m->r, 1000), -1);
	line(m, "link", first.data);
	buf_add_str(&m->out, " ");
	encode(&m->out, second.data);
	numbers(m, -1, -1, -1);
	line(m, "append", second.data);
	numbers(m, below(m->r, 3000), below(m->r, 1000), -1);
	if (chance(m->r, 30)) {
		line(m, "chmod", first.data);
		mode(m, file_mode(m->r));
		numbers(m, -1, -1, -1);
	}
	add_item(m, first.data, 'f');
	add_item(m, second.data, 'f');
}

static void make_metadata(struct maker *m)
{
	const unsigned kind = below(m->r, 10);
	const struct item *t = pick(m, kind < 4 ? "fdp" : kind < 7 ? "fd" : "fdlp", false);

	if (!t)
		return;
	line(m, kind < 4 ? "chmod" : kind < 6 ? "setxattr" : kind < 7 ? "removexattr" : "utime", t->path);
	if (kind < 4 && t->type == 'd')
		buf_addf(&m->out, " 0%o d", (unsigned)directory_mode_for(m, (size_t)(t - m->items)));
	else if (kind < 4)
		mode(m, file_mode(m->r));
	else if (kind < 7)
		buf_addf(&m->out, " user.a%u%s", below(m->r, 4), kind < 6 ? chance(m->r, 20) ? " %" : " some%20value" : "");
	numbers(m, kind < 7 ? -1 : 900000000 + (long)below(m->r, 600000000), (long)below(m->r, 1000000000), -1);
}

/* A descriptor is kept while its file is moved, chmoded, removed or replaced, and then written through. */
static void make_held(struct maker *m)
{
	_cleanup_buf_ struct buf to = {0};
	const struct item *t = pick(m, "f", false);
	const long slot = m->slot++ % 8;

	if (!t)
		return;
	if (chance(m->r, 30)) {
		line(m, "hold-reader", t->path);
		numbers(m, slot, -1, -1);
		make_contents(m);
		return;
	}
	line(m, "hold", t->path);
	numbers(m, slot, -1, -1);
	for (unsigned n = below(m->r, 3); n > 0; n--)
		chance(m->r, 50) ? make_rename(m) : make_metadata(m);
	if (t->path && chance(m->r, 60)) {
		new_path(m, &to, t->path, "f");
		rename_line(m, t->path, to.data, 0);
		moved(m, t->path, to.data);
	} else if (t->path && chance(m->r, 30)) {
		line(m, "unlink", t->path);
		numbers(m, -1, -1, -1);
		forget(m, t->path);
	}
	buf_addf(&m->out, "held-write %ld %u %u %u\n", slot, below(m->r, 8000), below(m->r, 4000), below(m->r, 1000));
	if (chance(m->r, 30))
		buf_addf(&m->out, "held-truncate %ld %u\n", slot, below(m->r, 4000));
	if (chance(m->r, 30))
		buf_addf(&m->out, "held-chmod %ld 0%o\n", slot, (unsigned)file_mode(m->r));
}

/* One kind in the place of another; a directory in the place of a directory. */
static void make_another_kind(struct maker *m)
{
	const struct item *t = chance(m->r, 60) ? pick_movable(m) : pick(m, "flp", false);
	_cleanup_buf_ struct buf in = {0};

	if (!t)
		return;
	char *path = strdup(t->path);
	const bool directory = t->type == 'd' ? chance(m->r, 60) : chance(m->r, 70);
	line(m, t->type == 'd' ? "rmtree" : "unlink", path);
	numbers(m, -1, -1, -1);
	forget(m, path);
	line(m, directory ? "mkdir" : "create", path);
	mode(m, directory ? 0755 : file_mode(m->r));
	numbers(m, directory ? -1 : 100, 7, -1);
	add_item(m, path, directory ? 'd' : 'f');
	if (directory && chance(m->r, 60)) {
		buf_addf(&in, "%s/", path);
		add_name(m->r, &in, "f");
		line(m, "create", in.data);
		mode(m, 0644);
		numbers(m, 50, 9, -1);
		add_item(m, in.data, 'f');
	}
	free(path);
}

static const struct {
	void (*make)(struct maker *m);
	unsigned weight;
} kinds[] = {
	{make_contents, 25}, {make_new, 20},      {make_replacement, 6}, {make_removal, 12},     {make_rename, 14},
	{make_links, 4},     {make_metadata, 17}, {make_held, 8},        {make_another_kind, 8},
};

static void make_one(struct maker *m)
{
	unsigned all = 0, n;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		all += kinds[i].weight;
	n = below(m->r, all);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (n < kinds[i].weight) {
			kinds[i].make(m);
			return;
		}
		n -= kinds[i].weight;
	}
}

char *make_script(struct rng *r, const char *manifest_text, bool pause_in_it, int status)
{
	static const char *const masks[] = {"0", "022", "077", "027"};
	struct maker m = {.r = r};
	const unsigned ops = chance(r, 10) ? below(r, 3) : 3 + below(r, MAX_OPS - 3);

	read_items(&m, manifest_text);
	buf_addf(&m.out, "umask %s\n", masks[below(r, ARRAY_SIZE(masks))]);
	for (unsigned i = 0; i < ops; i++) {
		if (pause_in_it && i == ops / 2)
			buf_add_str(&m.out, "pause\n");
		make_one(&m);
	}
	if (status)
		buf_addf(&m.out, "exit %d\n", status);
	for (size_t i = 0; i < m.count; i++)
		free(m.items[i].path);
	free(m.items);
	char *script = buf_steal(&m.out);
	return script;
}
