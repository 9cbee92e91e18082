/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "policy/gate.h"
#include "policy/gate_policy.h"

static int open_gate(struct gate **out, const struct cordon_policy *p, struct cordon_error *err)
{
	struct gate_config config;
	if (gate_config_of(p, &config, err) < 0)
		return -1;
	int r = gate_open(out, &config, err) < 0 ? err_wrap(err, "patterns") : 0;
	free((void *)(uintptr_t)config.additions);
	return r;
}

static int say(struct strlist *reasons, const struct gate_finding *f, struct cordon_error *err)
{
	_cleanup_buf_ struct buf line = {0};
	buf_addf(&line, "%u:%u: %s/%s (%s): %s: %s", f->line, f->column, f->pack ? f->pack : "gate", f->rule,
	         f->verdict == GATE_DENY ? gate_severity_names[f->severity] : gate_verdict_names[f->verdict], f->reason, f->snippet);
	return line.failed ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : strlist_add(reasons, line.data, err);
}

static int explain(const struct gate *g, const struct cordon_policy *p, const struct gate_question *q, struct gate_answer *answer,
                   struct cordon_error *err)
{
	enum gate_language language = gate_language_of(q->language);
	struct gate_result result;
	int status = 0;
	if (!gate_reads(g, language)) {
		*answer = (struct gate_answer){.allowed = true, .verdict = "allow"};
		return strlist_add(&answer->reasons,
		                   "nothing was looked at: no pack of patterns.use, and no rule of patterns.add, is about this language",
		                   err);
	}
	if (gate_code(g, language, q->text, q->len, &result, err) < 0)
		return -1;
	struct gate_decision d = gate_decide(p, &result);
	*answer = (struct gate_answer){.allowed = d.allowed, .verdict = d.verdict};
	for (size_t i = 0; i < result.count && status == 0; i++)
		status = say(&answer->reasons, &result.items[i], err);
	if (result.more && status == 0)
		status = strlist_add(&answer->reasons, "there is more of it", err);
	gate_result_free(&result);
	return status;
}

int gate_explain(const struct cordon_policy *p, const struct gate_question *question, struct gate_answer *answer, struct cordon_error *err)
{
	struct gate *g;
	if (open_gate(&g, p, err) < 0)
		return -1;
	int status = explain(g, p, question, answer, err);
	gate_close(g);
	return status < 0 ? err_wrap(err, "%s", question->name) : 0;
}
