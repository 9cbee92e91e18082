/* SPDX-License-Identifier: Apache-2.0 */
/* One command: what it is, what it touches, what it runs. */
#include "gate/shell_run.h"

#include "base/util.h"
#include "gate/match.h"

#define WRAPPERS_MAX 24 /* around one command */

struct text command_inner(struct shell *sh, const struct command *outer, struct text *argv, size_t n)
{
	struct command c = {.argv = argv, .n = n, .start = outer->start, .end = outer->end, .in = outer->in, .depth = outer->depth + 1};
	/* What the wrapper's descriptors are, its command's are: exec sh > /dev/tcp/… */
	c.writes = outer->writes;
	c.write_count = outer->write_count;
	c.reads = outer->reads;
	c.read_count = outer->read_count;
	if (!n)
		return TEXT("");
	if (c.depth > WRAPPERS_MAX) {
		run_unproven(sh->run, "limit", "there are too many commands around it to be followed", c.start, c.end);
		return text_mark(MARK_ANY);
	}
	struct text by = sh->run->by;
	sh->run->by = outer->n ? path_base(outer->argv[0]) : by;
	struct text out = command_run(sh, &c);
	sh->run->by = by;
	return out;
}

/* ---- facts ------------------------------------------------------------------------------------------------------------------- */

static void add_fact(struct shell *sh, struct facts *f, enum gate_at at, struct text t)
{
	fields_add(sh, &f->at[at], t);
	f->set |= 1u << at;
}

/* A path, and what it is behind a link. */
static void add_path(struct shell *sh, struct facts *f, enum gate_at at, struct text path)
{
	add_fact(sh, f, at, path);
	/* Who deletes a link deletes the link; but what is below one is where it leads to. */
	struct text real = at == AT_DELETE ? link_get(sh, path_dir(shell_path(sh, path))) : link_get(sh, path);
	if (real.n && at == AT_DELETE)
		real = text_cat3(sh->arena, real, TEXT("/"), path_base(path));
	if (real.n)
		add_fact(sh, f, at, real);
}

/* find . -delete -name x: what comes behind the deed chooses nothing. */
static size_t choosing_options(const struct parsed *p)
{
	static const char *const deeds[] = {"-delete", "-exec", "-execdir", "-ok", "-okdir"};
	for (size_t k = 0; k < p->option_count; k++)
		for (size_t i = 0; i < ARRAY_SIZE(deeds); i++)
			if (text_is(p->options[k].name, deeds[i]))
				return k;
	return p->option_count;
}

bool is_narrow(const struct parsed *p, const struct gate_command *d)
{
	size_t count = choosing_options(p);
	for (size_t i = 0; i < d->narrow.count; i++) {
		for (size_t k = 0; k < count; k++) {
			const struct option *o = &p->options[k];
			/* -name '*' chooses nothing; ! -name x chooses all the rest */
			bool negated = k > 0 && (text_is(p->options[k - 1].name, "!") || text_is(p->options[k - 1].name, "-not"));
			if (text_is(o->name, d->narrow.items[i]) && !negated &&
			    !(o->value.s && (text_is(o->value, "*") || text_is(o->value, ".*"))))
				return true;
		}
	}
	return false;
}

/* -name X: something below the start of that name; else something that is not known. */
struct text found_below(struct shell *sh, const struct parsed *p, struct text start)
{
	struct text below = text_cat(sh->arena, start, TEXT("/\1"));
	for (size_t i = 0; i < p->option_count; i++) {
		struct text value = p->options[i].value;
		if (!value.s || !value.n || !(text_is(p->options[i].name, "-name") || text_is(p->options[i].name, "-iname")) ||
		    text_find(value, '[') < value.n)
			continue;
		char *name = arena_copy(sh->arena, value.s, value.n);
		for (size_t k = 0; k < value.n; k++)
			name[k] = name[k] == '*' ? MARK_GLOB : name[k] == '?' ? MARK_ONE : name[k];
		return text_cat3(sh->arena, below, TEXT("/"), (struct text){name, value.n});
	}
	return below;
}

static void add_effect(struct shell *sh, const struct parsed *p, const struct gate_command *d, const struct gate_strs *places,
                       enum gate_at at, struct facts *f)
{
	struct fields values = {0};
	if (!places->count)
		return;
	place_values(sh, p, d, places, &values);
	bool narrow = d->narrow.count && is_narrow(p, d);
	for (size_t i = 0; i < values.n; i++) {
		struct text v = values.v[i];
		if (text_is(v, "-"))
			continue;
		if (at == AT_READ && v.n > 1 && v.s[0] == '@') /* as @FILE: the words in it */
			v = text_from(v, 1);
		/* Something below it: which, is not known. */
		add_path(sh, f, at, narrow ? found_below(sh, p, v) : v);
	}
}

/* @FILE, KEY=FILE, file://FILE: what is a path of it. */
static struct text path_within(struct text t)
{
	static const char scheme[] = "file://";
	const char *url = memmem(t.s, t.n, scheme, sizeof(scheme) - 1);
	if (url)
		return text_from(t, (size_t)(url - t.s) + sizeof(scheme) - 1);
	size_t slash = text_find(t, '/'), at = slash;
	while (at > 0 && !strchr("@=:", t.s[at - 1]))
		at--;
	bool address = slash + 1 < t.n && t.s[slash + 1] == '/';
	return at && !address ? text_from(t, at) : t;
}

static bool looks_like_path(struct text t)
{
	if (t.n > 255 || text_find(t, '/') == t.n)
		return false;
	for (size_t i = 0; i < t.n; i++)
		if (strchr(" \t\n;|&", t.s[i]))
			return false;
	return true;
}

static void effects(struct shell *sh, const struct parsed *p, struct facts *f)
{
	for (size_t i = 0; i < p->desc_count; i++) {
		const struct gate_command *d = p->descs[i];
		add_effect(sh, p, d, &d->read, AT_READ, f);
		add_effect(sh, p, d, &d->write, AT_WRITE, f);
		add_effect(sh, p, d, &d->remove, AT_DELETE, f);
		add_effect(sh, p, d, &d->change, AT_CHANGE, f);
		add_effect(sh, p, d, &d->send, AT_SEND, f);
	}
	/* A command that nothing is known about may read whatever it is given. */
	for (size_t i = 0; i < p->operand_count && !p->desc_count; i++)
		if (looks_like_path(p->operands[i]))
			add_path(sh, f, AT_READ, path_within(p->operands[i]));
	for (size_t i = 0; i < p->option_count && !p->desc_count; i++)
		if (p->options[i].value.s && looks_like_path(p->options[i].value))
			add_path(sh, f, AT_READ, path_within(p->options[i].value));
	for (size_t i = 1; i < p->command->n && p->desc_count; i++)
		if (text_begins(p->command->argv[i], "file://"))
			add_path(sh, f, AT_READ, path_within(p->command->argv[i]));
	/* Of what is sent, also what is in it. */
	for (size_t i = 0, n = f->at[AT_SEND].n; i < n; i++) {
		bool known;
		struct text content = file_get(sh, f->at[AT_SEND].v[i], &known);
		if (text_marks(content) & MARKS_TAINT)
			add_fact(sh, f, AT_SEND, content);
	}
}

static void redirections(struct shell *sh, const struct command *c, struct facts *f)
{
	for (size_t i = 0; i < c->write_count; i++)
		add_path(sh, f, AT_WRITE, c->writes[i].path);
	for (size_t i = 0; i < c->read_count; i++)
		add_path(sh, f, AT_READ, c->reads[i]);
	if (c->in.s)
		add_fact(sh, f, AT_STDIN, c->in);
}

/* ---- code that a command is given -------------------------------------------------------------------------------------------- */

/* A file that is read and written behind its end grows for ever. */
static void self_append(struct shell *sh, const struct command *c, const struct facts *f)
{
	for (size_t i = 0; i < c->write_count; i++)
		for (size_t k = 0; c->writes[i].append && k < f->at[AT_READ].n; k++)
			if (text_known(f->at[AT_READ].v[k]) &&
			    text_same(shell_path(sh, c->writes[i].path), shell_path(sh, f->at[AT_READ].v[k])))
				match_shape(sh, SHAPE_SELF_APPEND, c->start, c->end);
}

static bool is_dynamic(struct text code)
{
	for (size_t i = 0; i < code.n; i++)
		if (!is_mark(code.s[i]) && !strchr(" \t\n", code.s[i]))
			return false;
	return true;
}

static struct text in_own_shell(struct shell *sh, const struct command *c, struct text code, const struct fields *args)
{
	struct saved saved = shell_fork(sh);
	sh->in = c->in;
	if (args) {
		sh->positional = *args;
		sh->positional_known = true;
	}
	struct text out = shell_text(sh, code, c->start, c->end);
	shell_join(sh, saved);
	return out;
}

struct text command_code(struct shell *sh, const struct command *c, enum gate_language language, struct text code, bool in_shell,
                         const struct fields *args)
{
	if (!code.n)
		return TEXT("");
	if (is_dynamic(code)) {
		/* Where it came from decides, if that is known: rules are about that. */
		if (!(text_marks(code) & MARKS_TAINT))
			run_unproven(sh->run, "dynamic-code", "it runs code that is not known from the text", c->start, c->end);
		return text_mark(MARK_ANY);
	}
	if (in_shell)
		return shell_text(sh, code, c->start, c->end);
	struct text by = sh->run->by, out = text_mark(MARK_ANY);
	sh->run->by = c->n ? path_base(c->argv[0]) : by;
	if (language != GATE_SHELL)
		run_code(sh->run, language, code, c->start, c->end);
	else
		out = in_own_shell(sh, c, code, args);
	sh->run->by = by;
	return out;
}

static bool fits(const struct gate_code *g, struct text *value)
{
	bool ok = !g->text.count;
	for (size_t i = 0; i < g->text.count && !ok; i++)
		ok = pattern_match_text(g->text.items[i], *value) != NO;
	if (!ok || !g->after)
		return ok;
	size_t n = strlen(g->after);
	for (size_t i = 0; i + n <= value->n; i++) {
		if (memcmp(value->s + i, g->after, n) == 0) {
			*value = text_from(*value, i + n);
			return true;
		}
	}
	return false;
}

struct source_code {
	struct text text;
	enum gate_language language;
	struct fields args;
	bool has_args;
};

struct sources {
	struct source_code *list;
	size_t n;
};

static void add_source(struct shell *sh, struct sources *s, struct source_code code)
{
	ARENA_PUSH(sh->arena, s->list, s->n, code);
}

struct fields operands_from(struct shell *sh, const struct parsed *p, size_t from)
{
	struct fields f = {0};
	for (size_t i = from; i < p->operand_count; i++)
		fields_add(sh, &f, p->operands[i]);
	return f;
}

struct fields words_from(const struct parsed *p, size_t from)
{
	size_t at = from < p->operand_count ? p->operand_at[from] : p->command->n;
	while (from && at < p->command->n && text_begins(p->command->argv[at], "-")) /* ssh HOST -t COMMAND */
		at++;
	return (struct fields){p->command->argv + at, p->command->n - at};
}

static enum gate_language language_of(struct text script, enum gate_language by_name)
{
	static const struct {
		const char *name;
		enum gate_language language;
	} known[] = {{"python", GATE_PYTHON}, {"node", GATE_JAVASCRIPT}, {"ruby", GATE_RUBY}, {"perl", GATE_PERL}, {"awk", GATE_AWK}};
	struct text line = text_first(script, text_find(script, '\n'));
	if (!text_begins(line, "#!"))
		return by_name;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (memmem(line.s, line.n, known[i].name, strlen(known[i].name)))
			return known[i].language;
	return GATE_SHELL;
}

/* Code in options, operands, standard input or a file; and what rules may want to know about it. */
static void find_code(struct shell *sh, const struct parsed *p, struct facts *f, struct sources *s)
{
	const struct command *c = p->command;
	bool given = false;
	for (size_t i = 0; i < p->desc_count; i++) {
		const struct gate_command *d = p->descs[i];
		for (size_t k = 0; k < d->code.count; k++) {
			struct fields values = {0};
			place_values(sh, p, d, &d->code.items[k].at, &values);
			for (size_t v = 0; v < values.n; v++) {
				struct text code = values.v[v];
				if (!fits(&d->code.items[k], &code))
					continue;
				given = true;
				add_fact(sh, f, AT_CODE, code);
				/* sh -c CODE NAME ARG…: the first operand is $0 */
				add_source(sh, s, (struct source_code){code, d->code.items[k].language, operands_from(sh, p, 1), true});
			}
		}
	}
	for (size_t i = 0; i < p->desc_count && !given; i++) {
		const struct gate_command *d = p->descs[i];
		struct text script = p->operand_count ? p->operands[0] : TEXT("-");
		bool from_stdin = text_is(script, "-") || text_is(script, "/dev/stdin") || text_is(script, "/dev/fd/0") ||
		                  (d->stdin_with.count && option_any(p, &d->stdin_with) == YES);
		bool known = false;
		if (d->stdin_code != GATE_LANGUAGES && from_stdin && c->in.s) {
			bool all = d->stdin_with.count && option_any(p, &d->stdin_with) == YES;
			add_fact(sh, f, AT_CODE, c->in);
			add_source(sh, s, (struct source_code){c->in, d->stdin_code, operands_from(sh, p, all ? 0 : 1), true});
		} else if (d->script != GATE_LANGUAGES && p->operand_count && !from_stdin) {
			struct text content = file_get(sh, script, &known);
			if (known) {
				add_fact(sh, f, AT_SCRIPT, content);
				add_source(sh, s,
				           (struct source_code){content, language_of(content, d->script), operands_from(sh, p, 1), true});
			}
		}
	}
}

/* ssh HOST < SCRIPT: without a command it runs what it reads. */
static void find_session(struct shell *sh, const struct parsed *p, struct facts *f, struct sources *s)
{
	struct text in = p->command->in;
	for (size_t i = 0; i < p->desc_count && in.s; i++) {
		const struct gate_command *d = p->descs[i];
		if (d->runs != RUNS_JOINED || !d->skip || p->operand_count != (size_t)d->skip || is_dynamic(in))
			continue;
		add_fact(sh, f, AT_CODE, in);
		add_source(sh, s, (struct source_code){.text = in, .language = GATE_SHELL});
	}
}

/* eval and trap: what they will run. */
static void find_line(struct shell *sh, const struct parsed *p, struct facts *f)
{
	for (size_t i = 0; i < p->desc_count; i++) {
		const struct gate_command *d = p->descs[i];
		struct fields rest = words_from(p, (size_t)d->skip);
		if (d->runs == RUNS_JOINED && rest.n)
			add_fact(sh, f, AT_CODE, fields_join(sh, &rest));
		if (d->runs == RUNS_OPERAND && rest.n)
			add_fact(sh, f, AT_CODE, rest.v[0]);
	}
}

/* A program that was written, or fetched, a moment ago. */
static void find_program(struct shell *sh, const struct parsed *p, struct facts *f, struct sources *s)
{
	bool known;
	if (text_find(p->full, '/') == p->full.n)
		return;
	struct text content = file_get(sh, p->full, &known);
	if (!known)
		return;
	add_fact(sh, f, AT_SCRIPT, content);
	struct fields args = {0};
	for (size_t i = 1; i < p->command->n; i++)
		fields_add(sh, &args, p->command->argv[i]);
	add_source(sh, s, (struct source_code){content, language_of(content, GATE_SHELL), args, true});
}

/* ---- a command --------------------------------------------------------------------------------------------------------------- */

static struct text understood(struct shell *sh, const struct command *c, struct text name)
{
	struct parsed p = {0};
	struct facts facts = {0};
	struct sources code = {0};
	struct text out = TEXT("");
	bool ran = false;
	command_words(sh, &p, c, name);
	redirections(sh, c, &facts);
	if (c->n) {
		add_fact(sh, &facts, AT_NAME, c->argv[0]);
		if (sh->run->by.n)
			add_fact(sh, &facts, AT_BY, sh->run->by);
		effects(sh, &p, &facts);
		find_code(sh, &p, &facts, &code);
		find_line(sh, &p, &facts);
		find_session(sh, &p, &facts, &code);
		find_program(sh, &p, &facts, &code);
	}
	match_command(sh, &p, &facts);
	if (p.desc_count)
		self_append(sh, c, &facts);
	bool in_shell = false;
	for (size_t i = 0; i < p.desc_count; i++) {
		command_builtin(sh, &p, p.descs[i]);
		in_shell = in_shell || p.descs[i]->builtin == BUILTIN_SOURCE;
	}
	for (size_t i = 0; i < code.n; i++) {
		out = command_code(sh, c, code.list[i].language, code.list[i].text, in_shell,
		                   code.list[i].has_args ? &code.list[i].args : NULL);
		ran = ran || code.list[i].language == GATE_SHELL;
	}
	for (size_t i = 0; i < p.desc_count && !code.n; i++) {
		bool this_ran;
		struct text more = command_others(sh, &p, p.descs[i], &this_ran);
		if (this_ran) {
			out = more;
			ran = true;
		}
	}
	if (!ran && !code.n)
		command_embedded(sh, &p);
	if (c->self && (sh->background || sh->pipes))
		match_shape(sh, SHAPE_SELF_SPAWN, c->start, c->end);
	return ran ? out : command_output(sh, &p, &facts);
}

/* What an alias stands for, with the words behind it. */
static struct text run_alias(struct shell *sh, const struct command *c, struct text name, struct text value)
{
	struct text line = value;
	*map_put(&sh->aliases, sh->arena, name) = NULL; /* it does not mean itself */
	for (size_t i = 1; i < c->n; i++)
		line = text_cat3(sh->arena, line, TEXT(" "), c->argv[i]);
	struct text out = shell_text(sh, line, c->start, c->end);
	struct text *back = ARENA_NEW(sh->arena, struct text);
	*back = value;
	*map_put(&sh->aliases, sh->arena, name) = back;
	return out;
}

/* A name with patterns in it: each command that is known and could be meant. */
static struct text run_guesses(struct shell *sh, const struct command *c, struct text pattern)
{
	const struct map *known = &sh->language->commands.exact;
	size_t tried = 0;
	for (size_t i = 0; i < known->size && tried < 4; i++) {
		struct text name = known->slots[i].key;
		char buf[64];
		if (!name.s || name.n >= sizeof(buf))
			continue;
		memcpy(buf, name.s, name.n);
		buf[name.n] = '\0';
		if (pattern_match(buf, pattern) == NO)
			continue;
		tried++;
		understood(sh, c, name);
	}
	return text_mark(MARK_ANY);
}

static struct text without_marks(struct shell *sh, struct text t)
{
	char *out = arena_alloc(sh->arena, t.n);
	size_t n = 0;
	for (size_t i = 0; i < t.n; i++)
		if (!is_mark(t.s[i]))
			out[n++] = t.s[i];
	return (struct text){out, n};
}

/* The name is not known to the last letter. */
static struct text unknown_name(struct shell *sh, const struct command *c, struct text name)
{
	unsigned marks = text_marks(name);
	if (!c->self)
		run_unproven(sh->run, "dynamic-command", "which command this is, is not known from the text", c->start, c->end);
	if (!(marks & MARKS_DYNAMIC))
		return run_guesses(sh, c, name);
	/* If what is not known is nothing, it may still be a name. */
	struct text guess = without_marks(sh, name);
	return understood(sh, c, guess);
}

struct text command_run(struct shell *sh, struct command *c)
{
	if (!run_enter(sh->run, c->start))
		return text_mark(MARK_ANY);
	struct text out, full = c->n ? c->argv[0] : TEXT(""), name = path_base(full);
	struct function_def *f = c->n && !c->depth ? map_get(&sh->functions, full) : NULL;
	const struct text *alias = c->n && !c->depth ? map_get(&sh->aliases, full) : NULL;
	if (f) {
		struct text in = sh->in;
		sh->in = c->in;
		struct command redirected = *c;
		redirected.n = 0;
		if (c->write_count)
			understood(sh, &redirected, TEXT(""));
		out = shell_call(sh, f, c->argv + 1, c->n - 1, c->start, c->end);
		sh->in = in;
	} else if (alias) {
		out = run_alias(sh, c, full, *alias);
	} else if (text_known(name)) {
		out = understood(sh, c, name);
	} else {
		out = unknown_name(sh, c, name);
	}
	run_leave(sh->run);
	return out;
}
