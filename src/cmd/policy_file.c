/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "policy/load.h"
#include "policy/profiles.h"

static const char dev_profile[] = "dev"; /* what the record of a sandbox that stays is on top of */

/* What one command may have otherwise than the sandbox it runs in. Everything else was decided when that was made. */
static const char *const per_exec[] = {"limits.timeout", "env.allow", "env.set", "transaction.exit", "transaction.abort", "transaction.ok"};

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

/* ---- settings ----------------------------------------------------------------------------------------------------------------- */

static int apply_setting(struct cordon_policy *p, const char *setting, struct policy_origins *o, const struct policy_origin *from,
                         struct cordon_error *err)
{
	const size_t len = strcspn(setting, "=");
	_cleanup_free_ char *name = strndup(setting, len);
	const struct policy_key *key = name ? policy_key_find(name) : NULL;

	if (!name)
		return out_of_memory(err);
	if (!setting[len])
		return err_set(err, CORDON_ERR_INPUT, "'%.60s' is not of the form KEY=VALUE", setting);
	return key ? policy_put_from(p, key, setting + len + 1, o, from, err) : policy_set(p, name, setting + len + 1, err);
}

int policy_file_apply_settings(struct cordon_policy *p, const struct strlist *settings, struct policy_origins *o, const char *option,
                               struct cordon_error *err)
{
	const struct policy_origin from = {.kind = ORIGIN_OPTION, .name = option};

	for (size_t i = 0; i < settings->count; i++)
		if (apply_setting(p, settings->items[i], o, &from, err) < 0)
			return err_wrap(err, "%s", option);
	return 0;
}

/* Refused with the line that asks for it, before anything is made. */
static int check_enforced(const struct cordon_policy *p, const struct policy_origins *o, struct cordon_error *err)
{
	const struct policy_key *key = policy_not_enforced(p);
	_cleanup_buf_ struct buf where = {0};

	if (!key)
		return 0;
	policy_check_enforced(p, err);
	origin_text(origins_of_key(o, key), &where);
	return where.len && !where.failed ? err_wrap(err, "%s", where.data) : -1;
}

/* ---- run ---------------------------------------------------------------------------------------------------------------------- */

int policy_file_for_run(const char *file, const char *profile, const struct strlist *settings, struct cordon_policy *p,
                        struct cordon_error *err)
{
	struct policy_origins origins = {0};
	struct cordon_policy loaded = {0};
	int r = policy_load(&loaded, file, profile, &origins, err);

	if (r == 0)
		r = policy_file_apply_settings(&loaded, settings, &origins, "option", err);
	if (r == 0)
		r = check_enforced(&loaded, &origins, err);
	if (r == 0) {
		policy_clear(p);
		*p = loaded;
	} else {
		policy_clear(&loaded);
	}
	origins_free(&origins);
	return r;
}

/* ---- sandboxes that stay ------------------------------------------------------------------------------------------------------ */

/* Also what is the same as in the profile today, if the file says it: the profile's limits depend on the machine. */
static int add_difference(const struct cordon_policy *p, const struct policy_origins *o, const struct cordon_policy *base,
                          struct strlist *out, struct cordon_error *err)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		int same = key->alias ? 1 : policy_same(p, base, key, err);

		if (!key->alias && same > 0)
			same = origins_of_key(o, key)->kind != ORIGIN_FILE;
		if (same < 0 || (!same && policy_key_settings(p, key, out, err) < 0))
			return -1;
	}
	return 0;
}

static int add_own_env(const struct cordon_policy *p, const struct policy_origins *o, struct strlist *env, struct cordon_error *err)
{
	const struct policy_key *key = policy_key_find("env.set");

	for (size_t i = 0; i < p->env_set.count; i++)
		if (origins_of(o, key, i)->kind == ORIGIN_FILE && strlist_add(env, p->env_set.items[i], err) < 0)
			return -1;
	return 0;
}

static int append(struct strlist *to, const struct strlist *from, struct cordon_error *err)
{
	for (size_t i = 0; i < from->count; i++)
		if (strlist_add(to, from->items[i], err) < 0)
			return -1;
	return 0;
}

int policy_file_for_box(const char *file, const char *profile, struct strlist *settings, struct strlist *env, bool *dev,
                        struct cordon_error *err)
{
	struct policy_origins origins = {0};
	struct cordon_policy loaded = {0}, base = {0};
	struct strlist all = {0};
	int r = policy_load(&loaded, file, profile, &origins, err);

	if (r == 0)
		r = check_enforced(&loaded, &origins, err);
	if (r == 0)
		r = policy_init_profile(&base, dev_profile, err);
	if (r == 0)
		r = add_difference(&loaded, &origins, &base, &all, err) < 0 || add_own_env(&loaded, &origins, env, err) < 0 ||
		                    append(&all, settings, err) < 0
		            ? -1
		            : 0;
	if (r == 0) {
		*dev = strcmp(origins.profile, dev_profile) == 0;
		strlist_free(settings);
		*settings = all;
	} else {
		strlist_free(&all);
	}
	policy_clear(&loaded);
	policy_clear(&base);
	origins_free(&origins);
	return r;
}

/* ---- one command in a sandbox ------------------------------------------------------------------------------------------------- */

static bool is_per_exec(const struct policy_key *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(per_exec); i++)
		if (!strcmp(key->name, per_exec[i]))
			return true;
	return false;
}

static int check_fixed(const struct cordon_policy *now, const struct cordon_policy *sandbox, const struct policy_origins *o,
                       struct cordon_error *err)
{
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		int same = key->alias || is_per_exec(key) ? 1 : policy_same(now, sandbox, key, err);
		_cleanup_buf_ struct buf where = {0};

		if (same < 0)
			return -1;
		if (same)
			continue;
		origin_text(origins_of_key(o, key), &where);
		err_set(err, CORDON_ERR_INPUT, "%s: %s cannot be changed for one command in a sandbox that exists",
		        where.data ? where.data : "policy", key->name);
		return err_hint(err, "cordon create --policy makes one with this policy");
	}
	return 0;
}

static int fill_exec(const struct cordon_policy *now, const struct cordon_policy *sandbox, const struct policy_origins *o,
                     struct policy_file_exec *out, struct cordon_error *err)
{
	const struct policy_transaction *a = &now->transaction, *b = &sandbox->transaction;

	*out = (struct policy_file_exec){0};
	if (origins_of_key(o, policy_key_find("limits.timeout"))->kind != ORIGIN_NONE)
		out->timeout_ms = (int64_t)now->limits.timeout_ms;
	out->has_ok = memcmp(a->ok, b->ok, sizeof(a->ok)) != 0;
	if (a->exit == b->exit && a->abort == b->abort)
		return 0;
	if (a->exit != a->abort) {
		err_set(err, CORDON_ERR_INPUT,
		        "transaction.exit and transaction.abort must be the same for one command in a sandbox that exists");
		return err_hint(err, "set both to rollback, or both to keep");
	}
	out->on_failure = 1 + (uint32_t)a->exit;
	return 0;
}

int policy_file_for_exec(const char *file, struct cordon_policy *p, struct policy_file_exec *out, struct cordon_error *err)
{
	struct policy_origins origins = {0};
	struct cordon_policy loaded = {0};
	int r = policy_load_over(&loaded, file, p, &origins, err);

	if (r == 0)
		r = check_fixed(&loaded, p, &origins, err);
	if (r == 0)
		r = fill_exec(&loaded, p, &origins, out, err);
	if (r == 0 && (r = add_own_env(&loaded, &origins, &out->env, err)) < 0)
		strlist_free(&out->env);
	if (r == 0) {
		policy_clear(p);
		*p = loaded;
	} else {
		policy_clear(&loaded);
	}
	origins_free(&origins);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

int policy_file_read_code(const char *path, struct buf *out, struct cordon_error *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	for (;;) {
		char *to = fd >= 0 ? buf_reserve(out, 65536) : NULL;
		ssize_t n = to ? read(fd, to, 65536) : -1;

		if (fd >= 0 && !to)
			return err_set(err, CORDON_ERR_INPUT, "%s is too large (at most %zu bytes)", path, out->cap);
		if (n < 0 && fd >= 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "%s", path);
		if (n == 0)
			return 0;
		out->len += (size_t)n;
	}
}
