/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of tests/api/zygote share. */
#ifndef CORDON_TESTS_API_ZYGOTE_H
#define CORDON_TESTS_API_ZYGOTE_H

#include "check.h"
#include "lib/pool.h"
#include "lib/zygote.h"

enum { WORDS_MAX = 32 };

extern struct cordon_policy *policy;

struct how {
	const char *args[WORDS_MAX + 1], *env[WORDS_MAX + 1];
	size_t arg_count, env_count;
	const char *cwd, *input;
	int signal;
	bool mask;
	int64_t timeout_ms;
	char *texts[WORDS_MAX]; /* that the others point to */
	size_t text_count;
};

struct made {
	struct cordon_exec *exec; /* NULL: it did not start */
	struct cordon_error err;
	bool warm;
};

struct cordon_sandbox *create(const struct cordon_policy *p);
/* Until it is ready, or will never be. */
enum zygote_state settle(struct cordon_sandbox *s, struct cordon_error *err);
/* One that is ready. */
void park(struct cordon_sandbox *s, const char *const *preload);
/* Code, to its end. */
struct made run_code(struct cordon_sandbox *s, const char *code, size_t len, const struct how *how);
struct made run_text(struct cordon_sandbox *s, const char *code, const struct how *how);
const struct cordon_result *result(const struct made *m);
bool prints_text(const struct made *m, int status, const char *text);

void check_all(void);

#endif
