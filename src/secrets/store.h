/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named secrets, kept for the broker, in $CORDON_HOME/secrets.
 *
 *   secrets/         0700, ours; else nothing is read from it or written to it
 *           NAME     0600: a line of SECRETS_HEADER bytes, "cordon-secret 1 CREATED CHANGED LENGTH" (milliseconds since 1970; bytes), then the value
 *           .new     the next version of one of them, while it is written; under the lock, so one that a killed process left is garbage
 *
 * Theory of operation. Whoever changes something holds a lock (flock) on the directory: one at a time. A value is written to .new, synced, recorded in the audit and
 * renamed, and the directory is synced: after kill -9 or loss of power there is the old one or the new one. Who reads takes no lock. The audit has a record of
 * every change (category auth, secret-set, secret-rm, the name) before it is made: what cannot be recorded is not done. No link is ever followed below $CORDON_HOME.
 *
 * A value is in memory only as a struct secret: pages of its own that are in no core dump, are kept out of the swap where the limits allow it, and are overwritten before
 * they are given back. It is never part of a message, of the audit, or of an argument of a program.
 */
#ifndef CORDON_SECRETS_STORE_H
#define CORDON_SECRETS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "secrets/name.h"

#define SECRETS_DIR "secrets"
#define SECRETS_HEADER 50
#define SECRET_VALUE_MAX 65536
#define SECRET_HEADER_MAX 16384 /* of one that is sent in a header: servers take no more */

/* ---- values ------------------------------------------------------------------------------------------------------------------- */

/* 1 to SECRET_VALUE_MAX bytes without NUL; a NUL is behind them. */
struct secret {
	char *data; /* room for SECRET_VALUE_MAX and two more; NULL: none */
	size_t len;
};
/* Room for a value, empty. Release with secret_wipe(). */
int secret_begin(struct secret *s, struct cordon_error *err);
/* Overwrites and releases it. One that was never begun is fine. */
void secret_wipe(struct secret *s);
#define _cleanup_secret_ __attribute__((cleanup(secret_wipe)))

/*
 * Begins `s` with all that a descriptor gives up to its end, without one line feed at the very end; `what` is what errors call it. -1 also if that is no value: empty, too
 * long, a NUL in it.
 */
int secret_read(struct secret *s, int fd, const char *what, struct cordon_error *err);
/* The same with a copy of a text, as it is. */
int secret_copy(struct secret *s, const char *text, const char *what, struct cordon_error *err);
/* Whether it is a value; `what` as before. */
int secret_check(const struct secret *s, const char *what, struct cordon_error *err);

/* Whether it can be part of a header: it is not too long, and line breaks and other control characters would be a second header, or another request. */
int secret_check_header(const struct secret *s, struct cordon_error *err);

/* ---- the store ---------------------------------------------------------------------------------------------------------------- */

struct secret_info {
	char name[SECRET_NAME_MAX + 1];
	int64_t created_ms, changed_ms; /* of a damaged one 0 */
	bool damaged; /* cannot be read: not a file, not ours, readable by others, cut off … It can be set again, and removed */
};

struct secret_list {
	struct secret_info *items; /* by name */
	size_t count;
};
void secrets_list_free(struct secret_list *l);

/* CORDON_ERR_INPUT if it is no name. It is not repeated in the message: it may be the secret itself. */
int secrets_check_name(const char *name, struct cordon_error *err);

/* All of them, without their values. A directory that is not there holds none, and is not made. */
int secrets_list(const char *home, struct secret_list *out, struct cordon_error *err);
/* CORDON_ERR_NOT_FOUND if there is none. Begins `out`. */
int secrets_get(const char *home, const char *name, struct secret *out, struct cordon_error *err);
/* Makes or replaces it. *replaced (may be NULL): there was one. */
int secrets_set(const char *home, const char *name, const struct secret *value, bool *replaced, struct cordon_error *err);
/* CORDON_ERR_NOT_FOUND if there is none. */
int secrets_remove(const char *home, const char *name, struct cordon_error *err);

struct policy_secret;
/*
 * The value that a rule of a policy names: "store:NAME", or "env:NAME" of this process. -1 also if it cannot be part of a header: line breaks and other control characters would
 * be a second header, or another request. Begins `out`.
 */
int secrets_resolve(const char *home, const struct policy_secret *rule, struct secret *out, struct cordon_error *err);

#endif
