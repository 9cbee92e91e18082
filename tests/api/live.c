/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes that stay, as an embedder uses them: what include/cordon.h and docs/design/layers.md promise.
 *
 *   live DIR          runs all checks with a workspace below DIR, an empty directory; prints "ok - …" and "not ok - …" lines
 *   live victim ID    runs a command in that sandbox that changes it and never ends; "live DIR" starts this to kill it
 *
 * What is on disk is read as anybody can read it, under $CORDON_HOME. Exit status 0 if nothing failed. An alarm ends the program.
 */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEADLINE = 240, DEPTH = 100 };

static const char *const rollback[] = {"transaction.exit=rollback", NULL};

/* ---- the disk ---------------------------------------------------------------------------------------------------------------- */

static const char *store(void)
{
	const char *home = getenv("CORDON_HOME");
	if (!home)
		give_up("CORDON_HOME is set");
	return home;
}

static bool file_has_line(const char *path, const char *line)
{
	char text[512];
	bool found = false;
	FILE *f = fopen(path, "re");

	while (f && !found && fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\n")] = '\0';
		found = !line || strcmp(text, line) == 0;
	}
	if (f)
		fclose(f);
	return found;
}

int count_layers(const char *line)
{
	char path[4096];
	int n = 0;

	snprintf(path, sizeof(path), "%s/layers", store());
	DIR *dir = opendir(path);
	for (struct dirent *d; dir && (d = readdir(dir));) {
		snprintf(path, sizeof(path), "%s/layers/%s/layer", store(), d->d_name);
		n += d->d_name[0] != '.' && file_has_line(path, line);
	}
	if (dir)
		closedir(dir);
	return n;
}

static bool a_flat_layer_exists(void)
{
	char path[4096];
	bool found = false;

	snprintf(path, sizeof(path), "%s/layers", store());
	DIR *dir = opendir(path);
	for (struct dirent *d; dir && !found && (d = readdir(dir));) {
		snprintf(path, sizeof(path), "%s/layers/%s/flat/app", store(), d->d_name);
		found = access(path, F_OK) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		give_up("%s can be written: %s", path, strerror(errno));
}

static const char *make_seed(const char *dir)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/seed", dir);
	char *seed = strdup(path);
	if (!seed || mkdir(path, 0755) < 0)
		give_up("%s can be made: %s", path, strerror(errno));
	snprintf(path, sizeof(path), "%s/seed/dir", dir);
	mkdir(path, 0755);
	write_file(seed, "file", "seed\n");
	write_file(seed, "other", "other\n");
	write_file(seed, "dir/in", "in\n");
	char twin[4096];
	snprintf(path, sizeof(path), "%s/dir/in", seed);
	snprintf(twin, sizeof(twin), "%s/dir/twin", seed);
	if (link(path, twin) < 0)
		give_up("%s can be made: %s", twin, strerror(errno));
	return seed;
}

static bool host_unchanged(const struct scene *t)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s/file", t->seed);
	bool good = file_has_line(path, "seed") && stat(path, &st) == 0 && st.st_size == 5;
	snprintf(path, sizeof(path), "%s/new", t->seed);
	return good && access(path, F_OK) < 0;
}

/* ---- one exec ---------------------------------------------------------------------------------------------------------------- */

static void test_execs(const struct scene *t)
{
	char id[21];

	make_box(t->seed, rollback, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	check(strcmp(cordon_sandbox_id(s), id) == 0, "a sandbox is opened by its id, and has it");
	int layers = count_layers(NULL);
	struct ended d = run_line(s, "cat file dir/in");
	check(ended_so(&d, 0, "none") && strcmp(d.out, "seed\nin\n") == 0, "an exec sees the seed");
	check(count_layers(NULL) == layers && d.before[0] == '\0' && d.after[0] == '\0', "one that changes nothing leaves no layer");

	d = run_line(s, "echo one >new; echo changed >file; rm other; chmod 600 dir/in");
	/* overlayfs splits the names of a file that is changed, a copy does not */
	const char *forced = getenv("CORDON_LAYERS");
	const char *want = forced && strcmp(forced, "copy") == 0 ? "mode dir/in, mode dir/twin, modify file, add new, delete other"
	                                                         : "mode dir/in, modify file, add new, delete other";
	check(ended_so(&d, 0, "committed") && strcmp(d.changes, want) == 0, "one that succeeds is kept, and its changes are listed (%s)",
	      d.changes);
	check(strlen(d.after) == 20 && strcmp(d.before, d.after) != 0 && count_layers("kind exec") == 1, "as one layer");
	check(prints(s, "cat new file; ls", "one\nchanged\ndir\nfile\nnew\n"), "which the next one sees");
	check(host_unchanged(t), "the host's directory is as it was");

	struct ended f = run_line(s, "echo two >new; rm file; mkdir made; exit 3");
	check(ended_so(&f, 3, "rolled_back") && strcmp(f.changes, "delete file, add made, modify new") == 0,
	      "one that fails is rolled back, and what it did is listed (%s)", f.changes);
	check(strcmp(f.before, d.after) == 0 && strcmp(f.after, d.after) == 0, "the head stays where it was");
	check(prints(s, "cat new file; ls", "one\nchanged\ndir\nfile\nnew\n"), "the next one sees what was there before");
	check(count_layers("kind failed") == 1 && count_layers("exit 3") == 1, "what it did is kept beside the tree, as failed");
	d = run_line(s, "exit 3");
	check(ended_so(&d, 3, "none") && count_layers("kind failed") == 1, "one that fails without a change leaves nothing");
	d = run_line(s, "echo gone >short; rm short");
	check(ended_so(&d, 0, "committed") ? d.changes[0] == '\0' : strcmp(d.outcome, "none") == 0, "one that undoes its changes has none");
	cordon_sandbox_destroy(s);
	check(cordon_remove(id, NULL) == 0 && count_layers(NULL) == layers, "when a sandbox is removed so are its layers");
}

/* ---- failures of all kinds --------------------------------------------------------------------------------------------------- */

static struct ended run_until_ready(struct cordon_sandbox *s, const char *line, int (*then)(struct cordon_exec *),
                                    struct cordon_exec_options more);

static int terminate(struct cordon_exec *e)
{
	return cordon_exec_signal(e, SIGTERM, NULL);
}

static int cancel(struct cordon_exec *e)
{
	return cordon_exec_cancel(e, NULL);
}

static void note_ready(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	(void)stream, (void)data;
	*(bool *)user = len > 0;
}

/* Runs a line until it has printed something, then does `then` to it. */
static struct ended run_until_ready(struct cordon_sandbox *s, const char *line, int (*then)(struct cordon_exec *),
                                    struct cordon_exec_options more)
{
	bool ready = false;

	more.on_output = note_ready;
	more.user = &ready;
	struct cordon_exec *e = start_line(s, line, more, NULL);
	while (e && !ready && cordon_exec_step(e, NULL) == 1)
		;
	if (e && then)
		then(e);
	return end_exec(e);
}

static const char *const endless = "echo two >new; rm -f file; echo ready; while :; do sleep 1000; done";

static void test_aborts(const struct scene *t)
{
	static const char *const keep_aborted[] = {"transaction.abort=keep", NULL};
	char id[21];

	make_box(t->seed, NULL, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct ended d = run_line(s, "echo kept >failed; exit 7");
	check(ended_so(&d, 7, "kept") && prints(s, "cat failed", "kept\n"),
	      "with transaction.exit keep, the default here, a failed exec is kept");
	d = run_until_ready(s, endless, terminate, (struct cordon_exec_options){0});
	check(ended_so(&d, 128 + SIGTERM, "rolled_back") && strcmp(d.reason, "signal") == 0,
	      "one that is killed by a signal is rolled back");
	check(prints(s, "cat file; ls new 2>&- || echo none", "seed\nnone\n"), "with everything it did");
	d = run_until_ready(s, endless, cancel, (struct cordon_exec_options){0});
	check(strcmp(d.reason, "cancelled") == 0 && strcmp(d.outcome, "rolled_back") == 0, "and so is one that is cancelled");
	d = run_until_ready(s, endless, NULL, (struct cordon_exec_options){.timeout_ms = 300});
	check(ended_so(&d, 124, "rolled_back") && strcmp(d.reason, "timeout") == 0, "and one whose time is over");
	check(prints(s, "cat file; ls new 2>&- || echo none", "seed\nnone\n"), "with everything they did");
	struct cordon_exec *e = start_line(s, endless, (struct cordon_exec_options){0}, NULL);
	cordon_exec_free(e);
	check(prints(s, "cat file; ls new 2>&- || echo none", "seed\nnone\n"), "one that is freed while it runs leaves nothing");
	d = end_exec(start_line(s, "rm file; exit 1", (struct cordon_exec_options){.on_failure = "rollback"}, NULL));
	check(ended_so(&d, 1, "rolled_back") && prints(s, "cat file", "seed\n"), "an exec may ask for a rollback");
	cordon_sandbox_destroy(s);

	make_box(t->seed, keep_aborted, id);
	s = open_box(t->ctx, id);
	d = run_until_ready(s, endless, terminate, (struct cordon_exec_options){0});
	check(ended_so(&d, 128 + SIGTERM, "kept") && prints(s, "cat new", "two\n"), "with transaction.abort keep, what was killed is kept");
	d = run_until_ready(s, "rm new; echo ready; sleep 1000", terminate, (struct cordon_exec_options){.on_failure = "rollback"});
	check(ended_so(&d, 128 + SIGTERM, "rolled_back") && prints(s, "cat new", "two\n"), "unless the exec itself asks for a rollback");
	cordon_sandbox_destroy(s);
}

/* An ordinary user's cordon has no more rights to these than the command had. */
static void test_unreadable(const struct scene *t)
{
	char id[21];
	struct cordon_error err = {0};

	make_box(t->seed, rollback, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct ended d = run_line(s, "mkdir x; echo 1 >x/f; chmod 0 x file; exit 1");
	check(ended_so(&d, 1, "rolled_back") && prints(s, "cat file; ls", "seed\ndir\nfile\nother\n"),
	      "what its owner cannot read is rolled back, too");
	d = run_line(s, "mkdir x; echo 1 >x/f; chmod 0 x file");
	check(ended_so(&d, 0, "committed") && prints(s, "stat -c %a x file", "0\n0\n"), "and kept");
	d = run_line(s, "chmod 755 x file; cat x/f file");
	check(ended_so(&d, 0, "committed") && strcmp(d.out, "1\nseed\n") == 0, "with all that is in it");
	struct service *v = start_service(s);
	d = run_line(s, "chmod 0 x file; exit 1");
	check(ended_so(&d, 1, "rolled_back"), "beside a service it is rolled back as well (%s)", d.error.message);
	end_service(v);
	check(prints(s, "cat x/f file", "1\nseed\n"), "and there afterwards");
	cordon_sandbox_destroy(s);
	check(cordon_remove(id, &err) == 0, "the sandbox is removed with all this %s", err.message);
}

static void test_settings(const struct scene *t)
{
	static const char *const settings[] = {"transaction.exit=rollback", "transaction.ok=3,4", "transaction.preserve=*.log",
	                                       "transaction.preserve=deep/**/keep", NULL};
	static const unsigned char only_five[32] = {1 << 5};
	char id[21];

	make_box(t->seed, settings, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct ended d = run_line(s, "echo x >three; exit 3");
	check(ended_so(&d, 3, "committed") && prints(s, "cat three", "x\n"), "a status in transaction.ok is no failure");
	d = run_line(s, "echo x >five; exit 5");
	check(ended_so(&d, 5, "rolled_back"), "another one is");
	d = end_exec(start_line(s, "echo x >five; exit 5", (struct cordon_exec_options){.ok = only_five}, NULL));
	check(ended_so(&d, 5, "committed"), "unless the exec itself says so");
	d = run_line(s,
	             "echo l >new.log; mkdir -p deep/er; echo k >deep/er/keep; echo n >deep/er/not; echo n >not; chmod 700 deep; exit 1");
	check(ended_so(&d, 1, "rolled_back"), "what matches transaction.preserve survives a rollback");
	check(prints(s, "find deep new.log not 2>&- | sort | tr '\\n' ' '; cat new.log deep/er/keep",
	             "deep deep/er deep/er/keep new.log l\nk\n"),
	      "with the directories that it needs, and nothing else");
	d = run_line(s, "echo again >>new.log; rm three; exit 1");
	check(ended_so(&d, 1, "rolled_back") && prints(s, "cat new.log three", "l\nagain\nx\n"), "also what was there before");
	cordon_sandbox_destroy(s);
}

/* ---- the tree ---------------------------------------------------------------------------------------------------------------- */

static void test_tree(const struct scene *t)
{
	char id[21], one[21], two[21], forked[21], three[21];
	struct cordon_error err = {0};

	make_box(t->seed, rollback, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	check(cordon_sandbox_snapshot(s, "start", "nothing yet", one, &err) == 0, "a stopped sandbox has snapshots, too %s", err.message);
	run_line(s, "echo 1 >n; rm other");
	check(cordon_sandbox_snapshot(s, "one", NULL, one, &err) == 0 && strlen(one) == 20, "a state gets a name %s", err.message);
	check(cordon_sandbox_snapshot(s, "one", NULL, two, &err) == -1 && err.code == CORDON_ERR_INPUT, "only once (%s)", err.message);
	err = (struct cordon_error){0};
	run_line(s, "echo 2 >n; mkdir left");
	check(cordon_sandbox_snapshot(s, NULL, "no name", two, &err) == 0 && strcmp(one, two) != 0, "and an id without one");
	check(cordon_sandbox_restore(s, "one", &err) == 0 && prints(s, "cat n; ls", "1\ndir\nfile\nn\n"), "it is gone back to by name %s",
	      err.message);
	run_line(s, "echo 3 >n; mkdir right");
	check(cordon_sandbox_snapshot(s, "three", NULL, three, &err) == 0, "and from there another branch is made");
	check(cordon_sandbox_restore(s, two, &err) == 0 && prints(s, "cat n; ls -d left right 2>&-; :", "2\nleft\n"),
	      "the one that was left is still there");
	check(cordon_sandbox_restore(s, "three", &err) == 0 && prints(s, "cat n; ls -d left right 2>&-; :", "3\nright\n"), "and the other");
	check(cordon_sandbox_restore(s, "seed", &err) == 0 && prints(s, "ls; cat other", "dir\nfile\nother\nother\n"), "the seed, too");
	check(cordon_sandbox_restore(s, "start", &err) == 0 && prints(s, "ls", "dir\nfile\nother\n"), "and a snapshot of it");
	check(cordon_sandbox_restore(s, "nine", &err) == -1 && err.code == CORDON_ERR_NOT_FOUND, "an unknown one is an error (%s)",
	      err.message);
	err = (struct cordon_error){0};

	check(cordon_sandbox_fork(s, "three", "forked", forked, &err) == 0, "a snapshot is forked %s", err.message);
	struct cordon_sandbox *f = open_box(t->ctx, "forked");
	check(strcmp(cordon_sandbox_id(f), forked) == 0 && prints(f, "cat n; echo f >n", "3\n"), "the fork starts from it");
	check(cordon_sandbox_restore(s, "three", &err) == 0 && prints(s, "cat n", "3\n"), "and goes its own way");
	cordon_sandbox_destroy(f);
	run_line(s, "echo s >n");
	check(cordon_sandbox_fork(s, NULL, NULL, forked, &err) == 0, "so is the present state");
	cordon_sandbox_destroy(s);
	check(cordon_remove(id, &err) == 0, "when the first one is removed %s", err.message);
	f = open_box(t->ctx, forked);
	check(prints(f, "cat n; ls", "s\ndir\nfile\nn\nright\n"), "its forks live on, with the layers that they need");
	check(cordon_sandbox_restore(f, three, &err) == 0 && prints(f, "cat n", "3\n"), "and go back further than they are old %s",
	      err.message);
	cordon_sandbox_destroy(f);
}

static void test_lifetime(const struct scene *t)
{
	char id[21];
	struct cordon_error err = {0};
	struct cordon_sandbox *again = NULL;

	make_box(NULL, rollback, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct ended d = run_line(s, "echo t >/tmp/t; echo h >~/h; echo a >/app/a");
	check(ended_so(&d, 0, "committed") && strcmp(d.changes, "add a") == 0, "changes in the home are not listed, but kept");
	d = run_line(s, "cat /tmp/t ~/h a; rm ~/h; echo t2 >/tmp/t; exit 1");
	check(ended_so(&d, 1, "rolled_back") && strcmp(d.out, "t\nh\na\n") == 0, "the next exec sees /tmp, home and workspace");
	check(prints(s, "cat /tmp/t ~/h a", "t2\nh\na\n"), "the home is rolled back, /tmp is not");
	d = run_line(s, "rm -rf ~/h");
	check(ended_so(&d, 0, "committed"), "a change of the home alone is one");
	check(cordon_sandbox_open(t->ctx, id, &again, &err) == -1 && err.code == CORDON_ERR_BUSY, "a second open is CORDON_ERR_BUSY (%s)",
	      err.message);
	cordon_sandbox_destroy(s);
	s = open_box(t->ctx, id);
	check(prints(s, "ls -A /tmp ~; cat a", "/home/user:\n\n/tmp:\na\n"), "after it was closed the files are there, /tmp is empty");
	struct cordon_exec *e = start_line(s, "sleep 1000", (struct cordon_exec_options){0}, NULL);
	check(cordon_sandbox_restore(s, "seed", &err) == -1 && err.code == CORDON_ERR_BUSY, "nothing is restored while an exec runs (%s)",
	      err.message);
	check(!start_line(s, "true", (struct cordon_exec_options){0}, &err) && err.code == CORDON_ERR_BUSY, "and no other one starts (%s)",
	      err.message);
	cordon_exec_free(e);
	cordon_sandbox_destroy(s);
}

/* ---- limits ------------------------------------------------------------------------------------------------------------------ */

static void test_disk(const struct scene *t)
{
	static const char *const small[] = {"limits.disk=4M", NULL};
	char id[21];
	struct ended d = {0};
	int n = 0;

	make_box(NULL, small, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	for (; n < 10 && d.status == 0; n++)
		d = run_line(s, "head -c 1500000 /dev/urandom >f");
	check(n == 4 && d.error.code == CORDON_ERR_DENIED && strstr(d.error.message, "disk limit"),
	      "when its layers have reached the disk limit a sandbox runs nothing more (%d, %s)", n, d.error.message);
	cordon_sandbox_destroy(s);
}

static void test_depth(const struct scene *t)
{
	char id[21], layers[DEPTH + 1][24] = {{0}}, line[128], want[64];
	struct cordon_error err = {0};
	static const int depths[] = {1, 50, 100, 64, 65};
	bool good = true;

	make_box(t->seed, NULL, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	for (int i = 1; i <= DEPTH && good; i++) {
		snprintf(line, sizeof(line), "echo %d >n; echo %d >f%d; rm -f f%d; %s", i, i, i, i - 3, i == 30 ? "rm -r dir" : "");
		struct ended d = run_line(s, line);
		memcpy(layers[i], d.after, sizeof(d.after));
		good = ended_so(&d, 0, "committed");
	}
	check(good && prints(s, "cat n; ls", "100\nf100\nf98\nf99\nfile\nn\nother\n"), "%d layers show what one would", DEPTH);
	check(a_flat_layer_exists(), "and are made flat on the way");
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		int d = depths[i];
		snprintf(want, sizeof(want), "%d\n%d\n%s\n", d, d, d < 30 ? "in" : "none");
		snprintf(line, sizeof(line), "cat n f%d; cat dir/in 2>&- || echo none", d);
		check(cordon_sandbox_restore(s, layers[d], &err) == 0 && prints(s, line, want), "depth %d is restored %s", d, err.message);
	}
	cordon_sandbox_destroy(s);
	check(cordon_remove(id, NULL) == 0, "and all of them are removed");
}

/* ---- kill -9 ----------------------------------------------------------------------------------------------------------------- */

static int victim(const char *id)
{
	struct cordon *c = NULL;
	bool ready = false;

	if (cordon_open(&c, NULL) < 0)
		return 1;
	struct cordon_sandbox *s = open_box(c, id);
	struct cordon_exec *e = start_line(s, endless, (struct cordon_exec_options){.on_output = note_ready, .user = &ready}, NULL);
	while (e && !ready && cordon_exec_step(e, NULL) == 1)
		;
	puts("ready");
	fflush(stdout);
	return e ? cordon_exec_wait(e, NULL) : 1;
}

/* Starts the victim, and kills it once its command has changed something. */
static bool kill_in_the_middle(const char *id)
{
	int out[2], status = 0;
	char text[8] = "";

	if (pipe2(out, O_CLOEXEC) < 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		execl("/proc/self/exe", "live", "victim", id, NULL);
		_exit(127);
	}
	close(out[1]);
	bool ready = pid > 0 && read(out[0], text, sizeof(text) - 1) > 0 && strncmp(text, "ready", 5) == 0;
	close(out[0]);
	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && ready;
}

static void test_kill(const struct scene *t)
{
	char id[21], snap[21];
	struct cordon_error err = {0};

	make_box(t->seed, NULL, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct ended d = run_line(s, "echo kept >kept");
	cordon_sandbox_destroy(s);
	check(kill_in_the_middle(id), "a process is killed in the middle of an exec");
	int before = count_layers("kind failed");
	s = open_box(t->ctx, id);
	check(count_layers("kind failed") == before + 1 && count_layers("note interrupted") == 1,
	      "what was done by then is in the history, as failed");
	struct ended after = run_line(s, "cat file kept; ls");
	check(strcmp(after.before, d.after) == 0 && strcmp(after.out, "seed\nkept\ndir\nfile\nkept\nother\n") == 0,
	      "the sandbox opens, with the head where it was");
	check(cordon_sandbox_snapshot(s, "after", NULL, snap, &err) == 0, "and works %s", err.message);
	cordon_sandbox_destroy(s);
	bool good = true;
	for (int i = 0; i < 3; i++)
		good = good && kill_in_the_middle(id);
	s = open_box(t->ctx, id);
	check(good && count_layers("note interrupted") == 4 && prints(s, "ls", "dir\nfile\nkept\nother\n"), "however often that happens");
	cordon_sandbox_destroy(s);
}

int main(int argc, char **argv)
{
	struct scene t = {0};
	struct cordon_error err = {0};

	alarm(DEADLINE);
	if (argc == 3 && strcmp(argv[1], "victim") == 0)
		return victim(argv[2]);
	if (argc != 2) {
		fprintf(stderr, "usage: live DIR\n");
		return 2;
	}
	if (cordon_open(&t.ctx, &err) < 0)
		give_up("a context can be opened: %s", err.message);
	t.seed = make_seed(argv[1]);
	test_execs(&t);
	test_aborts(&t);
	test_unreadable(&t);
	test_settings(&t);
	test_tree(&t);
	test_lifetime(&t);
	test_services(&t);
	test_disk(&t);
	test_depth(&t);
	test_kill(&t);
	check(host_unchanged(&t), "after all this the host's directory is as it was");
	cordon_close(t.ctx);
	free((char *)(uintptr_t)t.seed);
	return failures ? 1 : 0;
}
