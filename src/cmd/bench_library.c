/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes through libcordon, as a program that embeds it has them: parked ones and others. */
#include <string.h>

#include "base/util.h"
#include "cmd/bench.h"
#include "cordon.h"

#define POOL_BYTES ((uint64_t)8 << 30)

const struct cordon_exec_options bench_exec_true = {.size = sizeof(struct cordon_exec_options),
                                                    .argv = (const char *const[]){BENCH_PROGRAM, NULL}};

int bench_library_open(struct bench_library *l, unsigned parked, const char *language, const char *tools, struct cordon_error *err)
{
	*l = (struct bench_library){.parked = parked,
	                            .language = language,
	                            .options.size = sizeof(struct cordon_sandbox_options),
	                            .mount = {.host = tools, .guest = BENCH_TOOLS}};
	if (tools) {
		l->options.mounts = &l->mount;
		l->options.mount_count = 1;
	}
	if (!(l->policy = cordon_policy_new()))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if ((!tools || cordon_policy_set(l->policy, "mounts.read", tools, err) == 0) && cordon_open(&l->context, err) == 0) {
		cordon_pool_limit(l->context, parked, parked ? POOL_BYTES : 0);
		if (bench_library_refill(l, err) == 0)
			return 0;
	}
	bench_library_close(l);
	return -1;
}

void bench_library_close(struct bench_library *l)
{
	if (l->context)
		cordon_close(l->context);
	cordon_policy_free(l->policy);
	l->context = NULL;
	l->policy = NULL;
}

int bench_library_refill(struct bench_library *l, struct cordon_error *err)
{
	return l->parked ? cordon_warm(l->context, l->policy, &l->options, l->language, l->parked, err) : 0;
}

int bench_library_exec(struct cordon_sandbox *s, const struct cordon_exec_options *exec, struct cordon_error *err)
{
	struct cordon_exec *e;

	if (cordon_exec_start(s, exec, &e, err) < 0)
		return -1;
	int r = cordon_exec_wait(e, err);
	const struct cordon_result *result = cordon_exec_result(e);
	if (r == 0 && strcmp(result->state, "succeeded") != 0)
		r = err_set(err, CORDON_ERR_SYSTEM, "exit status %d: %.100s", result->exit_code,
		            result->error ? result->error : result->stderr_data);
	cordon_exec_free(e);
	return r;
}

int bench_library_run(struct bench_library *l, const struct cordon_exec_options *exec, double *answered, double *gone,
                      struct cordon_error *err)
{
	struct cordon_sandbox *s;

	if (cordon_sandbox_create(l->context, l->policy, &l->options, &s, err) < 0)
		return -1;
	int r = bench_library_exec(s, exec, err);
	*answered = bench_now_ms();
	cordon_sandbox_destroy(s);
	*gone = bench_now_ms();
	return r;
}
