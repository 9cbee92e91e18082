/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sandbox is isolated. Every backend obeys the same policy and gives the same results; the library knows them only through this
 * table of functions.
 */
#ifndef CORDON_BACKEND_BACKEND_H
#define CORDON_BACKEND_BACKEND_H

#include <stdatomic.h>
#include <stddef.h>

#include "cordon.h"
#include "image/image.h"
#include "policy/policy.h"
#include "sandbox/spec.h"

/* A running sandbox as its backend sees it; plain data, owned by struct cordon_sandbox. */
struct backend_sandbox {
	char id[SPEC_ID_LEN + 1];
	int control;               /* socket to init */
	struct created_msg info;   /* which mechanism holds which limit */
	int fds[CREATED_FD_COUNT]; /* pidfd and usage descriptors, -1: none */
	int seed;                  /* the host directory that the workspace started from, -1: none */
	int image;                 /* holds the image that it runs on (image_hold()), -1: the host's */
	struct strlist image_env;  /* what that image wants to be set */
	bool ready;                /* set-up is known to have succeeded */
	bool parked;               /* set before start(): it is made ahead, and nothing watches it until unpark() */
	atomic_bool remounted;     /* its layers were exchanged since the last exec */
	struct airlock airlock;    /* the sockets that lead out of it, once it is ready */
	const char *authority; /* set before start(): a certificate that programs inside are to believe (PEM), the caller's; NULL: none */
	int trees[2];          /* /app and /home/user of one that was started with layers, as it sees them; -1: none */
};

/* The stacks of layers that a sandbox stands on (enum layered_item); no items: that tree stays as it is. */
struct backend_layers {
	struct string_list app, home;
	struct string_list root; /* with root: layered; only start() takes it */
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
	/* Asks for a sandbox; ready() waits until it is there or why not. layers: NULL for one whose trees go away with it. */
	int (*start)(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options,
	             const struct backend_layers *layers, struct backend_sandbox *out, struct cordon_error *err);
	/*
	 * Other layers for one that was started with some and in which nothing runs. Waits until they are there. Without any: what the policy denies is looked
	 * for in those that are there, which may have got other files; then commands may run.
	 */
	int (*relayer)(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *options,
	               const struct backend_layers *layers, struct backend_sandbox *s, struct cordon_error *err);
	/* Stops everything inside for a moment, or lets it go on. */
	int (*freeze)(struct cordon *ctx, struct backend_sandbox *s, bool frozen, struct cordon_error *err);
	int (*ready)(struct backend_sandbox *s, struct cordon_error *err);
	/* One that was made ahead is put to use: a command runs in it. Does not wait. */
	int (*unpark)(struct cordon *ctx, struct backend_sandbox *s, struct cordon_error *err);
	int (*exec)(struct backend_sandbox *s, const struct backend_exec *e, struct cordon_error *err);
	/* Gives init the socket by which the broker asks for sockets (sandbox/init_door.c), in place of an earlier one. Does not wait. */
	int (*door)(struct backend_sandbox *s, int sock, struct cordon_error *err);
	/* signo 0 ends the whole tree; sock is the library's end of the exec's socket. */
	int (*signal)(struct backend_sandbox *s, int sock, int signo, struct cordon_error *err);
	/* Ends whatever runs; what is needed to read results stays until release(). */
	void (*stop)(struct backend_sandbox *s);
	void (*release)(struct backend_sandbox *s);
};

extern const struct backend backend_process;

/* Whether a workspace of this (real, absolute) path is seen inside under that path, too, and not at /app only. */
bool backend_shows_at_own_path(const char *host);

/* By name; NULL and "auto" mean the first that works. NULL with err set if there is none. */
const struct backend *backend_find(const char *name, struct cordon_error *err);

#endif
