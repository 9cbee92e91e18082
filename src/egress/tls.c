/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/trust_bundles.h"
#include "base/util.h"

const unsigned char tls_protocols[TLS_PROTOCOLS_LEN] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

const char *tls_reason(void)
{
	const unsigned long code = ERR_peek_last_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;
	ERR_clear_error();
	return text ? text : "no reason is known";
}

SSL_CTX *tls_context_new(const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new(method);
	if (!ctx)
		return NULL;
	/* a side that ends without saying so in TLS can still be written to; that it did, the channel knows (channel.c) */
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1)
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

/* ---- servers -------------------------------------------------------------------------------------------------------------------- */

SSL_CTX *tls_trust_new(const char *file, struct cordon_error *err)
{
	const char *path = file ? file : trust_bundle_find();
	if (!path) {
		err_set(err, CORDON_ERR_SYSTEM, "this host has no file of certificates by which servers could be verified");
		err_hint(err, "install ca-certificates, or name a file: SSL_CERT_FILE");
		return NULL;
	}
	SSL_CTX *ctx = tls_context_new(TLS_client_method());
	if (!ctx) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	if (SSL_CTX_load_verify_file(ctx, path) != 1) {
		err_set(err, CORDON_ERR_INPUT, "no certificates can be read from %s: %s", path, tls_reason());
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_protos(ctx, tls_protocols, TLS_PROTOCOLS_LEN);
	return ctx;
}

SSL *tls_client_new(SSL_CTX *trust, const char *name)
{
	SSL *ssl = SSL_new(trust);
	if (!ssl)
		return NULL;
	/* a name that is not among the subject's alternative names is none (RFC 9525, 2): not even where there are no others */
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1) {
		SSL_set_connect_state(ssl);
		return ssl;
	}
	SSL_free(ssl);
	ERR_clear_error();
	return NULL;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

static bool shake(SSL *client, SSL *server)
{
	char byte = 0;
	for (int i = 0; i < 8 && (!SSL_is_init_finished(client) || !SSL_is_init_finished(server)); i++)
		(void)SSL_do_handshake(i & 1 ? server : client);
	return SSL_write(client, &byte, 1) == 1 && SSL_read(server, &byte, 1) == 1 && SSL_write(server, &byte, 1) == 1 &&
	       SSL_read(client, &byte, 1) == 1;
}

bool tls_warm_up(SSL_CTX *server, SSL_CTX *trust)
{
	SSL *sides[2] = {SSL_new(trust), SSL_new(server)};
	BIO *a = NULL, *b = NULL;
	bool done = false;
	if (sides[0] && sides[1] && BIO_new_bio_pair(&a, 0, &b, 0) == 1) {
		SSL_set_bio(sides[0], a, a);
		SSL_set_bio(sides[1], b, b);
		SSL_set_connect_state(sides[0]);
		SSL_set_accept_state(sides[1]);
		SSL_set_verify(sides[0], SSL_VERIFY_NONE,
		               NULL); /* it is looked for who signed it, and nobody found: to the end all the same */
		done = shake(sides[0], sides[1]);
	}
	SSL_free(sides[0]);
	SSL_free(sides[1]);
	ERR_clear_error();
	return done;
}
