/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate [FILE [LANGUAGE]]: how long the gate takes. Without arguments: opening it, one-line commands, and scripts of 1 MB; with a file, that.
 * Prints medians and 99th percentiles. Not run by the tests: what it says depends on what else the machine does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "gate/gate.h"

static const char *const packs[] = {"shell-destructive", "python-dangerous", "javascript-dangerous", "typescript-dangerous",
                                    "ruby-dangerous"};

static const char *const lines[] = {
	"ls -la",
	"git commit -m 'Parser: accept empty here-documents'",
	"make -j\"$(nproc)\" 2>&1 | tee build.log",
	"rm -rf node_modules dist && npm ci",
	"find . -name '*.pyc' -delete",
	"curl -fsSL https://example.com/data.json | jq -r '.items[].name' | sort -u > names.txt",
	"for f in src/*.c; do gcc -c \"$f\" -o \"build/$(basename \"$f\" .c).o\" || exit 1; done",
	"sudo env PATH=\"$PATH\" timeout 60 rm -rf /var/lib/x",
	"docker run --rm -v \"$PWD\":/src -w /src node:20 npm test",
	"python3 -c 'import json,sys; print(json.load(sys.stdin)[\"name\"])' < package.json",
};

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(const char *what, double *times, size_t n)
{
	qsort(times, n, sizeof(*times), ascending);
	printf("%-28s median %9.1f us   p99 %9.1f us   (%zu times)\n", what, times[n / 2], times[n * 99 / 100], n);
}

static int fail(const struct cordon_error *err)
{
	fprintf(stderr, "bench: %s\n", err->message);
	return 1;
}

static int once(const struct gate *g, enum gate_language language, const char *text, size_t len, double *us)
{
	struct gate_result r;
	struct cordon_error err = {0};
	double start = now_us();
	if (gate_code(g, language, text, len, &r, &err) < 0)
		return fail(&err);
	*us = now_us() - start;
	gate_result_free(&r);
	return 0;
}

static int bench_text(const struct gate *g, const char *what, enum gate_language language, const char *text, size_t len, size_t rounds)
{
	_cleanup_free_ double *times = calloc(rounds, sizeof(*times));
	for (size_t i = 0; times && i < rounds; i++)
		if (once(g, language, text, len, &times[i]))
			return 1;
	if (times)
		report(what, times, rounds);
	return 0;
}

static int bench_open(const struct gate_config *config)
{
	double times[50];
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct gate *g;
		struct cordon_error err = {0};
		double start = now_us();
		if (gate_open(&g, config, &err) < 0)
			return fail(&err);
		times[i] = now_us() - start;
		gate_close(g);
	}
	report("open, five packs", times, ARRAY_SIZE(times));
	return 0;
}

static int bench_lines(const struct gate *g)
{
	enum { ROUNDS = 300 };
	static double times[ROUNDS * ARRAY_SIZE(lines)];
	size_t n = 0;
	for (size_t i = 0; i < ROUNDS; i++)
		for (size_t k = 0; k < ARRAY_SIZE(lines); k++)
			if (once(g, GATE_SHELL, lines[k], strlen(lines[k]), &times[n++]))
				return 1;
	report("a command of one line", times, n);
	return 0;
}

/* What scripts are made of; each @ is a number that comes once. */
static const char *const blocks[] = {
	"mkdir -p build/d@ \"$OUT/e@\"\n",
	"NAME_@=\"$(date +%s)-@\"\n",
	"export TARGET_@=src/f@.c\n",
	"gcc -O2 -Wall -Iinclude -c src/f@.c -o build/f@.o || exit 1\n",
	"curl -fsSL \"https://example.com/data/@.json\" | jq -r '.items[@].name' | sort -u > names-@.txt\n",
	"if [ -f config/c@.yaml ]; then\n\tcp -a config/c@.yaml \"$DESTDIR/etc/@.yaml\"\n\techo \"copied @ of $TOTAL\"\nelse\n\tprintf '%s\\n' "
	"\"no @\" >&2\nfi # @\n",
	"for f in src/a@.c src/b@.c lib/*.o@; do\n\tinstall -m 0644 \"$f\" /opt/app/@\ndone\n",
	"step_@() {\n\tlocal name=\"$1\" # @\n\tmake -j4 \"target-$name\" 2>&1 | tee logs/@.log\n\trm -rf build/tmp@\n}\n",
	"cat > conf/@.ini <<EOF\n[section@]\nkey = value of @\nEOF\n",
	"case \"$1\" in\nstart@) ./run --port @ & ;;\nstop@)\n\tkill \"$(cat run/@.pid)\"\n\t;;\nesac # @\n",
	"while read -r line; do echo \"@: $line\" >> out/@.txt; done < in/@.txt\n",
	"echo $((@ + 1)) {a,b}@ `uname -r` ${x%%.@} # what is not plain\n",
	"[[ $name == x@* ]] && docker run --rm -v \"$PWD\":/src -w /src node:20 npm test -- --only @\n",
};

static size_t put_block(char *to, const char *block, size_t *number)
{
	size_t n = 0;
	for (; *block; block++) {
		if (*block == '@')
			n += (size_t)snprintf(to + n, 24, "%zu", ++*number);
		else
			to[n++] = *block;
	}
	return n;
}

static int bench_mixed(const struct gate *g)
{
	const size_t size = (size_t)1 << 20;
	_cleanup_free_ char *text = malloc(size + 1024);
	size_t len = 0, number = 0;
	for (size_t i = 0; text && len < size; i++)
		len += put_block(text + len, blocks[i % ARRAY_SIZE(blocks)], &number);
	return text ? bench_text(g, "1 MB of all kinds", GATE_SHELL, text, len, 10) : 1;
}

/* `unique`: each line is said once, with a number of its own; else the same ten lines again and again, as programs write scripts. */
static int bench_script(const struct gate *g, const char *what, bool unique)
{
	const size_t size = (size_t)1 << 20;
	_cleanup_free_ char *text = malloc(size + 256);
	size_t len = 0;
	for (size_t i = 0; text && len < size; i++) {
		const char *line = lines[i % ARRAY_SIZE(lines)];
		len += (size_t)(unique ? snprintf(text + len, size + 256 - len, "N%zu=%zu; %s\n", i, i, line)
		                       : snprintf(text + len, size + 256 - len, "%s\n", line));
	}
	return text ? bench_text(g, what, GATE_SHELL, text, len, 10) : 1;
}

static int bench_file(const struct gate *g, const char *path, const char *language)
{
	FILE *f = fopen(path, "re");
	const size_t most = (size_t)64 << 20;
	_cleanup_free_ char *text = malloc(most);
	int which = gate_language_find(language);
	if (!f || !text || which < 0) {
		fprintf(stderr, "bench: cannot read %s as %s\n", path, language);
		return 1;
	}
	size_t len = fread(text, 1, most, f);
	fclose(f);
	return bench_text(g, path, (enum gate_language)which, text, len, 10);
}

int main(int argc, char **argv)
{
	struct gate_config config = {.packs = packs, .pack_count = ARRAY_SIZE(packs)};
	struct gate *g;
	struct cordon_error err = {0};
	if (gate_open(&g, &config, &err) < 0)
		return fail(&err);
	int status = argc > 1 ? bench_file(g, argv[1], argc > 2 ? argv[2] : "shell")
	                      : bench_open(&config) || bench_lines(g) || bench_script(g, "a script of 1 MB", false) ||
	                                bench_script(g, "1 MB, no line twice", true) || bench_mixed(g);
	gate_close(g);
	return status;
}
