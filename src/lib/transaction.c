/* SPDX-License-Identifier: Apache-2.0 */
/* An exec as a transaction: what happens to its layer when it is over, and what the result says about it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/util.h"
#include "layers/owners.h"
#include "lib/egress.h"
#include "lib/exec.h"

#define MAX_LISTED 1000

/* A line for the history. */
static char *command_line(const char *const *argv)
{
	struct buf b = {.cap = 4096};
	for (size_t i = 0; argv && argv[i]; i++)
		buf_addf(&b, "%s%.1000s", i ? " " : "", argv[i]);
	char *text = b.failed ? NULL : buf_steal(&b);
	buf_free(&b);
	return text;
}

/* Starts a sandbox that stays, when its first exec comes. */
static int start_live(struct cordon_sandbox *s, struct cordon_error *err)
{
	if (s->started && s->live->lost && s->live->running == 0)
		sandbox_halt(s); /* what it shows is not what it should */
	if (s->started)
		return 0;
	/* what was written into layers that could not be mounted again is as good as before; without room for it nothing is started */
	if (s->live->box.open[0] && !s->live->box.copy && live_stop(s->live, err) < 0)
		return -1;
	if (egress_authority(s, &s->state.authority, err) < 0)
		return -1;
	if (live_start(s->live, s->ctx, s->backend, &s->policy, &s->state, err) < 0)
		return -1;
	s->started = true;
	return 0;
}

int exec_transaction_begin(struct cordon_exec *e, const char *const *argv, struct cordon_error *err)
{
	struct cordon_sandbox *s = e->sandbox;
	const bool own = !(e->flags & CORDON_EXEC_PARALLEL);
	e->result.transaction.changes_total = -1;
	e->command = command_line(argv);
	if (!s->live)
		return 0;
	pthread_mutex_lock(&s->lock);
	int r = own && s->alone ? err_set(err, CORDON_ERR_BUSY, "another exec has its transaction in this sandbox") : 0;
	if (r == 0 && s->frozen)
		r = err_set(err, CORDON_ERR_BUSY, "the sandbox is paused");
	if (r == 0)
		r = start_live(s, err);
	if (r == 0)
		r = live_exec_begin(s->live, own, &e->tx, err);
	if (r == 0) {
		e->begun = true;
		if (own)
			s->alone = e;
	}
	pthread_mutex_unlock(&s->lock);
	if (r == 0 && s->state.ready)
		e->oom_before = result_oom_kills(&s->state);
	return r;
}

bool exec_succeeded(const struct cordon_exec *e)
{
	const struct cordon_result *r = &e->result;
	if (!e->done || !r->reason)
		return e->done;
	return strcmp(r->reason, "exit") == 0 && (e->ok[r->exit_code / 8 % sizeof(e->ok)] >> r->exit_code % 8 & 1);
}

bool exec_keeps(const struct cordon_exec *e)
{
	if (!e->done)
		return false;
	if (exec_succeeded(e))
		return e->denials.total == 0 || e->on_denial == TX_KEEP;
	return (strcmp(e->result.reason, "exit") == 0 ? e->on_exit : e->on_abort) == TX_KEEP;
}

static int list_changes(struct cordon_exec *e, const struct changes *c, struct cordon_error *err)
{
	struct cordon_transaction *t = &e->result.transaction;
	e->listed = calloc(MIN(c->count, (size_t)MAX_LISTED) + 1, sizeof(*e->listed));
	if (!e->listed)
		return err_sys(err, "cannot list the changes");
	t->changes_total = 0;
	for (size_t i = 0; i < c->count; i++) {
		if (c->items[i].op == CHANGE_TIME) /* a commit cares, people do not */
			continue;
		if (t->changes_total++ < MAX_LISTED)
			e->listed[t->change_count++] =
				(struct cordon_change){change_op_names[c->items[i].op], c->items[i].path, c->items[i].bytes};
	}
	t->changes = e->listed;
	return 0;
}

int scratch_views(struct cordon_sandbox *sandbox, struct view *before, struct view *after, struct cordon_error *err)
{
	const struct backend_sandbox *s = &sandbox->state;
	if (sandbox->copy)
		return live_scratch_views(sandbox->copy, before, after, err);
	_cleanup_fd_ int upper = openat(s->fds[CREATED_SCRATCH], "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const int fds[] = {upper, s->seed};
	if (upper < 0)
		return err_sys(err, "cannot open what the command has written");
	return view_from(fds, 2, true, after, err) < 0 || view_from(fds + 1, 1, true, before, err) < 0 ? -1 : 0;
}

/* What somebody who was root inside gave to others, in the workspace. */
static int give_back(const struct backend_sandbox *s, struct cordon_error *err)
{
	struct stat st;
	if (fstat(s->seed, &st) < 0)
		return err_sys(err, "cannot look at the workspace");
	return tree_give_back(s->fds[CREATED_SCRATCH], "upper", st.st_uid, st.st_gid, err);
}

/* One that does not stay: its upper over the seed, both still there. */
static int changes_of_scratch(struct cordon_exec *e, struct cordon_error *err)
{
	const struct backend_sandbox *s = &e->sandbox->state;
	_cleanup_view_ struct view before = {0}, after = {0};
	if (s->fds[CREATED_SCRATCH] < 0 || s->seed < 0)
		return 0;
	if (!e->sandbox->copy && tree_is_empty(s->fds[CREATED_SCRATCH], "upper")) {
		e->result.transaction.changes_total = 0;
		return 0;
	}
	if (e->sandbox->policy.root == ROOT_LAYERED && geteuid() == 0 && give_back(s, err) < 0)
		return -1;
	if (scratch_views(e->sandbox, &before, &after, err) < 0 ||
	    changes_between_with(&before, &after, CHANGES_FILE_TIMES, &e->changes, err) < 0)
		return -1;
	return list_changes(e, &e->changes, err);
}

static bool disk_is_full(const struct cordon_error *why)
{
	return why->sys_errno == ENOSPC || why->sys_errno == EDQUOT;
}

/*
 * Beside services a transaction can fail for reasons that a command brings about (an ordinary user's command makes a file unreadable to its owner, say). Then the
 * services have to go: with nothing running inside, keeping and undoing need no file to be read.
 */
static int end_without_services(struct cordon_exec *e, const struct cordon_error *why)
{
	struct cordon_sandbox *s = e->sandbox;
	sandbox_halt(s);
	if (live_exec_end_stopped(s->live, &e->tx, !exec_succeeded(e), exec_keeps(e), e->command, e->done ? e->result.exit_code : -1,
	                          NULL) < 0)
		return -1;
	snprintf(e->error_text, sizeof(e->error_text), "services were ended: %.200s", why->message);
	if (!e->result.error)
		e->result.error = e->error_text;
	return 0;
}

/* For a command that was to be undone that is what was asked for, but it leaves nothing to look at; for any other it is a failure. */
static int tell_undone(struct cordon_exec *e, const struct cordon_error *why, struct cordon_error *err)
{
	if (!exec_keeps(e)) {
		snprintf(e->error_text, sizeof(e->error_text), "its changes were undone, and could not be set aside: %.180s", why->message);
		if (!e->result.error)
			e->result.error = e->error_text;
		return 0;
	}
	err_set(err, CORDON_ERR_SYSTEM, "its changes were undone, since they could not be kept: %s", why->message);
	if (err)
		err->sys_errno = why->sys_errno;
	return disk_is_full(why) ? err_hint(err, "make room in %s, and run it again", e->sandbox->live->store.home) : -1;
}

/* Neither kept nor undone, and why. A full disk is no reason to end services, unless there is not even room to put files back beside them. */
static int end_otherwise(struct cordon_exec *e, const struct cordon_error *why, struct cordon_error *err)
{
	struct cordon_sandbox *s = e->sandbox;
	if (s->live->running && s->started && !disk_is_full(why) && end_without_services(e, why) == 0)
		return 0;
	int r = live_exec_undo(s->live, &e->tx, NULL);
	if (r < 0 && s->started) {
		sandbox_halt(s);
		r = live_exec_undo(s->live, &e->tx, err);
	}
	return r < 0 ? -1 : tell_undone(e, why, err);
}

/* What failed is kept to be looked at, but not if it is the reason why nothing else can be written. */
static void spare_the_disk(struct live *l, uint64_t bytes)
{
	struct statvfs disk;
	if (fstatvfs(l->store.layers_fd, &disk) == 0 && bytes > (uint64_t)disk.f_bavail * disk.f_frsize)
		store_collect(&l->store, INT64_MAX, NULL);
}

void exec_prepare_end(struct cordon_exec *e)
{
	if (!e->sandbox->live || !e->tx.own)
		return;
	pthread_mutex_lock(&e->sandbox->lock);
	live_prepare(e->sandbox->live);
	pthread_mutex_unlock(&e->sandbox->lock);
}

int exec_transaction_end(struct cordon_exec *e, struct cordon_error *err)
{
	struct cordon_error why = {0};
	struct cordon_sandbox *s = e->sandbox;
	struct cordon_transaction *t = &e->result.transaction;
	if (!s->live)
		return e->done ? changes_of_scratch(e, err) : 0;
	if (!e->begun)
		return 0;
	e->begun = false;
	pthread_mutex_lock(&s->lock);
	const uint64_t used = s->live->used;
	/* ended with all that ran in it, by a limit for instance: there is nothing to mount another layer in; nor can a root be exchanged */
	if (e->lost || (live_layered(s->live) && s->started && !live_open_is_empty(s->live)))
		sandbox_halt(s);
	/* one that is given up while it runs: what it did so far is undone once it is dead, which closing its socket brings about */
	int r = live_exec_end(s->live, &e->tx, !exec_succeeded(e), exec_keeps(e), e->command, e->done ? e->result.exit_code : -1, &why);
	if (r < 0)
		r = end_otherwise(e, &why, err);
	else if (e->tx.outcome == OUTCOME_ROLLED_BACK)
		spare_the_disk(s->live, s->live->used - used);
	if (s->alone == e)
		s->alone = NULL;
	pthread_mutex_unlock(&s->lock);
	t->outcome = live_outcome_names[e->tx.outcome];
	memcpy(t->before, e->tx.before, sizeof(e->tx.before));
	memcpy(t->after, e->tx.after, sizeof(e->tx.after));
	return r < 0 ? -1 : list_changes(e, &e->tx.changes, err);
}
