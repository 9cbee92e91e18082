/* SPDX-License-Identifier: Apache-2.0 */
/* An exec as a transaction: what happens to its layer when it is over, and what the result says about it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/util.h"
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
	if (s->started)
		return 0;
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
	if (!s->live)
		return 0;
	e->command = command_line(argv);
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
	if (!e->done || exec_succeeded(e))
		return e->done;
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

/* One that does not stay: its upper over the seed, both still there. */
static int changes_of_scratch(struct cordon_exec *e, struct cordon_error *err)
{
	const struct backend_sandbox *s = &e->sandbox->state;
	_cleanup_view_ struct view before = {0}, after = {0};
	if (s->fds[CREATED_SCRATCH] < 0 || s->seed < 0)
		return 0;
	_cleanup_fd_ int upper = openat(s->fds[CREATED_SCRATCH], "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const int fds[] = {upper, s->seed};
	if (upper < 0 || tree_is_empty(s->fds[CREATED_SCRATCH], "upper")) {
		e->result.transaction.changes_total = upper < 0 ? -1 : 0;
		return 0;
	}
	if (view_from(fds, 2, true, &after, err) < 0 || view_from(fds + 1, 1, true, &before, err) < 0 ||
	    changes_between_with(&before, &after, CHANGES_FILE_TIMES, &e->changes, err) < 0)
		return -1;
	return list_changes(e, &e->changes, err);
}

/*
 * Beside services a transaction can fail for reasons that a command brings about (an ordinary user's command makes a file unreadable to its owner, say). Then the
 * services have to go: with nothing running inside, keeping and undoing need no file to be read.
 */
static int end_without_services(struct cordon_exec *e, const struct cordon_error *why, struct cordon_error *err)
{
	struct cordon_sandbox *s = e->sandbox;
	sandbox_halt(s);
	if (live_exec_end_stopped(s->live, &e->tx, !exec_succeeded(e), exec_keeps(e), e->command, e->done ? e->result.exit_code : -1, err) <
	    0)
		return -1;
	snprintf(e->error_text, sizeof(e->error_text), "services were ended: %.200s", why->message);
	if (!e->result.error)
		e->result.error = e->error_text;
	return 0;
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
	/* one that is given up while it runs: what it did so far is undone once it is dead, which closing its socket brings about */
	int r = live_exec_end(s->live, &e->tx, !exec_succeeded(e), exec_keeps(e), e->command, e->done ? e->result.exit_code : -1, &why);
	if (r < 0 && e->tx.own && s->live->running && s->started)
		r = end_without_services(e, &why, err);
	else if (r < 0 && err)
		*err = why;
	if (s->alone == e)
		s->alone = NULL;
	pthread_mutex_unlock(&s->lock);
	t->outcome = live_outcome_names[e->tx.outcome];
	memcpy(t->before, e->tx.before, sizeof(e->tx.before));
	memcpy(t->after, e->tx.after, sizeof(e->tx.after));
	return r < 0 ? -1 : list_changes(e, &e->tx.changes, err);
}
