/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/util.h"
#include "policy/load_parts.h"
#include "policy/profiles.h"

/* ---- problems ----------------------------------------------------------------------------------------------------------------- */

/* Values are quoted in messages, and a value may hold anything: neither lines nor terminals are to be forged. */
static void make_plain(char *text)
{
	bool valid = utf8_valid(text, strlen(text));

	for (unsigned char *s = (unsigned char *)text; *s; s++) {
		bool c1 = *s == 0xc2 && s[1] < 0xa0;

		if (*s < 0x20 || *s == 0x7f || (*s >= 0x80 && (!valid || c1)))
			*s = '?';
		if (c1 && s[1])
			*++s = '?';
	}
}

bool load_stopped(const struct loader *l)
{
	return l->fatal.code != CORDON_OK || l->problems >= POLICY_PROBLEMS_MAX;
}

void load_problem(struct loader *l, const char *file, unsigned line, unsigned column, struct cordon_error *err)
{
	char name[PATH_MAX];

	if (err->code == CORDON_ERR_SYSTEM && err->sys_errno == 0) { /* out of memory */
		l->fatal = *err;
	} else if (!load_stopped(l)) {
		snprintf(name, sizeof(name), "%s", file);
		make_plain(name);
		make_plain(err->message);
		make_plain(err->hint);
		l->problems++;
		l->report(l->user, &(struct policy_problem){name, line, column, err->message, err->hint});
	}
	*err = (struct cordon_error){0};
}

void load_problem_at(struct loader *l, const struct ynode *n, struct cordon_error *err)
{
	load_problem(l, l->chain[l->depth - 1].name, n->line, n->column, err);
}

void policy_problem_text(const struct policy_problem *problem, struct buf *out)
{
	buf_add_str(out, problem->file);
	if (problem->line)
		buf_addf(out, ":%u:%u", problem->line, problem->column);
	buf_addf(out, ": %s", problem->message);
	if (problem->hint[0])
		buf_addf(out, " (%s)", problem->hint);
}

/* ---- files -------------------------------------------------------------------------------------------------------------------- */

/* "b.yaml, which a.yaml:2 extends": for messages about a file that is not the first one. */
static void add_chain(const struct loader *l, struct buf *out)
{
	for (size_t i = l->depth; i-- > 0;)
		buf_addf(out, "%s%s:%u", i + 1 == l->depth ? "extended by " : ", by ", l->chain[i].name, l->chain[i].extends_line);
}

static int read_all(int fd, size_t cap, struct buf *out, struct cordon_error *err)
{
	for (;;) {
		char *to = buf_reserve(out, 65536);
		ssize_t n;

		if (!to)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		n = read(fd, to, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "cannot read it");
		if (n == 0)
			return 0;
		out->len += (size_t)n;
		if (out->len > cap)
			return 0; /* too large, as whoever looks at it will say */
	}
}

/* Regular files only: a pipe may never end, a device has no end. */
static int read_file(const char *path, struct load_file *file, struct buf *out, struct cordon_error *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open it");
	if (!S_ISREG(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "it is %s, not a regular file",
		               S_ISDIR(st.st_mode) ? "a directory" : "something special");
	if ((uint64_t)st.st_size > YTREE_SIZE_MAX)
		return err_set(err, CORDON_ERR_INPUT, "it is larger than a policy can be (%llu bytes; at most %zu)",
		               (unsigned long long)st.st_size, YTREE_SIZE_MAX);
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	return read_all(fd, YTREE_SIZE_MAX, out, err);
}

static void load_text(struct loader *l, const struct load_file *file, const char *text, size_t len);

static bool in_chain(const struct loader *l, const struct load_file *file)
{
	for (size_t i = 0; i < l->depth; i++)
		if (l->chain[i].dev == file->dev && l->chain[i].ino == file->ino)
			return true;
	return false;
}

/* at: where it was named; NULL: by the caller. */
static void load_path(struct loader *l, const char *path, const struct ynode *at)
{
	_cleanup_buf_ struct buf text = {0}, chain = {0};
	struct load_file file = {.name = path};
	struct cordon_error err = {0};

	if (at)
		add_chain(l, &chain);
	if (l->depth >= POLICY_EXTENDS_MAX) {
		err_set(&err, CORDON_ERR_INPUT, "extends: more than %d files", POLICY_EXTENDS_MAX);
	} else if (read_file(path, &file, &text, &err) < 0) {
		if (at)
			err_wrap(&err, "extends: %.300s", path);
	} else if (in_chain(l, &file)) {
		err_set(&err, CORDON_ERR_INPUT, "extends: a circle: %.300s is being read already", path);
	} else {
		load_text(l, &file, text.data ? text.data : "", text.len);
		return;
	}
	if (!at) {
		load_problem(l, path, 0, 0, &err);
		return;
	}
	err_hint(&err, "%s", chain.data ? chain.data : "");
	load_problem_at(l, at, &err);
}

/* ---- what a file extends ------------------------------------------------------------------------------------------------------ */

static void load_profile(struct loader *l, const char *profile)
{
	struct cordon_error err = {0};

	policy_clear(l->p);
	if (policy_init_profile_noted(l->p, profile, l->o, &err) < 0)
		l->fatal = err; /* it is known */
}

/* What a file that extends nothing is put on. */
static void load_base(struct loader *l)
{
	struct cordon_error err = {0};

	if (!l->base) {
		load_profile(l, l->profile);
		return;
	}
	policy_clear(l->p);
	if (policy_copy(l->p, l->base, &err) < 0)
		l->fatal = err;
}

static bool looks_like_path(const char *text)
{
	size_t len = strlen(text);

	return strchr(text, '/') || (len > 5 && strcmp(text + len - 5, ".yaml") == 0) || (len > 4 && strcmp(text + len - 4, ".yml") == 0);
}

/* Relative to the directory of the file that names it. */
static void extend_path(struct loader *l, const struct ynode *at)
{
	const char *from = l->chain[l->depth - 1].name, *slash = strrchr(from, '/');
	_cleanup_buf_ struct buf path = {.cap = PATH_MAX - 1};
	struct cordon_error err = {0};
	const char *name;

	if (at->text[0] != '/' && slash)
		buf_add(&path, from, (size_t)(slash - from) + 1);
	buf_add_str(&path, at->text);
	if (path.failed) {
		err_set(&err, CORDON_ERR_INPUT, "extends: the path is too long");
		load_problem_at(l, at, &err);
		return;
	}
	name = l->o ? origins_name(l->o, path.data, &l->fatal) : path.data;
	if (name)
		load_path(l, name, at);
}

static void extend(struct loader *l, const struct ynode *at)
{
	struct cordon_error err = {0};

	if (at->type != YNODE_SCALAR || ynode_is_null(at)) {
		err_set(&err, CORDON_ERR_INPUT, "extends: this is not the name of a profile or a path (write one word)");
	} else if (policy_profile_known(at->text)) {
		load_profile(l, at->text);
		return;
	} else if (looks_like_path(at->text)) {
		l->chain[l->depth - 1].extends_line = at->line;
		extend_path(l, at);
		return;
	} else {
		policy_profile_unknown(at->text, &err);
		err_wrap(&err, "extends");
		if (strncmp(err.hint, "did", 3) != 0)
			err_hint(&err, "the profiles are default, locked and dev; a file is written with its path: ./%.60s", at->text);
	}
	load_problem_at(l, at, &err);
}

/* ---- a file's text ------------------------------------------------------------------------------------------------------------ */

static void check_version(struct loader *l, const struct ynode *root)
{
	const struct ynode *version = load_find(root, "version");
	struct cordon_error err = {0};

	if (version && version->type == YNODE_SCALAR && version->plain && strcmp(version->text, POLICY_FILE_VERSION) == 0)
		return;
	if (!version)
		err_set(&err, CORDON_ERR_INPUT, "the version is missing (write version: " POLICY_FILE_VERSION ")");
	else
		err_set(&err, CORDON_ERR_INPUT,
		        "version: this is not a version that this cordon reads (write version: " POLICY_FILE_VERSION ")");
	load_problem_at(l, version ? version : root, &err);
}

static void load_tree(struct loader *l, const struct ynode *root)
{
	struct cordon_error err = {0};
	const struct ynode *base;

	if (root->type != YNODE_MAP) {
		err_set(&err, CORDON_ERR_INPUT, "this is not a policy (write KEY: VALUE, beginning with version: " POLICY_FILE_VERSION ")");
		load_problem_at(l, root, &err);
		return;
	}
	check_version(l, root);
	base = load_find(root, "extends");
	if (base && !load_stopped(l))
		extend(l, base);
	else if (!load_stopped(l))
		load_base(l);
	if (!load_stopped(l))
		load_keys(l, root);
}

/* The innermost file of the chain, which names nothing of this call when it is over. */
static void load_text(struct loader *l, const struct load_file *file, const char *text, size_t len)
{
	struct ytree_problem *problem = calloc(1, sizeof(*problem));
	struct ynode *root = calloc(1, sizeof(*root));

	l->chain[l->depth++] = *file; /* load_path() has seen to it that there is room */
	if (!problem || !root) {
		err_set(&l->fatal, CORDON_ERR_SYSTEM, "out of memory");
	} else if (ytree_parse(text, len, root, problem) < 0) {
		load_problem(l, file->name, problem->line, problem->column, &problem->error);
	} else {
		load_tree(l, root);
		ynode_free(root);
	}
	l->depth--;
	free(root);
	free(problem);
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

/* Where a base could not be read, what is on top of it is looked at all the same. */
static int begin(struct loader *l, const char **name, struct cordon_error *err)
{
	*l->p = (struct cordon_policy){0};
	l->profile = l->profile ? l->profile : policy_profiles[0].name;
	if (!policy_profile_known(l->profile))
		return policy_profile_unknown(l->profile, err);
	if (l->o && !(*name = origins_name(l->o, *name, err)))
		return -1;
	load_base(l);
	if (l->fatal.code != CORDON_OK && err)
		*err = l->fatal;
	return l->fatal.code == CORDON_OK ? 0 : -1;
}

static int end(struct loader *l, struct cordon_error *err)
{
	if (l->fatal.code == CORDON_OK && l->problems == 0)
		return 0;
	policy_clear(l->p);
	if (l->fatal.code == CORDON_OK)
		return l->problems;
	if (err)
		*err = l->fatal;
	return -1;
}

static struct loader loader_for(struct cordon_policy *p, const char *profile, struct policy_origins *o, policy_problem_fn *report,
                                void *user)
{
	return (struct loader){.p = p, .o = o, .profile = profile, .report = report, .user = user};
}

int policy_check_text(struct cordon_policy *p, const char *name, const char *text, size_t len, const char *profile,
                      struct policy_origins *o, policy_problem_fn *report, void *user, struct cordon_error *err)
{
	struct loader l = loader_for(p, profile, o, report, user);
	struct load_file file = {.name = name};

	if (begin(&l, &file.name, err) < 0)
		return -1;
	load_text(&l, &file, text, len);
	return end(&l, err);
}

static int check_path(struct loader *l, const char *path, struct cordon_error *err)
{
	if (begin(l, &path, err) < 0)
		return -1;
	load_path(l, path, NULL);
	return end(l, err);
}

int policy_check(struct cordon_policy *p, const char *path, const char *profile, struct policy_origins *o, policy_problem_fn *report,
                 void *user, struct cordon_error *err)
{
	struct loader l = loader_for(p, profile, o, report, user);

	return check_path(&l, path, err);
}

static void keep_first(void *user, const struct policy_problem *problem)
{
	struct cordon_error *err = user;
	_cleanup_buf_ struct buf text = {.cap = sizeof(err->message) - 1};

	if (err->code != CORDON_OK)
		return;
	policy_problem_text(problem, &text);
	/* too long: the place and what is wrong are more than a hint */
	if (text.failed)
		err_set(err, CORDON_ERR_INPUT, "%.300s:%u:%u: %.400s", problem->file, problem->line, problem->column, problem->message);
	else
		err_set(err, CORDON_ERR_INPUT, "%s", text.data);
}

static int load_first(struct loader *l, const char *path, struct cordon_error *err)
{
	struct cordon_error first = {0}, fatal = {0};
	int r;

	l->report = keep_first;
	l->user = &first;
	r = check_path(l, path, &fatal);
	if (r != 0 && err)
		*err = r < 0 ? fatal : first;
	return r == 0 ? 0 : -1;
}

int policy_load(struct cordon_policy *p, const char *path, const char *profile, struct policy_origins *o, struct cordon_error *err)
{
	struct loader l = loader_for(p, profile, o, NULL, NULL);

	return load_first(&l, path, err);
}

int policy_load_over(struct cordon_policy *p, const char *path, const struct cordon_policy *base, struct policy_origins *o,
                     struct cordon_error *err)
{
	struct loader l = loader_for(p, NULL, o, NULL, NULL);

	l.base = base;
	return load_first(&l, path, err);
}
