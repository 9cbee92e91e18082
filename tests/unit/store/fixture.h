/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a directory per test, with tenants and jobs. Everything that cannot fail is asserted, but only in the thread of the test. */
#ifndef CORDON_TESTS_STORE_FIXTURE_H
#define CORDON_TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "store/parts.h"

#define NOW INT64_C(1700000000000)
#define MINUTE INT64_C(60000)
#define DAY (INT64_C(24) * 60 * MINUTE)

extern char home[128];          /* a directory of its own, 0700 */
extern struct store *store;     /* home/store.db, open */
extern struct cordon_error err; /* of the last call that failed */

int home_setup(void **state); /* without the store */
int store_setup(void **state);
int store_teardown(void **state); /* of both */

/* A path below the home; static memory, the next call but three overwrites it. */
const char *path_of(const char *name);
void reopen(void);

/* The last call failed with this code, and its message has this in it. */
void assert_error(int result, int code, const char *part);
/* It did not: says why. */
void assert_fine(int result);

/* A number that a query gives, asked with a connection of its own. */
int64_t ask(const char *sql);
/* Statements, on the connection that writes; 0 or -1. */
int execute(const char *sql);

/* Its id; static memory, which the next but four thousand of all that give ids overwrites. */
const char *tenant_new(const char *name);
void limit_running(const char *tenant, uint64_t running);
/* The id of a queued job; likewise. */
const char *job_new(const char *tenant);
const char *job_new_with(const char *tenant, struct store_job j);
/* Claims for "node" with a lease of a minute; the id, "" if nothing waits. *tenant may be NULL. */
const char *claim(int64_t now_ms);
/* Claims: the tenant that is served, "" if nothing waits. */
const char *claim_tenant(int64_t now_ms);
/* Of a job: its state, and that it has this reason. */
void assert_job(const char *id, enum store_job_state state, const char *reason);
struct store_job_counts counts(const char *tenant);
void assert_counts(const char *tenant, uint64_t queued, uint64_t running, uint64_t succeeded, uint64_t failed);
/* That the counters are what counting gives, and that SQLite finds nothing wrong. */
void assert_consistent(void);

#endif
