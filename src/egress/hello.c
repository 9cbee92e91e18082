/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/hello.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"

/*
 * Records (RFC 8446 5.1) only carry the ClientHello: their headers, and the four bytes at its start, say when it is whole. A client that sends it byte by byte is
 * asked no more than that every time. The number of records is limited so that there is an end to it; 64 KB need four.
 */
enum { RECORD_HEADER = 5, RECORD_MAX = 1 << 14, RECORDS_MAX = 32, MESSAGE_HEADER = 4 };
enum { RECORD_CHANGE_CIPHER_SPEC = 0x14, RECORD_ALERT = 0x15, RECORD_HANDSHAKE = 0x16 };
enum { MESSAGE_CLIENT_HELLO = 1, MESSAGE_SERVER_HELLO = 2 };

static const char too_long[] = "the ClientHello is too long", not_hello[] = "this is not a TLS ClientHello";

static enum hello_verdict refuse(const char **why, const char *reason)
{
	*why = reason;
	return HELLO_REFUSED;
}

struct measure {
	size_t at;                            /* where the next record begins */
	size_t have, want;                    /* bytes of the message in the records before; of the message in all, as far as is known */
	unsigned char header[MESSAGE_HEADER]; /* the message's first bytes, which may lie in several records */
};

/* The message's length, once its header is there. */
static const char *measure_message(struct measure *m)
{
	if (m->have < MESSAGE_HEADER)
		return NULL;
	if (m->header[0] != MESSAGE_CLIENT_HELLO)
		return not_hello;
	m->want = MESSAGE_HEADER + ((size_t)m->header[1] << 16 | (size_t)m->header[2] << 8 | m->header[3]);
	return m->want > HELLO_MAX ? too_long : NULL;
}

/* One record more; as soon as a byte of it cannot be right, that is said. */
static enum hello_verdict measure_record(struct measure *m, const unsigned char *p, size_t len, const char **why)
{
	size_t left = len - m->at, body;

	p += m->at;
	if ((left >= 1 && p[0] != RECORD_HANDSHAKE) || (left >= 2 && p[1] != 3))
		return refuse(why, not_hello);
	if (m->at + RECORD_HEADER > HELLO_MAX)
		return refuse(why, too_long);
	if (left < RECORD_HEADER)
		return HELLO_MORE;
	body = (size_t)p[3] << 8 | p[4];
	if (body == 0 || body > RECORD_MAX)
		return refuse(why, not_hello);
	if (m->at + RECORD_HEADER + body > HELLO_MAX)
		return refuse(why, too_long);
	for (size_t i = 0; m->have + i < MESSAGE_HEADER && i < body && RECORD_HEADER + i < left; i++)
		m->header[m->have + i] = p[RECORD_HEADER + i];
	if (left - RECORD_HEADER < body)
		return HELLO_MORE;
	m->have += body;
	m->at += RECORD_HEADER + body;
	if ((*why = measure_message(m)))
		return HELLO_REFUSED;
	return HELLO_OK;
}

/* How many bytes the records of the ClientHello take, when they are all there. Nothing else may be in them. */
static enum hello_verdict measure_hello(const unsigned char *p, size_t len, size_t *whole, const char **why)
{
	struct measure m = {.want = MESSAGE_HEADER};
	enum hello_verdict verdict;

	for (int records = 0; m.have < m.want; records++) {
		if (records == RECORDS_MAX)
			return refuse(why, "the ClientHello is in too many pieces");
		verdict = measure_record(&m, p, len, why);
		if (verdict != HELLO_OK)
			return verdict;
	}
	if (m.have > m.want)
		return refuse(why, "there is something behind the ClientHello in its record");
	*whole = m.at;
	return HELLO_OK;
}

/* ---- what it says -------------------------------------------------------------------------------------------------------------- */

/* Names that nobody here can read: ECH (RFC 9849) and what it was called before. OpenSSL gives out only extensions that it has heard of. */
static const unsigned int hidden[] = {0xfe0d, 0xffce};

struct question {
	const char *name;
	const char *why; /* NULL: all is well */
	bool asked;      /* OpenSSL could read it */
};

static bool is_address(const char *name)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* The extension (RFC 6066 3) is as a whole what it must be for this name: one entry, of type host_name. Letters may be of any case. */
static const char *check_server_name(const unsigned char *ext, size_t len, const char *name)
{
	size_t n = strlen(name);
	enum { LIST = 2, ENTRY = 3 }; /* a length; a type and a length */

	if (len < LIST + ENTRY || ext[LIST] != 0 || ((size_t)ext[0] << 8 | ext[1]) != len - LIST)
		return "the ClientHello's server name cannot be read";
	size_t first = (size_t)ext[3] << 8 | ext[4];
	if (first != len - LIST - ENTRY)
		return first < len - LIST - ENTRY ? "the ClientHello has several server names"
		                                  : "the ClientHello's server name cannot be read";
	if (first != n || strncasecmp((const char *)ext + LIST + ENTRY, name, n) != 0)
		return "the ClientHello's server name is another one";
	return NULL;
}

static const char *answer_question(SSL *ssl, const char *name)
{
	const unsigned char *ext;
	size_t len;

	if (SSL_client_hello_isv2(ssl))
		return not_hello;
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		if (SSL_client_hello_get0_ext(ssl, hidden[i], &ext, &len))
			return "the ClientHello is encrypted, or pretends to be (ECH)";
	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &ext, &len))
		return check_server_name(ext, len, name);
	return is_address(name) ? NULL : "the ClientHello has no server name";
}

/* The handshake always ends here, whatever the answer: none of what comes behind it (versions, ciphers, certificates) is ours. */
static int on_hello(SSL *ssl, int *alert, void *arg)
{
	struct question *q = SSL_get_app_data(ssl);

	q->asked = true;
	q->why = answer_question(ssl, q->name);
	*alert = SSL_AD_INTERNAL_ERROR;
	return SSL_CLIENT_HELLO_ERROR;
}

static SSL_CTX *make_context(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_client_hello_cb(ctx, on_hello, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		if (SSL_extension_supported(hidden[i]))
			continue;
		if (!SSL_CTX_add_custom_ext(ctx, hidden[i], SSL_EXT_CLIENT_HELLO, NULL, NULL, NULL, NULL, NULL)) {
			SSL_CTX_free(ctx);
			return NULL;
		}
	}
	return ctx;
}

/* Made once and never changed: to make it takes ten times as long as to read a ClientHello. NULL: out of memory, for good. */
static SSL_CTX *context;
static pthread_once_t context_once = PTHREAD_ONCE_INIT;

static void keep_context(void)
{
	context = make_context();
}

/* Has OpenSSL read this; false: it could not be asked. */
static bool ask_openssl(struct question *q, const void *data, size_t len)
{
	hello_warm_up();
	SSL *ssl = context ? SSL_new(context) : NULL;
	BIO *in = BIO_new_mem_buf(data, (int)len), *out = BIO_new(BIO_s_null());
	bool able = ssl && in && out && SSL_set_app_data(ssl, q);

	if (able) {
		SSL_set_bio(ssl, in, out);
		SSL_accept(ssl);
	} else {
		BIO_free(in);
		BIO_free(out);
	}
	SSL_free(ssl);
	ERR_clear_error();
	return able;
}

void hello_warm_up(void)
{
	pthread_once(&context_once, keep_context);
}

size_t hello_length(const void *data, size_t len)
{
	const char *ignored;
	size_t whole;

	return measure_hello(data, len, &whole, &ignored) == HELLO_OK ? whole : 0;
}

enum hello_verdict hello_check(const void *data, size_t len, const char *name, const char **why)
{
	struct question q = {.name = name};
	size_t whole;
	enum hello_verdict verdict = measure_hello(data, len, &whole, why);

	if (verdict != HELLO_OK)
		return verdict;
	if (!ask_openssl(&q, data, whole))
		return refuse(why, "out of memory");
	if (!q.asked)
		return refuse(why, "the ClientHello cannot be read");
	return q.why ? refuse(why, q.why) : HELLO_OK;
}

/* ---- the server's answer --------------------------------------------------------------------------------------------------------- */

/* A ServerHello with this for a random number is a HelloRetryRequest (RFC 8446 4.1.3): the SHA-256 of that word. */
static const unsigned char retry_random[] = {0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
                                             0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
                                             0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c};

enum hello_answer hello_answer(const void *data, size_t len)
{
	enum { WARNING = 1, ALERT = RECORD_HEADER + 2, VERSION = 2, RANDOM = RECORD_HEADER + MESSAGE_HEADER + VERSION };
	const unsigned char *p = data;

	/* servers of old warn that they do not know the name, and go on */
	for (int warnings = 0; warnings < 4 && len >= 1 && p[0] == RECORD_ALERT; warnings++, p += ALERT, len -= ALERT) {
		if (len < ALERT)
			return HELLO_ANSWER_MORE;
		if (p[3] != 0 || p[4] != 2 || p[5] != WARNING)
			return HELLO_ANSWER_FINAL;
	}
	if (len >= 1 && p[0] != RECORD_HANDSHAKE)
		return p[0] == RECORD_ALERT ? HELLO_ANSWER_RETRY : HELLO_ANSWER_FINAL; /* enough warnings: better to look */
	if (len >= RECORD_HEADER && ((size_t)p[3] << 8 | p[4]) < RANDOM + sizeof(retry_random) - RECORD_HEADER)
		return HELLO_ANSWER_RETRY; /* in pieces: the same */
	if (len < RANDOM + sizeof(retry_random))
		return HELLO_ANSWER_MORE;
	if (p[RECORD_HEADER] != MESSAGE_SERVER_HELLO)
		return HELLO_ANSWER_RETRY;
	return memcmp(p + RANDOM, retry_random, sizeof(retry_random)) == 0 ? HELLO_ANSWER_RETRY : HELLO_ANSWER_FINAL;
}

/* Before its second ClientHello a client may say ChangeCipherSpec, which means nothing (RFC 8446 D.4). */
enum hello_verdict hello_check_again(const void *data, size_t len, const char *name, const char **why)
{
	static const unsigned char dummy[] = {RECORD_CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1};
	size_t n = MIN(len, sizeof(dummy));

	if (len && memcmp(data, dummy, n) == 0) {
		if (n < sizeof(dummy))
			return HELLO_MORE;
		return hello_check((const unsigned char *)data + n, len - n, name, why);
	}
	return hello_check(data, len, name, why);
}
