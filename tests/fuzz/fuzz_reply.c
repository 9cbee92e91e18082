/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of the host's resolvers. An input is one byte, which says for which family was asked, and an answer; its id and question are made right, so that what lies behind them is reached.
 * Besides memory errors, the target fails when more addresses come out than there is room for, or than there are bytes for.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "egress/reply.h"
#include "fuzz_seeds.h"

#define NAME "api.example.com"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char question[REPLY_QUESTION_MAX];
	struct reply found;

	if (size < 1)
		return 0;
	const int family = data[0] & 1 ? AF_INET6 : AF_INET;
	const size_t asked = reply_question(NAME, family, 0x1234, question), len = size - 1;
	unsigned char *message = malloc(len + 1); /* one more: malloc(0) may be NULL */
	if (!message)
		return 0;
	memcpy(message, data + 1, len);
	if (len >= asked && !(data[0] & 2)) { /* flags and counts are the fuzzer's */
		memcpy(message, question, 2);
		message[2] = (message[2] | 0x80) & 0x87;
		memcpy(message + 4, question + 4, 2);
		memcpy(message + 12, question + 12, asked - 12);
	}
	const enum reply_kind kind = reply_read(message, len, question, asked, &found);
	free(message);
	if (found.count > REPLY_ADDRESSES_MAX || (kind == REPLY_ADDRESSES && found.count * (family == AF_INET ? 4 : 16) > len))
		abort();
	return 0;
}

#define BYTES(text) text, sizeof(text) - 1
#define QUESTION(flags, records, type) "\x12\x34" flags "\0\1\0" records "\0\0\0\0\3api\7example\3com\0\0" type "\0\1"
#define FIXED(type, len) "\0" type "\0\1\0\0\0\x3c\0" len

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct {
		const char *name;
		uint8_t how;
		const char *answer;
		size_t len;
	} seeds[] = {
		{"a", 0, BYTES(QUESTION("\x81\x80", "\1", "\1") "\xc0\x0c" FIXED("\1", "\4") "\11\11\11\11")},
		{"aaaa", 1, BYTES(QUESTION("\x81\x80", "\1", "\x1c") "\xc0\x0c" FIXED("\x1c", "\x10") "0123456789abcdef")},
		{"alias", 0,
	         BYTES(QUESTION("\x81\x80", "\2", "\1") "\xc0\x0c" FIXED("\5", "\4") "\1b\xc0\x10"
	                                                                             "\1b\xc0\x10" FIXED("\1", "\4") "\11\11\11\11")},
		{"none", 0, BYTES(QUESTION("\x81\x83", "\0", "\1"))},
		{"truncated", 0, BYTES(QUESTION("\x83\x80", "\0", "\1"))},
		{"foreign", 2, BYTES("\x43\x21\x81\x80\0\1\0\0\0\0\0\0\1x\0\0\1\0\1")},
	};
	const char *dir = seeds_directory(*argc, *argv);

	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++)
		seed_write(dir, seeds[i].name, seeds[i].how, seeds[i].answer, seeds[i].len);
	return 0;
}
