/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library writes into the audit (audit/audit.h), and when.
 *
 * A command's start is written before anything of it runs, and its end, with all that it did, is committed before its result is handed out: nothing runs
 * unrecorded, and no reported result is lost, whoever is killed. With audit.sync: result it is also on the disk by then, unless nothing of the command outlives it: no
 * sandbox that stays, no workspace, no writable mount. Where a record cannot be written (a full disk, above all) the command does not start, or its result is an
 * error. What is done to a sandbox's tree (snapshot, restore, commit …) is recorded when it is done, before it is reported.
 */
#ifndef CORDON_LIB_EVENTS_H
#define CORDON_LIB_EVENTS_H

#include "audit/audit.h"
#include "lib/exec.h"

/* The context's log, opened at its first use. Any thread. */
struct audit *events_log(struct cordon *ctx, const struct cordon_policy *policy, struct cordon_error *err);

/* A command is about to start. */
int events_exec_start(struct cordon_exec *e, const struct cordon_exec_options *o, struct cordon_error *err);
/* It could not be started. Where the policy is the reason, *why says so from then on. */
void events_exec_failed(struct cordon_exec *e, const char *program, struct cordon_error *why);
/* It is over: the result and the transaction are filled in. */
int events_exec_end(struct cordon_exec *e, struct cordon_error *err);

struct trace_event;
/* Something about a program that was started inside (sandbox/trace.h). What cannot be recorded is told at the end. */
void events_traced(struct cordon_exec *e, const struct trace_event *t);

/* A policy, a rule or a missing right refused something before it ran. */
int events_refused(struct cordon *ctx, const struct cordon_policy *policy, const struct audit_event *event, struct cordon_error *err);

/* A commit to the host's directory; refused: nothing was written. */
int events_commit(const char *home, const char *sandbox, const char *directory, bool refused, const struct commit_report *report,
                  struct cordon_error *err);

/* One record about a sandbox's tree, in a log that is opened for it. detail may be NULL. */
int events_tree(const char *home, const char *sandbox, const char *action, const char *target, const struct audit_field *detail,
                struct cordon_error *err);

#endif
