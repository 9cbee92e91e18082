/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attacks of `cordon selftest`: one small static program, cordon-attacks, that tries to get out of wherever it is started.
 *
 * Theory of operation
 *
 * The same program runs three times. As a decoy process it lays out, on the host, things worth stealing (decoy.c) and says where they are,
 * as KEY=VALUE coordinates. As a control it tries every attack outside a sandbox, where it must work: an attack that is broken, or that
 * this kernel does not know, must not count as one that was blocked. Then it tries all of them inside. Each attack runs in a process
 * of its own, so that a filter may kill it.
 *
 * A row of attack_list.h describes an attack; attack_table.c turns the rows into a table with functions, for this program, and harness.c
 * into one without, for `cordon selftest` itself.
 */
#ifndef CORDON_SELFTEST_ATTACK_H
#define CORDON_SELFTEST_ATTACK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* The protections that stop an attack. Where there is one only, the attack works as soon as that one is missing. */
enum stopped_by {
	BY_SECCOMP = 1 << 0,
	BY_LANDLOCK = 1 << 1,
	BY_USERNS = 1 << 2,
	BY_PIDNS = 1 << 3,
	BY_MNTNS = 1 << 4, /* the root file system of its own, read-only */
	BY_NETNS = 1 << 5,
	BY_IPCNS = 1 << 6,
	BY_UTSNS = 1 << 7,
	BY_CGROUPNS = 1 << 8,
	BY_CAPS = 1 << 9,
	BY_MASKS = 1 << 10,    /* entries of /proc that are hidden */
	BY_LIMITS = 1 << 11,   /* cgroups and rlimits */
	BY_NNP = 1 << 12,      /* no_new_privs and nosuid */
	BY_ENV = 1 << 13,      /* the environment by allow list */
	BY_FDS = 1 << 14,      /* close_range before exec, a working directory inside */
	BY_SESSION = 1 << 15,  /* setsid */
	BY_READONLY = 1 << 16, /* entries of /proc that are read-only; a build without masks lacks these, too */
	BY_INIT = 1 << 17,     /* pid 1 is not dumpable, and has capabilities that commands lack */
};

/* Where an attack is shown to work. */
enum control {
	CONTROL_HOST,   /* a plain process of the caller */
	CONTROL_ROOT,   /* the same, where the caller is root; else there is no control */
	CONTROL_USERNS, /* in new namespaces (user, mount, pid, network, IPC, UTS) with all capabilities there and the caller as root */
};

/* KEY=VALUE strings that say where the decoys are. */
struct decoys {
	char *const *items;
	int count;
};

/* 0: it worked (harm done, or a secret seen); else -errno. */
typedef int attack_fn(const struct decoys *d);

struct attack {
	const char *name;
	const char *what;
	unsigned stops; /* enum stopped_by */
	enum control control;
	const char *absent;     /* names of errnos with which the control may fail, since this host lacks what is attacked; "": none */
	const char *absent_why; /* what is lacking then */
	attack_fn *run;
};

extern const struct attack attack_table[];
extern const size_t attack_count;

#define ATTACK(function, ...) attack_fn attack_##function;
#include "selftest/attack_list.h"
#undef ATTACK

/* An "errno" above all real ones: the decoy that the attack is after could not be laid out. */
#define ENODECOY 200

/* Attacks that find nothing where something would be seen outside say so with this. */
#define ENOTSEEN ENODATA

/* ---- helpers, attack_util.c ---- */

/* The value of a key, NULL if there is none. */
const char *decoy_get(const struct decoys *d, const char *key);
/* The value as a number, fallback if there is none. */
long decoy_num(const struct decoys *d, const char *key, long fallback);
/* Whether a blank-separated list has this word. */
bool word_in(const char *list, const char *word);
/* "EPERM"; never NULL. */
const char *errno_name(int error);
/* Reads up to size-1 bytes, terminates them; the length or -errno. An empty file is -ENOTSEEN. */
int read_text(const char *path, char *buf, size_t size);
/* 0 if the file can be read and holds the token of the decoys. */
int read_token(const char *path, const struct decoys *d);
/* Opens, and writes the text unless it is NULL: 0 or -errno. */
int write_text(const char *path, const char *text);
/* A path below the place where attacks may make files: the decoys' drop directory outside, /tmp inside. */
const char *scratch_path(const struct decoys *d, const char *name, char *buf, size_t size);
/* Waits for a child: 0 if it exited with 0, else -errno as by its exit status. */
int child_result(int pid);

/* ---- the other parts of the program ---- */

/* Runs one attack in a process of its own (in a mount namespace of its own, if asked) and fills in what happened. */
struct outcome {
	bool worked;
	char detail[24]; /* the errno's or the signal's name; "" if it worked */
};
void attack_try(const struct attack *a, const struct decoys *d, bool own_mounts, struct outcome *out);
/* One line for each attack (or the one named): NAME TAB worked|failed|n/a TAB detail. */
void attacks_try_all(const char *only, const struct decoys *d);
void controls_try_all(const char *only, const struct decoys *d);
/* Lays out the decoys, prints their coordinates and "ready", serves until standard input ends, and removes them. */
int decoy_main(const char *marker, const char *token);
/* True if a text like /proc/self/cgroup names no cgroup but the roots of the hierarchies: nothing can be learnt from it. */
bool cgroups_all_root(const char *text);

#endif
