/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/redact.h"

#include <string.h>

#include "base/glob.h"
#include "base/util.h"

enum { NAME_MAX_LEN = 128, VALUE_LEAST = 4 };

/* ---- tables ------------------------------------------------------------------------------------------------------------------ */

/* In capitals, with _ for -. A table of its own and no globs, since every option of every command passes here. */
enum where { ANYWHERE, AT_END, WHOLE };
struct name_rule {
	const char *text;
	enum where where;
};
static const struct name_rule secret_names[] = {
	{"PASSWORD", ANYWHERE}, {"PASSWD", ANYWHERE},  {"PASSPHRASE", ANYWHERE}, {"SECRET", ANYWHERE},    {"CREDENTIAL", ANYWHERE},
	{"APIKEY", ANYWHERE},   {"API_KEY", ANYWHERE}, {"_TOKEN_", ANYWHERE},    {"AUTHTOKEN", ANYWHERE}, {"TOKEN", AT_END},
	{"_KEY", AT_END},       {"ACCESSKEY", AT_END}, {"PRIVATEKEY", AT_END},   {"_PASS", AT_END},       {"_PWD", AT_END},
	{"_PAT", AT_END},       {"_AUTH", AT_END},     {"_CREDS", AT_END},       {"_COOKIE", AT_END},     {"AUTHORIZATION", AT_END},
	{"PASS", WHOLE},        {"COOKIE", WHOLE},
};
/* What such names are also part of. */
static const struct name_rule harmless_names[] = {
	{"PUBLIC_KEY", AT_END}, {"PUBLICKEY", AT_END}, {"_FILE", AT_END},   {"_FILES", AT_END}, {"_PATH", AT_END},
	{"_DIR", AT_END},       {"_ID", AT_END},       {"_NAME", AT_END},   {"_SOCK", AT_END},  {"_SIZE", AT_END},
	{"_TYPE", AT_END},      {"_COUNT", AT_END},    {"_LENGTH", AT_END},
};
/* Headers: everything up to the end of the line is theirs. */
static const struct name_rule header_names[] = {
	{"AUTHORIZATION", AT_END}, {"COOKIE", WHOLE}, {"SET_COOKIE", WHOLE}, {"X_AUTH_TOKEN", WHOLE}, {"X_API_KEY", WHOLE}};

/* A beginning, and how many of which characters must follow. */
enum class { ALNUM, UPPER, BASE64URL, CLASS_COUNT };
static const struct shape {
	const char *prefix;
	enum class rest;
	size_t least;
} shapes[] = {
	{"AKIA", UPPER, 16},
	{"ASIA", UPPER, 16},
	{"ghp_", ALNUM, 20},
	{"gho_", ALNUM, 20},
	{"ghu_", ALNUM, 20},
	{"ghs_", ALNUM, 20},
	{"ghr_", ALNUM, 20},
	{"github_pat_", BASE64URL, 20},
	{"glpat-", BASE64URL, 20},
	{"sk-", BASE64URL, 20},
	{"sk_live_", ALNUM, 16},
	{"sk_test_", ALNUM, 16},
	{"rk_live_", ALNUM, 16},
	{"xoxa-", BASE64URL, 10},
	{"xoxb-", BASE64URL, 10},
	{"xoxp-", BASE64URL, 10},
	{"xoxr-", BASE64URL, 10},
	{"xoxs-", BASE64URL, 10},
	{"xapp-", BASE64URL, 10},
	{"AIza", BASE64URL, 35},
	{"ya29.", BASE64URL, 20},
	{"npm_", ALNUM, 36},
	{"pypi-AgE", BASE64URL, 20},
	{"hf_", ALNUM, 30},
	{"AGE-SECRET-KEY-1", UPPER, 50},
	{"dop_v1_", ALNUM, 40},
	{"SG.", BASE64URL, 20},
	{"shpat_", ALNUM, 20},
	{"eyJ", BASE64URL, 17}, /* a JSON Web Token; its parts are joined by dots, see token_end() */
};

/* Options of programs that take a secret and do not say so. */
enum how {
	NEXT_WORD = 1, /* -p SECRET */
	ATTACHED = 2,  /* -pSECRET */
	PAIR = 4,      /* the secret is what comes behind a colon: user:SECRET */
	NO_PORTS = 8,  /* but 8080:80 is none */
};
static const struct redact_program {
	const char *name; /* a glob, of the last component */
	const char *option;
	unsigned how;
} programs[] = {
	{"curl", "-u", NEXT_WORD | ATTACHED | PAIR},
	{"curl", "--user", NEXT_WORD | PAIR},
	{"curl", "-U", NEXT_WORD | ATTACHED | PAIR},
	{"curl", "--proxy-user", NEXT_WORD | PAIR},
	{"mysql*", "-p", ATTACHED},
	{"mariadb*", "-p", ATTACHED},
	{"sshpass", "-p", NEXT_WORD | ATTACHED},
	{"redis-cli", "-a", NEXT_WORD},
	{"mongo*", "-p", NEXT_WORD},
	{"docker", "-p", NEXT_WORD | NO_PORTS}, /* of login, not of run */
	{"podman", "-p", NEXT_WORD | NO_PORTS},
	{"ldap*", "-w", NEXT_WORD},
	{"zip", "-P", NEXT_WORD | ATTACHED},
	{"unzip", "-P", NEXT_WORD | ATTACHED},
	{"7z*", "-p", ATTACHED},
	{"http", "-a", NEXT_WORD | PAIR},
};

/* ---- characters and names ---------------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_char(char c)
{
	return is_alnum(c) || c == '_' || c == '-';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool in_class(char c, enum class which)
{
	switch (which) {
	case UPPER:
		return is_digit(c) || (c >= 'A' && c <= 'Z');
	case BASE64URL:
		return is_name_char(c);
	case ALNUM:
	case CLASS_COUNT:
	default:
		return is_alnum(c);
	}
}

/* "x-Api-key" becomes "X_API_KEY"; false if it is too long for a name. */
static bool normalise(const char *name, size_t len, char out[NAME_MAX_LEN])
{
	while (len && *name == '-') {
		name++;
		len--;
	}
	if (len == 0 || len >= NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < len; i++)
		out[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i] == '-' ? '_' : name[i];
	out[len] = '\0';
	return true;
}

static bool any_rule(const struct name_rule *rules, size_t count, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(rules[i].text);

		if (n > len)
			continue;
		if (rules[i].where == ANYWHERE ? strstr(name, rules[i].text) != NULL
		                               : (rules[i].where == AT_END || n == len) && memcmp(name + len - n, rules[i].text, n) == 0)
			return true;
	}
	return false;
}

bool redact_name(const struct redactor *r, const char *name, size_t len)
{
	char plain[NAME_MAX_LEN];

	if (!normalise(name, len, plain))
		return false;
	for (const char *const *glob = r ? r->names : NULL; glob && *glob; glob++)
		if (glob_match(*glob, plain))
			return true;
	return any_rule(secret_names, ARRAY_SIZE(secret_names), plain) && !any_rule(harmless_names, ARRAY_SIZE(harmless_names), plain);
}

static bool is_header(const char *name, size_t len)
{
	char plain[NAME_MAX_LEN];

	return normalise(name, len, plain) && any_rule(header_names, ARRAY_SIZE(header_names), plain);
}

/* ---- one pass over a text ---------------------------------------------------------------------------------------------------- */

struct pass {
	const struct redactor *r;
	struct redact_state *state;
	const char *s;
	size_t len;
	size_t i; /* everything before it is in `out` */
	struct buf *out;
};

static char at(const struct pass *p, size_t i)
{
	return i < p->len ? p->s[i] : '\0';
}

static bool begins(const struct pass *p, size_t i, const char *prefix)
{
	size_t n = strlen(prefix);

	return n <= p->len - i && memcmp(p->s + i, prefix, n) == 0;
}

static void copy_to(struct pass *p, size_t end)
{
	buf_add(p->out, p->s + p->i, end - p->i);
	p->i = end;
}

/* "$TOKEN", "${TOKEN}": the shell's business, and worth reading. */
static bool is_reference(const char *s, size_t len)
{
	bool braces = len > 3 && s[1] == '{';
	size_t from = braces ? 2 : 1, end = braces ? len - 1 : len;

	if (len < 2 || s[0] != '$' || (braces && s[end] != '}'))
		return false;
	for (size_t i = from; i < end; i++)
		if (!is_alnum(s[i]) && s[i] != '_')
			return false;
	return true;
}

/* Leaves out what lies between; false if there is nothing that could be a secret. */
static bool leave_out(struct pass *p, size_t from, size_t end)
{
	if (from >= end || is_reference(p->s + from, end - from))
		return false;
	copy_to(p, from);
	buf_add_str(p->out, REDACTED);
	p->i = end;
	return true;
}

/* Where the value at *from ends; an opening quote is stepped over. `line`: it goes on to the end of the line, or of the quotes around it all. */
static size_t value_end(const struct pass *p, size_t *from, bool line)
{
	bool escaped = at(p, *from) == '\\' && at(p, *from + 1) == '"';
	char quote = at(p, *from) == '"' || at(p, *from) == '\'' ? p->s[*from] : escaped ? '"' : '\0';
	size_t i = *from += escaped ? 2 : quote ? 1 : 0;

	for (; i < p->len; i++) {
		char c = p->s[i];

		if (quote && c == '\\' && at(p, i + 1) == quote && escaped)
			break;
		if (quote == '"' && c == '\\' && !escaped)
			i++;
		else if (quote ? c == quote : c == '\n' || c == '"' || c == '\'' || (!line && (is_blank(c) || strchr("&;|<>", c))))
			break;
	}
	return MIN(i, p->len);
}

/* ---- rules: each returns whether it has taken what begins at p->i ------------------------------------------------------------ */

static bool take_private_key(struct pass *p)
{
	static const char kind[] = "PRIVATE KEY-----", last[] = "-----END ";

	if (!begins(p, p->i, "-----BEGIN "))
		return false;
	const size_t most = 64; /* of the line that says what kind of key it is */
	const char *mark = memmem(p->s + p->i, MIN(p->len - p->i, most), kind, sizeof(kind) - 1);
	if (!mark)
		return false;
	const char *body = mark + sizeof(kind) - 1, *stop = memmem(body, (size_t)(p->s + p->len - body), last, sizeof(last) - 1);
	return leave_out(p, (size_t)(body - p->s), stop ? (size_t)(stop - p->s) : p->len);
}

static bool take_token(struct pass *p)
{
	for (const struct shape *shape = shapes; shape < shapes + ARRAY_SIZE(shapes); shape++) {
		if (shape->prefix[0] != p->s[p->i] || !begins(p, p->i, shape->prefix))
			continue;
		bool dotted = strcmp(shape->prefix, "eyJ") == 0, random = false;
		size_t from = p->i + strlen(shape->prefix), end = from;

		for (; in_class(at(p, end), shape->rest) || ((dotted || shape->prefix[2] == '.') && at(p, end) == '.'); end++)
			random = random || is_digit(p->s[end]) || (p->s[end] >= 'A' && p->s[end] <= 'Z');
		/* words with hyphens between them are no secrets */
		if (end - from >= shape->least && random && (!dotted || memchr(p->s + from, '.', end - from)))
			return leave_out(p, p->i, end);
	}
	return false;
}

/* "://user:SECRET@" */
static bool take_url(struct pass *p)
{
	size_t colon = 0, host = 0;

	if (!begins(p, p->i, "://"))
		return false;
	for (size_t i = p->i + 3; i < p->len && !is_blank(p->s[i]) && !strchr("/?#\"'<>", p->s[i]); i++) {
		if (p->s[i] == ':' && !colon)
			colon = i;
		else if (p->s[i] == '@')
			host = i;
	}
	return host && colon && colon < host && leave_out(p, colon + 1, host);
}

static bool all_of(const char *s, size_t len, const char *set)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(set, s[i]))
			return false;
	return true;
}

/* "user:SECRET" from p->i on; not "1000:1000", which is a user and a group */
static bool take_pair(struct pass *p, size_t from, size_t end)
{
	const char *colon = memchr(p->s + from, ':', end - from);

	return colon && !all_of(p->s + from, end - from, "0123456789:") && leave_out(p, (size_t)(colon + 1 - p->s), end);
}

/* What the option before has announced. */
static bool take_announced(struct pass *p, size_t from, size_t end)
{
	enum redact_next next = p->state->next;

	p->state->next = REDACT_NOTHING;
	switch (next) {
	case REDACT_WORD:
		return leave_out(p, from, end);
	case REDACT_PAIR:
		return take_pair(p, from, end);
	case REDACT_NO_PORTS:
		return !all_of(p->s + from, end - from, "0123456789.:-/tcpud") && leave_out(p, from, end);
	case REDACT_NOTHING:
	default:
		return false;
	}
}

static bool is_program(const char *glob, const char *name, size_t len)
{
	if (len == 0 || glob[0] != name[0])
		return false;
	size_t n = strlen(glob);

	if (glob[n - 1] == '*')
		return len >= n - 1 && memcmp(glob, name, n - 1) == 0;
	return len == n && memcmp(glob, name, n) == 0;
}

/* An option of the program that was named before, if it takes a secret. */
static bool take_program_option(struct pass *p, size_t end)
{
	const struct redact_program *o = p->state->program;

	for (; o && o < programs + ARRAY_SIZE(programs) && strcmp(o->name, p->state->program->name) == 0; o++) {
		size_t n = strlen(o->option), len = end - p->i;

		if (!begins(p, p->i, o->option) || (len > n && !(o->how & ATTACHED)))
			continue;
		if (len > n)
			return o->how & PAIR ? take_pair(p, p->i + n, end) : leave_out(p, p->i + n, end);
		if (o->how & NEXT_WORD) {
			p->state->next = o->how & PAIR ? REDACT_PAIR : o->how & NO_PORTS ? REDACT_NO_PORTS : REDACT_WORD;
			copy_to(p, end);
			return true;
		}
	}
	return false;
}

static void notice_program(struct pass *p, size_t end)
{
	const char *word = p->s + p->i, *slash = memrchr(word, '/', end - p->i);
	const char *name = slash ? slash + 1 : word;

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		if (is_program(programs[i].name, name, (size_t)(p->s + end - name))) {
			p->state->program = &programs[i];
			return;
		}
	}
}

static size_t skip_blanks(const struct pass *p, size_t i)
{
	while (at(p, i) == ' ' || at(p, i) == '\t')
		i++;
	return i;
}

/* Where the value of the name that ends at `end` begins; 0 if it has none here. */
static size_t value_begin(const struct pass *p, size_t end, bool header)
{
	char c = at(p, end);
	size_t quotes = c == '\\' && at(p, end + 1) == '"' ? 2 : c == '"' || c == '\'' ? 1 : 0;
	size_t next = quotes ? skip_blanks(p, end + quotes) : end;

	if (quotes) /* "name": */
		return at(p, next) == ':' ? skip_blanks(p, next + 1) : 0;
	if (c == '=')
		return end + 1;
	if (c == ':' && (header || is_blank(at(p, end + 1)))) /* host:port is none */
		return skip_blanks(p, end + 1);
	return 0;
}

/* "NAME=SECRET", "--name SECRET", "name: SECRET", "\"name\": SECRET" */
static bool take_named(struct pass *p)
{
	size_t end = p->i;

	while (is_name_char(at(p, end)))
		end++;
	char c = at(p, end);
	bool option = p->s[p->i] == '-' && (end == p->len || is_blank(c));
	if (!option && c != '=' && c != ':' && c != '"' && c != '\'' && c != '\\')
		return false;
	if (!redact_name(p->r, p->s + p->i, end - p->i))
		return false;
	if (option) {
		p->state->next = REDACT_WORD;
		copy_to(p, end);
		return true;
	}
	bool header = is_header(p->s + p->i, end - p->i);
	size_t from = value_begin(p, end, header);
	if (!from || from >= p->len)
		return false;
	end = value_end(p, &from, header && c == ':');
	return leave_out(p, from, end);
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------- */

/* A word that stands alone: announced before, an option, the name of a program. */
static bool take_word(struct pass *p)
{
	size_t from = p->i, end = value_end(p, &from, false);

	if (p->state->next && at(p, from) != '-' && take_announced(p, from, end))
		return true;
	p->state->next = REDACT_NOTHING;
	if (p->s[p->i] == '-' && take_program_option(p, end))
		return true;
	notice_program(p, end);
	return false;
}

static void scan(struct pass *p)
{
	while (p->i < p->len) {
		char c = p->s[p->i], before = p->i ? p->s[p->i - 1] : ' ';
		size_t end = p->i + 1;

		if (strchr("\n;|&(", c) && c)
			*p->state = (struct redact_state){.program = NULL};
		if (!is_blank(c) && is_blank(before) && take_word(p))
			continue;
		if (c == ':' && take_url(p))
			continue;
		if (is_name_char(c) && !is_name_char(before)) {
			if ((c == '-' && take_private_key(p)) || take_token(p) || take_named(p))
				continue;
			while (is_name_char(at(p, end)))
				end++;
		}
		copy_to(p, end);
	}
}

/* Without the values that are known to be secret; returns what is to be read on: `s` itself if there are none. */
static struct buf without_values(const struct redactor *r, const char *s, size_t len)
{
	struct buf out = {0};

	for (size_t i = 0; i < len;) {
		size_t hit = 0;

		for (const char *const *v = r->values; *v && !hit; v++) {
			size_t n = strlen(*v);

			if (n >= VALUE_LEAST && n <= len - i && memcmp(s + i, *v, n) == 0)
				hit = n;
		}
		if (hit)
			buf_add_str(&out, REDACTED);
		else
			buf_add(&out, s + i, 1);
		i += hit ? hit : 1;
	}
	return out;
}

static void redact_with(const struct redactor *r, struct redact_state *state, const char *s, size_t len, struct buf *out)
{
	_cleanup_buf_ struct buf known = {0};
	struct pass p = {.r = r, .state = state, .s = s, .len = len, .out = out};

	if (r && r->values && *r->values && len) {
		known = without_values(r, s, len);
		if (known.failed) {
			out->failed = true;
			return;
		}
		p.s = known.data;
		p.len = known.len;
	}
	scan(&p);
}

void redact_text(const struct redactor *r, const char *s, size_t len, struct buf *out)
{
	struct redact_state state = {.program = NULL};

	redact_with(r, &state, s, len, out);
}

void redact_word(const struct redactor *r, struct redact_state *state, const char *word, size_t len, struct buf *out)
{
	struct pass p = {.r = r, .state = state, .s = word, .len = len, .out = out};

	if (state->next && at(&p, 0) != '-' && take_announced(&p, 0, p.len))
		copy_to(&p, p.len);
	else
		redact_with(r, state, word, len, out);
}

void redact_variable(const struct redactor *r, const char *variable, size_t len, struct buf *out)
{
	const char *value = memchr(variable, '=', len);

	if (!value || value + 1 == variable + len || !redact_name(r, variable, (size_t)(value - variable))) {
		redact_text(r, variable, len, out);
		return;
	}
	buf_add(out, variable, (size_t)(value + 1 - variable));
	buf_add_str(out, REDACTED);
}
