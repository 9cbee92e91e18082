/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes records, for tests/integration/71-audit.test.
 *
 *   audit-writer [-s result|seal] [-m BYTES] [-b RECORDS] [-t THREADS] [-n COUNT] [-p NAME] [-S SANDBOX] [-T MICROSECONDS] [-d] HOME
 *
 * Record i of thread t has the target "NAME-t-i", and level, category, verdict and sandbox by its number. Commits after every -b records. With -d each target
 * whose commit has returned is printed (on a line, with one write). -T: the time of the first record; the others follow at intervals of a second.
 * -n 0 never ends. Arguments behind HOME are the targets instead.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/util.h"

enum { THREADS_MAX = 16 };

struct writer {
	struct audit *audit;
	unsigned thread, batch;
	uint64_t count;
	const char *name, *sandbox;
	int64_t time_us;
	bool report;
	int failed;
};

static const char *const sandboxes[] = {"aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb", "abcdefghijklmnopqrst", NULL};

static int write_one(struct writer *w, const char *target, uint64_t i, struct cordon_error *err)
{
	static const char *const argv[] = {"/usr/bin/make", "-j2", "CC=gcc", "--token", "hunter2", NULL};
	char exec[32];

	snprintf(exec, sizeof(exec), "exec%016" PRIu64, i / 10);
	const struct audit_field detail[] = {AUDIT_ARGV("argv", argv), AUDIT_REAL("duration_ms", (double)i / 8),
	                                     AUDIT_INT("exit_code", i % 3), AUDIT_END};
	const struct audit_event e = {
		.level = (enum audit_level)(i % AUDIT_LEVEL_COUNT),
		.category = (enum audit_category)(i % AUDIT_SYSTEM),
		.allowed = (enum audit_allowed)(i % AUDIT_ALLOWED_COUNT),
		.tenant = i % 4 ? NULL : "acme",
		.sandbox = w->sandbox ? w->sandbox : sandboxes[i % ARRAY_SIZE(sandboxes)],
		.exec = exec,
		.action = i % 2 ? "start" : "end",
		.target = target,
		.rule = i % 3 ? NULL : "process.allow",
		.detail = i % 5 ? detail : NULL,
		.time_us = w->time_us ? w->time_us + (int64_t)i * 1000000 : 0,
	};
	return audit_add(w->audit, &e, err);
}

static void say(struct writer *w, uint64_t from, uint64_t to)
{
	_cleanup_buf_ struct buf text = {0};

	for (uint64_t i = from; i < to; i++)
		buf_addf(&text, "%s-%u-%" PRIu64 "\n", w->name, w->thread, i);
	if (text.failed || write(STDOUT_FILENO, text.data, text.len) != (ssize_t)text.len)
		_exit(3);
}

static void *run(void *arg)
{
	struct writer *w = arg;
	struct cordon_error err = {0};
	uint64_t committed = 0;

	for (uint64_t i = 0; !w->count || i < w->count; i++) {
		char target[128];
		bool last = i + 1 == w->count;

		snprintf(target, sizeof(target), "%s-%u-%" PRIu64, w->name, w->thread, i);
		if (write_one(w, target, i, &err) < 0 || (((i + 1) % w->batch == 0 || last) && audit_commit(w->audit, &err) < 0)) {
			fprintf(stderr, "%s\nhint: %s\n", err.message, err.hint);
			w->failed = 1;
			return NULL;
		}
		if (w->report && ((i + 1) % w->batch == 0 || last)) {
			say(w, committed, i + 1);
			committed = i + 1;
		}
	}
	return NULL;
}

static int write_targets(struct audit *a, char **targets)
{
	struct writer w = {.audit = a};
	struct cordon_error err = {0};

	for (uint64_t i = 0; targets[i]; i++)
		if (write_one(&w, targets[i], i, &err) < 0)
			return 1;
	return audit_commit(a, &err) < 0;
}

int main(int argc, char **argv)
{
	struct audit_options options = {0};
	struct writer w = {.batch = 1, .count = 1, .name = "w"}, writers[THREADS_MAX];
	struct cordon_error err = {0};
	pthread_t threads[THREADS_MAX];
	unsigned count = 1;
	int c, failed = 0;

	while ((c = getopt(argc, argv, "+s:m:b:t:n:p:S:T:d")) >= 0) {
		switch (c) {
		case 's':
			options.sync = strcmp(optarg, "seal") == 0 ? AUDIT_SYNC_SEAL : AUDIT_SYNC_RESULT;
			break;
		case 'm':
			options.max_segment = strtoull(optarg, NULL, 10);
			break;
		case 'b':
			w.batch = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 't':
			count = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'n':
			w.count = strtoull(optarg, NULL, 10);
			break;
		case 'p':
			w.name = optarg;
			break;
		case 'S':
			w.sandbox = optarg;
			break;
		case 'T':
			w.time_us = strtoll(optarg, NULL, 10);
			break;
		case 'd':
			w.report = true;
			break;
		default:
			return 2;
		}
	}
	if (optind >= argc || !w.batch || !count || count > THREADS_MAX)
		return 2;
	if (audit_open(&w.audit, argv[optind], &options, &err) < 0) {
		fprintf(stderr, "%s\nhint: %s\n", err.message, err.hint);
		return 1;
	}
	if (argv[optind + 1]) {
		failed = write_targets(w.audit, argv + optind + 1);
		count = 0;
	}
	for (unsigned i = 0; i < count; i++) {
		writers[i] = w;
		writers[i].thread = i;
		if (pthread_create(&threads[i], NULL, run, &writers[i]) != 0)
			return 2;
	}
	for (unsigned i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		failed |= writers[i].failed;
	}
	audit_close(w.audit);
	return failed;
}
