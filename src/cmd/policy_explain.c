/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon policy explain`: the effective policy, or what it says about one path, host, command or file of code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/policy.h"
#include "cmd/policy_file.h"
#include "cmd/run.h"
#include "cmd/table.h"
#include "policy/costs.h"
#include "policy/gate.h"
#include "policy/items.h"
#include "policy/load.h"
#include "policy/maps.h"
#include "policy/match.h"
#include "policy/print.h"
#include "policy/profiles.h"

#define READ_MAX ((size_t)16 << 20)

struct explaining {
	const struct policy_options *o;
	struct cordon_policy p;
	struct policy_origins origins;
};

/* ---- answers ------------------------------------------------------------------------------------------------------------------ */

struct answer {
	const char *asked;   /* "read", "connect" */
	const char *subject; /* the path or host in its one form */
	const struct policy_verdict *verdict;
};

static int answer_json(const struct explaining *x, const struct answer *a, const char *where)
{
	_cleanup_buf_ struct buf text = {0};
	struct json j = {.out = &text};

	json_object(&j);
	json_kstr(&j, "asked", a->asked);
	json_kstr(&j, "subject", a->subject);
	json_kbool(&j, "allowed", a->verdict->allowed);
	json_kstr(&j, "key", a->verdict->key);
	json_kstr(&j, "rule", a->verdict->rule);
	json_kstr(&j, "why", a->verdict->why);
	json_kstr(&j, "origin", where);
	json_end(&j);
	buf_add_str(&text, "\n");
	return policy_show(x->o, &text, a->verdict->allowed ? EXIT_OK : EXIT_WEAKER);
}

static int answer(const struct explaining *x, const struct answer *a)
{
	const struct policy_verdict *v = a->verdict;
	const struct policy_key *key = policy_key_find(v->key);
	_cleanup_buf_ struct buf where = {0}, text = {0};

	origin_text(v->rule ? origins_of(&x->origins, key, v->index) : origins_of_key(&x->origins, key), &where);
	if (x->o->json)
		return answer_json(x, a, where.data);
	buf_addf(&text, "%s ", a->asked);
	text_plain(&text, a->subject);
	buf_addf(&text, ": %s by %s", v->allowed ? "allowed" : "denied", v->key);
	if (v->rule) {
		buf_add_str(&text, " ");
		policy_print_scalar(v->rule, &text);
	}
	if (where.len) {
		buf_add_str(&text, " (");
		text_plain(&text, where.data);
		buf_add_str(&text, ")");
	}
	buf_addf(&text, ": %s\n", v->why);
	return policy_show(x->o, &text, v->allowed ? EXIT_OK : EXIT_WEAKER);
}

/* ---- questions ---------------------------------------------------------------------------------------------------------------- */

static int explain_path(const struct explaining *x, struct cordon_error *err)
{
	const struct policy_options *o = x->o;
	_cleanup_free_ char *path = policy_normal_path(o->path, err);
	struct policy_verdict verdict;

	if (!path)
		return err_wrap(err, "--path");
	policy_match_path(&x->p, path, o->write ? ACCESS_WRITE : o->execute ? ACCESS_EXECUTE : ACCESS_READ, &verdict);
	return answer(x, &(struct answer){o->write ? "write" : o->execute ? "execute" : "read", path, &verdict});
}

/* "HOST", "HOST:PORT", "ADDRESS", "[ADDRESS]:PORT" */
static int split_host(const char *given, char *host, size_t size, uint16_t *port, struct cordon_error *err)
{
	const char *close = given[0] == '[' ? strchr(given, ']') : NULL, *colon = close ? close + 1 : strrchr(given, ':');
	uint64_t n = 443;

	if (!close && colon && strchr(given, ':') != colon)
		colon = NULL; /* an address of IPv6 */
	if (colon && *colon && (*colon != ':' || units_parse_count(colon + 1, 1, UINT16_MAX, &n, NULL) < 0))
		return err_set(err, CORDON_ERR_INPUT, "--host: '%.60s' is not HOST:PORT with a port of 1 to 65535", given);
	const char *from = close ? given + 1 : given, *end = close ? close : colon ? colon : given + strlen(given);
	if ((size_t)(end - from) >= size)
		return err_set(err, CORDON_ERR_INPUT, "--host: '%.60s' is too long", given);
	memcpy(host, from, (size_t)(end - from));
	host[end - from] = '\0';
	*port = (uint16_t)n;
	return 0;
}

static int explain_host(const struct explaining *x, struct cordon_error *err)
{
	char host[HOST_TEXT_MAX], subject[HOST_TEXT_MAX + 16];
	struct policy_verdict verdict;
	struct host_target target;
	uint16_t port = 0;

	if (split_host(x->o->host, host, sizeof(host), &port, err) < 0)
		return -1;
	if (host_target_parse(host, &target, err) < 0)
		return err_wrap(err, "--host");
	policy_match_host(&x->p, &target, port, &verdict);
	snprintf(subject, sizeof(subject), strchr(target.name, ':') ? "[%s]:%u" : "%s:%u", target.name, (unsigned)port);
	return answer(x, &(struct answer){"connect to", subject, &verdict});
}

static int answer_gate(const struct explaining *x, const struct gate_answer *a)
{
	_cleanup_buf_ struct buf text = {0};
	struct json j = {.out = &text};

	if (x->o->json) {
		json_object(&j);
		json_kstr(&j, "verdict", a->verdict);
		json_kbool(&j, "allowed", a->allowed);
		json_key(&j, "reasons");
		json_array(&j);
		for (size_t i = 0; i < a->reasons.count; i++)
			json_str(&j, a->reasons.items[i]);
		json_end(&j);
		json_end(&j);
		buf_add_str(&text, "\n");
	} else {
		buf_addf(&text, "%s: it would %srun\n", a->verdict, a->allowed ? "" : "not ");
		for (size_t i = 0; i < a->reasons.count; i++) {
			buf_add_str(&text, "  ");
			text_plain(&text, a->reasons.items[i]);
			buf_add_str(&text, "\n");
		}
	}
	return policy_show(x->o, &text, a->allowed ? EXIT_OK : EXIT_WEAKER);
}

static int ask_gate(const struct explaining *x, const struct gate_question *question, struct cordon_error *err)
{
	struct gate_answer answered = {0};
	int status;

	if (!gate_explain) {
		err_set(err, CORDON_ERR_SYSTEM, "not checked: this build has no gate");
		return err_hint(err, "--path and --host are answered");
	}
	status = gate_explain(&x->p, question, &answered, err) < 0 ? -1 : answer_gate(x, &answered);
	strlist_free(&answered.reasons);
	return status;
}

static int explain_command(const struct explaining *x, struct cordon_error *err)
{
	const char *line = x->o->command;

	return ask_gate(x, &(struct gate_question){line, strlen(line), LANGUAGE_BASH, "command"}, err);
}

static int explain_code(const struct explaining *x, struct cordon_error *err)
{
	const struct policy_options *o = x->o;
	_cleanup_buf_ struct buf code = {.cap = READ_MAX};
	unsigned language = 0;

	while (policy_languages[language] && strcmp(policy_languages[language], o->lang) != 0)
		language++;
	if (!policy_languages[language])
		return err_set(err, CORDON_ERR_INPUT, "--lang: '%.60s' is unknown; give %s", o->lang, language_words);
	if (policy_file_read_code(o->code, &code, err) < 0)
		return err_wrap(err, "--code");
	return ask_gate(x, &(struct gate_question){code.data ? code.data : "", code.len, (enum policy_language)language, o->code}, err);
}

/* ---- the policy --------------------------------------------------------------------------------------------------------------- */

static void costs_text(const struct strlist *costs, struct buf *text)
{
	if (costs->count > 0)
		buf_add_str(text, "\n# What it costs, and what it does not reach:\n");
	for (size_t i = 0; i < costs->count; i++)
		buf_addf(text, "# - %s\n", costs->items[i]);
}

static int explain_all(const struct explaining *x, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	struct json j = {.out = &text};
	struct strlist costs = {0};

	if (policy_costs(&x->p, &costs, err) < 0) {
		strlist_free(&costs);
		return -1;
	}
	if (!x->o->json) {
		policy_print_yaml(&x->p, &x->origins, &text);
		costs_text(&costs, &text);
		strlist_free(&costs);
		return policy_show(x->o, &text, EXIT_OK);
	}
	json_object(&j);
	json_kstr(&j, "profile", x->origins.profile);
	json_kstr(&j, "file", x->o->policy);
	json_key(&j, "values");
	policy_print_json(&x->p, &x->origins, &j);
	json_key(&j, "costs");
	json_array(&j);
	for (size_t i = 0; i < costs.count; i++)
		json_str(&j, costs.items[i]);
	json_end(&j);
	strlist_free(&costs);
	json_end(&j);
	buf_add_str(&text, "\n");
	return policy_show(x->o, &text, EXIT_OK);
}

static int load(struct explaining *x, struct cordon_error *err)
{
	const struct policy_options *o = x->o;

	if ((o->policy ? policy_load(&x->p, o->policy, o->profile, &x->origins, err)
	               : policy_init_profile_noted(&x->p, o->profile, &x->origins, err)) < 0)
		return -1;
	return policy_file_apply_settings(&x->p, &o->set, &x->origins, "--set", err);
}

static int check_questions(const struct policy_options *o, struct cordon_error *err)
{
	const int asked = (o->path != NULL) + (o->host != NULL) + (o->command != NULL) + (o->code != NULL);

	if (asked > 1)
		return err_set(err, CORDON_ERR_INPUT, "--path, --host, --command and --code exclude each other: one question at a time");
	if ((o->write || o->execute) && !o->path)
		return err_set(err, CORDON_ERR_INPUT, "--%s is for --path", o->write ? "write" : "execute");
	if (o->write && o->execute)
		return err_set(err, CORDON_ERR_INPUT, "--write and --execute exclude each other");
	if (!o->code != !o->lang)
		return err_set(err, CORDON_ERR_INPUT, "--code FILE and --lang LANG go together");
	return 0;
}

static int explain(struct explaining *x, struct cordon_error *err)
{
	if (check_questions(x->o, err) < 0 || load(x, err) < 0)
		return -1;
	if (x->o->path)
		return explain_path(x, err);
	if (x->o->host)
		return explain_host(x, err);
	if (x->o->command)
		return explain_command(x, err);
	return x->o->code ? explain_code(x, err) : explain_all(x, err);
}

int policy_explain(const struct policy_options *o)
{
	struct explaining x = {.o = o};
	struct cordon_error err = {0};
	int status = explain(&x, &err);

	policy_clear(&x.p);
	origins_free(&x.origins);
	return status < 0 ? policy_fail(o, &err) : status;
}
