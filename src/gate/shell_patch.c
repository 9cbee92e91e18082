/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the grammar does not know, or takes for something else, put in a way that it does, at the same length, so that places stay what they are:
 *
 *   a word that is broken over lines is made whole in front of the break
 *   "!" in front of a command goes: "! {" would be a command named "{"
 *   "coproc NAME {" becomes "{"
 *   "for i do" becomes "for i;do"
 *
 * And in the text that only the parser sees (the evaluator looks at what was written):
 *
 *   "<>", which opens for reading and writing, is ">>"
 *   "done <<< x" is "done   < x"
 *
 * Quotes are not looked at: within them such a text is data, or code that is parsed again, and nothing that matters is lost from either.
 */
#include "gate/shell_parts.h"

static char *writable(struct run *r, struct text t, char **out)
{
	if (!*out)
		*out = arena_copy(&r->arena, t.s, t.n);
	return *out;
}

static bool is_break(struct text t, size_t i)
{
	return i + 1 < t.n && t.s[i] == '\\' && t.s[i + 1] == '\n';
}

/* The end of a piece of a word at i: a quoted text on one line, or one byte. */
static size_t piece_end(struct text t, size_t i)
{
	char quote = t.s[i];
	if (quote != '"' && quote != '\'')
		return i + 1;
	for (size_t k = i + 1; k < t.n && t.s[k] != '\n'; k++) {
		if (t.s[k] == quote)
			return k + 1;
		k += quote == '"' && t.s[k] == '\\';
	}
	return i + 1;
}

/* The word that is broken at `at` is moved together, the breaks behind it; returns where that ends. */
static size_t join_word(char *w, size_t n, size_t at)
{
	size_t to = at, from = at, breaks = 0;
	struct text t = {w, n};
	while (from < n && !strchr(" \t\n;|&()<>", w[from])) {
		if (is_break(t, from)) {
			breaks++;
			from += 2;
			continue;
		}
		size_t end = piece_end(t, from);
		memmove(w + to, w + from, end - from);
		to += end - from;
		from = end;
	}
	for (size_t i = 0; i < breaks; i++)
		memcpy(w + to + 2 * i, "\\\n", 2);
	return from;
}

/*
 * There is a "#" in the line, in front of i, that may begin a comment: then the break is none. Whether it does depends on quotes in everything in front of it,
 * so a word that is broken there is not followed.
 */
static bool may_be_comment(struct text t, size_t i)
{
	for (; i > 0 && t.s[i - 1] != '\n'; i--)
		if (t.s[i - 1] == '#' && (i < 2 || strchr(" \t\n;|&()", t.s[i - 2])))
			return true;
	return false;
}

static void join_lines(struct run *r, struct text t, char **out)
{
	bool single = false;
	for (size_t i = 0; i + 2 < t.n; i++) {
		const char *s = *out ? *out : t.s;
		if (s[i] == '\'' && (i == 0 || s[i - 1] != '\\'))
			single = !single;
		if (single || i == 0 || !is_break((struct text){s, t.n}, i) || strchr(" \t\n;|&(", s[i - 1]) ||
		    strchr(" \t\n;|&)", s[i + 2]))
			continue;
		if (may_be_comment((struct text){s, t.n}, i)) {
			run_unproven(r, "line-break", "a word is broken over two lines where a comment may be", (uint32_t)i,
			             (uint32_t)i + 1);
			continue;
		}
		i = join_word(writable(r, t, out), t.n, i) - 1;
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* A command may begin at i: behind a separator, or a word that is followed by one. */
static bool at_command(struct text t, size_t i)
{
	static const char *const before[] = {"then", "do", "else", "elif", "if", "while", "until", "time", "{", "!"};
	while (i > 0 && is_blank(t.s[i - 1]))
		i--;
	if (i == 0)
		return true;
	if (strchr("\n;|&()", t.s[i - 1]))
		return i < 2 || t.s[i - 2] != '\\';
	for (size_t k = 0; k < sizeof(before) / sizeof(before[0]); k++) {
		size_t n = strlen(before[k]);
		if (i >= n && memcmp(t.s + i - n, before[k], n) == 0 && (i == n || strchr(" \t\n;|&(", t.s[i - n - 1])))
			return true;
	}
	return false;
}

static size_t word_end(struct text t, size_t i)
{
	while (i < t.n && !strchr(" \t\n;|&()<>", t.s[i]))
		i++;
	return i;
}

static size_t skip_blanks(struct text t, size_t i)
{
	while (i < t.n && is_blank(t.s[i]))
		i++;
	return i;
}

/* coproc COMMAND, coproc NAME { … }, coproc { … } */
static size_t coproc_end(struct text t, size_t i)
{
	size_t end = i + 6, name = skip_blanks(t, end), behind = word_end(t, name), next = skip_blanks(t, behind);
	bool named = behind > name && next > behind && next < t.n && (t.s[next] == '{' || t.s[next] == '(');
	return named && t.s[name] != '{' ? behind : end;
}

static void drop_words(struct run *r, struct text t, char **out)
{
	for (size_t i = 0; i < t.n; i++) {
		bool not = t.s[i] == '!' && i + 1 < t.n && is_blank(t.s[i + 1]);
		bool coproc = t.s[i] == 'c' && i + 7 <= t.n && memcmp(t.s + i, "coproc", 6) == 0 && is_blank(t.s[i + 6]);
		if ((!not &&!coproc) || !at_command(t, i))
			continue;
		size_t end = not ? i + 1 : coproc_end(t, i);
		memset(writable(r, t, out) + i, ' ', end - i);
		i = end - 1;
	}
}

static void for_do(struct run *r, struct text t, char **out)
{
	for (size_t i = 0; i + 4 < t.n; i++) {
		if (t.s[i] != 'f' || memcmp(t.s + i, "for", 3) != 0 || !is_blank(t.s[i + 3]) || !at_command(t, i))
			continue;
		size_t name = skip_blanks(t, i + 3), end = word_end(t, name), next = skip_blanks(t, end);
		if (end > name && next > end && next + 2 <= t.n && memcmp(t.s + next, "do", 2) == 0 &&
		    (next + 2 == t.n || strchr(" \t\n", t.s[next + 2])))
			writable(r, t, out)[end] = ';';
	}
}

struct text shell_patched(struct run *r, struct text t)
{
	char *out = NULL;
	join_lines(r, t, &out);
	drop_words(r, out ? (struct text){out, t.n} : t, &out);
	for_do(r, out ? (struct text){out, t.n} : t, &out);
	return out ? (struct text){out, t.n} : t;
}

/* "<<<" at i comes behind a statement of several commands. */
static bool behind_compound(struct text t, size_t i)
{
	static const char *const ends[] = {"}", "done", "fi", "esac", ")"};
	while (i > 0 && is_blank(t.s[i - 1]))
		i--;
	for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
		size_t n = strlen(ends[k]);
		if (i >= n && memcmp(t.s + i - n, ends[k], n) == 0 && (i == n || strchr(" \t\n;", t.s[i - n - 1]) || t.s[i - n] == ')'))
			return true;
	}
	return false;
}

struct text shell_for_parser(struct run *r, struct text t)
{
	char *out = NULL;
	for (size_t i = 0; i + 1 < t.n; i++) {
		if (t.s[i] != '<')
			continue;
		if (t.s[i + 1] == '>')
			writable(r, t, &out)[i] = '>';
		if (i + 2 < t.n && t.s[i + 1] == '<' && t.s[i + 2] == '<' && behind_compound(t, i))
			memset(writable(r, t, &out) + i, ' ', 2);
	}
	return out ? (struct text){out, t.n} : t;
}
