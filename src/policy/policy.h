/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox may do: a plain, validated structure. Everything that sets one (command-line options, the C API, later the policy
 * file) goes through policy_set(), which is driven by one table of keys.
 */
#ifndef CORDON_POLICY_POLICY_H
#define CORDON_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define POLICY_PATH "/usr/local/bin:/usr/bin:/bin" /* inside, unless the policy says otherwise */

struct strlist {
	char **items; /* NULL-terminated once it has an item; NULL while empty */
	size_t count;
};
int strlist_add(struct strlist *l, const char *s, struct cordon_error *err);
int strlist_copy(struct strlist *to, const struct strlist *from, struct cordon_error *err);
void strlist_free(struct strlist *l);
bool strlist_has(const struct strlist *l, const char *s);
/* Adds "K=V" after checking it, in the place of an earlier K if there is one. */
int strlist_assign(struct strlist *l, const char *entry, struct cordon_error *err);

struct policy_limits {
	uint64_t timeout_ms;
	uint64_t memory; /* bytes */
	uint64_t cpus_milli;
	uint64_t pids;
	uint64_t max_output; /* bytes per stream */
	uint64_t disk;       /* bytes, workspace and home together */
	uint64_t files;      /* open files per process */
	bool strict;         /* refuse limits that this host can only hold in a weaker form */
};

enum tx_action { TX_ROLLBACK, TX_KEEP, TX_ACTION_COUNT };
extern const char *const tx_action_names[TX_ACTION_COUNT + 1]; /* "rollback", "keep", NULL */

/* What becomes of the changes of a command. */
struct policy_transaction {
	enum tx_action exit;     /* it ended with a status that is not in `ok` */
	enum tx_action abort;    /* signal, timeout, out of memory, cancelled, refused */
	enum tx_action denial;   /* it succeeded, but was refused something on the way */
	uint8_t ok[32];          /* exit statuses that count as success, one bit each: see policy_status_ok() */
	struct strlist preserve; /* patterns (base/glob.h) of paths in the workspace that survive a rollback */
};

/* `struct cordon_policy` in the public header. */
struct cordon_policy {
	struct policy_limits limits;
	struct strlist env_allow;     /* names taken over from the caller's environment */
	struct strlist env_set;       /* "K=V" */
	struct strlist mounts_read;   /* host paths (and all below) that may be mounted read-only; empty grants nothing */
	struct strlist mounts_write;  /* … that may be mounted writable (and read-only) */
	struct strlist mounts_forbid; /* in addition to the built-in list, which nothing overrides */
	struct strlist weak_allow;    /* guarantees that may be weaker: "memory", "landlock" … */
	struct policy_transaction transaction;
};

/* POLICY_LIST, POLICY_ASSIGN_LIST and POLICY_STATUSES are lists: setting them adds. */
enum policy_type {
	POLICY_SIZE,
	POLICY_DURATION,
	POLICY_CPUS,
	POLICY_COUNT,
	POLICY_BOOL,
	POLICY_WORD, /* an enum; one of `words` */
	POLICY_LIST,
	POLICY_ASSIGN_LIST,
	POLICY_STATUSES, /* exit statuses, "0,1"; a bitmap */
};

struct policy_key {
	const char *name; /* "limits.memory" */
	enum policy_type type;
	size_t offset; /* in struct cordon_policy */
	uint64_t min, max;
	const char *fallback; /* the default profile's value, in the form a user would write; NULL: empty */
	const char *help;
	const char *const *words; /* of POLICY_WORD, in the order of the enum; ends with NULL */
};

extern const struct policy_key policy_keys[];
extern const size_t policy_key_count;

/* Fills in the default profile. Release with policy_clear(). */
int policy_init(struct cordon_policy *p, struct cordon_error *err);
void policy_clear(struct cordon_policy *p);
int policy_copy(struct cordon_policy *to, const struct cordon_policy *from, struct cordon_error *err);
int policy_set(struct cordon_policy *p, const char *key, const char *value, struct cordon_error *err);
const struct policy_key *policy_key_find(const char *name);

/* True if transaction.ok holds this exit status. */
bool policy_status_ok(const struct cordon_policy *p, int status);

/* Built-in forbidden host paths (D2); "~/" is the caller's home. NULL-terminated. */
extern const char *const policy_forbidden_mounts[];

/*
 * That list with "~" spelled out: as `home` (the environment's; NULL or relative: none) and as the user database has it, since sudo and
 * daemons change the one. Added to `out`.
 */
int policy_forbidden_paths(const char *home, struct strlist *out, struct cordon_error *err);

/*
 * Builds the environment of a command: env.allow from `host`, then env.set, then extra. NULL-terminated, one allocation per string;
 * free with strlist_free(). Names are checked ([A-Za-z_][A-Za-z0-9_]*), LD_* and the like are never taken from the host.
 */
int policy_environment(const struct cordon_policy *p, char *const *host, const char *const *extra, struct strlist *out,
                       struct cordon_error *err);

/* [A-Za-z_][A-Za-z0-9_]* */
bool env_name_valid(const char *name, size_t len);
/* LD_*, BASH_ENV and the like: it makes programs run other code, so its value must not come from the host. */
bool env_name_injects(const char *name);

/* The nearest of `candidates` to `word` (edit distance), or NULL if nothing is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);

#endif
