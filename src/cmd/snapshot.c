/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon snapshot`, `restore`, `fork`, `tx`, `discard`: the layer tree of a sandbox. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "base/util.h"
#include "cmd/ask.h"
#include "cmd/tree.h"

enum { FORKS_MAX = 1000 };

/* The present, "seed" or a layer, as a person would call it. */
static const char *layer_label(const char *id)
{
	return id[0] ? id : "seed";
}

/* ---- snapshot ---------------------------------------------------------------------------------------------------------------- */

struct snapshot_flags {
	const char *name, *note;
	bool wait, json;
};

const struct option_def snapshot_options[] = {
	{.name = "name", .argument = "NAME", .offset = offsetof(struct snapshot_flags, name), .help = "a name to go back to it by"},
	{.name = "note", .argument = "TEXT", .offset = offsetof(struct snapshot_flags, note), .help = "a remark for the history"},
	{.name = "wait", .offset = offsetof(struct snapshot_flags, wait), .help = "wait for a command that is running in it"},
	{.name = "json", .offset = offsetof(struct snapshot_flags, json), .help = "print JSON: {\"id\":...}"},
	{0},
};

const struct example snapshot_examples[] = {
	{"cordon snapshot work --name green --note 'all tests pass'", "name the present state"},
	{"cordon restore work green", "go back to it"},
	{0},
};

/* {"id":…,"sandbox":…} or the id alone */
static int print_layer(const struct tree_args *a, const char *id)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	if (!a->json) {
		puts(layer_label(id));
		return EXIT_OK;
	}
	json_object(&j);
	json_kstr(&j, "id", id[0] ? id : NULL);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

int cmd_snapshot(int argc, char **argv)
{
	struct snapshot_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct op_reply reply = {0};
	const struct tree_form form = {.command = "snapshot", .target = &f, .json = &f.json, .least = 1, .most = 1};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	const char *const args[] = {f.name ? f.name : "", f.note ? f.note : "", NULL};
	if (f.name && box_check_layer_name(f.name, &err) < 0)
		status = tree_fail(&a, &err);
	else if (tree_op(&a, a.operands[0], OP_SNAPSHOT, args, f.wait, &reply, &err) < 0)
		status = tree_fail(&a, &err);
	else
		status = print_layer(&a, op_reply_get(&reply, "id"));
	op_reply_free(&reply);
	return status;
}

/* ---- restore ----------------------------------------------------------------------------------------------------------------- */

struct wait_flags {
	bool wait, json;
};

const struct option_def restore_options[] = {
	{.name = "wait", .offset = offsetof(struct wait_flags, wait), .help = "wait for a command that is running in it"},
	{.name = "json", .offset = offsetof(struct wait_flags, json), .help = "print JSON: {\"id\":...}"},
	{0},
};

const char restore_about[] =
	"SNAPSHOT is an id of the history, the beginning of one, a name, or seed. History stays: the next command that changes\n"
	"something begins a branch. Services go on running; they see the files change.";

int cmd_restore(int argc, char **argv)
{
	struct wait_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct op_reply reply = {0};
	const struct tree_form form = {.command = "restore", .target = &f, .json = &f.json, .least = 2, .most = 2};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	const char *const args[] = {a.operands[1], NULL};
	if (tree_op(&a, a.operands[0], OP_RESTORE, args, f.wait, &reply, &err) < 0)
		status = tree_fail(&a, &err);
	else
		status = print_layer(&a, op_reply_get(&reply, "id"));
	op_reply_free(&reply);
	return status;
}

/* ---- fork -------------------------------------------------------------------------------------------------------------------- */

struct fork_flags {
	const char *count, *name;
	bool wait, json;
};

const struct option_def fork_options[] = {
	{.name = "count", .argument = "N", .offset = offsetof(struct fork_flags, count), .help = "make so many (default 1)"},
	{.name = "name",
         .argument = "NAME",
         .offset = offsetof(struct fork_flags, name),
         .help = "its name; NAME-1, NAME-2 ... with --count"},
	{.name = "wait", .offset = offsetof(struct fork_flags, wait), .help = "wait for a command that is running in it"},
	{.name = "json", .offset = offsetof(struct fork_flags, json), .help = "print JSON: {\"id\":...,\"ids\":[...]}"},
	{0},
};

const struct example fork_examples[] = {
	{"cordon fork work", "a second sandbox from the present state"},
	{"cordon fork work green --count 3 --name attempt", "three attempts from one snapshot: attempt-1, attempt-2, attempt-3"},
	{0},
};

const char fork_about[] =
	"A fork shares what is there and goes its own way from then on; nothing is copied. Labels, variables and limits are\n"
	"those of the sandbox it came from.";

/* Where a fork stands: what all of one call must start from, although the sandbox may go on meanwhile. */
static int head_of(const struct tree_args *a, const char *id, char head[LAYER_ID_LEN + 1], struct cordon_error *err)
{
	_cleanup_box_ struct box b = {0};
	struct store s;

	if (store_open(&s, a->home, err) < 0)
		return -1;
	int r = box_load(&s, id, &b, err);
	if (r == 0)
		snprintf(head, LAYER_ID_LEN + 1, "%s", layer_label(b.head));
	store_close(&s);
	return r;
}

static int fork_name(const char *prefix, uint64_t i, uint64_t count, char name[BOX_NAME_MAX + 2], struct cordon_error *err)
{
	int len = count > 1 && prefix ? snprintf(name, BOX_NAME_MAX + 2, "%s-%" PRIu64, prefix, i + 1)
	                              : snprintf(name, BOX_NAME_MAX + 2, "%s", prefix ? prefix : "");

	if (len > BOX_NAME_MAX)
		return err_set(err, CORDON_ERR_INPUT, "--name: '%.80s' is too long (at most %d letters, numbers included)", prefix,
		               BOX_NAME_MAX);
	return prefix ? box_check_name(name, err) : 0;
}

static int fork_all(const struct tree_args *a, const struct fork_flags *f, uint64_t count, struct strlist *ids, struct cordon_error *err)
{
	char from[256], name[BOX_NAME_MAX + 2];

	snprintf(from, sizeof(from), "%s", a->count > 1 ? a->operands[1] : "");
	for (uint64_t i = 0; i < count; i++) {
		struct op_reply reply = {0};

		if (fork_name(f->name, i, count, name, err) < 0)
			return -1;
		const char *const args[] = {from, name, NULL};
		int r = tree_op(a, a->operands[0], OP_FORK, args, f->wait, &reply, err);
		if (r == 0)
			r = strlist_add(ids, op_reply_get(&reply, "id"), err);
		op_reply_free(&reply);
		if (r < 0 || (!from[0] && head_of(a, ids->items[0], from, err) < 0))
			return -1;
	}
	return 0;
}

static int print_forks(const struct tree_args *a, const struct strlist *ids)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	for (size_t i = 0; i < ids->count && !a->json; i++)
		puts(ids->items[i]);
	if (!a->json)
		return EXIT_OK;
	json_object(&j);
	json_kstr(&j, "id", ids->items[0]);
	json_key(&j, "ids");
	json_array(&j);
	for (size_t i = 0; i < ids->count; i++)
		json_str(&j, ids->items[i]);
	json_end(&j);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

int cmd_fork(int argc, char **argv)
{
	struct fork_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct strlist ids = {0};
	const struct tree_form form = {.command = "fork", .target = &f, .json = &f.json, .least = 1, .most = 2};
	uint64_t count = 1;
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if (f.count && units_parse_count(f.count, 1, FORKS_MAX, &count, &err) < 0) {
		err_wrap(&err, "--count");
		return tree_fail(&a, &err);
	}
	if (fork_all(&a, &f, count, &ids, &err) < 0) {
		for (size_t i = 0; i < ids.count; i++)
			cordon_remove(ids.items[i], NULL); /* all of them, or none */
		status = tree_fail(&a, &err);
	} else {
		status = print_forks(&a, &ids);
	}
	strlist_free(&ids);
	return status;
}

/* ---- tx ---------------------------------------------------------------------------------------------------------------------- */

const struct option_def tx_options[] = {
	{.name = "wait", .offset = offsetof(struct wait_flags, wait), .help = "wait for a command that is running in it"},
	{.name = "json", .offset = offsetof(struct wait_flags, json), .help = "print JSON: {\"depth\":N}"},
	{0},
};

const char tx_about[] =
	"begin marks the present state; commit forgets the mark, rollback goes back to it, whatever happened since. They nest.";

const struct example tx_examples[] = {
	{"cordon tx begin work && cordon exec work -- make && cordon tx commit work || cordon tx rollback work",
         "several commands, or none"},
	{0},
};

static const struct {
	const char *word;
	enum op_verb verb;
	const char *done;
} tx_words[] = {
	{"begin", OP_TX_BEGIN, "begun"},
	{"commit", OP_TX_COMMIT, "committed"},
	{"rollback", OP_TX_ROLLBACK, "rolled back"},
};

static size_t find_tx(const char *word, struct cordon_error *err)
{
	const char *words[ARRAY_SIZE(tx_words)];
	size_t i = 0;

	for (; i < ARRAY_SIZE(tx_words); i++) {
		words[i] = tx_words[i].word;
		if (strcmp(word, words[i]) == 0)
			return i;
	}
	const char *near = nearest_word(word, words, ARRAY_SIZE(words));
	err_set(err, CORDON_ERR_INPUT, "'%.60s'%s%s%s; give begin, commit or rollback, then a sandbox", word,
	        near ? " (did you mean " : " is unknown", near ? near : "", near ? "?)" : "");
	return i;
}

static int print_depth(const struct tree_args *a, const char *done, const char *depth)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};
	uint64_t n = strtoull(depth ? depth : "0", NULL, 10);

	if (!a->json && n)
		printf("%s; %" PRIu64 " open\n", done, n);
	else if (!a->json)
		puts(done);
	if (!a->json)
		return EXIT_OK;
	json_object(&j);
	json_kint(&j, "depth", (int64_t)n);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

int cmd_tx(int argc, char **argv)
{
	struct wait_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct op_reply reply = {0};
	const struct tree_form form = {.command = "tx", .target = &f, .json = &f.json, .least = 2, .most = 2};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	size_t i = find_tx(a.operands[0], &err);
	if (i == ARRAY_SIZE(tx_words) || tree_op(&a, a.operands[1], tx_words[i].verb, NULL, f.wait, &reply, &err) < 0)
		status = tree_fail(&a, &err);
	else
		status = print_depth(&a, tx_words[i].done, op_reply_get(&reply, "depth"));
	op_reply_free(&reply);
	return status;
}

/* ---- discard ----------------------------------------------------------------------------------------------------------------- */

struct discard_flags {
	bool yes, wait, json;
};

const struct option_def discard_options[] = {
	{.name = "yes", .letter = 'y', .offset = offsetof(struct discard_flags, yes), .help = "do not ask"},
	{.name = "wait", .offset = offsetof(struct discard_flags, wait), .help = "wait for a command that is running in it"},
	{.name = "json", .offset = offsetof(struct discard_flags, json), .help = "print JSON: {\"changes\":N,\"before\":...}"},
	{0},
};

const char discard_about[] = "The sandbox stands on its seed again. History stays: cordon restore goes back to what was discarded.";

/* On a terminal only: a script that says discard means it. */
static bool confirmed(const struct discard_flags *f, const struct box *b)
{
	char question[256];

	if (f->yes || f->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return true;
	snprintf(question, sizeof(question), "discard all changes of %s since its seed? [y/N] ", b->name[0] ? b->name : b->id);
	return ask_key(&(struct question){.text = question, .keys = "yn", .enter = 'n', .fallback = 'n'}) == 'y';
}

static int print_discarded(const struct tree_args *a, const struct box *b, const char *before, const char *changes)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};
	char text[FORMAT_MAX * 2];
	uint64_t n = strtoull(changes ? changes : "0", NULL, 10);

	if (!a->json) {
		printf("%s discarded", tree_count(n, "change", text));
		if (n)
			printf("; get them back with: cordon restore %.*s %.*s", SHORT_ID, b->id, SHORT_ID,
			       before[0] ? before : "LAYER (see cordon history)");
		putchar('\n');
		return EXIT_OK;
	}
	json_object(&j);
	json_kint(&j, "changes", (int64_t)n);
	json_kstr(&j, "before", before[0] ? before : NULL);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

int cmd_discard(int argc, char **argv)
{
	struct discard_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct op_reply reply = {0};
	const struct tree_form form = {.command = "discard", .target = &f, .json = &f.json, .least = 1, .most = 1};
	struct live l;
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if (tree_peek(&l, a.home, a.operands[0], NULL, &err) < 0)
		return tree_fail(&a, &err);
	if (!confirmed(&f, &l.box)) {
		fputs("nothing was discarded\n", stderr);
		status = EXIT_WEAKER;
	} else if (tree_op(&a, l.box.id, OP_DISCARD, NULL, f.wait, &reply, &err) < 0) {
		status = tree_fail(&a, &err);
	} else {
		const char *before = op_reply_get(&reply, "before");
		status = print_discarded(&a, &l.box, before ? before : "", op_reply_get(&reply, "changes"));
	}
	op_reply_free(&reply);
	live_close(&l);
	return status;
}
