/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/items.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/util.h"
#include "policy/host.h"
#include "secrets/name.h"

#define NAME_MAX_LEN 63
#define METHOD_MAX_LEN 20

static const char *const guarantees[] = {"memory", "pids", "cpu", "disk", "landlock"};

static char *copy_item(const char *value, struct cordon_error *err)
{
	char *copy = strdup(value);

	if (!copy)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return copy;
}

static char *steal_text(struct buf *b, struct cordon_error *err)
{
	char *text = buf_steal(b);

	if (!text)
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return text;
}

/* ---- text --------------------------------------------------------------------------------------------------------------------- */

/* UTF-8 without control characters: nothing in it can forge a line of a log or a header, or talk to a terminal. */
static bool is_line(const char *value)
{
	if (!utf8_valid(value, strlen(value)))
		return false;
	for (const unsigned char *s = (const unsigned char *)value; *s; s++)
		if (*s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) /* C0, DEL, C1 */
			return false;
	return true;
}

static char *check_text(const char *value, struct cordon_error *err)
{
	size_t len = strlen(value);

	if (len > 0 && len <= POLICY_TEXT_MAX && is_line(value))
		return copy_item(value, err);
	if (len == 0 || len > POLICY_TEXT_MAX)
		err_set(err, CORDON_ERR_INPUT, "a text of %zu bytes (write 1 to %d)", len, POLICY_TEXT_MAX);
	else
		err_set(err, CORDON_ERR_INPUT, "a text with control characters (write one line)");
	return NULL;
}

static char *check_format(const char *value, struct cordon_error *err)
{
	const char *place = strstr(value, "{}");

	if (place && !strstr(place + 2, "{}"))
		return check_text(value, err);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' does not say where the secret goes (write {} once, such as 'Bearer {}')", value);
	return NULL;
}

/* By these servers, and those between, tell whose a request is, where it ends, and what comes next. */
static const char *const framing_headers[] = {"host",    "content-length", "transfer-encoding", "connection",     "upgrade", "te",
                                              "trailer", "expect",         "keep-alive",        "accept-encoding"};

/* Many servers take "_" for "-". */
static bool is_same_header(const char *a, const char *b)
{
	for (; *a && tolower((unsigned char)(*a == '_' ? '-' : *a)) == *b; a++)
		b++;
	return !*a && !*b;
}

/* RFC 9110, 5.6.2: a token. */
static char *check_header(const char *value, struct cordon_error *err)
{
	static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
	size_t len = strspn(value, token);

	for (size_t i = 0; i < ARRAY_SIZE(framing_headers); i++)
		if (is_same_header(value, framing_headers[i])) {
			err_set(err, CORDON_ERR_INPUT, "'%.60s' cannot carry a secret: it says what a request is", value);
			return NULL;
		}
	if (len > 0 && len <= NAME_MAX_LEN && !value[len])
		return copy_item(value, err);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is not the name of a header (write one such as Authorization)", value);
	return NULL;
}

/* Servers tell "get" from "GET"; who writes it in a rule does not mean to. */
static char *check_method(const char *value, struct cordon_error *err)
{
	size_t len = strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

	if (len > 0 && len <= METHOD_MAX_LEN && !value[len])
		return copy_item(value, err);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is not a method (write one such as GET or POST)", value);
	return NULL;
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

static char *check_variable(const char *value, struct cordon_error *err)
{
	char name[61] = ""; /* without what comes after "=", which may be a secret */

	if (env_name_valid(value, strlen(value)))
		return copy_item(value, err);
	memcpy(name, value, MIN(strcspn(value, "="), sizeof(name) - 1));
	err_set(err, CORDON_ERR_INPUT, "'%s' is not a variable name (write letters, digits and _, no digit first)", name);
	return NULL;
}

static char *check_host_variable(const char *value, struct cordon_error *err)
{
	char *name = check_variable(value, err);

	if (!name && strchr(value, '='))
		err_hint(err, "to give a variable a value use env.set");
	if (!name || !env_name_injects(name))
		return name;
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is never taken from the host, because it changes what programs run (use env.set instead)",
	        name);
	err_hint(err, "to give it a value of your own: env.set %.60s=VALUE", name);
	free(name);
	return NULL;
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

/* [a-z0-9][a-z0-9._-]*: also a file name, and nothing that leads out of a directory. */
static bool is_short_name(const char *value)
{
	size_t len = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	return len > 0 && len <= NAME_MAX_LEN && !value[len] && !strchr("._-", value[0]);
}

static char *check_pack(const char *value, struct cordon_error *err)
{
	if (is_short_name(value))
		return copy_item(value, err);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is not the name of a rule pack (write one such as shell-destructive)", value);
	return NULL;
}

static char *check_secret(const char *value, struct cordon_error *err)
{
	static const char store[] = "store:", env[] = "env:";
	const size_t s = sizeof(store) - 1, e = sizeof(env) - 1;

	if (!strncmp(value, store, s) && secret_name_valid(value + s))
		return copy_item(value, err);
	if (!strncmp(value, env, e) && env_name_valid(value + e, strlen(value + e)))
		return copy_item(value, err);
	/* not what was written: it may be the secret itself */
	err_set(err, CORDON_ERR_INPUT, "this is not where a secret comes from (write store:NAME or env:NAME)");
	return NULL;
}

/* ---- hosts -------------------------------------------------------------------------------------------------------------------- */

static char *check_host(const char *value, struct cordon_error *err)
{
	return host_canonical(value, HOST_ANY, err);
}

static char *check_named_host(const char *value, struct cordon_error *err)
{
	return host_canonical(value, HOST_NAME | HOST_SUFFIX, err);
}

/* ---- paths -------------------------------------------------------------------------------------------------------------------- */

static bool is_dots(const char *component, size_t len)
{
	return (len == 1 || len == 2) && component[0] == '.' && component[len - 1] == '.';
}

/* One form for each path, so that comparing them as strings is right; "." and ".." would need the file system to resolve. */
static char *normalise(const char *value, const char *what, struct cordon_error *err)
{
	_cleanup_buf_ struct buf path = {0};

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
	return steal_text(&path, err);
}

char *policy_normal_path(const char *value, struct cordon_error *err)
{
	if (value[0] != '/' || strlen(value) >= PATH_MAX) {
		err_set(err, CORDON_ERR_INPUT, "'%.60s' is not an absolute path (write one that starts with /, at most %d bytes)", value,
		        PATH_MAX - 1);
		return NULL;
	}
	return normalise(value, "an absolute path", err);
}

/* "logs/" means what is in it, as in .gitignore. */
static char *finish_glob(const char *normal, const char *value, struct cordon_error *err)
{
	_cleanup_buf_ struct buf pattern = {.cap = GLOB_MAX};
	size_t len = strlen(value);

	buf_addf(&pattern, "%s%s", normal, value[len - 1] == '/' && strcmp(normal, "/") != 0 ? "/**" : "");
	return steal_text(&pattern, err);
}

static char *check_project_glob(const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *normal = NULL;
	size_t len = strlen(value);

	if (len == 0 || value[0] == '/' || len > GLOB_MAX - 2) {
		err_set(err, CORDON_ERR_INPUT,
		        "'%.60s' is not a pattern of paths in the workspace (write one such as .coverage or build/**, at most %d bytes)",
		        value, GLOB_MAX - 2);
		if (value[0] == '/')
			err_hint(err, "it is relative to the workspace: no / at the beginning");
		return NULL;
	}
	normal = normalise(value, "a pattern", err);
	return normal ? finish_glob(normal + 1, value, err) : NULL;
}

static char *check_inside_glob(const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *normal = NULL;

	if (value[0] != '/' || strlen(value) > GLOB_MAX - 3) {
		err_set(err, CORDON_ERR_INPUT,
		        "'%.60s' is not a pattern of absolute paths (write one that starts with /, such as /app/**, at most %d bytes)",
		        value, GLOB_MAX - 3);
		if (value[0] == '~')
			err_hint(err, "it is a path inside: the home is /home/user");
		return NULL;
	}
	normal = normalise(value, "a pattern", err);
	return normal ? finish_glob(normal, value, err) : NULL;
}

/* What a request asks for, before its "?": as it stands there, so that nothing that a server might read in two ways is in it. */
static char *check_url_path(const char *value, struct cordon_error *err)
{
	size_t len = strcspn(value, "%?#,;\\ ");

	if (value[0] == '/' && !value[len] && is_line(value))
		return check_inside_glob(value, err);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is not a pattern of what a request asks for (write one such as /v1/**, without %% ? # , ;)",
	        value);
	return NULL;
}

/* "dd", "mkfs*", "/usr/lib/git-core/\*" */
static char *check_program(const char *value, struct cordon_error *err)
{
	if (value[0] == '/')
		return check_inside_glob(value, err);
	if (value[0] && !strpbrk(value, "/ ") && strlen(value) <= NAME_MAX && is_line(value) && !is_dots(value, strlen(value)))
		return copy_item(value, err);
	err_set(err, CORDON_ERR_INPUT,
	        "'%.60s' is not a program (write a name such as git, a pattern of names such as mkfs*, or one of absolute paths)", value);
	if (strchr(value, ' '))
		err_hint(err, "without its arguments");
	return NULL;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

#define NOT_DOTS "^(?!.*(^|/)\\.{1,2}(/|$))"

const struct policy_item item_variable = {check_host_variable, "the name of a variable", "^[A-Za-z_][A-Za-z0-9_]*$"};
const struct policy_item item_placeholder = {check_variable, "the name of a variable", "^[A-Za-z_][A-Za-z0-9_]*$"};
const struct policy_item item_host_path = {policy_normal_path, "an absolute path on the host", NOT_DOTS "/"};
const struct policy_item item_inside_glob = {check_inside_glob, "a pattern of absolute paths inside", NOT_DOTS "/"};
const struct policy_item item_project_glob = {check_project_glob, "a pattern of paths in the workspace", NOT_DOTS "[^/]"};
const struct policy_item item_guarantee = {check_guarantee, "a guarantee", "^(memory|pids|cpu|disk|landlock)$"};
const struct policy_item item_host = {check_host, "a name, *.SUFFIX or ADDRESS/PREFIX", "^[A-Za-z0-9*._:/-]+$"};
const struct policy_item item_named_host = {check_named_host, "a name or *.SUFFIX", "^(\\*\\.)?[A-Za-z0-9._-]+$"};
const struct policy_item item_program = {check_program, "a name, or a pattern of names or absolute paths", "^(/|[^/]+$)"};
const struct policy_item item_pack = {check_pack, "the name of a rule pack", "^[a-z0-9][a-z0-9._-]*$"};
const struct policy_item item_text = {check_text, "one line of text", "."};
const struct policy_item item_secret = {check_secret, "store:NAME or env:NAME",
                                        "^(store:" SECRET_NAME_PATTERN "|env:[A-Za-z_][A-Za-z0-9_]*)$"};
const struct policy_item item_header = {check_header, "the name of an HTTP header", "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"};
const struct policy_item item_format = {check_format, "a text with {} in it", "\\{\\}"};
const struct policy_item item_method = {check_method, "the name of an HTTP method", "^[A-Z-]+$"};
const struct policy_item item_url_path = {check_url_path, "a pattern of paths in a URL", NOT_DOTS "/[^%?#,;]*$"};
