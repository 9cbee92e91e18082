/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "keeper/ops.h"
#include "lib/denials.h"
#include "policy/policy.h"

#define MAX_LISTED 1000
#define MAX_WINDOW 65535

/* ---- requests ---------------------------------------------------------------------------------------------------------------- */

void request_encode(const struct keeper_request *r, struct buf *out)
{
	const uint32_t numbers[] = {r->verb, r->flags, r->on_failure, r->rows, r->cols, r->signo, r->op, r->op_flags};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		wire_put_u32(out, numbers[i]);
	wire_put_u64(out, (uint64_t)r->timeout_ms);
	wire_put_bytes(out, r->ok, sizeof(r->ok));
	wire_put_str(out, r->name);
	wire_put_str(out, r->cwd);
	string_list_put(out, &r->argv);
	string_list_put(out, &r->env);
	string_list_put(out, &r->args);
	wire_put_bytes(out, r->data, r->len);
}

/* The name of a service becomes the name of a file. */
static bool service_name_valid(const char *name)
{
	size_t len = strlen(name);
	if (len == 0 || len > KEEPER_NAME_MAX || name[0] == '.' || name[0] == '-')
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

static int check_exec(const struct keeper_request *r, struct cordon_error *err)
{
	if (r->argv.count == 0 || r->timeout_ms < -1 || r->on_failure > TX_ACTION_COUNT)
		return err_set(err, CORDON_ERR_INPUT, "malformed exec request");
	if (r->cwd && r->cwd[0] != '/')
		return err_set(err, CORDON_ERR_INPUT, "working directory '%.200s' is not an absolute path inside the sandbox", r->cwd);
	if (r->name && !service_name_valid(r->name))
		return err_set(err, CORDON_ERR_INPUT, "'%.80s' is no name for a service (letters, digits, '.', '_' and '-', at most %d)",
		               r->name, KEEPER_NAME_MAX);
	if (r->name && !(r->flags & KEEPER_DETACH))
		return err_set(err, CORDON_ERR_INPUT, "only a service has a name");
	if ((r->flags & KEEPER_DETACH) && (r->flags & (KEEPER_TTY | KEEPER_STDIN)))
		return err_set(err, CORDON_ERR_INPUT, "a service has neither terminal nor input");
	return 0;
}

static int check_request(const struct keeper_request *r, struct cordon_error *err)
{
	switch (r->verb) {
	case KEEPER_EXEC:
		return check_exec(r, err);
	case KEEPER_OP:
		return r->op < OP_VERB_COUNT ? 0 : err_set(err, CORDON_ERR_INPUT, "malformed request: operation %u", r->op);
	case KEEPER_KILL:
		if (r->signo == 0 || r->signo > 64)
			return err_set(err, CORDON_ERR_INPUT, "%u is not a signal number", r->signo);
		__attribute__((fallthrough));
	case KEEPER_WAIT:
		return r->name ? 0 : err_set(err, CORDON_ERR_INPUT, "malformed request: no name");
	case KEEPER_INPUT:
		return r->len <= KEEPER_INPUT_MAX ? 0 : err_set(err, CORDON_ERR_INPUT, "malformed request: %zu bytes of input", r->len);
	case KEEPER_RESIZE:
		return r->rows <= MAX_WINDOW && r->cols <= MAX_WINDOW ? 0 : err_set(err, CORDON_ERR_INPUT, "malformed request: size");
	case KEEPER_STATE:
	case KEEPER_PS:
	case KEEPER_PAUSE:
	case KEEPER_RESUME:
	case KEEPER_STOP:
	case KEEPER_INPUT_END:
	case KEEPER_CANCEL:
		return 0;
	case KEEPER_VERB_COUNT:
		break;
	}
	return err_set(err, CORDON_ERR_INPUT, "malformed request: verb %u", (unsigned)r->verb);
}

int request_decode(const void *body, size_t len, struct keeper_request *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	*out = (struct keeper_request){.verb = (enum keeper_verb)wire_get_u32(&r)};
	uint32_t *const numbers[] = {&out->flags, &out->on_failure, &out->rows, &out->cols, &out->signo, &out->op, &out->op_flags};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		*numbers[i] = wire_get_u32(&r);
	out->timeout_ms = (int64_t)wire_get_u64(&r);
	size_t ok_len;
	const void *ok = wire_get_bytes(&r, &ok_len);
	if (ok && ok_len == sizeof(out->ok))
		memcpy(out->ok, ok, sizeof(out->ok));
	else
		r.bad = true;
	out->name = wire_get_str(&r);
	out->cwd = wire_get_str(&r);
	string_list_get(&r, &out->argv);
	string_list_get(&r, &out->env);
	string_list_get(&r, &out->args);
	out->data = wire_get_bytes(&r, &out->len);
	int result = 0;
	if (!wire_done(&r) || (out->flags & ~(uint32_t)KEEPER_FLAGS_ALL))
		result = err_set(err, CORDON_ERR_INPUT, "malformed request");
	else
		result = check_request(out, err);
	if (result < 0)
		request_free(out);
	return result;
}

void request_free(struct keeper_request *r)
{
	free(r->argv.items);
	free(r->env.items);
	free(r->args.items);
	*r = (struct keeper_request){0};
}

/* ---- replies ----------------------------------------------------------------------------------------------------------------- */

void reply_encode(const struct keeper_reply *r, struct buf *out)
{
	wire_put_u32(out, r->event);
	wire_put_u32(out, r->status);
	wire_put_str(out, r->text);
	string_list_put(out, &r->items);
	wire_put_bytes(out, r->data, r->len);
}

int reply_decode(const void *body, size_t len, struct keeper_reply *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	*out = (struct keeper_reply){.event = (enum keeper_event)wire_get_u32(&r)};
	out->status = wire_get_u32(&r);
	out->text = wire_get_str(&r);
	string_list_get(&r, &out->items);
	out->data = wire_get_bytes(&r, &out->len);
	bool stream = out->event != KEEPER_OUTPUT || out->status == CORDON_STDOUT || out->status == CORDON_STDERR;
	if (wire_done(&r) && out->event > 0 && out->event < KEEPER_EVENT_COUNT && stream && (out->event != KEEPER_STARTED || out->text))
		return 0;
	reply_free(out);
	return err_set(err, CORDON_ERR_SYSTEM, "malformed answer from the sandbox's keeper");
}

void reply_free(struct keeper_reply *r)
{
	free(r->items.items);
	*r = (struct keeper_reply){0};
}

/* ---- progress ---------------------------------------------------------------------------------------------------------------- */

void progress_encode(uint64_t done, uint64_t total, struct buf *out)
{
	wire_put_u64(out, done);
	wire_put_u64(out, total);
}

int progress_decode(const void *body, size_t len, uint64_t *done, uint64_t *total, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	*done = wire_get_u64(&r);
	*total = wire_get_u64(&r);
	return wire_done(&r) && *done <= *total ? 0 : err_set(err, CORDON_ERR_SYSTEM, "malformed answer from the sandbox's keeper");
}

/* ---- denials ----------------------------------------------------------------------------------------------------------------- */

#define DENIAL_TEXTS 5

void denial_encode(const struct cordon_denial *d, struct buf *out)
{
	const char *const texts[DENIAL_TEXTS] = {d->category, d->target, d->rule, d->errno_name, d->hint};
	for (size_t i = 0; i < DENIAL_TEXTS; i++)
		wire_put_str(out, texts[i]);
}

static void get_denial(struct wire_reader *r, struct cordon_denial *out)
{
	const char *text[DENIAL_TEXTS];
	for (size_t k = 0; k < DENIAL_TEXTS; k++)
		text[k] = wire_get_str(r);
	*out = (struct cordon_denial){text[0], text[1], text[2], text[3], text[4]};
	if (!text[0] || !text[1])
		r->bad = true;
}

int denial_decode(const void *body, size_t len, struct cordon_denial *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	get_denial(&r, out);
	return wire_done(&r) ? 0 : err_set(err, CORDON_ERR_SYSTEM, "malformed answer from the sandbox's keeper");
}

/* ---- results ----------------------------------------------------------------------------------------------------------------- */

static void put_double(struct buf *b, double v)
{
	uint64_t bits;
	memcpy(&bits, &v, sizeof(bits));
	wire_put_u64(b, bits);
}

static double get_double(struct wire_reader *r)
{
	uint64_t bits = wire_get_u64(r);
	double v;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void get_chars(struct wire_reader *r, char *to, size_t size)
{
	const char *s = wire_get_str(r);
	if (!s || strlen(s) >= size)
		r->bad = true;
	else
		memcpy(to, s, strlen(s) + 1);
}

/* The texts of a result, each of which may be missing. */
static const char **texts_of(struct cordon_result *r, size_t i)
{
	const char **all[] = {&r->state,           &r->reason,        &r->weak,         &r->error,         &r->hint,
	                      &r->usage.memory_by, &r->usage.pids_by, &r->usage.cpu_by, &r->usage.disk_by, &r->transaction.outcome};
	return i < sizeof(all) / sizeof(all[0]) ? all[i] : NULL;
}

void result_encode(const struct cordon_result *result, struct buf *out)
{
	struct cordon_result r = *result;
	const struct cordon_transaction *t = &r.transaction;
	const struct string_list services = {(const char **)(void *)(uintptr_t)t->services, (uint32_t)t->service_count};
	const char **text;
	wire_put_str(out, r.id);
	wire_put_str(out, r.sandbox);
	wire_put_str(out, t->before);
	wire_put_str(out, t->after);
	for (size_t i = 0; (text = texts_of(&r, i)); i++)
		wire_put_str(out, *text);
	wire_put_u32(out, (uint32_t)r.exit_code);
	wire_put_u32(out, (uint32_t)r.signal);
	wire_put_u32(out, (r.stdout_truncated ? 1u : 0) | (r.stderr_truncated ? 2u : 0));
	put_double(out, r.duration_ms);
	put_double(out, r.usage.cpu_ms);
	wire_put_u64(out, (uint64_t)r.usage.memory_peak_bytes);
	wire_put_u64(out, (uint64_t)r.usage.pids_peak);
	wire_put_u64(out, (uint64_t)t->changes_total);
	wire_put_u32(out, (uint32_t)t->change_count);
	for (size_t i = 0; i < t->change_count; i++) {
		wire_put_str(out, t->changes[i].op);
		wire_put_str(out, t->changes[i].path);
		wire_put_u64(out, t->changes[i].bytes);
	}
	string_list_put(out, &services);
	wire_put_u32(out, (uint32_t)r.denial_count);
	for (size_t i = 0; i < r.denial_count; i++)
		denial_encode(&r.denials[i], out);
}

static void get_denials(struct wire_reader *r, struct keeper_result *out)
{
	uint32_t n = wire_get_count(r, DENIAL_TEXTS * sizeof(uint32_t), DENIALS_LISTED);
	out->denials = calloc((size_t)n + 1, sizeof(*out->denials));
	if (!out->denials)
		r->bad = true;
	for (uint32_t i = 0; i < n && !r->bad; i++)
		get_denial(r, &out->denials[i]);
	out->result.denials = out->denials;
	out->result.denial_count = n;
}

static void get_changes(struct wire_reader *r, struct keeper_result *out)
{
	uint32_t n = wire_get_count(r, 2 * sizeof(uint32_t) + sizeof(uint64_t), MAX_LISTED);
	out->changes = calloc((size_t)n + 1, sizeof(*out->changes));
	if (!out->changes)
		r->bad = true;
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		struct cordon_change *c = &out->changes[i];
		c->op = wire_get_str(r);
		c->path = wire_get_str(r);
		c->bytes = wire_get_u64(r);
		if (!c->op || !c->path)
			r->bad = true;
	}
	out->result.transaction.changes = out->changes;
	out->result.transaction.change_count = n;
}

int result_decode(const void *body, size_t len, struct keeper_result *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	*out = (struct keeper_result){.result = {.stdout_data = "", .stderr_data = ""}};
	struct cordon_result *result = &out->result;
	struct cordon_transaction *t = &result->transaction;
	const char **text;
	get_chars(&r, result->id, sizeof(result->id));
	get_chars(&r, result->sandbox, sizeof(result->sandbox));
	get_chars(&r, t->before, sizeof(t->before));
	get_chars(&r, t->after, sizeof(t->after));
	for (size_t i = 0; (text = texts_of(result, i)); i++)
		*text = wire_get_str(&r);
	result->exit_code = (int)wire_get_u32(&r);
	result->signal = (int)wire_get_u32(&r);
	uint32_t cut = wire_get_u32(&r);
	result->stdout_truncated = cut & 1;
	result->stderr_truncated = (cut & 2) != 0;
	result->duration_ms = get_double(&r);
	result->usage.cpu_ms = get_double(&r);
	result->usage.memory_peak_bytes = (int64_t)wire_get_u64(&r);
	result->usage.pids_peak = (int64_t)wire_get_u64(&r);
	t->changes_total = (int64_t)wire_get_u64(&r);
	get_changes(&r, out);
	string_list_get(&r, &out->services);
	t->services = out->services.items;
	t->service_count = out->services.count;
	get_denials(&r, out);
	if (wire_done(&r) && result->state && result->exit_code >= 0 && result->exit_code <= 255 && cut <= 3)
		return 0;
	keeper_result_free(out);
	return err_set(err, CORDON_ERR_SYSTEM, "malformed result from the sandbox's keeper");
}

void keeper_result_free(struct keeper_result *r)
{
	free(r->changes);
	free(r->denials);
	free(r->services.items);
	*r = (struct keeper_result){0};
}
