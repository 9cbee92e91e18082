/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `host` image: the host's own /usr (and /bin, /lib … where they are not links into it), a minimal /etc, private /proc and /dev,
 * as a list of set-up operations.
 */
#ifndef CORDON_BACKEND_IMAGE_HOST_H
#define CORDON_BACKEND_IMAGE_HOST_H

#include "cordon.h"
#include "policy/policy.h"
#include "sandbox/spec.h"

/* Operations, Landlock rules and mount lists under construction, with the strings they own. */
struct plan {
	struct setup_op *ops;
	uint32_t op_count, op_size;
	struct access_rule *rules;
	uint32_t rule_count, rule_size;
	void **kept; /* owned strings and arrays that ops and rules point to */
	uint32_t kept_count, kept_size;
	bool failed; /* out of memory */
};

void plan_free(struct plan *p);
struct setup_op *plan_op(struct plan *p, enum op_kind kind, const char *target, const char *source, uint32_t flags);
void plan_rule(struct plan *p, const char *path, uint32_t access);
/* Frees it with the plan; also right away, where there is no room to remember it. False then. */
bool plan_keep(struct plan *p, void *array);
/* A copy that lives as long as the plan. */
const char *plan_string(struct plan *p, const char *s);

struct plan_names {
	const char *hostname;
	const char *resolver; /* /etc/resolv.conf */
	uint32_t uid, gid;    /* of the user inside, for /etc/passwd */
};

/* Everything but workspace, mounts and files of the user. */
void image_host_plan(struct plan *p, const struct plan_names *names);

/*
 * After it, for a policy with secrets: those whom programs inside believe are the image's own and this one (a certificate, PEM). The file that most look at has it, and
 * POLICY_TRUST_INSIDE.
 */
int image_host_trust(struct plan *p, const char *certificate, struct cordon_error *err);

/* ---- what it shares with other images ---- */

/* Files of /etc that are about the sandbox itself. */
void plan_host_names(struct plan *p, const struct plan_names *names);
/* /dev, /proc, /tmp and the like, and their rules. */
void plan_trees(struct plan *p);
/* The certificate, and a bundle of it and all of a file (name; -1: none). */
int plan_trust(struct plan *p, int bundle, const char *name, const char *certificate, struct cordon_error *err);

#endif
