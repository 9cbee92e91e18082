/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/language.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

/* A table is read by its rows. */
/* clang-format off */
static const struct language languages[] = {
	{.name = "python", .aliases = {"py", "python3"}, .extension = "py", .command = {"python3"}, .env = "PYTHONPATH=/app",
	 .package = "python3"},
	{.name = "javascript", .aliases = {"js", "node"}, .extension = "js", .command = {"node"},
	 .env = "NODE_PATH=/app/node_modules", .package = "nodejs"},
	{.name = "typescript", .aliases = {"ts"}, .extension = "ts", .command = {"/bin/sh"},
	 .env = "NODE_PATH=/app/node_modules", .package = "nodejs", .driver = true},
	{.name = "ruby", .aliases = {"rb"}, .extension = "rb", .command = {"ruby", "-I/app"}, .package = "ruby"},
	{.name = "bash", .aliases = {"sh", "shell"}, .extension = "sh", .command = {"bash"}, .package = "bash", .shell = true},
};
/* clang-format on */
const char language_words[] = "python javascript typescript ruby bash";

extern const char ts_run[], ts_run_end[], ts_hook[], ts_hook_end[]; /* src/interpreters/typescript */

const struct language *language_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		if (strcmp(name, languages[i].name) == 0)
			return &languages[i];
		for (size_t k = 0; k < ARRAY_SIZE(languages[i].aliases) && languages[i].aliases[k]; k++)
			if (strcmp(name, languages[i].aliases[k]) == 0)
				return &languages[i];
	}
	return NULL;
}

int language_unknown(const char *name, struct cordon_error *err)
{
	const char *candidates[ARRAY_SIZE(languages)], *near;

	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		candidates[i] = languages[i].name;
	near = nearest_word(name, candidates, ARRAY_SIZE(languages));
	err_set(err, CORDON_ERR_INPUT, "unknown language '%.60s'%s%s%s", name, near ? " (did you mean " : "", near ? near : "",
	        near ? "?)" : "");
	err_hint(err, "one of: %s", language_words);
	return -1;
}

/* ---- what is started ---------------------------------------------------------------------------------------------------------- */

/* Its path inside, which stays the program's; NULL: err is set. */
static const char *add_file(struct language_program *p, const char *dir, const char *name, const char *extension, const void *data,
                            size_t len, struct cordon_error *err)
{
	char **path = &p->paths[p->file_count];

	if (p->file_count == CODE_FILES_MAX ||
	    asprintf(path, "%s/%s%s%s", dir, name, extension ? "." : "", extension ? extension : "") < 0) {
		if (p->file_count < CODE_FILES_MAX)
			*path = NULL;
		err_set(err, CORDON_ERR_SYSTEM, "cannot name the code");
		return NULL;
	}
	p->files[p->file_count++] = (struct cordon_file){.guest = *path, .data = data, .len = len};
	return *path;
}

static int add_words(struct strlist *l, const char *const *words, size_t count, struct cordon_error *err)
{
	for (size_t i = 0; i < count && words[i]; i++)
		if (strlist_add(l, words[i], err) < 0)
			return -1;
	return 0;
}

static int add_driver(struct language_program *p, const char *dir, struct cordon_error *err)
{
	const char *run = add_file(p, dir, "ts-run", NULL, ts_run, (size_t)(ts_run_end - ts_run), err);

	if (!run || !add_file(p, dir, "ts-hook", "js", ts_hook, (size_t)(ts_hook_end - ts_hook), err))
		return -1;
	return strlist_add(&p->argv, run, err);
}

/* It becomes a file in a directory, whatever its name. */
static int check_code(const struct language_code *code, struct cordon_error *err)
{
	const char *name = code->name;

	if (code->len > CODE_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the code is larger than %zuM, which is the most that is taken", CODE_MAX >> 20);
	if (name && (!*name || strlen(name) > 200 || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
		return err_set(err, CORDON_ERR_INPUT, "'%.60s' is no name for a file with code", name);
	return 0;
}

int language_program(const struct language *l, const struct language_code *code, struct language_program *out, struct cordon_error *err)
{
	const char *path = code->path;

	*out = (struct language_program){.language = l};
	if (check_code(code, err) < 0)
		return -1;
	if (!path)
		path = add_file(out, code->dir, code->name ? code->name : "main", code->name ? NULL : l->extension, code->data, code->len,
		                err);
	if (!path || add_words(&out->argv, l->command, ARRAY_SIZE(l->command), err) < 0 ||
	    (l->driver && add_driver(out, code->dir, err) < 0) || strlist_add(&out->argv, path, err) < 0)
		return -1;
	return code->args ? add_words(&out->argv, code->args, SIZE_MAX, err) : 0;
}

void language_program_clear(struct language_program *p)
{
	strlist_free(&p->argv);
	for (size_t i = 0; i < CODE_FILES_MAX; i++)
		free(p->paths[i]);
	*p = (struct language_program){0};
}

int language_environment(const struct language *l, struct strlist *env, struct cordon_error *err)
{
	const size_t name = l->env ? strcspn(l->env, "=") + 1 : 0;

	for (size_t i = 0; l->env && i < env->count; i++)
		if (strncmp(env->items[i], l->env, name) == 0)
			return 0;
	return l->env ? strlist_add(env, l->env, err) : 0;
}

int language_missing(const struct language *l, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_NOT_FOUND, "%s is not in this image", l->command[0]);
	err_hint(err, "apt-get install %s", l->package);
	return -1;
}
