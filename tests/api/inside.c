/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the property test runs inside a sandbox: reads a script from standard input, up to an empty line, and prints, each after a line
 * with its name,
 *
 *   before     the manifest of /app and of the home
 *   results    what came of each operation of the script (tree.h)
 *   after      the manifest once more
 *   end
 *
 * At the operation "pause" it prints such a line, and waits for another byte on its standard input. Without a script only "before" is
 * printed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree.h"

static void say(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(1, text, len);
		if (n <= 0)
			exit(100);
		text += n;
		len -= (size_t)n;
	}
}

static void say_manifest(const struct roots *r, const char *title)
{
	struct buf out = {0};

	buf_addf(&out, "%s\n", title);
	manifest(r, NULL, &out);
	if (out.failed)
		exit(101);
	say(out.data, out.len);
	buf_free(&out);
}

static void wait_for_host(void)
{
	char c;

	say("pause\n", 6);
	if (read(0, &c, 1) != 1)
		exit(102);
}

/* Up to and without the empty line at its end. */
static char *read_script(void)
{
	struct buf in = {0};
	char block[4096];

	buf_add_str(&in, "\n");
	while (in.len < 2 || strcmp(in.data + in.len - 2, "\n\n") != 0) {
		ssize_t n = read(0, block, sizeof(block));
		if (n <= 0)
			exit(103);
		buf_add(&in, block, (size_t)n);
	}
	return buf_steal(&in);
}

int main(void)
{
	const char *home = getenv("HOME");
	struct roots r = {{open("/app", O_RDONLY | O_DIRECTORY | O_CLOEXEC), open(home ? home : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)}};
	struct buf results = {0};

	umask(0);
	char *script = read_script();
	if (r.fds[0] < 0 || r.fds[1] < 0 || !script)
		return 104;
	say_manifest(&r, "before");
	if (!script[strspn(script, "\n")])
		return 0;
	buf_add_str(&results, "results\n");
	int status = replay(&r, script, &results, wait_for_host);
	say(results.data, results.len);
	say_manifest(&r, "after");
	say("end\n", 4);
	return status;
}
