/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/couriers.h"

#include <stdlib.h>

#include "egress/tls.h"

static int make_parts(struct couriers *s, const struct couriers_config *config, struct cordon_error *err)
{
	if (keyring_init(&s->keys, config->policy, err) < 0)
		return -1;
	s->trust = tls_trust_new(config->trust, err);
	s->authority = s->trust ? authority_new(&config->authority, err) : NULL;
	if (!s->authority)
		return -1;
	SSL_CTX *example = authority_context(s->authority, "warm-up.invalid");
	if (!example || !tls_warm_up(example, s->trust))
		return err_set(err, CORDON_ERR_SYSTEM, "OpenSSL cannot shake hands with itself");
	return 0;
}

struct couriers *couriers_new(const struct couriers_config *config, struct cordon_error *err)
{
	struct couriers *s = calloc(1, sizeof(*s));
	if (!s) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	s->base = config->base;
	s->bucket = config->bucket;
	if (make_parts(s, config, err) == 0)
		return s;
	couriers_free(s);
	return NULL;
}

void couriers_free(struct couriers *s)
{
	if (!s)
		return;
	keyring_clear(&s->keys);
	authority_free(s->authority);
	SSL_CTX_free(s->trust);
	OPENSSL_cleanse(s->piece, sizeof(s->piece));
	free(s);
}
