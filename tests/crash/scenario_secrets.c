/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: whatever the moment at which setting or removing one is killed, there is the old value or the new one, and the next change clears up what was left. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/util.h"
#include "crash.h"
#include "secrets/store.h"

static struct cordon_error err;

static const char *home_of(int base)
{
	static char home[PATH_MAX + 8];
	char path[PATH_MAX];

	MUST(fs_fd_path(base, path, sizeof(path)) == 0);
	snprintf(home, sizeof(home), "%s/home", path);
	return home;
}

static int set(int base, const char *name, const char *value)
{
	_cleanup_secret_ struct secret s = {0};

	return secret_copy(&s, value, "the value", &err) < 0 || secrets_set(home_of(base), name, &s, NULL, &err) < 0;
}

static const char *nothing_to_set_up(int base)
{
	(void)base;
	return NULL;
}

static void nothing_to_tear_down(int base)
{
	(void)base;
}

static void reset_none(int base)
{
	fs_remove_tree(base, "home", NULL);
}

static void reset_old(int base)
{
	reset_none(base);
	MUST(set(base, "key", "the old value") == 0);
}

static int do_set(int base)
{
	return set(base, "key", "the new value, which is longer");
}

static int do_remove(int base)
{
	return secrets_remove(home_of(base), "key", &err) < 0;
}

/* Recovery is whatever comes next. */
static int set_another(int base)
{
	return set(base, "other", "another value");
}

static bool is(int base, const char *name, const char *want)
{
	_cleanup_secret_ struct secret s = {0};

	err = (struct cordon_error){0};
	if (secrets_get(home_of(base), name, &s, &err) < 0)
		return !want && err.code == CORDON_ERR_NOT_FOUND;
	return want && strcmp(s.data, want) == 0;
}

static const char *check_store(int base, bool killed)
{
	struct secret_list all;
	struct stat st;
	const char *wrong = NULL;

	if (killed && !is(base, "other", "another value"))
		return "nothing can be stored afterwards";
	if (fstatat(base, "home/secrets/.new", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return "an unfinished secret is left";
	if (fstatat(base, "home/secrets", &st, AT_SYMLINK_NOFOLLOW) < 0 || (st.st_mode & 07777) != 0700)
		return "the directory is not private";
	if (secrets_list(home_of(base), &all, &err) < 0)
		return "the list cannot be read";
	for (size_t i = 0; i < all.count; i++)
		if (all.items[i].damaged)
			wrong = "a secret is damaged";
	secrets_list_free(&all);
	return wrong;
}

/* before, after: NULL is none */
static const char *check_value(int base, bool killed, int recovered, const char *before, const char *after)
{
	if (recovered > 0)
		return "the next change fails";
	if (!is(base, "key", after) && (!killed || !is(base, "key", before)))
		return "neither the old value nor the new one";
	return check_store(base, killed);
}

static const char *check_first(int base, bool killed, int recovered)
{
	return check_value(base, killed, recovered, NULL, "the new value, which is longer");
}

static const char *check_replaced(int base, bool killed, int recovered)
{
	return check_value(base, killed, recovered, "the old value", "the new value, which is longer");
}

static const char *check_removed(int base, bool killed, int recovered)
{
	return check_value(base, killed, recovered, "the old value", NULL);
}

const struct scenario secret_first_scenario = {.name = "secret-first",
                                               .set_up = nothing_to_set_up,
                                               .reset = reset_none,
                                               .operate = do_set,
                                               .recover = set_another,
                                               .check = check_first,
                                               .tear_down = nothing_to_tear_down,
                                               .least = 12,
                                               .samples = 4};
const struct scenario secret_set_scenario = {.name = "secret-set",
                                             .set_up = nothing_to_set_up,
                                             .reset = reset_old,
                                             .operate = do_set,
                                             .recover = set_another,
                                             .check = check_replaced,
                                             .tear_down = nothing_to_tear_down,
                                             .least = 8,
                                             .samples = 4};
const struct scenario secret_remove_scenario = {.name = "secret-remove",
                                                .set_up = nothing_to_set_up,
                                                .reset = reset_old,
                                                .operate = do_remove,
                                                .recover = set_another,
                                                .check = check_removed,
                                                .tear_down = nothing_to_tear_down,
                                                .least = 4,
                                                .samples = 4};
