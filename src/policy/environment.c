/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a command. It starts empty; what is taken over from the host is named by the policy one variable at a time, so
 * that tokens and keys in the caller's environment stay outside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "policy/maps.h"
#include "policy/policy.h"

#define ENTRY_MAX ((size_t)128 * 1024) /* MAX_ARG_STRLEN of execve(2), with the NUL; longer strings fail there with E2BIG */
#define ENVIRONMENT_MAX ((size_t)4096)

/* Variables that make a loader, a shell or an interpreter run code or change its meaning before the program's first line. */
static const char *const injecting_names[] = {
	"GLIBC_TUNABLES", "BASH_ENV", "ENV", "IFS", "PYTHONSTARTUP", "NODE_OPTIONS", "RUBYOPT", "PERL5OPT",
};

bool env_name_valid(const char *name, size_t len)
{
	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];
		bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';

		if (!letter && !(i > 0 && c >= '0' && c <= '9'))
			return false;
	}
	return true;
}

bool env_name_injects(const char *name)
{
	if (!strncmp(name, "LD_", 3))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(injecting_names); i++)
		if (!strcmp(name, injecting_names[i]))
			return true;
	return false;
}

/* Errors name the variable and never its value, which may be a secret. */
int strlist_assign(struct strlist *l, const char *entry, struct cordon_error *err)
{
	size_t name_len = strcspn(entry, "=");
	char *copy;

	if (entry[name_len] != '=')
		return err_set(err, CORDON_ERR_INPUT, "'%.60s' is not an assignment (write NAME=VALUE)", entry);
	if (!env_name_valid(entry, name_len))
		return err_set(err, CORDON_ERR_INPUT, "'%.*s' is not a variable name (write letters, digits and _, no digit first)",
		               (int)MIN(name_len, (size_t)60), entry);
	if (strlen(entry) >= ENTRY_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the value of '%.*s' is too long (%zu bytes with the name at most)",
		               (int)MIN(name_len, (size_t)60), entry, ENTRY_MAX - 1);
	for (size_t i = 0; i < l->count; i++) {
		if (strncmp(l->items[i], entry, name_len + 1) != 0)
			continue;
		copy = strdup(entry);
		if (!copy)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		free(l->items[i]);
		l->items[i] = copy;
		return 0;
	}
	return strlist_add(l, entry, err);
}

static int assign_capped(struct strlist *out, const char *entry, struct cordon_error *err)
{
	if (strlist_assign(out, entry, err) < 0)
		return -1;
	if (out->count > ENVIRONMENT_MAX)
		return err_set(err, CORDON_ERR_INPUT, "more than %zu variables", ENVIRONMENT_MAX);
	return 0;
}

/* The entry for name, as getenv(3) would find it: the first one. */
static const char *find_entry(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			return *env;
	return NULL;
}

static int take_from_host(struct strlist *out, const struct strlist *allow, char *const *host, struct cordon_error *err)
{
	for (size_t i = 0; host && i < allow->count; i++) {
		const char *entry = find_entry(host, allow->items[i]);

		/* policy_set() has refused these already; a policy that was filled in some other way must not get past it */
		if (!entry || env_name_injects(allow->items[i]))
			continue;
		if (assign_capped(out, entry, err) < 0)
			return -1;
	}
	return 0;
}

/* Where programs look for those whom they believe; without it many of them look elsewhere than in the system's file, or in their own. */
static const char *const trust_entries[] = {
	"SSL_CERT_FILE=" POLICY_TRUST_INSIDE,     "REQUESTS_CA_BUNDLE=" POLICY_TRUST_INSIDE, "CURL_CA_BUNDLE=" POLICY_TRUST_INSIDE,
	"GIT_SSL_CAINFO=" POLICY_TRUST_INSIDE,    "PIP_CERT=" POLICY_TRUST_INSIDE,           "AWS_CA_BUNDLE=" POLICY_TRUST_INSIDE,
	"CARGO_HTTP_CAINFO=" POLICY_TRUST_INSIDE, "DENO_CERT=" POLICY_AUTHORITY_INSIDE,      "NODE_EXTRA_CA_CERTS=" POLICY_AUTHORITY_INSIDE,
};

/* The secret itself stays outside: what is inside stands for it. env.set may have another text for that. */
static int add_placeholder(struct strlist *out, const struct policy_secret *s, struct cordon_error *err)
{
	_cleanup_free_ char *entry = NULL;

	if (!s->env)
		return 0;
	if (asprintf(&entry, "%s=" POLICY_PLACEHOLDER "%s", s->env, strchr(s->from, ':') + 1) < 0) {
		entry = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return assign_capped(out, entry, err);
}

static int add_secrets(struct strlist *out, const struct maplist *secrets, struct cordon_error *err)
{
	for (size_t i = 0; secrets->count && i < ARRAY_SIZE(trust_entries); i++)
		if (assign_capped(out, trust_entries[i], err) < 0)
			return -1;
	for (size_t i = 0; i < secrets->count; i++)
		if (add_placeholder(out, maplist_item(secrets, &map_secret, i), err) < 0)
			return -1;
	return 0;
}

/* A variable that a secret is taken from has it nowhere inside, by whichever way it came. */
static int hide_sources(struct strlist *out, const struct maplist *secrets, struct cordon_error *err)
{
	static const char from[] = "env:";

	for (size_t i = 0; out->count && i < secrets->count; i++) {
		const struct policy_secret *s = maplist_item(secrets, &map_secret, i);
		const char *name = s->from + strlen(from);
		_cleanup_free_ char *entry = NULL;

		if (strncmp(s->from, from, strlen(from)) != 0 || !find_entry(out->items, name))
			continue;
		if (asprintf(&entry, "%s=" POLICY_PLACEHOLDER "%s", name, name) < 0) {
			entry = NULL;
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		}
		if (strlist_assign(out, entry, err) < 0)
			return -1;
	}
	return 0;
}

/* Where its programs lie an image knows best. What is no assignment of a variable is left out: nobody asked for it. */
static int take_from_image(struct strlist *out, const struct strlist *image, struct cordon_error *err)
{
	for (size_t i = 0; i < image->count; i++)
		if (env_name_valid(image->items[i], strcspn(image->items[i], "=")) && strchr(image->items[i], '=') &&
		    assign_capped(out, image->items[i], err) < 0)
			return -1;
	return 0;
}

static bool is_default_path(const char *entry, const struct strlist *image)
{
	return strcmp(entry, "PATH=" POLICY_PATH) == 0 && image->count && find_entry(image->items, "PATH");
}

/* Who is root, and where root finds programs, unless the policy says something else than its default. */
static const char *as_root(const char *entry)
{
	static const char *const entries[][2] = {
		{"PATH=" POLICY_PATH, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		{"USER=user", "USER=root"},
		{"LOGNAME=user", "LOGNAME=root"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		if (strcmp(entry, entries[i][0]) == 0)
			return entries[i][1];
	return entry;
}

static int set_from_policy(const struct cordon_policy *p, const struct strlist *image, struct strlist *out, struct cordon_error *err)
{
	for (size_t i = 0; i < p->env_set.count; i++) {
		const char *entry = p->env_set.items[i];

		if (!is_default_path(entry, image) && assign_capped(out, p->root == ROOT_LAYERED ? as_root(entry) : entry, err) < 0)
			return -1;
	}
	return 0;
}

static int build(const struct cordon_policy *p, char *const *host, const struct strlist *image, const char *const *extra,
                 struct strlist *out, struct cordon_error *err)
{
	if (take_from_image(out, image, err) < 0)
		return -1;
	if (take_from_host(out, &p->env_allow, host, err) < 0 || add_secrets(out, &p->secrets, err) < 0)
		return -1;
	if (!p->process.native &&
	    assign_capped(out, "NODE_OPTIONS=--jitless", err) < 0) /* or Node cannot start; env.set may say otherwise */
		return -1;
	if (set_from_policy(p, image, out, err) < 0)
		return -1;
	for (; extra && *extra; extra++)
		if (assign_capped(out, *extra, err) < 0)
			return -1;
	return hide_sources(out, &p->secrets, err);
}

int policy_environment(const struct cordon_policy *p, char *const *host, const char *const *extra, struct strlist *out,
                       struct cordon_error *err)
{
	return policy_environment_on(p, host, &(const struct strlist){0}, extra, out, err);
}

int policy_environment_on(const struct cordon_policy *p, char *const *host, const struct strlist *image, const char *const *extra,
                          struct strlist *out, struct cordon_error *err)
{
	*out = (struct strlist){0};
	if (build(p, host, image, extra, out, err) < 0) {
		strlist_free(out);
		return err_wrap(err, "environment");
	}
	return 0;
}
