/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a command: options in any spelling, their values, operands. */
#include "gate/shell.h"

static bool in_strs(const struct gate_strs *l, struct text t)
{
	for (size_t i = 0; i < l->count; i++)
		if (text_is(t, l->items[i]))
			return true;
	return false;
}

/* ---- parsing ----------------------------------------------------------------------------------------------------------------- */

struct parser {
	struct shell *sh;
	struct parsed *p;
	const struct command *c;
	size_t i;
	bool stop; /* options end at the first operand */
};

static bool takes_value(const struct parser *s, struct text name)
{
	for (size_t i = 0; i < s->p->desc_count; i++)
		if (in_strs(&s->p->descs[i]->values, name))
			return true;
	return false;
}

static void add_option(struct parser *s, struct text name, struct text value)
{
	struct option o = {name, value};
	ARENA_PUSH(s->sh->arena, s->p->options, s->p->option_count, o);
}

static void add_operand(struct parser *s, struct text t)
{
	struct parsed *p = s->p;
	size_t n = p->operand_count;
	if (!n)
		p->rest = s->i;
	ARENA_PUSH(s->sh->arena, p->operand_at, n, s->i);
	ARENA_PUSH(s->sh->arena, p->operands, p->operand_count, t);
	if (t.n == 2 && t.s[0] == MARK_ANY && t.s[1] == MARK_ANY) /* $x without quotes: see split() */
		p->maybe_more = true;
}

/* The word behind the option, if it takes one. */
static struct text next_word(struct parser *s)
{
	if (s->i + 1 >= s->c->n)
		return (struct text){NULL, 0};
	return s->c->argv[++s->i];
}

static const struct text none = {NULL, 0};

static void long_option(struct parser *s, struct text w)
{
	size_t equals = text_find(w, '=');
	struct text name = text_first(w, equals);
	if (equals < w.n)
		add_option(s, name, text_from(w, equals + 1));
	else
		add_option(s, name, takes_value(s, name) ? next_word(s) : none);
}

/* -abc: a letter that takes a value takes the rest, or the next word. */
static void cluster(struct parser *s, struct text w, size_t from)
{
	for (size_t k = from; k < w.n; k++) {
		char *letter = arena_alloc(s->sh->arena, 3);
		letter[0] = '-';
		letter[1] = w.s[k];
		struct text name = {letter, 2};
		if (is_mark(w.s[k])) {
			s->p->maybe_more = true;
			continue;
		}
		if (!takes_value(s, name)) {
			add_option(s, name, none);
			continue;
		}
		add_option(s, name, k + 1 < w.n ? text_from(w, k + 1) : next_word(s));
		return;
	}
}

/* find -exec … ; or … {} + */
static bool exec_words(struct parser *s, struct text w)
{
	bool found = false;
	for (size_t i = 0; i < s->p->desc_count; i++)
		found = found || (s->p->descs[i]->runs == RUNS_EXEC && in_strs(&s->p->descs[i]->exec, w));
	if (!found)
		return false;
	size_t from = s->i + 1, to = from;
	while (to < s->c->n && !text_is(s->c->argv[to], ";") && !(text_is(s->c->argv[to], "+") && text_is(s->c->argv[to - 1], "{}")))
		to++;
	size_t n = s->p->exec_count;
	s->p->execs = arena_grow(s->sh->arena, s->p->execs, n, sizeof(*s->p->execs));
	s->p->execs[n][0] = from;
	s->p->execs[n][1] = to;
	s->p->exec_count++;
	add_option(s, w, none);
	s->i = to;
	return true;
}

static void one_word(struct parser *s, enum gate_style style)
{
	struct text w = s->c->argv[s->i], rest = w;
	while (rest.n && rest.s[0] == MARK_ANY)
		rest = text_from(rest, 1);
	if (rest.n > 1 && rest.n < w.n && rest.s[0] == '-') /* $x-rf: $x may be nothing */
		w = rest;
	bool dash = w.n > 1 && w.s[0] == '-';
	if (style == STYLE_WORDS && (text_is(w, "(") || text_is(w, ")") || text_is(w, "!") || text_is(w, ",")))
		add_option(s, w, none);
	else if (exec_words(s, w))
		return;
	else if (style == STYLE_ASSIGN && text_find(w, '=') < w.n && !dash)
		add_option(s, text_first(w, text_find(w, '=') + 1), text_from(w, text_find(w, '=') + 1));
	else if (!dash)
		add_operand(s, w);
	else if (w.s[1] == '-' || style == STYLE_WORDS)
		long_option(s, w);
	else
		cluster(s, w, 1);
}

static void parse_words(struct parser *s, enum gate_style style)
{
	struct parsed *p = s->p;
	p->option_count = p->operand_count = p->exec_count = 0;
	p->options = NULL;
	p->operands = NULL;
	p->operand_at = NULL;
	p->execs = NULL;
	p->maybe_more = false;
	p->rest = s->c->n;
	bool ended = false;
	for (s->i = 1; s->i < s->c->n; s->i++) {
		struct text w = s->c->argv[s->i];
		run_step(s->sh->run);
		if (style == STYLE_BUNDLED && s->i == 1 && w.n && w.s[0] != '-') {
			cluster(s, w, 0);
			continue;
		}
		if (ended) {
			add_operand(s, w);
			continue;
		}
		if (text_is(w, "--") && style != STYLE_WORDS) {
			add_option(s, w, none);
			ended = true;
			continue;
		}
		one_word(s, style);
		ended = s->stop && p->operand_count > 0;
	}
}

static bool first_word_is(const char *name, struct text first)
{
	struct text t = text_of(name);
	return text_same(text_first(t, text_find(t, ' ')), first);
}

/* Everything that is known of the command: those of its descriptions that apply. */
static void choose(struct shell *sh, struct parsed *p, const void **all, size_t count, bool by_options)
{
	p->descs = arena_alloc(sh->arena, (count + 1) * sizeof(*p->descs));
	p->desc_count = 0;
	p->base = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct gate_command *d = all[i];
		bool named = false, words = false;
		for (size_t k = 0; k < d->names.count && !named; k++) {
			const char *space = strchr(d->names.items[k], ' ');
			words = space != NULL;
			named = words ? by_options && first_word_is(d->names.items[k], p->name) && name_has_words(d->names.items[k], p)
			              : pattern_match(d->names.items[k], p->name) == YES;
		}
		if (!named)
			continue;
		bool conditional = d->when.count || d->unless.count || d->bare;
		if (by_options &&
		    ((d->when.count && option_any(p, &d->when) == NO) || (d->unless.count && option_any(p, &d->unless) == YES)))
			continue;
		size_t own = words ? 1 : 0;
		if (d->bare && (!by_options || p->operand_count > own))
			continue;
		p->descs[p->desc_count++] = d;
		if (!p->base && !words && !conditional)
			p->base = d;
	}
}

void command_words(struct shell *sh, struct parsed *p, const struct command *c, struct text name)
{
	const void **all;
	p->command = c;
	p->full = c->n ? c->argv[0] : TEXT("");
	p->name = name;
	p->rest = c->n;
	size_t count = name.n ? lookup_all(&sh->language->commands, sh->arena, name, &all) : 0;
	struct parser s = {.sh = sh, .p = p, .c = c};
	if (!count) {
		parse_words(&s, STYLE_GNU);
		return;
	}
	choose(sh, p, all, count, false);
	enum gate_style style = p->base ? p->base->style : STYLE_GNU;
	s.stop = false;
	for (size_t i = 0; i < p->desc_count; i++) {
		const struct gate_command *d = p->descs[i];
		s.stop = s.stop || d->runs == RUNS_REST || d->runs == RUNS_JOINED || d->runs == RUNS_APPENDED ||
		         d->script != GATE_LANGUAGES || d->stdin_code != GATE_LANGUAGES;
	}
	parse_words(&s, style);
	/* Now that subcommand and options are known, more may apply; with what that says about values, the words are read again. */
	for (int round = 0; round < 3; round++) {
		size_t before = p->desc_count, values = 0;
		choose(sh, p, all, count, true);
		for (size_t i = 0; i < p->desc_count; i++)
			values += p->descs[i] != p->base && p->descs[i]->values.count;
		if (!values || (round && p->desc_count == before))
			break;
		parse_words(&s, style);
	}
}

/* ---- questions --------------------------------------------------------------------------------------------------------------- */

/* "git push": the words behind the first are its first operands. */
bool name_has_words(const char *pattern, const struct parsed *p)
{
	struct text rest = text_of(pattern);
	rest = text_from(rest, text_find(rest, ' ') + 1);
	for (size_t i = 0; rest.n; i++) {
		struct text word = text_first(rest, text_find(rest, ' '));
		char buf[PACK_TEXT_MAX + 1];
		rest = text_from(rest, word.n + 1);
		if (i >= p->operand_count || word.n > PACK_TEXT_MAX)
			return false;
		memcpy(buf, word.s, word.n);
		buf[word.n] = '\0';
		if (pattern_match(buf, p->operands[i]) != YES)
			return false;
	}
	return true;
}

/* --rec for --recursive: as far as the programs take it. */
static bool is_short_for(struct text given, struct text full)
{
	return given.n >= 5 && given.n < full.n && given.s[1] == '-' && memcmp(given.s, full.s, given.n) == 0;
}

static bool is_option(struct text given, const char *spelling)
{
	return text_is(given, spelling) || is_short_for(given, text_of(spelling));
}

enum sure option_given(const struct parsed *p, const char *spelling)
{
	/* "-x=text": with that value */
	const char *equals = strchr(spelling, '=');
	struct text name = equals && equals[1] ? text_first(text_of(spelling), (size_t)(equals - spelling)) : text_of(spelling);
	char buf[64];
	if (name.n >= sizeof(buf))
		return NO;
	memcpy(buf, name.s, name.n);
	buf[name.n] = '\0';
	for (size_t i = 0; i < p->option_count; i++) {
		if (!is_option(p->options[i].name, buf))
			continue;
		if (!equals || !equals[1])
			return YES;
		if (p->options[i].value.s && pattern_match_text(equals + 1, p->options[i].value) != NO)
			return pattern_match_text(equals + 1, p->options[i].value);
	}
	return p->maybe_more ? MAYBE : NO;
}

enum sure option_any(const struct parsed *p, const struct gate_strs *spellings)
{
	enum sure sure = NO;
	for (size_t i = 0; i < spellings->count && sure != YES; i++)
		sure = sure_max(sure, option_given(p, spellings->items[i]));
	return sure;
}

static struct text url_name(struct text url, bool directory)
{
	url = text_first(url, text_find(url, '?'));
	struct text name = path_base(url);
	return directory && text_ends(name, ".git") ? text_first(name, name.n - 4) : name;
}

static void one_place(struct shell *sh, const struct parsed *p, const char *place, size_t own, struct fields *out)
{
	size_t n = p->operand_count, len = strlen(place);
	if (place[0] == '-' && place[len - 1] == '@') { /* -d @file, -F name=@file */
		for (size_t i = 0; i < p->option_count; i++) {
			struct text value = p->options[i].value;
			bool named = p->options[i].name.n == len - 1 && memcmp(p->options[i].name.s, place, len - 1) == 0;
			size_t at = named && value.s ? text_find(value, '@') : 0;
			if (named && value.s && at < value.n)
				fields_add(sh, out, text_first(text_from(value, at + 1), text_find(text_from(value, at + 1), ';')));
		}
		return;
	}
	if (place[0] == '-' || place[strlen(place) - 1] == '=') {
		for (size_t i = 0; i < p->option_count; i++)
			if (is_option(p->options[i].name, place) && p->options[i].value.s)
				fields_add(sh, out, p->options[i].value);
		for (size_t i = own; i < n && place[0] != '-'; i++)
			if (text_begins(p->operands[i], place))
				fields_add(sh, out, text_from(p->operands[i], strlen(place)));
		return;
	}
	if (strcmp(place, "stdin") == 0 && p->command->in.s) {
		fields_add(sh, out, p->command->in);
		return;
	}
	if (strcmp(place, "or-cwd") == 0) {
		if (!out->n)
			fields_add(sh, out, sh->cwd);
		return;
	}
	bool all = strcmp(place, "operands") == 0, directory = strcmp(place, "url-dir") == 0,
	     url = directory || strcmp(place, "url-name") == 0, first = strcmp(place, "first") == 0, second = strcmp(place, "second") == 0,
	     last = strcmp(place, "last") == 0, but_first = strcmp(place, "but-first") == 0, but_last = strcmp(place, "but-last") == 0;
	for (size_t i = own; i < n; i++) {
		if (all || (first && i == own) || (second && i == own + 1) || (last && i + 1 == n) || (but_first && i > own) ||
		    (but_last && i + 1 < n))
			fields_add(sh, out, p->operands[i]);
		else if (url && !(directory && n > own + 1)) /* git clone URL: a directory of that name, unless one is given */
			fields_add(sh, out, url_name(p->operands[i], directory));
	}
}

static size_t words_of(const struct gate_command *d)
{
	size_t n = 0;
	for (const char *s = d->names.count ? d->names.items[0] : ""; *s; s++)
		n += *s == ' ';
	return n;
}

void place_values(struct shell *sh, const struct parsed *p, const struct gate_command *d, const struct gate_strs *places,
                  struct fields *out)
{
	for (size_t i = 0; i < places->count; i++)
		one_place(sh, p, places->items[i], d ? words_of(d) : 0, out);
}
