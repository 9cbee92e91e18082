/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client sends first on a TLS connection. An input is one kind byte, and: records; extensions, around which the right message is made; a server's answer.
 * Besides memory errors, the target fails when a verdict comes too early or changes as more comes in, and when a ClientHello passes that, to a reader of its own, is for
 * another name, for several, or hides one.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../unit/egress/hello_maker.h"
#include "base/util.h"
#include "egress/hello.h"
#include "fuzz_seeds.h"
#include "must.h"

#define NAME "api.example.com"

enum kind { KIND_RECORDS, KIND_EXTENSIONS, KIND_ANSWER, KIND_COUNT };

/* Extensions that passed: one name, the right one, and nothing hidden. */
static void read_extensions(const unsigned char *p, size_t len)
{
	int names = 0;

	while (len >= 4) {
		const unsigned type = (unsigned)p[0] << 8 | p[1];
		const size_t n = (size_t)p[2] << 8 | p[3];

		MUST(n <= len - 4);
		MUST(type != 0xfe0d && type != 0xffce);
		if (type == 0) {
			names++;
			MUST(n == 5 + strlen(NAME) && p[6] == 0 && strncasecmp((const char *)p + 9, NAME, strlen(NAME)) == 0);
		}
		p += 4 + n;
		len -= 4 + n;
	}
	MUST(len == 0 && names == 1);
}

static void look(const unsigned char *data, size_t len, enum hello_verdict *verdict, size_t *whole)
{
	const char *why = NULL;

	*verdict = hello_check(data, len, NAME, &why);
	*whole = hello_length(data, len);
	MUST((*verdict == HELLO_REFUSED) == (why != NULL && why[0]));
	MUST(*verdict != HELLO_MORE || len < HELLO_MAX);
	MUST(*verdict != HELLO_OK || (*whole && *whole <= len && hello_is_tls(data[0])));
}

static enum hello_verdict try_records(const unsigned char *data, size_t len)
{
	enum hello_verdict verdict, before;
	size_t whole, ignored;
	const char *why = NULL;

	look(data, len, &verdict, &whole);
	for (size_t n = len; n-- > len - MIN(len, 40);) {
		look(data, n, &before, &ignored);
		MUST(before == HELLO_MORE || before == verdict);
		MUST(verdict != HELLO_MORE || before == HELLO_MORE);
		MUST(!whole || n >= whole || before == HELLO_MORE);
	}
	if (verdict == HELLO_OK) {
		look(data, whole, &before, &ignored);
		MUST(before == HELLO_OK && ignored == whole);
	}
	hello_check_again(data, len, NAME, &why);
	return verdict;
}

static void try_extensions(const unsigned char *data, size_t len)
{
	static struct hello extensions, message, records;

	extensions.len = 0;
	hello_add(&extensions, data, len);
	hello_message(&message, 0x0303, &extensions);
	hello_records(&records, &message, 4096);
	if (try_records(records.data, records.len) == HELLO_OK)
		read_extensions(data, len);
}

static void try_answer(const unsigned char *data, size_t len)
{
	const enum hello_answer answer = hello_answer(data, len);

	MUST(answer != HELLO_ANSWER_MORE || len < HELLO_ANSWER_MAX);
	for (size_t n = 0; n < MIN(len, HELLO_ANSWER_MAX); n++) {
		const enum hello_answer before = hello_answer(data, n);

		MUST(before == HELLO_ANSWER_MORE || before == answer);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > 16 << 10)
		return 0;
	/* in a block of exactly that size, so that a read past its end is seen */
	unsigned char *copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (data[0] % KIND_COUNT == KIND_RECORDS)
		try_records(copy, size - 1);
	else if (data[0] % KIND_COUNT == KIND_EXTENSIONS)
		try_extensions(copy, size - 1);
	else
		try_answer(copy, size - 1);
	free(copy);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const unsigned char answer[] = {0x15, 3,    3,    0,    2,    1,    0x70, 0x16, 3,    3,    0,    0x7a, 2,
	                                       0,    0,    0x76, 3,    3,    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11,
	                                       0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a,
	                                       0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c};
	static struct hello extensions, message, records;
	const char *dir = seeds_directory(*argc, *argv);
	char name[32];

	hello_warm_up();
	hello_extension(&extensions, 0x5a5a, "", 0);
	hello_server_name(&extensions, NAME, strlen(NAME));
	hello_extension(&extensions, 16, "\0\14\2h2\10http/1.1", 14);
	hello_extension(&extensions, 43, "\2\3\4", 3);
	seed_write(dir, "extensions", KIND_EXTENSIONS, extensions.data, extensions.len);
	hello_message(&message, 0x0303, &extensions);
	for (size_t piece = 8; piece <= 512; piece *= 2) {
		hello_records(&records, &message, piece);
		snprintf(name, sizeof(name), "records-%zu", piece);
		seed_write(dir, name, KIND_RECORDS, records.data, records.len);
	}
	hello_extension(&extensions, 0xfe0d, "\0\0\1\0\1\7\0\0\0\0", 10);
	seed_write(dir, "encrypted", KIND_EXTENSIONS, extensions.data, extensions.len);
	hello_server_name(&extensions, "evil.example", 12);
	seed_write(dir, "twice", KIND_EXTENSIONS, extensions.data, extensions.len);
	seed_write(dir, "answer", KIND_ANSWER, answer, sizeof(answer));
	return 0;
}
