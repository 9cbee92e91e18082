/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the HTTP core know of each other.
 *
 *   http_loop.c     listeners, limits, clocks, and what comes from other threads
 *   http_conn.c     a connection: its bytes in and out, and whose turn it is
 *   http_head.c     from bytes to a request, or to a refusal
 *   http_target.c   path, query and host
 *   http_body.c     a request's body
 *   http_answer.c   what a handler says
 *   http_compose.c  … as bytes
 *   http_gzip.c     … and smaller
 */
#ifndef CORDON_SERVER_HTTP_PARTS_H
#define CORDON_SERVER_HTTP_PARTS_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <llhttp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/http.h"

#define ROOM_FOR_BODY ((size_t)16 << 10)   /* behind a head of the greatest length */
#define PIPELINE_UNSENT ((size_t)64 << 10) /* so much of earlier answers may wait when another request is looked at */
#define KEPT_BYTES ((size_t)64 << 10)      /* buffers that have become larger are not kept for the next */
#define SPARE_EXCHANGES 64
#define SPARE_BUFS 64

struct conn;
struct gzip;
TAILQ_HEAD(conn_list, conn);

/* ---- the loop ------------------------------------------------------------------------------------------------------------------ */

/* All of one kind have the same patience, so that a list in the order of beginning is in the order of ending, and one timer is enough for all. */
enum timer_kind { TIMER_IDLE, TIMER_HEAD, TIMER_STALL, TIMER_LINGER, TIMER_KINDS };
#define TIMER_NONE TIMER_KINDS

struct post;
struct http_listener;

struct http_loop {
	struct event_base *base;
	struct http_service service;
	struct http_limits limits; /* without zeros */
	struct conn_list conns, timed[TIMER_KINDS];
	size_t conn_count;
	struct event *timer, *wake, *accept_later;
	uint64_t timer_at, now_ms;
	struct http_listener *listeners;
	bool accepting, draining, freeing;

	struct http_exchange *spare; /* a list, of spare_count */
	size_t spare_count, buf_count;
	struct buf bufs[SPARE_BUFS]; /* for output */
	struct gzip *gzip;           /* for whole answers; made when it is needed first */
	time_t date_at;
	char date[40]; /* "Date: …\r\n" */

	int wake_fd;
	atomic_bool stop_asked, drain_asked;
	pthread_mutex_t lock; /* of posts */
	struct post *posts, **posts_end;
};

void loop_timer_set(struct http_loop *l, struct conn *c, enum timer_kind kind);
void loop_conn_gone(struct http_loop *l);
/* NULL: out of memory. */
struct http_exchange *loop_take_exchange(struct http_loop *l);
void loop_give_exchange(struct http_loop *l, struct http_exchange *x);
void loop_take_buf(struct http_loop *l, struct buf *b);
void loop_give_buf(struct http_loop *l, struct buf *b);

/* ---- connections --------------------------------------------------------------------------------------------------------------- */

/*
 *   HEAD      a request is waited for, or is on its way
 *   EXCHANGE  a handler has one
 *   RAW       … and has made a stream of it
 *   LINGER    nothing is read as a request any more: what is unsent goes out, then we close our side, and wait for the client's end
 *             for a while, since a close() with bytes unread would be a reset, and could take the answer away from the client
 *             (RFC 9112, 9.6)
 */
enum conn_state { CONN_HEAD, CONN_EXCHANGE, CONN_RAW, CONN_LINGER };

struct conn {
	struct http_loop *loop;
	TAILQ_ENTRY(conn) all, timed;
	uint64_t deadline;
	enum timer_kind timer;
	enum conn_state state;
	struct event event; /* both directions, edge-triggered: set up once for the whole connection */
	int fd;
	bool readable, writable; /* as far as is known */
	bool eof;                /* the client has closed its side */
	bool shut;               /* we have */
	bool running;            /* its turn is under way; whoever changes something need not wake it */
	bool broken;             /* to be freed at the end of its turn */
	bool reset;              /* … so that the client sees that something is missing */
	bool moved;              /* bytes went, since the timer was set */
	bool served;             /* a request was answered since */
	struct buf out;
	size_t sent; /* of out */
	size_t lingered;
	struct http_exchange *x; /* NULL: nothing of a request is here */
	struct http_peer peer;
};

struct conn *conn_new(struct http_loop *l, int fd, const struct sockaddr *peer);
/* Does what there is to do; c may be freed by it. */
void conn_turn(struct conn *c);
/* A turn soon, if it is not its turn now. */
void conn_wake(struct conn *c);
void conn_expired(struct conn *c, enum timer_kind kind);
/* Whoever has its exchange is told. */
void conn_free(struct conn *c);
/* Sends what can be sent. */
void conn_flush(struct conn *c);
static inline size_t conn_unsent(const struct conn *c)
{
	return c->out.len - c->sent;
}

/* ---- exchanges ----------------------------------------------------------------------------------------------------------------- */

/* Where the end of a head is looked for; goes on where it stopped. */
struct head_scan {
	size_t seen, line, first; /* bytes in all, of this line, of the first line (0: it is under way) */
	size_t method, target;    /* of the first line */
	size_t lines, spaces;
	char last;
};

/* What stands between the pieces of a chunked body. */
enum framing { FRAMING_SIZE, FRAMING_EXTENSION, FRAMING_DATA_END, FRAMING_TRAILER, FRAMING_OVER };
struct chunk_lines {
	enum framing at;
	unsigned digits;
	bool zero;          /* the size, so far */
	size_t line, extra; /* bytes of this line; of all extensions and trailers */
	char last;
};

struct text {
	char *at;
	size_t len;
};

enum answer_state { ANSWER_NONE, ANSWER_BEGUN, ANSWER_DONE };

struct http_exchange {
	struct conn *conn;
	struct http_exchange *next_spare;

	/* bytes of the client: [start, start + head_len) is the head, to which the request's texts point; [pos, filled) is not looked at yet */
	char *in;
	size_t start, head_len, pos, filled;
	struct http_header *headers;
	char *query_text; /* decoded pairs, each where it stands in the query */

	/* from here on it is cleared for each request */
	struct head_scan scan;
	struct http_request request;
	struct http_problem problem; /* why it is refused */
	llhttp_t parser;
	struct text target, name, value; /* as llhttp finds them */
	unsigned hosts, lengths, codings;
	bool close_asked, keep_asked, upgrade_asked, expects;
	bool head_done, handed; /* … to the handler */

	struct chunk_lines chunks;
	const char *cursor; /* of a chunked body's bytes: those before it have been looked at */
	uint64_t body_seen;
	bool body_done, body_told, paused;
	size_t collect_cap;
	void (*collected)(void *arg, struct http_exchange *x, char *body, size_t len);
	http_piece_fn *piece;
	void *body_arg;

	enum answer_state answer;
	bool close, chunked, no_body, raw;
	int64_t left; /* of the length that was promised; -1: none was */
	struct gzip *gzip;
	bool wants_drained, half_told;
	void (*drained)(void *arg, struct http_exchange *x);
	void (*gone)(void *arg, struct http_exchange *x);
	void (*half_closed)(void *arg, struct http_exchange *x);
	void *drained_arg, *gone_arg, *half_arg;

	struct buf body; /* collected; or, of a stream, pieces that came after http_pause() */
};

static inline size_t exchange_in_size(const struct http_loop *l)
{
	return l->limits.head_bytes + ROOM_FOR_BODY;
}

/* For the next request of the connection, whose bytes begin at pos. */
void exchange_clear(struct http_exchange *x);
/* It is over, and not by its handler, who is told. */
void exchange_gone(struct http_exchange *x);

/* False: refused, x->problem says why. */
bool problem_set(struct http_exchange *x, int status, const char *code, const char *message);
bool problem_bad(struct http_exchange *x, const char *message);

enum head_result { HEAD_MORE, HEAD_WHOLE, HEAD_REFUSED };
enum head_result head_take(struct http_exchange *x);
bool target_take(struct http_exchange *x);
bool host_valid(const char *at, size_t len);
extern const llhttp_settings_t http_parser_calls;

/* Gives the parser what is there; false: refused. */
bool body_feed(struct http_exchange *x);
int body_on_piece(llhttp_t *p, const char *at, size_t len);
/* Somebody waits for the body's bytes. */
bool body_wanted(const struct http_exchange *x);
/* Tells what can be told without further bytes; true: it did. */
bool body_tell(struct http_exchange *x);

/* The core's own: an error, after which the connection ends. */
void answer_refuse(struct http_exchange *x);

void compose_head(struct http_exchange *x, const struct http_answer *a, int64_t length, bool gzip, bool vary);
bool compose_allowed(const struct http_answer *a);

bool gzip_accepted(const struct http_exchange *x);
bool gzip_worth(const struct http_answer *a);
struct gzip *gzip_new(void);
void gzip_free(struct gzip *g);
/* Appends; last: and ends it, after which it can begin anew. False: out of memory. */
bool gzip_add(struct gzip *g, const void *data, size_t len, bool last, struct buf *out);

#endif
