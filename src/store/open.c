/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "store/migrations.h"
#include "store/parts.h"

#define WAL_KEPT "67108864" /* bytes: a longer -wal is cut to it when it begins anew */

/* What each statement may rely on. FULL: a COMMIT returns when the WAL is on disk. */
static const char for_writing[] =
	"PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
	"PRAGMA journal_size_limit = " WAL_KEPT;

/* ---- set-up -------------------------------------------------------------------------------------------------------------------- */

static int make_new(const struct place *p, struct cordon_error *err)
{
	_cleanup_db_ struct db db = {0};
	char path[PATH_MAX], id[64];

	snprintf(id, sizeof(id), "PRAGMA application_id = %d", PLACE_APPLICATION_ID);
	if (place_begin(p, path, err) < 0 || db_open(&db, path, SQLITE_OPEN_READWRITE, err) < 0)
		return -1;
	if (db_exec(&db, for_writing, err) < 0 || db_exec(&db, id, err) < 0 ||
	    store_migrate(&db, store_migrations, store_migration_count, err) < 0)
		return -1;
	db_close(&db);
	return place_finish(p, err);
}

/* It says the mode that it has then: a file system on which there cannot be a WAL keeps another. */
static int set_wal(struct db *db, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "PRAGMA journal_mode = WAL");
	char mode[16] = "";
	int r = query_next(&q, err);

	if (r < 0)
		return -1;
	if (r > 0)
		query_text_at(&q, 0, mode, sizeof(mode));
	if (strcmp(mode, "wal") == 0)
		return 0;
	err_set(err, CORDON_ERR_SYSTEM, "%s cannot have a write-ahead log", sqlite3_db_filename(db->handle, "main"));
	return err_hint(err, "keep the store on a local file system");
}

static int open_writer(struct store *s, struct cordon_error *err)
{
	struct db *db = &s->writer.db;

	if (db_open(db, s->place.path, SQLITE_OPEN_READWRITE, err) < 0 || db_exec(db, for_writing, err) < 0 ||
	    store_migrate(db, store_migrations, store_migration_count, err) < 0 || set_wal(db, err) < 0)
		return -1;
	return 0;
}

static int open_reader(struct store *s, struct cordon_error *err)
{
	if (db_open(&s->reader, s->place.path, SQLITE_OPEN_READONLY, err) < 0)
		return -1;
	return db_exec(&s->reader, "PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY", err);
}

static int open_place(struct store *s, const char *where, struct cordon_error *err)
{
	if (place_open(&s->place, where, err) < 0)
		return -1;
	const int there = place_look(&s->place, err);
	return there == 0 ? make_new(&s->place, err) : there < 0 ? -1 : 0;
}

static void let_go(struct store *s)
{
	place_close(&s->place);
	pthread_mutex_destroy(&s->reading);
	pthread_mutex_destroy(&s->door);
	pthread_cond_destroy(&s->left);
	free(s);
}

int store_open(const char *where, struct store **out, struct cordon_error *err)
{
	struct store *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (!s)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	s->place.dir = s->place.lock = -1;
	pthread_mutex_init(&s->reading, NULL);
	pthread_mutex_init(&s->door, NULL);
	pthread_cond_init(&s->left, NULL);
	if (open_place(s, where, err) == 0 && open_writer(s, err) == 0 && open_reader(s, err) == 0 && writer_start(&s->writer, err) == 0) {
		*out = s;
		return 0;
	}
	db_close(&s->reader);
	db_close(&s->writer.db);
	let_go(s);
	return -1;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->door);
	s->closing = true;
	while (s->inside)
		pthread_cond_wait(&s->left, &s->door);
	pthread_mutex_unlock(&s->door);
	db_close(&s->reader); /* the last to close puts the WAL into the database, and must be able to */
	writer_stop(&s->writer);
	let_go(s);
}

/* ---- use ----------------------------------------------------------------------------------------------------------------------- */

int store_enter(struct store *s, struct cordon_error *err)
{
	pthread_mutex_lock(&s->door);
	const bool closing = s->closing;
	s->inside += !closing;
	pthread_mutex_unlock(&s->door);
	return closing ? err_set(err, CORDON_ERR_BUSY, "the store is being closed") : 0;
}

void store_leave(struct store *s)
{
	pthread_mutex_lock(&s->door);
	if (--s->inside == 0 && s->closing)
		pthread_cond_signal(&s->left);
	pthread_mutex_unlock(&s->door);
}

int store_read(struct store *s, store_fn *fn, void *arg, struct cordon_error *err)
{
	if (store_enter(s, err) < 0)
		return -1;
	pthread_mutex_lock(&s->reading);
	const int r = fn(&s->reader, arg, err);
	pthread_mutex_unlock(&s->reading);
	store_leave(s);
	return r;
}

int store_write(struct store *s, store_fn *fn, void *arg, struct cordon_error *err)
{
	if (store_enter(s, err) < 0)
		return -1;
	const int r = writer_call(&s->writer, fn, arg, err);
	store_leave(s);
	return r;
}

/* It has to reach the disk: that there is room is a part of the question. */
static int write_something(struct db *db, void *arg, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "UPDATE totals SET checks = checks + 1 WHERE one = 1");

	(void)arg;
	return query_run(&q, err);
}

static int read_something(struct db *db, void *arg, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "SELECT checks FROM totals WHERE one = 1");
	const int r = query_next(&q, err);

	(void)arg;
	if (r == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the store has lost its counters");
	return r < 0 ? -1 : 0;
}

int store_check(struct store *s, struct cordon_error *err)
{
	if (store_write(s, write_something, NULL, err) < 0 || store_read(s, read_something, NULL, err) < 0)
		return err_wrap(err, "the store cannot be used");
	return 0;
}
