/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define NAMES 6
#define DEPTH 2

/* Some that break whoever takes names for text. */
static const char *const names[NAMES] = {"a", "b", "c-d", "c", "new\nline \"q\\", "\xff\xfe"};
static const char *const contents[] = {"", "one\n", "two\n", "something longer\n"};
static const char *const targets[] = {"a", "/", "../../.."};

enum kind { ABSENT, FILE_, DIRECTORY, LINK, FIFO, SOCKET, WHITEOUT, MARKED_WHITEOUT };

struct node {
	enum kind kind;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	const char *data;
	char xattr[8];
	char mark; /* of a directory: 0, 'y' or 'x' */
	struct node *below[NAMES];
};

void model_free(struct node *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < NAMES; i++)
		model_free(n->below[i]);
	free(n);
}

/* ---- making up ---------------------------------------------------------------------------------------------------------------- */

static enum kind any_kind(struct rng *r, bool is_seed, bool marked, int depth)
{
	static const enum kind usual[] = {ABSENT,    ABSENT, ABSENT, FILE_,  FILE_,    FILE_,    DIRECTORY, DIRECTORY,
	                                  DIRECTORY, LINK,   FIFO,   SOCKET, WHITEOUT, WHITEOUT, WHITEOUT,  MARKED_WHITEOUT};
	enum kind kind = usual[rng_below(r, ARRAY_SIZE(usual))];

	if ((kind == DIRECTORY && depth == 0) || (kind == WHITEOUT && is_seed) || (kind == MARKED_WHITEOUT && !marked))
		return FILE_;
	return kind;
}

static struct node *make_up(struct rng *r, enum kind kind, bool is_seed, bool owners, int depth)
{
	struct node *n = calloc(1, sizeof(*n));

	MUST(n);
	n->kind = kind;
	n->data = kind == FILE_  ? contents[rng_below(r, ARRAY_SIZE(contents))]
	          : kind == LINK ? targets[rng_below(r, ARRAY_SIZE(targets))]
	                         : "";
	n->mode = kind == DIRECTORY ? (rng_below(r, 4) ? 0755 : 0700) : kind == LINK ? 0777 : rng_below(r, 4) ? 0644 : 0755;
	n->uid = owners && rng_below(r, 6) == 0 ? 1234 : geteuid();
	n->gid = owners && rng_below(r, 6) == 0 ? 4321 : getegid();
	if ((kind == FILE_ || kind == DIRECTORY) && rng_below(r, 6) == 0)
		snprintf(n->xattr, sizeof(n->xattr), "%u", rng_below(r, 2));
	if (kind != DIRECTORY)
		return n;
	n->mark = is_seed || rng_below(r, 3) ? 0 : rng_below(r, 2) ? 'y' : 'x';
	for (size_t i = 0; i < NAMES; i++) {
		enum kind k = any_kind(r, is_seed, n->mark == 'x', depth);

		if (k != ABSENT)
			n->below[i] = make_up(r, k, is_seed, owners, depth - 1);
	}
	return n;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

static void write_node(const struct node *n, int dirfd, const char *name);

static void write_directory(const struct node *n, int dirfd, const char *name)
{
	char mark[2] = {n->mark};
	_cleanup_fd_ int fd = tree_new(dirfd, name);

	for (size_t i = 0; i < NAMES; i++)
		if (n->below[i])
			write_node(n->below[i], fd, names[i]);
	if (n->mark)
		tree_mark(dirfd, name, mark);
}

static void write_node(const struct node *n, int dirfd, const char *name)
{
	switch (n->kind) {
	case ABSENT:
		return;
	case FILE_:
	case MARKED_WHITEOUT:
		tree_file(dirfd, name, n->data);
		break;
	case DIRECTORY:
		write_directory(n, dirfd, name);
		break;
	case LINK:
		MUST(symlinkat(n->data, dirfd, name) == 0);
		break;
	case FIFO:
		MUST(mkfifoat(dirfd, name, 0600) == 0);
		break;
	case SOCKET:
		MUST(mknodat(dirfd, name, S_IFSOCK | 0600, 0) == 0);
		break;
	case WHITEOUT:
		tree_whiteout(dirfd, name);
		return;
	}
	if (n->kind == MARKED_WHITEOUT)
		tree_xattr(dirfd, name, "user.overlay.whiteout", "");
	if (n->xattr[0])
		tree_xattr(dirfd, name, "user.t", n->xattr);
	MUST(fchownat(dirfd, name, n->uid, n->gid, AT_SYMLINK_NOFOLLOW) == 0);
	if (n->kind != LINK)
		MUST(fchmodat(dirfd, name, n->mode, 0) == 0);
}

struct node *model_layer(struct rng *r, int dirfd, const char *name, bool is_seed, bool owners)
{
	struct node *n = make_up(r, DIRECTORY, is_seed, owners, DEPTH);

	n->mark = 0; /* the tops of layers are always merged: see below */
	for (size_t i = 0; i < NAMES; i++) {
		if (n->below[i] && n->below[i]->kind == MARKED_WHITEOUT) {
			model_free(n->below[i]);
			n->below[i] = NULL;
		}
	}
	write_directory(n, dirfd, name);
	if (!is_seed && rng_below(r, 4) == 0)
		tree_mark(dirfd, name, "y"); /* and so this means nothing */
	return n;
}

/* ---- merging ------------------------------------------------------------------------------------------------------------------ */

static struct node *copy_of(const struct node *n)
{
	struct node *c = malloc(sizeof(*c));

	MUST(c);
	*c = *n;
	memset(c->below, 0, sizeof(c->below));
	return c;
}

static void apply(struct node *to, const struct node *layer)
{
	for (size_t i = 0; i < NAMES; i++) {
		const struct node *n = layer->below[i];
		struct node *old = to->below[i], *new;

		if (!n)
			continue;
		new = copy_of(n);
		if (n->kind == DIRECTORY && n->mark != 'y' && old && old->kind == DIRECTORY) {
			memcpy(new->below, old->below, sizeof(new->below));
			memset(old->below, 0, sizeof(old->below));
		}
		model_free(old);
		to->below[i] = new;
		if (n->kind == DIRECTORY)
			apply(new, n);
		if (n->kind == WHITEOUT || n->kind == MARKED_WHITEOUT) {
			model_free(new);
			to->below[i] = NULL;
		}
	}
}

static void list(const struct node *n, const char *dir, struct listing *out)
{
	static const mode_t types[] = {[FILE_] = S_IFREG, [DIRECTORY] = S_IFDIR, [LINK] = S_IFLNK, [FIFO] = S_IFIFO};

	for (size_t i = 0; i < NAMES; i++) {
		const struct node *b = n->below[i];
		char path[64];

		if (!b || b->kind == SOCKET)
			continue;
		snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", names[i]);
		struct item *item = listing_add(out, path, types[b->kind] | b->mode);
		item->uid = b->uid;
		item->gid = b->gid;
		snprintf(item->data, sizeof(item->data), "%s", b->data);
		snprintf(item->xattr, sizeof(item->xattr), "%s", b->xattr);
		list(b, path, out);
	}
}

void model_listing(struct node *const *layers, size_t count, struct listing *out)
{
	struct node *merged = calloc(1, sizeof(*merged));

	MUST(merged);
	*out = (struct listing){0};
	for (size_t i = count; i > 0; i--)
		apply(merged, layers[i - 1]);
	list(merged, "", out);
	listing_sort(out);
	model_free(merged);
}
