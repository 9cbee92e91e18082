/* SPDX-License-Identifier: Apache-2.0 */
/* What a shell remembers: variables, files that were written, where it is. */
#include "gate/match.h"
#include "gate/shell.h"

#define UNDO_MAX 100000

/* ---- variables --------------------------------------------------------------------------------------------------------------- */

struct var *var_find(struct shell *sh, struct text name)
{
	struct var *v = map_get(&sh->vars, name);
	return v && v->count ? v : NULL;
}

static struct var *var_make(struct shell *sh, struct text name)
{
	void **slot = map_put(&sh->vars, sh->arena, name);
	if (!*slot)
		*slot = ARENA_NEW(sh->arena, struct var);
	return *slot;
}

static void remember(struct shell *sh, struct var *v)
{
	struct undo u = {v, *v};
	if (!sh->subshells)
		return;
	if (sh->undo_count >= UNDO_MAX)
		run_stop(sh->run, "the text takes more steps than a check may make");
	ARENA_PUSH(sh->arena, sh->undo, sh->undo_count, u);
}

static bool same_fields(const struct fields *a, const struct fields *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!text_same(a->v[i], b->v[i]))
			return false;
	return true;
}

void var_set(struct shell *sh, struct text name, struct fields value, bool list)
{
	struct var *v = var_make(sh, name);
	if (v->list == list && v->count == 1 && same_fields(&v->alts[0], &value))
		return;
	remember(sh, v);
	sh->own_changes++;
	v->list = list;
	/* On one side of a condition, or in a loop, what was there before may be there still. */
	if (!sh->conditions || !v->count) {
		v->alts[0] = value;
		v->count = 1;
		return;
	}
	for (size_t i = 0; i < v->count; i++)
		if (same_fields(&v->alts[i], &value))
			return;
	if (v->count == ALTS)
		v->count--;
	v->alts[v->count++] = value;
}

void var_set_text(struct shell *sh, struct text name, struct text value)
{
	struct fields f = {0};
	fields_add(sh, &f, value);
	var_set(sh, name, f, false);
}

void var_unset(struct shell *sh, struct text name)
{
	struct var *v = map_get(&sh->vars, name);
	if (!v)
		return;
	remember(sh, v);
	sh->own_changes++;
	if (!sh->conditions)
		v->count = 0;
}

bool var_value(struct shell *sh, struct text name, struct fields *out)
{
	const struct var *v = var_find(sh, name);
	if (!v)
		return false;
	if (v->count > sh->alt_max)
		sh->alt_max = v->count;
	*out = v->alts[sh->alt % v->count];
	return true;
}

/* ---- processes --------------------------------------------------------------------------------------------------------------- */

struct saved shell_fork(struct shell *sh)
{
	sh->subshells++;
	return (struct saved){.undo = sh->undo_count,
	                      .own_changes = sh->own_changes,
	                      .cwd = sh->cwd,
	                      .oldpwd = sh->oldpwd,
	                      .in = sh->in,
	                      .positional = sh->positional,
	                      .positional_known = sh->positional_known};
}

void shell_join(struct shell *sh, struct saved s)
{
	while (sh->undo_count > s.undo) {
		const struct undo *u = &sh->undo[--sh->undo_count];
		*u->var = u->old;
	}
	sh->own_changes = s.own_changes;
	sh->subshells--;
	sh->cwd = s.cwd;
	sh->oldpwd = s.oldpwd;
	sh->in = s.in;
	sh->positional = s.positional;
	sh->positional_known = s.positional_known;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

struct text shell_path(struct shell *sh, struct text path)
{
	return path_resolve(sh->arena, sh->cwd, path);
}

void file_put(struct shell *sh, struct text path, struct text content, bool append)
{
	struct text key = shell_path(sh, path);
	/* "$tmp" is the same file each time: its name has a part that is not known, but the same one. */
	if (!key.n || key.s[0] != '/' || text_is(key, "/dev/null"))
		return;
	void **slot = map_put(&sh->files, sh->arena, key);
	struct text *old = *slot, *now = ARENA_NEW(sh->arena, struct text);
	*now = append && old ? text_cat(sh->arena, *old, content) : content;
	if (now->n > TEXT_CAP)
		*now = text_mark(MARK_ANY);
	sh->changes += !old || !text_same(*old, *now);
	*slot = now;
}

void files_verified(struct shell *sh)
{
	for (size_t i = 0; i < sh->files.size; i++) {
		struct text *t = sh->files.slots[i].key.s ? sh->files.slots[i].value : NULL;
		if (t && text_marks(*t) & 1u << MARK_DOWNLOADED) { /* now it is a file as any other */
			sh->files.slots[i].value = NULL;
			sh->changes++;
		}
	}
}

struct text file_get(struct shell *sh, struct text path, bool *known)
{
	struct text key = shell_path(sh, path);
	const struct text *t = map_get(&sh->files, key);
	/* What is in a directory that was fetched or unpacked came with it. */
	for (struct text dir = key; !t && sh->files.count && dir.n > 1;) {
		dir = path_dir(dir);
		t = map_get(&sh->files, dir);
		if (t && !(text_marks(*t) & MARKS_TAINT))
			t = NULL;
	}
	*known = t != NULL;
	if (t)
		return *t;
	const struct classes *classes = &sh->gate->classes;
	uint64_t in = path_classes(sh->run, key).yes;
	for (size_t i = 0; in && i < classes->count; i++)
		for (unsigned mark = MARK_DECODED; in >> i & 1 && classes->taints[i] && mark <= MARK_LAST; mark++)
			if (classes->taints[i] & 1u << mark)
				return text_mark((enum text_mark)mark);
	return text_mark(MARK_ANY);
}

/* ---- links ------------------------------------------------------------------------------------------------------------------- */

void link_put(struct shell *sh, struct text path, struct text target)
{
	struct text key = shell_path(sh, path), *to = ARENA_NEW(sh->arena, struct text);
	*to = path_resolve(sh->arena, path_dir(key), target);
	if (!text_same(key, *to)) {
		*map_put(&sh->links, sh->arena, key) = to;
		sh->changes++;
	}
}

struct text link_get(struct shell *sh, struct text path)
{
	struct text whole = shell_path(sh, path);
	for (struct text dir = whole; sh->links.count && dir.n > 1; dir = path_dir(dir)) {
		const struct text *to = map_get(&sh->links, dir);
		if (to)
			return text_cat(sh->arena, *to, text_from(whole, dir.n));
		if (dir.s[0] != '/')
			break;
	}
	return TEXT("");
}
