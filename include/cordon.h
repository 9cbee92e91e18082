/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon: run untrusted commands where they can do no harm.
 *
 *   struct cordon *c;                      one context: owns one small launcher process
 *   struct cordon_policy *p;               what commands may do
 *   struct cordon_sandbox *s;              an isolated place
 *   struct cordon_exec *e;                 one command in it
 *
 *   cordon_open(&c, &err);
 *   p = cordon_policy_new();
 *   cordon_policy_set(p, "limits.memory", "256M", &err);
 *   cordon_sandbox_create(c, p, NULL, &s, &err);
 *   cordon_exec_start(s, &(struct cordon_exec_options){
 *           .size = sizeof(struct cordon_exec_options),
 *           .argv = (const char *const[]){"echo", "hi", NULL}}, &e, &err);
 *   cordon_exec_wait(e, &err);
 *   puts(cordon_exec_result(e)->stdout_data);
 *
 * Return values: 0 (or a pointer, or a count) on success, -1 (or NULL) on failure with *err filled in; err may be NULL.
 *
 * Threads: a context and a policy that is no longer being changed may be used from any number of threads at once, and one context serves
 * any number of sandboxes. A sandbox may be used from several threads. One exec belongs to one thread at a time, except
 * cordon_exec_signal(), which any thread may call. There is no global state, and the library never forks the caller, never installs a
 * signal handler, never prints and never exits.
 *
 * Ownership: what a function returns through a ** belongs to the caller and is released by the function named with it. Strings and
 * structures passed in are copied; they may be freed after the call. Pointers handed out (const) live as long as the object they came from.
 */
#ifndef CORDON_H
#define CORDON_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CORDON_API __attribute__((visibility("default")))
#else
#define CORDON_API
#endif

struct cordon;
struct cordon_policy;
struct cordon_sandbox;
struct cordon_exec;
struct cordon_denial;

/* ---- errors ------------------------------------------------------------------------------------------------------------------ */

enum cordon_error_code {
	CORDON_OK = 0,
	CORDON_ERR_INPUT,        /* a bad argument, option or value */
	CORDON_ERR_NOT_FOUND,    /* the program does not exist inside the sandbox */
	CORDON_ERR_NOT_RUNNABLE, /* it exists but cannot be executed */
	CORDON_ERR_DENIED,       /* refused by policy (a forbidden mount, say) */
	CORDON_ERR_WEAK_HOST,    /* this host cannot give a guarantee that the policy asks for */
	CORDON_ERR_SYSTEM,       /* a system call failed */
	CORDON_ERR_BUSY,         /* somebody else is using the sandbox */
};

struct cordon_error {
	enum cordon_error_code code;
	int sys_errno;     /* 0 if no system call was at fault */
	char message[768]; /* one line, no full stop */
	char hint[256];    /* what to do about it; may be empty */
};

/* ---- context ----------------------------------------------------------------------------------------------------------------- */

CORDON_API const char *cordon_version(void);

/* Starts the launcher. Release with cordon_close(), after every sandbox made from it was destroyed. */
CORDON_API int cordon_open(struct cordon **out, struct cordon_error *err);
CORDON_API void cordon_close(struct cordon *ctx);

/* As cordon_close(), but does not wait: the launcher goes on removing what the sandboxes left, and ends by itself. For programs that are
 * about to exit. */
CORDON_API void cordon_release(struct cordon *ctx);

/* 1 if the backend ("process") works on this host, 0 if not; *err then says why. */
CORDON_API int cordon_backend_available(const char *backend, struct cordon_error *err);

/* ---- policy ------------------------------------------------------------------------------------------------------------------ */

/* The built-in default: 512 MB, 1 CPU, 60 s, 50 processes, no network, nothing of the host's environment. NULL when out of memory. */
CORDON_API struct cordon_policy *cordon_policy_new(void);
/* A built-in profile: "default", "locked" (nothing but /app and the programs of the image) or "dev" (10 min, half of the memory, all CPUs,
 * 1,024 processes, failed commands keep their changes). NULL is "default". */
CORDON_API struct cordon_policy *cordon_policy_new_profile(const char *name, struct cordon_error *err);
CORDON_API void cordon_policy_free(struct cordon_policy *policy);

/*
 * Sets one key, by its name in the policy file (docs/policy.md): "limits.memory" = "512M". For list keys ("env.allow", "mounts.read") the
 * value is added to the list; "clear" = "env.allow" empties it. Unknown keys and malformed values are errors that name the allowed form.
 */
CORDON_API int cordon_policy_set(struct cordon_policy *policy, const char *key, const char *value, struct cordon_error *err);

/* ---- sandboxes --------------------------------------------------------------------------------------------------------------- */

struct cordon_mount {
	const char *host;  /* path on the host; symbolic links are resolved, and the result is what is checked and mounted */
	const char *guest; /* absolute path inside */
	int writable;
};

/* A file that exists inside from the start, read-only. */
struct cordon_file {
	const char *guest;
	const void *data;
	size_t len;
	unsigned mode; /* 0 means 0444 */
};

enum cordon_sandbox_flags {
	/* Return as soon as the request is on its way: problems that only the set-up can find are then reported by the first
	 * cordon_exec_start(). Saves a round trip for callers that start a command at once. */
	CORDON_SANDBOX_LAZY = 1 << 0,
};

struct cordon_sandbox_options {
	size_t size;           /* sizeof(struct cordon_sandbox_options) */
	unsigned flags;        /* enum cordon_sandbox_flags */
	const char *backend;   /* NULL: "process" */
	const char *image;     /* an imported one, by name; NULL: "host" */
	const char *workspace; /* a host directory that /app starts from (it is never written), NULL: an empty one */
	const char *hostname;  /* NULL: "cordon" */
	const char *user;      /* "UID" or "UID:GID" inside, NULL: an unprivileged one */
	const struct cordon_mount *mounts;
	size_t mount_count;
	const struct cordon_file *files;
	size_t file_count;
};

/* options may be NULL. Release with cordon_sandbox_destroy(), which kills whatever still runs inside. */
CORDON_API int cordon_sandbox_create(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options,
                                     struct cordon_sandbox **out, struct cordon_error *err);
CORDON_API const char *cordon_sandbox_id(const struct cordon_sandbox *sandbox);
CORDON_API void cordon_sandbox_destroy(struct cordon_sandbox *sandbox);

/* ---- the pool ---------------------------------------------------------------------------------------------------------------- */

/*
 * Sandboxes are made ahead: who makes two alike within half a minute finds the next ones parked, as many as the rate of requests asks for, and cordon_sandbox_create() then
 * takes about none of the time that it takes otherwise. A parked sandbox is used once. Nothing else is different: where no parked one fits there is a cold start.
 */

/*
 * Keeps at least `count` sandboxes of this kind parked from now on (0: as the rate asks for), and waits until they are. language: with an interpreter of it ready
 * ("python"), for execs that have a language and no argv; NULL: none, until such an exec is seen. None waits where there is a workspace or a mount: code that lies there would run as it starts.
 */
CORDON_API int cordon_warm(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options,
                           const char *language, unsigned count, struct cordon_error *err);

/* At most so many sandboxes, and so many bytes of memory, are parked (default: 64, and a sixteenth of the machine's). 0: none. */
CORDON_API void cordon_pool_limit(struct cordon *ctx, unsigned sandboxes, uint64_t bytes);

struct cordon_pool_info {
	size_t size;           /* sizeof(struct cordon_pool_info) */
	unsigned parked;       /* now */
	uint64_t bytes;        /* of memory, that they need */
	uint64_t hits, misses; /* requests that found one, and that found none */
	uint64_t discarded;    /* that were never used */
};
CORDON_API int cordon_pool_info(struct cordon *ctx, struct cordon_pool_info *out, struct cordon_error *err);

/* ---- sandboxes that live on -------------------------------------------------------------------------------------------------- */

/*
 * A sandbox on disk: files in /app and in its home outlive the process that made them, every exec is a transaction, and each state can be
 * named, gone back to and forked. All of it lies under $CORDON_HOME; nothing runs while nobody has it open.
 */
struct cordon_create_options {
	size_t size;           /* sizeof(struct cordon_create_options) */
	const char *name;      /* NULL: none */
	const char *image;     /* as in cordon_sandbox_options */
	const char *workspace; /* as in cordon_sandbox_options */
	const char *user;
	const char *const *policy; /* "limits.memory=1G" on top of the profile dev, NULL-terminated; NULL: none */
	const char *const *labels; /* "K=V", likewise */
	const char *const *env;    /* "K=V", likewise, for every exec */
	const struct cordon_mount *mounts;
	size_t mount_count;
	int64_t ttl_ms, idle_ms; /* 0: for ever; 0: the default */
};

/* Makes one; id gets its id. */
CORDON_API int cordon_create(const struct cordon_create_options *options, char id[21], struct cordon_error *err);
/* Removes one by id or name, with everything that is in no other sandbox's history. */
CORDON_API int cordon_remove(const char *what, struct cordon_error *err);

/* Opens one by id, unique beginning of an id, or name. CORDON_ERR_BUSY while another process has it open. The first exec starts it; cordon_sandbox_destroy()
 * stops it and keeps what it holds. */
CORDON_API int cordon_sandbox_open(struct cordon *ctx, const char *what, struct cordon_sandbox **out, struct cordon_error *err);

/* Stops everything inside for a while (1), or lets it go on (0). While it is stopped, no exec can be started. */
CORDON_API int cordon_sandbox_freeze(struct cordon_sandbox *sandbox, int frozen, struct cordon_error *err);

/* Names the present state. id gets that of the snapshot; name and note may be NULL. */
CORDON_API int cordon_sandbox_snapshot(struct cordon_sandbox *sandbox, const char *name, const char *note, char id[21],
                                       struct cordon_error *err);
/* Goes back (or forward) to a snapshot, by id or name, or to "seed". History stays. CORDON_ERR_BUSY while an exec runs. */
CORDON_API int cordon_sandbox_restore(struct cordon_sandbox *sandbox, const char *snapshot, struct cordon_error *err);
/* A new sandbox that starts from a snapshot of this one; NULL: from its present state. */
CORDON_API int cordon_sandbox_fork(struct cordon_sandbox *sandbox, const char *snapshot, const char *name, char id[21],
                                   struct cordon_error *err);

/* ---- execs ------------------------------------------------------------------------------------------------------------------- */

enum cordon_stream { CORDON_STDOUT = 1, CORDON_STDERR = 2 };

enum cordon_exec_flags {
	CORDON_EXEC_TTY = 1 << 0,      /* the command gets a terminal of its own; its output arrives as CORDON_STDOUT */
	CORDON_EXEC_STDIN = 1 << 1,    /* feed the command with cordon_exec_write() */
	CORDON_EXEC_DISCARD = 1 << 2,  /* do not keep output in the result (on_output still sees it) */
	CORDON_EXEC_PARALLEL = 1 << 3, /* beside others, without a transaction of its own; services are started so */
	CORDON_EXEC_ENDLESS = 1 << 4,  /* limits.max_output does not apply to what on_output sees; only with CORDON_EXEC_DISCARD */
};

struct cordon_exec_options {
	size_t size;             /* sizeof(struct cordon_exec_options) */
	const char *const *argv; /* NULL-terminated; argv[0] is looked up in the PATH inside */
	const char *const *env;  /* "K=V", NULL-terminated, on top of what the policy sets; may be NULL */
	const char *cwd;         /* inside; NULL: /app */
	unsigned flags;          /* enum cordon_exec_flags */
	unsigned short rows, cols;
	/* Called from cordon_exec_step() or cordon_exec_wait(), in the caller's thread, as output arrives, up to limits.max_output. */
	void (*on_output)(void *user, enum cordon_stream stream, const void *data, size_t len);
	void *user;
	int64_t timeout_ms;      /* 0: limits.timeout of the policy; -1: none */
	const char *on_failure;  /* "rollback" or "keep", however it fails; NULL: transaction.exit and transaction.abort of the policy */
	const unsigned char *ok; /* exit statuses that are no failure, 32 bytes with one bit each, lowest first; NULL: transaction.ok */
	/*
	 * Code. Without argv it is what is run: it becomes a read-only file in /run/code, the language's interpreter runs that, with `args`, and finds
	 * modules in /app; in a sandbox where an interpreter waits (see the pool) that takes about a tenth of the time. With argv: code that argv makes
	 * an interpreter run, for the gate (patterns.* of the policy), which else sees argv alone. NULL: none.
	 */
	const char *language; /* "python", "javascript", "typescript", "ruby", "bash" */
	const void *code;
	size_t code_len;
	const char *const *args; /* without argv: what the code gets as its arguments, NULL-terminated; NULL: none */
	/* Without argv: how the file is called; NULL: main, and the extension of the language. Only then can the interpreter be one that waits. */
	const char *code_name;
	/* Called as on_output is, with what the command is refused, as soon as it is known: what the result will list, in that order. */
	void (*on_denial)(void *user, const struct cordon_denial *denial);
};

struct cordon_usage {
	double cpu_ms;
	int64_t memory_peak_bytes; /* -1: not known */
	int64_t pids_peak;         /* -1: not known */
	const char *memory_by;     /* "cgroup2", "cgroup1", "rlimit+watch" */
	const char *pids_by;       /* "cgroup2", "cgroup1", "rlimit" */
	const char *cpu_by;        /* "cgroup2", "cgroup1", "affinity" */
	const char *disk_by;       /* "watch" */
};

/* What the command did to the workspace. */
struct cordon_change {
	const char *op; /* add|modify|delete|mode|type */
	const char *path;
	uint64_t bytes;
};

/* Why a change could not be committed to the host's directory. */
struct cordon_conflict {
	const char *kind; /* conflict (the host's file is another), autorun (other programs run it by themselves), impossible */
	const char *path;
	const char *why;
};

struct cordon_transaction {
	const char *outcome;        /* committed|kept|rolled_back|none */
	char before[24], after[24]; /* layers; empty: none */
	const struct cordon_change *changes;
	size_t change_count;         /* at most 1,000 are listed */
	int64_t changes_total;       /* -1: not known */
	const char *const *services; /* that went on while files were put back; NULL: none */
	size_t service_count;
	const struct cordon_conflict *conflicts; /* of cordon_exec_commit() */
	size_t conflict_count;
};

/* Something that the command, or the command itself, was refused. Texts may be NULL but for the first two. */
struct cordon_denial {
	const char *category;   /* exec|network|gate */
	const char *target;     /* the program, host:port, or the command */
	const char *rule;       /* "process.allow", "network.outbound", "shell-destructive/delete-vital" */
	const char *errno_name; /* what the program saw: "EACCES" */
	const char *hint;       /* what would allow it */
};

struct cordon_result {
	char id[24];
	char sandbox[24];
	const char *state;       /* "succeeded" or "failed" */
	const char *reason;      /* NULL, or exit|signal|timeout|oom|denied|cancelled|interrupted|conflict|error */
	int exit_code;           /* the exit status a shell would see: the command's own, 128+N, 124, 126, 127 */
	int signal;              /* 0: none */
	const char *stdout_data; /* NUL-terminated for convenience; may contain NULs before stdout_len */
	size_t stdout_len;
	const char *stderr_data;
	size_t stderr_len;
	int stdout_truncated, stderr_truncated;
	double duration_ms;
	struct cordon_usage usage;
	const char *weak;  /* NULL, or a comma-separated list of guarantees that this host gives in a weaker form ("memory") */
	const char *error; /* NULL, or a line for the user: which limit was hit and how to raise it, or why it did not start */
	const char *hint;  /* NULL, or what to do about it */
	struct cordon_transaction transaction;
	const struct cordon_denial *denials;
	size_t denial_count; /* at most 100 are listed, each once */
};

/* Starts a command. A program that does not exist is an error here (CORDON_ERR_NOT_FOUND), and so is one that the gate refuses (CORDON_ERR_DENIED). Release with cordon_exec_free(). */
CORDON_API int cordon_exec_start(struct cordon_sandbox *sandbox, const struct cordon_exec_options *options, struct cordon_exec **out,
                                 struct cordon_error *err);

/* A descriptor to poll for reading, in the caller's own event loop; when it is readable call cordon_exec_step(). Not to be read or closed. */
CORDON_API int cordon_exec_fd(const struct cordon_exec *exec);

/* Handles what is there without blocking. 1: still running, 0: finished, -1: failed. */
CORDON_API int cordon_exec_step(struct cordon_exec *exec, struct cordon_error *err);

/* Blocks until the command and everything it started are gone. */
CORDON_API int cordon_exec_wait(struct cordon_exec *exec, struct cordon_error *err);

/* Writes to the command's standard input (or its terminal) without blocking: bytes taken, 0 if it would block (poll
 * cordon_exec_stdin_fd() for writing), -1 when the command no longer reads. */
CORDON_API ssize_t cordon_exec_write(struct cordon_exec *exec, const void *data, size_t len);
CORDON_API int cordon_exec_stdin_fd(const struct cordon_exec *exec);
CORDON_API void cordon_exec_close_stdin(struct cordon_exec *exec);

CORDON_API int cordon_exec_signal(struct cordon_exec *exec, int signo, struct cordon_error *err);

/* Ends the whole tree at once; the result's reason becomes "cancelled". Any thread may call it; no error if it has ended already. */
CORDON_API int cordon_exec_cancel(struct cordon_exec *exec, struct cordon_error *err);
CORDON_API int cordon_exec_resize(struct cordon_exec *exec, unsigned short rows, unsigned short cols);

/* Valid once the exec has finished, until cordon_exec_free(). */
CORDON_API const struct cordon_result *cordon_exec_result(const struct cordon_exec *exec);

enum cordon_commit_flags {
	CORDON_COMMIT_DRY_RUN = 1 << 0,
	CORDON_COMMIT_AUTORUN = 1 << 1, /* also what other programs run by themselves: .git/hooks, .envrc … */
	CORDON_COMMIT_FORCE = 1 << 2,   /* also over what was changed on the host meanwhile */
};

struct cordon_commit_options {
	size_t size;                                                 /* sizeof(struct cordon_commit_options) */
	unsigned flags;                                              /* enum cordon_commit_flags */
	void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes written; may be NULL */
	void *user;
};

/*
 * Writes what a finished command has changed in /app (in a sandbox that stays: all its changes) to the directory on the host that the sandbox
 * started from: all of it or nothing, whatever happens. Nothing may run in the sandbox. A command that failed is rolled back where its transaction says so.
 * 0: transaction.outcome says which; 1: refused, transaction.conflicts says why, and nothing was written.
 */
CORDON_API int cordon_exec_commit(struct cordon_exec *exec, const struct cordon_commit_options *options, struct cordon_error *err);

/* The result as one JSON object, as `cordon run --json` prints it. To be released with free(). */
CORDON_API char *cordon_result_json(const struct cordon_result *result);

/* Kills the command if it still runs. */
CORDON_API void cordon_exec_free(struct cordon_exec *exec);

/* ---- audit ------------------------------------------------------------------------------------------------------------------- */

/*
 * Everything that this context records (docs/audit.md): called with each record, one JSON object without line feed (a NUL is behind it), in the order of the
 * log and after it was written there; never from two threads at once. It may call any function but cordon_close() and cordon_release().
 */
typedef void cordon_audit_callback(void *user, const char *record, size_t len);
/* An id for cordon_audit_unsubscribe(), or -1. */
CORDON_API int cordon_audit_subscribe(struct cordon *ctx, cordon_audit_callback *callback, void *user, struct cordon_error *err);
/* When it returns the callback is not running, unless the callback itself has called it. */
CORDON_API void cordon_audit_unsubscribe(struct cordon *ctx, int id);
/*
 * The last records of this context, oldest first, a line each: at most `limit` (0: all) of those that are kept in memory (audit.max_entries of the policy that the
 * context was first used with). To be released with free().
 */
CORDON_API char *cordon_audit_recent(struct cordon *ctx, size_t limit, struct cordon_error *err);

#ifdef __cplusplus
}
#endif
#endif
