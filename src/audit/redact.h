/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets are kept out of the audit, by rule: the values of what is named like a secret (DB_PASSWORD=…, --token …, "apiKey": …, Authorization: …), passwords
 * in URLs, options of well-known programs that take one (curl -u, mysql -p…), and what has the shape of a well-known kind of token or private key.
 * They become "[redacted]". It errs on the side of leaving out: a sort_key may be hit, too. A secret that has neither name nor shape is not
 * found: those that are known can be given as values.
 */
#ifndef CORDON_AUDIT_REDACT_H
#define CORDON_AUDIT_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define REDACTED "[redacted]"

/* What a user adds to the built-in rules. Both lists may be NULL; else they end with NULL. */
struct redactor {
	const char *const *names;  /* globs (base/glob.h), in capitals, with _ for -: "*_PIN" */
	const char *const *values; /* shorter ones than 4 bytes are left alone: they would be everywhere */
};

/* What the words before mean for the next one. Zero at the beginning of a command line. */
struct redact_state {
	const struct redact_program *program; /* the last one that was named */
	enum redact_next { REDACT_NOTHING, REDACT_WORD, REDACT_PAIR, REDACT_NO_PORTS } next;
};

/* Is this the name of a secret? Letters of either case, - counts as _. */
bool redact_name(const struct redactor *r, const char *name, size_t len);

/* Adds a text without the secrets in it: a shell line, a URL, a header, code. */
void redact_text(const struct redactor *r, const char *s, size_t len, struct buf *out);
/* Adds a word of an argv; the words are given one after the other with the same state. */
void redact_word(const struct redactor *r, struct redact_state *state, const char *word, size_t len, struct buf *out);
/* Adds a "NAME=VALUE". */
void redact_variable(const struct redactor *r, const char *variable, size_t len, struct buf *out);

#endif
