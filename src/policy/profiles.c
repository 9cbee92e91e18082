/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/profiles.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/util.h"

#define MB ((uint64_t)1024 * 1024)
#define VALUE_SIZE 32

const struct policy_profile policy_profiles[] = {
	{"default", "for single commands: small limits, no network, failed commands are rolled back"},
	{"locked",
         "for code that nobody vouches for: no file but /app, no network, no further programs, nothing native, findings are refused"},
	{"dev", "for working in a project: the machine's own limits, changes of failed commands are kept"},
};
const size_t policy_profile_count = ARRAY_SIZE(policy_profiles);

/* ---- values that depend on the machine ---------------------------------------------------------------------------------------- */

/* In a container, /proc and sysinfo(2) tell of the whole machine; what the container has is the limit of its own control group. */
static uint64_t container_memory(void)
{
	static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
	char text[VALUE_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (fs_read_small(AT_FDCWD, limits[i], text, sizeof(text)) > 0 && text[0] >= '1' && text[0] <= '9')
			return strtoull(text, NULL, 10); /* "max" and no limit at all are no numbers, or huge ones */
	return UINT64_MAX;
}

static const char *half_of_memory(const struct policy_key *key, char value[VALUE_SIZE])
{
	struct sysinfo info;
	uint64_t total;

	if (sysinfo(&info) < 0)
		return key->fallback;
	total = MIN((uint64_t)info.totalram * info.mem_unit, container_memory());
	snprintf(value, VALUE_SIZE, "%" PRIu64 "M", MAX(MIN(total / 2, key->max), key->min) / MB);
	return value;
}

static const char *usable_cpus(const struct policy_key *key, char value[VALUE_SIZE])
{
	cpu_set_t sets[8]; /* 8,192 CPUs; with less room than the kernel's own mask the call fails */

	if (sched_getaffinity(0, sizeof(sets), sets) < 0)
		return key->fallback;
	snprintf(value, VALUE_SIZE, "%" PRIu64, MIN((uint64_t)CPU_COUNT_S(sizeof(sets), sets), key->max / 1000));
	return value;
}

/* ---- the profiles ------------------------------------------------------------------------------------------------------------- */

/* Where a profile differs from the default. Settings of lists add to them, after "clear" (see policy_set) to nothing. */
static const struct setting {
	const char *profile, *key;
	const char *value;                                                          /* as a user would write it, or NULL: */
	const char *(*compute)(const struct policy_key *key, char buf[VALUE_SIZE]); /* returns the value; it may be put into buf */
} settings[] = {
	{"dev", "limits.timeout", "10m", NULL},          {"dev", "limits.memory", NULL, half_of_memory},
	{"dev", "limits.cpus", NULL, usable_cpus},       {"dev", "limits.pids", "1024", NULL},
	{"dev", "limits.max_output", "16M", NULL},       {"dev", "limits.disk", "10G", NULL},
	{"dev", "transaction.exit", "keep", NULL},

	{"locked", "clear", "files.read", NULL},         {"locked", "clear", "files.write", NULL},
	{"locked", "files.write", "/app/**", NULL},      {"locked", "network.localhost", "false", NULL},
	{"locked", "process.subprocess", "false", NULL}, {"locked", "process.native", "false", NULL},
	{"locked", "patterns.action", "deny", NULL},     {"locked", "transaction.denial", "rollback", NULL},
};

static int apply(struct cordon_policy *p, const struct setting *s, struct policy_origins *o, struct cordon_error *err)
{
	const struct policy_origin from = {.kind = ORIGIN_PROFILE, .name = s->profile};
	const struct policy_key *key = policy_key_find(strcmp(s->key, "clear") == 0 ? s->value : s->key);
	char buf[VALUE_SIZE];

	if (strcmp(s->key, "clear") != 0)
		return policy_put_from(p, key, s->value ? s->value : s->compute(key, buf), o, &from, err);
	policy_empty(p, key);
	if (o)
		origins_forget(o, key, &from);
	return 0;
}

/* Everything that is there now is a default. */
static int note_defaults(const struct cordon_policy *p, struct policy_origins *o, struct cordon_error *err)
{
	const struct policy_origin from = {.kind = ORIGIN_PROFILE, .name = policy_profiles[0].name};
	int r = 0;

	for (size_t i = 0; r == 0 && i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		struct strlist values = {0};

		if (key->alias)
			continue;
		origins_forget(o, key, &from);
		r = policy_values(p, key, &values, err);
		for (size_t k = 0; r == 0 && k < values.count; k++) /* of exit statuses: the one there is, 0 */
			r = origins_note(o, key, k, &from, err);
		strlist_free(&values);
	}
	return r;
}

bool policy_profile_known(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(policy_profiles); i++)
		if (!strcmp(policy_profiles[i].name, name))
			return true;
	return false;
}

int policy_profile_unknown(const char *name, struct cordon_error *err)
{
	const char *names[ARRAY_SIZE(policy_profiles)], *near;
	_cleanup_buf_ struct buf all = {0};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		names[i] = policy_profiles[i].name;
		buf_addf(&all, "%s%s", i > 0 ? ", " : "", names[i]);
	}
	err_set(err, CORDON_ERR_INPUT, "there is no profile '%.60s'", name);
	near = nearest_word(name, names, ARRAY_SIZE(names));
	return near ? err_hint(err, "did you mean '%s'?", near) : err_hint(err, "the profiles are %s", all.data ? all.data : "default");
}

int policy_init_profile_noted(struct cordon_policy *p, const char *profile, struct policy_origins *o, struct cordon_error *err)
{
	int r;

	*p = (struct cordon_policy){0};
	profile = profile ? profile : policy_profiles[0].name;
	if (!policy_profile_known(profile))
		return policy_profile_unknown(profile, err);
	if (policy_init(p, err) < 0)
		return -1;
	r = o ? note_defaults(p, o, err) : 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(settings); i++)
		if (!strcmp(settings[i].profile, profile))
			r = apply(p, &settings[i], o, err);
	if (r == 0 && o)
		r = (o->profile = origins_name(o, profile, err)) ? 0 : -1;
	if (r == 0)
		return 0;
	policy_clear(p);
	return err_wrap(err, "profile %s", profile);
}

int policy_init_profile(struct cordon_policy *p, const char *profile, struct cordon_error *err)
{
	return policy_init_profile_noted(p, profile, NULL, err);
}

struct cordon_policy *cordon_policy_new_profile(const char *name, struct cordon_error *err)
{
	_cleanup_free_ struct cordon_policy *p = calloc(1, sizeof(*p));

	if (!p) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	return policy_init_profile(p, name, err) < 0 ? NULL : steal_ptr(&p);
}
