/* SPDX-License-Identifier: Apache-2.0 */
/* gate-pack OUT.c PACK.yaml…: reads packs, tries their examples, and writes them down as C. Runs at build time. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "gate/pack_emit.h"

const struct gate_pack *const gate_builtin_packs[] = {NULL};

static void full(struct arena *a, int out_of_memory) __attribute__((noreturn));
static void full(struct arena *a, int out_of_memory)
{
	(void)a;
	fprintf(stderr, "gate-pack: out of memory (%d)\n", out_of_memory);
	exit(1);
}

static int fail(const struct cordon_error *err)
{
	fprintf(stderr, "gate-pack: %s\n", err->message);
	if (err->hint[0])
		fprintf(stderr, "  %s\n", err->hint);
	return 1;
}

static int write_out(const char *path, const struct buf *b)
{
	FILE *f = fopen(path, "we");
	if (!f || fwrite(b->data, 1, b->len, f) != b->len || fclose(f) != 0) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct arena arena = {.limit = (size_t)64 << 20, .fail = full};
	const struct gate_pack *packs[64] = {NULL};
	struct cordon_error err = {0};
	size_t count = 0;
	if (argc < 3 || argc - 2 >= (int)ARRAY_SIZE(packs)) {
		fprintf(stderr, "usage: gate-pack OUT.c PACK.yaml...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		struct gate_pack *pack;
		if (pack_read(&arena, argv[i], NULL, 0, &pack, &err) < 0)
			return fail(&err);
		packs[count++] = pack;
	}
	for (size_t i = 0; i < count; i++)
		if (pack_check(packs[i], packs, &err) < 0)
			return fail(&err);
	_cleanup_buf_ struct buf b = {0};
	pack_emit(&b, packs, count);
	int status = b.failed ? 1 : write_out(argv[1], &b);
	arena_free(&arena);
	return status;
}
