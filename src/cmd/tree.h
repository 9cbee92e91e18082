/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands over sandboxes that stay share: their arguments, their errors, finding and looking at a sandbox. */
#ifndef CORDON_CMD_TREE_H
#define CORDON_CMD_TREE_H

#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/table.h"
#include "keeper/client.h"
#include "lib/live.h"

enum { SHORT_ID = 8 }; /* letters of an id that people are shown; any unique beginning is accepted */

/* ---- arguments and errors ---------------------------------------------------------------------------------------------------- */

struct tree_args {
	const struct command *command;
	bool json;
	char **operands; /* `count` of them */
	int count;
	int dashes; /* how many of them came before a "--" */
	char *home; /* $CORDON_HOME; owned */
};
void tree_args_free(struct tree_args *a);
#define _cleanup_args_ __attribute__((cleanup(tree_args_free)))

/*
 * Reads options into `target` and checks the number of operands; `json` points to target's flag of that name. False: everything was said,
 * *status is the exit status. policy and settings: as options_parse_settings(), NULL: the table has no policy keys.
 */
struct tree_form {
	const char *command;
	void *target;
	const bool *json;
	struct cordon_policy *policy;
	struct strlist *settings;
	int least, most; /* operands; most -1: any number */
};
bool tree_parse(const struct tree_form *form, int argc, char **argv, struct tree_args *out, int *status);

/* Reports it, with --json on stdout, too: {"error":{"code":…,"message":…,"hint":…}}. Returns the exit status, 125. */
int tree_fail(const struct tree_args *a, const struct cordon_error *err);

/* One line of JSON on stdout; reports it if memory ran out. Returns `status` or 125. */
int tree_print_json(const struct tree_args *a, const struct buf *line, int status);

/* ---- sandboxes --------------------------------------------------------------------------------------------------------------- */

int64_t now_ms(void);

/* keeper_op() with these arguments (NULL-terminated). */
int tree_op(const struct tree_args *a, const char *what, enum op_verb verb, const char *const *args, bool wait, struct op_reply *reply,
            struct cordon_error *err);

/*
 * Opens a sandbox without its lock, to look at what it holds: sealed layers do not change. An open layer counts only while the sandbox is live.
 * Release with live_close().
 */
int tree_peek(struct live *l, const char *home, const char *what, enum box_state *state, struct cordon_error *err);

/* What a tree of it shows now. */
int tree_view(const struct live *l, enum layer_tree tree, struct view *out, struct cordon_error *err);

/* Removes sandboxes whose time is over (--ttl), and then what nobody needs. Quiet: whatever cannot be done now is done the next time. */
void tree_expire(struct store *s, const char *home);

/* Finishes or undoes a commit to this directory that was interrupted, and says so. */
int tree_recover(const char *directory, struct cordon_error *err);

/* Refuses directories that cannot be a workspace: the root, what holds cordon's own state or lies in it. `real` is absolute, without links. */
int tree_check_workspace(const char *real, const char *home, struct cordon_error *err);

/* ---- changes ----------------------------------------------------------------------------------------------------------------- */

/* A path as people give it (src/x, ./src/x, /app/src/x, or below the workspace on the host) as the layers have it. "" is the top. To be freed. */
char *tree_path(const char *workspace, const char *given, struct cordon_error *err);

/* The changes at or below these paths. The items are shared: free only items itself. No paths: all. */
int tree_select(const struct changes *all, const struct strlist *paths, struct changes *out, struct cordon_error *err);

/* [{"op":…,"path":…,"bytes":…}] */
void tree_json_changes(struct json *j, const struct changes *c, size_t most);

/* "1 change", "12 changes" */
const char *tree_count(uint64_t n, const char *what, char buf[FORMAT_MAX * 2]);

#endif
