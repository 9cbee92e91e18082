/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of parked sandboxes, from outside and where that does not tell from inside (lib/pool.h).
 *
 *   parked DIR      DIR: an empty directory for workspaces; prints "ok - …" and "not ok - …" lines
 *   parked leave    parks some, says so, and waits to be killed
 *   parked IMAGE COMMAND    parks one on an image and tells what its /version says; the same once more after COMMAND
 *
 * Nothing here waits for ever: an alarm ends the program.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "base/util.h"
#include "lib/pool_parts.h"
#include "lib/zygote.h"

enum { DEADLINE = 120, THREADS = 24 };

static struct cordon *ctx;

static struct cordon_pool_info info(void)
{
	struct cordon_pool_info i = {.size = sizeof(i)};
	cordon_pool_info(ctx, &i, NULL);
	return i;
}

static bool warm(const struct cordon_policy *p, const struct cordon_sandbox_options *o, unsigned count)
{
	struct cordon_error err = {0};
	if (cordon_warm(ctx, p, o, NULL, count, &err) == 0)
		return true;
	printf("# %s\n", err.message);
	return false;
}

static struct cordon_sandbox *create(const struct cordon_policy *p, const struct cordon_sandbox_options *o)
{
	struct cordon_error err = {0};
	struct cordon_sandbox *s = NULL;
	if (cordon_sandbox_create(ctx, p, o, &s, &err) < 0)
		give_up("a sandbox can be made: %s", err.message);
	return s;
}

/* How many requests found a parked one while f ran, less those that did not. */
static int64_t balance(const struct cordon_pool_info *before)
{
	const struct cordon_pool_info now = info();
	return (int64_t)(now.hits - before->hits) - (int64_t)(now.misses - before->misses);
}

static bool takes(const struct cordon_policy *p, const struct cordon_sandbox_options *o)
{
	const struct cordon_pool_info before = info();
	cordon_sandbox_destroy(create(p, o));
	return balance(&before) == 1;
}

/* ---- what is parked, and used ------------------------------------------------------------------------------------------------- */

static void check_use(const struct cordon_policy *p)
{
	struct cordon_sandbox *s[3];
	check(warm(p, NULL, 3), "three sandboxes are parked");
	check(info().parked >= 3, "and counted");
	check(info().bytes > 0, "their memory is known");
	const struct cordon_pool_info before = info();
	for (int i = 0; i < 3; i++)
		s[i] = create(p, NULL);
	check(balance(&before) == 3, "three requests take them");
	check(strcmp(cordon_sandbox_id(s[0]), cordon_sandbox_id(s[1])) != 0, "each has an id of its own");
	check(prints(s[0], "echo mine >/tmp/x; echo mine >/app/x; cat /tmp/x /app/x", "mine\nmine\n"), "the first can be written to");
	check(prints(s[1], "ls -A /tmp /app /dev/shm", "/app:\n\n/dev/shm:\n\n/tmp:\n"), "and the second is empty");
	check(prints(s[2], "for p in /proc/[0-9]*; do read c <$p/comm; echo $c; done", "cordon-init\nsh\n"),
	      "nobody else is to be seen inside");
	check(prints(s[1], "cat /app/y 2>/dev/null; echo $?", "1\n"), "a second command works");
	for (int i = 0; i < 3; i++)
		cordon_sandbox_destroy(s[i]);
	warm(p, NULL, 2);
	struct cordon_sandbox *t = create(p, NULL);
	check(prints(t, "ls -A /tmp /app", "/app:\n\n/tmp:\n"), "what was used is not used again");
	cordon_sandbox_destroy(t);
}

static void check_kinds(struct cordon_policy *p)
{
	struct cordon_policy *other = cordon_policy_new();
	const struct cordon_sandbox_options named = {.size = sizeof(named), .hostname = "other"};
	const struct cordon_file file = {.guest = "/tmp/f", .data = "x", .len = 1};
	const struct cordon_sandbox_options with_file = {.size = sizeof(with_file), .files = &file, .file_count = 1};
	struct cordon_error err = {0};
	cordon_policy_set(other, "limits.memory", "64M", NULL);
	warm(p, NULL, 1);
	check(!takes(other, NULL), "another policy takes none of them");
	warm(p, NULL, 1);
	check(!takes(p, &named), "another host name neither");
	warm(p, NULL, 1);
	check(takes(p, NULL), "the same one does");
	const struct cordon_pool_info before = info();
	cordon_sandbox_destroy(create(p, &with_file));
	check(balance(&before) == 0, "a sandbox with files of its own is no affair of the pool");
	check(cordon_warm(ctx, p, &with_file, NULL, 1, &err) < 0 && strstr(err.message, "parked"), "and cannot be parked");
	check(cordon_warm(ctx, p, NULL, NULL, 100000, &err) < 0 && strstr(err.message, "at most"),
	      "there is a limit to what can be asked for");
	cordon_policy_set(other, "env.set", "A=b", NULL);
	warm(other, NULL, 1);
	struct cordon_sandbox *s = create(other, NULL);
	check(prints(s, "echo $A", "b\n"), "a parked one has its policy's environment");
	cordon_sandbox_destroy(s);
	cordon_warm(ctx, other, NULL, NULL, 0, NULL);
	cordon_policy_free(other);
}

/* ---- what may happen to them -------------------------------------------------------------------------------------------------- */

/* Kills the inits of all sandboxes that our launcher has. */
static int kill_inits(void)
{
	int count = 0;
	DIR *proc = opendir("/proc");
	struct dirent *e;
	while (proc && (e = readdir(proc))) {
		char path[300], comm[64];
		int parent;
		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		const bool ours =
			fscanf(f, "%*d (%63[^)]) %*c %d", comm, &parent) == 2 && parent == ctx->launcher && !strcmp(comm, "cordon-init");
		fclose(f);
		const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (!ours || kill(pid, SIGKILL) < 0)
			continue;
		while (kill(pid, 0) == 0) /* until the launcher has seen it */
			usleep(1000);
		count++;
	}
	if (proc)
		closedir(proc);
	return count;
}

static void check_deaths(const struct cordon_policy *p)
{
	warm(p, NULL, 3);
	const struct cordon_pool_info before = info();
	const int killed = kill_inits();
	check(killed >= 3, "the inits of the parked ones are killed (%d)", killed);
	struct cordon_sandbox *s = create(p, NULL);
	check(prints(s, "echo alive", "alive\n"), "the next request is served all the same");
	cordon_sandbox_destroy(s);
	check(info().discarded > before.discarded, "the dead were thrown away");
	check(warm(p, NULL, 3), "and others take their place");
	check(takes(p, NULL), "which live");
}

static void check_workspace(const struct cordon_policy *p, const char *dir)
{
	char work[4096], old[4096], file[4200];
	snprintf(work, sizeof(work), "%s/work", dir);
	snprintf(old, sizeof(old), "%s/old", dir);
	snprintf(file, sizeof(file), "%s/f", work);
	const struct cordon_sandbox_options o = {.size = sizeof(o), .workspace = work};
	mkdir(work, 0755);
	FILE *f = fopen(file, "we");
	if (!f || fputs("one", f) < 0 || fclose(f))
		give_up("a workspace can be written");
	check(warm(p, &o, 2), "sandboxes with a workspace are parked");
	struct cordon_sandbox *s = create(p, &o);
	check(prints(s, "cat f; echo two >f; cat f", "onetwo\n"), "the workspace is there, and can be written to inside");
	struct ended e = run_line(s, "touch new; rm f");
	check(strstr(e.changes, "add new") != NULL, "its changes are told (%s)", e.changes);
	cordon_sandbox_destroy(s);
	check(access(file, F_OK) == 0, "the host's file is as it was");
	warm(p, &o, 1);
	if (rename(work, old) < 0 || mkdir(work, 0755) < 0)
		give_up("the workspace can be replaced");
	s = create(p, &o);
	check(prints(s, "ls", ""), "another directory of that name is what is shown, not the one that was parked");
	cordon_sandbox_destroy(s);
	cordon_warm(ctx, p, &o, NULL, 0, NULL);
}

static void write_pressure(const char *path, const char *percent)
{
	char next[4200];
	snprintf(next, sizeof(next), "%s.next", path);
	FILE *f = fopen(next, "we");
	if (!f || fprintf(f, "some avg10=%s avg60=0.00 avg300=0.00 total=1\n", percent) < 0 || fclose(f) || rename(next, path) < 0)
		give_up("%s can be written", path);
	pool_look(ctx->pool);
}

static bool parked_becomes(unsigned least, unsigned most)
{
	for (int i = 0; i < 10000; i++) {
		const unsigned n = info().parked;
		if (n >= least && n <= most)
			return true;
		usleep(1000);
	}
	return false;
}

static void check_bounds(const struct cordon_policy *p, const char *dir)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/pressure", dir);
	write_pressure(path, "0.00");
	pool_set_pressure(ctx->pool, path);
	check(warm(p, NULL, 4), "four are parked while there is memory");
	write_pressure(path, "37.50");
	check(parked_becomes(0, 0), "when the machine is short of it none is");
	struct cordon_sandbox *s = create(p, NULL);
	check(prints(s, "echo cold", "cold\n"), "requests are served nevertheless");
	cordon_sandbox_destroy(s);
	struct cordon_error err = {0};
	check(cordon_warm(ctx, p, NULL, NULL, 4, &err) < 0 && strstr(err.message, "short of memory"), "asking for more then is an error");
	write_pressure(path, "0.00");
	check(parked_becomes(4, 64), "later they come back");
	cordon_pool_limit(ctx, 2, UINT64_MAX);
	check(parked_becomes(0, 2), "a lower limit holds for those that are there");
	cordon_pool_limit(ctx, 64, 1);
	check(parked_becomes(0, 0), "so does one of memory");
	check(cordon_warm(ctx, p, NULL, NULL, 4, &err) < 0 && strstr(err.message, "full"),
	      "waiting for what has no room is an error, not for ever");
	cordon_pool_limit(ctx, 0, 0);
	check(!takes(p, NULL), "and a pool of none serves none");
	cordon_pool_limit(ctx, 64, (uint64_t)1 << 30);
	check(parked_becomes(4, 64), "until it may again");
}

static void check_pressure_file(const char *dir)
{
	static const struct {
		const char *text;
		double want;
	} table[] = {{"some avg10=12.25 avg60=0.00 avg300=0.00 total=5\nfull avg10=90.00", 12.25},
	             {"", 0},
	             {"nonsense", 0},
	             {"some avg10=x", 0}};
	char path[4096];
	snprintf(path, sizeof(path), "%s/psi", dir);
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		FILE *f = fopen(path, "we");
		if (!f || fputs(table[i].text, f) < 0 || fclose(f))
			give_up("%s can be written", path);
		check(pool_pressure(path) == table[i].want, "pressure of \"%.20s\"", table[i].text);
	}
	check(pool_pressure("/nonexistent") == 0, "a kernel that does not tell has none");
}

/* ---- many at once -------------------------------------------------------------------------------------------------------------- */

static atomic_int good;
static unsigned most_makers;

/* Of our launcher's children; those that watch or remove are none. */
static unsigned count_inits(void)
{
	char path[64], name[32];
	unsigned n = 0;
	int pid;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)ctx->launcher, (int)ctx->launcher);
	FILE *f = fopen(path, "r");
	while (f && fscanf(f, "%d", &pid) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		FILE *comm = fopen(path, "r");
		n += comm && fgets(name, sizeof(name), comm) && strcmp(name, "cordon-init\n") == 0;
		if (comm)
			fclose(comm);
	}
	if (f)
		fclose(f);
	return n;
}

static bool inits_become_parked(void)
{
	for (int i = 0; i < 1000; i++) {
		const unsigned before = info().parked, inits = count_inits();
		if (inits == before && info().parked == before)
			return true;
		poll(NULL, 0, 10);
	}
	printf("# %u live, %u are parked\n", count_inits(), info().parked);
	return false;
}

static void *one_of_many(void *arg)
{
	const struct cordon_policy *p = arg;
	for (int i = 0; i < 2; i++) {
		struct cordon_error err = {0};
		struct cordon_sandbox *s = NULL;
		if (cordon_sandbox_create(ctx, p, NULL, &s, &err) < 0) {
			printf("# %s\n", err.message);
			continue;
		}
		pthread_mutex_lock(&ctx->pool->lock);
		most_makers = MAX(most_makers, ctx->pool->makers);
		pthread_mutex_unlock(&ctx->pool->lock);
		good += prints(s, "echo hello", "hello\n");
		cordon_sandbox_destroy(s);
	}
	return NULL;
}

static void check_burst(struct cordon_policy *p)
{
	pthread_t threads[THREADS];
	warm(p, NULL, 4);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, one_of_many, p))
			give_up("threads can be started");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	check(good == 2 * THREADS, "a burst beyond what is parked is served without an error (%d of %d)", good, 2 * THREADS);
	check(most_makers > 0 && most_makers <= ctx->pool->makers_max,
	      "of those that found none no more were made at a time than there are turns (%u of %u)", most_makers, ctx->pool->makers_max);
	check(ctx->pool->makers == 0 && ctx->pool->in_line == 0 && ctx->pool->turns == 0, "and every turn was given back");
	check(inits_become_parked(), "what was given back in the rush is ended: as many live as are parked");
	cordon_pool_limit(ctx, 0, 0);
	check(parked_becomes(0, 0), "a pool that may hold none is empty");
	pthread_mutex_lock(&ctx->pool->lock);
	for (unsigned i = 0; i < ctx->pool->kind_count; i++) /* as after a minute in which nobody has asked */
		ctx->pool->kinds[i]->least = ctx->pool->kinds[i]->target = 0;
	pthread_mutex_unlock(&ctx->pool->lock);
	pool_look(ctx->pool);
	usleep(POOL_CALM_MS * 2000); /* or it belongs to the rush before */
	struct cordon_sandbox *s = create(p, NULL);
	const bool worked = prints(s, "echo last", "last\n");
	cordon_sandbox_destroy(s);
	check(worked && inits_become_parked(), "and what is given back then is ended, too, though the pool has nothing else to do");
	cordon_pool_limit(ctx, 64, (uint64_t)1 << 30);
}

/* In a context of its own: nothing else is parked there. */
static void check_rate(void)
{
	struct cordon *other = ctx;
	struct cordon_policy *p = cordon_policy_new();
	if (cordon_open(&ctx, NULL) < 0)
		give_up("another context can be opened");
	check(!takes(p, NULL), "the first request of a kind finds nothing");
	pool_look(ctx->pool);
	check(info().parked == 0, "and nothing is parked for it alone");
	check(!takes(p, NULL), "nor does the second");
	check(parked_becomes(1, 64), "but now there are two");
	check(takes(p, NULL), "and the third finds one parked");
	cordon_policy_free(p);
	cordon_close(ctx);
	ctx = other;
}

static _Noreturn void leave(const struct cordon_policy *p)
{
	if (!warm(p, NULL, 3))
		exit(1);
	puts("parked");
	fflush(stdout);
	for (;;)
		pause();
}

static void show_version(const struct cordon_policy *p, const char *image)
{
	const struct cordon_sandbox_options o = {.size = sizeof(o), .image = image};
	struct cordon_error err = {0};
	struct cordon_sandbox *s = NULL;
	const struct cordon_pool_info before = info();
	if (cordon_sandbox_create(ctx, p, &o, &s, &err) < 0) {
		printf("%s\n", err.message);
		return;
	}
	const struct ended e = run_line(s, "cat /version");
	printf("%s%s", info().hits > before.hits ? "parked " : "made ", e.out);
	cordon_sandbox_destroy(s);
}

static bool succeeds(const char *command)
{
	int status = -1;
	const pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void check_image(const struct cordon_policy *p, const char *image, const char *command)
{
	const struct cordon_sandbox_options o = {.size = sizeof(o), .image = image};
	if (!warm(p, &o, 2))
		give_up("two are parked");
	show_version(p, image);
	fflush(stdout);
	if (!succeeds(command))
		give_up("%s", command);
	show_version(p, image);
}

/* What lies in a workspace would run when an interpreter starts. */
static void check_no_interpreter(const struct cordon_policy *p, const char *dir)
{
	const struct cordon_sandbox_options o = {.size = sizeof(o), .workspace = dir};
	struct cordon_error err = {0};
	check(cordon_warm(ctx, p, &o, "python", 1, &err) < 0 && err.code == CORDON_ERR_INPUT, "no interpreter waits over a workspace: %s",
	      err.message);
	const struct cordon_exec_options code = {.size = sizeof(code), .language = "python", .code = "pass", .code_len = 4};
	for (int i = 0; i < 2; i++) {
		struct cordon_exec *e = NULL;
		check(warm(p, &o, 1), "one is parked");
		struct cordon_sandbox *s = create(p, &o);
		check(zygote_look(s, NULL) == ZYGOTE_NONE, "and nobody waits in it");
		check(cordon_exec_start(s, &code, &e, &err) == 0 && cordon_exec_wait(e, &err) == 0, "code runs all the same");
		cordon_exec_free(e);
		cordon_sandbox_destroy(s);
	}
}

int main(int argc, char **argv)
{
	struct cordon_error err = {0};
	alarm(DEADLINE);
	if (argc < 2 || cordon_open(&ctx, &err) < 0)
		give_up("a context can be opened: %s", err.message);
	struct cordon_policy *p = cordon_policy_new();
	if (argc == 3) {
		check_image(p, argv[1], argv[2]);
		cordon_policy_free(p);
		cordon_close(ctx);
		return 0;
	}
	if (strcmp(argv[1], "leave") == 0)
		leave(p);
	check_use(p);
	check_kinds(p);
	check_deaths(p);
	check_workspace(p, argv[1]);
	check_no_interpreter(p, argv[1]);
	check_pressure_file(argv[1]);
	check_bounds(p, argv[1]);
	check_rate();
	check_burst(p);
	cordon_policy_free(p);
	cordon_close(ctx);
	puts("ok - the program came to its end");
	return failures ? 1 : 0;
}
