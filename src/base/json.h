/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into a buffer; commas and nesting are kept by the writer. Reading JSON is jansson's work.
 *
 *   struct json j = {.out = &b};
 *   json_object(&j); json_key(&j, "n"); json_int(&j, 1); json_end(&j);      {"n":1}
 */
#ifndef CORDON_BASE_JSON_H
#define CORDON_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define JSON_DEPTH 32

struct json {
	struct buf *out;
	unsigned depth;
	bool in_array[JSON_DEPTH]; /* what each open level is, so that json_end() closes the right one */
	bool has_items[JSON_DEPTH];
	bool after_key;
};

void json_object(struct json *j);
void json_array(struct json *j);
void json_end(struct json *j);
void json_key(struct json *j, const char *key);
void json_int(struct json *j, int64_t v);
void json_double(struct json *j, double v); /* three decimals at most; NaN and infinities become null */
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
void json_str(struct json *j, const char *s); /* NULL becomes null; bytes that are not UTF-8 become U+FFFD */
/* As a string if the bytes are valid UTF-8 without NUL trouble, else base64; returns "utf-8" or "base64". */
const char *json_bytes(struct json *j, const void *data, size_t len);
/* "path": a file's name. One that is not UTF-8 comes with "path_base64" as well, since nobody could find it by the other. */
void json_kpath(struct json *j, const char *path);
/* key + value in one call */
void json_kint(struct json *j, const char *key, int64_t v);
void json_kdouble(struct json *j, const char *key, double v);
void json_kbool(struct json *j, const char *key, bool v);
void json_kstr(struct json *j, const char *key, const char *s);

bool utf8_valid(const void *data, size_t len);

#endif
