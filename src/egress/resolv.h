/* SPDX-License-Identifier: Apache-2.0 */
/* The host's files about names: hosts(5), resolv.conf(5). Read once, while files can still be opened. */
#ifndef CORDON_EGRESS_RESOLV_H
#define CORDON_EGRESS_RESOLV_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define RESOLV_SERVERS_MAX 3         /* as resolv.conf(5) has it */
#define RESOLV_CONF_MAX (64u << 10)  /* bytes of a file … */
#define RESOLV_HOSTS_MAX (16u << 20) /* … and of the other */

union resolv_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct hosts_entry {
	const char *name; /* in lower case, without a dot at the end */
	int family;
	unsigned char address[16];
	size_t line; /* in the file's order */
};

struct resolv {
	union resolv_address servers[RESOLV_SERVERS_MAX]; /* one at least: without a word about it, this host */
	size_t server_count;
	unsigned timeout_s, attempts; /* per server */
	bool by_stream;               /* over TCP only */
	struct hosts_entry *hosts;    /* by name */
	size_t host_count;
	char *text; /* where the names are */
};

/* NULL: the usual files, which need not be there. */
int resolv_read(struct resolv *r, const char *resolv, const char *hosts, struct cordon_error *err);
/* Its servers and options are those of this text. -1: out of memory, and all is as before. */
int resolv_renew(struct resolv *r, const char *text);
void resolv_clear(struct resolv *r);

/* The first entry of a name, which is followed by its others, *count in all; NULL: the file does not have it. */
const struct hosts_entry *resolv_host(const struct resolv *r, const char *name, size_t *count);

#endif
