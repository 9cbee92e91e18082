/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of the database. Each version has the statements that make it out of the one before; they only ever go forward. A version that was
 * released is never changed any more: what is to be different comes with the next one.
 */
#ifndef CORDON_STORE_MIGRATIONS_H
#define CORDON_STORE_MIGRATIONS_H

#include <stddef.h>

#include "store/sqlite.h"

struct migration {
	int version; /* ascending from 1, without a gap */
	const char *sql;
};

extern const struct migration store_migrations[];
extern const size_t store_migration_count;

/*
 * Brings it from the version that it has (PRAGMA user_version) to the last one of the table, each in a transaction of its own. A newer one is
 * refused.
 */
int store_migrate(struct db *db, const struct migration *table, size_t count, struct cordon_error *err);

#endif
