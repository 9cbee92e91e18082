/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands and the keeper of a live sandbox send each other. The first byte of an input says whether the rest is a request, a reply
 * or a result. Besides memory errors, a target fails when what was decoded breaks a promise of keeper/protocol.h, or does not encode to
 * the bytes it came from.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fuzz_seeds.h"
#include "keeper/ops.h"
#include "keeper/protocol.h"
#include "must.h"

enum kind { KIND_REQUEST, KIND_REPLY, KIND_RESULT, KIND_COUNT };

static void must_be_same(const struct buf *again, const void *data, size_t size)
{
	MUST(!again->failed && again->len == size && memcmp(again->data, data, size) == 0);
}

static void must_explain(const struct cordon_error *err)
{
	MUST(err->code != CORDON_OK && err->message[0] && !strchr(err->message, '\n'));
}

static void check_exec(const struct keeper_request *r)
{
	MUST(r->argv.count > 0 && r->argv.items[r->argv.count] == NULL && r->env.items[r->env.count] == NULL);
	MUST(!r->cwd || r->cwd[0] == '/');
	MUST(!r->name || (r->name[0] && strlen(r->name) <= KEEPER_NAME_MAX && !strchr(r->name, '/') && r->name[0] != '.'));
	MUST(!(r->flags & KEEPER_DETACH) || !(r->flags & (KEEPER_TTY | KEEPER_STDIN)));
	MUST(r->on_failure <= TX_ACTION_COUNT && r->timeout_ms >= -1);
}

static void try_request(const void *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct cordon_error err = {0};
	struct keeper_request r;

	if (request_decode(data, size, &r, &err) < 0) {
		must_explain(&err);
		return;
	}
	MUST(r.verb > 0 && r.verb < KEEPER_VERB_COUNT);
	if (r.verb == KEEPER_EXEC)
		check_exec(&r);
	MUST(r.verb != KEEPER_OP || r.op < OP_VERB_COUNT);
	MUST(r.verb != KEEPER_KILL || (r.name && r.signo > 0 && r.signo <= 64));
	MUST(r.verb != KEEPER_INPUT || r.len <= KEEPER_INPUT_MAX);
	request_encode(&r, &again);
	must_be_same(&again, data, size);
	request_free(&r);
}

static void try_progress(const void *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct cordon_error err = {0};
	uint64_t done, total;

	if (progress_decode(data, size, &done, &total, &err) < 0) {
		must_explain(&err);
		return;
	}
	MUST(done <= total);
	progress_encode(done, total, &again);
	must_be_same(&again, data, size);
}

static void try_reply(const void *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct cordon_error err = {0};
	struct keeper_reply r;

	if (reply_decode(data, size, &r, &err) < 0) {
		must_explain(&err);
		return;
	}
	MUST(r.event > 0 && r.event < KEEPER_EVENT_COUNT && (r.event != KEEPER_STARTED || r.text));
	reply_encode(&r, &again);
	must_be_same(&again, data, size);
	if (r.event == KEEPER_PROGRESS)
		try_progress(r.data, r.len);
	reply_free(&r);
}

static void try_result(const void *data, size_t size)
{
	_cleanup_buf_ struct buf again = {0};
	struct cordon_error err = {0};
	struct keeper_result r;

	if (result_decode(data, size, &r, &err) < 0) {
		must_explain(&err);
		return;
	}
	MUST(r.result.state && r.result.transaction.change_count <= 1000);
	for (size_t i = 0; i < r.result.transaction.change_count; i++)
		MUST(r.result.transaction.changes[i].op && r.result.transaction.changes[i].path);
	result_encode(&r.result, &again);
	must_be_same(&again, data, size);
	keeper_result_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const tries[KIND_COUNT])(const void *, size_t) = {try_request, try_reply, try_result};

	if (size == 0)
		return 0;
	char *copy = malloc(size); /* exact, so that a read past the end is seen */
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	tries[data[0] % KIND_COUNT](copy, size - 1);
	free(copy);
	return 0;
}

static void seed_request(const char *dir, const char *name, const struct keeper_request *r)
{
	_cleanup_buf_ struct buf b = {0};

	request_encode(r, &b);
	seed_write(dir, name, KIND_REQUEST, b.data, b.len);
}

static void seed_reply(const char *dir, const char *name, const struct keeper_reply *r)
{
	_cleanup_buf_ struct buf b = {0};

	reply_encode(r, &b);
	seed_write(dir, name, KIND_REPLY, b.data, b.len);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *words[] = {"sh", "-c", "true", NULL}, *env[] = {"A=b", NULL};
	static const struct cordon_change changes[] = {{"add", "a/b", 3}, {"delete", "c", 0}};
	static const char *const services[] = {"web"};
	const char *dir = seeds_directory(*argc, *argv);
	const struct cordon_result result = {
		.id = "abcdefghij0123456789",
		.state = "failed",
		.reason = "exit",
		.exit_code = 3,
		.usage = {.cpu_ms = 1.5, .memory_peak_bytes = -1, .memory_by = "cgroup2"},
		.transaction = {.outcome = "rolled_back",
	                        .changes = changes,
	                        .change_count = 2,
	                        .changes_total = 2,
	                        .services = services,
	                        .service_count = 1},
	};
	_cleanup_buf_ struct buf b = {0};

	seed_request(
		dir, "exec",
		&(struct keeper_request){
			.verb = KEEPER_EXEC, .flags = KEEPER_STDIN | KEEPER_HAS_OK, .cwd = "/app", .argv = {words, 3}, .env = {env, 1}});
	seed_request(
		dir, "service",
		&(struct keeper_request){.verb = KEEPER_EXEC, .flags = KEEPER_DETACH, .name = "web", .argv = {words, 1}, .timeout_ms = -1});
	seed_request(dir, "op", &(struct keeper_request){.verb = KEEPER_OP, .op = OP_FORK, .args = {words, 2}});
	seed_request(dir, "kill", &(struct keeper_request){.verb = KEEPER_KILL, .name = "web", .signo = 15});
	seed_request(dir, "input", &(struct keeper_request){.verb = KEEPER_INPUT, .data = "abc", .len = 3});
	seed_reply(dir, "ok", &(struct keeper_reply){.event = KEEPER_OK, .status = 1, .items = {words, 3}});
	seed_reply(dir, "output", &(struct keeper_reply){.event = KEEPER_OUTPUT, .status = CORDON_STDERR, .data = "x\n", .len = 2});
	seed_reply(dir, "started", &(struct keeper_reply){.event = KEEPER_STARTED, .text = "abcdefghij0123456789"});
	progress_encode(1 << 20, 1 << 30, &b);
	seed_reply(dir, "progress", &(struct keeper_reply){.event = KEEPER_PROGRESS, .data = b.data, .len = b.len});
	b.len = 0;
	result_encode(&result, &b);
	seed_write(dir, "result", KIND_RESULT, b.data, b.len);
	return 0;
}
