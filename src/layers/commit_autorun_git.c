/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git takes for a repository. It does not ask for the name: any directory with HEAD, objects and refs is one (is_git_directory() in
 * git's setup.c), and whoever stands in it, or below it, and says `git status` runs what its config says. objects and refs may be anything
 * that access(2) finds executable, links and files too, and a file `commondir` may say that they, and config and hooks, are elsewhere.
 * (Such files are in the table of names: nothing but git has them, and no work but `git worktree add` makes them.)
 *
 * So for every directory above a changed path: would git take it for a repository after the commit? Then, and in whatever is called .git,
 *
 *   - a commit that makes it one is refused: the parts that make it so,
 *   - in one that the host has, all is refused but what ordinary work writes: the table below, counted from this directory, not from
 *     anywhere further down, where a worktree or submodule may be called "logs".
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "layers/autorun_parts.h"
#include "layers/view_parts.h"

enum parts {
	PART_HEAD = 1 << 0,
	PART_OBJECTS = 1 << 1,
	PART_REFS = 1 << 2,
	PART_COMMONDIR = 1 << 3,
	PART_GIT = 1 << 4, /* no part: a work tree has it */
};

static const struct {
	const char *name;
	unsigned part;
} part_names[] = {
	{"HEAD", PART_HEAD}, {"objects", PART_OBJECTS}, {"refs", PART_REFS}, {"commondir", PART_COMMONDIR}, {".git", PART_GIT},
};

/* Looser than git is: what a HEAD says and what kind of thing the others are does not count, since a later commit can change it. */
static bool make_repository(unsigned parts)
{
	return (parts & PART_HEAD) && ((parts & PART_COMMONDIR) || ((parts & PART_OBJECTS) && (parts & PART_REFS)));
}

/* The part that a name is, or 0. */
static unsigned part_of(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(part_names); i++)
		if (strlen(part_names[i].name) == len && strncasecmp(part_names[i].name, name, len) == 0)
			return part_names[i].part;
	return 0;
}

/* ---- what ordinary work writes ------------------------------------------------------------------------------------------------- */

enum verdict { HARMLESS, HARMFUL, UP_TO_REPOSITORY_BELOW };

/*
 * Commits, branches, merges, stashes, fetches, gc, git-lfs. All of it is data: names of objects, texts, lists of files.
 *   - info/exclude, as .gitignore, only hides names; info/attributes would choose among the programs that the configuration has.
 *   - not in progress: a rebase's, an am's or a sequencer's list of things to do runs commands, a bisection's was once evaluated by a shell.
 */
static const struct {
	const char *pattern;
	enum verdict verdict;
} git_files[] = {
	{"objects/**", HARMLESS},
	{"refs/**", HARMLESS},
	{"reftable/**", HARMLESS},
	{"packed-refs", HARMLESS},
	{"logs/**", HARMLESS},
	{"head", HARMLESS},
	{"*_head", HARMLESS},
	{"index", HARMLESS},
	{"index.lock", HARMLESS},
	{"sharedindex.*", HARMLESS},
	{"shallow", HARMLESS},
	{"info/exclude", HARMLESS},
	{"info/refs", HARMLESS},
	{"info/grafts", HARMLESS},
	{"lfs/objects/**", HARMLESS},
	{"rr-cache/**", HARMLESS},
	{"auto_merge", HARMLESS},
	{"merge_autostash", HARMLESS},
	{"merge_msg", HARMLESS},
	{"merge_mode", HARMLESS},
	{"merge_rr", HARMLESS},
	{"squash_msg", HARMLESS},
	{"commit_editmsg", HARMLESS},
	{"tag_editmsg", HARMLESS},
	{"description", HARMLESS},
	{"gc.log", HARMLESS},
	{"gc.pid", HARMLESS},
	{"modules/**", UP_TO_REPOSITORY_BELOW},
	{"worktrees/**", UP_TO_REPOSITORY_BELOW},
};

/* Of a path in a repository. A link there would have git itself write, or read, somewhere else. */
static enum verdict verdict_on(const char *path, mode_t mode)
{
	if (!S_ISREG(mode))
		return HARMFUL;
	for (size_t i = 0; i < ARRAY_SIZE(git_files); i++)
		if (autorun_path_matches(git_files[i].pattern, path))
			return git_files[i].verdict;
	return HARMFUL;
}

/* ---- what this commit brings --------------------------------------------------------------------------------------------------- */

struct coming {
	const char *path; /* of the directory: the first len bytes */
	size_t len;
	unsigned parts;
};

/* A directory above the path that was looked at last. */
struct level {
	size_t len;
	bool exists; /* on the host; no links on the way */
	unsigned parts;
};

struct autorun {
	int dir;
	struct coming *coming; /* by directory */
	size_t coming_count, coming_size;
	const char *last;
	struct level *levels;
	size_t level_count, level_size;
	struct leads leads;
};

static int by_directory(const void *a, const void *b)
{
	const struct coming *x = a, *y = b;
	int r = memcmp(x->path, y->path, MIN(x->len, y->len));
	return r ? r : (x->len > y->len) - (x->len < y->len);
}

static int add_coming(struct autorun *a, const char *path, size_t len, unsigned part, struct cordon_error *err)
{
	struct coming *last = a->coming_count ? &a->coming[a->coming_count - 1] : NULL;
	const struct coming new = {path, len, part};
	if (last && by_directory(last, &new) == 0) {
		last->parts |= part;
		return 0;
	}
	if (a->coming_count == a->coming_size) {
		size_t size = a->coming_size ? a->coming_size * 2 : 64;
		struct coming *more = realloc(a->coming, size * sizeof(*more));
		if (!more)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		a->coming = more;
		a->coming_size = size;
	}
	a->coming[a->coming_count++] = new;
	return 0;
}

static int add_parts_of(struct autorun *a, const char *path, struct cordon_error *err)
{
	for (const char *p = path; *p;) {
		size_t n = strcspn(p, "/");
		unsigned part = part_of(p, n);
		size_t len = p == path ? 0 : (size_t)(p - path) - 1;
		if (part && add_coming(a, path, len, part, err) < 0)
			return -1;
		p += n + (p[n] == '/');
	}
	return 0;
}

static void sort_coming(struct autorun *a)
{
	size_t kept = 0;
	if (a->coming_count == 0)
		return;
	qsort(a->coming, a->coming_count, sizeof(*a->coming), by_directory);
	for (size_t i = 1; i < a->coming_count; i++) {
		if (by_directory(&a->coming[kept], &a->coming[i]) == 0)
			a->coming[kept].parts |= a->coming[i].parts;
		else
			a->coming[++kept] = a->coming[i];
	}
	a->coming_count = kept + 1;
}

static unsigned coming_to(const struct autorun *a, const char *path, size_t len)
{
	const struct coming key = {path, len, 0};
	const struct coming *found = a->coming_count ? bsearch(&key, a->coming, a->coming_count, sizeof(*a->coming), by_directory) : NULL;
	return found ? found->parts : 0;
}

/* ---- what the host has --------------------------------------------------------------------------------------------------------- */

static int open_level(const struct autorun *a, const char *path, size_t len)
{
	_cleanup_free_ char *dir = strndup(path, len);
	return dir ? path_open_dir(a->dir, dir, O_PATH) : -1;
}

static int look_at_host(const struct autorun *a, const char *path, struct level *l, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = open_level(a, path, l->len);
	if (fd < 0) /* EACCES: git cannot go there either */
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES
		               ? 0
		               : err_sys(err, "cannot open the directory of %s", path);
	l->exists = true;
	for (size_t i = 0; i < ARRAY_SIZE(part_names); i++)
		if (fstatat(fd, part_names[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			l->parts |= part_names[i].part;
	return 0;
}

/* A HEAD that git accepts (validate_headref() in its refs.c). */
static bool head_is_valid(int dir)
{
	char text[256];
	ssize_t n = readlinkat(dir, "HEAD", text, sizeof(text));
	if (n >= 0)
		return n >= 5 && memcmp(text, "refs/", 5) == 0;
	_cleanup_fd_ int fd = openat(dir, "HEAD", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	if (strncmp(text, "ref:", 4) == 0)
		return strncmp(text + 4 + strspn(text + 4, " \t\r\n"), "refs/", 5) == 0;
	return strspn(text, "0123456789abcdefABCDEF") >= 40;
}

/* Whether git takes the host's directory for a repository already. */
static bool is_repository(const struct autorun *a, const char *path, const struct level *l)
{
	if (!make_repository(l->parts))
		return false;
	_cleanup_fd_ int fd = open_level(a, path, l->len);
	if (fd < 0 || !head_is_valid(fd))
		return false;
	return (l->parts & PART_COMMONDIR) || (faccessat(fd, "objects", X_OK, 0) == 0 && faccessat(fd, "refs", X_OK, 0) == 0);
}

/* ---- levels -------------------------------------------------------------------------------------------------------------------- */

/* How many levels the last path's and this one's have in common. Paths come sorted, so it is most of them. */
static size_t common_levels(const struct autorun *a, const char *path)
{
	size_t n = 0, same = 0;
	while (a->last && path[same] && path[same] == a->last[same])
		same++;
	while (n < a->level_count && (a->levels[n].len == 0 || (a->levels[n].len < same && path[a->levels[n].len] == '/')))
		n++;
	return n;
}

static int add_level(struct autorun *a, const char *path, size_t len, struct cordon_error *err)
{
	if (a->level_count == a->level_size) {
		size_t size = a->level_size ? a->level_size * 2 : 32;
		struct level *more = realloc(a->levels, size * sizeof(*more));
		if (!more)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		a->levels = more;
		a->level_size = size;
	}
	struct level *l = &a->levels[a->level_count];
	*l = (struct level){.len = len};
	if ((a->level_count == 0 || l[-1].exists) && look_at_host(a, path, l, err) < 0)
		return -1;
	a->level_count++;
	return 0;
}

/* Fills in the levels of the directories above this path, the top first. *known: those that the last one had, too. */
static int go_to(struct autorun *a, const char *path, size_t *known, struct cordon_error *err)
{
	*known = a->level_count = common_levels(a, path);
	a->last = path;
	if (a->level_count == 0 && add_level(a, path, 0, err) < 0)
		return -1;
	for (;;) {
		size_t done = a->levels[a->level_count - 1].len, from = done + (done > 0);
		const char *slash = strchr(path + from, '/');
		if (!slash)
			return 0;
		if (add_level(a, path, (size_t)(slash - path), err) < 0)
			return -1;
	}
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

void autorun_free(struct autorun *a)
{
	if (!a)
		return;
	free(a->coming);
	free(a->levels);
	leads_end(&a->leads);
	free(a);
}

/* What a change brings, and which repositories of the host's it lies in. */
static int look_at_change(struct autorun *a, const char *path, struct cordon_error *err)
{
	size_t known;
	if (add_parts_of(a, path, err) < 0 || go_to(a, path, &known, err) < 0)
		return -1;
	for (size_t i = known; i < a->level_count; i++) {
		const struct level *l = &a->levels[i];
		if ((l->parts & PART_GIT) && leads_of_work_tree(&a->leads, path, l->len, err) < 0)
			return -1;
		if (is_repository(a, path, l) && leads_of_repository(&a->leads, path, l->len, err) < 0)
			return -1;
	}
	return 0;
}

int autorun_look(const struct plan *p, struct autorun **out, struct cordon_error *err)
{
	struct autorun *a = calloc(1, sizeof(*a));
	if (!a)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	*out = a;
	a->dir = p->dir;
	if (leads_begin(&a->leads, p->dir, err) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++)
		if (p->items[i].change && p->items[i].change->after != 0 && look_at_change(a, p->items[i].path, err) < 0)
			return -1;
	sort_coming(a);
	return 0;
}

static bool is_part(const char *rest)
{
	unsigned part = part_of(rest, strlen(rest));
	return part && part != PART_GIT;
}

static bool is_called_git(const char *path, size_t len)
{
	return len >= 4 && (len == 4 || path[len - 5] == '/') && part_of(path + len - 4, 4) == PART_GIT;
}

static int check_levels(struct autorun *a, const char *path, mode_t mode, const char **what, struct cordon_error *err)
{
	size_t known;
	bool refused = false;
	*what = !S_ISDIR(mode) && is_called_git(path, strlen(path)) ? AUTORUN_GIT : NULL;
	if (*what || go_to(a, path, &known, err) < 0)
		return *what ? 0 : -1;
	for (size_t i = 0; i < a->level_count; i++) {
		const struct level *l = &a->levels[i];
		const char *rest = path + l->len + (l->len > 0);
		bool repository = make_repository(l->parts | coming_to(a, path, l->len));
		if (!repository && !is_called_git(path, l->len))
			continue;
		if (repository && is_part(rest) && !is_repository(a, path, l)) {
			*what = "with it, git takes the directory for a repository";
			return 0;
		}
		enum verdict v = S_ISDIR(mode) ? HARMLESS : verdict_on(rest, mode);
		refused = v != HARMLESS; /* for good, or until a repository further down says otherwise */
		if (v == HARMFUL)
			break;
	}
	*what = refused ? AUTORUN_GIT : NULL;
	return 0;
}

int autorun_on_host(struct autorun *a, const char *path, mode_t mode, const char **what, struct cordon_error *err)
{
	if (check_levels(a, path, mode, what, err) < 0)
		return -1;
	if (!*what && leads_to(&a->leads, path, mode))
		*what = "the host's git configuration, a hook or a link leads to it";
	return 0;
}
