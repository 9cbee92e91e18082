/* SPDX-License-Identifier: Apache-2.0 */
#include "image/recipe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"
#include "image/image.h"
#include "image/import.h"
#include "layers/store_parts.h"

#define RECIPE_MAX ((size_t)64 << 10)
#define INCLUDES_MAX 8

void recipe_free(struct recipe *r)
{
	free(r->name);
	free(r->summary);
	free(r->suite);
	free(r->variant);
	free(r->user);
	free(r->workdir);
	strlist_free(&r->packages);
	strlist_free(&r->pip);
	strlist_free(&r->env);
	strlist_free(&r->preload);
	strlist_free(&r->run);
	*r = (struct recipe){0};
}

/* ---- where they are ------------------------------------------------------------------------------------------------------------ */

void recipe_directory(char out[PATH_MAX])
{
	static const char *const places[] = {"../images", "../share/cordon/images", "../../share/cordon/images"};
	char self[PATH_MAX], finish[PATH_MAX + 16];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
	const char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
		int len = snprintf(out, PATH_MAX, "%.*s/%s", (int)(slash - self), self, places[i]);
		snprintf(finish, sizeof(finish), "%s/" RECIPE_FINISH, out);
		if (len > 0 && len < PATH_MAX && access(finish, F_OK) == 0)
			return;
	}
	snprintf(out, PATH_MAX, "%s/images", CORDON_DATADIR);
}

/* ---- values -------------------------------------------------------------------------------------------------------------------- */

static bool is_package(const char *s)
{
	return (islower((unsigned char)*s) || isdigit((unsigned char)*s)) &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-:=~_")] == '\0';
}

/* It becomes an argument of pip: not an option. */
static bool is_requirement(const char *s)
{
	return *s != '-';
}

static bool is_word(const char *s)
{
	return islower((unsigned char)*s) && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-")] == '\0';
}

/* Those of mmdebstrap's whose packages are installed: others make no root that anything could be run in, and none of our own lines would be. */
static bool is_variant(const char *s)
{
	static const char *const variants[] = {"essential", "apt", "required", "minbase", "buildd", "important", "standard"};
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		if (strcmp(variants[i], s) == 0)
			return true;
	return false;
}

static bool is_user(const char *s)
{
	size_t name = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-");
	if (name == 0 || name > 32 || !(islower((unsigned char)*s) || *s == '_'))
		return false;
	if (!s[name])
		return true;
	const char *id = s + name + 1;
	size_t digits = strspn(id, "0123456789");
	uint64_t number;
	return s[name] == ':' && digits > 0 && units_parse_count(id, 1, 65533, &number, NULL) == 0;
}

static bool is_directory(const char *s)
{
	return *s == '/' && !strstr(s, "/../") && !strstr(s, "//") && s[strcspn(s, " \t")] == '\0' && strlen(s) < 1000;
}

static bool is_variable(const char *s)
{
	const char *equals = strchr(s, '=');
	return equals && env_name_valid(s, (size_t)(equals - s));
}

static bool is_module(const char *s)
{
	struct strlist one = {0};
	bool valid = image_parse_preload(s, &one, NULL) == 0 && one.count == 1;
	strlist_free(&one);
	return valid;
}

enum shape { ONE, WORDS, LINES }; /* one value; several on a line; one per line */

static const struct key {
	const char *name;
	enum shape shape;
	size_t offset;
	bool (*valid)(const char *s);
	const char *form;
} keys[] = {
	{"summary", ONE, offsetof(struct recipe, summary), NULL, ""},
	{"suite", ONE, offsetof(struct recipe, suite), is_word, "the name of a release: bookworm, noble; or host"},
	{"variant", ONE, offsetof(struct recipe, variant), is_variant,
         "one of essential, apt, required, minbase, buildd, important, standard"},
	{"packages", WORDS, offsetof(struct recipe, packages), is_package, "names of packages, with blanks between them"},
	{"pip", WORDS, offsetof(struct recipe, pip), is_requirement, "requirements without blanks: numpy, uv>=0.4"},
	{"user", ONE, offsetof(struct recipe, user), is_user, "a name, and a number from 1 to 65533 if you like: app:1000"},
	{"workdir", ONE, offsetof(struct recipe, workdir), is_directory, "an absolute path: /app"},
	{"env", LINES, offsetof(struct recipe, env), is_variable, "NAME=VALUE"},
	{"preload", WORDS, offsetof(struct recipe, preload), is_module, "names of Python modules: numpy pandas"},
	{"run", LINES, offsetof(struct recipe, run), NULL, ""},
};

static int refuse_key(const char *name, struct cordon_error *err)
{
	const char *words[ARRAY_SIZE(keys) + 1];
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		words[i] = keys[i].name;
	words[ARRAY_SIZE(keys)] = "include";
	const char *near = nearest_word(name, words, ARRAY_SIZE(words));
	return err_set(err, CORDON_ERR_INPUT, "unknown key '%.60s'%s%s%s", name, near ? " (did you mean " : "", near ? near : "",
	               near ? "?)" : "");
}

static int check_value(const struct key *key, const char *value, struct cordon_error *err)
{
	if (*value && (!key->valid || key->valid(value)))
		return 0;
	if (!*value)
		return err_set(err, CORDON_ERR_INPUT, "%s: there is no value", key->name);
	return err_set(err, CORDON_ERR_INPUT, "%s: '%.80s' is not %s", key->name, value, key->form);
}

static int add_words(const struct key *key, char *value, struct strlist *out, struct cordon_error *err)
{
	char *rest = value;
	if (!*value)
		return check_value(key, value, err);
	for (char *word = strtok_r(value, " \t,", &rest); word; word = strtok_r(NULL, " \t,", &rest))
		if (check_value(key, word, err) < 0 || (!strlist_has(out, word) && strlist_add(out, word, err) < 0))
			return -1;
	return 0;
}

static int set_key(struct recipe *r, const struct key *key, char *value, struct cordon_error *err)
{
	void *field = (char *)r + key->offset;
	if (key->shape == WORDS)
		return add_words(key, value, field, err);
	if (check_value(key, value, err) < 0)
		return -1;
	if (key->shape == LINES)
		return strlist_add(field, value, err);
	char *copy = strdup(value);
	if (!copy)
		return err_sys(err, "cannot read a recipe");
	free(*(char **)field);
	*(char **)field = copy;
	return 0;
}

/* ---- files --------------------------------------------------------------------------------------------------------------------- */

static int read_into(const char *path, int depth, struct recipe *out, struct cordon_error *err);

/* A recipe that comes with cordon, or a file beside this one: a name either way, so that no recipe reads what it is not meant to. */
static int include(const char *from, const char *name, int depth, struct recipe *out, struct cordon_error *err)
{
	char path[PATH_MAX], directory[PATH_MAX];
	const char *slash = strrchr(from, '/');
	if (image_check_name(name, NULL) < 0)
		return err_set(err, CORDON_ERR_INPUT, "include: '%.60s' is not the name of a recipe", name);
	if (depth >= INCLUDES_MAX)
		return err_set(err, CORDON_ERR_INPUT, "include: recipes include each other more than %d deep", INCLUDES_MAX);
	int n = snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - from + 1) : 0, from, name);
	if (n < 0 || n >= (int)sizeof(path) || access(path, F_OK) < 0) {
		recipe_directory(directory);
		n = snprintf(path, sizeof(path), "%s/%s", directory, name);
	}
	if (n < 0 || n >= (int)sizeof(path))
		return err_set(err, CORDON_ERR_INPUT, "include: the path is too long");
	return read_into(path, depth + 1, out, err);
}

static char *trim(char *s)
{
	s += strspn(s, " \t");
	size_t len = strlen(s);
	while (len > 0 && strchr(" \t\r", s[len - 1]))
		s[--len] = '\0';
	return s;
}

static int read_line(const char *path, char *line, int depth, struct recipe *out, struct cordon_error *err)
{
	char *text = trim(line), *colon = strchr(text, ':');
	if (!*text || *text == '#')
		return 0;
	if (!colon)
		return err_set(err, CORDON_ERR_INPUT, "'%.60s' is not of the form key: value", text);
	*colon = '\0';
	const char *name = trim(text);
	char *value = trim(colon + 1);
	if (strcmp(name, "include") == 0)
		return include(path, value, depth, out, err);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return set_key(out, &keys[i], value, err);
	return refuse_key(name, err);
}

static int read_text(const char *path, struct buf *out, struct cordon_error *err)
{
	struct stat st;
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, CORDON_ERR_NOT_FOUND, "there is no recipe %s", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open the recipe %s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)RECIPE_MAX)
		return err_set(err, CORDON_ERR_INPUT, "%s is not a recipe: not a file of at most 64 KB", path);
	char *room = buf_reserve(out, RECIPE_MAX + 1);
	ssize_t n = room ? fs_pread_full(fd, room, RECIPE_MAX, 0) : -1;
	if (n < 0)
		return err_sys(err, "cannot read the recipe %s", path);
	room[n] = '\0';
	out->len = (size_t)n;
	return strlen(room) == (size_t)n ? 0 : err_set(err, CORDON_ERR_INPUT, "%s is not a recipe: there is NUL in it", path);
}

static int read_into(const char *path, int depth, struct recipe *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	unsigned number = 0;
	if (read_text(path, &text, err) < 0)
		return -1;
	for (char *line = text.data, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		if (read_line(path, line, depth, out, err) < 0)
			return err_wrap(err, "%s:%u", path, number);
	}
	return 0;
}

static int check_whole(const struct recipe *r, struct cordon_error *err)
{
	bool python = false;
	for (size_t i = 0; i < r->packages.count; i++)
		python |= strncmp(r->packages.items[i], "python3-pip", strlen("python3-pip")) == 0;
	if (r->pip.count > 0 && !python)
		return err_set(err, CORDON_ERR_INPUT, "%s: pip: needs the package python3-pip among packages", r->name);
	return 0;
}

int recipe_read(const char *path, struct recipe *out, struct cordon_error *err)
{
	const char *slash = strrchr(path, '/');
	*out = (struct recipe){.name = strdup(slash ? slash + 1 : path)};
	if (!out->name)
		err_sys(err, "cannot read a recipe");
	else if (read_into(path, 0, out, err) == 0 && check_whole(out, err) == 0)
		return 0;
	recipe_free(out);
	return -1;
}

static bool is_recipe(const char *name)
{
	return strcmp(name, RECIPE_FINISH) != 0 && image_check_name(name, NULL) == 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void hint_known(const char *directory, struct cordon_error *err)
{
	struct strlist names = {0};
	char text[200] = "";
	size_t len = 0;
	_cleanup_fd_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		store_list(dir, &names, NULL);
	if (names.count > 1)
		qsort(names.items, names.count, sizeof(*names.items), by_text);
	for (size_t i = 0; i < names.count && len < sizeof(text) / 2; i++)
		if (is_recipe(names.items[i]))
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.40s", len ? ", " : "", names.items[i]);
	strlist_free(&names);
	if (len > 0)
		err_hint(err, "there are %s; --recipe FILE is for one of your own", text);
	else
		err_hint(err, "no recipes are installed in %.150s", directory);
}

int recipe_find(const char *name, struct recipe *out, struct cordon_error *err)
{
	char directory[PATH_MAX], path[PATH_MAX + IMAGE_NAME_MAX + 2];
	recipe_directory(directory);
	snprintf(path, sizeof(path), "%s/%.*s", directory, (int)strcspn(name, ":"), name);
	*out = (struct recipe){0};
	if (is_recipe(name) && access(path, F_OK) == 0)
		return recipe_read(path, out, err);
	err_set(err, CORDON_ERR_NOT_FOUND, "there is no recipe '%.127s'", name);
	hint_known(directory, err);
	return -1;
}
