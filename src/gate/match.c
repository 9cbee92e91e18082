/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/match.h"

#include "base/util.h"

/*
 * "D/" + everything in it (rm -rf D/∗) is as much as D itself: what is left of the path without such an end. The dot-files that the pattern leaves out
 * change nothing for whoever owned the rest.
 */
static struct text whole(struct text path)
{
	for (;;) {
		size_t slash = text_rfind(path, '/');
		struct text last = slash < path.n ? text_from(path, slash + 1) : path;
		bool glob = last.n > 0;
		for (size_t i = 0; i < last.n; i++)
			glob = glob && (last.s[i] == MARK_GLOB || last.s[i] == MARK_ONE || last.s[i] == '.');
		if (!glob || slash == path.n || text_marks(last) == 0)
			return path;
		path = slash ? text_first(path, slash) : TEXT("/");
	}
}

static bool is_below(struct text path, struct text dir)
{
	return path.n > dir.n && memcmp(path.s, dir.s, dir.n) == 0 && path.s[dir.n] == '/';
}

struct class_set path_classes(struct run *r, struct text path)
{
	const struct gate *g = r->gate;
	void **slot = map_put(&r->classes, &r->arena, path);
	if (*slot)
		return *(const struct class_set *)*slot;
	struct class_set *set = ARENA_NEW(&r->arena, struct class_set);
	struct text all = whole(path);
	/* Something below the workspace that is not known: not worth a word. */
	bool maybe = !is_below(path, g->workspace) && !is_below(path, TEXT("/tmp"));
	*set = classes_of(&g->classes, path, maybe);
	if (all.n != path.n)
		set->yes |= classes_of(&g->classes, all, false).yes & ~set->except;
	*slot = set;
	return *set;
}

static struct class_set sets_of(struct run *r, struct text value, struct text base)
{
	struct class_set none = {0};
	if (!value.n)
		return none;
	/* "~" reaches this place only where it stands for the home directory. */
	if (value.s[0] == '~' && (value.n == 1 || value.s[1] == '/'))
		value = text_cat(&r->arena, r->gate->home, text_from(value, 1));
	return path_classes(r, path_resolve(&r->arena, base, value));
}

/* The same path is asked about by many rules, one after the other. */
static struct class_set cached_sets(struct run *r, struct text value, struct text base)
{
	struct run_cache *c = &r->cache[((uintptr_t)value.s >> 4 ^ value.n) % RUN_CACHE];
	if (c->value.s != value.s || c->value.n != value.n || c->base.s != base.s || c->base.n != base.n)
		*c = (struct run_cache){value, base, sets_of(r, value, base)};
	return c->set;
}

static enum sure in_classes(struct run *r, const struct test *test, struct text value, struct text base)
{
	struct class_set set = cached_sets(r, value, base);
	return set.yes & test->in ? YES : set.maybe & test->in ? MAYBE : NO;
}

/* The same text is asked about by many rules, too. */
static const struct run_letters *cached_letters(struct run *r, struct text value)
{
	struct run_letters *c = &r->letters[((uintptr_t)value.s >> 4 ^ value.n) % RUN_CACHE];
	if (c->value.s != value.s || c->value.n != value.n)
		*c = (struct run_letters){value, text_letters(value), text_marks(value)};
	return c;
}

/* `sure` to begin with: nothing less is of interest. */
static enum sure any_text(struct run *r, const struct gate_strs *l, const struct letters *need, struct text t, enum sure sure)
{
	const struct run_letters have = *cached_letters(r, t);
	for (size_t i = 0; i < l->count && sure != YES; i++) {
		/* Without its letters a text matches for what is not known of it, and then it may, at best. */
		enum sure best = !letters_miss(need[i], have.letters) ? YES : !have.marks ? NO : have.marks & MARKS_DYNAMIC ? MAYBE : YES;
		if (best > sure)
			sure = sure_max(sure, pattern_match_text(l->items[i], t));
	}
	return sure;
}

enum sure test_text(struct run *r, const struct test *test, struct text value, struct text base)
{
	const struct gate_test *t = test->t;
	enum sure sure = YES;
	if (t->prefix) {
		if (!text_begins(value, t->prefix))
			return text_marks(value) & MARKS_DYNAMIC && value.n && is_mark(value.s[0]) ? MAYBE : NO;
		value = text_from(value, strlen(t->prefix));
	}
	if (t->known && !text_known(value))
		return NO;
	if (t->taint)
		sure = text_marks(value) & t->taint ? YES : NO;
	if (sure != NO && t->in.count)
		sure = sure_min(sure, in_classes(r, test, value, base));
	if (sure != NO && t->text.count)
		sure = sure_min(sure, any_text(r, &t->text, test->text, value, NO));
	if (sure != NO && t->except.count && any_text(r, &t->except, test->except, value, MAYBE) == YES)
		return NO;
	return sure;
}

struct text text_template(const struct gate *g, struct arena *a, const char *s)
{
	static const struct {
		const char *name;
		size_t n;
	} names[] = {{"${home}", 7}, {"${workspace}", 12}, {"${any}", 6}};
	struct text out = TEXT(""), rest = text_of(s ? s : "");
	while (rest.n) {
		size_t at = text_find(rest, '$'), k = 0;
		out = text_cat(a, out, text_first(rest, at));
		rest = text_from(rest, at);
		while (rest.n && k < ARRAY_SIZE(names) && !text_begins(rest, names[k].name))
			k++;
		if (!rest.n || k == ARRAY_SIZE(names)) {
			out = text_cat(a, out, text_first(rest, 1));
			rest = text_from(rest, 1);
			continue;
		}
		out = text_cat(a, out, k == 0 ? g->home : k == 1 ? g->workspace : text_mark(MARK_ANY));
		rest = text_from(rest, names[k].n);
	}
	return out;
}
