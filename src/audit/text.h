/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of the audit: any bytes as JSON, and back. The form is explained in audit.h. */
#ifndef CORDON_AUDIT_TEXT_H
#define CORDON_AUDIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define AUDIT_CUT_MARK "\xe2\x80\xa6" /* … */

/* A part of a longer text. */
struct slice {
	const char *at; /* NULL: null */
	size_t len;
};

/* Adds the bytes without quotes, in at most `max` bytes, marked if they were cut; returns how many of the input are missing then. max is at least 8. */
size_t audit_encode(struct buf *out, const char *s, size_t len, size_t max);

/* The length of the string's inside that begins at s, that is, the place of the quote that ends it; -1 if it is not as audit_encode() writes it. */
ptrdiff_t audit_check(const char *s, size_t len);

enum text_form {
	TEXT_BYTES,   /* as it came in */
	TEXT_UNICODE, /* always UTF-8: bytes that are none stay U+EFxx */
	TEXT_PEOPLE,  /* always UTF-8: bytes that are none become \xHH */
};
/* Adds what the inside of a string, which audit_check() has accepted, stands for. */
void audit_decode(struct buf *out, struct slice s, enum text_form form);

/* Time as "2026-01-31T12:00:00.000000Z". Years 0 to 9999: what is outside becomes the first or last moment of them. */
enum { TEXT_TIME = 27 };
void audit_time(int64_t us, char out[TEXT_TIME + 1]);
bool audit_time_valid(const char *s);

#endif
