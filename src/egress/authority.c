/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "egress/tls.h"
#include "policy/host.h"

#define DAY ((time_t)24 * 60 * 60)
#define SERIAL_BYTES 16
#define VERSION_3 2 /* as it is written */

struct leaf {
	char name[HOST_TEXT_MAX];
	time_t made;
	SSL_CTX *context; /* NULL: this place is free */
};

struct authority {
	EVP_PKEY *key, *leaf_key; /* all hosts have the same: whoever has it, has this process */
	X509 *certificate;
	char *certificate_pem, *key_pem;
	struct leaf leaves[AUTHORITY_LEAVES_MAX];
};

/* ---- certificates --------------------------------------------------------------------------------------------------------------- */

struct extension {
	int nid;
	const char *value;
};

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	const bool added = e && X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
	return added;
}

/* Not one that could be guessed, nor used twice, whatever else is forgotten: some programs refuse a certificate whose issuer and number they have seen on another. */
static bool set_serial(X509 *x)
{
	unsigned char bytes[SERIAL_BYTES];
	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return false;
	bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and always as long */
	BIGNUM *n = BN_bin2bn(bytes, sizeof(bytes), NULL);
	const bool set = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return set;
}

/* Begins a day ago: a sandbox's clock may be another one (faketime, a VM). */
static bool set_life(X509 *x, time_t now, int days)
{
	return X509_time_adj_ex(X509_getm_notBefore(x), -1, 0, &now) && X509_time_adj_ex(X509_getm_notAfter(x), days, 0, &now);
}

static bool set_subject(X509 *x, const char *common_name)
{
	X509_NAME *name = X509_get_subject_name(x);
	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const unsigned char *)"cordon sandbox", -1, -1, 0) &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common_name, -1, -1, 0);
}

/* issuer NULL: itself. */
static X509 *sign(const char *common_name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key, int days, const struct extension *e,
                  size_t count)
{
	X509 *x = X509_new();
	bool able = x && X509_set_version(x, VERSION_3) && set_serial(x) && set_life(x, time(NULL), days) && set_subject(x, common_name) &&
	            X509_set_pubkey(x, key);
	able = able && X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
	for (size_t i = 0; able && i < count; i++)
		able = add_extension(x, issuer ? issuer : x, e[i].nid, e[i].value);
	if (able && X509_sign(x, issuer_key, EVP_sha256()))
		return x;
	X509_free(x);
	return NULL;
}

/* ---- the authority -------------------------------------------------------------------------------------------------------------- */

static int make(struct authority *a, struct cordon_error *err)
{
	static const struct extension extensions[] = {
		{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
		{NID_key_usage, "critical,keyCertSign"},
		{NID_subject_key_identifier, "hash"},
	};
	unsigned char number[8];
	char name[64] = "cordon sandbox ";
	if (RAND_bytes(number, sizeof(number)) != 1 ||
	    !OPENSSL_buf2hexstr_ex(name + strlen(name), sizeof(name) - strlen(name), NULL, number, sizeof(number), '\0'))
		return err_set(err, CORDON_ERR_SYSTEM, "no random numbers for the sandbox's own certificates");
	a->key = EVP_EC_gen("P-256");
	a->certificate = a->key ? sign(name, a->key, NULL, a->key, AUTHORITY_DAYS, extensions, ARRAY_SIZE(extensions)) : NULL;
	return a->certificate ? 0 : err_set(err, CORDON_ERR_SYSTEM, "cannot make the sandbox's own certificates: %s", tls_reason());
}

static int read_earlier(struct authority *a, const struct broker_authority *earlier, struct cordon_error *err)
{
	BIO *certificate = BIO_new_mem_buf(earlier->certificate, -1), *key = BIO_new_mem_buf(earlier->key ? earlier->key : "", -1);
	a->certificate = certificate ? PEM_read_bio_X509(certificate, NULL, NULL, NULL) : NULL;
	a->key = key ? PEM_read_bio_PrivateKey(key, NULL, NULL, NULL) : NULL;
	BIO_free(certificate);
	BIO_free(key);
	if (!a->certificate || !a->key || !X509_check_private_key(a->certificate, a->key) || X509_check_ca(a->certificate) != 1)
		return err_set(err, CORDON_ERR_INPUT, "the sandbox's own certificate cannot be read");
	if (X509_cmp_current_time(X509_get0_notAfter(a->certificate)) <= 0)
		return err_set(err, CORDON_ERR_INPUT, "the sandbox's own certificate has expired");
	return 0;
}

static char *text_of(BIO *bio)
{
	char *data = NULL;
	const long len = BIO_get_mem_data(bio, &data);
	return len > 0 ? strndup(data, (size_t)len) : NULL;
}

static int write_pem(struct authority *a, struct cordon_error *err)
{
	BIO *certificate = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_secmem());
	if (certificate && key && PEM_write_bio_X509(certificate, a->certificate) &&
	    PEM_write_bio_PrivateKey(key, a->key, NULL, NULL, 0, NULL, NULL)) {
		a->certificate_pem = text_of(certificate);
		a->key_pem = text_of(key);
	}
	BIO_free(certificate);
	BIO_free(key);
	return a->certificate_pem && a->key_pem ? 0 : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

struct authority *authority_new(const struct broker_authority *earlier, struct cordon_error *err)
{
	struct authority *a = calloc(1, sizeof(*a));
	if (!a) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	int r = earlier->certificate ? read_earlier(a, earlier, err) : make(a, err);
	if (r == 0 && !(a->leaf_key = EVP_EC_gen("P-256")))
		r = err_set(err, CORDON_ERR_SYSTEM, "cannot make a key: %s", tls_reason());
	if (r == 0 && write_pem(a, err) == 0)
		return a;
	authority_free(a);
	return NULL;
}

void authority_free(struct authority *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(a->leaves); i++)
		SSL_CTX_free(a->leaves[i].context);
	if (a->key_pem)
		OPENSSL_cleanse(a->key_pem, strlen(a->key_pem));
	free(a->key_pem);
	free(a->certificate_pem);
	X509_free(a->certificate);
	EVP_PKEY_free(a->key);
	EVP_PKEY_free(a->leaf_key);
	free(a);
}

struct broker_authority authority_pem(const struct authority *a)
{
	return (struct broker_authority){a->certificate_pem, a->key_pem};
}

/* ---- hosts ---------------------------------------------------------------------------------------------------------------------- */

/* The only protocol that is looked into here. A client that insists on another is told by an alert (no_application_protocol), one that offers none gets HTTP/1.1 all the same. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in, unsigned in_len, void *arg)
{
	unsigned char *chosen;
	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, out_len, tls_protocols, TLS_PROTOCOLS_LEN, in, in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static X509 *make_leaf(struct authority *a, const char *name)
{
	char names[HOST_TEXT_MAX + sizeof("DNS:")];
	snprintf(names, sizeof(names), "DNS:%s", name);
	const struct extension extensions[] = {
		{NID_basic_constraints, "critical,CA:FALSE"},
		{NID_key_usage, "critical,digitalSignature"},
		{NID_ext_key_usage, "serverAuth"},
		{NID_subject_alt_name, names},
		{NID_subject_key_identifier, "hash"},
		{NID_authority_key_identifier, "keyid:always"},
	};
	return sign("cordon sandbox host", a->leaf_key, a->certificate, a->key, AUTHORITY_LEAF_DAYS, extensions, ARRAY_SIZE(extensions));
}

static SSL_CTX *make_context(struct authority *a, const char *name)
{
	SSL_CTX *ctx = tls_context_new(TLS_server_method());
	X509 *leaf = ctx ? make_leaf(a, name) : NULL;
	const bool able = leaf && SSL_CTX_use_certificate(ctx, leaf) == 1 && SSL_CTX_use_PrivateKey(ctx, a->leaf_key) == 1;
	X509_free(leaf);
	if (!able) {
		SSL_CTX_free(ctx);
		ERR_clear_error();
		return NULL;
	}
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	/* a handshake is cheap beside what the other side of the connection needs */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	return ctx;
}

/* The one of this name, or else the one whose place it gets: one that is free, or the oldest. */
static struct leaf *find(struct authority *a, const char *name)
{
	struct leaf *place = &a->leaves[0];
	for (size_t i = 0; i < ARRAY_SIZE(a->leaves); i++) {
		struct leaf *l = &a->leaves[i];
		if (l->context && strcmp(l->name, name) == 0)
			return l;
		if (place->context && (!l->context || l->made < place->made))
			place = l;
	}
	return place;
}

SSL_CTX *authority_context(struct authority *a, const char *name)
{
	struct leaf *l = find(a, name);
	const time_t now = time(NULL);
	if (l->context && strcmp(l->name, name) == 0 && now >= l->made && now - l->made < AUTHORITY_RENEW_DAYS * DAY)
		return l->context;
	SSL_CTX *ctx = strlen(name) < sizeof(l->name) ? make_context(a, name) : NULL;
	if (!ctx)
		return NULL;
	SSL_CTX_free(l->context); /* connections that use it keep it */
	*l = (struct leaf){.made = now, .context = ctx};
	memcpy(l->name, name, strlen(name) + 1);
	return ctx;
}
