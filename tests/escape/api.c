/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command line cannot ask for, through libcordon.
 *
 *   api pair WORKSPACE LINE1 LINE2          two commands (words split at blanks) in one sandbox at the same time; prints what both say
 *   api mount HOST GUEST [KEY VALUE]…       a sandbox with one mount, after policy keys: prints "made", or the error's code and message
 *   api workspace HOST [KEY VALUE]…         the same with a workspace
 *   api show GUEST HOST [KEY VALUE]…        as mount, then lists GUEST inside
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cordon.h>

#define MOST 16

static int complain(const struct cordon_error *err)
{
	static const char *const names[] = {"ok", "input", "not-found", "not-runnable", "denied", "weak-host", "system"};

	printf("%s: %s\n", names[err->code], err->message);
	return 1;
}

static void split(char *line, const char **argv)
{
	size_t n = 0;
	char *save = NULL;

	for (char *word = strtok_r(line, " ", &save); word && n < MOST - 1; word = strtok_r(NULL, " ", &save))
		argv[n++] = word;
	argv[n] = NULL;
}

static int start(struct cordon_sandbox *s, char *line, struct cordon_exec **e, struct cordon_error *err)
{
	const char *argv[MOST];
	struct cordon_exec_options o = {.size = sizeof(o), .argv = argv};

	split(line, argv);
	return cordon_exec_start(s, &o, e, err);
}

static int finish(struct cordon_exec *e, struct cordon_error *err)
{
	if (cordon_exec_wait(e, err) < 0)
		return -1;
	const struct cordon_result *r = cordon_exec_result(e);
	fwrite(r->stdout_data, 1, r->stdout_len, stdout);
	fwrite(r->stderr_data, 1, r->stderr_len, stdout);
	cordon_exec_free(e);
	return 0;
}

static int pair(struct cordon *c, struct cordon_policy *p, char **argv)
{
	struct cordon_sandbox_options o = {.size = sizeof(o), .workspace = argv[0]};
	struct cordon_sandbox *s = NULL;
	struct cordon_exec *one = NULL;
	struct cordon_error err = {0};
	int r = -1;

	if (cordon_policy_set(p, "limits.timeout", "10s", &err) < 0 || cordon_sandbox_create(c, p, &o, &s, &err) < 0)
		return complain(&err);
	if (start(s, argv[1], &one, &err) == 0) {
		for (int i = 0; i < 30; i++) { /* the second one again and again, while the first one looks */
			struct cordon_exec *two = NULL;
			char line[256];

			snprintf(line, sizeof(line), "%s", argv[2]);
			if (start(s, line, &two, NULL) == 0) {
				nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* time to be looked at */
				cordon_exec_free(two);                                    /* which ends it */
			}
		}
		r = finish(one, &err);
	}
	cordon_sandbox_destroy(s);
	return r < 0 ? complain(&err) : 0;
}

static int make(struct cordon *c, struct cordon_policy *p, const struct cordon_sandbox_options *o, char **settings, const char *show)
{
	struct cordon_sandbox *s = NULL;
	struct cordon_exec *e = NULL;
	struct cordon_error err = {0};
	char line[512];

	for (; settings[0] && settings[1]; settings += 2)
		if (cordon_policy_set(p, settings[0], settings[1], &err) < 0)
			return complain(&err);
	if (cordon_sandbox_create(c, p, o, &s, &err) < 0)
		return complain(&err);
	printf("made\n");
	snprintf(line, sizeof(line), "/bin/ls -A %s", show ? show : "/nonexistent");
	if (show && (start(s, line, &e, &err) < 0 || finish(e, &err) < 0))
		complain(&err);
	cordon_sandbox_destroy(s);
	return 0;
}

int main(int argc, char **argv)
{
	struct cordon_policy *p = cordon_policy_new();
	struct cordon_error err = {0};
	struct cordon *c = NULL;
	int r = 2;

	if (argc < 3 || !p || cordon_open(&c, &err) < 0)
		return argc < 3 ? 2 : complain(&err);
	if (strcmp(argv[1], "pair") == 0 && argc == 5) {
		r = pair(c, p, argv + 2);
	} else if (strcmp(argv[1], "workspace") == 0) {
		struct cordon_sandbox_options o = {.size = sizeof(o), .workspace = argv[2]};

		r = make(c, p, &o, argv + 3, NULL);
	} else if (argc > 3) {
		int shown = strcmp(argv[1], "show") == 0;
		struct cordon_mount m = {.host = argv[shown ? 3 : 2], .guest = argv[shown ? 2 : 3]};
		struct cordon_sandbox_options o = {.size = sizeof(o), .mounts = &m, .mount_count = 1};

		r = make(c, p, &o, argv + 4, shown ? m.guest : NULL);
	}
	cordon_close(c);
	cordon_policy_free(p);
	return r;
}
