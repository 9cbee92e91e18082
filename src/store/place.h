/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the store: whose they are, who has them open, and whether the database is ours at all. SQLite is asked only after that. */
#ifndef CORDON_STORE_PLACE_H
#define CORDON_STORE_PLACE_H

#include <limits.h>

#include "base/err.h"

#define PLACE_APPLICATION_ID 0x436f7264 /* "Cord": at byte 68 of the file, see https://www.sqlite.org/fileformat2.html#application_id */

struct place {
	char path[PATH_MAX]; /* of the database, never one that SQLite could take for a URI or for ":memory:" */
	const char *name;    /* in its directory: the last part of it */
	int dir, lock;       /* -1: not open; `lock` holds PATH.lock as long as it is open */
};

/* Opens the directory and takes the lock. CORDON_ERR_BUSY if another one has it, also in this process. */
int place_open(struct place *p, const char *where, struct cordon_error *err);
void place_close(struct place *p);

/* 1: there is a database, and it is ours; 0: there is none. Nothing is changed. */
int place_look(const struct place *p, struct cordon_error *err);

/*
 * A new database is made in a file of its own, which takes its place when it is whole: there is never half a database. `path`: that file, empty and
 * for us alone, for SQLite to fill.
 */
int place_begin(const struct place *p, char path[PATH_MAX], struct cordon_error *err);
int place_finish(const struct place *p, struct cordon_error *err);

#endif
