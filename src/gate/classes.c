/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/classes.h"

#include <string.h>

int class_find(const struct classes *c, const char *name)
{
	for (size_t i = 0; i < c->count; i++)
		if (strcmp(c->names[i], name) == 0)
			return (int)i;
	return -1;
}

static void add_pattern(struct classes *c, struct arena *a, const char *pattern, bool except)
{
	struct class_pattern p = {pattern, pattern_letters(pattern), (uint32_t)c->count, except};
	ARENA_PUSH(a, c->all, c->pattern_count, p);
}

bool classes_add(struct classes *c, struct arena *a, const struct gate_class *class, const char *(*fill)(void *data, const char *pattern),
                 void *data)
{
	if (c->count == CLASSES_MAX)
		return false;
	for (size_t i = 0; i < class->paths.count; i++)
		add_pattern(c, a, fill(data, class->paths.items[i]), false);
	const struct gate_strs *below[] = {&class->below, &class->except};
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < below[k]->count; i++) {
			const char *p = fill(data, below[k]->items[i]);
			add_pattern(c, a, p, k == 1);
			add_pattern(c, a, arena_printf(a, "%s/**", strcmp(p, "/") == 0 ? "" : p), k == 1);
		}
	}
	size_t n = c->count;
	ARENA_PUSH(a, c->taints, n, class->taint);
	ARENA_PUSH(a, c->names, c->count, class->name);
	return true;
}

/* The component at the beginning of a pattern, if it is plain; else nothing. */
static struct text plain_component(const char *s)
{
	size_t n = strcspn(s, "/");
	return n && strcspn(s, "*?") >= n ? (struct text){s, n} : TEXT("");
}

static void put(struct arena *a, struct map *m, struct text key, const struct class_pattern *p)
{
	void **slot = map_put(m, a, key);
	struct class_patterns *list = *slot;
	if (!list)
		*slot = list = ARENA_NEW(a, struct class_patterns);
	ARENA_PUSH(a, list->items, list->count, p);
}

void classes_index(struct classes *c, struct arena *a)
{
	for (size_t i = 0; i < c->pattern_count; i++) {
		const struct class_pattern *p = &c->all[i];
		bool anywhere = strncmp(p->pattern, "**/", 3) == 0;
		struct text key = plain_component(p->pattern + (anywhere ? 3 : p->pattern[0] == '/'));
		if (key.n)
			put(a, anywhere ? &c->by_any : &c->by_first, key, p);
		else
			ARENA_PUSH(a, c->others.items, c->others.count, p);
	}
}

struct question {
	struct text path;
	struct letters letters;
	bool maybe;      /* what is possible counts, too */
	bool files_only; /* of what is not known: there a match may be certain that is not one of letters */
};

static struct question question_of(struct text path, bool maybe)
{
	unsigned marks = text_marks(path);
	return (struct question){path, text_letters(path), maybe && marks, marks && !(marks & MARKS_DYNAMIC)};
}

static void try(const struct class_pattern *p, const struct question *q, struct class_set *f)
{
	uint64_t bit = (uint64_t)1 << p->class;
	bool miss = letters_miss(p->letters, q->letters);
	if (p->except) {
		if (!miss && pattern_covers(p->pattern, q->path))
			f->except |= bit;
		return;
	}
	if (f->yes & bit)
		return;
	if (!q->maybe || f->maybe & bit) { /* there is no more to learn than that it is certain */
		f->yes |= (!miss || q->files_only) && pattern_match_certain(p->pattern, q->path) ? bit : 0;
		return;
	}
	enum sure sure = pattern_match(p->pattern, q->path);
	if (sure == YES)
		f->yes |= bit;
	else if (sure == MAYBE)
		f->maybe |= bit;
}

static void try_all(const struct class_patterns *list, const struct question *q, struct class_set *f)
{
	for (size_t i = 0; list && i < list->count; i++)
		try(list->items[i], q, f);
}

/* .s?h: a name that begins with a dot and is not known to the end is written by somebody who looks for one that is hidden. */
static bool is_hidden_glob(struct text part)
{
	return part.n > 2 && part.s[0] == '.' && !is_mark(part.s[1]) && text_marks(part) & MARKS_FILES;
}

#define NAMED_MAX 512 /* a path with the name put in */

/* Each name that it may stand for, put in its place: nothing but the name was hidden. */
static void try_hidden(const struct classes *c, const struct question *q, size_t at, struct text part, struct class_set *f)
{
	struct text path = q->path;
	char named[NAMED_MAX], name[64];
	for (size_t i = 0; i < c->by_any.size; i++) {
		struct text key = c->by_any.slots[i].key;
		if (!key.s || key.n >= sizeof(name) || key.s[0] != '.' || path.n - part.n + key.n > sizeof(named))
			continue;
		memcpy(name, key.s, key.n);
		name[key.n] = '\0';
		if (pattern_match(name, part) != YES)
			continue;
		memcpy(named, path.s, at);
		memcpy(named + at, key.s, key.n);
		memcpy(named + at + key.n, path.s + at + part.n, path.n - at - part.n);
		struct question hidden = question_of((struct text){named, path.n - part.n + key.n}, q->maybe);
		try_all(c->by_any.slots[i].value, &hidden, f);
	}
}

/* Those that are found by a name in the path. */
static void try_known(const struct classes *c, const struct question *q, struct class_set *f)
{
	struct text path = q->path;
	bool first = true;
	for (size_t i = 0; i < path.n; first = false) {
		i += path.s[i] == '/';
		struct text part = text_first(text_from(path, i), text_find(text_from(path, i), '/'));
		if (first)
			try_all(map_get(&c->by_first, part), q, f);
		if (is_hidden_glob(part))
			try_hidden(c, q, i, part, f);
		else
			try_all(map_get(&c->by_any, part), q, f);
		i += part.n;
		if (!part.n)
			break;
	}
	try_all(&c->others, q, f);
}

static bool first_is_known(struct text path)
{
	size_t end = path.n ? 1 + text_find(text_from(path, 1), '/') : 0;
	return path.n && path.s[0] == '/' && end < path.n && text_known(text_first(path, end));
}

struct class_set classes_of(const struct classes *c, struct text path, bool maybe)
{
	struct class_set f = {0};
	/*
	 * A name in a pattern is only found where the path has it. If something is not known, any component may be any of the names, but then nothing is
	 * certain; so where only certainty counts, or what is not known are files of which the directory is known, the names that are there are enough.
	 */
	bool files = !(text_marks(path) & MARKS_DYNAMIC);
	struct question q = question_of(path, maybe);
	if (text_known(path) || ((files || !maybe) && first_is_known(path)))
		try_known(c, &q, &f);
	else
		for (size_t i = 0; i < c->pattern_count; i++)
			try(&c->all[i], &q, &f);
	return (struct class_set){f.yes & ~f.except, maybe ? f.maybe & ~f.yes & ~f.except : 0, f.except};
}
