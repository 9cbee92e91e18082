/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

/* ---- arguments and errors ---------------------------------------------------------------------------------------------------- */

void tree_args_free(struct tree_args *a)
{
	free(a->home);
	a->home = NULL;
}

int tree_print_json(const struct tree_args *a, const struct buf *line, int status)
{
	struct cordon_error err = {0};

	if (!line->failed) {
		puts(line->data);
		return status;
	}
	err_set(&err, CORDON_ERR_SYSTEM, "out of memory");
	report_error("cordon", &err);
	(void)a;
	return EXIT_CORDON_FAILED;
}

static void print_json_error(const struct cordon_error *err)
{
	static const char *const codes[] = {
		[CORDON_OK] = "error",
		[CORDON_ERR_INPUT] = "invalid",
		[CORDON_ERR_NOT_FOUND] = "not_found",
		[CORDON_ERR_NOT_RUNNABLE] = "not_runnable",
		[CORDON_ERR_DENIED] = "denied",
		[CORDON_ERR_WEAK_HOST] = "weak_host",
		[CORDON_ERR_SYSTEM] = "system",
		[CORDON_ERR_BUSY] = "busy",
	};
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "code", (size_t)err->code < ARRAY_SIZE(codes) ? codes[err->code] : "error");
	json_kstr(&j, "message", err->message);
	json_kstr(&j, "hint", err->hint[0] ? err->hint : NULL);
	json_end(&j);
	json_end(&j);
	if (!line.failed)
		puts(line.data);
}

int tree_fail(const struct tree_args *a, const struct cordon_error *err)
{
	char who[64];

	snprintf(who, sizeof(who), "cordon %s", a->command->name);
	report_error(who, err);
	if (a->json)
		print_json_error(err);
	return EXIT_CORDON_FAILED;
}

/* The first form of the command's operands says what is missing. */
static bool enough(const struct tree_form *form, const struct tree_args *a, struct parsed_options *parsed)
{
	int given = a->count;
	const char *forms = a->command->operands;

	if (given < form->least)
		err_set(&parsed->err, CORDON_ERR_INPUT, "something is missing: cordon %s %.*s", form->command, (int)strcspn(forms, "\n"),
		        forms);
	else if (form->most >= 0 && given > form->most)
		err_set(&parsed->err, CORDON_ERR_INPUT, "'%s' is one word too many", a->operands[form->most]);
	else
		return true;
	parsed->usage = true;
	return false;
}

bool tree_parse(const struct tree_form *form, int argc, char **argv, struct tree_args *out, int *status)
{
	struct parsed_options parsed;

	*out = (struct tree_args){.command = command_find(form->command)};
	options_parse_settings(out->command, argc, argv, form->target, form->policy, form->settings, &parsed);
	out->json = form->json && *form->json;
	out->operands = argv + parsed.first;
	out->count = argc - parsed.first;
	out->dashes = parsed.dashes - parsed.first;
	if (!parsed.help && parsed.err.code == CORDON_OK && enough(form, out, &parsed))
		out->home = context_find_home(&parsed.err);
	if (!parsed.help && parsed.err.code != CORDON_OK && out->json)
		print_json_error(&parsed.err);
	return options_accept(out->command, &parsed, status);
}

/* ---- sandboxes --------------------------------------------------------------------------------------------------------------- */

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int tree_op(const struct tree_args *a, const char *what, enum op_verb verb, const char *const *args, bool wait, struct op_reply *reply,
            struct cordon_error *err)
{
	struct op_request request = {.verb = verb};
	int r = 0;

	for (size_t i = 0; args && args[i] && r == 0; i++)
		r = strlist_add(&request.args, args[i], err);
	if (r == 0)
		r = keeper_op(a->home, what, &request, wait, reply, err);
	op_request_free(&request);
	if (r < 0 && err->code == CORDON_ERR_BUSY && !err->hint[0])
		err_hint(err, "--wait waits until it is free");
	return r;
}

int tree_peek(struct live *l, const char *home, const char *what, enum box_state *state, struct cordon_error *err)
{
	enum box_state now;

	*l = (struct live){.lock = -1, .seed = -1, .store = {.layers_fd = -1, .boxes_fd = -1}};
	if (store_open(&l->store, home, err) < 0)
		return -1;
	if (box_find(&l->store, what, &l->box, err) < 0 || keeper_state(home, l->box.id, &now, err) < 0)
		goto fail;
	if (now == BOX_STOPPED)
		l->box.open[0] = '\0'; /* left by one that was killed */
	if (!l->box.open[0])
		memcpy(l->box.lower, l->box.head, sizeof(l->box.lower));
	if (l->box.workspace && (l->seed = open(l->box.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
		err_sys(err, "workspace %s", l->box.workspace);
		goto fail;
	}
	if (state)
		*state = now;
	return 0;
fail:
	live_close(l);
	return -1;
}

int tree_view(const struct live *l, enum layer_tree tree, struct view *out, struct cordon_error *err)
{
	return live_view(l, tree, out, err);
}

void tree_expire(struct store *s, const char *home)
{
	struct box_list all = {0};
	bool removed = false;

	if (box_list(s, &all, NULL) < 0)
		return;
	for (size_t i = 0; i < all.count; i++) {
		const struct box *b = &all.items[i].box;

		if (all.items[i].damaged || b->ttl_ms == 0 || now_ms() - b->created_ms < b->ttl_ms)
			continue;
		keeper_stop(home, b->id, NULL);
		removed = live_remove(s, b->id, "expire", NULL) == 0 || removed;
	}
	box_list_free(&all);
	if (removed)
		store_collect(s, now_ms(), NULL);
}

int tree_recover(const char *directory, struct cordon_error *err)
{
	static const char *const said[] = {[RECOVERED_UNDONE] = "undid an interrupted commit in",
	                                   [RECOVERED_FINISHED] = "finished an interrupted commit in",
	                                   [RECOVERED_FOREIGN] = "left alone an interrupted commit that is not ours in"};
	enum commit_recovered what = RECOVERED_NOTHING;
	_cleanup_free_ char *home = context_find_home(err);
	_cleanup_fd_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!home)
		return -1;

	if (fd < 0)
		return err_sys(err, "%s", directory);
	if (commit_recover(fd, directory, home, &what, err) < 0)
		return -1;
	if (what != RECOVERED_NOTHING)
		fprintf(stderr, "cordon: %s %s\n", said[what], directory);
	return 0;
}

int tree_check_workspace(const char *real, const char *home, struct cordon_error *err)
{
	_cleanup_free_ char *state = realpath(home, NULL);

	if (strcmp(real, "/") == 0)
		err_set(err, CORDON_ERR_INPUT, "the root directory cannot be a workspace");
	else if (fs_path_within(state ? state : home, real))
		err_set(err, CORDON_ERR_INPUT, "%s holds cordon's own state (%s)", real, home);
	else if (state && fs_path_within(real, state))
		err_set(err, CORDON_ERR_INPUT, "%s lies in cordon's own state (%s)", real, home);
	else
		return 0;
	return err_hint(err, "take the directory of a project");
}

/* ---- changes ----------------------------------------------------------------------------------------------------------------- */

static const char *skip_prefix(const char *path, const char *prefix)
{
	size_t len = strlen(prefix);

	if (strncmp(path, prefix, len) != 0 || (path[len] != '/' && path[len]))
		return NULL;
	return path + len;
}

char *tree_path(const char *workspace, const char *given, struct cordon_error *err)
{
	_cleanup_buf_ struct buf path = {0};
	const char *rest = given;

	if (*given == '/') {
		rest = skip_prefix(given, "/app");
		if (!rest && workspace)
			rest = skip_prefix(given, workspace);
		if (!rest) {
			err_set(err, CORDON_ERR_INPUT, "'%.200s' does not lie in the workspace", given);
			return NULL;
		}
	}
	for (size_t len; *rest; rest += len) {
		rest += strspn(rest, "/");
		len = strcspn(rest, "/");
		if (len == 0 || (len == 1 && rest[0] == '.'))
			continue;
		if (len == 2 && rest[0] == '.' && rest[1] == '.') {
			err_set(err, CORDON_ERR_INPUT, "'%.200s': a path with '..' could mean anything; give one without", given);
			return NULL;
		}
		buf_addf(&path, "%s", path.len ? "/" : "");
		buf_add(&path, rest, len);
	}
	char *out = buf_steal(&path);
	if (!out)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return out;
}

static bool selected(const char *path, const struct strlist *paths)
{
	for (size_t i = 0; i < paths->count; i++) {
		size_t len = strlen(paths->items[i]);

		if (len == 0 || (strncmp(path, paths->items[i], len) == 0 && (path[len] == '\0' || path[len] == '/')))
			return true;
	}
	return paths->count == 0;
}

int tree_select(const struct changes *all, const struct strlist *paths, struct changes *out, struct cordon_error *err)
{
	*out = (struct changes){.items = calloc(all->count + 1, sizeof(*out->items)), .size = all->count + 1};
	if (!out->items)
		return err_sys(err, "cannot list the changes");
	for (size_t i = 0; i < all->count; i++) {
		if (!selected(all->items[i].path, paths))
			continue;
		out->items[out->count++] = all->items[i];
		out->bytes += all->items[i].bytes;
	}
	return 0;
}

void tree_json_changes(struct json *j, const struct changes *c, size_t most)
{
	json_array(j);
	for (size_t i = 0; i < c->count && i < most; i++) {
		json_object(j);
		json_kstr(j, "op", change_op_names[c->items[i].op]);
		json_kpath(j, c->items[i].path);
		json_kint(j, "bytes", (int64_t)c->items[i].bytes);
		json_end(j);
	}
	json_end(j);
}

const char *tree_count(uint64_t n, const char *what, char buf[FORMAT_MAX * 2])
{
	snprintf(buf, FORMAT_MAX * 2, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
	return buf;
}
