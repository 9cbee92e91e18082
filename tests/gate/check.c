/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate-check [-g PERMISSION,…] [-p PACK,…] LANGUAGE [TEXT]: the verdict on one text (standard input if none is given) and what was found.
 * gate-check --stream: on standard input "LANGUAGE BYTES\n" and that many bytes, again and again; for each "VERDICT COUNT\n" and a line for each finding.
 * What tests/gate/measure is made of, and of use at the keyboard.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "gate/gate.h"

static const char *const all_packs[] = {"shell-destructive", "python-dangerous", "javascript-dangerous", "typescript-dangerous",
                                        "ruby-dangerous"};

static int complain(const struct cordon_error *err)
{
	fprintf(stderr, "gate-check: %s\n", err->message);
	if (err->hint[0])
		fprintf(stderr, "  %s\n", err->hint);
	return 2;
}

static void show(const struct gate_result *r)
{
	printf("%s %zu\n", gate_verdict_names[r->verdict], r->count);
	for (size_t i = 0; i < r->count; i++) {
		const struct gate_finding *f = &r->items[i];
		printf("%u:%u\t%s\t%s/%s\t%s\t%s\n", f->line, f->column, gate_verdict_names[f->verdict], f->pack ? f->pack : "gate",
		       f->rule, f->reason, f->snippet);
	}
}

static int check(const struct gate *g, int language, const char *text, size_t len)
{
	struct gate_result r;
	struct cordon_error err = {0};
	if (gate_code(g, (enum gate_language)language, text, len, &r, &err) < 0)
		return complain(&err);
	show(&r);
	fflush(stdout);
	int status = (int)r.verdict;
	gate_result_free(&r);
	return status;
}

static int stream(const struct gate *g)
{
	char name[32];
	size_t len;
	while (scanf("%31s %zu", name, &len) == 2) {
		int language = gate_language_find(name);
		char *text = malloc(len + 1);
		if (!text || language < 0 || getchar() != '\n' || fread(text, 1, len, stdin) != len) {
			fprintf(stderr, "gate-check: malformed input\n");
			return 2;
		}
		if (check(g, language, text, len) > GATE_DENY)
			return 2;
		free(text);
	}
	return 0;
}

static unsigned granted(char *list)
{
	static const struct {
		const char *name;
		unsigned bit;
	} names[] = {{"subprocess", GATE_SUBPROCESS}, {"network", GATE_NETWORK}, {"files", GATE_FILES}, {"dynamic", GATE_DYNAMIC}};
	unsigned set = 0;
	for (char *save = NULL, *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save))
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strcmp(word, names[i].name) == 0)
				set |= names[i].bit;
	return set;
}

static int usage(void)
{
	fprintf(stderr,
	        "usage: gate-check [-g PERMISSION,...] [-p PACK,...] LANGUAGE [TEXT]\n       gate-check [-g ...] [-p ...] --stream\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *packs[32];
	struct gate_config config = {.packs = all_packs, .pack_count = ARRAY_SIZE(all_packs)};
	struct cordon_error err = {0};
	struct gate *g;
	int i = 1, status;
	for (; i + 1 < argc && argv[i][0] == '-' && argv[i][1] != '-'; i += 2) {
		if (strcmp(argv[i], "-g") == 0) {
			config.granted = granted(argv[i + 1]);
		} else if (strcmp(argv[i], "-p") == 0) {
			config.packs = packs;
			config.pack_count = 0;
			for (char *save = NULL, *word = strtok_r(argv[i + 1], ",", &save); word && config.pack_count < ARRAY_SIZE(packs);
			     word = strtok_r(NULL, ",", &save))
				packs[config.pack_count++] = word;
		} else {
			return usage();
		}
	}
	if (i >= argc)
		return usage();
	if (gate_open(&g, &config, &err) < 0)
		return complain(&err);
	if (strcmp(argv[i], "--stream") == 0) {
		status = stream(g);
	} else if (gate_language_find(argv[i]) < 0) {
		status = usage();
	} else if (i + 1 < argc) {
		status = check(g, gate_language_find(argv[i]), argv[i + 1], strlen(argv[i + 1]));
	} else {
		_cleanup_buf_ struct buf b = {0};
		char *p;
		size_t n;
		while ((p = buf_reserve(&b, 65536)) && (n = fread(p, 1, 65536, stdin)) > 0)
			b.len += n;
		status = check(g, gate_language_find(argv[i]), b.data ? b.data : "", b.len);
	}
	gate_close(g);
	return status;
}
