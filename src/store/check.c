/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/json.h"
#include "store/parts.h"

int store_check_time(const char *what, int64_t ms, struct cordon_error *err)
{
	if (ms >= 0 && ms <= STORE_TIME_MAX)
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "%s: %" PRId64 " ms is out of range", what, ms);
}

static int has_control_characters(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return 1;
	return 0;
}

int store_check_text(const char *what, const char *text, size_t min, size_t max, struct cordon_error *err)
{
	const size_t len = text ? strnlen(text, max + 1) : 0;

	if (len < min)
		return err_set(err, CORDON_ERR_INPUT, "%s is missing", what);
	if (len > max)
		return err_set(err, CORDON_ERR_INPUT, "%s is longer than %zu bytes", what, max);
	if (len && !utf8_valid(text, len))
		return err_set(err, CORDON_ERR_INPUT, "%s is not UTF-8", what);
	if (len && has_control_characters(text))
		return err_set(err, CORDON_ERR_INPUT, "%s has control characters", what);
	return 0;
}

int store_check_blob(const char *what, size_t len, struct cordon_error *err)
{
	if (len <= STORE_BLOB_MAX)
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "%s has %zu bytes, and there may be %d", what, len, STORE_BLOB_MAX);
}

int store_check_number(const char *what, uint64_t v, struct cordon_error *err)
{
	if (v <= INT64_MAX)
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "%s: %" PRIu64 " is too large", what, v);
}

/* Version 4 of RFC 9562: random but for six bits. */
void store_uuid(char out[STORE_UUID_LEN + 1])
{
	unsigned char b[16];
	ssize_t n;

	do
		n = getrandom(b, sizeof(b), 0); /* so few bytes come whole, see getrandom(2) */
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(b))
		abort(); /* only with bad arguments */
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(out, STORE_UUID_LEN + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
	         b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}
