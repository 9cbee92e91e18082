/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: one record per event, each with the hash of the one before it, in $CORDON_HOME/audit. Many processes and threads append at the same time.
 *
 *   audit_open(&a, home, NULL, err);
 *   audit_add(a, &(struct audit_event){.level = AUDIT_INFO, .category = AUDIT_EXEC, .action = "start", .sandbox = id, .target = argv[0],
 *                                      .allowed = AUDIT_ALLOWED, .detail = (struct audit_field[]){AUDIT_ARGV("argv", argv), AUDIT_END}}, err);
 *   audit_commit(a, err);        from here on the record stays, whatever happens to this process
 *
 * A caller fails closed: what could not be committed must not be done, or not be reported as done.
 *
 * The format, for everybody who wants to read or verify it. A record is one line of at most AUDIT_LINE_MAX bytes, its line feed included:
 *
 *   {"seq":N,"ts":"2026-01-31T12:00:00.000000Z","tenant":S,"sandbox":S,"exec":S,"level":"info","category":"exec","action":"start","target":S,
 *    "allowed":true,"rule":S,"detail":{…},"prev":"…","hash":"…"}
 *
 * without the line break and blanks shown here: exactly these keys in this order. S is a string or null, allowed true, false or null, detail an object or
 * null. prev and hash are 64 lower-case hexadecimal digits, so the part from `,"prev":` to the end has always AUDIT_TAIL bytes. The canonical record is
 * the line without that part, closed again by `}`. Then
 *
 *   hash = SHA-256(prev, as its 64 digits, followed by the canonical record)
 *
 * and prev is the hash of the record before; that of the first one is 64 zeros. seq counts from 1 without gaps.
 *
 * Strings hold any bytes, without loss. What is UTF-8 stands for itself; a NUL, and each byte that is no part of UTF-8, is written as the character
 * U+EF00 + byte (`\uef00`, `\uef80` … `\uefff`). The bytes of the characters U+EF00 and U+EF80 … U+EFFF themselves, which nobody uses, are written that
 * way, too, so that every string stands for one sequence of bytes. Escaped are `"`, `\`, control characters (U+0000 … U+001F, U+007F … U+009F), and
 * U+2028 and U+2029, which some readers take for line ends.
 *
 * What would make a record too long is cut: a string that was cut ends with "…", and the last key of detail is then "cut", the number of bytes that are
 * missing. Secrets are replaced by "[redacted]" before anything is hashed or written, see redact.h.
 *
 * The files: 000001.jsonl, 000002.jsonl … A segment that is full ends with a record of category system, action rotate, and the next one goes on with its
 * hash. Sealed segments have NNNNNN.seal beside them, see seal.h. Bytes that a writer left when it was killed in the middle of a record (nobody was told that
 * it was written) are moved to NNNNNN.torn-SEQ, and a record (system, recover) says so. Whoever writes holds a lock (flock) on the file `lock`.
 */
#ifndef CORDON_AUDIT_AUDIT_H
#define CORDON_AUDIT_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define AUDIT_DIR "audit" /* in $CORDON_HOME */
#define AUDIT_LINE_MAX 65536
#define AUDIT_HASH 64  /* digits */
#define AUDIT_TAIL 149 /* ,"prev":"…","hash":"…"} */
#define AUDIT_SEGMENT_MAX ((uint64_t)64 << 20)
#define AUDIT_NO_HASH "0000000000000000000000000000000000000000000000000000000000000000"

enum audit_level { AUDIT_DEBUG, AUDIT_INFO, AUDIT_WARNING, AUDIT_ERROR, AUDIT_CRITICAL, AUDIT_LEVEL_COUNT };
enum audit_category { AUDIT_EXEC, AUDIT_FILE, AUDIT_NETWORK, AUDIT_POLICY, AUDIT_SNAPSHOT, AUDIT_AUTH, AUDIT_SYSTEM, AUDIT_CATEGORY_COUNT };
enum audit_allowed { AUDIT_NEITHER, AUDIT_ALLOWED, AUDIT_DENIED, AUDIT_ALLOWED_COUNT }; /* null, true, false */
extern const char *const audit_level_names[AUDIT_LEVEL_COUNT];
extern const char *const audit_category_names[AUDIT_CATEGORY_COUNT];
extern const char *const audit_allowed_names[AUDIT_ALLOWED_COUNT];

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

enum audit_type {
	AUDIT_TYPE_NULL,
	AUDIT_TYPE_BOOL,
	AUDIT_TYPE_INT,
	AUDIT_TYPE_REAL, /* three decimals */
	AUDIT_TYPE_TEXT,
	AUDIT_TYPE_TEXTS,
	AUDIT_TYPE_ARGV, /* as TEXTS; the word behind --password is a secret, and the like */
	AUDIT_TYPE_ENV,  /* as TEXTS; "NAME=VALUE" */
	AUDIT_TYPE_OBJECT,
	AUDIT_TYPE_OBJECTS,
};

/* One key of detail. Use the macros. Strings may be NULL; lists end with NULL and may be NULL. */
struct audit_field {
	const char *key; /* NULL ends an object; "cut" is taken */
	enum audit_type type;
	union {
		bool flag;
		int64_t number;
		double real;
		const char *text;
		const char *const *texts;
		const struct audit_field *object;         /* ends with AUDIT_END */
		const struct audit_field *const *objects; /* ends with NULL */
	} value;
};
#define AUDIT_NULL(k) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_NULL})
#define AUDIT_BOOL(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_BOOL, .value.flag = (v)})
#define AUDIT_INT(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_INT, .value.number = (int64_t)(v)})
#define AUDIT_REAL(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_REAL, .value.real = (v)})
#define AUDIT_TEXT(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_TEXT, .value.text = (v)})
#define AUDIT_TEXTS(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_TEXTS, .value.texts = (const char *const *)(v)})
#define AUDIT_ARGV(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_ARGV, .value.texts = (const char *const *)(v)})
#define AUDIT_ENV(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_ENV, .value.texts = (const char *const *)(v)})
#define AUDIT_OBJECT(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_OBJECT, .value.object = (v)})
#define AUDIT_OBJECTS(k, v) ((struct audit_field){.key = (k), .type = AUDIT_TYPE_OBJECTS, .value.objects = (v)})
#define AUDIT_END ((struct audit_field){0})

/* Nothing of it is kept: it may all be on the stack. */
struct audit_event {
	enum audit_level level;
	enum audit_category category;
	enum audit_allowed allowed;
	const char *tenant, *sandbox, *exec; /* NULL: null */
	const char *action;                  /* a word: [a-z][a-z0-9_.-]*, at most 64 letters */
	const char *target;                  /* path, host:port, command, id … NULL: null */
	size_t target_len;                   /* 0: up to its NUL */
	const char *rule;                    /* that decided; NULL: null */
	const struct audit_field *detail;    /* ends with AUDIT_END; NULL: null */
	int64_t time_us;                     /* since 1970; 0: now */
};

/* ---- the log ----------------------------------------------------------------------------------------------------------------- */

enum audit_sync {
	AUDIT_SYNC_RESULT, /* what was committed is on the disk (fdatasync): survives loss of power */
	AUDIT_SYNC_SEAL,   /* … is in the kernel: survives kill -9; on the disk when the segment is full, at the latest */
};

struct audit_options {
	uint64_t max_segment; /* bytes; 0: AUDIT_SEGMENT_MAX */
	enum audit_sync sync;
	size_t max_entries;              /* of audit_recent(); 0: none are kept */
	const char *const *redact_names; /* more names (globs) whose values are secret, see redact.h; NULL-terminated, copied; NULL: none */
	const char *const *redact_values; /* values that are secret wherever they stand; NULL-terminated, copied; NULL: none */
};

struct audit;

/* Makes the directory if need be. `options` may be NULL. Not for use in a child made by fork(). Release with audit_close(). */
int audit_open(struct audit **out, const char *home, const struct audit_options *options, struct cordon_error *err);
/* Commits what was added and not written, if it can be, and releases everything. No other thread may be using it. NULL is fine. */
void audit_close(struct audit *a);

/* Redacts, encodes and keeps the event until the next commit. Any thread. -1: not a valid event, or too much is waiting. */
int audit_add(struct audit *a, const struct audit_event *event, struct cordon_error *err);
/*
 * Returns when everything that was added before, by any thread, is written (and synced, by mode). Any thread; those that commit at the same time share
 * one write and one sync. -1: not everything is; nothing half is in the log, and what is missing waits for the next commit.
 */
int audit_commit(struct audit *a, struct cordon_error *err);
/* The same without the sync, whatever the mode: from here on it survives kill -9 of this process, and the next commit syncs it with its own. */
int audit_write(struct audit *a, struct cordon_error *err);
/* audit_add() and audit_commit() */
int audit_record(struct audit *a, const struct audit_event *event, struct cordon_error *err);

/* Commits, and ends the present segment, if there is a record in it: it can be sealed now. */
int audit_rotate(struct audit *a, struct cordon_error *err);
/* Whether this process has ended a segment: somebody should seal it (`cordon audit --seal`). */
bool audit_wants_seal(struct audit *a);

/* ---- what this process wrote ------------------------------------------------------------------------------------------------- */

/*
 * Called for each record that was committed (or written, by audit_write()) here, in their order, by the thread that commits or another one that does so at the same time; never by two
 * threads at once. `line` is the record without line feed, with a NUL behind it; audit_scan() takes it apart. No lock is held: it may call any function but
 * audit_close().
 */
typedef void audit_callback(void *arg, const char *line, size_t len);
/* The id for audit_unsubscribe(), or -1. */
int audit_subscribe(struct audit *a, audit_callback *callback, void *arg, struct cordon_error *err);
/* When it returns the callback is not running, unless the callback itself has called it. */
void audit_unsubscribe(struct audit *a, int id);

struct audit_filter;
/* Appends the last `limit` (0: all that are kept, see max_entries) records that match (NULL: any) to `out`, oldest first, a line each. */
int audit_recent(struct audit *a, const struct audit_filter *filter, size_t limit, struct buf *out, struct cordon_error *err);

#endif
