/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon stop`, `cordon pause`, `cordon resume`: sandboxes that are live. */
#include <string.h>

#include "base/util.h"
#include "cmd/tree.h"

struct stop_flags {
	bool json, all;
};

const struct option_def stop_options[] = {
	{.name = "all", .offset = offsetof(struct stop_flags, all), .help = "every sandbox that is live"},
	{.name = "json", .offset = offsetof(struct stop_flags, json), .help = "print a JSON list of their states"},
	{0},
};

const char stop_about[] =
	"Services are asked to end (SIGTERM), and killed a few seconds later with everything else; the files stay, and the next\n"
	"exec starts the sandbox anew. It is no error if it is stopped already.";
const char pause_about[] = "Everything inside stands still and uses no CPU until `cordon resume`; no command can be started meanwhile.";
const char resume_about[] = "Everything inside goes on where `cordon pause` stopped it.";

static int stop_one(const char *home, const char *id, struct cordon_error *err)
{
	return keeper_stop(home, id, err);
}

static int pause_one(const char *home, const char *id, struct cordon_error *err)
{
	return keeper_pause(home, id, true, err);
}

static int resume_one(const char *home, const char *id, struct cordon_error *err)
{
	return keeper_pause(home, id, false, err);
}

struct work {
	const struct tree_args *args;
	struct store *store;
	int (*act)(const char *home, const char *id, struct cordon_error *err);
	struct json json;
};

/* What was done to it is told by what it is now. */
static int work_on(struct work *w, const struct box *b, struct cordon_error *err)
{
	enum box_state state;

	if (w->act(w->args->home, b->id, err) < 0 || keeper_state(w->args->home, b->id, &state, err) < 0)
		return -1;
	json_object(&w->json);
	json_kstr(&w->json, "id", b->id);
	json_kstr(&w->json, "name", b->name[0] ? b->name : NULL);
	json_kstr(&w->json, "state", box_state_names[state]);
	json_end(&w->json);
	return 0;
}

static int work_on_given(struct work *w, struct cordon_error *err)
{
	int failed = 0;

	for (int i = 0; i < w->args->count; i++) {
		_cleanup_box_ struct box b = {0};
		struct cordon_error why = {0};

		if (box_find(w->store, w->args->operands[i], &b, &why) == 0 && work_on(w, &b, &why) == 0)
			continue;
		if (failed++ > 0)
			report_error("cordon", err); /* the last one is reported by who called */
		*err = why;
	}
	return failed ? -1 : 0;
}

static int work_on_all(struct work *w, struct cordon_error *err)
{
	struct box_list all = {0};
	int r = box_list(w->store, &all, err);

	for (size_t i = 0; r == 0 && i < all.count; i++) {
		enum box_state state = BOX_STOPPED;

		if (!all.items[i].damaged && (r = keeper_state(w->args->home, all.items[i].box.id, &state, err)) == 0 &&
		    state != BOX_STOPPED)
			r = work_on(w, &all.items[i].box, err);
	}
	box_list_free(&all);
	return r;
}

static int cmd_work(const char *command, int (*act)(const char *, const char *, struct cordon_error *), int argc, char **argv)
{
	struct stop_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	_cleanup_buf_ struct buf line = {0};
	struct cordon_error err = {0};
	struct store s;
	const struct tree_form form = {.command = command, .target = &f, .json = &f.json, .most = -1};
	struct work w = {.args = &a, .store = &s, .act = act, .json = {.out = &line}};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if (f.all == (a.count > 0)) {
		err_set(&err, CORDON_ERR_INPUT,
		        f.all ? "give sandboxes or --all, not both" : "which sandbox? give its id or name, or --all");
		return tree_fail(&a, &err);
	}
	if (store_open(&s, a.home, &err) < 0)
		return tree_fail(&a, &err);
	json_array(&w.json);
	int r = f.all ? work_on_all(&w, &err) : work_on_given(&w, &err);
	json_end(&w.json);
	store_close(&s);
	if (r < 0)
		return tree_fail(&a, &err);
	return f.json ? tree_print_json(&a, &line, EXIT_OK) : EXIT_OK;
}

int cmd_stop(int argc, char **argv)
{
	return cmd_work("stop", stop_one, argc, argv);
}

int cmd_pause(int argc, char **argv)
{
	return cmd_work("pause", pause_one, argc, argv);
}

int cmd_resume(int argc, char **argv)
{
	return cmd_work("resume", resume_one, argc, argv);
}
