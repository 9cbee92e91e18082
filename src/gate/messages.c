/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/messages.h"

#include <stdlib.h>

#define PACKS_MAX 64u
#define ADDITIONS_MAX 65536u

static int malformed(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "malformed message to or from the gate");
}

void gate_config_encode(const struct gate_config *c, struct buf *out)
{
	const struct string_list packs = {(const char **)(uintptr_t)c->packs, (uint32_t)c->pack_count};
	string_list_put(out, &packs);
	wire_put_u32(out, (uint32_t)c->addition_count);
	for (size_t i = 0; i < c->addition_count; i++) {
		wire_put_u32(out, c->additions[i].language);
		wire_put_str(out, c->additions[i].match);
		wire_put_str(out, c->additions[i].reason);
	}
	wire_put_u32(out, c->granted);
	wire_put_str(out, c->workspace);
	wire_put_str(out, c->home);
}

int gate_config_decode(const void *body, size_t len, struct gate_config *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	struct string_list packs = {0};
	string_list_get(&r, &packs);
	uint32_t count = wire_get_count(&r, 3 * sizeof(uint32_t), ADDITIONS_MAX);
	struct gate_addition *additions = calloc((size_t)count + 1, sizeof(*additions));
	for (uint32_t i = 0; additions && i < count && !r.bad; i++) {
		uint32_t language = wire_get_u32(&r);
		additions[i] = (struct gate_addition){(enum gate_language)language, wire_get_str(&r), wire_get_str(&r)};
		if (language >= GATE_LANGUAGES || !additions[i].match)
			r.bad = true;
	}
	*out = (struct gate_config){.packs = packs.items, .pack_count = packs.count, .additions = additions, .addition_count = count};
	out->granted = wire_get_u32(&r);
	out->workspace = wire_get_str(&r);
	out->home = wire_get_str(&r);
	if (additions && wire_done(&r) && packs.count <= PACKS_MAX)
		return 0;
	gate_config_free(out);
	return malformed(err);
}

void gate_config_free(struct gate_config *c)
{
	free((void *)(uintptr_t)c->packs);
	free((void *)(uintptr_t)c->additions);
	*c = (struct gate_config){0};
}

void gate_asked_encode(const struct gate_asked *q, struct buf *out)
{
	wire_put_u32(out, q->is_argv);
	wire_put_u32(out, q->language);
	wire_put_bytes(out, q->text, q->len);
	string_list_put(out, &q->argv);
}

int gate_asked_decode(const void *body, size_t len, struct gate_asked *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	uint32_t is_argv = wire_get_u32(&r), language = wire_get_u32(&r);
	*out = (struct gate_asked){.is_argv = is_argv, .language = (enum gate_language)language};
	out->text = wire_get_bytes(&r, &out->len);
	string_list_get(&r, &out->argv);
	if (wire_done(&r) && is_argv <= 1 && language < GATE_LANGUAGES && (!is_argv || out->argv.count))
		return 0;
	free(out->argv.items);
	out->argv = (struct string_list){0};
	return malformed(err);
}

void gate_result_encode(const struct gate_result *r, struct buf *out)
{
	wire_put_u32(out, r->verdict);
	wire_put_u32(out, r->more);
	wire_put_u32(out, (uint32_t)r->count);
	for (size_t i = 0; i < r->count; i++) {
		const struct gate_finding *f = &r->items[i];
		wire_put_u32(out, f->verdict);
		wire_put_u32(out, f->severity);
		wire_put_u32(out, f->line);
		wire_put_u32(out, f->column);
		wire_put_str(out, f->rule);
		wire_put_str(out, f->pack);
		wire_put_str(out, f->reason);
		wire_put_str(out, f->snippet);
	}
}

int gate_result_decode(const void *body, size_t len, struct gate_result *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	uint32_t verdict = wire_get_u32(&r), more = wire_get_u32(&r), count = wire_get_count(&r, 8 * sizeof(uint32_t), GATE_FINDINGS);
	struct gate_finding *items = calloc((size_t)count + 1, sizeof(*items));
	for (uint32_t i = 0; items && i < count && !r.bad; i++) {
		uint32_t kind = wire_get_u32(&r), severity = wire_get_u32(&r);
		items[i] = (struct gate_finding){.verdict = (enum gate_verdict)kind, .severity = (enum gate_severity)severity};
		items[i].line = wire_get_u32(&r);
		items[i].column = wire_get_u32(&r);
		items[i].rule = wire_get_str(&r);
		items[i].pack = wire_get_str(&r);
		items[i].reason = wire_get_str(&r);
		items[i].snippet = wire_get_str(&r);
		if ((kind != GATE_DENY && kind != GATE_UNPROVEN) || severity > GATE_CRITICAL || !items[i].rule || !items[i].reason ||
		    !items[i].snippet)
			r.bad = true;
	}
	*out = (struct gate_result){.verdict = (enum gate_verdict)verdict, .items = items, .count = count, .more = more};
	if (items && wire_done(&r) && verdict <= GATE_DENY && more <= 1)
		return 0;
	free(items);
	*out = (struct gate_result){0};
	return malformed(err);
}
