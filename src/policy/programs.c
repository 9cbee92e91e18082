/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/programs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "policy/match.h"

#define PROGRAMS_MAX ((size_t)65536)
#define NAMED_MAX 4 /* other names in a message */

struct program {
	dev_t dev;
	ino_t ino;
	char *path; /* inside */
};

struct programs {
	struct program *items;
	size_t count, size;
};

struct search {
	const struct cordon_policy *p;
	const struct policy_origins *o;
	policy_problem_fn *report, *remark;
	void *user;
	int problems;
};

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

static void free_programs(struct programs *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].path);
	free(list->items);
}

static int add_program(struct programs *list, const char *dir, const char *name, const struct stat *st, struct cordon_error *err)
{
	if (list->count == list->size) {
		size_t size = list->size ? list->size * 2 : 1024;
		struct program *more = realloc(list->items, size * sizeof(*more));

		if (!more)
			return out_of_memory(err);
		list->items = more;
		list->size = size;
	}
	struct program *item = &list->items[list->count];
	*item = (struct program){st->st_dev, st->st_ino, NULL};
	if (asprintf(&item->path, "%s/%s", dir, name) < 0)
		return out_of_memory(err);
	list->count++;
	return 0;
}

/* A directory that is not there, or that is a link to another one of the list, has nothing to add. */
static int list_dir(struct programs *list, const char *root, const char *dir, struct cordon_error *err)
{
	char path[PATH_MAX];
	struct stat st;
	struct dirent *entry;

	snprintf(path, sizeof(path), "%s%s", root ? root : "", dir);
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	_cleanup_dir_ DIR *d = opendir(path);
	while (d && (entry = readdir(d)) && list->count < PROGRAMS_MAX)
		if (fstatat(dirfd(d), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) &&
		    add_program(list, dir, entry->d_name, &st, err) < 0)
			return -1;
	return 0;
}

static int by_file(const void *a, const void *b)
{
	const struct program *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return strcmp(x->path, y->path);
}

static const char *name_of(const struct program *item)
{
	return strrchr(item->path, '/') + 1;
}

/* ---- names of one file -------------------------------------------------------------------------------------------------------- */

static void tell(struct search *s, const struct policy_verdict *denied, bool problem, const char *message, const char *hint)
{
	const struct policy_origin *from = origins_of(s->o, policy_key_find(denied->key), denied->rule ? denied->index : 0);
	const bool file = from->kind == ORIGIN_FILE;
	const struct policy_problem p = {file ? from->name : "policy", file ? from->line : 0, file ? from->column : 0, message, hint};

	s->problems += problem;
	(problem ? s->report : s->remark)(s->user, &p);
}

static void compare_names(struct search *s, const struct program *items, size_t count)
{
	const struct program *denied = NULL, *clash = NULL;
	struct policy_verdict why = {0}, verdict;
	_cleanup_buf_ struct buf others = {0}, message = {0};
	size_t other_count = 0;

	for (size_t i = 0; i < count && !denied; i++) {
		policy_match_program(s->p, items[i].path, &why);
		if (!why.allowed && why.rule)
			denied = &items[i];
	}
	for (size_t i = 0; denied && i < count; i++) {
		policy_match_program(s->p, items[i].path, &verdict);
		if (!verdict.allowed || strcmp(name_of(&items[i]), name_of(denied)) == 0)
			continue;
		if (strcmp(verdict.rule, "*") != 0 || strcmp(name_of(&items[i]), "sh") == 0)
			clash = &items[i];
		if (other_count++ < NAMED_MAX)
			buf_addf(&others, "%s%s", others.len ? ", " : "", name_of(&items[i]));
	}
	if (other_count == 0 || others.failed)
		return;
	if (clash)
		buf_addf(&message, "%s: '%s' and '%s', which process.allow lists, are one file: it cannot be both", why.key,
		         name_of(denied), name_of(clash));
	else
		buf_addf(&message, "%s: with '%s', the same file goes by %zu other name%s: %s%s", why.key, name_of(denied), other_count,
		         other_count == 1 ? "" : "s", others.data, other_count > NAMED_MAX ? " ..." : "");
	if (!message.failed)
		tell(s, &why, clash, message.data,
		     clash ? "take one of the two out, or give the sandbox an image where they are two files" : "");
}

int policy_check_programs(const struct cordon_policy *p, const struct policy_origins *o, const char *root, policy_problem_fn *report,
                          policy_problem_fn *remark, void *user, struct cordon_error *err)
{
	struct search s = {.p = p, .o = o, .report = report, .remark = remark, .user = user};
	struct programs list = {0};
	int r = 0;

	if (p->process.deny.count == 0)
		return 0;
	for (size_t i = 0; policy_program_dirs[i] && r == 0; i++)
		r = list_dir(&list, root, policy_program_dirs[i], err);
	if (r == 0 && list.count > 0)
		qsort(list.items, list.count, sizeof(*list.items), by_file);
	for (size_t i = 0, end; i < list.count && r == 0; i = end) {
		for (end = i + 1; end < list.count && list.items[end].dev == list.items[i].dev && list.items[end].ino == list.items[i].ino;)
			end++;
		if (end - i > 1)
			compare_names(&s, &list.items[i], end - i);
	}
	free_programs(&list);
	return r < 0 ? -1 : s.problems;
}
