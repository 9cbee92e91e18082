/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that were asked for and allowed, and the numbers (egress/addresses.h) under which a sandbox knows them. A number belongs to one name as long as anybody may
 * still use it: a name's place is taken by another only when it has no connection and all others were used more recently (asked for, or their last connection ended),
 * and never within the time for which its address was promised. Numbers begin anywhere: those of a table that is gone mean nothing to the next.
 */
#ifndef CORDON_EGRESS_NAMES_H
#define CORDON_EGRESS_NAMES_H

#include <stdint.h>

struct names;

#define NAMES_TTL_S 30 /* for which an address is promised */

struct names *names_new(uint32_t capacity); /* at most as many as there are numbers; NULL: errno */
void names_free(struct names *n);

/* The number of a name in the one form of policy/host.h; 0: there is no room now. now_s: a clock that only goes forward. */
uint32_t names_number(struct names *n, const char *name, uint64_t now_s);
/* The name of a number, valid until the next call of names_number(); NULL: nobody has it. */
const char *names_of(const struct names *n, uint32_t number);

/* A connection holds its name. Numbers that nobody has are ignored. */
void names_hold(struct names *n, uint32_t number);
void names_release(struct names *n, uint32_t number);

/* Numbers and addresses (4 bytes, 16 bytes, network order); 0: the address is none of the airlock's names. */
uint32_t names_number_of4(const uint8_t address[4]);
uint32_t names_number_of6(const uint8_t address[16]);
void names_address4(uint32_t number, uint8_t out[4]);
void names_address6(uint32_t number, uint8_t out[16]);

#endif
