/* SPDX-License-Identifier: Apache-2.0 */
/* Where systems keep the certificates of those whom they believe, as one file; in the order in which they are looked for. */
#ifndef CORDON_BASE_TRUST_BUNDLES_H
#define CORDON_BASE_TRUST_BUNDLES_H

#include <stddef.h>
#include <unistd.h>

static const char *const trust_bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch, Alpine */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
	"/etc/ssl/ca-bundle.pem",             /* SUSE */
	"/etc/ssl/cert.pem",
};

/* The first that can be read; NULL: none. */
static inline const char *trust_bundle_find(void)
{
	for (size_t i = 0; i < sizeof(trust_bundles) / sizeof(trust_bundles[0]); i++)
		if (access(trust_bundles[i], R_OK) == 0)
			return trust_bundles[i];
	return NULL;
}

#endif
