/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host directory, what a sandbox makes of it, and commits from the one to the other.
 *
 *   begin()      an empty host directory, `host`
 *   enter()      `inside`: a copy of it, for the test to change with ordinary system calls, as a sandbox would
 *   leave()      the difference becomes the layer; what the host has at the changed paths is remembered, as at a seal
 *   commit()     the layer to the host
 */
#ifndef CORDON_TESTS_COMMIT_FIXTURE_H
#define CORDON_TESTS_COMMIT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../crash/crash.h"
#include "base_dir.h"
#include "layers/commit.h"

extern int host, inside;
extern struct commit_report report;
extern struct cordon_error err;
extern struct identities *known;

int begin(void **state);
int end(void **state);

void enter(void);
void leave(void);
/* Another layer on top of those that are there: the next enter() starts from what the sandbox shows. At most 4. */
void next_exec(void);

/* From now on the seed is not the host's directory but a copy of it as it is now. */
void use_copied_seed(void);

struct options {
	unsigned flags;
	const char *const *paths, *const *force;
	bool nothing_known;
	void (*progress)(void *user, uint64_t done, uint64_t total);
};
/* What commit_run() returned; `report` and `err` are filled in. */
int commit_with(struct options o);
#define commit(...) commit_with((struct options){__VA_ARGS__})
/* Fails with the problems' or the error's text unless it is 0. */
void must_commit(struct options o);
/* As at the next start of cordon: keeps what was written as what is known. */
void remember_written(void);

/* The text of the problem that names this path; "" if there is none. */
const char *problem_of(const char *path);
/* The commit was refused because of just this path, for this reason, with these words; and nothing on the host has changed. */
void assert_refused(struct options o, const char *path, enum commit_refusal why, const char *words);

/* The host has what is inside: everything, to the last attribute. */
void assert_host_is_inside(void);
/* A file's text, or "(none)", "(dir)", "-> target", "(fifo)"; static memory. */
const char *what_is(int dir, const char *path);

#define assert_ok(call)                                                                \
	do {                                                                           \
		if ((call) < 0)                                                        \
			fail_msg("%s: %s", #call, err.message[0] ? err.message : "?"); \
	} while (0)

/*
 * Ends the test as skipped, with the reason, unless the program runs as root, or as an ordinary user. tests/crash/as-user.test runs it as
 * one.
 */
void need_root(void);
void need_user(void);

#endif
