/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a little Python in a sandbox, shows its output as it arrives, and then what became of it.
 *
 *   cc hello.c $(pkg-config --cflags --libs cordon) -o hello && ./hello
 *   ./hello sh -c 'echo any other command; ls /; exit 3'
 */
#include <cordon.h>
#include <stdio.h>

static void show(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	(void)user;
	fwrite(data, 1, len, stream == CORDON_STDERR ? stderr : stdout);
	fflush(stdout);
}

static int complain(const struct cordon_error *err)
{
	fprintf(stderr, "hello: %s%s%s\n", err->message, err->hint[0] ? "\n  hint: " : "", err->hint);
	return 125;
}

int main(int argc, char **argv)
{
	static const char *const python[] = {"python3", "-c",
	                                     "import os, socket\n"
	                                     "print('hello from', socket.gethostname(), 'as uid', os.getuid(), flush=True)\n"
	                                     "try: socket.create_connection(('192.0.2.1', 80), 1)\n"
	                                     "except OSError as e: print('no network here:', e)\n",
	                                     NULL};
	struct cordon_error err = {0};
	struct cordon *ctx = NULL;
	struct cordon_sandbox *sandbox = NULL;
	struct cordon_exec *exec = NULL;
	struct cordon_policy *policy = cordon_policy_new();
	int status = 125;

	if (!policy || cordon_policy_set(policy, "limits.memory", "256M", &err) < 0 ||
	    cordon_policy_set(policy, "limits.timeout", "10s", &err) < 0)
		goto out;
	if (cordon_open(&ctx, &err) < 0 || cordon_sandbox_create(ctx, policy, NULL, &sandbox, &err) < 0)
		goto out;

	struct cordon_exec_options options = {
		.size = sizeof(options),
		.argv = argc > 1 ? (const char *const *)(argv + 1) : python,
		.flags = CORDON_EXEC_DISCARD, /* shown as it comes, so nothing need be kept */
		.on_output = show,
	};
	if (cordon_exec_start(sandbox, &options, &exec, &err) < 0 || cordon_exec_wait(exec, &err) < 0)
		goto out;

	const struct cordon_result *result = cordon_exec_result(exec);
	printf("-- %s%s%s, exit status %d, %.1f ms, memory held by %s\n", result->state, result->reason ? ": " : "",
	       result->reason ? result->reason : "", result->exit_code, result->duration_ms, result->usage.memory_by);
	status = result->exit_code;
out:
	if (err.code != CORDON_OK)
		status = complain(&err);
	cordon_exec_free(exec);
	cordon_sandbox_destroy(sandbox);
	cordon_close(ctx);
	cordon_policy_free(policy);
	return status;
}
