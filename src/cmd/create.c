/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon create`: a sandbox that stays. Nothing runs until its first exec. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "base/util.h"
#include "cmd/cp.h"
#include "cmd/making.h"
#include "cmd/policy_file.h"

struct create_flags {
	const char *name, *image, *workspace, *user, *ttl, *idle, *on_failure, *policy_file;
	struct strlist labels, env, mounts;
	bool no_toolchains, json;
};

#define FLAG(member) offsetof(struct create_flags, member)

/* clang-format off */
const struct option_def create_options[] = {
	{.group = "What it is", .name = "name", .argument = "NAME", .offset = FLAG(name),
	 .help = "a name to use in place of the id: small letters, digits, hyphens"},
	{.name = "workspace", .argument = "DIR", .offset = FLAG(workspace), .complete = COMPLETE_DIR,
	 .help = "/app starts as a view of DIR, which is written by cordon commit only"},
	{.name = "image", .argument = "NAME", .offset = FLAG(image), .complete = COMPLETE_IMAGE,
	 .help = "root file system: an imported image (cordon image ls), or host: this machine's, read-only (default)"},
	{.name = "root", .argument = "MODE", .policy_key = "root", .complete = COMPLETE_WORDS, .words = "readonly layered",
	 .help = "readonly (default), or layered: commands are root in the image and can install packages, which are kept"},
	{.name = "policy", .argument = "FILE", .offset = FLAG(policy_file), .complete = COMPLETE_FILE,
	 .help = "what commands may do, from a policy file; other options win over it (see cordon policy)"},
	{.name = "label", .argument = "KEY=VALUE", .offset = FLAG(labels), .repeat = true, .help = "to find it by; may be repeated"},
	{.name = "env", .argument = "NAME[=VALUE]", .offset = FLAG(env), .repeat = true, .complete = COMPLETE_VARIABLE,
	 .help = "set a variable for all its commands; may be repeated"},
	{.name = "mount", .argument = "HOST:GUEST[:rw]", .offset = FLAG(mounts), .repeat = true, .complete = COMPLETE_FILE,
	 .help = "show a host path inside, read-only unless :rw; may be repeated"},
	{.name = "user", .argument = "UID[:GID]", .offset = FLAG(user), .help = "who commands are inside (default: an unprivileged user)"},
	{.name = "no-toolchains", .offset = FLAG(no_toolchains), .help = "do not show the compilers and interpreters on your PATH inside"},
	{.name = "ttl", .argument = "TIME", .offset = FLAG(ttl), .help = "remove it after this long (default: never)"},
	{.name = "idle", .argument = "TIME", .offset = FLAG(idle), .help = "stop it after this long without a command (default 1m)"},
	{.group = "Transactions", .name = "on-failure", .argument = "ACTION", .offset = FLAG(on_failure), .complete = COMPLETE_WORDS,
	 .words = "rollback keep", .help = "changes of a command that fails: rollback or keep (default keep; rollback if it was killed)"},
	{.name = "ok", .argument = "LIST", .policy_key = "transaction.ok", .help = "exit statuses that are no failure: 0,1"},
	MAKING_LIMIT_ROWS,
	{.group = "Output", .name = "json", .offset = FLAG(json), .help = "print JSON: {\"id\":...}"},
	{0},
};
/* clang-format on */

const struct example create_examples[] = {
	{"cordon create --workspace . --name work", "over this directory, which stays as it is until a commit"},
	{"id=$(cordon create --ttl 1h --memory 2G)", "an empty one that goes away by itself"},
	{0},
};

const char create_about[] =
	"Prints its id. Files in /app and in the home outlive each command; every command that changes something is a step of its\n"
	"history (cordon history), which can be gone back to, forked, compared and committed. The directory given with --workspace is\n"
	"shown as it is at any time: what is edited there is seen inside, unless the sandbox has a version of its own.";

static int parse_time(const char *text, const char *option, int64_t *out, struct cordon_error *err)
{
	uint64_t ms;

	if (!text)
		return 0;
	if (units_parse_duration(text, &ms, err) < 0)
		return err_wrap(err, "%s", option);
	*out = (int64_t)ms;
	return 0;
}

static int check_labels(const struct strlist *labels, struct cordon_error *err)
{
	for (size_t i = 0; i < labels->count; i++) {
		const char *value = strchr(labels->items[i], '=');

		if (!value || value == labels->items[i])
			return err_set(err, CORDON_ERR_INPUT, "--label: '%.80s' is not of the form KEY=VALUE", labels->items[i]);
	}
	return 0;
}

static int check_workspace(const char *given, const char *home, char **out, struct cordon_error *err)
{
	struct stat st;

	*out = realpath(given, NULL);
	if (!*out || stat(*out, &st) < 0)
		return err_set(err, CORDON_ERR_INPUT, "--workspace: '%.200s': %s; give an existing directory", given, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "--workspace: '%.200s' is not a directory", given);
	if (tree_check_workspace(*out, home, err) < 0)
		return err_wrap(err, "--workspace");
	return tree_recover(*out, err);
}

/* ---- files of others --------------------------------------------------------------------------------------------------------- */

enum { LOOKED_AT_MAX = 50000, NAMED_MAX = 3 };

struct foreign {
	uid_t own;
	size_t seen, count;
	struct buf names;
};

static int look(void *user, const char *path, int dir, const char *base, const struct stat *st, struct cordon_error *err)
{
	struct foreign *f = user;

	(void)dir;
	(void)base;
	if (++f->seen > LOOKED_AT_MAX)
		return err_set(err, CORDON_ERR_SYSTEM, "enough");
	if (st->st_uid == f->own || S_ISLNK(st->st_mode))
		return 0;
	if (f->count++ < NAMED_MAX) {
		buf_add_str(&f->names, f->names.len ? ", " : "");
		text_plain(&f->names, *path ? path : ".");
	}
	return 0;
}

/* An ordinary user has one id inside, too: what belongs to others cannot be changed there, and better said now than found out. */
static void remark_foreign(const char *workspace)
{
	_cleanup_fd_ int dir = -1;
	char name[NAME_MAX + 1], text[FORMAT_MAX * 2];
	struct cp_source source;
	struct foreign f = {.own = geteuid()};
	const struct cp_walk walk = {look, &f};

	if (f.own == 0 || cp_open_source(workspace, &dir, name, &source, NULL) < 0)
		return;
	cp_walk(dir, name, &walk, NULL); /* what cannot be read cannot be looked at; that is no failure */
	if (f.count && f.names.data)
		fprintf(stderr, "cordon: %s of others can be read inside, but not changed: %s%s\n", tree_count(f.count, "file", text),
		        f.names.data, f.count > NAMED_MAX ? " ..." : "");
	buf_free(&f.names);
}

/* ------------------------------------------------------------------------------------------------------------------------------ */

static int create(const struct create_flags *f, const char *home, struct making *m, char id[21], struct cordon_error *err)
{
	_cleanup_free_ char *workspace = NULL;
	struct cordon_create_options o = {.size = sizeof(o), .name = f->name, .image = f->image, .user = f->user};

	if (f->name && box_check_name(f->name, err) < 0)
		return err_wrap(err, "--name");
	if (parse_time(f->ttl, "--ttl", &o.ttl_ms, err) < 0 || parse_time(f->idle, "--idle", &o.idle_ms, err) < 0 ||
	    check_labels(&f->labels, err) < 0 || making_on_failure(m, f->on_failure, err) < 0)
		return -1;
	if (f->workspace && check_workspace(f->workspace, home, &workspace, err) < 0)
		return -1;
	if (making_wants_toolchains(f->no_toolchains, f->image) && making_toolchains(m, workspace, err) < 0)
		return -1;
	for (size_t i = 0; i < f->mounts.count; i++)
		if (making_mount(m, f->mounts.items[i], err) < 0)
			return -1;
	for (size_t i = 0; i < f->env.count; i++)
		if (making_env(m, f->env.items[i], err) < 0)
			return -1;
	o.workspace = workspace;
	o.policy = (const char *const *)m->settings.items;
	o.labels = (const char *const *)f->labels.items;
	o.env = (const char *const *)m->env.items;
	o.mounts = m->mounts;
	o.mount_count = m->mount_count;
	if (cordon_create(&o, id, err) < 0)
		return -1;
	if (workspace)
		remark_foreign(workspace);
	return 0;
}

static void expire(const char *home)
{
	struct store s;

	if (store_open(&s, home, NULL) < 0)
		return;
	tree_expire(&s, home);
	store_close(&s);
}

static int print_id(const struct tree_args *a, const char *id)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	if (!a->json) {
		puts(id);
		return EXIT_OK;
	}
	json_object(&j);
	json_kstr(&j, "id", id);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

int cmd_create(int argc, char **argv)
{
	struct create_flags f = {0};
	_cleanup_making_ struct making m = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	struct cordon_policy *scratch = cordon_policy_new(); /* what a setting is checked against */
	const struct tree_form form = {.command = "create", .target = &f, .json = &f.json, .policy = scratch, .settings = &m.settings};
	char id[LAYER_ID_LEN + 1];
	int status = EXIT_CORDON_FAILED;

	if (scratch && tree_parse(&form, argc, argv, &a, &status) && !policy_file_hand_over(f.policy_file, argc, argv, &status)) {
		int r = f.policy_file ? making_policy(&m, f.policy_file, "dev", &err) : 0; /* first: a bad one leaves no trace */
		if (r == 0) {
			expire(a.home);
			r = create(&f, a.home, &m, id, &err);
		}
		status = r < 0 ? tree_fail(&a, &err) : print_id(&a, id);
	}
	cordon_policy_free(scratch);
	strlist_free(&f.labels);
	strlist_free(&f.env);
	strlist_free(&f.mounts);
	return status;
}
