/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two texts that strangers wrote. An input is one byte (the context), and the texts with a NUL between them. Besides memory errors, the target
 * fails when the difference does not lead from the one text to the other, when its counts are wrong, and when, in colour, a byte that
 * a terminal would obey comes through.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/layers/unified.h"
#include "base/util.h"
#include "fuzz_seeds.h"
#include "layers/diff_parts.h"
#include "must.h"

static void check_plain(const char *a, size_t a_len, const char *b, size_t b_len, unsigned context)
{
	struct buf hunks = {0}, result = {0};
	size_t added, removed, added_there, removed_there;

	MUST(diff_text(&hunks, a, a_len, b, b_len, context, false, &added, &removed));
	MUST(unified_apply(a, a_len, &hunks, &result, &added_there, &removed_there));
	MUST(result.len == b_len && (b_len == 0 || memcmp(result.data, b, b_len) == 0));
	MUST(added == added_there && removed == removed_there);
	buf_free(&hunks);
	buf_free(&result);
}

/* Nothing but our own colours, tabs, line feeds and printable text. */
static void check_harmless(const char *text, size_t len)
{
	static const char *const colours[] = {COLOUR_RED, COLOUR_GREEN, COLOUR_CYAN, COLOUR_OFF};

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\033') {
			size_t n = 0;

			for (size_t k = 0; k < ARRAY_SIZE(colours); k++)
				if (strncmp(text + i, colours[k], strlen(colours[k])) == 0)
					n = strlen(colours[k]);
			MUST(n > 0);
			i += n - 1;
			continue;
		}
		MUST(c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f));
		MUST(c != 0xc2 || (unsigned char)text[i + 1] >= 0xa0); /* C1 controls */
	}
}

static void check_names(const char *a, size_t len)
{
	struct buf out = {0};
	char *name = malloc(len + 1);

	if (!name)
		return;
	memcpy(name, a, len);
	name[len] = '\0';
	escape_name(&out, "a/", name);
	MUST(!strchr(out.data, '\n') && !strchr(out.data, '\t'));
	check_harmless(out.data, out.len);
	buf_free(&out);
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf coloured = {0};
	size_t added, removed;

	if (size < 2 || size > 8192) /* longer ones are only slower */
		return 0;
	const char *a = (const char *)data + 1, *nul = memchr(a, '\0', size - 1);
	size_t a_len = nul ? (size_t)(nul - a) : size - 1;
	const char *b = nul ? nul + 1 : "";
	size_t b_len = nul ? size - 2 - a_len : 0;
	unsigned context = data[0] % 8;

	check_plain(a, a_len, b, b_len, context);
	check_plain(b, b_len, a, a_len, context);
	MUST(diff_text(&coloured, a, a_len, b, b_len, context, true, &added, &removed));
	if (coloured.len)
		check_harmless(coloured.data, coloured.len);
	buf_free(&coloured);
	check_names(a, a_len);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const pairs[][2] = {{"1\n2\n3\n4\n5\n", "1\n2\nx\n4\n5\n"},
	                                       {"a\nb\na\nb\n", "b\na\nb\na\n"},
	                                       {"", "new\n"},
	                                       {"no end", "no end\n"},
	                                       {"a\r\nb\r\n", "a\nb\n"},
	                                       {"f() {\n}\n", "f() {\n}\ng() {\n}\n"},
	                                       {"\x1b[2J", "\xc2\x9b\xff\n"}};
	const char *dir = seeds_directory(*argc, *argv);

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		struct buf b = {0};
		char name[32];

		buf_add(&b, pairs[i][0], strlen(pairs[i][0]) + 1);
		buf_add_str(&b, pairs[i][1]);
		snprintf(name, sizeof(name), "pair-%zu", i);
		seed_write(dir, name, 3, b.data, b.len);
		buf_free(&b);
	}
	return 0;
}
