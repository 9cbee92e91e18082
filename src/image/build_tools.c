/* SPDX-License-Identifier: Apache-2.0 */
/* Which programs can build an image here, and how they are called: with the machine's own package sources, proxies and passwords. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"
#include "image/build.h"
#include "layers/store_parts.h"

const char *const build_mode_names[BUILD_MODE_COUNT] = {
	[BUILD_ROOT] = "root", [BUILD_UNSHARE] = "unshare", [BUILD_FAKECHROOT] = "fakechroot", [BUILD_DEBOOTSTRAP] = "debootstrap"};

#define SYSTEM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- what there is -------------------------------------------------------------------------------------------------------------- */

static bool has_program(const char *name)
{
	char path[128];
	const char *at = SYSTEM_PATH;
	while (*at) {
		size_t len = strcspn(at, ":");
		snprintf(path, sizeof(path), "%.*s/%s", (int)len, at, name);
		if (access(path, X_OK) == 0)
			return true;
		at += len + (at[len] == ':');
	}
	return false;
}

/* "name:100000:65536" or the same with the number of the user, see subuid(5). */
static bool has_range(const char *file)
{
	char line[256], number[16];
	const struct passwd *me = getpwuid(getuid());
	bool found = false;
	FILE *f = fopen(file, "re");
	snprintf(number, sizeof(number), "%u", (unsigned)getuid());
	while (f && !found && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');
		if (colon)
			*colon = '\0';
		found = colon && (strcmp(line, number) == 0 || (me && strcmp(line, me->pw_name) == 0));
	}
	if (f)
		fclose(f);
	return found;
}

static int find_user_mode(enum build_mode *out, struct cordon_error *err)
{
	bool maps = has_program("newuidmap") && has_program("newgidmap"), ranges = has_range("/etc/subuid") && has_range("/etc/subgid");
	if (maps && ranges)
		*out = BUILD_UNSHARE;
	else if (has_program("fakechroot") && has_program("fakeroot"))
		*out = BUILD_FAKECHROOT;
	else {
		err_set(err, CORDON_ERR_WEAK_HOST, "cannot build images as an ordinary user here: %s",
		        maps ? "no ids are set aside for you in /etc/subuid and /etc/subgid, and fakechroot is not installed"
		             : "neither newuidmap nor fakechroot is installed");
		return err_hint(
			err,
			maps ? "apt-get install fakechroot fakeroot; or, as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 you"
			     : "apt-get install uidmap (and have a line in /etc/subuid and /etc/subgid), or fakechroot and fakeroot");
	}
	return 0;
}

int build_find_mode(enum build_mode *out, struct cordon_error *err)
{
	bool root = geteuid() == 0;
	if (has_program("mmdebstrap")) {
		*out = BUILD_ROOT;
		return root ? 0 : find_user_mode(out, err);
	}
	if (root && has_program("debootstrap")) {
		*out = BUILD_DEBOOTSTRAP;
		return 0;
	}
	err_set(err, CORDON_ERR_WEAK_HOST, "cannot build images here: mmdebstrap is not installed%s",
	        has_program("debootstrap") ? ", and debootstrap needs root" : "");
	return err_hint(err, "apt-get install mmdebstrap; or make the image elsewhere, and cordon image import it");
}

/* ---- the machine's own release and sources -------------------------------------------------------------------------------------- */

int build_host_suite(char *out, size_t size, struct cordon_error *err)
{
	char text[4096];
	const char *key = "\nVERSION_CODENAME=", *at;
	text[0] = '\n';
	if (fs_read_small(AT_FDCWD, "/etc/os-release", text + 1, sizeof(text) - 1) < 0)
		text[1] = '\0';
	at = strstr(text, key);
	at = at ? at + strlen(key) : "";
	at += *at == '"';
	size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-");
	if (len > 0 && len < size) {
		snprintf(out, size, "%.*s", (int)len, at);
		return 0;
	}
	err_set(err, CORDON_ERR_INPUT, "this machine's release is not known (VERSION_CODENAME in /etc/os-release)");
	return err_hint(err, "name one in the recipe: \"suite: bookworm\"");
}

static bool ends_in(const char *s, const char *ending)
{
	size_t len = strlen(s), n = strlen(ending);
	return len > n && strcmp(s + len - n, ending) == 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files as apt reads them, sources.list(5). Those that are empty are left out: mmdebstrap takes a file without sources for an error. */
static int add_sources(struct strlist *out, struct cordon_error *err)
{
	static const char parts[] = "/etc/apt/sources.list.d";
	struct strlist names = {0};
	struct stat st;
	char path[512];
	int r = 0;
	_cleanup_fd_ int dir = open(parts, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (stat("/etc/apt/sources.list", &st) == 0 && st.st_size > 0)
		r = strlist_add(out, "/etc/apt/sources.list", err);
	if (r == 0 && dir >= 0)
		r = store_list(dir, &names, err);
	if (names.count > 1)
		qsort(names.items, names.count, sizeof(*names.items), by_text);
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		snprintf(path, sizeof(path), "%s/%.255s", parts, names.items[i]);
		if ((ends_in(path, ".list") || ends_in(path, ".sources")) && stat(path, &st) == 0 && st.st_size > 0)
			r = strlist_add(out, path, err);
	}
	strlist_free(&names);
	return r;
}

/* ---- the machine's apt ---------------------------------------------------------------------------------------------------------- */

/* What gets apt to its sources here; all else of the machine's configuration is its own affair. */
static bool is_way(const char *line)
{
	static const char *const ways[] = {"Acquire::http::",  "Acquire::https::", "Acquire::http-",    "Acquire::Check-Valid-Until ",
	                                   "Acquire::Retries", "Acquire::ForceIP", "Acquire::Languages"};
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (strncasecmp(line, ways[i], strlen(ways[i])) == 0)
			return !strstr(line, " \"\";");
	return false;
}

static int add_option(struct strlist *out, const char *option, const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *text = NULL;
	if (asprintf(&text, "--%s=%s", option, value) < 0) {
		text = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return strlist_add(out, text, err);
}

/* Runs a program of apt's and hands each line of what it prints to `take`. A machine without it has nothing to say. */
static int each_line(const char *const *argv, int (*take)(const char *line, struct strlist *out, struct cordon_error *err),
                     struct strlist *out, struct cordon_error *err)
{
	char *line = NULL;
	size_t size = 0;
	int r = 0, ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (dup2(null, 0) == 0 && dup2(ends[1], 1) == 1 && dup2(null, 2) == 2)
			execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(ends[1]);
	FILE *text = fdopen(ends[0], "re");
	if (pid < 0 || !text)
		r = err_sys(err, "cannot ask %s", argv[0]);
	while (r == 0 && getline(&line, &size, text) > 0) {
		line[strcspn(line, "\n")] = '\0';
		r = take(line, out, err);
	}
	free(line);
	if (text)
		fclose(text);
	else
		close(ends[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return r;
}

static int take_way(const char *line, struct strlist *out, struct cordon_error *err)
{
	return is_way(line) ? add_option(out, "aptopt", line, err) : 0;
}

/* mmdebstrap's apt knows nothing of the machine's configuration: asked of apt itself. The script takes what is not the image's out of it again. */
static int add_apt_options(struct strlist *out, struct cordon_error *err)
{
	static const char *const passwords[] = {"Dir::Etc::netrc \"/etc/apt/auth.conf\";",
	                                        "Dir::Etc::netrcparts \"/etc/apt/auth.conf.d\";"};
	static const char *const dump[] = {"apt-config", "dump", NULL};
	for (size_t i = 0; i < ARRAY_SIZE(passwords); i++)
		if (add_option(out, "aptopt", passwords[i], err) < 0)
			return -1;
	return each_line(dump, take_way, out, err);
}

static int take_line(const char *line, struct strlist *out, struct cordon_error *err)
{
	return strlist_add(out, line, err);
}

/* Where the machine's apt gets this release from, for debootstrap, which knows only one source. None: its own default. */
static int add_mirror(const char *suite, struct strlist *out, struct cordon_error *err)
{
	static const char *const ask[] = {"apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages", NULL};
	struct strlist lines = {0};
	size_t len = strlen(suite);
	int r = each_line(ask, take_line, &lines, err);
	for (size_t i = 0; r == 0 && i < lines.count; i++) {
		if (strncmp(lines.items[i], suite, len) == 0 && lines.items[i][len] == ' ') {
			r = strlist_add(out, lines.items[i] + len + 1, err);
			break;
		}
	}
	strlist_free(&lines);
	return r;
}

/* ---- commands ------------------------------------------------------------------------------------------------------------------- */

static int join(const struct strlist *l, const char *with, struct buf *out, struct cordon_error *err)
{
	for (size_t i = 0; i < l->count; i++)
		buf_addf(out, "%s%s", i ? with : "", l->items[i]);
	return out->failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

static int add_all(struct strlist *out, const char *const *words, struct cordon_error *err)
{
	for (; *words; words++)
		if (strlist_add(out, *words, err) < 0)
			return -1;
	return 0;
}

static int add_packages(const struct recipe *r, struct strlist *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf packages = {0};
	if (r->packages.count == 0)
		return 0;
	return join(&r->packages, ",", &packages, err) < 0 ? -1 : add_option(out, "include", packages.data, err);
}

static int mmdebstrap(enum build_mode mode, const struct recipe *r, const char *suite, bool own, const char *target, struct strlist *out,
                      struct cordon_error *err)
{
	static const char *const first[] = {"mmdebstrap",
	                                    "--format=tar",
	                                    "--skip=output/dev",
	                                    "--dpkgopt=force-unsafe-io",
	                                    "--customize-hook=\"$RECIPE_FINISH\" \"$1\"",
	                                    NULL};
	const char *const last[] = {suite, target, NULL};
	if (add_all(out, first, err) < 0 || add_option(out, "mode", build_mode_names[mode], err) < 0 ||
	    add_option(out, "variant", r->variant ? r->variant : "apt", err) < 0 || add_packages(r, out, err) < 0 ||
	    add_apt_options(out, err) < 0 || add_all(out, last, err) < 0)
		return -1;
	return own ? add_sources(out, err) : 0;
}

static int debootstrap(const struct recipe *r, const char *suite, const char *target, struct strlist *out, struct cordon_error *err)
{
	const char *const last[] = {suite, target, NULL};
	if (strlist_add(out, "debootstrap", err) < 0 || add_option(out, "variant", "minbase", err) < 0 || add_packages(r, out, err) < 0)
		return -1;
	return add_all(out, last, err) < 0 ? -1 : add_mirror(suite, out, err);
}

int build_command(enum build_mode mode, const struct recipe *r, const char *target, struct strlist *out, struct cordon_error *err)
{
	char host[64] = "";
	bool by_host = !r->suite || strcmp(r->suite, RECIPE_SUITE_HOST) == 0;
	if (build_host_suite(host, sizeof(host), by_host ? err : NULL) < 0 && by_host)
		return -1;
	const char *suite = by_host ? host : r->suite;
	if (mode == BUILD_DEBOOTSTRAP)
		return debootstrap(r, suite, target, out, err);
	return mmdebstrap(mode, r, suite, strcmp(suite, host) == 0, target, out, err);
}

/* ---- the environment ------------------------------------------------------------------------------------------------------------ */

static int add_variable(struct strlist *out, const char *name, const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *text = NULL;
	if (!value)
		return 0;
	if (asprintf(&text, "%s=%s", name, value) < 0) {
		text = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return strlist_assign(out, text, err);
}

static int add_lines(struct strlist *out, const char *name, const struct strlist *l, struct cordon_error *err)
{
	_cleanup_buf_ struct buf lines = {0};
	if (join(l, "\n", &lines, err) < 0)
		return -1;
	return add_variable(out, name, l->count ? lines.data : NULL, err);
}

int build_environment(const struct recipe *r, const char *finish, const char *tmp, struct strlist *out, struct cordon_error *err)
{
	extern char **environ;
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "RECIPE_", strlen("RECIPE_")) != 0 && strlist_add(out, *e, err) < 0)
			return -1;
	if (add_variable(out, "PATH", SYSTEM_PATH, err) < 0 || add_variable(out, "TMPDIR", tmp, err) < 0 ||
	    add_variable(out, "RECIPE_FINISH", finish, err) < 0 || add_variable(out, "RECIPE_USER", r->user, err) < 0 ||
	    add_variable(out, "RECIPE_WORKDIR", r->workdir, err) < 0 || add_lines(out, "RECIPE_PIP", &r->pip, err) < 0)
		return -1;
	return add_lines(out, "RECIPE_RUN", &r->run, err);
}
