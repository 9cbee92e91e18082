/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon secret`: the secrets that the broker gives to requests on their way out. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cmd/secret_input.h"
#include "cmd/tree.h"
#include "secrets/store.h"

struct secret_flags {
	bool json;
	struct secret_source from;
};

const struct option_def secret_options[] = {
	{.name = "from-env",
         .argument = "VARIABLE",
         .offset = offsetof(struct secret_flags, from.variable),
         .complete = COMPLETE_VARIABLE,
         .help = "set: take the value of this exported variable"},
	{.name = "from-file",
         .argument = "FILE",
         .offset = offsetof(struct secret_flags, from.file),
         .complete = COMPLETE_FILE,
         .help = "set: take what is in this file"},
	{.name = "json", .offset = offsetof(struct secret_flags, json), .help = "print JSON"},
	{0},
};

const char secret_about[] =
	"Secrets for policies (secrets: [{from: \"store:NAME\", hosts: [...]}]): requests to those hosts get them on their way out, and\n"
	"the sandbox never has them.\n"
	"\n"
	"  set NAME    store a value or replace it: from standard input, or asked for at the terminal without being shown. One line\n"
	"              feed at its end is taken off. It is 1 byte to 64 KB of anything but NUL\n"
	"  ls          list them by name, with when they were made and last changed; values are never shown\n"
	"  rm NAME...  remove them\n"
	"\n"
	"A value is never an argument: everybody on this machine can see those. Each set and rm is in the audit, without the value.";

const struct example secret_examples[] = {
	{"cordon secret set openai", "asks for the value"},
	{"pass show openai | cordon secret set openai", "from a password manager"},
	{"cordon secret set github --from-env GITHUB_TOKEN", "from a variable"},
	{"cordon secret ls", "which there are"},
	{"cordon secret rm openai github", "remove two"},
	{0},
};

/* ---- set ----------------------------------------------------------------------------------------------------------------------- */

static int print_set(const struct tree_args *a, const char *name, bool replaced)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	if (!a->json) {
		printf("%s %s\n", name, replaced ? "replaced" : "stored");
		return EXIT_OK;
	}
	json_object(&j);
	json_kstr(&j, "name", name);
	json_kbool(&j, "replaced", replaced);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

/* The words are not repeated: they may be the secret. */
static int check_set(const struct tree_args *a, const struct secret_flags *f, struct cordon_error *err)
{
	if (a->count == 0)
		return err_set(err, CORDON_ERR_INPUT, "set needs a name: cordon secret set NAME");
	if (a->count > 1) {
		err_set(err, CORDON_ERR_INPUT, "set takes a name and nothing else: a value on the command line can be seen by everybody");
		return err_hint(err, "give it on standard input or with --from-file; if that was one, it is in your shell's history now");
	}
	if (f->from.variable && f->from.file)
		return err_set(err, CORDON_ERR_INPUT, "--from-env and --from-file exclude each other");
	return secrets_check_name(a->operands[0], err);
}

static int run_set(const struct tree_args *a, const struct secret_flags *f, struct cordon_error *err)
{
	_cleanup_secret_ struct secret value = {0};
	bool replaced = false;
	int signo = 0;

	if (check_set(a, f, err) < 0)
		return tree_fail(a, err);
	const char *name = a->operands[0];
	int r = secret_input(&f->from, name, &value, &signo, err);
	if (signo)
		return EXIT_SIGNAL + signo;
	if (r < 0 || secrets_set(a->home, name, &value, &replaced, err) < 0)
		return tree_fail(a, err);
	return print_set(a, name, replaced);
}

/* ---- ls ------------------------------------------------------------------------------------------------------------------------ */

static void json_time(struct json *j, const char *key, const struct secret_info *s, int64_t ms)
{
	char time[FORMAT_MAX];

	json_kstr(j, key, s->damaged ? NULL : format_time(ms, time));
}

static int print_list_json(const struct tree_args *a, const struct secret_list *all)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_array(&j);
	for (size_t i = 0; i < all->count; i++) {
		const struct secret_info *s = &all->items[i];

		json_object(&j);
		json_kstr(&j, "name", s->name);
		json_time(&j, "created", s, s->created_ms);
		json_time(&j, "changed", s, s->changed_ms);
		json_kbool(&j, "damaged", s->damaged);
		json_end(&j);
	}
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

static int print_list(const struct tree_args *a, const struct secret_list *all, struct cordon_error *err)
{
	static const struct table_column columns[] = {
		{.title = "NAME", .least = 8}, {.title = "CREATED (UTC)"}, {.title = "CHANGED", .right = true}, {.title = "STATE"}};
	const struct colours c = colours_for(STDOUT_FILENO);
	_cleanup_table_ struct table t = {.columns = columns, .count = ARRAY_SIZE(columns)};
	char text[FORMAT_MAX];

	for (size_t i = 0; i < all->count; i++) {
		const struct secret_info *s = &all->items[i];

		table_add(&t, c.name, "%s", s->name);
		table_add(&t, NULL, "%s", s->damaged ? "-" : format_time(s->created_ms, text));
		table_add(&t, NULL, "%s", s->damaged ? "-" : format_age(now_ms() - s->changed_ms, text));
		table_add(&t, c.bad, "%s", s->damaged ? "damaged" : "");
	}
	if (all->count && table_print(&t, stdout) < 0) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return tree_fail(a, err);
	}
	if (!all->count)
		fputs("no secrets; cordon secret set NAME stores one\n", stderr);
	return EXIT_OK;
}

static int run_ls(const struct tree_args *a, const struct secret_flags *f, struct cordon_error *err)
{
	struct secret_list all = {0};
	int status;

	(void)f;
	if (a->count > 0)
		err_set(err, CORDON_ERR_INPUT, "ls lists all secrets: it takes no names");
	if (a->count > 0 || secrets_list(a->home, &all, err) < 0)
		status = tree_fail(a, err);
	else if (a->json)
		status = print_list_json(a, &all);
	else
		status = print_list(a, &all, err);
	secrets_list_free(&all);
	return status;
}

/* ---- rm ------------------------------------------------------------------------------------------------------------------------ */

static int print_removed(const struct tree_args *a)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_key(&j, "removed");
	json_array(&j);
	for (int i = 0; i < a->count; i++)
		json_str(&j, a->operands[i]);
	json_end(&j);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

/* In their order, up to the first that cannot be removed, which the error names. */
static int run_rm(const struct tree_args *a, const struct secret_flags *f, struct cordon_error *err)
{
	(void)f;
	if (a->count == 0)
		err_set(err, CORDON_ERR_INPUT, "which one? cordon secret rm NAME...");
	for (int i = 0; i < a->count && err->code == CORDON_OK; i++)
		secrets_check_name(a->operands[i], err);
	for (int i = 0; i < a->count && err->code == CORDON_OK; i++)
		if (secrets_remove(a->home, a->operands[i], err) == 0 && !a->json)
			puts(a->operands[i]);
	if (err->code != CORDON_OK)
		return tree_fail(a, err);
	return a->json ? print_removed(a) : EXIT_OK;
}

/* -------------------------------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *word;
	int (*run)(const struct tree_args *a, const struct secret_flags *f, struct cordon_error *err);
	bool takes_source;
} verbs[] = {{"set", run_set, true}, {"ls", run_ls, false}, {"rm", run_rm, false}};

int cmd_secret(int argc, char **argv)
{
	struct secret_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	const struct tree_form form = {.command = "secret", .target = &f, .json = &f.json, .least = 1, .most = -1};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	const char *word = a.operands[0];
	a.operands++;
	a.count--;
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(word, verbs[i].word) != 0)
			continue;
		if (verbs[i].takes_source || (!f.from.variable && !f.from.file))
			return verbs[i].run(&a, &f, &err);
		err_set(&err, CORDON_ERR_INPUT, "--from-env and --from-file are for cordon secret set");
		return tree_fail(&a, &err);
	}
	err_set(&err, CORDON_ERR_INPUT, "give set NAME, ls or rm NAME...");
	return tree_fail(&a, &err);
}
