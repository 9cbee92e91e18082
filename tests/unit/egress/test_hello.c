/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/util.h"
#include "egress/hello.h"
#include "hello_maker.h"

#define NAME "api.example.com"
#define ECH 0xfe0d
#define ESNI 0xffce
#define GREASE 0x5a5a

typedef enum hello_verdict look(const void *data, size_t len, const char *name, const char **why);

/* In a block of just this size, so that sanitizers see a read past its end. */
static enum hello_verdict shown(look *which, const unsigned char *data, size_t len, const char *name, const char **why)
{
	unsigned char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, data, len);
	*why = NULL;
	enum hello_verdict verdict = which(copy, len, name, why);
	free(copy);
	assert_true((verdict == HELLO_REFUSED) == (*why != NULL));
	return verdict;
}

static void must_pass(const struct hello *h, const char *name)
{
	const char *why;
	enum hello_verdict verdict = shown(hello_check, h->data, h->len, name, &why);

	if (verdict != HELLO_OK)
		fail_msg("%s", why ? why : "it is not whole");
}

static void must_refuse(const struct hello *h, const char *name, const char *reason)
{
	const char *why;
	enum hello_verdict verdict = shown(hello_check, h->data, h->len, name, &why);

	if (verdict != HELLO_REFUSED)
		fail_msg("not refused (%s)", reason);
	if (!why || !strstr(why, reason))
		fail_msg("refused because %s, not because %s", why ? why : "of nothing", reason);
}

/* One record with these extensions. */
static struct hello *hello_with(const struct hello *extensions)
{
	static struct hello message, out;

	hello_message(&message, 0x0303, extensions);
	hello_records(&out, &message, 1 << 14);
	return &out;
}

static struct hello *hello_for(const char *name)
{
	struct hello extensions = {.len = 0};

	hello_server_name(&extensions, name, strlen(name));
	return hello_with(&extensions);
}

/* ---- clients of every day ------------------------------------------------------------------------------------------------------ */

static SSL *client(int version, const char *name)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl;

	assert_non_null(ctx);
	SSL_CTX_set_security_level(ctx, 0);
	assert_true(SSL_CTX_set_min_proto_version(ctx, version ? version : TLS1_VERSION));
	assert_true(SSL_CTX_set_max_proto_version(ctx, version));
	assert_int_equal(SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)"\2h2\10http/1.1", 12), 0);
	ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	assert_non_null(ssl);
	if (name)
		assert_true(SSL_set_tlsext_host_name(ssl, name));
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_connect_state(ssl);
	return ssl;
}

/* What it has to say, after it was told something. */
static void talk(SSL *ssl, const struct hello *told, struct hello *says)
{
	if (told)
		assert_int_equal(BIO_write(SSL_get_rbio(ssl), told->data, (int)told->len), (int)told->len);
	SSL_do_handshake(ssl);
	int n = BIO_read(SSL_get_wbio(ssl), says->data, sizeof(says->data));
	says->len = n > 0 ? (size_t)n : 0;
	ERR_clear_error();
}

static void test_clients_of_every_version_pass(void **state)
{
	static const int versions[] = {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION, 0};
	static const char *const names[] = {NAME, "API.Example.com", "other.example.com", NULL};
	static struct hello h;

	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			SSL *ssl = client(versions[v], names[i]);

			talk(ssl, NULL, &h);
			assert_true(h.len > 50 && hello_is_tls(h.data[0]));
			if (i < 2)
				must_pass(&h, NAME);
			else
				must_refuse(&h, NAME, i == 2 ? "another" : "no server name");
			SSL_free(ssl);
		}
	}
}

static void test_it_is_read_when_it_is_whole(void **state)
{
	static struct hello h;
	SSL *ssl = client(0, NAME);
	const char *why;

	talk(ssl, NULL, &h);
	SSL_free(ssl);
	for (size_t n = 0; n < h.len; n++)
		assert_int_equal(shown(hello_check, h.data, n, NAME, &why), HELLO_MORE);
	must_pass(&h, NAME);
	const size_t whole = h.len;
	assert_int_equal(hello_length(h.data, h.len - 1), 0);
	assert_int_equal(hello_length(h.data, h.len), whole);
	/* what comes behind it is for the server */
	hello_add(&h,
	          "\x17\x03\x03\x00\x05"
	          "early",
	          10);
	must_pass(&h, NAME);
	assert_int_equal(hello_length(h.data, h.len), whole);
}

static void test_it_may_be_in_pieces(void **state)
{
	static struct hello message, out;
	struct hello extensions = {.len = 0};
	const char *why;

	hello_server_name(&extensions, NAME, strlen(NAME));
	hello_message(&message, 0x0303, &extensions);
	for (size_t piece = (message.len + 31) / 32; piece <= message.len; piece++) {
		hello_records(&out, &message, piece);
		must_pass(&out, NAME);
		assert_int_equal(shown(hello_check, out.data, out.len - 1, NAME, &why), HELLO_MORE);
	}
	hello_records(&out, &message, 2);
	must_refuse(&out, NAME, "too many pieces");
	/* a header in four records */
	out.len = 0;
	for (size_t i = 0; i < 4; i++) {
		hello_add(&out, "\x16\x03\x01\x00\x01", 5);
		hello_add(&out, message.data + i, 1);
	}
	hello_add(&out, "\x16\x03\x01", 3);
	hello_number(&out, message.len - 4, 2);
	hello_add(&out, message.data + 4, message.len - 4);
	must_pass(&out, NAME);
}

static void test_what_nobody_knows_is_ignored(void **state)
{
	struct hello extensions = {.len = 0};

	hello_extension(&extensions, GREASE, "", 0);
	hello_server_name(&extensions, NAME, strlen(NAME));
	hello_extension(&extensions, 0xabcd, "abc", 3);
	hello_extension(&extensions, 0xcaca, "\0", 1);
	must_pass(hello_with(&extensions), NAME);
}

static void test_addresses_need_no_name(void **state)
{
	must_pass(hello_with(NULL), "10.1.2.3");
	must_pass(hello_with(NULL), "fd00::1");
	must_pass(hello_for("10.1.2.3"), "10.1.2.3");
	must_refuse(hello_for(NAME), "10.1.2.3", "another");
	must_refuse(hello_for("10.1.2.3"), NAME, "another");
}

/* ---- attacks ------------------------------------------------------------------------------------------------------------------- */

static void test_only_the_very_name_passes(void **state)
{
	static const struct {
		const char *name;
		size_t len;
	} table[] = {
#define ROW(text) {(text), sizeof(text) - 1}
		ROW("evil.example"),
		ROW(""),
		ROW("api.example.com."),
		ROW(".api.example.com"),
		ROW("api.example.co"),
		ROW("xapi.example.com"),
		ROW("api.example.com.evil.example"),
		ROW("api.example.com\0"),
		ROW("api.example.com\0.evil.example"),
		ROW("evil.example\0api.example.com"),
		ROW("api\0example.com"),
		ROW("*.example.com"),
		ROW("api.example.com:443"),
		ROW(" api.example.com"),
		ROW("\xd0\xb0pi.example.com"),
		ROW("10.1.2.3"),
	};
	char longest[300];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct hello extensions = {.len = 0};

		hello_server_name(&extensions, table[i].name, table[i].len);
		must_refuse(hello_with(&extensions), NAME, "");
	}
	memset(longest, 'a', sizeof(longest));
	struct hello extensions = {.len = 0};
	hello_server_name(&extensions, longest, sizeof(longest));
	must_refuse(hello_with(&extensions), NAME, "");
}

/* The extension's own bytes: 2 of the list's length; a type, 2 of a length, the name. */
static void test_a_server_name_that_is_not_one_is_refused(void **state)
{
	static const struct {
		const char *ext;
		size_t len;
		const char *reason;
	} table[] = {
		{"\0\0", 2, "server name"},
		{"", 0, "server name"},
		{"\0", 1, "server name"},
		{"\0\22\1\0\17" NAME, 20, "cannot be read"},     /* of another type */
		{"\0\24\0\0\17" NAME "\0\0", 22, "several"},     /* something behind it */
		{"\0\22\0\0\17" NAME "x", 21, "cannot be read"}, /* … outside of the list */
		{"\0\22\0\0\20" NAME, 20, "cannot be read"},     /* longer than it is */
		{"\0\22\0\0\16" NAME, 20, "several"},            /* shorter */
		{"\0\41\0\0\17" NAME "\0\0\14"
	         "evil.example",
	         35, "several"},
		{"\0\41\0\0\14"
	         "evil.example"
	         "\0\0\17" NAME,
	         35, "several"},
		{"\0\41\0\0\17" NAME "\1\0\14"
	         "evil.example",
	         35, "several"},
		{"\377\377\0\0\17" NAME, 20, "cannot be read"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct hello extensions = {.len = 0};

		hello_extension(&extensions, 0, table[i].ext, table[i].len);
		must_refuse(hello_with(&extensions), NAME, table[i].reason);
	}
}

static void test_two_server_name_extensions_are_refused(void **state)
{
	struct hello extensions = {.len = 0};

	hello_server_name(&extensions, NAME, strlen(NAME));
	hello_server_name(&extensions, "evil.example", 12);
	must_refuse(hello_with(&extensions), NAME, "cannot be read");
	extensions.len = 0;
	hello_server_name(&extensions, NAME, strlen(NAME));
	hello_server_name(&extensions, NAME, strlen(NAME));
	must_refuse(hello_with(&extensions), NAME, "cannot be read");
}

static void test_encrypted_hellos_are_refused(void **state)
{
	static const unsigned types[] = {ECH, ESNI};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		for (int twice = 0; twice < 2; twice++) {
			struct hello extensions = {.len = 0};

			hello_extension(&extensions, types[i], "\0\0\1\0\1\7\0\0\0\0", 10);
			hello_server_name(&extensions, NAME, strlen(NAME));
			if (twice)
				hello_extension(&extensions, types[i], "", 0);
			must_refuse(hello_with(&extensions), NAME, twice ? "" : "ECH");
		}
		/* not for an address either */
		struct hello extensions = {.len = 0};
		hello_extension(&extensions, types[i], "", 0);
		must_refuse(hello_with(&extensions), "10.1.2.3", "ECH");
	}
}

static void test_without_a_name_it_is_refused(void **state)
{
	struct hello none = {.len = 0};

	must_refuse(hello_with(NULL), NAME, "no server name");
	must_refuse(hello_with(&none), NAME, "no server name");
	hello_extension(&none, GREASE, "", 0);
	must_refuse(hello_with(&none), NAME, "no server name");
}

static void test_what_is_not_a_hello_is_refused_at_once(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} table[] = {
		{"G", 1},
		{"\x80\x2e\x01\x03\x01", 5},                 /* SSL 2 */
		{"\x16\x02", 2},                             /* … 2 again */
		{"\x15\x03\x01\x00\x02", 5},                 /* an alert */
		{"\x16\x03\x01\x00\x00", 5},                 /* an empty record */
		{"\x16\x03\x01\x40\x01", 5},                 /* one that is too long */
		{"\x16\x03\x01\x00\x04\x02\x00\x00\x40", 9}, /* a ServerHello, of which more is to come */
		{"\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9}, /* with nothing in it */
		{"\x16\x03\x01\x00\x01\x01\x17", 7},         /* goes on as something else */
		{"\x16\x03\x01\x00\x04\x01\x02\x00\x00", 9}, /* 128 KB */
	};
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (shown(hello_check, (const unsigned char *)table[i].bytes, table[i].len, NAME, &why) != HELLO_REFUSED)
			fail_msg("row %zu is not refused", i);
}

static void test_something_behind_it_in_its_record_is_refused(void **state)
{
	static struct hello message, out;
	struct hello extensions = {.len = 0};

	hello_server_name(&extensions, NAME, strlen(NAME));
	hello_message(&message, 0x0303, &extensions);
	hello_add(&message, "\x01\0\0\0", 4);
	hello_records(&out, &message, 1 << 14);
	must_refuse(&out, NAME, "behind");
}

/* Of a long one all bytes but the name may be anything; a longer one is refused before it is there. */
static void test_it_may_have_so_many_bytes(void **state)
{
	static struct hello extensions, message, out;
	static const char padding[60 << 10];
	const char *why;

	extensions.len = 0;
	hello_server_name(&extensions, NAME, strlen(NAME));
	hello_extension(&extensions, 21, padding, sizeof(padding));
	hello_message(&message, 0x0303, &extensions);
	hello_records(&out, &message, 1 << 14);
	must_pass(&out, NAME);
	message.len = 0;
	hello_number(&message, 0x0100fffc, 4); /* just HELLO_MAX, but for the records' headers */
	hello_add(&message, padding, sizeof(padding));
	hello_add(&message, padding, 8 << 10);
	hello_records(&out, &message, 1 << 14);
	for (size_t n = HELLO_MAX - 20000; n <= out.len; n++) {
		enum hello_verdict verdict = shown(hello_check, out.data, n, NAME, &why);

		assert_true(verdict == HELLO_REFUSED || (verdict == HELLO_MORE && n < HELLO_MAX));
	}
}

/* Lengths that do not fit each other, byte by byte: whatever is said, only what OpenSSL could read passes. */
static void test_a_byte_that_is_changed_makes_no_other_name_pass(void **state)
{
	struct hello copy = *hello_for("evil.example.xy"); /* as long as the right one */
	const char *why;

	for (size_t i = 0; i < copy.len; i++) {
		const unsigned char was = copy.data[i];

		for (int bit = 0; bit < 8; bit++) {
			copy.data[i] = was ^ (unsigned char)(1 << bit);
			assert_true(shown(hello_check, copy.data, copy.len, NAME, &why) != HELLO_OK);
		}
		copy.data[i] = was;
	}
}

/* ---- the second one ------------------------------------------------------------------------------------------------------------ */

/* A server that wants a group which the client has not guessed. */
static SSL *retrying_server(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	SSL *ssl;

	assert_true(ctx && key && cert);
	assert_true(X509_set_pubkey(cert, key) && X509_gmtime_adj(X509_getm_notBefore(cert), 0) &&
	            X509_gmtime_adj(X509_getm_notAfter(cert), 60));
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	assert_true(SSL_CTX_use_certificate(ctx, cert) && SSL_CTX_use_PrivateKey(ctx, key) && SSL_CTX_set1_groups_list(ctx, "P-384"));
	ssl = SSL_new(ctx);
	assert_non_null(ssl);
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_accept_state(ssl);
	X509_free(cert);
	EVP_PKEY_free(key);
	SSL_CTX_free(ctx);
	return ssl;
}

static void test_a_second_hello_is_looked_at_as_well(void **state)
{
	static struct hello first, retry, second, last;
	SSL *c = client(0, NAME), *s = retrying_server();
	const char *why;

	talk(c, NULL, &first);
	talk(s, &first, &retry);
	for (size_t n = 0; n < 43; n++)
		assert_int_equal(hello_answer(retry.data, n), HELLO_ANSWER_MORE);
	assert_int_equal(hello_answer(retry.data, 43), HELLO_ANSWER_RETRY);
	assert_int_equal(hello_answer(retry.data, retry.len), HELLO_ANSWER_RETRY);
	talk(c, &retry, &second);
	assert_int_equal(second.data[0], 0x14); /* a ChangeCipherSpec before it */
	for (size_t n = 0; n < second.len; n++)
		assert_int_equal(shown(hello_check_again, second.data, n, NAME, &why), HELLO_MORE);
	assert_int_equal(shown(hello_check_again, second.data, second.len, NAME, &why), HELLO_OK);
	assert_int_equal(shown(hello_check_again, second.data, second.len, "evil.example", &why), HELLO_REFUSED);
	talk(s, &second, &last);
	assert_int_equal(hello_answer(last.data, last.len), HELLO_ANSWER_FINAL);
	SSL_free(c);
	SSL_free(s);
	/* without one before it; and with something else */
	const struct hello *other = hello_for("evil.example");
	assert_int_equal(shown(hello_check_again, other->data, other->len, NAME, &why), HELLO_REFUSED);
	assert_int_equal(shown(hello_check_again, other->data, other->len, "evil.example", &why), HELLO_OK);
	assert_int_equal(shown(hello_check_again, (const unsigned char *)"\x14\x03\x03\x00\x02", 5, NAME, &why), HELLO_REFUSED);
	assert_int_equal(shown(hello_check_again, (const unsigned char *)"\x17", 1, NAME, &why), HELLO_REFUSED);
}

static void test_what_a_server_says_first(void **state)
{
#define HELLO_OF_SERVER "\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03"
#define RANDOM "0123456789abcdef0123456789abcdef"
	static const struct {
		const char *bytes;
		size_t len;
		enum hello_answer answer;
	} table[] = {
		{"", 0, HELLO_ANSWER_MORE},
		{HELLO_OF_SERVER RANDOM, 43, HELLO_ANSWER_FINAL},
		{HELLO_OF_SERVER RANDOM, 42, HELLO_ANSWER_MORE},
		{"\x15\x03\x03\x00\x02\x02\x28", 7, HELLO_ANSWER_FINAL}, /* that is the end */
		{"\x15\x03\x03\x00\x02\x01\x70", 7, HELLO_ANSWER_MORE},  /* a warning */
		{"\x15\x03\x03\x00\x02\x01", 6, HELLO_ANSWER_MORE},
		{"\x15\x03\x03\x00\x02\x01\x70" HELLO_OF_SERVER RANDOM, 50, HELLO_ANSWER_FINAL},
		{"\x15\x03\x03\x00\x02\x01\x70"
	         "\x16\x03\x03\x00\x04",
	         12, HELLO_ANSWER_RETRY}, /* in pieces: who knows */
		{"\x16\x03\x03\x00\x7a\x00\x00\x00\x00\x03\x03" RANDOM, 43, HELLO_ANSWER_RETRY},
		{"HTTP/1.1 400 Bad Request", 24, HELLO_ANSWER_FINAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (hello_answer(table[i].bytes, table[i].len) != table[i].answer)
			fail_msg("row %zu", i);
	/* there is an end to warnings */
	char warnings[HELLO_ANSWER_MAX];
	for (size_t i = 0; i < sizeof(warnings); i++)
		warnings[i] = "\x15\x03\x03\x00\x02\x01\x70"[i % 7];
	assert_int_equal(hello_answer(warnings, sizeof(warnings)), HELLO_ANSWER_RETRY);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_clients_of_every_version_pass),
		TEST(test_it_is_read_when_it_is_whole),
		TEST(test_it_may_be_in_pieces),
		TEST(test_what_nobody_knows_is_ignored),
		TEST(test_addresses_need_no_name),
		TEST(test_only_the_very_name_passes),
		TEST(test_a_server_name_that_is_not_one_is_refused),
		TEST(test_two_server_name_extensions_are_refused),
		TEST(test_encrypted_hellos_are_refused),
		TEST(test_without_a_name_it_is_refused),
		TEST(test_what_is_not_a_hello_is_refused_at_once),
		TEST(test_something_behind_it_in_its_record_is_refused),
		TEST(test_it_may_have_so_many_bytes),
		TEST(test_a_byte_that_is_changed_makes_no_other_name_pass),
		TEST(test_a_second_hello_is_looked_at_as_well),
		TEST(test_what_a_server_says_first),
	};

	hello_warm_up();
	return cmocka_run_group_tests_name("hello", tests, NULL, NULL);
}
