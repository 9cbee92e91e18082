/* SPDX-License-Identifier: Apache-2.0 */
/* ClientHellos as no TLS library would make them, for tests and the fuzzer's seeds. */
#ifndef CORDON_TESTS_HELLO_MAKER_H
#define CORDON_TESTS_HELLO_MAKER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hello {
	unsigned char data[80 << 10];
	size_t len;
};

static inline void hello_add(struct hello *h, const void *data, size_t len)
{
	memcpy(h->data + h->len, data, len);
	h->len += len;
}

/* A number of so many bytes. */
static inline void hello_number(struct hello *h, size_t n, int bytes)
{
	while (bytes--)
		h->data[h->len++] = (unsigned char)(n >> (8 * bytes));
}

static inline void hello_extension(struct hello *h, unsigned type, const void *data, size_t len)
{
	hello_number(h, type, 2);
	hello_number(h, len, 2);
	hello_add(h, data, len);
}

/* The extension with one name in it, of so many bytes. */
static inline void hello_server_name(struct hello *h, const char *name, size_t len)
{
	struct hello list = {.len = 0};

	hello_number(&list, len + 3, 2);
	hello_number(&list, 0, 1);
	hello_number(&list, len, 2);
	hello_add(&list, name, len);
	hello_extension(h, 0, list.data, list.len);
}

/* The message around these extensions; NULL: without any. */
static inline void hello_message(struct hello *out, unsigned version, const struct hello *extensions)
{
	static const unsigned char ciphers[] = {0x0a, 0x0a, 0x13, 0x01, 0xc0, 0x2f, 0x00, 0x2f}; /* the first one is GREASE (RFC 8701) */
	struct hello body = {.len = 0};

	hello_number(&body, version, 2);
	for (int i = 0; i < 32; i++)
		hello_number(&body, (size_t)i * 7, 1);
	hello_number(&body, 0, 1);
	hello_number(&body, sizeof(ciphers), 2);
	hello_add(&body, ciphers, sizeof(ciphers));
	hello_number(&body, 0x0100, 2);
	if (extensions) {
		hello_number(&body, extensions->len, 2);
		hello_add(&body, extensions->data, extensions->len);
	}
	out->len = 0;
	hello_number(out, 1, 1);
	hello_number(out, body.len, 3);
	hello_add(out, body.data, body.len);
}

/* In records of so many bytes. */
static inline void hello_records(struct hello *out, const struct hello *message, size_t piece)
{
	out->len = 0;
	for (size_t at = 0; at < message->len; at += piece) {
		size_t n = message->len - at < piece ? message->len - at : piece;

		hello_number(out, 0x160301, 3);
		hello_number(out, n, 2);
		hello_add(out, message->data + at, n);
	}
}

#endif
