/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite with errors of ours, statements that are prepared once, and values that are bound in their order. A query takes everything, and says only
 * when it is stepped what went wrong:
 *
 *   _cleanup_query_ struct query q = query_new(db, "SELECT n FROM t WHERE a = ?1 AND b = ?2");
 *   query_text(&q, a);
 *   query_int(&q, b);
 *   while ((r = query_next(&q, err)) > 0)
 *           use(query_int_at(&q, 0));
 *
 * A connection is used by one thread at a time, and one query of a text at a time.
 */
#ifndef CORDON_STORE_SQLITE_H
#define CORDON_STORE_SQLITE_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct prepared;

struct db {
	sqlite3 *handle;
	struct prepared *prepared;
};

/* `flags` as of sqlite3_open_v2(). */
int db_open(struct db *db, const char *path, int flags, struct cordon_error *err);
void db_close(struct db *db);
#define _cleanup_db_ __attribute__((cleanup(db_close)))

/* Statements without values and rows, one after the other. */
int db_exec(struct db *db, const char *sql, struct cordon_error *err);
/* What the last call on it, which returned rc, failed with. */
int db_error(struct db *db, int rc, struct cordon_error *err);
/* Whether the last call failed with this code (an extended one: SQLITE_CONSTRAINT_UNIQUE). */
int db_failed_with(const struct db *db, int code);
/* Rows that the last statement has changed, those of triggers left out. */
uint64_t db_changes(const struct db *db);

struct query {
	struct db *db;
	sqlite3_stmt *stmt;
	int rc, bound;
};

/* `sql` is kept, and compared, by its address: a literal. */
struct query query_new(struct db *db, const char *sql);
void query_end(struct query *q);
#define _cleanup_query_ __attribute__((cleanup(query_end)))

/* The next value. The bytes stay the caller's, and stay as they are until query_end(). Of a NULL pointer the value is NULL. */
void query_int(struct query *q, int64_t v);
void query_text(struct query *q, const char *s);
void query_blob(struct query *q, const void *data, size_t len);

/* 1: there is a row, 0: no more. */
int query_next(struct query *q, struct cordon_error *err);
/* For what gives no rows. */
int query_run(struct query *q, struct cordon_error *err);

int64_t query_int_at(const struct query *q, int column);
/* "" for NULL. What does not fit is cut; nothing is stored that does not. Without memory for it the query fails: see query_sound(). */
void query_text_at(struct query *q, int column, char *out, size_t size);
/* A copy with a NUL behind it, to free(); NULL for NULL. */
int query_blob_at(struct query *q, int column, void **out, size_t *len, struct cordon_error *err);
/* 0 if all values of this row could be had. */
int query_sound(struct query *q, struct cordon_error *err);

#endif
