/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "store/parts.h"

#define KEY_COLUMNS "seq, id, tenant, hash, label, scopes, ceiling, created_ms, expires_ms, revoked_ms"
#define SCOPES_ALL (STORE_SCOPE_RUN | STORE_SCOPE_READ | STORE_SCOPE_ADMIN)

void store_key_clear(struct store_key *k)
{
	free(k->ceiling);
	*k = (struct store_key){0};
}

static int key_from_row(struct query *q, struct store_key *k, struct cordon_error *err)
{
	_cleanup_free_ void *hash = NULL;
	size_t len;
	void *ceiling;

	*k = (struct store_key){0};
	query_text_at(q, 1, k->id, sizeof(k->id));
	query_text_at(q, 2, k->tenant, sizeof(k->tenant));
	query_text_at(q, 4, k->label, sizeof(k->label));
	k->scopes = (unsigned)query_int_at(q, 5);
	k->created_ms = query_int_at(q, 7);
	k->expires_ms = query_int_at(q, 8);
	k->revoked_ms = query_int_at(q, 9);
	if (query_sound(q, err) < 0 || query_blob_at(q, 3, &hash, &len, err) < 0)
		return -1;
	if (len != STORE_KEY_HASH)
		return err_set(err, CORDON_ERR_SYSTEM, "the store has a key without a hash");
	memcpy(k->hash, hash, STORE_KEY_HASH);
	if (query_blob_at(q, 6, &ceiling, &len, err) < 0)
		return -1;
	k->ceiling = ceiling;
	return 0;
}

/* ---- add ----------------------------------------------------------------------------------------------------------------------- */

static int check_ceiling(const char *ceiling, struct cordon_error *err)
{
	const size_t len = ceiling ? strnlen(ceiling, STORE_CEILING_MAX + 1) : 0;

	if (len > STORE_CEILING_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the ceiling is longer than %d bytes", STORE_CEILING_MAX);
	if (len && !utf8_valid(ceiling, len))
		return err_set(err, CORDON_ERR_INPUT, "the ceiling is not UTF-8");
	return 0;
}

static int check_key(const struct store_key *k, int64_t now_ms, struct cordon_error *err)
{
	if (!k->scopes || (k->scopes & ~(unsigned)SCOPES_ALL))
		return err_set(err, CORDON_ERR_INPUT, "a key has one or more of the scopes run, read and admin");
	if (store_check_text("the label", k->label, 0, STORE_NAME_MAX, err) < 0 || check_ceiling(k->ceiling, err) < 0)
		return -1;
	return store_check_time("the time", now_ms, err) < 0 || store_check_time("the end of the key", k->expires_ms, err) < 0 ? -1 : 0;
}

static int add(struct db *db, void *arg, struct cordon_error *err)
{
	const struct store_key *k = arg;
	_cleanup_query_ struct query q = query_new(
		db,
		"INSERT INTO keys (id, tenant, hash, label, scopes, ceiling, created_ms, expires_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");

	query_text(&q, k->id);
	query_text(&q, k->tenant);
	query_blob(&q, k->hash, sizeof(k->hash));
	query_text(&q, k->label);
	query_int(&q, k->scopes);
	query_text(&q, k->ceiling);
	query_int(&q, k->created_ms);
	query_int(&q, k->expires_ms);
	const int r = query_run(&q, err);
	if (r < 0 && db_failed_with(db, SQLITE_CONSTRAINT_UNIQUE))
		return err_set(err, CORDON_ERR_INPUT, "there is such a key already");
	if (r < 0 && db_failed_with(db, SQLITE_CONSTRAINT_FOREIGNKEY))
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no tenant with the id %s", k->tenant);
	return r;
}

int store_key_add(struct store *s, struct store_key *k, int64_t now_ms, struct cordon_error *err)
{
	if (check_key(k, now_ms, err) < 0)
		return -1;
	struct store_key made = *k;
	id_new(made.id);
	made.created_ms = now_ms;
	made.revoked_ms = 0;
	if (store_write(s, add, &made, err) < 0)
		return -1;
	*k = made; /* the ceiling stays where it was */
	return 0;
}

/* ---- find ---------------------------------------------------------------------------------------------------------------------- */

struct finding {
	const unsigned char *hash;
	struct store_key *out;
};

static int find(struct db *db, void *arg, struct cordon_error *err)
{
	const struct finding *f = arg;
	_cleanup_query_ struct query q = query_new(db, "SELECT " KEY_COLUMNS " FROM keys WHERE hash = ?1");

	query_blob(&q, f->hash, STORE_KEY_HASH);
	const int r = query_next(&q, err);
	if (r > 0 && key_from_row(&q, f->out, err) < 0) {
		store_key_clear(f->out);
		return -1;
	}
	return r;
}

int store_key_find(struct store *s, const unsigned char hash[STORE_KEY_HASH], struct store_key *out, struct cordon_error *err)
{
	*out = (struct store_key){0};
	return store_read(s, find, &(struct finding){hash, out}, err);
}

/* ---- revoke -------------------------------------------------------------------------------------------------------------------- */

struct revoking {
	const char *tenant, *id;
	int64_t now_ms;
};

/* What is revoked stays so, with its first time. */
static int revoke_key(struct db *db, void *arg, struct cordon_error *err)
{
	const struct revoking *r = arg;
	_cleanup_query_ struct query q =
		query_new(db, "UPDATE keys SET revoked_ms = iif(revoked_ms, revoked_ms, ?3) WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");

	query_text(&q, r->id);
	query_text(&q, r->tenant);
	query_int(&q, r->now_ms);
	if (query_run(&q, err) < 0)
		return -1;
	return db_changes(db) ? 1 : 0;
}

int store_key_revoke(struct store *s, const char *tenant, const char *id, int64_t now_ms, struct cordon_error *err)
{
	if (store_check_time("the time", now_ms, err) < 0)
		return -1;
	if (!id_valid(id))
		return 0;
	return store_write(s, revoke_key, &(struct revoking){tenant, id, MAX(now_ms, 1)}, err); /* 0 would be: it is not */
}

/* ---- list ---------------------------------------------------------------------------------------------------------------------- */

struct page {
	const char *tenant;
	int64_t after;
	struct store_key rows[STORE_PAGE];
	size_t count;
};

static void clear_page(struct page *p)
{
	for (size_t i = 0; i < p->count; i++)
		store_key_clear(&p->rows[i]);
	p->count = 0;
}

static int read_page(struct db *db, void *arg, struct cordon_error *err)
{
	struct page *p = arg;
	_cleanup_query_ struct query q =
		query_new(db, "SELECT " KEY_COLUMNS " FROM keys WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");
	int r;

	query_text(&q, p->tenant);
	query_int(&q, p->after);
	query_int(&q, STORE_PAGE);
	while ((r = query_next(&q, err)) > 0) {
		p->after = query_int_at(&q, 0);
		if (key_from_row(&q, &p->rows[p->count++], err) < 0)
			return -1;
	}
	return r;
}

int store_key_list(struct store *s, const char *tenant, int (*each)(void *user, const struct store_key *k), void *user,
                   struct cordon_error *err)
{
	__attribute__((cleanup(clear_page))) struct page p = {.tenant = tenant};
	size_t count;

	do {
		clear_page(&p);
		if (store_read(s, read_page, &p, err) < 0)
			return -1;
		count = p.count;
		for (size_t i = 0; i < count; i++) {
			const int r = each(user, &p.rows[i]);
			if (r != 0)
				return r;
		}
	} while (count == STORE_PAGE);
	return 0;
}
