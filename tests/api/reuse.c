/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reuse LINE…: runs each line of sh in a sandbox of its own, one after the other in one context, and prints its output. The next sandbox is asked for when the launcher has
 * nothing left of the one before, so that it gets what that one left behind, if anybody gets it (sandbox/scratch.h). $REUSE_MOUNT: a directory of the host's to be shown at /mnt.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "lib/context.h"

enum { DEADLINE = 120 };

/* By what the kernel says of its children, of which each is a sandbox's or removes one. */
static void wait_until_idle(const struct cordon *ctx)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)ctx->launcher, (int)ctx->launcher);
	for (;;) {
		FILE *f = fopen(path, "r");
		const int c = f ? fgetc(f) : EOF;
		if (f)
			fclose(f);
		if (c == EOF)
			return;
		poll(NULL, 0, 1);
	}
}

int main(int argc, char **argv)
{
	struct cordon *ctx;
	struct cordon_error err = {0};
	struct cordon_policy *p = cordon_policy_new();
	alarm(DEADLINE);
	if (cordon_open(&ctx, &err) < 0)
		give_up("a context can be opened: %s", err.message);
	cordon_pool_limit(ctx, 0, 0);
	const struct cordon_mount mount = {.host = getenv("REUSE_MOUNT"), .guest = "/mnt"};
	const struct cordon_sandbox_options options = {.size = sizeof(options), .mounts = &mount, .mount_count = mount.host != NULL};
	if (mount.host && cordon_policy_set(p, "mounts.read", mount.host, &err) < 0)
		give_up("the mount can be allowed: %s", err.message);
	for (int i = 1; i < argc; i++) {
		struct cordon_sandbox *s = NULL;
		if (cordon_sandbox_create(ctx, p, &options, &s, &err) < 0)
			give_up("a sandbox can be made: %s", err.message);
		const struct ended e = run_line(s, argv[i]);
		if (e.status != 0)
			give_up("'%s' succeeds: status %d: %s", argv[i], e.status, e.error.message);
		fputs(e.out, stdout);
		fflush(stdout);
		cordon_sandbox_destroy(s);
		wait_until_idle(ctx);
	}
	cordon_close(ctx);
	cordon_policy_free(p);
	return 0;
}
