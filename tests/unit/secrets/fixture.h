/* SPDX-License-Identifier: Apache-2.0 */
/* A $CORDON_HOME per test, secrets in it, and what is in its files. Everything that cannot fail is asserted. */
#ifndef CORDON_TESTS_SECRETS_FIXTURE_H
#define CORDON_TESTS_SECRETS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "secrets/store.h"

extern char home[128];          /* an empty directory */
extern struct cordon_error err; /* of the last call; cleared by those below */

int home_setup(void **state);
int home_teardown(void **state);

/* A path below the home; static memory, the next call but three overwrites it. */
const char *path_of(const char *name);
mode_t mode_of(const char *name);
bool is_there(const char *name);
void write_text(const char *name, const char *text, mode_t mode);

/* secrets_set() with a text; 0 or -1. */
int set(const char *name, const char *text);
/* Asserts that it is there with this value. */
void assert_secret(const char *name, const char *want);
void assert_no_secret(const char *name);

/* All lines of the audit; free() it. "" if there is none. */
char *audit_text(void);
/* The last call failed with this code, and its message has this in it. */
void assert_error(int result, int code, const char *part);

#endif
