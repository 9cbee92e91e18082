/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `cordon doctor`. Wherever possible a thing is tried, in the way a sandbox uses it, and not looked up: version numbers and
 * sysctls say little about what a container engine's filter or a security module lets through.
 */
#ifndef CORDON_CMD_DOCTOR_H
#define CORDON_CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/idmap.h"
#include "sandbox/limits.h"

enum check_status { CHECK_YES, CHECK_WEAKER, CHECK_NO, CHECK_INFO, CHECK_STATUS_COUNT };

struct finding {
	enum check_status status;
	bool everywhere; /* weaker on every host, since this version of cordon has nothing better: no fault of the host's */
	char by[64];     /* the mechanism; may be empty */
	char detail[256];
	char fix[320]; /* the command that gets what is missing; may be empty */
};

/* What the checks share. */
struct doctor {
	struct cordon *ctx; /* NULL: see ctx_error */
	struct cordon_error ctx_error;
	struct idmap_pool ids;
	struct cordon_error ids_error;
	struct limits_host limits;
	struct cordon_error limits_error;
	bool limits_known;
	bool why_said;   /* the reason for weaker limits was told once */
	bool namespaces; /* user namespaces work: the others can be tried */
	bool home;       /* the state directory can be used */
	bool sandboxes;  /* a sandbox started, and took sandbox_ms; or see sandbox_error */
	double sandbox_ms;
	struct cordon_error sandbox_error;
	const char *disk_by; /* as a sandbox reported it */
};

struct check {
	const char *group; /* starts a new heading; NULL: under the one above */
	const char *name;
	void (*probe)(struct doctor *d, const struct check *check, struct finding *f);
	uint64_t flag; /* for the probe */
	const char *about;
};

extern const struct check doctor_kernel_checks[];  /* doctor_checks.c: what the kernel offers; ends with a row without name */
extern const struct check doctor_network_checks[]; /* doctor_network.c: the way out; likewise */
extern const struct check doctor_host_checks[];    /* doctor_host.c: limits, files, and sandboxes as a whole; likewise */

void doctor_open(struct doctor *d);
void doctor_close(struct doctor *d);

/* A command that does nothing, in a sandbox of its own, under the default policy with this on top. 0 if it succeeded. */
int doctor_run_with(struct doctor *d, const char *key, const char *value, struct cordon_error *err);

void found(struct finding *f, enum check_status status, const char *by, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void found_fix(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
