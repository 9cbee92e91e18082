/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's own authority, as OpenSSL at its strictest sees it. */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/authority.h"
#include "egress/tls.h"

static struct authority *make(const struct broker_authority *earlier)
{
	static const struct broker_authority none;
	struct cordon_error err = {0};
	struct authority *a = authority_new(earlier ? earlier : &none, &err);

	if (!a)
		fail_msg("%s", err.message);
	return a;
}

static X509 *certificate_of(const struct authority *a)
{
	BIO *bio = BIO_new_mem_buf(authority_pem(a).certificate, -1);
	X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);

	assert_non_null(x);
	BIO_free(bio);
	return x;
}

/* X509_V_OK, or what is wrong with it. */
static int verify(const struct authority *a, X509 *leaf, const char *name)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509 *root = certificate_of(a);

	assert_true(store && ctx && X509_STORE_add_cert(store, root) && X509_STORE_CTX_init(ctx, store, leaf, NULL));
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
	X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
	X509_VERIFY_PARAM_set1_host(param, name, 0);
	(void)X509_verify_cert(ctx);
	const int result = X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(root);
	return result;
}

static void test_its_certificate_is_an_authority_and_nothing_else(void **state)
{
	struct authority *a = make(NULL), *b = make(NULL);
	X509 *x = certificate_of(a), *y = certificate_of(b);
	const uint32_t usage = X509_get_key_usage(x);
	char subject[256];

	assert_int_equal(X509_check_ca(x), 1);
	assert_int_equal(X509_get_pathlen(x), 0);
	assert_int_equal(usage, KU_KEY_CERT_SIGN);
	assert_int_equal(X509_cmp_current_time(X509_get0_notBefore(x)), -1);
	assert_int_equal(X509_cmp_current_time(X509_get0_notAfter(x)), 1);
	assert_int_equal(X509_self_signed(x, 1), 1);
	X509_NAME_oneline(X509_get_subject_name(x), subject, sizeof(subject));
	assert_non_null(strstr(subject, "cordon sandbox "));
	assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(x), X509_get0_serialNumber(y)), 0);
	assert_int_not_equal(X509_NAME_cmp(X509_get_subject_name(x), X509_get_subject_name(y)), 0);
	X509_free(x);
	X509_free(y);
	authority_free(a);
	authority_free(b);
}

static void test_a_host_has_a_certificate_for_its_name_alone(void **state)
{
	struct authority *a = make(NULL), *b = make(NULL);
	SSL_CTX *ctx = authority_context(a, "api.example.com");
	X509 *leaf = ctx ? SSL_CTX_get0_certificate(ctx) : NULL;

	assert_non_null(leaf);
	assert_int_equal(verify(a, leaf, "api.example.com"), X509_V_OK);
	assert_int_equal(verify(a, leaf, "example.com"), X509_V_ERR_HOSTNAME_MISMATCH);
	assert_int_equal(verify(a, leaf, "x.api.example.com"), X509_V_ERR_HOSTNAME_MISMATCH);
	assert_int_not_equal(verify(b, leaf, "api.example.com"), X509_V_OK);
	assert_int_equal(X509_check_ca(leaf), 0);
	assert_int_equal(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER);
	authority_free(a);
	authority_free(b);
}

static void test_names_as_long_as_they_may_be(void **state)
{
	struct authority *a = make(NULL);
	char name[254];

	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 64 == 63 ? '.' : 'a';
	name[sizeof(name) - 1] = '\0';
	SSL_CTX *ctx = authority_context(a, name);
	assert_non_null(ctx);
	assert_int_equal(verify(a, SSL_CTX_get0_certificate(ctx), name), X509_V_OK);
	authority_free(a);
}

static void test_certificates_are_kept_up_to_a_number(void **state)
{
	struct authority *a = make(NULL);
	SSL_CTX *first = authority_context(a, "0.example");
	char name[32];

	assert_non_null(first);
	assert_ptr_equal(authority_context(a, "0.example"), first);
	assert_true(SSL_CTX_up_ref(first));
	for (int i = 1; i <= AUTHORITY_LEAVES_MAX * 2; i++) {
		snprintf(name, sizeof(name), "%d.example", i);
		assert_non_null(authority_context(a, name));
	}
	assert_ptr_not_equal(authority_context(a, "0.example"), first);
	SSL_CTX_free(first); /* a connection still had it */
	authority_free(a);
}

static void test_an_earlier_one_is_taken_up_again(void **state)
{
	struct authority *a = make(NULL);
	const struct broker_authority pem = authority_pem(a);
	struct authority *again = make(&pem);

	assert_string_equal(authority_pem(again).certificate, pem.certificate);
	assert_string_equal(authority_pem(again).key, pem.key);
	SSL_CTX *ctx = authority_context(again, "api.example");
	assert_non_null(ctx);
	assert_int_equal(verify(a, SSL_CTX_get0_certificate(ctx), "api.example"), X509_V_OK);
	authority_free(a);
	authority_free(again);
}

static void test_what_is_no_authority_is_refused(void **state)
{
	struct authority *a = make(NULL), *b = make(NULL);
	SSL_CTX *ctx = authority_context(a, "api.example");
	BIO *bio = BIO_new(BIO_s_mem());
	char leaf[4096] = "";

	assert_true(ctx && bio && PEM_write_bio_X509(bio, SSL_CTX_get0_certificate(ctx)));
	assert_true(BIO_read(bio, leaf, sizeof(leaf) - 1) > 0);
	BIO_free(bio);
	const struct broker_authority wrong[] = {
		{authority_pem(a).certificate, authority_pem(b).key},
		{authority_pem(a).certificate, NULL},
		{authority_pem(a).certificate, ""},
		{authority_pem(a).key, authority_pem(a).key},
		{"", authority_pem(a).key},
		{leaf, authority_pem(a).key},
	};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct cordon_error err = {0};

		assert_null(authority_new(&wrong[i], &err));
		assert_non_null(strstr(err.message, "cannot be read"));
	}
	authority_free(a);
	authority_free(b);
}

/* ---- what it speaks ------------------------------------------------------------------------------------------------------------- */

/* What a client that offers these protocols, and at most this version, gets: "" if none, NULL if the handshake fails. */
static const char *shake(struct authority *a, const char *alpn, int version, char chosen[32])
{
	SSL_CTX *client = SSL_CTX_new(TLS_client_method());
	SSL *ours = SSL_new(authority_context(a, "api.example")), *theirs = SSL_new(client);
	const unsigned char *protocol;
	unsigned len;
	BIO *x, *y;

	assert_true(ours && theirs && BIO_new_bio_pair(&x, 0, &y, 0));
	SSL_set_security_level(theirs, 0);
	assert_true(SSL_set_max_proto_version(theirs, version));
	if (alpn)
		assert_int_equal(SSL_set_alpn_protos(theirs, (const unsigned char *)alpn, (unsigned)strlen(alpn)), 0);
	SSL_set_bio(ours, x, x);
	SSL_set_bio(theirs, y, y);
	SSL_set_accept_state(ours);
	SSL_set_connect_state(theirs);
	for (int i = 0; i < 8; i++)
		(void)SSL_do_handshake(i & 1 ? ours : theirs);
	const bool done = SSL_is_init_finished(ours) && SSL_is_init_finished(theirs);
	SSL_get0_alpn_selected(theirs, &protocol, &len);
	snprintf(chosen, 32, "%.*s", (int)len, len ? (const char *)protocol : "");
	SSL_free(ours);
	SSL_free(theirs);
	SSL_CTX_free(client);
	return done ? chosen : NULL;
}

static void test_http_1_1_is_spoken_and_nothing_else(void **state)
{
	struct authority *a = make(NULL);
	char chosen[32];

	assert_string_equal(shake(a, "\x02h2\x08http/1.1", TLS1_3_VERSION, chosen), "http/1.1");
	assert_string_equal(shake(a, "\x08http/1.1", TLS1_2_VERSION, chosen), "http/1.1");
	assert_string_equal(shake(a, NULL, TLS1_3_VERSION, chosen), "");
	assert_null(shake(a, "\x02h2", TLS1_3_VERSION, chosen));
	assert_null(shake(a, "\x08http/1.0", TLS1_2_VERSION, chosen));
	assert_null(shake(a, NULL, TLS1_1_VERSION, chosen));
	authority_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_its_certificate_is_an_authority_and_nothing_else),
		cmocka_unit_test(test_a_host_has_a_certificate_for_its_name_alone),
		cmocka_unit_test(test_names_as_long_as_they_may_be),
		cmocka_unit_test(test_certificates_are_kept_up_to_a_number),
		cmocka_unit_test(test_an_earlier_one_is_taken_up_again),
		cmocka_unit_test(test_what_is_no_authority_is_refused),
		cmocka_unit_test(test_http_1_1_is_spoken_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
