/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/permit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/permit_parts.h"
#include "base/fs.h"
#include "base/glob.h"
#include "base/util.h"
#include "policy/cover.h"
#include "policy/match.h"
#include "sandbox/landlock.h"

#define PATTERNS_MAX 4096

static bool is_default(const struct cordon_policy *p)
{
	static const char *const keys[] = {"files.read",    "files.write",   "files.deny",   "files.hidden",
	                                   "process.shell", "process.allow", "process.deny", "process.native"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!policy_is_default(p, policy_key_find(keys[i])))
			return false;
	return true;
}

/* Everything there is. */
static bool has_root(const struct strlist *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (cover_path(patterns->items[i], "/", false))
			return true;
	return false;
}

static bool covered(const struct strlist *patterns, const char *path, bool wide)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (patterns->items[i][0] == '/' && cover_path(patterns->items[i], path, wide))
			return true;
	return false;
}

/* ---- places ------------------------------------------------------------------------------------------------------------------- */

static bool place_of(const struct setup_op *op, struct place *out)
{
	static const uint32_t own[OP_KIND_COUNT] = {[OP_SCRATCH] = 1, [OP_LAYERED] = 1, [OP_VOLATILE] = 1, [OP_ALIAS] = 1};
	const bool writable = own[op->kind] || (op->flags & OP_WRITABLE);
	struct stat st;

	if (!own[op->kind] && !(op->kind == OP_BIND && (op->flags & OP_CHECKED)) && !(op->kind == OP_FILE && (op->flags & OP_CAREFUL)))
		return false;
	*out = (struct place){.access = LANDLOCK_RWX, .is_file = op->kind == OP_FILE};
	if (op->kind == OP_VOLATILE && (op->flags & OP_NOEXEC))
		out->access = LANDLOCK_RW;
	if (!writable)
		out->access = LANDLOCK_RX;
	if (op->kind == OP_BIND)
		out->is_file = stat(op->source, &st) == 0 && !S_ISDIR(st.st_mode);
	if (op->kind == OP_BIND && !writable && !out->is_file)
		out->host = op->source;
	return true;
}

/* Its second path lies in a tree that is denied, but it is not what the rule means: then it goes by its first path alone. */
static void drop_denied_alias(struct permit *x)
{
	const struct strlist *deny = &x->policy->files.deny;
	struct plan *p = x->plan;
	char path[4096], stem[GLOB_MAX + 1];
	bool denied = false, meant = false;
	uint32_t at = 0;

	while (at < p->op_count && p->ops[at].kind != OP_ALIAS)
		at++;
	if (at == p->op_count)
		return;
	snprintf(path, sizeof(path), "/%s", p->ops[at].target);
	for (size_t i = 0; i < deny->count; i++) {
		snprintf(stem, sizeof(stem), "%.*s", (int)cover_stem(deny->items[i]), deny->items[i]);
		denied = denied || cover_path(deny->items[i], path, true);
		meant = meant || glob_match(stem, path);
	}
	if (!denied || meant)
		return;
	memmove(p->ops + at, p->ops + at + 1, (p->op_count - at - 1) * sizeof(*p->ops));
	p->op_count--;
}

static bool is_system_or_place(const struct permit *x, const char *path)
{
	static const char *const covered_by_others[] = {"/app", "/run", "/sys", "/tmp"};

	for (size_t i = 0; i < ARRAY_SIZE(covered_by_others); i++)
		if (strcmp(path, covered_by_others[i]) == 0)
			return true;
	for (size_t i = 0; policy_system_paths[i]; i++)
		if (strcmp(path, policy_system_paths[i]) == 0)
			return true;
	for (size_t i = 0; i < x->place_count; i++)
		if (strcmp(path, x->places[i].path) == 0)
			return true;
	return false;
}

/* An image has more than the system: /opt, /srv. With a list of programs such a directory is granted piece by piece, if it is granted at all: nothing but Landlock holds it. */
static int add_image_place(void *arg, const char *name, const struct stat *st, int dir, struct cordon_error *err)
{
	struct permit *x = arg;
	char path[NAME_MAX + 2];
	struct place *more;

	(void)dir;
	snprintf(path, sizeof(path), "/%s", name);
	if (!S_ISDIR(st->st_mode) || is_system_or_place(x, path))
		return 0;
	more = realloc(x->places, (x->place_count + 1) * sizeof(*more));
	if (!more)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	x->places = more;
	struct place *place = &x->places[x->place_count++];
	*place = (struct place){.path = plan_string(x->plan, path), .access = LANDLOCK_RX, .image = true};
	place->denied = covered(&x->policy->files.deny, place->path, true);
	place->runs = x->listed && permit_reads_all_of(x, place->path);
	return 0;
}

static int find_places(struct permit *x, bool layers_only, struct cordon_error *err)
{
	struct plan *p = x->plan;

	x->places = calloc(p->op_count + 1, sizeof(*x->places));
	if (!x->places)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	for (uint32_t i = 0; i < p->op_count; i++) {
		struct place *place = &x->places[x->place_count];
		char path[4096];

		if (!place_of(&p->ops[i], place))
			continue;
		snprintf(path, sizeof(path), "/%s", p->ops[i].target);
		place->path = plan_string(p, path);
		place->op = i;
		place->denied = covered(&x->policy->files.deny, place->path, true);
		if (p->ops[i].kind == OP_ALIAS)
			x->alias = place->path;
		x->place_count++;
	}
	return x->image && !layers_only ? image_root_list(x->image, "/", add_image_place, x, err) : 0;
}

/* The workspace goes by two paths. */
static bool is_workspace(const struct permit *x, const char *path)
{
	return strcmp(path, "/app") == 0 || (x->alias && strcmp(path, x->alias) == 0);
}

/* What is denied by one of them is denied by the other. */
static void deny_both(struct permit *x)
{
	bool denied = false;

	for (size_t i = 0; i < x->place_count; i++)
		denied = denied || (x->places[i].denied && is_workspace(x, x->places[i].path));
	for (size_t i = 0; i < x->place_count; i++)
		x->places[i].denied = x->places[i].denied || (denied && is_workspace(x, x->places[i].path));
}

/* ---- rules -------------------------------------------------------------------------------------------------------------------- */

static uint32_t granted(const struct permit *x, const struct place *place, bool write)
{
	if (!write || place->access == LANDLOCK_RX)
		return x->listed || place->access == LANDLOCK_RW ? LANDLOCK_R : LANDLOCK_RX;
	return x->listed ? LANDLOCK_RW : place->access;
}

/* A rule for what a pattern means in a place. */
static void grant_in(struct permit *x, const struct place *place, const char *pattern, uint32_t access)
{
	char start[4096];
	const size_t plain = cover_plain_part(pattern), stem = cover_stem(pattern);

	if (place->denied || (place->image && x->listed))
		return;
	if (cover_path(pattern, place->path, false) && (place->is_file || cover_is_tree(pattern))) {
		if (!place->runs) /* else it is granted piece by piece */
			plan_rule(x->plan, place->path, access);
		return;
	}
	if (place->is_file || !cover_below(pattern, place->path))
		return;
	snprintf(start, sizeof(start), "%.*s", (int)MIN(plain, stem), pattern);
	if (plain >= stem) { /* a path */
		plan_rule(x->plan, plan_string(x->plan, start), access);
		return;
	}
	const char *from = fs_path_within(start, place->path) ? plan_string(x->plan, start) : place->path;
	plan_rule(x->plan, from, access);
	x->plan->rules[x->plan->rule_count - 1].pattern = pattern;
}

static void grant(struct permit *x, const struct strlist *patterns, bool write)
{
	for (size_t i = 0; i < patterns->count; i++)
		for (size_t k = 0; k < x->place_count; k++)
			grant_in(x, &x->places[k], patterns->items[i], granted(x, &x->places[k], write));
}

static bool is_program_tree(const char *path)
{
	static const char *const trees[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		if (strcmp(path, trees[i]) == 0)
			return true;
	return false;
}

static bool any_denied(const struct permit *x)
{
	for (size_t i = 0; i < x->place_count; i++)
		if (x->places[i].denied)
			return true;
	for (size_t i = 0; policy_system_paths[i]; i++)
		if (covered(&x->policy->files.deny, policy_system_paths[i], true))
			return true;
	return false;
}

static void system_rules(struct permit *x)
{
	for (size_t i = 0; policy_system_paths[i]; i++) {
		const char *path = policy_system_paths[i];

		if (covered(&x->policy->files.deny, path, true) || (x->listed && is_program_tree(path)))
			continue;
		plan_rule(x->plan, path, x->listed ? LANDLOCK_R : LANDLOCK_RX);
	}
}

/* Devices and terminals are as they always are. */
static void keep_rules(struct permit *x)
{
	struct plan *p = x->plan;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->rule_count; i++)
		if ((p->rules[i].access == LANDLOCK_TTY || p->rules[i].access == LANDLOCK_DEV) &&
		    !covered(&x->policy->files.deny, p->rules[i].path, true))
			p->rules[kept++] = p->rules[i];
	p->rule_count = kept;
}

bool permit_reads_all_of(const struct permit *x, const char *path)
{
	return covered(&x->policy->files.read, path, false) || covered(&x->policy->files.write, path, false);
}

static void file_rules(struct permit *x)
{
	const struct policy_files *f = &x->policy->files;
	const bool write_all = has_root(&f->write), read_all = write_all || has_root(&f->read), denied = any_denied(x);

	if (write_all && !denied && !x->listed)
		return;
	keep_rules(x);
	if (read_all && !denied)
		plan_rule(x->plan, "/", x->listed ? LANDLOCK_LIST : LANDLOCK_RX);
	if (!read_all || denied || x->listed)
		system_rules(x);
	for (size_t i = 0; i < x->place_count; i++)
		if ((write_all || read_all) && !x->places[i].denied && !x->places[i].runs)
			plan_rule(x->plan, x->places[i].path, granted(x, &x->places[i], write_all));
	if (!write_all)
		grant(x, &f->write, true);
	if (!read_all)
		grant(x, &f->read, false);
}

/* ---- programs that are not the system's ---------------------------------------------------------------------------------------- */

static bool runs_as_a_whole(const struct permit *x, const struct place *place)
{
	const struct strlist *allow = &x->policy->process.allow;

	for (size_t i = 0; i < allow->count; i++)
		if (allow->items[i][0] == '/' && cover_is_tree(allow->items[i]) && cover_path(allow->items[i], place->path, false))
			return true;
	return place->runs;
}

/* What may be executed in it, if it is not all of it. */
static void run_in(struct permit *x, const struct place *place, bool rules)
{
	const struct strlist *allow = &x->policy->process.allow;

	for (size_t i = 0; i < allow->count && rules; i++)
		if (allow->items[i][0] == '/')
			grant_in(x, place, allow->items[i], LANDLOCK_X);
}

static void forbid_exec(struct permit *x, bool rules)
{
	for (size_t i = 0; i < x->place_count; i++) {
		const struct place *place = &x->places[i];
		struct setup_op *op = &x->plan->ops[place->op];
		const bool writable = place->access != LANDLOCK_RX;

		if (op->kind == OP_ALIAS || op->kind == OP_FILE || place->image)
			continue;
		if ((!x->policy->process.native && writable) || (x->listed && !runs_as_a_whole(x, place)))
			op->flags |= OP_NOEXEC;
		if (x->listed && !place->denied)
			run_in(x, place, rules);
	}
}

/* ---- operations --------------------------------------------------------------------------------------------------------------- */

/* The patterns that may name something below the path, as a list that lives as long as the plan. */
static struct string_list list_below(struct permit *x, const struct strlist *patterns, const char *path, bool paths_only)
{
	struct string_list out = {calloc(patterns->count + 1, sizeof(*out.items)), 0};

	if (!out.items || !plan_keep(x->plan, out.items)) {
		x->plan->failed = true;
		return (struct string_list){0};
	}
	for (size_t i = 0; i < patterns->count; i++)
		if ((!paths_only || patterns->items[i][0] == '/') &&
		    (cover_names(patterns->items[i], path) || cover_below(patterns->items[i], path)))
			out.items[out.count++] = plan_string(x->plan, patterns->items[i]);
	return out;
}

static struct string_list list_of(struct permit *x, const struct strlist *items)
{
	struct string_list out = {calloc(items->count + 1, sizeof(*out.items)), 0};

	if (!out.items || !plan_keep(x->plan, out.items)) {
		x->plan->failed = true;
		return (struct string_list){0};
	}
	for (size_t i = 0; i < items->count; i++)
		out.items[out.count++] = plan_string(x->plan, items->items[i]);
	return out;
}

/* Masks in one tree: what is denied, and names with a dot. target: "." or without the slash in front; name: the path to compare with. */
static void hide_in(struct permit *x, const char *target, const char *name, const struct strlist *skip)
{
	const struct string_list deny = list_below(x, &x->deny, name, true);

	if (deny.count > 0)
		plan_op(x->plan, OP_HIDE, target, name, 0)->find = (struct op_find){.patterns = deny, .skip = list_of(x, skip)};
}

/* What the lists spell out, in the workspace's first path where it is its second that they spell. */
static void keep_spelled(struct permit *x, const struct strlist *patterns, struct string_list *keep)
{
	char path[GLOB_MAX + 1];

	for (size_t i = 0; i < patterns->count; i++) {
		const char *pattern = patterns->items[i];

		keep->items[keep->count++] = plan_string(x->plan, pattern);
		if (!x->alias || !fs_path_within(pattern, x->alias))
			continue;
		snprintf(path, sizeof(path), "/app%s", pattern + strlen(x->alias));
		keep->items[keep->count++] = plan_string(x->plan, path);
	}
}

static void hide_dots(struct permit *x, const char *target, const char *name, const struct strlist *skip)
{
	const struct policy_files *f = &x->policy->files;
	struct string_list keep = {calloc(2 * (f->read.count + f->write.count) + 1, sizeof(*keep.items)), 0};

	if (f->hidden)
		return free(keep.items);
	if (!keep.items || !plan_keep(x->plan, keep.items)) {
		x->plan->failed = true;
		return;
	}
	keep_spelled(x, &f->read, &keep);
	keep_spelled(x, &f->write, &keep);
	plan_op(x->plan, OP_HIDE, target, name, OP_DOTS)->find = (struct op_find){.keep = keep, .skip = list_of(x, skip)};
}

static void exec_in(struct permit *x, const struct place *place, const char *target)
{
	const struct string_list allow = list_below(x, &x->policy->process.allow, place->path, true);

	if (!x->listed || !x->policy->process.native || place->denied || place->image || runs_as_a_whole(x, place) || allow.count == 0 ||
	    place->access == LANDLOCK_RW)
		return;
	plan_op(x->plan, OP_EXEC, target, place->path, 0)->find = (struct op_find){.patterns = allow};
}

/* In the workspace, by both of its paths, before it is shown a second time with all that is mounted in it. */
static void workspace_ops(struct permit *x)
{
	const struct strlist none = {0};

	for (size_t i = 0; i < x->place_count; i++) {
		const struct place *place = &x->places[i];

		if (!is_workspace(x, place->path) || place->denied)
			continue;
		hide_in(x, "app", place->path, &none);
		if (strcmp(place->path, "/app") == 0)
			hide_dots(x, "app", "/app", &none);
		exec_in(x, place, "app");
	}
}

static bool in_workspace(const struct permit *x, const char *path)
{
	return fs_path_within(path, "/app") || (x->alias && fs_path_within(path, x->alias));
}

/* In everything else: the whole root at once, where it is being built; what is mounted in the workspace one by one. */
static int other_ops(struct permit *x, bool layers_only, struct cordon_error *err)
{
	static const char *const needed[] = {"/dev", "/etc",
	                                     "/run/code"}; /* set-up itself needs them: Landlock alone denies them as a whole */
	struct strlist skip = {0};
	const struct strlist none = {0};
	int r = strlist_add(&skip, "/proc", err) < 0 || strlist_add(&skip, "/app", err) < 0 ||
	        (x->alias && strlist_add(&skip, x->alias, err) < 0);

	for (size_t i = 0; i < x->place_count && !r; i++)
		if (x->places[i].denied && !in_workspace(x, x->places[i].path))
			r = strlist_add(&skip, x->places[i].path, err) < 0;
	for (size_t i = 0; i < ARRAY_SIZE(needed) && !r; i++)
		if (covered(&x->policy->files.deny, needed[i], true))
			r = strlist_add(&skip, needed[i], err) < 0;
	if (!r && !layers_only)
		hide_in(x, ".", "/", &skip);
	for (size_t i = 0; i < x->place_count && !r; i++) {
		const struct place *place = &x->places[i];

		if (is_workspace(x, place->path) || (place->denied && !in_workspace(x, place->path)))
			continue;
		if (layers_only || in_workspace(x, place->path))
			hide_in(x, place->path + 1, place->path, &none);
		hide_dots(x, place->path + 1, place->path, in_workspace(x, place->path) ? &none : &skip);
		exec_in(x, place, place->path + 1);
	}
	strlist_free(&skip);
	return r ? -1 : 0;
}

/* Moves what was added since `from` to where the workspace has been mounted, but is not shown again yet. */
static void move_before_alias(struct permit *x, uint32_t from)
{
	struct plan *p = x->plan;
	const uint32_t added = p->op_count - from;
	uint32_t at = 0;

	while (at < from && strcmp(p->ops[at].target, "app") != 0)
		at++;
	at++;
	if (added == 0 || at >= from)
		return;
	struct setup_op *copy = malloc(added * sizeof(*copy));
	if (!copy) {
		p->failed = true;
		return;
	}
	memcpy(copy, p->ops + from, added * sizeof(*copy));
	memmove(p->ops + at + added, p->ops + at, (from - at) * sizeof(*copy));
	memcpy(p->ops + at, copy, added * sizeof(*copy));
	free(copy);
}

static int operations(struct permit *x, bool layers_only, struct cordon_error *err)
{
	const uint32_t from = x->plan->op_count;
	bool has_workspace = false;

	for (size_t i = 0; i < x->place_count; i++)
		has_workspace = has_workspace || strcmp(x->places[i].path, "/app") == 0;
	if (has_workspace)
		workspace_ops(x);
	move_before_alias(x, from);
	return other_ops(x, layers_only, err);
}

/* ---- all together ------------------------------------------------------------------------------------------------------------- */

/* What could not be held, or would leave nothing to run. */
static int check_patterns(const struct strlist *patterns, const char *key, struct cordon_error *err)
{
	for (size_t i = 0; i < patterns->count; i++) {
		const char *pattern = patterns->items[i];

		if (pattern[0] == '/' && cover_path(pattern, "/", true))
			return err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' denies everything, so that nothing could run", key, pattern);
		if (!fs_path_within(pattern, "/proc") || strcmp(pattern, "/proc/**") == 0 || !strpbrk(pattern, "*?"))
			continue;
		err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' cannot be held: entries of /proc come and go", key, pattern);
		return err_hint(err, "name /proc as a whole, or a file of it without wildcards");
	}
	return 0;
}

static int collect_denied(struct permit *x, struct cordon_error *err)
{
	const struct strlist *lists[] = {&x->policy->files.deny, &x->policy->process.deny};

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		for (size_t i = 0; i < lists[k]->count; i++)
			if (lists[k]->items[i][0] == '/' && strlist_add(&x->deny, lists[k]->items[i], err) < 0)
				return -1;
	return 0;
}

static int permit(struct permit *x, bool layers_only, uint32_t *flags, struct cordon_error *err)
{
	if (check_patterns(&x->policy->files.deny, "files.deny", err) < 0 ||
	    check_patterns(&x->policy->process.deny, "process.deny", err) < 0 || collect_denied(x, err) < 0)
		return -1;
	drop_denied_alias(x);
	if (find_places(x, layers_only, err) < 0)
		return -1;
	deny_both(x);
	if (permit_find_programs(x, layers_only, err) < 0)
		return -1;
	if (x->deny.count > PATTERNS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the policy denies %zu programs and paths; at most %d can be masked", x->deny.count,
		               PATTERNS_MAX);
	if (!layers_only) {
		file_rules(x);
		if (permit_program_rules(x, err) < 0)
			return -1;
	}
	forbid_exec(x, !layers_only);
	*flags |= SPEC_PERMITS;
	return operations(x, layers_only, err);
}

int permit_plan(struct plan *p, const struct cordon_policy *policy, const char *home, const struct image_root *image, bool layers_only,
                uint32_t *flags, struct cordon_error *err)
{
	struct permit x = {.plan = p, .policy = policy, .home = home, .image = image, .listed = !policy_runs_anything(policy)};
	int r;

	if (is_default(policy))
		return 0;
	r = permit(&x, layers_only, flags, err);
	if (r == 0 && p->failed)
		r = err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	free(x.places);
	strlist_free(&x.deny);
	permit_free_programs(&x);
	return r;
}

void permit_stay(struct plan *p)
{
	const struct setup_op *alias = NULL;
	const uint32_t count = p->op_count;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (p->ops[i].kind == OP_ALIAS)
			alias = &p->ops[i];
	const char *second = alias ? alias->target : NULL;
	for (uint32_t i = 0; i < count; i++) {
		if (p->ops[i].kind != OP_HIDE && p->ops[i].kind != OP_EXEC)
			continue;
		if (second && strcmp(p->ops[i].target, "app") == 0) { /* it is there already: each place by itself */
			struct op_find find = p->ops[i].find;

			plan_op(p, p->ops[i].kind, second, p->ops[i].source, p->ops[i].flags)->find = find;
		}
		p->ops[kept++] = p->ops[i];
	}
	if (p->op_count > count)
		memmove(p->ops + kept, p->ops + count, (p->op_count - count) * sizeof(*p->ops));
	p->op_count = kept + (p->op_count - count);
	p->rule_count = 0;
}
