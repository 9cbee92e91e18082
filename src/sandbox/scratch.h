/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories on disk that a sandbox writes to and that go with it: one of its own below $CORDON_HOME, named by the launcher's stamp (owner.h), with one in it for each
 * tree that some operation asks for. What a sandbox left as it was is not removed but kept for the next one, by the launcher and, when that ends, in a stock: to make and to
 * remove a directory is most of what a small sandbox costs a file system, and ext4 takes longer for it, the more were removed of late. Whether one is as it was is told by its change time,
 * which no program can set back; so nothing is kept where the kernel's clock for that is too coarse to tell two changes apart, which is tried first.
 */
#ifndef CORDON_SANDBOX_SCRATCH_H
#define CORDON_SANDBOX_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/idmap.h"
#include "sandbox/spec.h"

/* Those that a whole tree may be written to go to a place of their own, see fs_spread(); it is worth its cost for those only. */
enum scratch_place { SCRATCH_SMALL, SCRATCH_LAYERS, SCRATCH_PLACES };

#define SCRATCH_TREES 2   /* "app" and "home": those with both and nothing else are kept */
#define SCRATCH_SPARES 64 /* by a launcher, and in the stock */
#define SCRATCH_NAME_MAX 96

/* One sandbox's. */
struct scratch {
	enum scratch_place place;
	char name[SCRATCH_NAME_MAX]; /* below that place; "": there is none */
	int fd;
	bool common;                     /* it has the usual trees and is kept if it is left as it was */
	struct stat made[SCRATCH_TREES]; /* as we left them */
	int removals;                    /* attempts at removing it so far */
	pid_t remover;                   /* a process that is at it */
};

/* All of a launcher's. */
struct scratch_host {
	char *home;              /* the $CORDON_HOME that fds belong to */
	int fds[SCRATCH_PLACES]; /* -1: not opened yet */
	bool swept;              /* leftovers of dead launchers below it were looked for */
	bool tried, tells;       /* change times of SCRATCH_SMALL tell everything; that was tried */
	unsigned long serial;
	struct scratch spares[SCRATCH_SPARES];
	unsigned spare_count;
	int stock_fd;                                 /* -1: none */
	char stock[SCRATCH_SPARES][SCRATCH_NAME_MAX]; /* what was in there at the start; others may take it */
	unsigned stock_count;
};

#define SCRATCH_HOST ((struct scratch_host){.fds = {-1, -1}, .stock_fd = -1})

/* Of what the spec asks for. */
enum scratch_place scratch_choose(const struct sandbox_spec *spec);
/* What the operation writes to on disk, NULL: nothing in layers. */
const struct string_list *scratch_layers(const struct setup_op *op);

/* From now on below this $CORDON_HOME, which is made if need be. */
int scratch_open(struct scratch_host *h, const char *home, enum scratch_place place, struct cordon_error *err);
/* For the next one: a name, or what was kept and is its own now. */
void scratch_take(struct scratch_host *h, const char *stamp, const struct sandbox_spec *spec, const struct idmap *ids, struct scratch *out);
/* Its path; -1: too long. */
int scratch_path(const struct scratch_host *h, const struct scratch *s, char path[static 4096]);
/* Makes what is not there yet. */
int scratch_make(struct scratch_host *h, const struct sandbox_spec *spec, const struct idmap *ids, struct scratch *s,
                 struct cordon_error *err);

/* One attempt, when nothing of the sandbox is left; true: there is nothing more to do. Large trees are removed by a child process. */
bool scratch_remove(struct scratch_host *h, struct scratch *s);

/* At a launcher's end: what it kept goes to the stock, leftovers of dead launchers go. */
void scratch_sweep(struct scratch_host *h);

#endif
