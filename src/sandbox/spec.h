/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library asks of the launcher and of init, as plain structures, and their encoding.
 *
 * A sandbox's file system is a list of set-up operations, executed in order in the new namespaces: the backend turns policy and image
 * into such a list, the launcher knows nothing of either.
 */
#ifndef CORDON_SANDBOX_SPEC_H
#define CORDON_SANDBOX_SPEC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/airlock.h"
#include "sandbox/wire.h"

enum op_kind {
	OP_DIR = 1,  /* a directory on the root tmpfs */
	OP_SYMLINK,  /* target → source */
	OP_FILE,     /* a file with `data` */
	OP_BIND,     /* a host path, read-only unless OP_WRITABLE */
	OP_DEVICE,   /* a character device of the host (source), verified to be one */
	OP_SCRATCH,  /* directory `source` of the sandbox's scratch directory, writable */
	OP_VOLATILE, /* a directory of the root tmpfs, made writable */
	OP_LAYERED,  /* a stack of layers (struct setup_op.layers), the seed directory `source` at the bottom if there is one */
	OP_ALIAS,    /* the mount at `source` (a path inside) once more */
	OP_COVER,    /* the file at `source` (a path inside) over the one at target, read-only */
	OP_PROC,
	OP_DEVPTS,
	OP_MASK,     /* hides a file or directory */
	OP_READONLY, /* makes what is at target read-only */
	OP_COPY,     /* a small file of the host (source), copied */
	OP_HIDE,     /* masks what setup_op.find finds below target */
	OP_EXEC,     /* what setup_op.find finds below target, a tree without programs, may be run */
	OP_ROOT, /* first: from here on the root is an image (struct setup_op.layers, enum root_item), and layers on it if there are any (over) */
	OP_LINES, /* puts the lines of `data` in front of those of a file, and takes out those that begin with the same name ("user:") */
	OP_INBOX, /* a directory that is read-only inside, and that init can put files into (inbox.h) */
	OP_KIND_COUNT,
};

enum op_flags {
	OP_OPTIONAL = 1 << 0, /* skip if the source (or the target, for masks) does not exist */
	OP_WRITABLE = 1 << 1,
	OP_NOEXEC = 1 << 2,
	OP_CHECKED = 1 << 3, /* the user named this path: apply the mount rules (D2) */
	OP_OWNED = 1 << 4,   /* belongs to the sandbox's user */
	OP_CAREFUL = 1 << 5, /* the user named the target: no symbolic link on the way is followed */
	OP_DOTS = 1 << 6,    /* OP_HIDE: also every name that begins with a dot */
	OP_ALONE = 1 << 7,   /* OP_READONLY: the mount at target itself, not those below it */
	OP_FLAGS_ALL = (1 << 8) - 1,
};

struct string_list {
	const char **items;
	uint32_t count;
};

/*
 * The items of setup_op.layers; all but the first are relative to it. With one layer and no seed, the upper is all there is, and is bound. And where the
 * working directory is the upper itself there is no overlay, whatever the seed (which is held against the rules all the same): the upper is a plain
 * tree, a full copy. Where mounts cannot be idmapped, it belongs to the sandbox's own ids on disk: its top is given to them.
 */
enum layered_item {
	LAYERED_STAGE, /* the host directory that holds the layers; "": the sandbox's own scratch directory */
	LAYERED_UPPER, /* the layer that is written */
	LAYERED_WORK,  /* overlayfs' own directory beside it */
	LAYERED_LOWER, /* this and the following: sealed layers, topmost first */
};

/* The items of setup_op.layers of OP_ROOT. */
enum root_item {
	ROOT_STAGE, /* the host directory that holds the image's layers */
	ROOT_LAYER, /* this and the following: directories below it, topmost first */
};

/* sys_errno of an error that says: layers cannot be mounted there (overlayfs or an idmapped mount was refused), a plain tree could be. */
#define LAYERED_REFUSED EMEDIUMTYPE

/* What to look for in a tree as it is then (expand.h); `source` of the operation is the path under which the target is known. */
struct op_find {
	struct string_list patterns; /* absolute (policy/cover.h) */
	struct string_list keep;     /* with OP_DOTS: patterns that spell out which names with a dot may be seen */
	struct string_list skip;     /* paths that are not entered */
};

struct setup_op {
	enum op_kind kind;
	uint32_t flags;
	uint32_t mode;
	const char *target; /* relative to the new root, without a leading slash */
	const char *source;
	const void *data;
	size_t data_len;
	struct string_list layers; /* OP_LAYERED and OP_ROOT only */
	struct string_list over;   /* OP_ROOT only: layers on the image, as OP_LAYERED has them; none: the root cannot be written */
	struct op_find find;       /* OP_HIDE and OP_EXEC only */
};

struct device_number { /* the data of OP_DEVICE: what the device must be */
	uint32_t major, minor;
};

struct access_rule { /* a Landlock rule; access is that of struct landlock_rule */
	const char *path;
	uint32_t access;
	const char *pattern; /* not the path itself, but what below it has this pattern when the rules are made; NULL: the path itself */
};

enum spec_flags {
	SPEC_STRICT = 1 << 0, /* refuse limits that can only be held in a weaker form */
	SPEC_ALLOW_WEAK_LANDLOCK = 1 << 1,
	SPEC_LIVE = 1 << 2,          /* its layers will be exchanged while it lives (WIRE_RELAYER) */
	SPEC_LISTED = 1 << 3,        /* the policy lists which programs run: none may be made up in memory */
	SPEC_NO_NATIVE = 1 << 4,     /* no native code but what the image holds */
	SPEC_NO_SUBPROCESS = 1 << 5, /* one process, one program */
	SPEC_PERMITS = 1 << 6,       /* the rules say more than the mounts: without Landlock nothing holds them */
	SPEC_NO_LOOPBACK = 1 << 7,   /* not even the sandbox's own */
	SPEC_PARKED = 1 << 8,        /* made ahead: who will use it, and when, is not known yet */
	SPEC_ROOT = 1 << 9,          /* commands are root of the sandbox's own user namespace, with what package managers need of that */
};

/* Protections that a build with -Dtest_hooks=true can switch off, one at a time, to prove that the tests notice. */
enum weaken {
	WEAKEN_SECCOMP = 1 << 0,
	WEAKEN_LANDLOCK = 1 << 1,
	WEAKEN_USERNS = 1 << 2,
	WEAKEN_PIDNS = 1 << 3,
	WEAKEN_MNTNS = 1 << 4,
	WEAKEN_NETNS = 1 << 5,
	WEAKEN_IPCNS = 1 << 6,
	WEAKEN_UTSNS = 1 << 7,
	WEAKEN_CGROUPNS = 1 << 8,
	WEAKEN_CAPS = 1 << 9,
	WEAKEN_MASKS = 1 << 10,
};

#define SPEC_ID_LEN 20

struct sandbox_spec {
	const char *id;
	const char *hostname;
	const char *home;         /* $CORDON_HOME: scratch directories are made below it */
	const char *limits_force; /* CORDON_LIMITS, NULL: the best there is */
	uint32_t flags;
	uint32_t weaken;
	uint32_t uid, gid; /* inside; UINT32_MAX: 1000 where ids can be chosen, else the caller's own */
	uint64_t memory, pids, cpus_milli, disk;
	struct airlock_spec airlock; /* no ports: there is no way out */
	struct setup_op *ops;
	uint32_t op_count;
	struct access_rule *rules;
	uint32_t rule_count;
	struct string_list forbid, read, write; /* D2: host paths */
};

/* A file for a command, written by init before it starts (inbox.h). */
struct code_file {
	const char *path; /* below the inbox; one directory at most, which is made */
	uint32_t mode;
	const void *data;
	size_t len;
};

struct exec_spec {
	uint32_t tty;
	uint32_t parked;    /* an interpreter that is started before it is known what for (init_parked.c) */
	uint32_t more;      /* there will be others after it */
	uint32_t remounted; /* layers were exchanged since the last one: Landlock's rules have to be made anew */
	uint32_t tracked;   /* other execs live beside it: its processes are told apart from theirs (reaper.h) */
	uint32_t rows, cols;
	uint64_t timeout_ms; /* 0: none */
	uint64_t files;      /* RLIMIT_NOFILE */
	const char *cwd;
	struct string_list argv; /* items are NULL-terminated after decoding */
	struct string_list env;
	struct code_file *code;
	uint32_t code_count;
};

/* What a parked interpreter was started for: WIRE_GO. */
struct go_spec {
	uint32_t more;       /* as in exec_spec */
	uint64_t timeout_ms; /* from now; 0: none */
	const char *cwd;
	const void *payload; /* for the interpreter's hook, as it is (lib/zygote.h) */
	size_t payload_len;
	struct code_file *code;
	uint32_t code_count;
};
#define GO_PAYLOAD_MAX ((size_t)64 << 10)

/* Which mechanism holds which limit: enum limit_method. */
struct created_msg {
	uint32_t memory_by, pids_by, cpu_by;
	uint32_t weak_landlock;
	uint32_t uid, gid; /* inside */
	uint32_t fd_mask;  /* bit i: descriptor i of enum created_fd was sent */
};
enum created_fd { CREATED_PIDFD, CREATED_MEMORY, CREATED_OOM, CREATED_PIDS, CREATED_CPU, CREATED_WATCH, CREATED_SCRATCH, CREATED_FD_COUNT };

struct exited_msg {
	int32_t status; /* as from wait4(2) */
	uint32_t timed_out, cancelled;
	uint64_t cpu_us;
	uint64_t duration_us; /* from just before the command was started until everything was reaped */
	uint64_t maxrss_kb;
};

struct freeze_msg {
	char id[SPEC_ID_LEN + 1];
	uint8_t frozen;
};

/* Lists in a body. What is got points into the body, its array is to be freed, also after a fault, and ends with a NULL that is not counted: argv and envp can be
 * handed to execve(2). */
void string_list_put(struct buf *b, const struct string_list *l);
void string_list_get(struct wire_reader *r, struct string_list *l);

void sandbox_spec_encode(const struct sandbox_spec *s, struct buf *b);
/* Points into the message's body; arrays are allocated, release with sandbox_spec_free(). Checks kinds, flags, counts and that no target leaves the root. */
int sandbox_spec_decode(const void *body, size_t len, struct sandbox_spec *out, struct cordon_error *err);
void sandbox_spec_free(struct sandbox_spec *s);

void exec_spec_encode(const struct exec_spec *s, struct buf *b);
int exec_spec_decode(const void *body, size_t len, struct exec_spec *out, struct cordon_error *err);
void exec_spec_free(struct exec_spec *s);

void go_spec_encode(const struct go_spec *s, struct buf *b);
int go_spec_decode(const void *body, size_t len, struct go_spec *out, struct cordon_error *err);
void go_spec_free(struct go_spec *s);

void error_encode(const struct cordon_error *e, struct buf *b);
int error_decode(const void *body, size_t len, struct cordon_error *out);

/* Fixed-size messages are copied as they are: both sides are one build (the launcher is embedded in the library). */
int fixed_decode(const void *body, size_t len, void *out, size_t size, struct cordon_error *err);

#endif
