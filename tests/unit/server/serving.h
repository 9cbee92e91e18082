/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server in a thread of its own, with a handler that does by the path what a test wants of it, and a client that looks at bytes. Whatever
 * waits here gives up after DEADLINE_S.
 */
#ifndef CORDON_TESTS_SERVING_H
#define CORDON_TESTS_SERVING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "server/http.h"

#define DEADLINE_S 60
#define HOST "Host: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

/*
 *   /hello        "hello\n"
 *   /echo         the body, up to 1 MiB; /small up to 10 bytes; /streamed as it comes; /paused with pauses
 *   /who          method, path, host, query pairs and headers, a line each
 *   /text?n=      so many letters of text/plain
 *   /parts?n=     … in parts of 64 KiB, chunked; /parts?n=&known: with its length; &zip: as gzip; &short: one byte less than was promised
 *   /later        is answered by serving_answer_later()
 *   /upgrade      to "echo": bytes come back
 *   /headers      an answer with headers of its own; /bad: with one that would be two
 *   /empty        204
 *   /never        no answer
 *   /early        an answer without a look at the body
 */
struct serving {
	struct http_loop *loop;
	pthread_t thread;
	int listener;
	unsigned short port;
	bool stopped;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned handled, gone, half_closed, pieces, resumed, posted, waits, paused, rounds; /* how often */
	size_t streamed, most_unsent;                                                        /* bytes */
	struct http_exchange *later;                                                         /* the loop's thread only */
};

void serving_start(struct serving *s, const struct http_limits *limits);
/* The loop ends by itself: after a drain. */
void serving_join(struct serving *s);
void serving_stop(struct serving *s);

/* The one that a test asks; for a group of tests (cmocka), with the default limits, and after each. */
extern struct serving server;
int serving_set_up(void **state);
int serving_tear_down(void **state);

/* Until *counter is at least n. */
void serving_wait(struct serving *s, const unsigned *counter, unsigned n);
unsigned serving_count(struct serving *s, const unsigned *counter);
/* The loop has looked at all that there was. */
void serving_round(struct serving *s);
void serving_answer_later(struct serving *s);

int client_connect(const struct serving *s);
/* Both ends of a pair: one is the server's. */
int client_pair(struct serving *s);
void client_send(int fd, const void *data, size_t len);
void client_say(int fd, const char *text);

struct answer {
	int status;
	struct buf head, body; /* body: chunks put together */
	bool chunked, until_close;
};
/* without_body: of a HEAD. */
void client_hear_answer(int fd, struct answer *a, bool without_body);
void client_hear(int fd, struct answer *a);
void client_expect(int fd, int status, const char *body);
/* Everything until the server's end. */
void client_hear_all(int fd, struct buf *all);
/* Nothing but the end, orderly or not. */
void client_expect_end(int fd);
/* The value of a header, "" if there is none. */
const char *answer_header(struct answer *a, const char *name, char *out, size_t size);
void answer_free(struct answer *a);

#endif
