/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/making.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cmd/policy_file.h"
#include "policy/toolchains.h"

void making_free(struct making *m)
{
	for (size_t i = 0; i < m->mount_count; i++) {
		free((char *)(uintptr_t)m->mounts[i].host);
		free((char *)(uintptr_t)m->mounts[i].guest);
	}
	free(m->mounts);
	strlist_free(&m->settings);
	strlist_free(&m->env);
	strlist_free(&m->own_env);
	*m = (struct making){0};
}

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

int making_setting(struct making *m, const char *key, const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *setting = NULL;

	if (asprintf(&setting, "%s=%s", key, value) < 0) {
		setting = NULL;
		return out_of_memory(err);
	}
	return strlist_add(&m->settings, setting, err);
}

/* Both strings become the list's own. */
static int add_mount(struct making *m, char *host, char *guest, bool writable, struct cordon_error *err)
{
	struct cordon_mount *mounts = realloc(m->mounts, (m->mount_count + 1) * sizeof(*mounts));

	if (mounts)
		m->mounts = mounts;
	if (!mounts || !host || !guest) {
		free(host);
		free(guest);
		return out_of_memory(err);
	}
	mounts[m->mount_count++] = (struct cordon_mount){host, guest, writable};
	return making_setting(m, writable ? "mounts.write" : "mounts.read", host, err);
}

/* Read from the right, since a host path may have colons in it. */
int making_mount(struct making *m, const char *item, struct cordon_error *err)
{
	_cleanup_free_ char *text = strdup(item);
	char *colon = text ? strrchr(text, ':') : NULL;
	bool writable = false;

	if (!text)
		return out_of_memory(err);
	if (colon && (strcmp(colon, ":rw") == 0 || strcmp(colon, ":ro") == 0)) {
		writable = colon[2] == 'w';
		*colon = '\0';
		colon = strrchr(text, ':');
	}
	if (!colon || colon == text || colon[1] != '/')
		return err_set(err, CORDON_ERR_INPUT, "--mount: '%.200s' is not of the form HOST:GUEST[:rw], with an absolute GUEST", item);
	*colon = '\0';
	char *host = realpath(text, NULL);
	if (!host)
		return err_sys(err, "--mount: %s", text);
	return add_mount(m, host, strdup(colon + 1), writable, err);
}

int making_env(struct making *m, const char *item, struct cordon_error *err)
{
	const char *value = strchr(item, '=') ? NULL : getenv(item);
	_cleanup_free_ char *entry = NULL;

	if (strchr(item, '='))
		return strlist_assign(&m->env, item, err) < 0 ? err_wrap(err, "--env") : 0;
	if (!value)
		return err_set(err, CORDON_ERR_INPUT, "--env: %.100s is not set here; give a value: --env %.100s=VALUE", item, item);
	if (env_name_injects(item))
		return err_set(err, CORDON_ERR_INPUT, "--env: %.100s is not taken over from the host; give a value: --env %.100s=VALUE",
		               item, item);
	if (asprintf(&entry, "%s=%s", item, value) < 0) {
		entry = NULL;
		return out_of_memory(err);
	}
	return strlist_assign(&m->env, entry, err) < 0 ? err_wrap(err, "--env") : 0;
}

int making_on_failure(struct making *m, const char *action, struct cordon_error *err)
{
	if (!action)
		return 0;
	for (size_t i = 0; i < TX_ACTION_COUNT; i++)
		if (strcmp(action, tx_action_names[i]) == 0)
			return making_setting(m, "transaction.exit", action, err) < 0 ||
			                       making_setting(m, "transaction.abort", action, err) < 0
			               ? -1
			               : 0;
	const char *near = nearest_word(action, tx_action_names, TX_ACTION_COUNT);
	return err_set(err, CORDON_ERR_INPUT, "--on-failure: '%.60s'%s%s%s; give rollback or keep", action,
	               near ? " (did you mean " : " is unknown", near ? near : "", near ? "?)" : "");
}

int making_policy(struct making *m, const char *file, const char *profile, struct cordon_error *err)
{
	bool dev = false;
	int r = policy_file_for_box(file, profile, &m->settings, &m->own_env, &dev, err);

	m->no_toolchains = !dev;
	return r;
}

bool making_wants_toolchains(bool no_toolchains, const char *image)
{
	return !no_toolchains && (!image || strcmp(image, "host") == 0);
}

int making_toolchains(struct making *m, const char *workspace, struct cordon_error *err)
{
	if (m->no_toolchains)
		return 0;
	extern char **environ;
	const struct toolchain_search search = {.env = environ, .workspace = workspace};
	struct toolchain_list found = {0};
	int r = toolchains_find(&search, &found, err);

	for (size_t i = 0; r == 0 && i < found.mounts.count; i++)
		r = add_mount(m, strdup(found.mounts.items[i]), strdup(found.mounts.items[i]), false, err);
	for (size_t i = 0; r == 0 && i < found.env.count; i++)
		r = making_setting(m, "env.set", found.env.items[i], err);
	for (size_t i = 0; r == 0 && i < m->own_env.count; i++) /* what a policy file says is not found out */
		r = making_setting(m, "env.set", m->own_env.items[i], err);
	toolchains_free(&found);
	return r;
}
