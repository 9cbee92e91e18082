/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1, the server's side: a loop that owns connections, and exchanges, each one request and its answer. What is sent as a request and is
 * not one, or could be two, is answered by the core with an error and the end of the connection; a handler only sees requests that everybody
 * reads in the same way.
 *
 *   static void hello(void *arg, struct http_exchange *x)
 *   {
 *           http_answer(x, &(struct http_answer){.status = 200, .type = "text/plain", .body = "hello\n", .len = 6});
 *   }
 *   struct http_loop *loop = http_loop_new(&(struct http_service){.handle = hello}, &err);
 *   http_loop_listen(loop, fd, &err);
 *   http_loop_run(loop);
 *
 * A handler answers at once; or asks for the body first (http_collect, http_stream_body); or keeps the exchange and answers later. To each
 * exchange one of two things happens, and only one: it is ended (http_answer, http_end, http_abort, http_refuse), or its `gone` function is
 * called. After either it must not be touched.
 *
 * Threads: one loop is one thread's. All functions are for that thread (or for before it runs), except http_loop_stop, http_loop_drain and
 * http_loop_post.
 */
#ifndef CORDON_SERVER_HTTP_H
#define CORDON_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct event_base;
struct http_loop;
struct http_exchange;

/* ---- the loop ------------------------------------------------------------------------------------------------------------------ */

/* 0 is the default, which stands behind each. What is over a limit is refused with the status in brackets, and its connection closed. */
struct http_limits {
	size_t head_bytes;   /* 16 KiB: request line and headers (431) */
	size_t target_bytes; /* 8 KiB (414) */
	size_t headers;      /* 100 (431) */
	size_t connections;  /* 10,000 of this loop; then the longest idle is closed, and if none is idle, nobody is accepted */
	size_t unsent_bytes; /* 4 MiB of a streamed answer: a writer that does not wait for `drained` loses its connection there */
	unsigned head_ms;    /* 10 s from a head's first byte to its last (408) */
	unsigned idle_ms;    /* 75 s without a request */
	unsigned stall_ms;   /* 30 s without a byte of a body that is waited for (408), or of an answer taken */
	unsigned linger_ms;  /* 2 s for a client to take note of an end */
};

/* An error as every client sees it: {"error":{"code":…,"message":…,"hint":…}} */
struct http_problem {
	int status;
	const char *code, *message, *hint; /* hint: NULL, if there is none */
};

struct http_service {
	void (*handle)(void *arg, struct http_exchange *x); /* a request's head is here, and in order */
	/* Writes an error's body, application/json. NULL: in the form above. */
	void (*problem)(void *arg, const struct http_problem *p, struct buf *body);
	void *arg;
	struct http_limits limits;
};

struct http_loop *http_loop_new(const struct http_service *service, struct cordon_error *err);
/* A listening socket, TCP or unix. It stays the caller's, and open until the loop is freed; several loops may have the same. */
int http_loop_listen(struct http_loop *loop, int fd, struct cordon_error *err);
/* A connected socket becomes the loop's, also if that fails. */
int http_loop_adopt(struct http_loop *loop, int fd, struct cordon_error *err);
/* Until it is stopped, or drained. */
void http_loop_run(struct http_loop *loop);
/* From any thread or signal handler: the loop ends now; what is under way is gone when it is freed. */
void http_loop_stop(struct http_loop *loop);
/*
 * From any thread or signal handler: accepts nobody any more, closes who is idle, lets what has been asked be answered (and upgraded exchanges
 * end); then the loop ends.
 */
void http_loop_drain(struct http_loop *loop);
/*
 * From any thread: fn(arg) is called in the loop's, in the order of posting. -1: out of memory. What is posted to a loop that does not run any
 * more is never called.
 */
int http_loop_post(struct http_loop *loop, void (*fn)(void *arg), void *arg);
/* For events of one's own in the same thread. */
struct event_base *http_loop_base(struct http_loop *loop);
size_t http_loop_connections(const struct http_loop *loop);
/* Not from inside of one of its own calls. */
void http_loop_free(struct http_loop *loop);

/* ---- requests ------------------------------------------------------------------------------------------------------------------ */

struct http_header {
	const char *name, *value;
};

struct http_peer {
	sa_family_t family; /* AF_INET, AF_INET6 or AF_UNIX */
	uint16_t port;
	uint8_t address[16]; /* in network order; of AF_INET the first 4 */
	uid_t uid;           /* AF_UNIX: who connected; else (uid_t)-1 */
	pid_t pid;
};

/* All texts live as long as the exchange. */
struct http_request {
	const char *method; /* "GET": in capitals, and one that HTTP knows */
	const char *path;   /* begins with "/"; decoded, UTF-8; no control characters, no "." or ".." segments, no encoded slashes */
	const char *query;  /* what stands behind "?", as it came; "" */
	const char *host;   /* with its port, if one was given; "": HTTP/1.0 without */
	int minor;          /* HTTP/1.minor */
	bool keep_alive;    /* the client would send another one */
	bool has_body;
	bool tls;
	int64_t length; /* of the body; -1: not known before its end */
	const struct http_header *headers;
	size_t header_count;
	struct http_peer peer;
};

const struct http_request *http_request(const struct http_exchange *x);
/* The first of that name, in whatever case; NULL: none. */
const char *http_header(const struct http_exchange *x, const char *name);
/* "192.0.2.1:8000", "[2001:db8::1]:8000" or "unix:uid=1000". */
void http_peer_name(const struct http_peer *peer, char *out, size_t size);

/*
 * for (struct http_query q = http_query(x); http_query_next(&q);) … q.name, q.value: decoded ("+" is a space), never NULL, as long as the
 * exchange lives.
 */
struct http_query {
	struct http_exchange *x;
	const char *rest;
	const char *name, *value;
};
struct http_query http_query(struct http_exchange *x);
bool http_query_next(struct http_query *q);
/* The first of that name; NULL: none. */
const char *http_query_get(struct http_exchange *x, const char *name);

/* ---- a request's body ---------------------------------------------------------------------------------------------------------- */

/* All of it, up to cap (else 413, and the exchange is gone), then done(). A NUL stands behind it; it lives as long as the exchange. */
void http_collect(struct http_exchange *x, size_t cap, void (*done)(void *arg, struct http_exchange *x, char *body, size_t len), void *arg);
/* As it comes; last: it is complete (len may be 0 then). Of an upgraded exchange: the client's bytes, and that it has ended. */
typedef void http_piece_fn(void *arg, struct http_exchange *x, const char *data, size_t len, bool last);
void http_stream_body(struct http_exchange *x, http_piece_fn *piece, void *arg);
/* No more pieces until http_resume: the client's socket fills up, and it waits. */
void http_pause(struct http_exchange *x);
void http_resume(struct http_exchange *x);

/* ---- answers ------------------------------------------------------------------------------------------------------------------- */

/* Content-Length, Transfer-Encoding, Connection, Date, Server and Content-Type are written by the core, and may not be among the headers. */
struct http_answer {
	int status;
	const char *type; /* Content-Type; NULL: none */
	const struct http_header *headers;
	size_t header_count;
	const void *body; /* copied; of http_begin: not used */
	size_t len;       /* up to 60 MiB */
	bool plain;       /* never gzip: the body has a secret beside something that a stranger chose */
	bool close;       /* … and the connection */
};

/* Whole. A text over 1 KiB is sent as gzip to who accepts that. */
void http_answer(struct http_exchange *x, const struct http_answer *a);
/* An error, in the form of all errors. */
void http_refuse(struct http_exchange *x, const struct http_problem *p);

/*
 * In parts. length: of the body, if it is known; -1: not known, chunked (to HTTP/1.0: until the connection closes). HTTP_STREAM_GZIP, if the
 * client accepts it, and then the length is not used.
 */
enum http_stream_flags { HTTP_STREAM_GZIP = 1 };
void http_begin(struct http_exchange *x, const struct http_answer *a, int64_t length, unsigned flags);
/*
 * How many bytes are not sent yet; -1: that was too much, or the client is gone (`gone` comes later). Over HTTP_ENOUGH: stop, and go on when
 * `drained` is called.
 */
#define HTTP_ENOUGH ((int64_t)256 << 10)
int64_t http_write(struct http_exchange *x, const void *data, size_t len);
void http_on_drained(struct http_exchange *x, void (*drained)(void *arg, struct http_exchange *x), void *arg);
/* The answer is complete. If it has not the length that was promised, its connection is reset. */
void http_end(struct http_exchange *x);
/* The connection is reset: the client sees that the answer is not complete. */
void http_abort(struct http_exchange *x);

/*
 * The exchange will not be answered: the client broke off, or its body was refused, or the loop is freed. Only http_request() and
 * http_header() may still be asked.
 */
void http_on_gone(struct http_exchange *x, void (*gone)(void *arg, struct http_exchange *x), void *arg);
/* The client sends nothing any more. It may still be reading (`nc -N`), or be closed: over TCP nobody knows before something is sent. */
void http_on_half_closed(struct http_exchange *x, void (*half_closed)(void *arg, struct http_exchange *x), void *arg);
bool http_half_closed(const struct http_exchange *x);

/*
 * Answers 101 with "Upgrade: PROTOCOL" and these headers. The exchange is then a stream of bytes in both directions: http_stream_body() says
 * who reads, http_write() sends as it is, http_pause(), http_on_drained() and http_on_gone() work as before; http_end() closes after all has
 * been sent. -1: the client has not asked for that protocol ("Connection: upgrade", HTTP/1.1, no body); nothing was answered.
 */
int http_upgrade(struct http_exchange *x, const char *protocol, const struct http_header *headers, size_t header_count);

#endif
