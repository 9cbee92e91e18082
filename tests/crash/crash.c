/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash SCENARIO [N]: see crash.h. N: only every N-th kill point, for a quicker run. Lines are those of tests/lib.sh: "ok - …", "not ok -
 * …", "skip - … # …". crash SCENARIO at K [J]: only the kill before the K-th call (and with J, recovery killed before its J-th); the
 * state is left as it is, to be looked at.
 */
#include "crash.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"

#define FAILURES_SHOWN 3
#define BASE_MAX 256

static const struct scenario *const scenarios[] = {&commit_scenario,     &commit_mounts_scenario, &seal_scenario,
                                                   &flatten_scenario,    &collect_scenario,       &secret_first_scenario,
                                                   &secret_set_scenario, &secret_remove_scenario};

struct runner {
	const struct scenario *s;
	int base;
	unsigned long step; /* 1: every kill point */
	unsigned long points, kills, recovery_kills, failures;
};

static void complain(struct runner *r, unsigned long k, unsigned long j, const char *what)
{
	if (r->failures++ < FAILURES_SHOWN && j == NEVER)
		printf("    killed before call %lu: %s\n", k, what);
	else if (r->failures <= FAILURES_SHOWN)
		printf("    killed before call %lu, recovery before its call %lu: %s\n", k, j, what);
}

/* One run. False once nothing was left to kill: the operation (j NEVER) or its recovery came to its end. */
static bool one_run(struct runner *r, unsigned long k, unsigned long j)
{
	const struct scenario *s = r->s;
	unsigned long calls;
	bool more = true;
	s->reset(r->base);
	int ended = run_and_kill(s->operate, r->base, k, &calls), recovered = -1;
	if (ended != KILLED && ended != 0)
		complain(r, k, j, "the operation itself failed");
	if (ended != KILLED)
		more = false;
	if (ended == KILLED && j != NEVER)
		more = run_and_kill(s->recover, r->base, j, &calls) == KILLED;
	if (ended == KILLED)
		recovered = run_and_kill(s->recover, r->base, NEVER, &calls);
	/* a second time, with nothing left to do: it must not do harm */
	if (ended == KILLED && run_and_kill(s->recover, r->base, NEVER, &calls) != 0)
		complain(r, k, j, "recovery does not come to an end");
	/* what a killed recovery had done already is not said again by the next */
	const char *wrong = s->check(r->base, ended == KILLED, j == NEVER ? recovered : recovered == 99 ? 99 : -1);
	if (wrong)
		complain(r, k, j, wrong);
	return more;
}

static void run_all(struct runner *r)
{
	while (one_run(r, r->points, NEVER)) {
		r->points += r->step;
		r->kills++;
	}
	unsigned long failed = r->failures;
	for (unsigned i = 0; i < r->s->samples; i++) {
		unsigned long k = r->points * (i + 1) / (r->s->samples + 1), j = 0;
		for (; one_run(r, k, j); j += r->step)
			r->recovery_kills++;
	}
	printf("%s - %s: as it should be after each of %lu kills\n", failed ? "not ok" : "ok", r->s->name, r->kills);
	printf("%s - %s: the same with %lu kills of recovery\n", r->failures > failed ? "not ok" : "ok", r->s->name, r->recovery_kills);
	bool enough = r->points >= r->s->least;
	printf("%s - %s: there are at least %u kill points\n", enough ? "ok" : "not ok", r->s->name, r->s->least);
	r->failures += !enough;
}

/*
 * CRASH_DIR, or else memory, which is fastest; but it has extended attributes only since Linux 6.6, and the scenarios need them. On a
 * disk's file system other calls may be made: see commit_sync.c.
 */
static int make_base(char path[BASE_MAX])
{
	const char *const places[] = {getenv("CRASH_DIR"), "/dev/shm", "/var/tmp", "/tmp"};
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (!places[i] || snprintf(path, BASE_MAX, "%s/cordon-crash-XXXXXX", places[i]) >= BASE_MAX || !mkdtemp(path))
			continue;
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && fsetxattr(fd, "user.test", "", 0, 0) == 0)
			return fd;
		cleanup_fd(&fd);
		rmdir(path);
	}
	return -1;
}

/* A child that is stopped at each call, and its tracer, take turns: on one processor that is half the time. */
static void stay_on_one_cpu(void)
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		return;
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &all) && i >= (int)getpid() % CPU_COUNT(&all))
			CPU_SET(i, &one);
	if (CPU_COUNT(&one) == 1)
		sched_setaffinity(0, sizeof(one), &one);
}

static const struct scenario *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
		if (strcmp(scenarios[i]->name, name) == 0)
			return scenarios[i];
	return NULL;
}

int main(int argc, char **argv)
{
	char path[BASE_MAX];
	struct runner r = {.s = argc > 1 ? find(argv[1]) : NULL, .step = 1};
	bool one = argc > 3 && strcmp(argv[2], "at") == 0;
	if (argc == 3)
		r.step = strtoul(argv[2], NULL, 10);
	if (!r.s || r.step == 0 || (argc > 3 && !one)) {
		fprintf(stderr, "usage: crash SCENARIO [N | at K [J]]\n");
		return 2;
	}
	umask(022);
	stay_on_one_cpu();
	/* what a scenario mounts is its own; before anything is opened, since a descriptor stays in the namespace it is from */
	if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0)
		MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	r.base = can_kill() ? make_base(path) : -1;
	if (r.base < 0) {
		printf("skip - %s # ptrace is not allowed here, or no file system has extended attributes\n", r.s->name);
		return 0;
	}
	const char *why = r.s->set_up(r.base);
	if (why) {
		printf("skip - %s # %s\n", r.s->name, why);
	} else if (one) {
		one_run(&r, strtoul(argv[3], NULL, 10), argc > 4 ? strtoul(argv[4], NULL, 10) : NEVER);
		printf("%lu failures; look at %s\n", r.failures, path);
		return r.failures > 0;
	} else {
		run_all(&r);
		r.s->tear_down(r.base);
	}
	close(r.base);
	MUST(fs_remove_tree(AT_FDCWD, path, NULL) == 0);
	return r.failures > 0;
}
