/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/ops.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

void op_request_free(struct op_request *r)
{
	strlist_free(&r->args);
	*r = (struct op_request){0};
}

void op_reply_free(struct op_reply *r)
{
	strlist_free(&r->items);
	*r = (struct op_reply){0};
}

/* What follows "key " in an item; NULL: another key. */
static const char *after_key(const char *item, const char *key)
{
	size_t len = strlen(key);

	return strncmp(item, key, len) == 0 && item[len] == ' ' ? item + len + 1 : NULL;
}

const char *op_reply_get(const struct op_reply *r, const char *key)
{
	for (size_t i = 0; i < r->items.count; i++) {
		const char *value = after_key(r->items.items[i], key);

		if (value)
			return value;
	}
	return NULL;
}

__attribute__((format(printf, 3, 4))) static int answer(struct op_reply *reply, struct cordon_error *err, const char *fmt, ...)
{
	_cleanup_free_ char *item = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&item, fmt, args) < 0)
		item = NULL;
	va_end(args);
	return item ? strlist_add(&reply->items, item, err) : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

/* NULL where it is missing or empty: the library's way to say that there is none. */
static const char *argument(const struct op_request *r, size_t i)
{
	return i < r->args.count && r->args.items[i][0] ? r->args.items[i] : NULL;
}

/* ---- the tree ---------------------------------------------------------------------------------------------------------------- */

static int run_snapshot(struct live *l, const struct op_request *r, struct op_reply *reply, struct cordon_error *err)
{
	char id[LAYER_ID_LEN + 1];

	if (live_snapshot(l, argument(r, 0), argument(r, 1), id, err) < 0)
		return -1;
	return answer(reply, err, "id %s", id);
}

static int run_restore(struct live *l, const struct op_request *r, struct op_reply *reply, struct cordon_error *err)
{
	char layer[LAYER_ID_LEN + 1];

	if (!argument(r, 0))
		return err_set(err, CORDON_ERR_INPUT, "no snapshot given");
	if (box_find_layer(&l->store, &l->box, argument(r, 0), layer, err) < 0 || live_restore(l, layer, err) < 0)
		return -1;
	return answer(reply, err, "id %s", layer);
}

static int run_fork(struct live *l, const struct op_request *r, struct op_reply *reply, struct cordon_error *err)
{
	char layer[LAYER_ID_LEN + 1], id[LAYER_ID_LEN + 1];
	const char *snapshot = argument(r, 0);

	if (snapshot && box_find_layer(&l->store, &l->box, snapshot, layer, err) < 0)
		return -1;
	if (live_fork(l, snapshot ? layer : NULL, argument(r, 1), id, err) < 0)
		return -1;
	return answer(reply, err, "id %s", id);
}

static int run_tx(struct live *l, const struct op_request *r, struct op_reply *reply, struct cordon_error *err)
{
	int done = r->verb == OP_TX_BEGIN    ? live_tx_begin(l, err)
	           : r->verb == OP_TX_COMMIT ? live_tx_commit(l, err)
	                                     : live_tx_rollback(l, err);

	return done < 0 ? -1 : answer(reply, err, "depth %zu", l->box.tx.count);
}

static int run_discard(struct live *l, const struct op_request *r, struct op_reply *reply, struct cordon_error *err)
{
	_cleanup_view_ struct view before = {0}, after = {0};
	struct changes changes = {0};
	int done = live_compare(l, "", NULL, &before, &after, &changes, err);
	size_t count = changes.count;
	char head[sizeof(l->box.head)] = "";

	(void)r;
	changes_free(&changes);
	/* what the open layer holds gets a layer of its own on the way, whose name only the history knows */
	if (!l->box.open[0] || live_open_is_empty(l))
		memcpy(head, l->box.head, sizeof(head));
	if (done < 0 || live_discard(l, err) < 0 || answer(reply, err, "changes %zu", count) < 0)
		return -1;
	return head[0] ? answer(reply, err, "before %s", head) : 0;
}

/* ---- commit ------------------------------------------------------------------------------------------------------------------ */

/* The arguments with this key, as the library takes them: NULL where there are none. The strings stay the request's. */
static int select_paths(const struct op_request *r, const char *key, const char ***out, struct cordon_error *err)
{
	size_t n = 0;

	*out = calloc(r->args.count + 1, sizeof(**out));
	if (!*out)
		return err_sys(err, "cannot read the request");
	for (size_t i = 0; i < r->args.count; i++) {
		const char *path = after_key(r->args.items[i], key);

		if (path)
			(*out)[n++] = path;
	}
	if (n == 0) {
		free(*out);
		*out = NULL;
	}
	return 0;
}

static int answer_report(const struct commit_report *report, struct op_reply *reply, struct cordon_error *err)
{
	static const char *const keys[] = {[REFUSED_CONFLICT] = "conflict", [REFUSED_AUTORUN] = "autorun", [REFUSED_KIND] = "kind"};

	if (answer(reply, err, "applied %zu", report->applied) < 0 || answer(reply, err, "times %zu", report->times) < 0)
		return -1;
	for (size_t i = 0; i < report->problem_count; i++)
		if (answer(reply, err, "%s %s\t%s", keys[report->problems[i].why], report->problems[i].text, report->problems[i].path) < 0)
			return -1;
	for (size_t i = 0; i < report->executables.count; i++)
		if (answer(reply, err, "executable %s", report->executables.items[i]) < 0)
			return -1;
	return 0;
}

static int run_commit(struct live *l, const struct op_request *r, struct op_reply *reply, struct cordon_error *err)
{
	_cleanup_free_ const char **paths = NULL, **force = NULL;
	struct commit_report report = {0};

	if (select_paths(r, "path", &paths, err) < 0 || select_paths(r, "force", &force, err) < 0)
		return -1;
	const struct live_commit c = {.flags = r->flags, .paths = paths, .force = force, .progress = r->progress, .user = r->user};
	int done = live_commit(l, &c, &report, err);
	if (done >= 0) {
		reply->status = done;
		done = answer_report(&report, reply, err);
	}
	commit_report_free(&report);
	return done;
}

/* ------------------------------------------------------------------------------------------------------------------------------ */

int op_run(struct live *l, const struct op_request *request, struct op_reply *reply, struct cordon_error *err)
{
	static int (*const verbs[OP_VERB_COUNT])(struct live *, const struct op_request *, struct op_reply *, struct cordon_error *) = {
		[OP_SNAPSHOT] = run_snapshot, [OP_RESTORE] = run_restore, [OP_FORK] = run_fork,     [OP_TX_BEGIN] = run_tx,
		[OP_TX_COMMIT] = run_tx,      [OP_TX_ROLLBACK] = run_tx,  [OP_COMMIT] = run_commit, [OP_DISCARD] = run_discard,
	};

	*reply = (struct op_reply){0};
	if ((unsigned)request->verb >= OP_VERB_COUNT)
		return err_set(err, CORDON_ERR_INPUT, "unknown operation %u", (unsigned)request->verb);
	if (verbs[request->verb](l, request, reply, err) == 0)
		return 0;
	op_reply_free(reply);
	return -1;
}
