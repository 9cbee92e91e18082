/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run_changes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cmd/commit.h"
#include "cmd/making.h"
#include "cmd/table.h"
#include "lib/exec.h"

int run_changes_check(const struct run_options *o, const struct run_program *p, struct cordon_error *err)
{
	if (o->commit && !o->workspace)
		return err_set(err, CORDON_ERR_INPUT, "--commit needs --workspace DIR: the directory to commit to");
	if (o->commit && o->keep) {
		err_set(err, CORDON_ERR_INPUT, "--commit and --keep exclude each other");
		return err_hint(err, "commit a kept sandbox with: cordon commit ID");
	}
	if (o->autorun && !o->commit)
		return err_set(err, CORDON_ERR_INPUT, "--allow-autorun is for --commit");
	if (o->name && !o->keep)
		return err_set(err, CORDON_ERR_INPUT, "--name is for a sandbox that stays: add --keep");
	if (o->keep && p->made.file_count)
		return err_set(err, CORDON_ERR_INPUT,
		               "--keep and code from outside the workspace exclude each other: only commands can be kept");
	if (o->keep && o->hostname)
		return err_set(err, CORDON_ERR_INPUT,
		               "--keep and --hostname exclude each other: a sandbox that stays is called by its --name");
	if (o->on_failure && strcmp(o->on_failure, "rollback") != 0 && strcmp(o->on_failure, "keep") != 0)
		return err_set(err, CORDON_ERR_INPUT, "--on-failure: '%.60s' is unknown; give rollback or keep", o->on_failure);
	if (o->on_failure && !o->commit && !o->keep)
		return err_set(err, CORDON_ERR_INPUT, "--on-failure is for --commit and --keep: all changes are discarded without them");
	return 0;
}

/* ---- --keep ------------------------------------------------------------------------------------------------------------------ */

/* A sandbox that stays starts from the profile dev; `run` does not. */
static int add_defaults(struct making *m, struct cordon_error *err)
{
	static const char *const groups[] = {"limits.", "transaction."};

	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		const bool list = key->type == POLICY_LIST || key->type == POLICY_ASSIGN_LIST || key->type == POLICY_STATUSES;

		for (size_t k = 0; k < ARRAY_SIZE(groups) && !list && key->fallback; k++)
			if (strncmp(key->name, groups[k], strlen(groups[k])) == 0 && making_setting(m, key->name, key->fallback, err) < 0)
				return -1;
	}
	return 0;
}

int run_keep_create(const struct run_keep *k, char id[21], struct cordon_error *err)
{
	_cleanup_making_ struct making m = {0};
	struct cordon_create_options o = {.size = sizeof(o),
	                                  .name = k->o->name,
	                                  .image = k->o->image,
	                                  .workspace = k->workspace,
	                                  .user = k->o->user,
	                                  .mounts = k->mounts,
	                                  .mount_count = k->mount_count};

	if (!k->o->policy_file && add_defaults(&m, err) < 0)
		return -1;
	for (size_t i = 0; i < k->settings->count; i++)
		if (strlist_add(&m.settings, k->settings->items[i], err) < 0)
			return -1;
	if ((k->o->policy_file && making_policy(&m, k->o->policy_file, NULL, err) < 0) || making_on_failure(&m, k->o->on_failure, err) < 0)
		return -1;
	for (size_t i = 0; i < k->mount_count; i++)
		if (making_setting(&m, k->mounts[i].writable ? "mounts.write" : "mounts.read", k->mounts[i].host, err) < 0)
			return -1;
	for (size_t i = 0; i < k->o->env.count; i++)
		if (making_env(&m, k->o->env.items[i], err) < 0)
			return -1;
	o.policy = (const char *const *)m.settings.items;
	o.env = (const char *const *)m.env.items;
	return cordon_create(&o, id, err);
}

/* ---- --commit ---------------------------------------------------------------------------------------------------------------- */

static void fail_result(struct cordon_result *result, const char *reason, const char *error, const char *hint)
{
	result->state = "failed";
	result->reason = reason;
	result->exit_code = EXIT_CORDON_FAILED;
	result->error = error;
	result->hint = hint && *hint ? hint : NULL;
}

void run_commit(const struct run_options *o, struct cordon_exec *exec, struct cordon_result *result, struct run_commit *c)
{
	struct progress progress;
	const struct cordon_commit_options options = {
		.size = sizeof(options), .flags = o->autorun ? CORDON_COMMIT_AUTORUN : 0, .progress = progress_show, .user = &progress};

	*c = (struct run_commit){0};
	progress_begin(&progress);
	int r = cordon_exec_commit(exec, &options, &c->error);
	progress_end(&progress);
	result->transaction = cordon_exec_result(exec)->transaction;
	c->refused = r > 0;
	if (r > 0)
		fail_result(result, "conflict", "the command succeeded, but its changes could not be committed", NULL);
	else if (r < 0)
		fail_result(result, "error", c->error.message, c->error.hint);
}

/* As problems_of_report(), from the result. */
static void print_refusal(const struct cordon_transaction *t)
{
	struct problems problems = {.items = calloc(t->conflict_count + 1, sizeof(*problems.items))};

	for (size_t i = 0; problems.items && i < t->conflict_count; i++) {
		const char *kind = t->conflicts[i].kind;

		problems.items[problems.count++] = (struct problem){
			strcmp(kind, "conflict") == 0  ? REFUSED_CONFLICT
			: strcmp(kind, "autorun") == 0 ? REFUSED_AUTORUN
						       : REFUSED_KIND,
			(char *)(uintptr_t)t->conflicts[i].why,
			t->conflicts[i].path,
		};
	}
	if (problems.items)
		problems_print(&problems, "run it with --keep to look at its changes, and commit them with cordon commit --force");
	free(problems.items);
}

void run_commit_notes(const struct run_options *o, const char *workspace, const struct cordon_result *result, const struct run_commit *c)
{
	const struct cordon_transaction *t = &result->transaction;
	char text[FORMAT_MAX * 2];

	if (o->json || o->events)
		return;
	if (c->refused)
		print_refusal(t);
	else if (!o->quiet && t->changes_total > 0 && t->outcome &&
	         (strcmp(t->outcome, "committed") == 0 || strcmp(t->outcome, "kept") == 0))
		fprintf(stderr, "cordon: committed %s to %s\n", tree_count((uint64_t)t->changes_total, "change", text), workspace);
}

void run_note_copied(const struct run_options *o, const char *why)
{
	_cleanup_buf_ struct buf text = {0};

	if (!why || o->quiet)
		return;
	text_plain(&text, why);
	if (!text.failed)
		fprintf(stderr, "cordon: the workspace is copied, which is slower: %s\n", text.data ? text.data : "");
}
