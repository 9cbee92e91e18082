/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon policy`: files that say what a sandbox may do are written, checked and explained. */
#include "cmd/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/fs.h"
#include "base/util.h"
#include "policy/ceiling.h"
#include "policy/load.h"
#include "policy/print.h"
#include "policy/profiles.h"
#include "policy/programs.h"

#define DEFAULT_NAME "policy.yaml"

static const char who[] = "cordon policy";

int policy_fail(const struct policy_options *o, const struct cordon_error *err)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	if (o->json) {
		json_object(&j);
		json_key(&j, "error");
		json_object(&j);
		json_kstr(&j, "message", err->message);
		json_kstr(&j, "hint", err->hint);
		json_end(&j);
		json_end(&j);
		if (!line.failed)
			puts(line.data);
	}
	report_error(who, err);
	return EXIT_CORDON_FAILED;
}

int policy_show(const struct policy_options *o, struct buf *out, int status)
{
	struct cordon_error err = {0};

	if (out->failed) {
		err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
		return policy_fail(o, &err);
	}
	fputs(out->data ? out->data : "", stdout);
	return status;
}

/* ---- init --------------------------------------------------------------------------------------------------------------------- */

/* Under a name that nobody has yet. Not every file system knows the first way, and some not the second. */
static int rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	return link(from, to) == 0 ? unlink(from) : -1;
}

/* Complete or not at all: it gets its name when it is on the disk. */
static int write_file(const char *path, const struct buf *text, bool replace, struct cordon_error *err)
{
	char temp[PATH_MAX];
	_cleanup_fd_ int fd = -1;
	int saved, r;

	if ((size_t)snprintf(temp, sizeof(temp), "%s.XXXXXX", path) >= sizeof(temp))
		return err_set(err, CORDON_ERR_INPUT, "the path is too long");
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "cannot write %s", path);
	if (fs_write_full(fd, text->data, text->len) < 0 || fchmod(fd, 0644) < 0 || fsync(fd) < 0)
		r = -1;
	else
		r = replace ? rename(temp, path) : rename_new(temp, path);
	saved = errno;
	if (r < 0)
		unlink(temp);
	errno = saved;
	if (r < 0 && errno == EEXIST) {
		err_set(err, CORDON_ERR_INPUT, "%s exists", path);
		return err_hint(err, "--force replaces it");
	}
	return r < 0 ? err_sys(err, "cannot write %s", path) : 0;
}

static int run_init(const struct policy_options *o, int count, char **operands)
{
	const char *path = count > 0 ? operands[0] : DEFAULT_NAME;
	_cleanup_buf_ struct buf text = {0};
	struct cordon_error err = {0};

	if (policy_print_template(o->profile, &text, &err) < 0)
		return policy_fail(o, &err);
	if (strcmp(path, "-") == 0)
		return policy_show(o, &text, EXIT_OK);
	if (write_file(path, &text, o->force, &err) < 0)
		return policy_fail(o, &err);
	printf("%s: every key is in it, commented out; check it with: cordon policy check %s\n", path, path);
	return EXIT_OK;
}

/* ---- check -------------------------------------------------------------------------------------------------------------------- */

struct checking {
	const struct policy_options *o;
	const struct cordon_policy *ceiling; /* NULL: none */
	struct json *j;                      /* inside the array of problems of a file; NULL: lines of text */
	bool remarks;                        /* what is told now is no problem */
};

static void print_problem(void *user, const struct policy_problem *problem)
{
	const struct checking *c = user;
	_cleanup_buf_ struct buf line = {0};

	if (c->j) {
		json_object(c->j);
		json_kstr(c->j, "file", problem->file);
		json_kint(c->j, "line", problem->line);
		json_kint(c->j, "column", problem->column);
		json_kstr(c->j, "level", c->remarks ? "remark" : "error");
		json_kstr(c->j, "message", problem->message);
		json_kstr(c->j, "hint", problem->hint);
		json_end(c->j);
		return;
	}
	policy_problem_text(problem, &line);
	if (!line.failed)
		fprintf(stderr, "%s%s\n", c->remarks ? "remark: " : "", line.data);
}

static void print_remark(void *user, const struct policy_problem *problem)
{
	struct checking *c = user;

	c->remarks = true;
	print_problem(c, problem);
	c->remarks = false;
}

/* What is more than the ceiling allows, each key with the line that says so last. */
static int check_ceiling(struct checking *c, const char *path, const struct cordon_policy *p, const struct policy_origins *origins)
{
	int problems = 0;

	for (size_t i = 0; i < policy_key_count; i++) {
		struct cordon_error err = {0};

		if (policy_keys[i].alias || policy_key_within(p, c->ceiling, &policy_keys[i], &err) == 0)
			continue;
		const struct policy_origin *from = origins_of_key(origins, &policy_keys[i]);
		const bool in_file = from && from->kind == ORIGIN_FILE;
		struct policy_problem problem = {.file = in_file ? from->name : path, .message = err.message, .hint = ""};
		if (in_file) {
			problem.line = from->line;
			problem.column = from->column;
		}
		print_problem(c, &problem);
		problems++;
	}
	return problems;
}

/* The number of problems, or -1. */
static int check_file(struct checking *c, const char *path, struct cordon_error *err)
{
	struct policy_origins origins = {0};
	struct cordon_policy p = {0};
	int problems = policy_check(&p, path, c->o->profile, &origins, print_problem, c, err);

	if (problems == 0) {
		const int beyond = c->ceiling ? check_ceiling(c, path, &p, &origins) : 0;

		problems = policy_check_programs(&p, &origins, NULL, print_problem, print_remark, c, err);
		problems += problems < 0 ? 0 : beyond;
	}
	policy_clear(&p);
	origins_free(&origins);
	return problems;
}

static int check_files(struct checking *c, int count, char **files, struct cordon_error *err)
{
	int all = 0;

	for (int i = 0; i < count; i++) {
		if (c->j) {
			json_object(c->j);
			json_kstr(c->j, "file", files[i]);
			json_key(c->j, "problems");
			json_array(c->j);
		}
		int problems = check_file(c, files[i], err);
		if (problems < 0)
			return -1;
		if (c->j) {
			json_end(c->j);
			json_kbool(c->j, "ok", problems == 0);
			json_end(c->j);
		} else if (problems == 0) {
			printf("%s: ok\n", files[i]);
		}
		all += problems;
	}
	return all;
}

static int run_check(const struct policy_options *o, int count, char **files)
{
	_cleanup_buf_ struct buf text = {0};
	struct json j = {.out = &text};
	struct checking c = {.o = o, .j = o->json ? &j : NULL};
	struct cordon_policy ceiling = {0};
	struct cordon_error err = {0};
	int problems;

	if (o->ceiling && policy_load(&ceiling, o->ceiling, NULL, NULL, &err) < 0)
		return policy_fail(o, &err);
	c.ceiling = o->ceiling ? &ceiling : NULL;
	if (o->json) {
		json_object(&j);
		json_key(&j, "files");
		json_array(&j);
	}
	problems = check_files(&c, count, files, &err);
	policy_clear(&ceiling);
	if (problems < 0)
		return policy_fail(o, &err);
	if (o->json) {
		json_end(&j);
		json_kbool(&j, "ok", problems == 0);
		json_end(&j);
		buf_add_str(&text, "\n");
	}
	return policy_show(o, &text, problems == 0 ? EXIT_OK : EXIT_CORDON_FAILED);
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

static int run_schema(const struct policy_options *o, int count, char **operands)
{
	_cleanup_buf_ struct buf text = {0};

	(void)count;
	(void)operands;
	(o->markdown ? policy_print_markdown : policy_print_schema)(&text);
	return policy_show(o, &text, EXIT_OK);
}

static int run_explain(const struct policy_options *o, int count, char **operands)
{
	(void)count;
	(void)operands;
	return policy_explain(o);
}

static const struct verb {
	const char *name;
	int (*run)(const struct policy_options *o, int count, char **operands);
	int least, most; /* operands; -1: any number */
	const char *wants;
} verbs[] = {
	{"init", run_init, 0, 1, "one FILE at most"},
	{"check", run_check, 1, -1, "one FILE at least"},
	{"explain", run_explain, 0, 0, "no operand: a file goes with --policy FILE"},
	{"schema", run_schema, 0, 0, "no operand"},
};

/* Which option is for which verb; one that would be passed over is refused. */
static int check_options(const struct policy_options *o, const char *verb, struct cordon_error *err)
{
	const struct {
		const char *option, *verbs;
		bool given;
	} rules[] = {
		{"policy", "explain", o->policy},     {"ceiling", "check", o->ceiling},
		{"set", "explain", o->set.count > 0}, {"path", "explain", o->path},
		{"host", "explain", o->host},         {"command", "explain", o->command},
		{"code", "explain", o->code},         {"lang", "explain", o->lang},
		{"write", "explain", o->write},       {"execute", "explain", o->execute},
		{"json", "check explain", o->json},   {"force", "init", o->force},
		{"markdown", "schema", o->markdown},  {"profile", "init check explain", o->profile},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (rules[i].given && !strstr(rules[i].verbs, verb))
			return err_set(err, CORDON_ERR_INPUT, "--%s is not for %s", rules[i].option, verb);
	if (o->profile && !policy_profile_known(o->profile)) {
		policy_profile_unknown(o->profile, err);
		return err_wrap(err, "--profile");
	}
	return 0;
}

static const struct verb *find_verb(const char *name, struct cordon_error *err)
{
	const char *names[ARRAY_SIZE(verbs)];

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		names[i] = verbs[i].name;
		if (name && strcmp(name, verbs[i].name) == 0)
			return &verbs[i];
	}
	const char *near = name ? nearest_word(name, names, ARRAY_SIZE(names)) : NULL;
	if (!name)
		err_set(err, CORDON_ERR_INPUT, "what about policies? give init, check, explain or schema");
	else
		err_set(err, CORDON_ERR_INPUT, "unknown word '%.60s'%s%s%s; give init, check, explain or schema", name,
		        near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
	return NULL;
}

static int run_verb(const struct policy_options *o, int count, char **operands)
{
	struct cordon_error err = {0};
	const struct verb *verb = find_verb(count > 0 ? operands[0] : NULL, &err);

	if (!verb || check_options(o, verb->name, &err) < 0)
		return policy_fail(o, &err);
	if (count - 1 < verb->least || (verb->most >= 0 && count - 1 > verb->most)) {
		err_set(&err, CORDON_ERR_INPUT, "%s takes %s", verb->name, verb->wants);
		return policy_fail(o, &err);
	}
	return verb->run(o, count - 1, operands + 1);
}

int cmd_policy(int argc, char **argv)
{
	const struct command *command = command_find("policy");
	struct policy_options o = {0};
	struct parsed_options parsed;
	int status;

	options_parse(command, argc, argv, &o, NULL, &parsed);
	if (options_accept(command, &parsed, &status))
		status = run_verb(&o, argc - parsed.first, argv + parsed.first);
	strlist_free(&o.set);
	return status;
}
