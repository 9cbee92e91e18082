/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/glob.h"
#include "base/units.h"
#include "base/util.h"

#define LIST_MAX ((size_t)1024)
#define KB ((uint64_t)1024)
#define MB (KB * 1024)
#define GB (MB * 1024)
#define PB (GB * 1024 * 1024)
#define YEAR_MS ((uint64_t)365 * 24 * 3600 * 1000)
#define FIELD(member) offsetof(struct cordon_policy, member)

const char *const tx_action_names[] = {[TX_ROLLBACK] = "rollback", [TX_KEEP] = "keep", [TX_ACTION_COUNT] = NULL};

/* The default of a list is written as its items with ", " between them; no item of a default contains that. */
const struct policy_key policy_keys[] = {
	{"limits.timeout", POLICY_DURATION, FIELD(limits.timeout_ms), 1, YEAR_MS, "60s", "time a command may take", NULL},
	{"limits.memory", POLICY_SIZE, FIELD(limits.memory), 4 * MB, PB, "512M", "memory of everything in the sandbox together", NULL},
	{"limits.cpus", POLICY_CPUS, FIELD(limits.cpus_milli), 10, 1024 * 1000, "1", "CPUs, in whole or in part (0.5)", NULL},
	{"limits.pids", POLICY_COUNT, FIELD(limits.pids), 1, 100000, "50", "processes and threads at a time", NULL},
	{"limits.max_output", POLICY_SIZE, FIELD(limits.max_output), 1, GB, "1M", "output that is kept of each stream", NULL},
	{"limits.disk", POLICY_SIZE, FIELD(limits.disk), MB, PB, "1G", "what may be written to the workspace and the home together", NULL},
	{"limits.files", POLICY_COUNT, FIELD(limits.files), 16, 1048576, "1024", "open files of one process", NULL},
	{"limits.strict", POLICY_BOOL, FIELD(limits.strict), 0, 1, "false", "refuse limits that this host can only hold in a weaker form",
         NULL},
	{"env.allow", POLICY_LIST, FIELD(env_allow), 0, 0, "LANG, TERM, PYTHONUNBUFFERED",
         "variables taken over from the caller's environment", NULL},
	{"env.set", POLICY_ASSIGN_LIST, FIELD(env_set), 0, 0,
         "HOME=/home/user, PATH=" POLICY_PATH ", USER=user, LOGNAME=user, SHELL=/bin/sh, TMPDIR=/tmp",
         "variables with a value, as NAME=VALUE", NULL},
	{"mounts.read", POLICY_LIST, FIELD(mounts_read), 0, 0, NULL, "host paths that may be mounted read-only", NULL},
	{"mounts.write", POLICY_LIST, FIELD(mounts_write), 0, 0, NULL, "host paths that may be mounted writable", NULL},
	{"mounts.forbid", POLICY_LIST, FIELD(mounts_forbid), 0, 0, NULL, "host paths that may not be mounted, besides the built-in ones",
         NULL},
	{"weak.allow", POLICY_LIST, FIELD(weak_allow), 0, 0, NULL, "guarantees that may be weaker: memory, pids, cpu, disk, landlock",
         NULL},
	{"transaction.exit", POLICY_WORD, FIELD(transaction.exit), 0, 0, "rollback", "changes of a command that fails", tx_action_names},
	{"transaction.abort", POLICY_WORD, FIELD(transaction.abort), 0, 0, "rollback", "changes of a command that is ended from outside",
         tx_action_names},
	{"transaction.denial", POLICY_WORD, FIELD(transaction.denial), 0, 0, "keep", "changes of a command that was refused something",
         tx_action_names},
	{"transaction.ok", POLICY_STATUSES, FIELD(transaction.ok), 0, 0, "0", "exit statuses that do not count as failure", NULL},
	{"transaction.preserve", POLICY_LIST, FIELD(transaction.preserve), 0, 0, NULL,
         "patterns of paths in the workspace that survive a rollback", NULL},
};
const size_t policy_key_count = ARRAY_SIZE(policy_keys);

/* Accounts, the kernel's own file systems, sockets that are as good as root, other sandboxes, and where people keep their keys. */
/* clang-format off */
const char *const policy_forbidden_mounts[] = {
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow-",
	"/etc/gshadow",
	"/etc/passwd",
	"/etc/sudoers",
	"/etc/sudoers.d",
	"/root",
	"/proc",
	"/sys",
	"/dev",
	"/boot",
	"/run",
	"/run/docker.sock",
	"/var/run/docker.sock",
	"/run/podman",
	"/run/containerd",
	"/var/lib/docker",
	"/var/lib/cordon",
	"~/.ssh",
	"~/.aws",
	"~/.gnupg",
	"~/.config",
	"~/.kube",
	"~/.docker",
	"~/.netrc",
	"~/.local/state/cordon",
	NULL,
};
/* clang-format on */

static const char *const guarantees[] = {"memory", "pids", "cpu", "disk", "landlock"};

/* ---- lists of strings --------------------------------------------------------------------------------------------------------- */

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

int strlist_add(struct strlist *l, const char *s, struct cordon_error *err)
{
	char **items = realloc(l->items, (l->count + 2) * sizeof(*items));

	if (!items)
		return out_of_memory(err);
	l->items = items;
	items[l->count] = strdup(s);
	if (!items[l->count])
		return out_of_memory(err); /* the NULL that is there now ends the list as before */
	items[++l->count] = NULL;
	return 0;
}

/* `to` is overwritten, so it need not be initialised; it is empty after a failure. */
int strlist_copy(struct strlist *to, const struct strlist *from, struct cordon_error *err)
{
	*to = (struct strlist){0};
	for (size_t i = 0; i < from->count; i++) {
		if (strlist_add(to, from->items[i], err) < 0) {
			strlist_free(to);
			return -1;
		}
	}
	return 0;
}

void strlist_free(struct strlist *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i]);
	free(l->items);
	*l = (struct strlist){0};
}

bool strlist_has(const struct strlist *l, const char *s)
{
	for (size_t i = 0; i < l->count; i++)
		if (!strcmp(l->items[i], s))
			return true;
	return false;
}

/* ---- single values ------------------------------------------------------------------------------------------------------------ */

static void *field(struct cordon_policy *p, const struct policy_key *key)
{
	return (char *)p + key->offset;
}

static bool is_list(const struct policy_key *key)
{
	return key->type == POLICY_LIST || key->type == POLICY_ASSIGN_LIST;
}

static const char *format_number(const struct policy_key *key, uint64_t n, char buf[32])
{
	if (key->type == POLICY_SIZE)
		return units_format_size(n, buf);
	if (key->type == POLICY_DURATION)
		return units_format_duration(n, buf);
	if (key->type == POLICY_CPUS && n % 1000 != 0)
		snprintf(buf, 32, "%" PRIu64 ".%02" PRIu64, n / 1000, n % 1000 / 10);
	else
		snprintf(buf, 32, "%" PRIu64, key->type == POLICY_CPUS ? n / 1000 : n);
	return buf;
}

static int parse_number(const struct policy_key *key, const char *value, uint64_t *n)
{
	if (key->type == POLICY_SIZE)
		return units_parse_size(value, n, NULL);
	if (key->type == POLICY_DURATION)
		return units_parse_duration(value, n, NULL);
	if (key->type == POLICY_CPUS)
		return units_parse_cpus(value, n, NULL);
	return units_parse_count(value, key->min, key->max, n, NULL);
}

/* The text of units_parse_*() would name the widest range; here it is the range of this key. */
static int set_number(struct cordon_policy *p, const struct policy_key *key, const char *value, struct cordon_error *err)
{
	static const struct {
		const char *noun, *form;
	} words[] = {
		[POLICY_SIZE] = {"a size", "write a number with B, K, M, G or T, such as 512M"},
		[POLICY_DURATION] = {"a duration", "write a number with ms, s, m, h or d, such as 60s"},
		[POLICY_CPUS] = {"a number of CPUs", "write a decimal number, such as 1 or 0.5"},
		[POLICY_COUNT] = {"a whole number", "write digits only"},
	};
	char min[32], max[32];
	uint64_t n = 0;
	bool malformed = parse_number(key, value, &n) < 0 && errno != ERANGE;

	if (!malformed && n >= key->min && n <= key->max) { /* n stays 0, below every minimum, when it was out of range */
		*(uint64_t *)field(p, key) = n;
		return 0;
	}
	format_number(key, key->min, min);
	format_number(key, key->max, max);
	return err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' is %s%s (%s; %s to %s)", key->name, value, malformed ? "not " : "out of range",
	               malformed ? words[key->type].noun : "", words[key->type].form, min, max);
}

static int set_bool(struct cordon_policy *p, const struct policy_key *key, const char *value, struct cordon_error *err)
{
	bool yes = !strcmp(value, "true");

	if (!yes && strcmp(value, "false") != 0)
		return err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' is neither true nor false", key->name, value);
	*(bool *)field(p, key) = yes;
	return 0;
}

static const char *join_words(const char *const *words, size_t count, char *out, size_t size)
{
	_cleanup_buf_ struct buf text = {0};

	for (size_t i = 0; i < count; i++)
		buf_addf(&text, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", words[i]);
	snprintf(out, size, "%s", text.data ? text.data : "");
	return out;
}

static int set_word(struct cordon_policy *p, const struct policy_key *key, const char *value, struct cordon_error *err)
{
	const char *near;
	char words[128];
	unsigned count = 0;

	for (; key->words[count]; count++) {
		if (!strcmp(value, key->words[count])) {
			*(unsigned *)field(p, key) = count; /* what an enum without negative values is */
			return 0;
		}
	}
	err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' is not known (write %s)", key->name, value,
	        join_words(key->words, count, words, sizeof(words)));
	near = nearest_word(value, key->words, count);
	return near ? err_hint(err, "did you mean '%s'?", near) : -1;
}

/* ---- exit statuses ------------------------------------------------------------------------------------------------------------ */

static bool parse_status(const char *text, size_t len, uint64_t *status)
{
	char digits[4];

	if (len == 0 || len >= sizeof(digits))
		return false;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return units_parse_count(digits, 0, 255, status, NULL) == 0;
}

/* Adds one or several with commas between them: all or none. */
static int set_statuses(struct cordon_policy *p, const struct policy_key *key, const char *value, struct cordon_error *err)
{
	uint8_t *now = field(p, key), more[sizeof(p->transaction.ok)];

	memcpy(more, now, sizeof(more));
	for (const char *s = value;; s++) {
		uint64_t status;
		size_t len;

		s += s > value ? strspn(s, " ") : 0;
		len = strcspn(s, ",");
		if (!parse_status(s, len, &status))
			return err_set(err, CORDON_ERR_INPUT, "%s: '%.*s' is not an exit status (write 0 to 255, several as 0,1)",
			               key->name, (int)MIN(len, (size_t)60), s);
		more[status / 8] |= (uint8_t)(1u << status % 8);
		s += len;
		if (!*s)
			break;
	}
	memcpy(now, more, sizeof(more));
	return 0;
}

bool policy_status_ok(const struct cordon_policy *p, int status)
{
	return status >= 0 && status <= 255 && (p->transaction.ok[status / 8] >> status % 8 & 1);
}

/* ---- items of lists ----------------------------------------------------------------------------------------------------------- */

static char *copy_item(const char *value, struct cordon_error *err)
{
	char *copy = strdup(value);

	if (!copy)
		out_of_memory(err);
	return copy;
}

static char *check_env_name(const char *value, struct cordon_error *err)
{
	if (!env_name_valid(value, strlen(value))) {
		char name[61] = ""; /* without what comes after "=", which may be a secret */
		memcpy(name, value, MIN(strcspn(value, "="), sizeof(name) - 1));
		err_set(err, CORDON_ERR_INPUT, "'%s' is not a variable name (write letters, digits and _, no digit first)", name);
		if (strchr(value, '='))
			err_hint(err, "to give a variable a value use env.set");
		return NULL;
	}
	if (env_name_injects(value)) {
		err_set(err, CORDON_ERR_INPUT,
		        "'%.60s' is never taken from the host, because it changes what programs run (use env.set instead)", value);
		err_hint(err, "to give it a value of your own: env.set %.60s=VALUE", value);
		return NULL;
	}
	return copy_item(value, err);
}

static bool is_dots(const char *component, size_t len)
{
	return (len == 1 || len == 2) && component[0] == '.' && component[len - 1] == '.';
}

/* One form for each path, so that comparing them as strings is right; "." and ".." would need the file system to resolve. */
static char *normalise(const char *value, const char *what, struct cordon_error *err)
{
	_cleanup_buf_ struct buf path = {0};
	char *normal;

	for (const char *s = value; *s;) {
		size_t len;

		s += strspn(s, "/");
		len = strcspn(s, "/");
		if (is_dots(s, len)) {
			err_set(err, CORDON_ERR_INPUT, "'%.60s' contains '%.*s' (write %s without . and .. in it)", value, (int)len, s,
			        what);
			return NULL;
		}
		if (len > 0)
			buf_add_str(&path, "/");
		buf_add(&path, s, len);
		s += len;
	}
	if (path.len == 0)
		buf_add_str(&path, "/");
	normal = buf_steal(&path);
	if (!normal)
		out_of_memory(err);
	return normal;
}

static char *check_path(const char *value, struct cordon_error *err)
{
	if (value[0] != '/' || strlen(value) >= PATH_MAX) {
		err_set(err, CORDON_ERR_INPUT, "'%.60s' is not an absolute path (write one that starts with /, at most %d bytes)", value,
		        PATH_MAX - 1);
		return NULL;
	}
	return normalise(value, "an absolute path", err);
}

/* "logs/" means what is in it, as in .gitignore. */
static char *check_glob(const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *normal = NULL;
	_cleanup_buf_ struct buf pattern = {.cap = GLOB_MAX};
	size_t len = strlen(value);
	char *result;

	if (len == 0 || value[0] == '/' || len > GLOB_MAX - 2) {
		err_set(err, CORDON_ERR_INPUT,
		        "'%.60s' is not a pattern of paths in the workspace (write one such as .coverage or build/**, at most %d bytes)",
		        value, GLOB_MAX - 2);
		if (value[0] == '/')
			err_hint(err, "it is relative to the workspace: no / at the beginning");
		return NULL;
	}
	normal = normalise(value, "a pattern", err);
	if (!normal)
		return NULL;
	buf_addf(&pattern, "%s%s", normal + 1, value[len - 1] == '/' ? "/**" : "");
	result = buf_steal(&pattern);
	if (!result)
		out_of_memory(err);
	return result;
}

static char *check_guarantee(const char *value, struct cordon_error *err)
{
	const char *near;

	for (size_t i = 0; i < ARRAY_SIZE(guarantees); i++)
		if (!strcmp(value, guarantees[i]))
			return copy_item(value, err);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is not a guarantee (write memory, pids, cpu, disk or landlock)", value);
	near = nearest_word(value, guarantees, ARRAY_SIZE(guarantees));
	if (near)
		err_hint(err, "did you mean '%s'?", near);
	return NULL;
}

/* What an item of a list must look like. Each check returns the item in its normal form, allocated, or NULL. */
static const struct {
	size_t offset;
	char *(*check)(const char *value, struct cordon_error *err);
} item_checks[] = {
	{FIELD(env_allow), check_env_name}, {FIELD(mounts_read), check_path},     {FIELD(mounts_write), check_path},
	{FIELD(mounts_forbid), check_path}, {FIELD(weak_allow), check_guarantee}, {FIELD(transaction.preserve), check_glob},
};

static char *check_item(const struct policy_key *key, const char *value, struct cordon_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(item_checks); i++)
		if (item_checks[i].offset == key->offset)
			return item_checks[i].check(value, err);
	err_set(err, CORDON_ERR_INPUT, "this list takes no values"); /* a key without a check is refused, not let through */
	return NULL;
}

static int add_to_list(struct strlist *list, const struct policy_key *key, const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *item = NULL;

	if (list->count >= LIST_MAX)
		return err_set(err, CORDON_ERR_INPUT, "more than %zu entries", LIST_MAX);
	if (key->type == POLICY_ASSIGN_LIST)
		return strlist_assign(list, value, err);
	item = check_item(key, value, err);
	if (!item)
		return -1;
	return strlist_has(list, item) ? 0 : strlist_add(list, item, err);
}

static int set_list(struct cordon_policy *p, const struct policy_key *key, const char *value, struct cordon_error *err)
{
	if (add_to_list(field(p, key), key, value, err) < 0)
		return err_wrap(err, "%s", key->name);
	return 0;
}

/* ---- policies ----------------------------------------------------------------------------------------------------------------- */

const struct policy_key *policy_key_find(const char *name)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (!strcmp(policy_keys[i].name, name))
			return &policy_keys[i];
	return NULL;
}

/* "limits.{timeout,memory}, weak.allow": short enough for a hint. */
static void list_keys(char *out, size_t size)
{
	_cleanup_buf_ struct buf names = {0};
	const char *section = "";
	size_t section_len = 0;

	for (size_t i = 0; i < policy_key_count; i++) {
		const char *name = policy_keys[i].name;
		bool same = section_len > 0 && !strncmp(name, section, section_len);

		if (!same) {
			buf_add_str(&names, i > 0 ? "}, " : "");
			section = name;
			section_len = strcspn(name, ".") + 1;
			buf_addf(&names, "%.*s{", (int)section_len, name);
		}
		buf_addf(&names, "%s%s", same ? "," : "", name + section_len);
	}
	snprintf(out, size, "%s}", names.data ? names.data : "{");
}

static int unknown_key(const char *key, struct cordon_error *err)
{
	const char *full[ARRAY_SIZE(policy_keys)], *last[ARRAY_SIZE(policy_keys)];
	const char *near;
	char keys[256]; /* as long as a hint */

	for (size_t i = 0; i < ARRAY_SIZE(policy_keys); i++) {
		full[i] = policy_keys[i].name;
		last[i] = strchr(full[i], '.') + 1;
	}
	err_set(err, CORDON_ERR_INPUT, "unknown policy key '%.60s'", key);
	near = nearest_word(key, full, ARRAY_SIZE(full));
	for (size_t i = 0; !near && i < ARRAY_SIZE(last); i++) /* "memory" for "limits.memory" */
		if (nearest_word(key, last, ARRAY_SIZE(last)) == last[i])
			near = full[i];
	if (near)
		return err_hint(err, "did you mean '%s'?", near);
	list_keys(keys, sizeof(keys));
	return err_hint(err, "the keys are %s", keys);
}

int policy_set(struct cordon_policy *p, const char *key, const char *value, struct cordon_error *err)
{
	const struct policy_key *k;

	if (!key || !value)
		return err_set(err, CORDON_ERR_INPUT, "a policy setting needs a key and a value");
	k = policy_key_find(key);
	if (!k)
		return unknown_key(key, err);
	switch (k->type) {
	case POLICY_SIZE:
	case POLICY_DURATION:
	case POLICY_CPUS:
	case POLICY_COUNT:
		return set_number(p, k, value, err);
	case POLICY_BOOL:
		return set_bool(p, k, value, err);
	case POLICY_WORD:
		return set_word(p, k, value, err);
	case POLICY_STATUSES:
		return set_statuses(p, k, value, err);
	case POLICY_LIST:
	case POLICY_ASSIGN_LIST:
		return set_list(p, k, value, err);
	}
	return -1;
}

/* The defaults take the same way as what a user writes, so they are checked by the same rules. */
static int set_default(struct cordon_policy *p, const struct policy_key *key, struct cordon_error *err)
{
	const char *s = key->fallback;

	while (s) {
		const char *end = is_list(key) ? strstr(s, ", ") : NULL;
		_cleanup_free_ char *item = end ? strndup(s, (size_t)(end - s)) : strdup(s);

		if (!item)
			return out_of_memory(err);
		if (policy_set(p, key->name, item, err) < 0)
			return -1;
		s = end ? end + 2 : NULL;
	}
	return 0;
}

int policy_init(struct cordon_policy *p, struct cordon_error *err)
{
	*p = (struct cordon_policy){0};
	for (size_t i = 0; i < policy_key_count; i++) {
		if (set_default(p, &policy_keys[i], err) < 0) {
			policy_clear(p);
			return -1;
		}
	}
	return 0;
}

void policy_clear(struct cordon_policy *p)
{
	for (size_t i = 0; i < policy_key_count; i++)
		if (is_list(&policy_keys[i]))
			strlist_free(field(p, &policy_keys[i]));
	*p = (struct cordon_policy){0};
}

/* `to` is overwritten, so it need not be initialised; it is empty after a failure. */
int policy_copy(struct cordon_policy *to, const struct cordon_policy *from, struct cordon_error *err)
{
	*to = *from;
	for (size_t i = 0; i < policy_key_count; i++) /* the lists are still those of the other one */
		if (is_list(&policy_keys[i]))
			*(struct strlist *)field(to, &policy_keys[i]) = (struct strlist){0};
	for (size_t i = 0; i < policy_key_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		const struct strlist *list = (const void *)((const char *)from + key->offset);

		if (is_list(key) && strlist_copy(field(to, key), list, err) < 0) {
			policy_clear(to);
			return -1;
		}
	}
	return 0;
}
