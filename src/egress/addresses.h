/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of the airlock (sandbox/airlock.h). Each allowed name gets a number, and the number is an address in two blocks that are routed nowhere else:
 * 198.18.0.0/16 is set aside for tests (RFC 2544), fd00:c0::/32 is local (RFC 4193).
 */
#ifndef CORDON_EGRESS_ADDRESSES_H
#define CORDON_EGRESS_ADDRESSES_H

/* As bytes of an address in network order; a block ends where its prefix does. */
#define AIRLOCK_BLOCK4 198, 18, 0, 0
#define AIRLOCK_BLOCK4_BITS 16
#define AIRLOCK_BLOCK6 0xfd, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define AIRLOCK_BLOCK6_BITS 32

/* The link between sandbox and airlock, outside of the blocks. */
#define AIRLOCK_LINK4_BITS 30
#define AIRLOCK_LINK4_INSIDE 198, 19, 255, 253
#define AIRLOCK_LINK4_OUTSIDE 198, 19, 255, 254
#define AIRLOCK_LINK6_BITS 64
#define AIRLOCK_LINK6_INSIDE 0xfd, 0, 0, 0xc1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1
#define AIRLOCK_LINK6_OUTSIDE 0xfd, 0, 0, 0xc1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2

/* The resolver: number 1 of the blocks. */
#define AIRLOCK_DNS4_TEXT "198.18.0.1"
#define AIRLOCK_DNS6_TEXT "fd00:c0::1"
#define AIRLOCK_DNS_NUMBER 1

/* Numbers of names. */
#define AIRLOCK_NAME_FIRST 16
#define AIRLOCK_NAME_LAST 65023

#endif
