/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms for programs that test sandboxes which stay: one line per check, one call per exec. */
#ifndef CORDON_TESTS_API_CHECK_H
#define CORDON_TESTS_API_CHECK_H

#include <cordon.h>
#include <stdbool.h>

extern int failures;

/* Prints "ok - …" or "not ok - …". */
__attribute__((format(printf, 2, 3))) bool check(bool good, const char *fmt, ...);
/* Prints "not ok - …" and ends the program: nothing that follows would make sense. */
__attribute__((format(printf, 1, 2))) _Noreturn void give_up(const char *fmt, ...);

/* What is left of an exec once it is over. */
struct ended {
	int status; /* -1: it did not start, or its end was not seen */
	char reason[16], outcome[16];
	char before[24], after[24];
	char changes[512];         /* "add new, delete old" */
	char out[4096];            /* the beginning of its output */
	struct cordon_error error; /* why it did not start, or what the result says about its end */
};

/* A sandbox over a host directory (NULL: none); settings: "transaction.exit=rollback", NULL-terminated, NULL: none. Ends the program if it cannot. */
void make_box(const char *workspace, const char *const *settings, char id[21]);
struct cordon_sandbox *open_box(struct cordon *c, const char *what);

/* Starts a line of sh; NULL: it did not start. */
struct cordon_exec *start_line(struct cordon_sandbox *s, const char *line, struct cordon_exec_options more, struct cordon_error *err);
/* Waits for it and frees it. */
struct ended end_exec(struct cordon_exec *e);
/* Both. */
struct ended run_line(struct cordon_sandbox *s, const char *line);

/* True, and nothing printed, if the line ends with 0 and prints just that. */
bool prints(struct cordon_sandbox *s, const char *line, const char *want);
/* True if the exec ended with this status and its transaction in this way. */
bool ended_so(const struct ended *e, int status, const char *outcome);

/* A shell that runs beside the execs and does what it is told, line by line. */
struct service {
	struct cordon_exec *exec;
	char out[4096];
	size_t len;
};
struct service *start_service(struct cordon_sandbox *s);
/* What the line prints; it stays valid until the next one. NULL: the service is gone. */
const char *tell(struct service *v, const char *line);
bool answers(struct service *v, const char *line, const char *want);
void end_service(struct service *v);

#endif
