/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of one HTTP request, for http.c: what its bytes may look like, and what it may say. llhttp reads it; this says no to what llhttp lets pass, of whatever
 * version it is, and to every other host.
 */
#ifndef CORDON_EGRESS_HTTP_HEAD_H
#define CORDON_EGRESS_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_text {
	const char *at;
	size_t len;
};

/* All functions that return a text return the reason for a refusal, NULL: none. */

/* Where a head ends, and whether only bytes are in it that everybody takes for the same. Comes along as they come. */
struct http_lines {
	size_t seen;     /* bytes looked at */
	size_t line;     /* of the line that is under way, without its end */
	size_t first;    /* length of the first line, with its end; 0: it goes on */
	unsigned spaces; /* in it */
	char last;       /* byte */
	bool answer;     /* a server's: its first line has as many spaces as it likes */
};
/* data: all of the head that is there. *whole: its length, once its end is there; else 0. */
const char *http_lines_scan(struct http_lines *l, const char *data, size_t len, size_t *whole);
/* The first line, with its end. */
const char *http_line_check(const char *line, size_t len);

/* What the fields say. */
struct http_head {
	unsigned hosts, lengths, codings;
	bool upgrade;   /* to whatever */
	bool websocket; /* … among others */
};
struct http_target {
	const char *name;
	uint16_t port;
	bool secure; /* inside TLS */
};
/* In the bytes of the head: name and value stand as they came. */
const char *http_head_field(struct http_head *h, const struct http_target *t, struct http_text name, struct http_text value);
const char *http_head_end(const struct http_head *h, const struct http_target *t, struct http_text target, bool options, bool http_1_0);

/* The same field: capitals do not matter, and to some "_" is "-" (what comes out of CGI has only one of them). */
bool http_same_field(struct http_text name, const char *field);

/* The Upgrade field of an answer is this and nothing else. */
bool http_is_websocket(struct http_text value);

#endif
