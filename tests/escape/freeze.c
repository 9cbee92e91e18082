/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command stops (SIGSTOP) everything it can reach, again and again, while others are started beside it. Each has two seconds. Prints how
 * long the whole took and what became of the attacker.
 */
#include <cordon.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct cordon_exec *start(struct cordon_sandbox *s, const char *line, struct cordon_error *err)
{
	const char *const argv[] = {"sh", "-c", line, NULL};
	struct cordon_exec_options o = {.size = sizeof(o), .argv = argv};
	struct cordon_exec *e = NULL;
	return cordon_exec_start(s, &o, &e, err) < 0 ? NULL : e;
}

int main(void)
{
	struct cordon_error err = {CORDON_OK, 0, "", ""};
	struct cordon *c;
	struct cordon_sandbox *s;
	struct cordon_policy *p = cordon_policy_new();
	if (!p || cordon_policy_set(p, "limits.timeout", "2s", &err) < 0 || cordon_policy_set(p, "weak.allow", "landlock", &err) < 0 ||
	    cordon_open(&c, &err) < 0 || cordon_sandbox_create(c, p, NULL, &s, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 2;
	}
	double begin = now();
	struct cordon_exec *attacker = start(
		s, "exec python3 -c 'import os, signal\nwhile True:\n  try: os.kill(-1, signal.SIGSTOP)\n  except OSError: pass'", &err);
	if (!attacker)
		return 2;
	for (int i = 0; i < 20; i++) {
		struct cordon_exec *e = start(s, "true", &err);
		if (e) {
			cordon_exec_cancel(e, NULL);
			cordon_exec_wait(e, NULL);
			cordon_exec_free(e);
		}
	}
	if (cordon_exec_wait(attacker, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 2;
	}
	printf("%s %s\n", cordon_exec_result(attacker)->reason, now() - begin < 10 ? "in time" : "late");
	cordon_exec_free(attacker);
	cordon_sandbox_destroy(s);
	cordon_close(c);
	cordon_policy_free(p);
	return 0;
}
