/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sandbox is isolated. Every backend obeys the same policy and gives the same results; the library knows them only through this
 * table of functions.
 */
#ifndef CORDON_BACKEND_BACKEND_H
#define CORDON_BACKEND_BACKEND_H

#include <stddef.h>

#include "cordon.h"
#include "policy/policy.h"
#include "sandbox/spec.h"

/* A running sandbox as its backend sees it; plain data, owned by struct cordon_sandbox. */
struct backend_sandbox {
	char id[SPEC_ID_LEN + 1];
	int control;               /* socket to init */
	struct created_msg info;   /* which mechanism holds which limit */
	int fds[CREATED_FD_COUNT]; /* pidfd and usage descriptors, -1: none */
	bool seeded;               /* the workspace started from a host directory */
	bool ready;                /* set-up is known to have succeeded */
};

/* The ends that init gets. The caller closes them afterwards. */
struct backend_exec {
	const struct exec_spec *spec;
	int sock;     /* the exec's own socket */
	int stdio[3]; /* -1 with a terminal */
};

struct backend {
	const char *name;
	/* 0 if it works on this host, else -1 and why. Cheap: no sandbox is made. */
	int (*probe)(struct cordon_error *err);
	/* Asks for a sandbox; ready() waits until it is there or why not. */
	int (*start)(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options,
	             struct backend_sandbox *out, struct cordon_error *err);
	int (*ready)(struct backend_sandbox *s, struct cordon_error *err);
	int (*exec)(struct backend_sandbox *s, const struct backend_exec *e, struct cordon_error *err);
	/* signo 0 ends the whole tree; sock is the library's end of the exec's socket. */
	int (*signal)(struct backend_sandbox *s, int sock, int signo, struct cordon_error *err);
	/* Ends whatever runs; what is needed to read results stays until release(). */
	void (*stop)(struct backend_sandbox *s);
	void (*release)(struct backend_sandbox *s);
};

extern const struct backend backend_process;

/* By name; NULL and "auto" mean the first that works. NULL with err set if there is none. */
const struct backend *backend_find(const char *name, struct cordon_error *err);

#endif
