/* SPDX-License-Identifier: Apache-2.0 */
/* A log of several segments, what verifying it says, and somebody who forges it. */
#ifndef CORDON_TESTS_AUDIT_VERIFY_FIXTURE_H
#define CORDON_TESTS_AUDIT_VERIFY_FIXTURE_H

#include "audit/verify.h"

/* Three segments of ten records and the one that ends them, and five more. */
void fill(const char *home);
struct audit_verified verified(const char *home, const struct audit_verify_options *o);
void assert_good(const char *home);
void assert_broken(const char *home, const char *file, uint64_t line, uint64_t seq, const char *what);
struct audit_sealed seal(const char *home, const struct audit_retention *keep);

struct lines {
	char *text, *at[64];
	size_t count, total;
};
struct lines lines_read(const char *home, const char *name);
/* The lines with these numbers, in this order, ended by -1. */
void lines_write(const char *home, const char *name, const struct lines *l, const int *order);
#define ORDER(...) ((const int[]){__VA_ARGS__, -1})

/* Changes line i and gives it (and with `all` every following one) a good hash again: what a forger would do. */
void forge(const char *home, const char *name, size_t i, bool all);

#endif
