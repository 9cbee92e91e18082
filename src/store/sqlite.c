/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define BUSY_MS 5000 /* somebody looks at it with another program */

/* As many as there are texts in this folder. */
struct prepared {
	struct prepared *next;
	const char *sql;
	sqlite3_stmt *stmt;
};

/* ---- errors -------------------------------------------------------------------------------------------------------------------- */

static int system_error(sqlite3 *handle, const char *path, const char *text, struct cordon_error *err)
{
	const int number = handle ? sqlite3_system_errno(handle) : 0;

	if (number == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "%s: %s", path, text);
	errno = number;
	return err_sys(err, "%s: %s", path, text);
}

int db_error(struct db *db, int rc, struct cordon_error *err)
{
	const char *name = db->handle ? sqlite3_db_filename(db->handle, "main") : NULL;
	const char *path = name && *name ? name : "the store";
	const char *text = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);

	switch (rc & 0xff) {
	case SQLITE_FULL:
		errno = ENOSPC;
		err_sys(err, "%s cannot grow", path);
		return err_hint(err, "make room on its file system; nothing that was stored is lost");
	case SQLITE_NOMEM:
		errno = ENOMEM;
		return err_sys(err, "%s", path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		err_set(err, CORDON_ERR_BUSY, "%s is held by another program: %s", path, text);
		return err_hint(err, "see who has it open with fuser");
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		err_set(err, CORDON_ERR_SYSTEM, "%s is damaged: %s", path, text);
		return err_hint(err, "move it away, with its -wal if there is one, and put a backup in its place");
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
		return system_error(db->handle, path, text, err);
	default:
		return err_set(err, CORDON_ERR_SYSTEM, "%s: %s", path, text);
	}
}

int db_failed_with(const struct db *db, int code)
{
	return sqlite3_extended_errcode(db->handle) == code;
}

/* ---- connections --------------------------------------------------------------------------------------------------------------- */

int db_open(struct db *db, const char *path, int flags, struct cordon_error *err)
{
	*db = (struct db){0};
	if (!sqlite3_threadsafe())
		return err_set(err, CORDON_ERR_SYSTEM, "this SQLite was built without threads");
	const int rc = sqlite3_open_v2(path, &db->handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
	if (rc != SQLITE_OK) {
		db_error(db, rc, err);
		db_close(db);
		return err_wrap(err, "cannot open %s", path);
	}
	sqlite3_busy_timeout(db->handle, BUSY_MS);
	/* what the file says is data: nothing in its schema may reach beyond it */
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return 0;
}

void db_close(struct db *db)
{
	while (db->prepared) {
		struct prepared *p = db->prepared;
		db->prepared = p->next;
		sqlite3_finalize(p->stmt);
		free(p);
	}
	sqlite3_close(db->handle);
	db->handle = NULL;
}

int db_exec(struct db *db, const char *sql, struct cordon_error *err)
{
	const int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_error(db, rc, err);
}

uint64_t db_changes(const struct db *db)
{
	return (uint64_t)sqlite3_changes64(db->handle);
}

/* ---- queries ------------------------------------------------------------------------------------------------------------------- */

static struct prepared *prepare(struct db *db, const char *sql, int *rc)
{
	struct prepared *p = malloc(sizeof(*p));

	if (!p) {
		*rc = SQLITE_NOMEM;
		return NULL;
	}
	*rc = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &p->stmt, NULL);
	if (*rc != SQLITE_OK) {
		free(p);
		return NULL;
	}
	p->sql = sql;
	p->next = db->prepared;
	db->prepared = p;
	return p;
}

struct query query_new(struct db *db, const char *sql)
{
	struct query q = {.db = db, .rc = SQLITE_OK};
	struct prepared *p = db->prepared;

	while (p && p->sql != sql)
		p = p->next;
	if (!p)
		p = prepare(db, sql, &q.rc);
	q.stmt = p ? p->stmt : NULL;
	return q;
}

void query_end(struct query *q)
{
	if (!q->stmt)
		return;
	sqlite3_reset(q->stmt); /* what it answers is what the last step has answered */
	sqlite3_clear_bindings(q->stmt);
	q->stmt = NULL;
}

void query_int(struct query *q, int64_t v)
{
	if (q->rc == SQLITE_OK)
		q->rc = sqlite3_bind_int64(q->stmt, ++q->bound, v);
}

void query_text(struct query *q, const char *s)
{
	if (q->rc == SQLITE_OK)
		q->rc = sqlite3_bind_text(q->stmt, ++q->bound, s, -1, SQLITE_STATIC);
}

void query_blob(struct query *q, const void *data, size_t len)
{
	if (q->rc == SQLITE_OK)
		q->rc = sqlite3_bind_blob64(q->stmt, ++q->bound, data, len, SQLITE_STATIC);
}

int query_next(struct query *q, struct cordon_error *err)
{
	if (q->rc == SQLITE_OK || q->rc == SQLITE_ROW)
		q->rc = sqlite3_step(q->stmt);
	if (q->rc == SQLITE_ROW)
		return 1;
	return q->rc == SQLITE_DONE ? 0 : db_error(q->db, q->rc, err);
}

int query_run(struct query *q, struct cordon_error *err)
{
	int r;

	do
		r = query_next(q, err);
	while (r > 0);
	return r;
}

int64_t query_int_at(const struct query *q, int column)
{
	return sqlite3_column_int64(q->stmt, column);
}

void query_text_at(struct query *q, int column, char *out, size_t size)
{
	const unsigned char *text = sqlite3_column_text(q->stmt, column);

	if (!text && sqlite3_column_type(q->stmt, column) != SQLITE_NULL)
		q->rc = SQLITE_NOMEM;
	snprintf(out, size, "%s", text ? (const char *)text : "");
}

int query_blob_at(struct query *q, int column, void **out, size_t *len, struct cordon_error *err)
{
	*out = NULL;
	*len = 0;
	if (sqlite3_column_type(q->stmt, column) == SQLITE_NULL)
		return 0;
	const void *data = sqlite3_column_blob(q->stmt, column);
	const size_t n = (size_t)sqlite3_column_bytes(q->stmt, column);
	char *copy = malloc(n + 1);
	if (!copy || (n && !data)) { /* SQLite has no data where it had no memory */
		free(copy);
		return db_error(q->db, SQLITE_NOMEM, err);
	}
	if (n)
		memcpy(copy, data, n);
	copy[n] = '\0';
	*out = copy;
	*len = n;
	return 0;
}

int query_sound(struct query *q, struct cordon_error *err)
{
	return q->rc == SQLITE_ROW ? 0 : db_error(q->db, q->rc, err);
}
