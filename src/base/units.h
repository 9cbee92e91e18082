/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Human units: "512M", "60s", "1.5", "10min". Every error names the value and the allowed form; zero, negative, overflow and junk are
 * errors, with errno EINVAL for a malformed value and ERANGE for one that is too small or too large.
 */
#ifndef CORDON_BASE_UNITS_H
#define CORDON_BASE_UNITS_H

#include <stdint.h>

#include "base/err.h"

/* B, K, M, G, T, also KB/KiB…, powers of 1024; bare number = bytes; fractions allowed ("1.5G"). 1 byte … 1 PiB. */
int units_parse_size(const char *text, uint64_t *bytes, struct cordon_error *err);
/* ms, s, m, min, h, d; bare number = seconds; fractions allowed. 1 ms … 365 d. */
int units_parse_duration(const char *text, uint64_t *ms, struct cordon_error *err);
/* CPUs as a decimal, 0.01 … 1024, in thousandths. */
int units_parse_cpus(const char *text, uint64_t *milli, struct cordon_error *err);
/* A whole number in [min, max]. */
int units_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *n, struct cordon_error *err);

/* "512M", "1.5G", "60s": the shortest form that parses back to the same value. buf of at least 32 bytes; returns buf. */
const char *units_format_size(uint64_t bytes, char *buf);
const char *units_format_duration(uint64_t ms, char *buf);

#endif
