/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast records are written and verified here: audit-bench [DIRECTORY]. Not run by the tests. The records are those of a command in a sandbox, with an argv of
 * five words; they go to a new directory below DIRECTORY (default: the present one), which is removed again.
 */
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/verify.h"
#include "base/util.h"

enum { THREADS = 4 };

struct load {
	struct audit *audit;
	unsigned count, batch;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int give_up(const char *what, const struct cordon_error *err)
{
	fprintf(stderr, "%s: %s\n", what, err->message);
	exit(1);
}

static void *run(void *arg)
{
	static const char *const argv[] = {"/usr/bin/gcc", "-O2", "-c", "src/main.c", "-Iinclude", NULL};
	const struct load *load = arg;
	struct cordon_error err = {0};

	for (unsigned i = 0; i < load->count; i++) {
		const struct audit_field detail[] = {AUDIT_ARGV("argv", argv), AUDIT_TEXT("cwd", "/app"),
		                                     AUDIT_REAL("duration_ms", i / 8.0), AUDIT_INT("exit_code", 0), AUDIT_END};
		const struct audit_event e = {.level = AUDIT_INFO,
		                              .category = AUDIT_EXEC,
		                              .allowed = AUDIT_ALLOWED,
		                              .sandbox = "k3v9q0w2m4x8b7n1c5z6",
		                              .exec = "p0o9i8u7y6t5r4e3w2q1",
		                              .action = "end",
		                              .target = "/usr/bin/gcc",
		                              .detail = detail};

		if (audit_add(load->audit, &e, &err) < 0 || ((i + 1) % load->batch == 0 && audit_commit(load->audit, &err) < 0))
			give_up("write", &err);
	}
	return NULL;
}

static void bench_write(const char *home, const char *name, enum audit_sync sync, unsigned threads, unsigned count, unsigned batch)
{
	const struct audit_options options = {.sync = sync};
	struct load load = {.count = count / threads, .batch = batch};
	struct cordon_error err = {0};
	pthread_t ids[THREADS];

	if (audit_open(&load.audit, home, &options, &err) < 0)
		give_up("open", &err);
	double begin = now();
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, run, &load) != 0)
			exit(1);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	if (audit_commit(load.audit, &err) < 0)
		give_up("commit", &err);
	printf("%-44s %10.0f records/s\n", name, load.count * threads / (now() - begin));
	audit_close(load.audit);
}

static void bench_verify(const char *home, const char *name)
{
	struct cordon_error err = {0};
	struct audit_verified v;
	double begin = now();

	if (audit_verify(home, NULL, &v, &err) < 0)
		give_up("verify", &err);
	double seconds = now() - begin;
	printf("%-44s %10.0f records/s, %.0f MB/s (%llu records%s)\n", name, (double)v.records / seconds, (double)v.bytes / seconds / 1e6,
	       (unsigned long long)v.records, v.broken.found ? ", BROKEN" : "");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int main(int argc, char **argv)
{
	struct cordon_error err = {0};
	struct audit_sealed sealed;
	char home[4096];

	snprintf(home, sizeof(home), "%s/audit-bench.XXXXXX", argc > 1 ? argv[1] : ".");
	if (!mkdtemp(home)) {
		perror(home);
		return 1;
	}
	bench_write(home, "written, mode seal, 100 per commit", AUDIT_SYNC_SEAL, 1, 200000, 100);
	bench_write(home, "written, mode seal, 1 per commit", AUDIT_SYNC_SEAL, 1, 20000, 1);
	bench_write(home, "written, mode result, 100 per commit", AUDIT_SYNC_RESULT, 1, 50000, 100);
	bench_write(home, "written, mode result, 1 per commit", AUDIT_SYNC_RESULT, 1, 500, 1);
	bench_write(home, "written, mode result, 1 per commit, 4 threads", AUDIT_SYNC_RESULT, THREADS, 2000, 1);
	bench_verify(home, "verified, without seals");
	if (audit_seal(home, NULL, &sealed, &err) < 0)
		give_up("seal", &err);
	bench_verify(home, "verified, with seals");
	return nftw(home, remove_one, 16, FTW_DEPTH | FTW_PHYS) ? 1 : 0;
}
