/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox may do: a plain, validated structure. Everything that sets one (command-line options, the C API, the policy file) goes
 * through policy_set(), which is driven by one table of keys.
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

enum policy_root { ROOT_READONLY, ROOT_LAYERED, ROOT_COUNT };
enum policy_protocol { PROTOCOL_WEB, PROTOCOL_TCP, PROTOCOL_COUNT };
enum policy_language { LANGUAGE_PYTHON, LANGUAGE_JAVASCRIPT, LANGUAGE_TYPESCRIPT, LANGUAGE_RUBY, LANGUAGE_BASH, LANGUAGE_COUNT };
enum policy_action { ACTION_ALLOW, ACTION_WARN, ACTION_DENY, ACTION_COUNT };
enum policy_unproven { UNPROVEN_ALLOW, UNPROVEN_DENY, UNPROVEN_COUNT };
enum policy_sync { SYNC_RESULT, SYNC_SEAL, SYNC_COUNT };

/* A list whose items are structures; which ones, the row of its key says (policy_key.map). */
struct maplist {
	void *items;
	size_t count;
};

#define POLICY_PORTS_MAX 32
#define POLICY_INBOUND_MAX 32

struct policy_ports {
	uint16_t items[POLICY_PORTS_MAX];
	size_t count;
};

/* What the items of these lists are. Text is never NULL unless it says so; hosts are in the form of policy/host.h. */
struct policy_outbound { /* network.outbound */
	char *host;
	struct policy_ports ports; /* one at least */
	enum policy_protocol protocol;
};
struct policy_inbound {                /* network.inbound */
	struct policy_ports port;      /* inside; exactly one */
	struct policy_ports host_port; /* on the host's loopback, 0: any that is free; none: the same number */
};
struct policy_pattern { /* patterns.add */
	enum policy_language language;
	char *match;
	char *reason; /* NULL: none */
};
struct policy_secret {        /* secrets */
	char *from;           /* "store:NAME" or "env:NAME" */
	struct strlist hosts; /* names and suffixes, one at least */
	char *header;
	char *format;                  /* with one {} in it */
	char *env;                     /* NULL: none */
	struct strlist methods, paths; /* of requests that get it; others are refused. None: all */
};

struct policy_files {
	struct strlist read, write, deny; /* absolute patterns (base/glob.h) of paths inside; see policy/match.h */
	bool hidden;                      /* wildcards of read and write match names that begin with a dot */
};

struct policy_network {
	struct maplist outbound; /* struct policy_outbound */
	struct strlist deny;     /* hosts */
	struct maplist inbound;  /* struct policy_inbound */
	bool localhost;
	uint64_t connections; /* to others, at a time */
	uint64_t bandwidth;   /* bytes per second, 0: no limit */
};

struct policy_process {
	bool subprocess, shell, native;
	struct strlist allow, deny; /* names, patterns of names, or absolute patterns of paths */
};

struct policy_patterns {
	struct strlist use; /* names of rule packs */
	struct maplist add; /* struct policy_pattern */
	enum policy_action action;
	enum policy_unproven unproven;
};

struct policy_audit {
	enum policy_sync sync;
	uint64_t retain_age_ms; /* 0: for ever */
	uint64_t retain_size;   /* bytes, 0: no limit */
	uint64_t max_entries;   /* of the view in memory */
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
	enum policy_root root;
	struct policy_files files;
	struct policy_network network;
	struct policy_process process;
	struct policy_patterns patterns;
	struct maplist secrets; /* struct policy_secret */
	struct policy_audit audit;
};

/* POLICY_LIST, POLICY_ASSIGN_LIST, POLICY_STATUSES and POLICY_MAPS are lists: setting them adds. */
enum policy_type {
	POLICY_SIZE,
	POLICY_DURATION,
	POLICY_CPUS,
	POLICY_COUNT,
	POLICY_BOOL,
	POLICY_WORD, /* an enum; one of `words` */
	POLICY_LIST,
	POLICY_ASSIGN_LIST, /* "NAME=VALUE"; a map in the policy file */
	POLICY_STATUSES,    /* exit statuses, "0,1"; a bitmap */
	POLICY_MAPS,        /* structures, see policy/maps.h */
};

/* What a text in a list, or in a structure of one, must look like. */
struct policy_item {
	char *(*check)(const char *value, struct cordon_error *err); /* its normal form, allocated; or NULL */
	const char *noun;                                            /* "an absolute path" */
	const char *pattern; /* what a schema can say about it: an ECMA regular expression, or NULL */
};

struct policy_key {
	const char *name; /* "limits.memory", "secrets" */
	enum policy_type type;
	size_t offset; /* in struct cordon_policy */
	uint64_t min, max;
	const char *fallback; /* the default profile's value, in the form a user would write; NULL: empty, or (alias) none of its own */
	const char *help;
	const char *const
		*words; /* of POLICY_WORD, in the order of the enum; of a number: the one word that stands for 0. Ends with NULL */
	const struct policy_item *item; /* of POLICY_LIST */
	const struct policy_map *map;   /* of POLICY_MAPS */
	const char *alias;              /* it is another name of this key */
	bool accumulates;               /* a policy that extends another one adds to this list instead of replacing it */
};

#define POLICY_KEYS_MAX 64
extern const struct policy_key policy_keys[];
extern const size_t policy_key_count;

/* Fills in the default profile. Release with policy_clear(). */
int policy_init(struct cordon_policy *p, struct cordon_error *err);
void policy_clear(struct cordon_policy *p);
int policy_copy(struct cordon_policy *to, const struct cordon_policy *from, struct cordon_error *err);
/*
 * Sets one key, or adds to one that is a list. The key "clear" empties the list that the value names: what a policy file that replaces a
 * list does, in the form in which a sandbox's record keeps settings. Items that are structures: see policy/maps.h.
 */
int policy_set(struct cordon_policy *p, const char *key, const char *value, struct cordon_error *err);
/* The same with the row at hand; *index (may be NULL) gets the place in the list: 0 for what is no list, the status itself for the last of exit statuses. */
int policy_put(struct cordon_policy *p, const struct policy_key *key, const char *value, size_t *index, struct cordon_error *err);
/* Empties a list. */
void policy_empty(struct cordon_policy *p, const struct policy_key *key);
const struct policy_key *policy_key_find(const char *name);
bool policy_key_is_list(const struct policy_key *key);

/* The value as policy_set() takes it, one string per item of a list; added to `out`. */
int policy_values(const struct cordon_policy *p, const struct policy_key *key, struct strlist *out, struct cordon_error *err);
/* True if the value is that of the default profile. Cheap. */
bool policy_is_default(const struct cordon_policy *p, const struct policy_key *key);
/* The same as "KEY=VALUE", with what empties a list in front of its items: set one after the other over any policy, they make this value. */
int policy_key_settings(const struct cordon_policy *p, const struct policy_key *key, struct strlist *out, struct cordon_error *err);
/* 1: both have the same value, 0: they have not, -1: out of memory. */
int policy_same(const struct cordon_policy *a, const struct cordon_policy *b, const struct policy_key *key, struct cordon_error *err);
/* Whether they say the same in every key. Quick: asked for each sandbox that is made. May say no where they only look different. */
bool policy_equal(const struct cordon_policy *a, const struct cordon_policy *b);
/* What turns `base` into `p`, as "KEY=VALUE" in the order in which it must be set; added to `out`. */
int policy_settings(const struct cordon_policy *p, const struct cordon_policy *base, struct strlist *out, struct cordon_error *err);

/* CORDON_ERR_WEAK_HOST if the policy asks for what this version knows how to write down, but not how to enforce. */
int policy_check_enforced(const struct cordon_policy *p, struct cordon_error *err);
/* The first such key; NULL: none. */
const struct policy_key *policy_not_enforced(const struct cordon_policy *p);

/* Part of it: whether what network.inbound and other keys say goes together. */
int policy_check_inbound(const struct cordon_policy *p, struct cordon_error *err);
/* By which number of the host's a port is published; 0: any that is free. */
uint16_t policy_inbound_host_port(const struct policy_inbound *i);

/* True if transaction.ok holds this exit status. */
bool policy_status_ok(const struct cordon_policy *p, int status);

/* Built-in forbidden host paths (D2); "~/" is the caller's home. NULL-terminated. */
extern const char *const policy_forbidden_mounts[];

/*
 * That list with "~" spelled out: as `home` (the environment's; NULL or relative: none) and as the user database has it, since sudo and
 * daemons change the one. Added to `out`.
 */
int policy_forbidden_paths(const char *home, struct strlist *out, struct cordon_error *err);

/* Where a policy has secrets: whom programs inside believe, the broker alone and with all others; and what a variable has in the place of a secret, before its name. */
#define POLICY_AUTHORITY_INSIDE "/etc/ssl/cordon/authority.pem"
#define POLICY_TRUST_INSIDE "/etc/ssl/cordon/bundle.pem"
#define POLICY_PLACEHOLDER "cordon-secret-"

/*
 * Builds the environment of a command: env.allow from `host`, what secrets need, then env.set, then extra. NULL-terminated, one allocation per string;
 * free with strlist_free(). Names are checked ([A-Za-z_][A-Za-z0-9_]*), LD_* and the like are never taken from the host.
 */
int policy_environment(const struct cordon_policy *p, char *const *host, const char *const *extra, struct strlist *out,
                       struct cordon_error *err);
/* The same on an image, which wants some variables to be set: the policy's win, but for the PATH that is the default. */
int policy_environment_on(const struct cordon_policy *p, char *const *host, const struct strlist *image, const char *const *extra,
                          struct strlist *out, struct cordon_error *err);

/* [A-Za-z_][A-Za-z0-9_]* */
bool env_name_valid(const char *name, size_t len);
/* LD_*, BASH_ENV and the like: it makes programs run other code, so its value must not come from the host. */
bool env_name_injects(const char *name);

/* The nearest of `candidates` to `word` (edit distance), or NULL if nothing is near. */
const char *nearest_word(const char *word, const char *const *candidates, size_t count);

#endif
