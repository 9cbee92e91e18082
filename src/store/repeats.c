/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/parts.h"

#define DIGEST 32

static int check_key(const char *tenant, const char *key, struct cordon_error *err)
{
	if (store_check_text("the tenant", tenant, 1, ID_LEN, err) < 0)
		return -1;
	return store_check_text("the idempotency key", key, 1, STORE_IDEMPOTENCY_MAX, err);
}

/* ---- begin --------------------------------------------------------------------------------------------------------------------- */

struct beginning {
	const char *tenant, *key;
	const unsigned char *digest;
	int64_t now_ms;
	enum store_repeat what;
	void *answer;
	size_t len;
};

static int forget_expired(struct db *db, const struct beginning *b, struct cordon_error *err)
{
	_cleanup_query_ struct query q =
		query_new(db, "DELETE FROM repeats WHERE tenant = ?1 AND key = ?2 AND answer IS NOT NULL AND expires_ms <= ?3");

	query_text(&q, b->tenant);
	query_text(&q, b->key);
	query_int(&q, b->now_ms);
	return query_run(&q, err);
}

static int note_first(struct db *db, const struct beginning *b, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "INSERT INTO repeats (tenant, key, digest) VALUES (?1, ?2, ?3)");

	query_text(&q, b->tenant);
	query_text(&q, b->key);
	query_blob(&q, b->digest, DIGEST);
	const int r = query_run(&q, err);
	if (r < 0 && db_failed_with(db, SQLITE_CONSTRAINT_FOREIGNKEY))
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no tenant with the id %s", b->tenant);
	return r;
}

/* 1: it is there. */
static int find(struct db *db, struct beginning *b, struct cordon_error *err)
{
	_cleanup_query_ struct query q =
		query_new(db, "SELECT digest = ?3, answer IS NULL, answer FROM repeats WHERE tenant = ?1 AND key = ?2");

	query_text(&q, b->tenant);
	query_text(&q, b->key);
	query_blob(&q, b->digest, DIGEST);
	const int r = query_next(&q, err);
	if (r <= 0)
		return r;
	b->what = !query_int_at(&q, 0) ? STORE_OTHER : query_int_at(&q, 1) ? STORE_PENDING : STORE_AGAIN;
	return b->what == STORE_AGAIN && query_blob_at(&q, 2, &b->answer, &b->len, err) < 0 ? -1 : 1;
}

static int begin(struct db *db, void *arg, struct cordon_error *err)
{
	struct beginning *b = arg;

	free(b->answer); /* of a run that was undone */
	b->answer = NULL;
	b->len = 0;
	if (forget_expired(db, b, err) < 0)
		return -1;
	const int found = find(db, b, err);
	if (found != 0)
		return found < 0 ? -1 : 0;
	b->what = STORE_FIRST;
	return note_first(db, b, err);
}

int store_repeat_begin(struct store *s, const char *tenant, const char *key, const unsigned char digest[32], int64_t now_ms,
                       enum store_repeat *what, void **answer, size_t *len, struct cordon_error *err)
{
	struct beginning b = {.tenant = tenant, .key = key, .digest = digest, .now_ms = now_ms};

	*answer = NULL;
	*len = 0;
	if (check_key(tenant, key, err) < 0 || store_check_time("the time", now_ms, err) < 0)
		return -1;
	if (store_write(s, begin, &b, err) < 0) {
		free(b.answer);
		return -1;
	}
	*what = b.what;
	*answer = b.answer;
	*len = b.len;
	return 0;
}

/* ---- its end ------------------------------------------------------------------------------------------------------------------- */

struct ending {
	const char *tenant, *key;
	const void *answer;
	size_t len;
	int64_t until_ms;
};

static int done(struct db *db, void *arg, struct cordon_error *err)
{
	const struct ending *e = arg;
	_cleanup_query_ struct query q =
		query_new(db, "UPDATE repeats SET answer = ?3, expires_ms = ?4 WHERE tenant = ?1 AND key = ?2 AND answer IS NULL");

	query_text(&q, e->tenant);
	query_text(&q, e->key);
	query_blob(&q, e->answer, e->len);
	query_int(&q, e->until_ms);
	if (query_run(&q, err) < 0)
		return -1;
	return db_changes(db) ? 0 : err_set(err, CORDON_ERR_NOT_FOUND, "no request with this idempotency key is under way");
}

int store_repeat_done(struct store *s, const char *tenant, const char *key, const void *answer, size_t len, int64_t keep_ms, int64_t now_ms,
                      struct cordon_error *err)
{
	if (check_key(tenant, key, err) < 0 || store_check_blob("the answer", len, err) < 0 ||
	    store_check_time("the time", now_ms, err) < 0 || store_check_time("how long the answer is kept", keep_ms, err) < 0)
		return -1;
	if (!answer && len)
		return err_set(err, CORDON_ERR_INPUT, "the answer is missing");
	/* an answer without bytes is one, too */
	return store_write(s, done, &(struct ending){tenant, key, answer ? answer : "", len, now_ms + keep_ms}, err);
}

static int forget(struct db *db, void *arg, struct cordon_error *err)
{
	const struct ending *e = arg;
	_cleanup_query_ struct query q = query_new(db, "DELETE FROM repeats WHERE tenant = ?1 AND key = ?2 AND answer IS NULL");

	query_text(&q, e->tenant);
	query_text(&q, e->key);
	return query_run(&q, err);
}

int store_repeat_forget(struct store *s, const char *tenant, const char *key, struct cordon_error *err)
{
	if (check_key(tenant, key, err) < 0)
		return -1;
	return store_write(s, forget, &(struct ending){.tenant = tenant, .key = key}, err);
}

static int forget_pending(struct db *db, void *arg, struct cordon_error *err)
{
	_cleanup_query_ struct query q = query_new(db, "DELETE FROM repeats WHERE answer IS NULL");

	(void)arg;
	return query_run(&q, err);
}

int store_repeat_recover(struct store *s, struct cordon_error *err)
{
	return store_write(s, forget_pending, NULL, err);
}
