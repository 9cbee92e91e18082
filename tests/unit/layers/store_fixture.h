/* SPDX-License-Identifier: Apache-2.0 */
/* A store of its own for each test, in /var/tmp (where extended attributes work), and short words to fill and to look at it. */
#ifndef CORDON_TESTS_STORE_FIXTURE_H
#define CORDON_TESTS_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layers/box.h"
#include "layers/store.h"

extern struct store store;
extern struct cordon_error err;

int fixture_set_up(void **state);
int fixture_tear_down(void **state);

/* Fails the test with the error's message unless r is 0 or more; returns r. */
int ok(int r);
/* The call failed, with this code and these words in the message. */
void assert_refused(int r, enum cordon_error_code code, const char *words);

/* Paths are relative to layers/, and may name a layer that is open or sealed. */
void put(const char *id, const char *path, const char *text);
void put_dir(const char *id, const char *path);
void put_whiteout(const char *id, const char *path);
void put_opaque(const char *id, const char *path);
bool there(const char *id, const char *path);
/* A file's text ("" for what is empty), "dir", "whiteout", "opaque" or "none"; static memory. */
const char *what_is(const char *id, const char *path);

/* A sealed layer: parent and sandbox may be "". Returns static memory, good for the next 32 calls. */
const char *new_layer(const char *parent, const char *sandbox);
const char *new_open_layer(void);
/* The same for a layer that is begun already. */
void seal(const char *id, const char *parent, const char *sandbox);
/* One that a process which is dead now has begun. */
const char *new_abandoned_layer(void);

/* A box whose head is `head`. */
void new_box(struct box *b, const char *name, const char *head);
/* Replaces a file below the store's home. */
void overwrite(const char *path, const char *text, size_t len);
/* "layers/ID/layer" and the like, static memory. */
const char *path_of(const char *dir, const char *id, const char *name);
/* A stamp of a process that does not exist any more, as in temporary names. */
const char *dead_stamp(void);
void collect(int expected);
size_t count_entries(int dirfd);

/* Returns when the process waits for a file lock. */
void wait_until_blocked(pid_t pid);
int exit_status(pid_t child);

#endif
