/* SPDX-License-Identifier: Apache-2.0 */
/* What a command writes to standard output, as far as it is known. */
#include "gate/match.h"
#include "gate/shell_run.h"

/* Unknown text that came from where its parts came from. */
static struct text tainted(struct shell *sh, unsigned marks)
{
	struct text out = TEXT("");
	for (unsigned m = MARK_DECODED; m <= MARK_LAST; m++)
		if (marks & 1u << m)
			out = text_cat(sh->arena, out, text_mark((enum text_mark)m));
	return out.n ? out : text_mark(MARK_ANY);
}

static struct text echo(struct shell *sh, const struct parsed *p)
{
	const struct command *c = p->command;
	struct fields words = {0};
	size_t i = 1;
	bool escapes = false;
	for (; i < c->n && c->argv[i].n > 1 && c->argv[i].s[0] == '-' && strspn(c->argv[i].s + 1, "neE") >= c->argv[i].n - 1; i++)
		escapes = escapes || text_find(c->argv[i], 'e') < c->argv[i].n;
	for (; i < c->n; i++)
		fields_add(sh, &words, c->argv[i]);
	struct text out = fields_join(sh, &words);
	if (escapes)
		out = unescape_ansi(sh->arena, out);
	return text_cat(sh->arena, out, TEXT("\n"));
}

static struct text octal(struct shell *sh, struct text t)
{
	unsigned n = 0;
	if (t.n > 6)
		return text_mark(MARK_ANY);
	for (size_t i = 0; i < t.n; i++) {
		if (t.s[i] < '0' || t.s[i] > '9')
			return text_mark(MARK_ANY);
		n = n * 10 + (unsigned)(t.s[i] - '0');
	}
	return text_of(arena_printf(sh->arena, "%o", n));
}

/* printf FORMAT ARG…: %s, %b and %d as they are, until the arguments are used up. */
static struct text format(struct shell *sh, const struct fields *words)
{
	struct text out = TEXT("");
	size_t arg = 1;
	if (!words->n)
		return out;
	struct text f = unescape_ansi(sh->arena, words->v[0]);
	do {
		size_t before = arg;
		for (size_t i = 0; i < f.n; i++) {
			if (f.s[i] != '%' || i + 1 >= f.n) {
				out = text_cat(sh->arena, out, (struct text){f.s + i, 1});
				continue;
			}
			if (f.s[i + 1] == '%') {
				out = text_cat(sh->arena, out, (struct text){f.s + i++, 1});
				continue;
			}
			while (i + 1 < f.n && strchr("-+ #0123456789.*(", f.s[i + 1]))
				i++;
			char kind = i + 1 < f.n ? f.s[++i] : 's';
			struct text value = arg < words->n ? words->v[arg] : TEXT("");
			arg++;
			if (kind == 'b')
				value = unescape_ansi(sh->arena, value);
			else if (kind == 'o')
				value = octal(sh, value);
			else if (!strchr("sdiq", kind))
				value = text_mark(MARK_ANY);
			out = text_cat(sh->arena, out, value);
			run_step(sh->run);
		}
		if (arg == before || out.n > TEXT_CAP)
			break;
	} while (arg < words->n);
	return out;
}

static struct text printed(struct shell *sh, const struct parsed *p)
{
	struct fields words = {0};
	const struct text *variable = NULL;
	/* The format may begin with a dash, so the words are taken as they are. */
	size_t i = 1;
	if (p->command->n > 2 && text_is(p->command->argv[1], "-v")) {
		variable = &p->command->argv[2];
		i = 3;
	} else if (p->command->n > 1 && text_is(p->command->argv[1], "--")) {
		i = 2;
	}
	for (; i < p->command->n; i++)
		fields_add(sh, &words, p->command->argv[i]);
	struct text out = format(sh, &words);
	if (!variable)
		return out;
	var_set_text(sh, *variable, out);
	return TEXT("");
}

/* What its files hold, or its standard input, if it has none or takes none (`only_input`). */
static struct text contents(struct shell *sh, const struct parsed *p, bool only_input)
{
	struct text out = TEXT("");
	bool any = false, known;
	for (size_t i = 0; i < p->operand_count && !only_input; i++) {
		if (text_is(p->operands[i], "-"))
			continue;
		any = true;
		out = text_cat(sh->arena, out, file_get(sh, p->operands[i], &known));
	}
	if (any)
		return out.n > TEXT_CAP ? text_mark(MARK_ANY) : out;
	return p->command->in.s ? p->command->in : text_mark(MARK_ANY);
}

static struct text paths(struct shell *sh, const struct gate_command *d, const struct parsed *p)
{
	struct text out = TEXT("");
	bool narrow;
	struct fields starts = {0};
	static const char *const places[] = {"operands", "or-cwd"};
	place_values(sh, p, d, d->read.count ? &d->read : &(struct gate_strs){places, 2}, &starts);
	narrow = is_narrow(p, d);
	for (size_t i = 0; i < starts.n; i++) {
		struct text path = shell_path(sh, starts.v[i]);
		/* Without anything that chooses: everything that is there. */
		out = text_cat(sh->arena, out,
		               narrow ? text_cat(sh->arena, found_below(sh, p, path), TEXT("\n"))
		                      : text_cat(sh->arena, path, TEXT("/\2\n")));
	}
	return out;
}

/* ps | awk '{print $2}': still of every process. */
static bool keeps_all(const struct gate_command *d, const struct parsed *p)
{
	struct text in = p->command->in;
	bool fits = !d->keeps.count;
	for (size_t i = 0; i < d->keeps.count && !fits && p->operand_count; i++)
		fits = pattern_match_text(d->keeps.items[i], p->operands[0]) == YES;
	return fits && in.s && text_marks(in) == 1u << MARK_GLOB;
}

static struct text by_description(struct shell *sh, const struct gate_command *d, const struct parsed *p, bool *known)
{
	struct text first = p->operand_count ? p->operands[0] : text_mark(MARK_ANY);
	*known = true;
	switch (d->output) {
	case OUTPUT_ARGS:
		return echo(sh, p);
	case OUTPUT_FORMAT:
		return printed(sh, p);
	case OUTPUT_STDIN: /* the files of tee are not what it reads */
		return contents(sh, p, !d->read.count);
	case OUTPUT_CWD:
		return sh->cwd;
	case OUTPUT_OPERANDS:
		return paths(sh, d, p);
	case OUTPUT_DIR:
		return path_parent(first);
	case OUTPUT_BASE:
		return path_base(first);
	case OUTPUT_PATH:
		return shell_path(sh, p->operand_count ? p->operands[p->operand_count - 1] : sh->cwd);
	case OUTPUT_PROGRAM:
		return text_cat(sh->arena, TEXT("/usr/bin/"), path_base(first));
	case OUTPUT_NAMES:
		return TEXT("\2\n");
	case OUTPUT_TEXT:
		return text_template(sh->gate, sh->arena, d->text ? d->text : "");
	case OUTPUT_MAPPED:
		return decode_map(sh, p, contents(sh, p, true));
	case OUTPUT_REVERSED:
		return decode_reverse(sh, contents(sh, p, false));
	case OUTPUT_BASE64:
		return decode_base64(sh, contents(sh, p, false));
	case OUTPUT_HEX:
		return decode_hex(sh, contents(sh, p, false));
	case OUTPUT_SAME:
		if (keeps_all(d, p))
			return p->command->in;
		break;
	case OUTPUT_UNKNOWN:
		if (d->builtin != BUILTIN_NONE && d->builtin != BUILTIN_SOURCE)
			return TEXT(""); /* cd, export, read say nothing */
		break;
	}
	*known = false;
	return TEXT("");
}

struct text command_output(struct shell *sh, const struct parsed *p, const struct facts *facts)
{
	unsigned marks = p->command->in.s ? text_marks(p->command->in) & MARKS_TAINT : 0;
	struct text out = TEXT("");
	bool known = false;
	for (size_t i = 0; i < p->desc_count; i++)
		marks |= p->descs[i]->taint;
	/* What it reads is in what it writes. */
	for (size_t i = 0; i < facts->at[AT_READ].n; i++) {
		bool written;
		struct text t = file_get(sh, facts->at[AT_READ].v[i], &written);
		marks |= text_marks(t) & MARKS_TAINT;
	}
	bool paths_only = false;
	for (size_t i = 0; i < p->desc_count && !known; i++) {
		out = by_description(sh, p->descs[i], p, &known);
		paths_only = known && p->descs[i]->output != OUTPUT_STDIN;
	}
	/* Files that it writes by itself: curl -o, tee, cp. */
	for (size_t i = 0; i < facts->at[AT_WRITE].n; i++) {
		bool redirected = false;
		for (size_t k = 0; k < p->command->write_count; k++)
			redirected = redirected || text_same(p->command->writes[k].path, facts->at[AT_WRITE].v[i]);
		if (!redirected && (marks || known))
			file_put(sh, facts->at[AT_WRITE].v[i], known && !marks ? out : tainted(sh, marks), false);
	}
	return known && (paths_only || !(marks & ~text_marks(out))) ? out : tainted(sh, marks);
}
