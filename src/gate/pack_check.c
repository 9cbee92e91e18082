/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of a pack: each rule must match what it says it matches, and nothing that it says it does not. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "gate/pack.h"

static int check_rule(const struct gate_rule *r, const struct gate_pack *pack, struct cordon_error *err)
{
	if (!r->match.count)
		return err_set(err, CORDON_ERR_INPUT, "pack %s: rule %s has no example that it matches", pack->name, r->name);
	bool shell = r->command.count || r->options.count || r->without.count || r->assigns.count || r->shape;
	bool code = r->names.count || r->calls.count || r->imports.count || r->except.count;
	if (pack->language == GATE_SHELL ? code : shell)
		return err_set(err, CORDON_ERR_INPUT, "pack %s: rule %s has keys that are not for %s", pack->name, r->name,
		               gate_language_names[pack->language]);
	if (!shell && !code && !r->args.count && !r->any.count)
		return err_set(err, CORDON_ERR_INPUT, "pack %s: rule %s says nothing about what it matches", pack->name, r->name);
	return 0;
}

static int try_example(const struct gate *g, const struct gate_pack *pack, const struct gate_rule *r, const char *text, bool expected,
                       struct cordon_error *err)
{
	struct gate_result result;
	bool found = false;
	if (gate_code(g, pack->language, text, strlen(text), &result, err) < 0)
		return -1;
	for (size_t i = 0; i < result.count; i++)
		found = found || strcmp(result.items[i].rule, r->name) == 0;
	gate_result_free(&result);
	if (found == expected)
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "pack %s: rule %s %s its example: %s", pack->name, r->name,
	               expected ? "does not match" : "must not match, and does,", text);
}

int pack_check(const struct gate_pack *pack, const struct gate_pack *const *packs, struct cordon_error *err)
{
	struct gate *g;
	struct gate_config config = {0};
	int status = 0;
	for (size_t i = 0; i < pack->rules.count && pack->language != GATE_LANGUAGES; i++) {
		for (size_t k = 0; k < i; k++)
			if (strcmp(pack->rules.items[i].name, pack->rules.items[k].name) == 0)
				return err_set(err, CORDON_ERR_INPUT, "pack %s: there are two rules named %s", pack->name,
				               pack->rules.items[i].name);
		if (check_rule(&pack->rules.items[i], pack, err) < 0)
			return -1;
	}
	if (gate_open_packs(&g, &config, &pack, 1, packs, err) < 0)
		return -1;
	for (size_t i = 0; i < pack->rules.count && status == 0 && pack->language != GATE_LANGUAGES; i++) {
		const struct gate_rule *r = &pack->rules.items[i];
		for (size_t k = 0; k < r->match.count && status == 0; k++)
			status = try_example(g, pack, r, r->match.items[k], true, err);
		for (size_t k = 0; k < r->not .count && status == 0; k++)
			status = try_example(g, pack, r, r->not .items[k], false, err);
	}
	gate_close(g);
	return status;
}
