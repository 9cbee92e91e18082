/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions beside a service: it goes on, and sees files come, go and revert where they are. */
#include "live.h"

#include <stdio.h>
#include <string.h>

/* Kept and rolled back, while a service has files open. */
static void test_in_place(const struct scene *t)
{
	static const char *const settings[] = {"transaction.exit=rollback", NULL};
	char id[21];

	make_box(t->seed, settings, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct ended first = run_line(s, "echo one >n; echo zero >z");
	struct service *v = start_service(s);
	check(answers(v, "cat n file", "one\nseed\n"), "a service sees the workspace");
	struct ended d = run_line(s, "cat n; ls");
	check(ended_so(&d, 0, "none") && strcmp(d.before, first.after) == 0, "beside it, an exec that changes nothing leaves no layer");
	d = run_line(s, "echo two >n; rm other; mkdir made; echo m >made/m");
	check(ended_so(&d, 0, "committed") && strcmp(d.changes, "add made, add made/m, modify n, delete other") == 0,
	      "one that succeeds is kept (%s)", d.changes);
	check(answers(v, "cat n made/m; ls", "two\nm\ndir\nfile\nmade\nn\nz\n"), "and the service sees it");

	struct ended g = run_line(s, "rm dir/twin; exit 1");
	check(ended_so(&g, 1, "rolled_back") && answers(v, "test dir/in -ef dir/twin && stat -c %h dir/in", "2\n"),
	      "a file that had two names has them again");
	check(answers(v, "exec 3<n 4<>z 5<dir/in; cd made; read -r x <&3; echo $x", "two\n"),
	      "while the service has files open, and a working directory");
	struct ended f =
		run_line(s, "echo lots of other text >n; echo more >>z; rm -r dir made; chmod 600 file; touch other; ln -s n link; exit 1");
	check(ended_so(&f, 1, "rolled_back") && strcmp(f.before, f.after) == 0, "an exec that fails is rolled back (%s)", f.changes);
	check(answers(v, "cd /app; ls; cat n z dir/in made/m; stat -c %a file", "dir\nfile\nmade\nn\nz\ntwo\nzero\nin\nm\n644\n"),
	      "the service sees all of it revert");
	check(answers(v, "cat /proc/self/fd/3 /proc/self/fd/4 <&3", "two\nzero\n"), "also through the descriptors that it holds");
	check(answers(v, "echo ends >&4; cat z", "ends\n"), "and what it writes through them arrives");
	d = run_line(s, "cat z; rm z");
	check(ended_so(&d, 0, "committed") && strcmp(d.out, "ends\n") == 0, "what a service wrote belongs to the state before");
	check(prints(s, "ls", "dir\nfile\nmade\nn\n"), "and is not undone with an exec");
	end_service(v);
	check(prints(s, "cat n; ls; stat -c %a file", "two\ndir\nfile\nmade\nn\n644\n"), "when the service is gone all is as it was");
	cordon_sandbox_destroy(s);
	s = open_box(t->ctx, id);
	check(prints(s, "cat n; ls; stat -c %a file", "two\ndir\nfile\nmade\nn\n644\n"), "and after the sandbox was closed, too");
	cordon_sandbox_destroy(s);
}

static void test_restore_in_place(const struct scene *t)
{
	char id[21], one[21], two[21], forked[21];
	struct cordon_error err = {0};

	make_box(t->seed, NULL, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	run_line(s, "echo 1 >n; mkdir only1");
	check(cordon_sandbox_snapshot(s, "one", NULL, one, &err) == 0, "a state without services");
	struct service *v = start_service(s);
	run_line(s, "echo 2 >n; rmdir only1; mkdir only2; rm file; ln other hard");
	check(cordon_sandbox_snapshot(s, "two", NULL, two, &err) == 0, "and one with a service");
	check(cordon_sandbox_restore(s, "one", &err) == 0 && answers(v, "cat n file; ls", "1\nseed\ndir\nfile\nn\nonly1\nother\n"),
	      "are gone back to while the service goes on %s", err.message);
	run_line(s, "echo 3 >n");
	check(cordon_sandbox_restore(s, "two", &err) == 0 && answers(v, "cat n; ls; stat -c %h hard", "2\ndir\nhard\nn\nonly2\nother\n2\n"),
	      "and forward to %s", err.message);
	check(cordon_sandbox_restore(s, "seed", &err) == 0 && answers(v, "ls", "dir\nfile\nother\n"), "the seed, too %s", err.message);
	check(answers(v, "echo service >n", ""), "the service writes something");
	check(cordon_sandbox_fork(s, NULL, NULL, forked, &err) == 0, "the state with it is forked %s", err.message);
	struct cordon_sandbox *f = open_box(t->ctx, forked);
	check(prints(f, "cat n; ls", "service\ndir\nfile\nn\nother\n"), "and the fork shows it, without the service");
	cordon_sandbox_destroy(f);
	check(cordon_sandbox_restore(s, two, &err) == 0 && answers(v, "cat n", "2\n"), "back and forth again %s", err.message);
	end_service(v);
	check(cordon_sandbox_restore(s, one, &err) == 0 && prints(s, "cat n; ls", "1\ndir\nfile\nn\nonly1\nother\n"),
	      "also when the service is gone %s", err.message);
	check(cordon_sandbox_restore(s, two, &err) == 0 && prints(s, "cat n; ls", "2\ndir\nhard\nn\nonly2\nother\n"),
	      "everything is still there %s", err.message);
	cordon_sandbox_destroy(s);
}

/* What is mounted then lies beside the state that was gone back to, not below it. */
static void test_back_below_the_mount(const struct scene *t)
{
	char id[21];
	struct cordon_error err = {0};

	make_box(t->seed, NULL, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct ended one = run_line(s, "echo 1 >a"), two = run_line(s, "echo 2 >b; rm file");
	struct service *v = start_service(s);
	check(cordon_sandbox_restore(s, one.after, &err) == 0 && answers(v, "cat a; ls", "1\na\ndir\nfile\nother\n"),
	      "beside a service, a state is gone back to that is older than the sandbox's mounts %s", err.message);
	end_service(v);
	struct ended three = run_line(s, "echo 3 >c");
	check(ended_so(&three, 0, "committed") && prints(s, "cat a; ls", "1\na\nc\ndir\nfile\nother\n"),
	      "what is done then goes on top of it");
	cordon_sandbox_destroy(s);
	s = open_box(t->ctx, id);
	check(prints(s, "cat a; ls", "1\na\nc\ndir\nfile\nother\n"), "also when all is mounted anew");
	check(cordon_sandbox_restore(s, two.after, &err) == 0 && prints(s, "cat a; ls", "1\na\nb\ndir\nother\n"),
	      "and the other state is still there %s", err.message);
	cordon_sandbox_destroy(s);
}

static void test_preserve_in_place(const struct scene *t)
{
	static const char *const settings[] = {"transaction.exit=rollback", "transaction.preserve=*.log",
	                                       "transaction.preserve=deep/**/keep", NULL};
	char id[21];

	make_box(t->seed, settings, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct service *v = start_service(s);
	struct ended d = run_line(s, "echo l >new.log; mkdir -p deep/er; echo k >deep/er/keep; echo n >deep/er/not; echo n >not; exit 1");
	check(ended_so(&d, 1, "rolled_back"), "beside a service, what matches transaction.preserve survives a rollback");
	check(answers(v, "find deep new.log not 2>&- | sort | tr '\\n' ' '; cat new.log deep/er/keep",
	              "deep deep/er deep/er/keep new.log l\nk\n"),
	      "with the directories that it needs, and nothing else");
	d = run_line(s, "echo again >>new.log; rm file; exit 1");
	check(ended_so(&d, 1, "rolled_back") && answers(v, "cat new.log file", "l\nagain\nseed\n"), "also what was there before");
	end_service(v);
	check(prints(s, "cat new.log deep/er/keep", "l\nagain\nk\n"), "and is there when the service is gone");
	cordon_sandbox_destroy(s);
}

/* One after the other, quickly: how one ends is never lost between those who wait for it. */
static void test_many(const struct scene *t)
{
	enum { MANY = 300 };
	char id[21];
	int good = 0;

	make_box(t->seed, NULL, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct service *v = start_service(s);
	for (int i = 0; i < MANY; i++) {
		struct ended d = run_line(s, "exit 7");
		good += d.status == 7;
	}
	check(good == MANY, "beside a service, %d execs end with their own status (%d do)", MANY, good);
	end_service(v);
	cordon_sandbox_destroy(s);
}

/* Which process belongs to whom. */
static void test_leftovers(const struct scene *t)
{
	static const char *const stray =
		"mkfifo /tmp/started; export s='echo $$ >/tmp/stray; echo >/tmp/started; trap \"\" TERM HUP; while :; do sleep 1000; done'; "
		"setsid sh -c 'sh -c \"$s\" & exit' & read -r x </tmp/started; rm /tmp/started; kill -0 $(cat /tmp/stray) && echo runs";
	char id[21];

	make_box(t->seed, NULL, id);
	struct cordon_sandbox *s = open_box(t->ctx, id);
	struct service *v = start_service(s);
	check(answers(v, "sleep 1000 & echo $! >/tmp/child; kill -0 $(cat /tmp/child) && echo runs", "runs\n"), "a service has a child");
	check(prints(s, stray, "runs\n"), "an exec leaves a process that forked twice and has a session of its own");
	check(answers(v, "pgrep -c sleep; pgrep -f /tmp/stray | wc -l", "1\n0\n"), "it dies with the exec, the service and its child live");
	check(answers(v, "kill -0 $(cat /tmp/child) && echo runs", "runs\n"), "as before");
	end_service(v);
	check(prints(s, "pgrep -c sleep; :", "0\n"), "the child dies with its service");
	cordon_sandbox_destroy(s);
}

void test_services(const struct scene *t)
{
	test_in_place(t);
	test_restore_in_place(t);
	test_back_below_the_mount(t);
	test_preserve_in_place(t);
	test_leftovers(t);
	test_many(t);
}
