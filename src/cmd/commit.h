/* SPDX-License-Identifier: Apache-2.0 */
/* What `commit`, `run --commit` and `try` share: a bar while files are written, and the paths that were in the way. */
#ifndef CORDON_CMD_COMMIT_H
#define CORDON_CMD_COMMIT_H

#include "cmd/tree.h"

/* On a terminal, once it has taken half a second. */
struct progress {
	bool enabled;
	double begun, shown;
	const char *what; /* "importing"; NULL: "committing" */
};
void progress_begin(struct progress *p);
void progress_show(void *user, uint64_t done, uint64_t total); /* user: the struct progress */
void progress_end(struct progress *p);

struct problem {
	enum commit_refusal kind;
	char *why;        /* owned */
	const char *path; /* of the reply or report that it came from */
};
struct problems {
	struct problem *items;
	size_t count;
};
int problems_of_reply(struct problems *p, const struct op_reply *reply, struct cordon_error *err);
int problems_of_report(struct problems *p, const struct commit_report *report, struct cordon_error *err);
void problems_free(struct problems *p);
/* On stderr. force_hint: what to do about conflicts. */
void problems_print(const struct problems *p, const char *force_hint);
/* "conflicts":[…],"autorun":[…],"impossible":[…] */
void problems_json(struct json *j, const struct problems *p);

/* A remark about new files with an x bit, if there are any. */
void executables_print(const struct strlist *paths);

#endif
