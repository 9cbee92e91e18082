/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts as a policy names them, in one form each, so that what is matched is what is dialled: a name ("api.example.com"), a suffix
 * ("*.example.com", which excludes example.com itself) or a block of addresses ("10.0.0.0/8", "fd00::/8"; a single address is a block of one).
 *
 * Names are lower case, without a dot at the end, of letters, digits, "-" and "_", and do not end in a number, which resolvers would read as
 * an address in one of its old forms ("127.1", "0x7f.1"). Addresses that are IPv4 in IPv6's clothes (::ffff:1.2.3.4) are IPv4.
 */
#ifndef CORDON_POLICY_HOST_H
#define CORDON_POLICY_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define HOST_NAME_MAX_LEN 253
#define HOST_TEXT_MAX (HOST_NAME_MAX_LEN + 3) /* "*." and the NUL */

enum host_kind { HOST_NAME = 1, HOST_SUFFIX = 2, HOST_BLOCK = 4, HOST_ANY = 7 };

/* The one form of what a user wrote, if it is of one of these kinds (a set of enum host_kind). Allocated; NULL with err set. */
char *host_canonical(const char *text, unsigned kinds, struct cordon_error *err);

/* What somebody wants to reach: a name or an address. */
struct host_target {
	char name[HOST_TEXT_MAX]; /* in the one form; of an address: its text */
	bool is_address;
	int family; /* of an address: AF_INET or AF_INET6 */
	unsigned char address[16];
};
int host_target_parse(const char *text, struct host_target *out, struct cordon_error *err);

/* pattern: as host_canonical() made it. Names match names and suffixes only, addresses blocks only. */
bool host_matches(const char *pattern, const struct host_target *target);

/* Whether all that the one (as host_canonical() made it, like the other) can match, `pattern` matches. */
bool host_covers(const char *pattern, const char *other);

/* The sandbox itself: "localhost", names below it, 127.0.0.0/8, ::1. */
bool host_is_loopback(const struct host_target *target);

#endif
