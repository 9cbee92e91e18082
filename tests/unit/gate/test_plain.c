/* SPDX-License-Identifier: Apache-2.0 */
/* Plain shell is read without the grammar, into the same nodes; and a newline ends a command, whatever the grammar says. */
#include "gate_case.h"

#include <stdlib.h>

#include "gate/index.h"
#include "gate/plain.h"

/* ---- one reading against the other ------------------------------------------------------------------------------------------- */

struct compared {
	const char *text;
	size_t len;
	size_t plain; /* bytes that were … */
	size_t first; /* … at the beginning */
	bool same;
};

/* The root is not compared: it is the one of the whole script. */
static bool same_nodes(const struct tree *a, const struct plain *b)
{
	return a->error == a->error_end && a->count == b->count &&
	       memcmp(a->nodes + 1, b->nodes + 1, (a->count - 1) * sizeof(*a->nodes)) == 0;
}

/* Each statement that is plain, alone. */
static void compare(struct run *r, void *data)
{
	struct compared *c = data;
	c->same = true;
	for (size_t at = 0; at < c->len && c->same;) {
		struct source *s = ARENA_NEW(&r->arena, struct source);
		struct plain p = {.run = r, .text = c->text + at, .end = (uint32_t)(c->len - at)};
		const char *newline = memchr(c->text + at, '\n', c->len - at);
		struct tree tree;
		ARENA_PUSH(&r->arena, p.nodes, p.count, (struct node){0});
		if (!plain_line(&p)) {
			at = newline ? (size_t)(newline - c->text) + 1 : c->len;
			continue;
		}
		*s = (struct source){.text = p.text, .len = p.at};
		r->source = s;
		tree_read_whole(r, r->gate->languages[GATE_SHELL].grammar, &tree);
		c->same = same_nodes(&tree, &p);
		c->plain += p.at;
		c->first = at ? c->first : p.at;
		at += p.at;
	}
}

static struct compared compared(const char *text)
{
	struct compared c = {.text = text, .len = strlen(text)};
	struct gate_result result;
	struct cordon_error err = {0};
	if (run_check(gate, compare, &c, &result, &err) < 0)
		fail_msg("%s", err.message);
	gate_result_free(&result);
	return c;
}

static const char *const plain_texts[] = {
	"ls -la a/b 12 x=y --foo=bar *.c ~/x http://x.y/z?a=b a:b %s +x @x\n",
	"make && ./run || exit 1; echo $? & wait\n",
	"cat a | sort -u | head -n 3 > b 2>&1\n",
	"a > b | c 2>/dev/null && d >> e < f &> g\n",
	"a > b c > d\n",
	"x && a > b | c\n",
	"A=1\nB=\"$x\"\nC=\nD=$(ls -l | wc -l); E=a/b\n",
	"A=1 B='2' make \"$x\" all\n",
	"export A B=1 C=\"$d\"\nlocal x y=$1\n",
	"echo \"a $b ${c} ${d:-e} $(f \"$g\" | h) $1 $@ \\\" \\$x !\" 'x\ny' \"\" ''\n",
	"echo \" \" \"  $a\" \"$a $b\" \"$a ${b} $(c) \" \" x\"\n",
	"echo a\"b\"c 'x'$y $a$b $a/b ${c}d x=$y\n",
	"\"$x\" a\n$y b\n./z\n/bin/w\n",
	"if [ -f x ]; then\n\ta\nelif [ \"$1\" != \"\" ]; then b; c\nelse\n\td # e\nfi # f\n",
	"if a\nthen b; fi > c\n",
	"for f in a \"$b\" *.c; do\n\tx \"$f\"\ndone > y\n",
	"while read -r l; do a; done < x | b\nuntil a; do b & done\n",
	"f() {\n\tlocal x=\"$1\"\n\ty\n} # z\ng()\t{ a; b\n}\n{ a; b; } 2>c\n",
	"case \"$1\" in\nstart|stop) a; b ;;\nh) ;;\n# c\n*)\n\td\n\t;;\nesac\n",
	"cat > x <<EOF\na 'b' \"c\n\n  d\nEOF\ncat <<'E'\n$a `b`\nE\n",
	"  a\t  b  \n\n# c\n\t\n  d\n",
};

static void plain_shell_is_what_the_grammar_reads(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(plain_texts); i++) {
		struct compared c = compared(plain_texts[i]);
		if (!c.same || c.plain != c.len)
			fail_msg("%s: %zu of %zu bytes are plain in\n%s", c.same ? "the same" : "not the same", c.plain, c.len,
			         plain_texts[i]);
	}
}

/* What the grammar reads in a way of its own, or what nobody wrote a reader for. */
static const char *const refused[] = {
	"a=1 b=2\n",
	"a - 2>f\n",
	"a _ 2\n",
	"a | b | c && d\n",
	"a $b/c$d\n",
	"_=1\n",
	"A=|b\n",
	"f() { a; } > b\n",
	"echo \"((1))\"\n",
	"echo \"$a\\ \"\n",
	"[ -d ~a/b1 ]\n",
	"git == a\n",
	"a\\\nb\n",
	"a \\b\n",
	"a `b`\n",
	"a $((1 + 2))\n",
	"a {b,c}\n",
	"a [bc]\n",
	"[[ a ]]\n",
	"(a)\n",
	"! a\n",
	"a <<< b\n",
	"cat <<EOF\n\nEOF\n",
	"cat <<EOF\n",
	"cat <<E\nE2\nE\n",
	"cat <<E\n$a\nE\n",
	"cat <<E\n\\\nE\n",
	"a=(b c)\n",
	"unset a\n",
	"time a\n",
	"function f { a; }\n",
	"case() { a & }\n",
	"done() { a; }\n",
	"if a; then b\n",
	"if a; then b; else c\n\nfi\n",
	"fi\n",
	"a |\nb\n",
	"a &&\nb\n",
	"a \"b\nc\"\n",
	"a \"b\n",
	"a 'b\n",
	"a \xc3\xa9\n",
	"a \1\n",
	"a\r\n",
	"case a in b) c;; esac\n",
	"case $x in\n*)a ;;\nesac\n",
	"a>b\n",
	"a 2>&-\n",
	"> a\n",
	"a:b c\n",
	"a%b\n",
	"a()\n{ b; }\n",
	"7z a\n",
	"a=b",
	"a",
};

static void what_is_not_plain_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct compared c = compared(refused[i]);
		if (c.first)
			fail_msg("%zu bytes are plain in\n%s", c.first, refused[i]);
	}
}

/* ---- made-up scripts --------------------------------------------------------------------------------------------------------- */

static uint64_t seed;

static size_t below(size_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (size_t)(seed >> 20) % n;
}

static const char *const tokens[] = {
	"a",   "ls",   "git",    "x=1",     "Y=",        "Z=$a",   "A=\"$b\"", "-la",    "--k=v", "12",       "-1",    "0",     "_x",
	"*.c", "a/b",  "./x",    "~",       "@",         "%",      ":",        "a:b",    "a=b",   "=",        "\"s\"", "\" \"", "\"$a $b\"",
	"'q'", "$a",   "${b}",   "${c:-d}", "$1",        "$@",     "$(ls)",    "$(a|b)", "|",     "|",        "&&",    "||",    ";",
	"&",   ">",    "2>",     "2>&1",    "<",         "if",     "then",     "else",   "fi",    "for x in", "do",    "done",  "while",
	"{",   "}",    "[",      "]",       "-f",        "!=",     "export",   "local",  "f()",   "#",        "case",  "in\n",  "a)",
	";;",  "esac", "<<E\n",  "E\n",     "\n",        "\n",     "\n",       "\n",     "\n",    "\n",       "\\",    "`",     "(",
	")",   "!",    "x\"y\"", "$a$b",    "\"${x}y\"", "then\n", "do\n",
};

static void made_up_scripts_are_read_alike(void **state)
{
	(void)state;
	size_t plain = 0;
	seed = 20240229;
	for (size_t i = 0; i < 20000; i++) {
		char text[512];
		size_t len = 0, count = 1 + below(14);
		for (size_t k = 0; k < count; k++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", tokens[below(ARRAY_SIZE(tokens))],
			                        below(9) ? " " : "");
		snprintf(text + len, sizeof(text) - len, "\n");
		struct compared c = compared(text);
		if (!c.same)
			fail_msg("not the same:\n%s", text);
		plain += c.plain > 0;
	}
	assert_true(plain > 3000);
}

/* ---- newlines ---------------------------------------------------------------------------------------------------------------- */

static void a_newline_ends_a_command(void **state)
{
	(void)state;
	static const struct gate_case cases[] = {
		DENY("a | b | c\nrm -rf / || true", "delete-vital"),
		DENY("a | b | c\nexport A=b\nrm -rf / && true\n", "delete-vital"),
		DENY("true\n\\rm -rf /\n", "delete-vital"),
		DENY("a|b|c\nrm -rf / <<EOF\nx\nEOF\n", "delete-vital"),
		DENY("a\n> x rm -rf /\n", "delete-vital"),
		DENY("a=1 b=2\nif x; then rm -rf /; fi\n", "delete-vital"),
		/* … of which the first line is not plain, or not the beginning of a statement */
		DENY("a `x` | b | c\nrm -rf / || true\n", "delete-vital"),
		DENY("a `x` | b | c # d\nrm -rf / || true\n", "delete-vital"),
		DENY("if x; then\n\ta `x` | b | c\n\trm -rf / || true\nfi\n", "delete-vital"),
		DENY("f() {\n\ta {1,2}\n\t\\rm -rf /\n}\nf\n", "delete-vital"),
		/* a newline that ends none */
		ALLOW("a `x` | b \\\n\t| echo \\\n\trm -rf / || true\n"),
		ALLOW("a `x` |\n\tb &&\n\tc\n"),
		ALLOW("cat `x` <<A\nrm -rf /\nA\n"),
		ALLOW("a `x` '\nrm -rf /\n' \"\nrm -rf /\n\"\n"),
	};
	CHECK(cases);
}

/* What is found behind a line that is not plain is where it is in the text. */
static void places_are_those_of_the_text(void **state)
{
	(void)state;
	static const char text[] = "true\necho `x`\n\n  ls; rm -rf /etc # a\nls \\\n  x\nrm -rf /usr\nrm -rf /bin";
	struct gate_result r;
	assert_int_equal(gate_shell(gate, text, strlen(text), &r, NULL), 0);
	static const uint32_t lines[] = {4, 7, 8}, columns[] = {7, 1, 1};
	size_t found = 0;
	for (size_t i = 0; i < r.count; i++) {
		if (strcmp(r.items[i].rule, "delete-vital") != 0)
			continue;
		assert_true(found < ARRAY_SIZE(lines));
		assert_int_equal(r.items[i].line, lines[found]);
		assert_int_equal(r.items[i].column, columns[found]);
		found++;
	}
	assert_int_equal(found, ARRAY_SIZE(lines));
	gate_result_free(&r);
}

/* Longer than any piece, with what is not plain in between: pieces do not end within a line. */
static void a_long_script_has_no_errors_of_its_own(void **state)
{
	(void)state;
	const size_t size = 200000;
	char *text = malloc(size + 256);
	size_t len = 0;
	assert_non_null(text);
	for (size_t i = 0; len < size; i++)
		len += (size_t)snprintf(text + len, size + 256 - len,
		                        i % 5 ? "if x; then\n\techo $((1 + %zu))\nfi; N%zu=%zu; a & b\n" : "N%zu=%zu; ls %zu\n", i, i, i);
	struct gate_result r;
	assert_int_equal(gate_shell(gate, text, len, &r, NULL), 0);
	assert_int_equal(r.verdict, GATE_ALLOW);
	gate_result_free(&r);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_shell_is_what_the_grammar_reads), cmocka_unit_test(what_is_not_plain_is_refused),
		cmocka_unit_test(made_up_scripts_are_read_alike),        cmocka_unit_test(a_newline_ends_a_command),
		cmocka_unit_test(places_are_those_of_the_text),          cmocka_unit_test(a_long_script_has_no_errors_of_its_own),
	};
	return cmocka_run_group_tests(tests, open_gate, close_gate);
}
