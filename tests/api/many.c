/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcordon as an embedder uses it, from many threads.
 *
 *   many contract                what include/cordon.h promises; prints "ok - …" and "not ok - …" lines
 *   many storm COUNT PARALLEL    COUNT sandboxes made, used and destroyed, PARALLEL at a time, through one context; prints a summary
 *
 * Exit status 0 if nothing failed. Nothing here waits for ever: an alarm ends the program.
 */
#include <cordon.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEADLINE = 150, THREADS = 4, ROUNDS = 5 };

static int failures;

__attribute__((format(printf, 2, 3))) static void check(bool good, const char *fmt, ...)
{
	va_list args;

	fputs(good ? "ok - " : "not ok - ", stdout);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	fputc('\n', stdout);
	fflush(stdout);
	failures += !good;
}

/* ---- short forms ------------------------------------------------------------------------------------------------------------- */

static struct cordon_sandbox *sandbox_or_die(struct cordon *c, const struct cordon_policy *p)
{
	struct cordon_error err = {0};
	struct cordon_sandbox *s = NULL;

	if (cordon_sandbox_create(c, p, NULL, &s, &err) < 0) {
		printf("not ok - a sandbox can be made: %s\n", err.message);
		exit(1);
	}
	return s;
}

static struct cordon_exec *start(struct cordon_sandbox *s, const char *line, const char *arg, struct cordon_exec_options more,
                                 struct cordon_error *err)
{
	const char *const argv[] = {"sh", "-c", line, arg, NULL};
	struct cordon_exec *e = NULL;

	more.size = sizeof(more);
	more.argv = argv;
	return cordon_exec_start(s, &more, &e, err) < 0 ? NULL : e;
}

/* Runs a line to its end; true if it ended with `status` and printed `want`. */
static bool runs(struct cordon_sandbox *s, const char *line, const char *arg, int status, const char *want)
{
	struct cordon_error err = {0};
	struct cordon_exec *e = start(s, line, arg, (struct cordon_exec_options){0}, &err);
	bool good = e && cordon_exec_wait(e, &err) == 0;
	const struct cordon_result *r = good ? cordon_exec_result(e) : NULL;

	good = r && r->exit_code == status && strcmp(r->stdout_data, want) == 0;
	if (!good)
		printf("# '%s': %s%s, status %d, stdout '%s', stderr '%s'\n", line, err.message, e ? "" : " (did not start)",
		       r ? r->exit_code : -1, r ? r->stdout_data : "", r ? r->stderr_data : "");
	cordon_exec_free(e);
	return good;
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* ---- several threads --------------------------------------------------------------------------------------------------------- */

struct worker {
	struct cordon *ctx;
	struct cordon_policy *policy;
	struct cordon_sandbox *shared;
	int number;
	bool good;
};

static void *own_sandbox(void *data)
{
	struct worker *w = data;
	char word[16], want[24];

	snprintf(word, sizeof(word), "%d", w->number);
	snprintf(want, sizeof(want), "%d\n", w->number);
	w->good = true;
	for (int i = 0; i < ROUNDS; i++) {
		struct cordon_sandbox *s = sandbox_or_die(w->ctx, w->policy);

		w->good = w->good && runs(s, "echo $0 >/app/mine", word, 0, "") &&
		          runs(s, "cat /app/mine; ls /app | wc -l >/tmp/n; read n </tmp/n; exit $n", word, 1, want);
		cordon_sandbox_destroy(s);
	}
	return NULL;
}

static void *same_sandbox(void *data)
{
	struct worker *w = data;
	char word[16], want[24];

	snprintf(word, sizeof(word), "t%d", w->number);
	snprintf(want, sizeof(want), "t%d\n", w->number);
	w->good = true;
	for (int i = 0; i < ROUNDS; i++)
		w->good = w->good && runs(w->shared, "echo $0", word, 0, want);
	return NULL;
}

static void threads(struct cordon *c, struct cordon_policy *p, void *(*body)(void *), struct cordon_sandbox *shared, const char *name)
{
	struct worker w[THREADS];
	pthread_t t[THREADS];
	bool good = true;

	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.ctx = c, .policy = p, .shared = shared, .number = i};
		pthread_create(&t[i], NULL, body, &w[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		good = good && w[i].good;
	}
	check(good, "%s", name);
}

/* ---- signals and ends -------------------------------------------------------------------------------------------------------- */

/* Set by on_output once the command has said something. */
static void note_output(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	(void)stream, (void)data, (void)len;
	atomic_store((atomic_bool *)user, true);
}

static bool step_until(struct cordon_exec *e, atomic_bool *flag)
{
	for (struct pollfd p = {.fd = cordon_exec_fd(e), .events = POLLIN}; !atomic_load(flag);)
		if (poll(&p, 1, 20000) <= 0 || cordon_exec_step(e, NULL) != 1)
			return false;
	return true;
}

static void *send_signal(void *exec)
{
	cordon_exec_signal(exec, SIGUSR1, NULL);
	return NULL;
}

static void signal_from_another_thread(struct cordon_sandbox *s)
{
	atomic_bool ready = false;
	struct cordon_exec *e = start(s, "trap 'exit 42' USR1; echo ready; while :; do sleep 0.01; done", NULL,
	                              (struct cordon_exec_options){.on_output = note_output, .user = &ready}, NULL);
	pthread_t t;

	if (!e || !step_until(e, &ready)) {
		check(false, "cordon_exec_signal() reaches the command from another thread");
		cordon_exec_free(e);
		return;
	}
	pthread_create(&t, NULL, send_signal, e);
	cordon_exec_wait(e, NULL);
	pthread_join(t, NULL);
	check(cordon_exec_result(e)->exit_code == 42, "cordon_exec_signal() reaches the command from another thread");
	check(cordon_exec_signal(e, SIGUSR1, NULL) == -1, "a signal to a command that has ended is an error");
	check(cordon_exec_signal(e, 999, NULL) == -1, "a number that is no signal is an error");
	cordon_exec_free(e);
}

static struct cordon_exec *start_stubborn(struct cordon_sandbox *s)
{
	atomic_bool ready = false;
	struct cordon_exec *e = start(s, "trap '' TERM INT; echo ready; sleep 1000 & sleep 1000; sleep 1000", NULL,
	                              (struct cordon_exec_options){.on_output = note_output, .user = &ready}, NULL);

	if (e && step_until(e, &ready))
		return e;
	check(false, "a command that ignores signals starts");
	exit(1);
}

static void cancel(struct cordon_sandbox *s)
{
	struct cordon_exec *e = start_stubborn(s);
	bool good = cordon_exec_cancel(e, NULL) == 0 && cordon_exec_wait(e, NULL) == 0;
	const struct cordon_result *r = cordon_exec_result(e);

	check(good && r && r->reason && strcmp(r->reason, "cancelled") == 0 && strcmp(r->state, "failed") == 0,
	      "cordon_exec_cancel() ends the tree, and the reason is cancelled");
	cordon_exec_free(e);
	check(runs(s, "echo again", NULL, 0, "again\n"), "after a cancel the sandbox goes on");
}

static void free_while_running(struct cordon_sandbox *s)
{
	struct cordon_exec *e = start_stubborn(s);

	check(cordon_exec_result(e) == NULL, "there is no result while it runs");
	cordon_exec_free(e);
	/* the next command waits for nothing, and sees nobody of the one before once that was killed */
	check(runs(s,
	           "n=0; while [ $n -lt 500 ] && grep -qs sleep /proc/[0-9]*/comm; do n=$((n + 1)); read -r x <>/dev/null; done; "
	           "grep -ls sleep /proc/[0-9]*/comm; true",
	           NULL, 0, ""),
	      "cordon_exec_free() kills a command that still runs");
}

static void destroy_while_running(struct cordon *c, struct cordon_policy *p)
{
	struct cordon_sandbox *s = sandbox_or_die(c, p);
	struct cordon_exec *e = start_stubborn(s);

	cordon_exec_free(e);
	cordon_sandbox_destroy(s);
	s = sandbox_or_die(c, p);
	e = start_stubborn(s);
	cordon_sandbox_destroy(s);
	int r = cordon_exec_wait(e, NULL);
	const struct cordon_result *result = r == 0 ? cordon_exec_result(e) : NULL;
	check(r == -1 || (result && strcmp(result->state, "failed") == 0),
	      "a sandbox may be destroyed while a command runs, which then fails");
	cordon_exec_free(e);
}

/* ---- an event loop of one's own ---------------------------------------------------------------------------------------------- */

struct seen {
	char text[64];
	size_t len;
	pthread_t thread;
	bool elsewhere;
};

static void collect(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	struct seen *s = user;

	(void)stream;
	if (len > sizeof(s->text) - 1 - s->len)
		len = sizeof(s->text) - 1 - s->len;
	memcpy(s->text + s->len, data, len);
	s->len += len;
	s->elsewhere = s->elsewhere || !pthread_equal(s->thread, pthread_self());
}

static void own_poll_loop(struct cordon_sandbox *a, struct cordon_sandbox *b)
{
	struct seen seen[2] = {{.thread = pthread_self()}, {.thread = pthread_self()}};
	struct cordon_exec *e[2];
	int running = 2, rounds = 0;

	e[0] = start(a, "for i in 1 2 3; do echo a$i; sleep 0.03; done", NULL,
	             (struct cordon_exec_options){.on_output = collect, .user = &seen[0]}, NULL);
	e[1] = start(b, "for i in 1 2 3; do echo b$i; sleep 0.03; done; exit 5", NULL,
	             (struct cordon_exec_options){.on_output = collect, .user = &seen[1], .flags = CORDON_EXEC_DISCARD}, NULL);
	if (!e[0] || !e[1]) {
		check(false, "two commands run in one poll loop");
		return;
	}
	while (running && rounds++ < 10000) {
		struct pollfd p[2] = {{.fd = cordon_exec_fd(e[0]), .events = POLLIN}, {.fd = cordon_exec_fd(e[1]), .events = POLLIN}};

		running = 0;
		if (poll(p, 2, 20000) <= 0)
			break;
		for (int i = 0; i < 2; i++)
			running += cordon_exec_step(e[i], NULL) == 1;
	}
	check(running == 0 && strcmp(seen[0].text, "a1\na2\na3\n") == 0 && strcmp(seen[1].text, "b1\nb2\nb3\n") == 0,
	      "two commands run in one poll loop of the caller");
	check(rounds < 200, "which wakes up only when there is something (%d times)", rounds);
	check(!seen[0].elsewhere && !seen[1].elsewhere, "output is handed over in the caller's thread");
	const struct cordon_result *r0 = cordon_exec_result(e[0]), *r1 = cordon_exec_result(e[1]);
	check(r0 && r0->exit_code == 0 && r0->stdout_len == 9 && r1 && r1->exit_code == 5, "and each has its own result");
	check(r1 && r1->stdout_len == 0, "CORDON_EXEC_DISCARD keeps no output");
	char *json = r1 ? cordon_result_json(r1) : NULL;
	check(json && json[0] == '{' && strstr(json, "\"exit_code\":5"), "a result can be had as JSON");
	free(json);
	cordon_exec_free(e[0]);
	cordon_exec_free(e[1]);
}

static void feed(struct cordon_sandbox *s)
{
	enum { BLOCK = 1 << 20 };
	static char block[BLOCK];
	/* it reads nothing until it is told to, by when the pipe has been full */
	struct cordon_exec *e = start(s, "until test -e /tmp/go; do sleep 0.01; done; wc -c", NULL,
	                              (struct cordon_exec_options){.flags = CORDON_EXEC_STDIN}, NULL);
	size_t sent = 0;
	bool good = e != NULL, blocked = false;

	while (good && sent < sizeof(block)) {
		ssize_t n = cordon_exec_write(e, block + sent, sizeof(block) - sent);
		struct pollfd p = {.fd = cordon_exec_stdin_fd(e), .events = POLLOUT};

		if (n == 0 && !blocked) {
			struct cordon_exec *go = start(s, "touch /tmp/go", NULL, (struct cordon_exec_options){0}, NULL);
			check(go && cordon_exec_wait(go, NULL) == 0, "another command runs beside one whose input is full");
			cordon_exec_free(go);
		}
		good = n >= 0 && (n > 0 || poll(&p, 1, 20000) == 1);
		blocked = blocked || n == 0;
		sent += n > 0 ? (size_t)n : 0;
	}
	if (e)
		cordon_exec_close_stdin(e);
	check(good && cordon_exec_wait(e, NULL) == 0 && atoll(cordon_exec_result(e)->stdout_data) == BLOCK,
	      "1 MB is fed through cordon_exec_write()");
	check(blocked, "which never blocks");
	cordon_exec_free(e);
	e = start(s, "exec 0<&-; sleep 0.05", NULL, (struct cordon_exec_options){.flags = CORDON_EXEC_STDIN}, NULL);
	ssize_t n = 0;
	while (e && (n = cordon_exec_write(e, block, sizeof(block))) >= 0)
		cordon_exec_step(e, NULL);
	check(n == -1, "writing to a command that no longer reads is an error and no SIGPIPE");
	cordon_exec_free(e);
}

/* ---- errors ------------------------------------------------------------------------------------------------------------------ */

static void errors(struct cordon *c, struct cordon_policy *p, struct cordon_sandbox *s)
{
	struct cordon_error err = {0};
	struct cordon_exec *e = NULL;
	struct cordon_sandbox *other = NULL;
	const char *const missing[] = {"no-such-program", NULL}, *const directory[] = {"/usr", NULL}, *const fine[] = {"true", NULL};

	int r = cordon_exec_start(s, &(struct cordon_exec_options){.size = sizeof(struct cordon_exec_options), .argv = missing}, &e, &err);
	check(r == -1 && err.code == CORDON_ERR_NOT_FOUND && strstr(err.message, "no-such-program"),
	      "a program that does not exist is CORDON_ERR_NOT_FOUND");
	r = cordon_exec_start(s, &(struct cordon_exec_options){.size = sizeof(struct cordon_exec_options), .argv = directory}, &e, &err);
	check(r == -1 && err.code == CORDON_ERR_NOT_RUNNABLE, "a directory is CORDON_ERR_NOT_RUNNABLE");
	r = cordon_exec_start(s, &(struct cordon_exec_options){.size = 1, .argv = fine}, &e, &err);
	check(r == -1 && err.code == CORDON_ERR_INPUT, "options of another version are CORDON_ERR_INPUT");
	r = cordon_exec_start(s, &(struct cordon_exec_options){.size = sizeof(struct cordon_exec_options)}, &e, NULL);
	check(r == -1, "no command is an error, also without a place for it");
	r = cordon_sandbox_create(
		c, p, &(struct cordon_sandbox_options){.size = sizeof(struct cordon_sandbox_options), .workspace = "/etc"}, &other, &err);
	check(r == -1 && err.code == CORDON_ERR_DENIED, "a forbidden workspace is CORDON_ERR_DENIED");
	r = cordon_sandbox_create(c, p, &(struct cordon_sandbox_options){.size = sizeof(struct cordon_sandbox_options), .backend = "none"},
	                          &other, &err);
	check(r == -1 && err.code == CORDON_ERR_INPUT, "an unknown backend is CORDON_ERR_INPUT");
	check(cordon_policy_set(p, "limits.memry", "1G", &err) == -1 && err.code == CORDON_ERR_INPUT && strstr(err.hint, "limits.memory"),
	      "an unknown policy key is CORDON_ERR_INPUT, with the nearest one");
	check(runs(s, "echo fine", NULL, 0, "fine\n"), "after all these errors the sandbox works");
}

static void lazy(struct cordon *c, struct cordon_policy *p)
{
	struct cordon_sandbox_options o = {.size = sizeof(o), .flags = CORDON_SANDBOX_LAZY};
	struct cordon_sandbox *s = NULL;
	struct cordon_error err = {0};

	int r = cordon_sandbox_create(c, p, &o, &s, &err);
	check(r == 0 && runs(s, "echo lazy", NULL, 0, "lazy\n"), "a lazy sandbox is there when its first command starts");
	cordon_sandbox_destroy(s);
	o.workspace = "/etc";
	s = NULL;
	r = cordon_sandbox_create(c, p, &o, &s, &err);
	struct cordon_exec *e = r == 0 ? start(s, "echo", NULL, (struct cordon_exec_options){0}, &err) : NULL;
	check(!e && err.code == CORDON_ERR_DENIED, "what its set-up finds is reported by then (%s)", err.message);
	cordon_sandbox_destroy(s);
}

/* The only child that a context has. */
static pid_t launcher_of(void)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "re");
	if (f) {
		if (!fgets(text, sizeof(text), f))
			text[0] = '\0';
		fclose(f);
	}
	return (pid_t)(int)strtol(text, NULL, 10);
}

static void lost_launcher(void)
{
	struct cordon_policy *p = cordon_policy_new();
	struct cordon_error err = {0};
	struct cordon *c = NULL;
	struct cordon_sandbox *other = NULL;

	if (cordon_open(&c, &err) < 0)
		exit(1);
	struct cordon_sandbox *s = sandbox_or_die(c, p);
	struct cordon_exec *e = start_stubborn(s);
	pid_t launcher = launcher_of();
	if (launcher > 0)
		kill(launcher, SIGKILL);
	check(launcher > 0, "a context has one child, the launcher");
	int r = cordon_exec_wait(e, &err);
	check(r == -1 || strcmp(cordon_exec_result(e)->state, "failed") == 0, "when the launcher is killed its commands end, and fail");
	check(cordon_sandbox_create(c, p, NULL, &other, &err) == -1 && err.code == CORDON_ERR_SYSTEM, "and a new sandbox is an error (%s)",
	      err.message);
	cordon_exec_free(e);
	cordon_sandbox_destroy(s);
	cordon_close(c);
	cordon_policy_free(p);
}

static int contract(void)
{
	struct cordon_policy *p = cordon_policy_new();
	struct cordon_error err = {0};
	struct cordon *c = NULL;
	struct sigaction before[3], after[3];
	static const int watched[] = {SIGCHLD, SIGPIPE, SIGALRM};
	int descriptors = open_descriptors();

	for (int i = 0; i < 3; i++)
		sigaction(watched[i], NULL, &before[i]);
	check(cordon_backend_available("process", &err) == 1, "the process backend is available");
	if (!p || cordon_open(&c, &err) < 0) {
		check(false, "a context can be opened: %s", err.message);
		return 1;
	}
	threads(c, p, own_sandbox, NULL, "several threads make and use sandboxes of their own at once");
	struct cordon_sandbox *a = sandbox_or_die(c, p), *b = sandbox_or_die(c, p);
	check(strlen(cordon_sandbox_id(a)) == 20 && strcmp(cordon_sandbox_id(a), cordon_sandbox_id(b)) != 0, "each sandbox has an id");
	check(runs(a, "echo of-a >/app/f; echo of-a >/tmp/f", NULL, 0, "") && runs(a, "cat /app/f /tmp/f", NULL, 0, "of-a\nof-a\n"),
	      "a sandbox keeps its files from one command to the next");
	check(runs(b, "ls /app /tmp", NULL, 0, "/app:\n\n/tmp:\n"), "and another one sees none of them");
	threads(c, p, same_sandbox, a, "several threads use one sandbox at once");
	signal_from_another_thread(a);
	own_poll_loop(a, b);
	feed(a);
	cancel(a);
	free_while_running(b);
	errors(c, p, a);
	lazy(c, p);
	destroy_while_running(c, p);
	cordon_policy_free(p);
	check(runs(a, "echo fine", NULL, 0, "fine\n"), "a policy may be freed while its sandboxes live");
	cordon_sandbox_destroy(a);
	cordon_sandbox_destroy(b);
	cordon_close(c);
	bool same = true;
	for (int i = 0; i < 3; i++) {
		sigaction(watched[i], NULL, &after[i]);
		same = same && before[i].sa_handler == after[i].sa_handler && before[i].sa_flags == after[i].sa_flags;
	}
	check(same, "signal handlers of the caller are left alone");
	check(open_descriptors() == descriptors, "every descriptor is closed at the end (%d, %d before)", open_descriptors(), descriptors);
	lost_launcher();
	return failures ? 1 : 0;
}

/* ---- the storm --------------------------------------------------------------------------------------------------------------- */

struct storm {
	struct cordon *ctx;
	struct cordon_policy *policy;
	atomic_int left, done, failed;
};

static void *storm_thread(void *data)
{
	struct storm *storm = data;

	while (atomic_fetch_sub(&storm->left, 1) > 0) {
		struct cordon_error err = {0};
		struct cordon_sandbox *s = NULL;

		if (cordon_sandbox_create(storm->ctx, storm->policy, NULL, &s, &err) == 0 &&
		    runs(s, "echo x >/app/f; cat /app/f", NULL, 0, "x\n")) {
			atomic_fetch_add(&storm->done, 1);
		} else {
			atomic_fetch_add(&storm->failed, 1);
			fprintf(stderr, "storm: %s\n", err.message);
		}
		cordon_sandbox_destroy(s);
	}
	return NULL;
}

static int storm(int count, int parallel)
{
	struct storm storm = {.policy = cordon_policy_new(), .left = count};
	struct cordon_error err = {0};
	pthread_t t[256];

	if (parallel < 1 || parallel > 256 || cordon_open(&storm.ctx, &err) < 0) {
		fprintf(stderr, "storm: %s\n", err.message);
		return 1;
	}
	for (int i = 0; i < parallel; i++)
		pthread_create(&t[i], NULL, storm_thread, &storm);
	for (int i = 0; i < parallel; i++)
		pthread_join(t[i], NULL);
	cordon_close(storm.ctx);
	cordon_policy_free(storm.policy);
	printf("%d done, %d failed\n", storm.done, storm.failed);
	return storm.failed || storm.done != count;
}

int main(int argc, char **argv)
{
	alarm(DEADLINE);
	if (argc == 2 && strcmp(argv[1], "contract") == 0)
		return contract();
	if (argc == 4 && strcmp(argv[1], "storm") == 0)
		return storm((int)strtol(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10));
	fprintf(stderr, "usage: many contract | many storm COUNT PARALLEL\n");
	return 2;
}
