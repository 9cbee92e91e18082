/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a plain HTTP/1 connection, both ways, and holds every request on it to the name that was dialled. What one parser takes for a body and another for a request
 * would be a second, unseen request: so whatever HTTP leaves to taste is refused here (two lengths, folded lines, bare line feeds, white space before a
 * colon, chunk extensions, trailers), and so are CONNECT and HTTP/2 without TLS.
 *
 * A server that does not read a body takes it for its next request, whatever Host stands in it: so a body of GET and HEAD, which many do not read, is refused. Of other methods (POST, and DELETE and
 * OPTIONS, with which real clients send some) it cannot be told: there, such a server's other hosts at the same address can be reached, as they can be inside TLS.
 *
 * After an upgrade to a WebSocket that the server has agreed to, bytes are passed on as they are. It must be the first request of its connection, as it is with every
 * client known: then the answer to it is the first thing that the server says, and none of what a client can make a server say later is ever taken for it.
 * Other protocols may be asked for (Java's client asks for HTTP/2), but not agreed to: some carry requests for any host.
 */
#ifndef CORDON_EGRESS_HTTP_H
#define CORDON_EGRESS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/http_head.h"

struct http_check;

enum http_verdict {
	HTTP_PASS, /* *len bytes may be passed on, perhaps fewer than there were: keep the rest and come again when there is more, or when the server has answered */
	HTTP_REFUSED, /* *why says why, one line without a full stop; *len bytes, which stand before the offending request, may still go. There is no way back */
};

/* name: in the one form of policy/host.h (of an address: its text); port: that which was dialled. NULL: out of memory. */
struct http_check *http_check_new(const char *name, uint16_t port);
/* The same for requests that came inside TLS: the port that need not be named is 443, an address begins with https://. */
struct http_check *http_check_new_secure(const char *name, uint16_t port);
void http_check_free(struct http_check *h);

/*
 * What the client sent, and was not passed on yet; *len: how much there is, then how much may go. The head of a request is passed on when it is whole: not a byte of it goes
 * before that. A head is at most HTTP_HEAD_MAX bytes.
 */
#define HTTP_HEAD_MAX ((size_t)64 << 10)
enum http_verdict http_check_request(struct http_check *h, const void *data, size_t *len, const char **why);
/* What a step was about; texts point into its bytes. */
struct http_part {
	bool is_head; /* all of a request's head and nothing else, which says this: */
	const char *method;
	struct http_text target;
};
/* The same, but no further than to the end of a head, or of a body: for who does something about heads. */
enum http_verdict http_check_step(struct http_check *h, const void *data, size_t *len, struct http_part *part, const char **why);
/* The same for what the server sent: as long as an upgrade may be agreed to, its heads are passed on when they are whole; anything else goes at once. */
enum http_verdict http_check_response(struct http_check *h, const void *data, size_t *len, const char **why);

/* From now on what the server (the client) sends need not be shown: it may be spliced. */
bool http_check_responses_free(const struct http_check *h);
bool http_check_requests_free(const struct http_check *h);
/* What the client sends stays until the server has answered, however much it is. */
bool http_check_waits(const struct http_check *h);

#endif
