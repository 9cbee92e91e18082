/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of the system and of toolchains: which of them process.allow lists and process.deny denies, and what Landlock has to be told. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/permit_parts.h"
#include "backend/programs.h"
#include "base/fs.h"
#include "base/glob.h"
#include "base/util.h"
#include "policy/cover.h"
#include "policy/helpers.h"
#include "policy/match.h"
#include "sandbox/landlock.h"

/* A name in a directory of programs, which may be a link. */
struct bin_entry {
	char *path; /* inside */
};
struct bins {
	struct bin_entry *items;
	size_t count, size;
};

int permit_out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- where they lie ----------------------------------------------------------------------------------------------------------- */

static bool is_system_bind(const struct setup_op *op)
{
	return op->kind == OP_BIND && !(op->flags & OP_CHECKED) && !strchr(op->target, '/');
}

static int add_root(struct permit *x, const char *host, const char *guest, struct place *place, struct cordon_error *err)
{
	struct program_root *root = &x->roots[x->root_count];
	char *real = realpath(host, NULL);

	if (!real || !plan_keep(x->plan, real))
		return real ? permit_out_of_memory(err)
		            : 0; /* what is not there holds nothing; who asked for it is told when it is mounted */
	*root = (struct program_root){.host = real, .guest = guest, .place = place};
	if (programs_find(x->home, real, &root->programs, err) < 0)
		return -1;
	x->root_count++;
	root->marks = calloc(root->programs.count + 1, 1);
	return root->marks ? 0 : permit_out_of_memory(err);
}

/* Each directory at the top of an image may hold programs, but for those that are covered by others and what is only read. */
static int add_image_root(void *arg, const char *name, const struct stat *st, int dir, struct cordon_error *err)
{
	static const char *const others[] = {"app", "dev", "etc", "proc", "run", "sys", "tmp"};
	struct permit *x = arg;
	struct program_root *more = realloc(x->roots, (x->root_count + 2) * sizeof(*more)), *root;
	char guest[NAME_MAX + 2];

	(void)dir;
	if (!more)
		return permit_out_of_memory(err);
	x->roots = more;
	root = &x->roots[x->root_count];
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(name, others[i]) == 0)
			return 0;
	if (!S_ISDIR(st->st_mode))
		return 0;
	snprintf(guest, sizeof(guest), "/%s", name);
	const char *path = plan_string(x->plan, guest);
	*root = (struct program_root){.host = path, .guest = path, .image = x->image};
	for (size_t i = 0; i < x->place_count; i++)
		if (x->places[i].image && strcmp(x->places[i].path, path) == 0)
			root->place = &x->places[i];
	if (programs_find_image(x->home, x->image, path, &root->programs, err) < 0)
		return -1;
	x->root_count++;
	root->marks = calloc(root->programs.count + 1, 1);
	return root->marks ? 0 : permit_out_of_memory(err);
}

static int find_roots(struct permit *x, bool layers_only, struct cordon_error *err)
{
	struct plan *p = x->plan;
	int r = 0;

	if (x->image && !layers_only && image_root_list(x->image, "/", add_image_root, x, err) < 0)
		return -1;
	struct program_root *more = realloc(x->roots, ((size_t)p->op_count + x->place_count + x->root_count + 1) * sizeof(*more));
	if (!more)
		return permit_out_of_memory(err);
	x->roots = more;
	for (uint32_t i = 0; i < p->op_count && r == 0 && !layers_only; i++) {
		char guest[PATH_MAX];
		struct stat st;

		if (!is_system_bind(&p->ops[i]) || lstat(p->ops[i].source, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		snprintf(guest, sizeof(guest), "/%s", p->ops[i].target);
		r = add_root(x, p->ops[i].source, plan_string(p, guest), NULL, err);
	}
	for (size_t i = 0; i < x->place_count && r == 0; i++)
		if (x->places[i].host && !x->places[i].denied)
			r = add_root(x, x->places[i].host, x->places[i].path, &x->places[i], err);
	return r;
}

void permit_free_programs(struct permit *x)
{
	for (size_t i = 0; i < x->root_count; i++) {
		programs_free(&x->roots[i].programs);
		free(x->roots[i].marks);
	}
	free(x->roots);
	strlist_free(&x->bins);
	x->roots = NULL;
	x->root_count = 0;
}

/* From a path inside to the one outside, and the root that shows it: NULL where there is none. */
const struct program_root *permit_outward(const struct permit *x, const char *guest, char out[PATH_MAX])
{
	const struct program_root *best = NULL;

	for (size_t i = 0; i < x->root_count; i++) {
		const struct program_root *r = &x->roots[i];

		if (fs_path_within(guest, r->guest) && (!best || strlen(r->guest) > strlen(best->guest)))
			best = r;
	}
	return best && snprintf(out, PATH_MAX, "%s%s", best->host, guest + strlen(best->guest)) < PATH_MAX ? best : NULL;
}

/* Through links, on the host or in the image. */
bool permit_real_path(const struct image_root *image, const char *path, char real[PATH_MAX])
{
	struct view_entry e;

	return image ? image_root_find(image, path, real, &e, NULL) > 0 : realpath(path, real) != NULL;
}

/* The other way round. One directory may be shown by several roots. */
bool permit_inward(const struct program_root *root, const char *host, char out[PATH_MAX])
{
	return fs_path_within(host, root->host) && snprintf(out, PATH_MAX, "%s%s", root->guest, host + strlen(root->host)) < PATH_MAX;
}

static int by_path(const void *key, const void *item)
{
	return strcmp(key, ((const struct program *)item)->path);
}

/* The file that a path inside is, through links, wherever it is shown. */
static void mark(struct permit *x, const char *guest, enum mark m)
{
	char host[PATH_MAX], real[PATH_MAX];

	const struct program_root *shown = permit_outward(x, guest, host);

	if (!shown || !permit_real_path(shown->image, host, real))
		return;
	for (size_t i = 0; i < x->root_count; i++) {
		const struct programs *p = &x->roots[i].programs;
		const bool same = x->roots[i].image == shown->image;
		const struct program *found = same && p->count ? bsearch(real, p->items, p->count, sizeof(*p->items), by_path) : NULL;

		if (found)
			x->roots[i].marks[found - p->items] |= (uint8_t)m;
	}
}

/* ---- directories of programs --------------------------------------------------------------------------------------------------- */

static int add_bin(struct bins *b, const char *dir, const char *name, struct cordon_error *err)
{
	if (b->count == b->size) {
		size_t size = b->size ? b->size * 2 : 1024;
		struct bin_entry *more = realloc(b->items, size * sizeof(*more));

		if (!more)
			return permit_out_of_memory(err);
		b->items = more;
		b->size = size;
	}
	if (asprintf(&b->items[b->count].path, "%s/%s", dir, name) < 0)
		return permit_out_of_memory(err);
	b->count++;
	return 0;
}

struct bin_list {
	struct bins *bins;
	const char *dir;
};

static int add_image_bin(void *arg, const char *name, const struct stat *st, int dir, struct cordon_error *err)
{
	const struct bin_list *l = arg;

	(void)dir;
	return name[0] == '.' || S_ISDIR(st->st_mode) ? 0 : add_bin(l->bins, l->dir, name, err);
}

static int list_image_bin(struct permit *x, struct bins *b, const char *dir, struct cordon_error *err)
{
	struct bin_list l = {b, dir};
	struct view_entry e;
	int r = view_stat(&x->image->view, dir + 1, &e, err);

	if (r < 0 || !S_ISDIR(e.st.st_mode))
		return r;
	return strlist_add(&x->bins, dir, err) < 0 ? -1 : image_root_list(x->image, dir, add_image_bin, &l, err);
}

static int list_bin(struct permit *x, struct bins *b, const char *dir, struct cordon_error *err)
{
	char host[PATH_MAX];
	struct stat st;
	const struct dirent *d;
	const struct program_root *shown = permit_outward(x, dir, host);

	if (!shown || strlist_has(&x->bins, dir))
		return 0;
	if (shown->image)
		return list_image_bin(x, b, host, err);
	if (lstat(host, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (strlist_add(&x->bins, dir, err) < 0)
		return -1;
	_cleanup_dir_ DIR *open_dir = opendir(host);
	while (open_dir && (d = readdir(open_dir)))
		if (d->d_name[0] != '.' && (d->d_type != DT_DIR) && add_bin(b, dir, d->d_name, err) < 0)
			return -1;
	return 0;
}

static int list_path(struct permit *x, struct bins *b, const struct strlist *env, struct cordon_error *err)
{
	int r = 0;

	for (size_t i = 0; i < env->count && r == 0; i++) {
		if (strncmp(env->items[i], "PATH=", 5) != 0)
			continue;
		for (const char *s = env->items[i] + 5; *s && r == 0;) {
			char dir[PATH_MAX];
			size_t n = strcspn(s, ":");

			snprintf(dir, sizeof(dir), "%.*s", (int)MIN(n, sizeof(dir) - 1), s);
			r = dir[0] == '/' ? list_bin(x, b, dir, err) : 0;
			s += n + (s[n] == ':');
		}
	}
	return r;
}

/* The system's, and what the PATH inside names in the image, or in mounts that cannot be written: toolchains. */
static int list_bins(struct permit *x, struct bins *b, struct cordon_error *err)
{
	int r = 0;

	for (size_t i = 0; policy_program_dirs[i] && r == 0; i++)
		r = list_bin(x, b, policy_program_dirs[i], err);
	if (r == 0 && x->image)
		r = list_path(x, b, &x->image->image.env, err);
	return r < 0 ? r : list_path(x, b, &x->policy->env_set, err);
}

static void free_bins(struct bins *b)
{
	for (size_t i = 0; i < b->count; i++)
		free(b->items[i].path);
	free(b->items);
}

/* ---- what the lists mean ------------------------------------------------------------------------------------------------------- */

/*
 * As in policy_match_program(), for what is no place that commands write to. There are thousands of programs: what a rule spells out at its beginning and
 * at its end is compared first.
 */
static bool rule_matches(const char *rule, const char *path, const char *name, bool wide)
{
	const size_t plain = strcspn(rule, "*?"), len = strlen(rule), name_len = strlen(name);

	if (rule[0] == '/')
		return strncmp(rule, path, cover_plain_part(rule)) == 0 && cover_path(rule, path, wide);
	if (!rule[plain])
		return strcmp(rule, name) == 0;
	if (strncmp(rule, name, plain) != 0 || name_len == 0 || (!strchr("*?", rule[len - 1]) && rule[len - 1] != name[name_len - 1]))
		return false;
	return glob_match(rule, name);
}

static bool any_matches(const struct strlist *rules, const char *path, bool wide)
{
	const char *name = last_name(path);

	for (size_t i = 0; i < rules->count; i++)
		if (rule_matches(rules->items[i], path, name, wide))
			return true;
	return false;
}

/* In a mount, a name counts only where the PATH finds it: whatever lies in somebody's data is not git because it is called that. */
static bool any_path_matches(const struct strlist *rules, const char *path)
{
	for (size_t i = 0; i < rules->count; i++)
		if (rules->items[i][0] == '/' && rule_matches(rules->items[i], path, "", false))
			return true;
	return false;
}

static bool is_denied(const struct permit *x, const char *path)
{
	const char *name = last_name(path);

	if (any_matches(&x->policy->process.deny, path, true))
		return true;
	for (size_t i = 0; !x->policy->process.shell && policy_shells[i]; i++)
		if (strcmp(policy_shells[i], name) == 0)
			return true;
	return false;
}

static bool names_one_of(const struct policy_helper *row, const char *name)
{
	for (size_t i = 0; row->programs[i]; i++)
		if (rule_matches(row->programs[i], name, name, false))
			return true;
	return false;
}

static int add_helpers(struct strlist *allow, const struct policy_helper *row, struct cordon_error *err)
{
	for (size_t i = 0; row->helpers[i]; i++)
		if (!strlist_has(allow, row->helpers[i]) && strlist_add(allow, row->helpers[i], err) < 0)
			return -1;
	return 0;
}

/* process.allow with the helpers of what it lists, and theirs. */
static int with_helpers(const struct permit *x, const struct bins *b, struct strlist *allow, struct cordon_error *err)
{
	bool used[64] = {false};

	if (strlist_copy(allow, &x->policy->process.allow, err) < 0)
		return -1;
	for (bool more = true; more;) {
		more = false;
		for (size_t row = 0; row < ARRAY_SIZE(used) && policy_helpers[row].programs; row++) {
			for (size_t i = 0; i < b->count && !used[row]; i++)
				used[row] = names_one_of(&policy_helpers[row], last_name(b->items[i].path)) &&
				            any_matches(allow, b->items[i].path, false) && (more = true);
			if (more && used[row] && add_helpers(allow, &policy_helpers[row], err) < 0)
				return -1;
		}
	}
	return 0;
}

static void mark_all(struct permit *x, const struct bins *b, const struct strlist *allow)
{
	char guest[PATH_MAX];

	for (size_t i = 0; i < b->count; i++) {
		if (x->listed && any_matches(allow, b->items[i].path, false))
			mark(x, b->items[i].path, MARK_LISTED);
		if (is_denied(x, b->items[i].path))
			mark(x, b->items[i].path, MARK_DENIED);
	}
	for (size_t r = 0; r < x->root_count; r++) {
		struct program_root *root = &x->roots[r];

		for (size_t i = 0; i < root->programs.count; i++) {
			if (!permit_inward(root, root->programs.items[i].path, guest))
				continue;
			if (x->listed && (root->place ? any_path_matches(allow, guest) : any_matches(allow, guest, false)))
				root->marks[i] |= MARK_LISTED;
			if (is_denied(x, guest))
				root->marks[i] |= MARK_DENIED;
		}
	}
}

/* Another name of the same file is the same program. */
static void mark_links(struct permit *x)
{
	for (size_t r = 0; r < x->root_count; r++) {
		struct program_root *root = &x->roots[r];

		for (size_t i = 0; i < root->programs.count; i++)
			for (size_t k = 0; (root->marks[i] & MARK_DENIED) && k < root->programs.count; k++)
				if (root->programs.items[k].ino == root->programs.items[i].ino &&
				    root->programs.items[k].dev == root->programs.items[i].dev)
					root->marks[k] |= MARK_DENIED;
	}
}

bool permit_is_listed(const struct program_root *root, size_t i)
{
	return root->marks[i] == MARK_LISTED;
}

static int collect(struct permit *x, struct cordon_error *err)
{
	char guest[PATH_MAX];

	for (size_t r = 0; r < x->root_count; r++) {
		struct program_root *root = &x->roots[r];

		for (size_t i = 0; i < root->programs.count; i++) {
			if (root->place && permit_is_listed(root, i) && permit_reads_all_of(x, root->place->path))
				root->place->runs = true;
			if ((root->marks[i] & MARK_DENIED) && permit_inward(root, root->programs.items[i].path, guest) &&
			    strlist_add(&x->deny, guest, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* Programs that are mounted one by one. */
static int find_mounted(struct permit *x, const struct strlist *allow, struct cordon_error *err)
{
	for (size_t i = 0; i < x->place_count; i++) {
		struct place *place = &x->places[i];

		if (!place->is_file || place->access != LANDLOCK_RX || place->denied)
			continue;
		if (is_denied(x, place->path)) {
			if (strlist_add(&x->deny, place->path, err) < 0)
				return -1;
		} else {
			place->runs = x->listed && any_matches(allow, place->path, false) && permit_reads_all_of(x, place->path);
		}
	}
	return 0;
}

int permit_find_programs(struct permit *x, bool layers_only, struct cordon_error *err)
{
	const struct policy_process *p = &x->policy->process;
	struct bins b = {0};
	struct strlist allow = {0};
	bool mounts = false;
	int r;

	for (size_t i = 0; i < x->place_count; i++)
		mounts = mounts || x->places[i].host || x->places[i].is_file;
	if ((!x->listed && p->shell && p->deny.count == 0) || (layers_only && !mounts))
		return 0;
	r = find_roots(x, layers_only, err);
	if (r == 0)
		r = list_bins(x, &b, err);
	if (r == 0 && x->listed)
		r = with_helpers(x, &b, &allow, err);
	if (r == 0) {
		mark_all(x, &b, &allow);
		mark_links(x);
		r = collect(x, err) < 0 ? -1 : find_mounted(x, &allow, err);
	}
	free_bins(&b);
	strlist_free(&allow);
	return r;
}
