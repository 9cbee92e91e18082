/* SPDX-License-Identifier: Apache-2.0 */
/* A $CORDON_HOME of its own per test, and an eye on the log in it that trusts nothing but its bytes. */
#ifndef CORDON_TESTS_AUDIT_FIXTURE_H
#define CORDON_TESTS_AUDIT_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"

/* Of cmocka's kind; *state is the path of the home. */
int home_setup(void **state);
int home_teardown(void **state);

/* Fails the test unless every record is intact, in its place, and every segment but the last ends with the record that ends one. How many there are. */
uint64_t assert_chain(const char *home);
/* How many records have this action. */
uint64_t count_action(const char *home, const char *action);
bool has_target(const char *home, const char *target);

/* The file below the audit's directory. */
char *file_read(const char *home, const char *name, size_t *len);
void file_write(const char *home, const char *name, const void *data, size_t len);
bool file_exists(const char *home, const char *name);
void file_remove(const char *home, const char *name);
void file_rename(const char *home, const char *from, const char *to);

/* One record with this target, committed. */
void put(struct audit *a, const char *target);
struct audit *open_log(const char *home, const struct audit_options *options);

#endif
