/* SPDX-License-Identifier: Apache-2.0 */
/* Against the examples of FIPS 180-4 and RFC 4231. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "base/sha256_blocks.h"

static const char *digest(const void *data, size_t len, size_t step)
{
	static char hex[SHA256_HEX];
	unsigned char out[SHA256_SIZE];
	struct sha256 s;
	sha256_begin(&s);
	for (size_t i = 0; i < len; i += step)
		sha256_add(&s, (const char *)data + i, len - i < step ? len - i : step);
	sha256_end(&s, out);
	sha256_hex(out, hex);
	return hex;
}

static const char *mac(const void *key, size_t key_len, const char *data)
{
	static char hex[SHA256_HEX];
	unsigned char out[SHA256_SIZE];
	hmac_sha256(key, key_len, data, strlen(data), out);
	sha256_hex(out, hex);
	return hex;
}

static void test_examples(void **state)
{
	(void)state;
	const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	assert_string_equal(digest("", 0, 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_string_equal(digest("abc", 3, 64), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(digest(two, strlen(two), 64), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void test_a_million(void **state)
{
	(void)state;
	char *a = malloc(1000000);
	assert_non_null(a);
	memset(a, 'a', 1000000);
	assert_string_equal(digest(a, 1000000, 1000000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(a);
}

/* With and without the processor's own instructions. */
static void test_both_ways(void **state)
{
	(void)state;
	unsigned char data[64 * 33];
	uint32_t one[8] = {0, 1, 2, 0xffffffff}, other[8] = {0, 1, 2, 0xffffffff};
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 167 + i / 64 * 13);
	for (size_t i = 0; i <= 33; i++) {
		sha256_blocks(one, data, i);
		sha256_blocks_plain(other, data, i);
		assert_memory_equal(one, other, sizeof(one));
	}
}

/* Whatever the pieces are in which it comes. */
static void test_pieces(void **state)
{
	(void)state;
	char data[300], whole[SHA256_HEX];
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7);
	for (size_t len = 0; len < sizeof(data); len++) {
		snprintf(whole, sizeof(whole), "%s", digest(data, len, sizeof(data)));
		for (size_t step = 1; step < 130; step += 9)
			assert_string_equal(digest(data, len, step), whole);
	}
}

static void test_hmac(void **state)
{
	(void)state;
	unsigned char key[131];
	memset(key, 0x0b, sizeof(key));
	assert_string_equal(mac(key, 20, "Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	assert_string_equal(mac("Jefe", 4, "what do ya want for nothing?"),
	                    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	assert_string_equal(mac(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First"),
	                    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples), cmocka_unit_test(test_a_million), cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_pieces),   cmocka_unit_test(test_hmac),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
