/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code on its way into a live sandbox. Nobody but its own processes may write there, so a shell inside writes what we send to its standard input to a directory
 * in /tmp, which is no part of any layer: beside whatever else runs, without a transaction, and with the rights of the program that is to read it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/util.h"
#include "cmd/exec.h"
#include "keeper/attach.h"

static const char write_file[] = "umask 077 && mkdir -p \"${1%/*}\" && cat >\"$1\" && chmod 400 \"$1\"";
static const char remove_dir[] = "rm -rf \"$1\"";

int exec_code_dir(char out[EXEC_CODE_DIR_MAX], struct cordon_error *err)
{
	char id[ID_LEN + 1];

	id_new(id);
	int n = snprintf(out, EXEC_CODE_DIR_MAX, "/tmp/.cordon-%s", id);
	return n < EXEC_CODE_DIR_MAX ? 0 : err_set(err, CORDON_ERR_SYSTEM, "cannot name a directory for the code");
}

static int feed(struct keeper_exec *e, const char *data, size_t len, struct cordon_error *err)
{
	bool closed = false;
	int r;

	while ((r = keeper_exec_step(e, err)) > 0) {
		const short sink = keeper_exec_sink(e);
		struct pollfd p = {.fd = keeper_exec_fd(e), .events = POLLIN};

		while (len && (sink & POLLOUT)) {
			ssize_t n = keeper_exec_write(e, data, len);

			if (n <= 0)
				break;
			data += n;
			len -= (size_t)n;
		}
		if ((len == 0 || (sink & POLLERR)) && !closed) {
			keeper_exec_close_stdin(e);
			closed = true;
		}
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return err_sys(err, "poll");
	}
	return r;
}

/* A line of the shell inside, with one argument and this input. */
static int shell_inside(const struct exec_place *place, const char *line, const char *argument, const void *data, size_t len,
                        struct cordon_error *err)
{
	const char *argv[] = {"/bin/sh", "-c", line, "sh", argument};
	const struct keeper_request request = {.verb = KEEPER_EXEC,
	                                       .flags = KEEPER_PARALLEL | KEEPER_STDIN,
	                                       .argv = {argv, ARRAY_SIZE(argv)},
	                                       .env = *place->env,
	                                       .cwd = "/"};
	const struct keeper_exec_options options = {.request = &request, .keep_output = true};
	struct keeper_exec *e = NULL;

	if (keeper_exec_start(place->home, place->sandbox, &options, &e, err) < 0)
		return -1;
	int r = feed(e, data, len, err);
	const struct cordon_result *result = keeper_exec_result(e);
	if (r == 0 && result && result->exit_code != 0)
		r = err_set(err, CORDON_ERR_SYSTEM, "a shell inside says: %.*s", (int)MIN(strcspn(result->stderr_data, "\n"), (size_t)300),
		            result->stderr_data);
	keeper_exec_free(e);
	return r;
}

int exec_code_place(const struct exec_place *place, const struct run_program *p, struct cordon_error *err)
{
	for (size_t i = 0; i < p->made.file_count; i++)
		if (shell_inside(place, write_file, p->made.files[i].guest, p->made.files[i].data, p->made.files[i].len, err) < 0)
			return err_wrap(err, "cannot put the code into the sandbox");
	return 0;
}

void exec_code_remove(const struct exec_place *place, const char *dir)
{
	shell_inside(place, remove_dir, dir, "", 0, NULL); /* what stays goes when the sandbox is stopped */
}
