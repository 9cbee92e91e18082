/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cordon` is a small static program, since a sandbox takes about three milliseconds and starting a large one would be a good part of that. What needs
 * large libraries (YAML, signatures, grammars) is in cordon-full: the same program with those commands in it, in the library's own
 * directory. This hands over to it.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "lib/program.h"

int cmd_full(int argc, char **argv)
{
	char path[PATH_MAX];
	struct cordon_error err = {0};
	_cleanup_free_ char **args = calloc((size_t)argc + 2, sizeof(*args));
	program_find("cordon-full", path);
	if (args) {
		args[0] = path;
		memcpy(args + 1, argv, (size_t)argc * sizeof(*args));
		execv(path, args);
	}
	err_sys(&err, "cannot start %s", path);
	err_hint(&err, "`make install` puts it there");
	report_error("cordon", &err);
	return EXIT_CORDON_FAILED;
}
