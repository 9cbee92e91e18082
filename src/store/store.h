/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server must not forget: tenants and their keys, jobs, answers that a repeated request must get again, and what was used. Only the warden opens it.
 *
 * Everything that changes something returns when it is on the disk; callers in several threads share one sync (write.c). After kill -9, or a loss of
 * power, there is what had returned, and nothing that was half done. Times are those of the caller: milliseconds since 1970, so that tests have a clock of their own.
 *
 * The interface is made for several nodes on one database: a job is claimed with a lease, which its node renews; what a dead node had claimed can be claimed
 * again once the lease is over. Here it is kept by SQLite (sqlite.c); "postgresql://…" is refused with a word until that is there.
 *
 * Threads: any may call anything. Ownership: strings in a struct that is handed out belong to it, and go with store_job_clear() and its likes.
 */
#ifndef CORDON_STORE_STORE_H
#define CORDON_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

struct store;

#define STORE_UUID_LEN 36
#define STORE_KEY_HASH 32        /* SHA-256 of a key: the key itself is never kept */
#define STORE_NAME_MAX 64        /* tenants, nodes, labels of keys */
#define STORE_BLOB_MAX (8 << 20) /* a job's request, a result, a kept answer */
#define STORE_CEILING_MAX (256 << 10)
#define STORE_IDEMPOTENCY_MAX 255

/* Opens it, makes it where it is missing, and brings an older one up to date (store/migrations.h). A newer one is refused. */
int store_open(const char *where, struct store **out, struct cordon_error *err);
/* Waits for the calls that are under way. After it none may begin; one that does while it waits fails with CORDON_ERR_BUSY. */
void store_close(struct store *s);
/* 0 if it can be read and written now; for /readyz. */
int store_check(struct store *s, struct cordon_error *err);
/* A consistent copy of everything, while it is in use. `path` must not exist. */
int store_backup(struct store *s, const char *path, struct cordon_error *err);

/* ---- tenants ------------------------------------------------------------------------------------------------------------------ */

/* 0: no limit of its own. */
struct store_quota {
	uint64_t sandboxes;    /* at a time */
	uint64_t running;      /* commands at a time */
	uint64_t queued;       /* jobs that wait */
	uint64_t memory_bytes; /* of everything that runs */
	uint64_t disk_bytes;   /* of everything that is kept */
	uint64_t cpu_ms;       /* per day (UTC) */
	uint64_t egress_bytes; /* per day */
	uint64_t requests;     /* per second */
};

struct store_tenant {
	char id[ID_LEN + 1];
	char name[STORE_NAME_MAX + 1]; /* unique */
	struct store_quota quota;
	int64_t created_ms;
};

/* Fills in id and created_ms. CORDON_ERR_INPUT if the name is taken or malformed ([a-z0-9][a-z0-9-]*, and not of the form of an id). */
int store_tenant_add(struct store *s, struct store_tenant *t, int64_t now_ms, struct cordon_error *err);
/* By id or name. 1: found, 0: there is none. */
int store_tenant_get(struct store *s, const char *what, struct store_tenant *out, struct cordon_error *err);
int store_tenant_quota(struct store *s, const char *id, const struct store_quota *quota, struct cordon_error *err);
/* With its keys, kept answers and use; CORDON_ERR_BUSY while it has jobs that are not over. */
int store_tenant_remove(struct store *s, const char *id, struct cordon_error *err);
/* All of them, by name, each once; ends early when `each` returns other than 0, and returns that. */
int store_tenant_list(struct store *s, int (*each)(void *user, const struct store_tenant *t), void *user, struct cordon_error *err);

/* ---- keys --------------------------------------------------------------------------------------------------------------------- */

enum store_scope { STORE_SCOPE_RUN = 1 << 0, STORE_SCOPE_READ = 1 << 1, STORE_SCOPE_ADMIN = 1 << 2 };

struct store_key {
	char id[ID_LEN + 1];
	char tenant[ID_LEN + 1];
	unsigned char hash[STORE_KEY_HASH];
	char label[STORE_NAME_MAX + 1];
	unsigned scopes; /* enum store_scope */
	char *ceiling;   /* a policy that no request may widen, as YAML; NULL: none */
	int64_t created_ms, expires_ms /* 0: never */, revoked_ms /* 0: it is not */;
};
void store_key_clear(struct store_key *k);

/* hash, tenant, scopes and what else is wanted are given; fills in id and created_ms. */
int store_key_add(struct store *s, struct store_key *k, int64_t now_ms, struct cordon_error *err);
/* 1: found, 0: there is none. Whether it is expired or revoked is for the caller to see. */
int store_key_find(struct store *s, const unsigned char hash[STORE_KEY_HASH], struct store_key *out, struct cordon_error *err);
/* Of this tenant only, NULL: of any. 1: it is revoked now, 0: there is none. */
int store_key_revoke(struct store *s, const char *tenant, const char *id, int64_t now_ms, struct cordon_error *err);
int store_key_list(struct store *s, const char *tenant, int (*each)(void *user, const struct store_key *k), void *user,
                   struct cordon_error *err);

/* ---- jobs --------------------------------------------------------------------------------------------------------------------- */

/*
 *   queued ──claim──▶ running ──finish──▶ succeeded | failed
 *     ▲                  │
 *     └── lease over, or its process died: again if the job allows it and has tries left, else failed "interrupted"
 *   queued ──cancel──▶ failed "cancelled"
 */
enum store_job_state { STORE_QUEUED = 1, STORE_RUNNING, STORE_SUCCEEDED, STORE_FAILED };

struct store_job {
	char id[STORE_UUID_LEN + 1]; /* a random UUID */
	char tenant[ID_LEN + 1];
	char key[ID_LEN + 1]; /* that asked for it; its ceiling holds for the job */
	enum store_job_state state;
	char reason[32]; /* "": none */
	int priority;    /* -100 … 100, higher first */
	unsigned tries, tries_max;
	bool repeatable; /* may be run again after an interruption */
	bool cancel;     /* asked for while it runs */
	void *request;   /* opaque: what is to be done */
	size_t request_len;
	void *result; /* opaque; NULL: none yet */
	size_t result_len;
	char node[STORE_NAME_MAX + 1]; /* that runs it */
	int64_t lease_ms;              /* until when it is that node's */
	int64_t created_ms, started_ms, ended_ms, not_before_ms;
	int64_t keep_ms; /* how long its result is kept after its end */
	uint64_t seq;    /* ascending in the order of creation: the cursor of lists */
};
void store_job_clear(struct store_job *j);
const char *store_job_state_name(enum store_job_state state);

/*
 * Queues a job: tenant, key, priority, tries_max, repeatable, request and keep_ms are given; id, seq and the rest are filled in. CORDON_ERR_BUSY when
 * `queue_max` jobs wait already (0: no limit), or the tenant's quota of them does. CORDON_ERR_NOT_FOUND if there is no such tenant, or the key
 * ("": none) is not its.
 */
int store_job_add(struct store *s, struct store_job *j, uint64_t queue_max, int64_t now_ms, struct cordon_error *err);
/* Of this tenant only, NULL: of any. 1: found, 0: there is none. */
int store_job_get(struct store *s, const char *tenant, const char *id, struct store_job *out, struct cordon_error *err);
/*
 * The next job for this node, which has it until now + lease_ms. Fair: of the tenants that have one waiting, and whose quota of running ones is not reached,
 * the one with the fewest running is served, among equals the one that was served longest ago; of its jobs the one with the highest priority, then the oldest.
 * 1: claimed, 0: nothing waits.
 */
int store_job_claim(struct store *s, const char *node, int64_t lease_ms, int64_t now_ms, struct store_job *out, struct cordon_error *err);
/* All leases that this node still holds are over at now + lease_ms from now on. The ids of its jobs that were cancelled meanwhile go to `cancelled`. */
int store_job_renew(struct store *s, const char *node, int64_t lease_ms, int64_t now_ms, void (*cancelled)(void *user, const char *id),
                    void *user, struct cordon_error *err);
/* Its end. 0, or 1 if the job is not this node's any more (the lease was over): the result is then not kept, as somebody else's will be. */
int store_job_finish(struct store *s, const char *node, const char *id, enum store_job_state state, const char *reason, const void *result,
                     size_t result_len, int64_t now_ms, struct cordon_error *err);
/*
 * Puts a running job back, for another try not before then (the retry policy). 0, or 1 as above. CORDON_ERR_INPUT if it has no tries left: it still
 * runs then. One that was to be cancelled is not begun again: it fails as "cancelled".
 */
int store_job_retry(struct store *s, const char *node, const char *id, int64_t not_before_ms, int64_t now_ms, struct cordon_error *err);
/* A waiting job fails as "cancelled"; of a running one its node hears at the next renewal. 1: so; 0: there is none, or it is over. */
int store_job_cancel(struct store *s, const char *tenant, const char *id, int64_t now_ms, struct cordon_error *err);
/*
 * What runs without a lease that holds: put back where the job is repeatable and has tries left, else failed as "interrupted", or as "cancelled"
 * where that was asked for. `node`: all that it holds, whatever the lease says (it has just been started, and runs nothing); NULL: none. How many went
 * each way goes to the counters.
 */
int store_job_recover(struct store *s, const char *node, int64_t now_ms, uint64_t *again, uint64_t *failed, struct cordon_error *err);
/* Jobs, newest first, that are older than `before_seq` (0: from the newest): at most `limit`. tenant and state may be NULL and 0. Without request and result. */
int store_job_list(struct store *s, const char *tenant, enum store_job_state state, uint64_t before_seq, size_t limit,
                   int (*each)(void *user, const struct store_job *j), void *user, struct cordon_error *err);
struct store_job_counts {
	uint64_t queued, running, succeeded, failed;
};
int store_job_count(struct store *s, const char *tenant, struct store_job_counts *out, struct cordon_error *err);

/* ---- answers that are given again --------------------------------------------------------------------------------------------- */

enum store_repeat {
	STORE_FIRST = 1, /* go on, and say store_repeat_done() or store_repeat_forget() */
	STORE_PENDING,   /* the first one is not over */
	STORE_AGAIN,     /* here is its answer */
	STORE_OTHER,     /* the same key with another request */
};
/* A request with an Idempotency-Key. `digest`: SHA-256 of what was asked. For STORE_AGAIN, *answer (free() it) and *len. */
int store_repeat_begin(struct store *s, const char *tenant, const char *key, const unsigned char digest[32], int64_t now_ms,
                       enum store_repeat *what, void **answer, size_t *len, struct cordon_error *err);
int store_repeat_done(struct store *s, const char *tenant, const char *key, const void *answer, size_t len, int64_t keep_ms, int64_t now_ms,
                      struct cordon_error *err);
int store_repeat_forget(struct store *s, const char *tenant, const char *key, struct cordon_error *err);
/* At the start: those that were pending when the process died are forgotten. */
int store_repeat_recover(struct store *s, struct cordon_error *err);

/* ---- use ---------------------------------------------------------------------------------------------------------------------- */

struct store_usage {
	uint64_t cpu_ms, egress_bytes, requests, commands, jobs, sandboxes;
};
/* Adds to the day (UTC) of now_ms. */
int store_usage_add(struct store *s, const char *tenant, const struct store_usage *more, int64_t now_ms, struct cordon_error *err);
/* The sum of the days from that of since_ms on. */
int store_usage_get(struct store *s, const char *tenant, int64_t since_ms, struct store_usage *out, struct cordon_error *err);

/* ---- the rest ----------------------------------------------------------------------------------------------------------------- */

/* Removes jobs and kept answers whose time is over, a few at a time; how many: *removed. */
int store_expire(struct store *s, int64_t now_ms, uint64_t *removed, struct cordon_error *err);

#endif
