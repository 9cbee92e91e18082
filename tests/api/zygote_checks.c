/* SPDX-License-Identifier: Apache-2.0 */
/* zygote checks: when one that waits is used and when not, that it is an exec like any other, and that it leaves nothing behind. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/util.h"
#include "zygote.h"

static void check_fallbacks(void)
{
	static const struct {
		const char *what;
		struct how how;
		bool warm;
	} cases[] = {
		{"a variable that no interpreter looks at", {.env = {"HELLO=1"}}, true},
		{"another language of messages", {.env = {"LANG=C"}}, false},
		{"another time zone", {.env = {"TZ=Asia/Tokyo"}}, false},
		{"another place for modules", {.env = {"PYTHONPATH=/tmp"}}, false},
		{"another hash seed", {.env = {"PYTHONHASHSEED=1"}}, false},
		{"another directory of one's own", {.env = {"HOME=/tmp"}}, false},
		{"another working directory", {.cwd = "/tmp"}, true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cordon_sandbox *s = create(policy);
		park(s, NULL);
		struct made m = run_text(s, "print('ran')", &cases[i].how);
		check(prints_text(&m, 0, "ran\n") && m.warm == cases[i].warm, "%s: %s", cases[i].what,
		      cases[i].warm ? "one that waits" : "a fresh one");
		cordon_exec_free(m.exec);
		cordon_sandbox_destroy(s);
	}
}

/* The process of the interpreter that waits: a child of init, which is what the sandbox's pidfd is of. */
static pid_t find_waiting(const struct cordon_sandbox *s)
{
	char path[64], text[256];
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", s->state.fds[CREATED_PIDFD]);
	if (fs_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0 || !strstr(text, "Pid:"))
		return 0;
	const long init = strtol(strstr(text, "Pid:") + 4, NULL, 10);
	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", init, init);
	if (fs_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	return (pid_t)strtol(text, NULL, 10);
}

static void check_death(void)
{
	struct cordon_sandbox *s = create(policy);
	park(s, NULL);
	const pid_t pid = find_waiting(s);
	check(pid > 0, "the interpreter that waits is a process");
	struct pollfd p = {.fd = zygote_fd(s), .events = POLLIN};
	kill(pid, SIGKILL);
	poll(&p, 1, -1);
	struct made m = run_text(s, "print('ran')", &(struct how){0});
	check(prints_text(&m, 0, "ran\n") && !m.warm, "one that was killed: a fresh one");
	cordon_exec_free(m.exec);
	park(s, NULL);
	kill(find_waiting(s), SIGSTOP);
	kill(find_waiting(s), SIGKILL);
	m = run_text(s, "print('ran')", &(struct how){0}); /* whether it is dead already, nobody knows */
	check(result(&m) && (strcmp(result(&m)->stdout_data, "ran\n") == 0 || result(&m)->signal == SIGKILL),
	      "one that is killed while it is asked");
	cordon_exec_free(m.exec);
	cordon_sandbox_destroy(s);
}

static void check_order(void)
{
	struct cordon_sandbox *s = create(policy);
	struct cordon_error err = {0};
	check(zygote_park(s, "python", NULL, &err) == 0, "an interpreter is started");
	struct made m = run_text(s, "print('ran')", &(struct how){0});
	check(prints_text(&m, 0, "ran\n"), "code that does not wait until it is ready runs");
	cordon_exec_free(m.exec);
	check(zygote_look(s, NULL) == ZYGOTE_NONE, "it is used once");
	m = run_text(s, "print('ran')", &(struct how){0});
	check(prints_text(&m, 0, "ran\n") && !m.warm, "the next is a fresh one");
	cordon_exec_free(m.exec);
	park(s, NULL);
	park(s, NULL);
	m = run_text(s, "print('ran')", &(struct how){0});
	check(prints_text(&m, 0, "ran\n") && m.warm, "a second one takes the place of the first");
	cordon_exec_free(m.exec);
	park(s, NULL);
	struct ended e = run_line(s, "ls -A /run/code | wc -l; ps -e | grep -c python");
	check(strcmp(e.out, "0\n0\n") == 0, "a command does not find one that waits, nor its hook");
	check(zygote_look(s, NULL) == ZYGOTE_NONE, "which is gone");
	check(zygote_park(s, "cobol", NULL, &err) < 0, "there is none for every language");
	cordon_sandbox_destroy(s);
}

static void check_limits(void)
{
	struct cordon_sandbox *s = create(policy);
	park(s, NULL);
	struct made m = run_text(s, "import time\nprint('up', flush=True)\ntime.sleep(100)", &(struct how){.timeout_ms = 300});
	const struct cordon_result *r = result(&m);
	check(m.warm && r && strcmp(r->reason, "timeout") == 0 && r->exit_code == 124 && strcmp(r->stdout_data, "up\n") == 0,
	      "the time limit holds");
	check(r && r->duration_ms >= 300 && r->duration_ms < 30000, "and is counted from the beginning: %.0f ms", r ? r->duration_ms : 0);
	cordon_exec_free(m.exec);
	park(s, NULL);
	m = run_text(s, "x = bytearray(1 << 30)", &(struct how){0});
	r = result(&m);
	check(m.warm && r && r->exit_code != 0, "the memory limit holds");
	cordon_exec_free(m.exec);
	cordon_sandbox_destroy(s);
	s = create(policy);
	park(s, NULL);
	m = run_text(s, "print(1)", &(struct how){.cwd = "/nowhere"});
	check(!m.exec && strcmp(m.err.message, "cannot enter working directory /nowhere: No such file or directory") == 0,
	      "a working directory that is not there: %s", m.err.message);
	m = run_text(s, "print(2)", &(struct how){0});
	check(prints_text(&m, 0, "2\n"), "and the sandbox goes on");
	cordon_exec_free(m.exec);
	park(s, NULL);
	m = run_text(s, "import os; os.chdir('/run/code'); open('x', 'w')", &(struct how){0});
	check(m.warm && result(&m) && result(&m)->exit_code == 1 && strstr(result(&m)->stderr_data, "Read-only file system"),
	      "nothing can be written beside the code");
	cordon_exec_free(m.exec);
	struct ended e =
		run_line(s, "ls -A /run/code | wc -l; chmod 777 /run/code; rm -rf /run/code; mv /run/code /run/x; ls -d /run/code");
	check(strcmp(e.out, "0\n/run/code\n") == 0, "nothing stays of the code, and the place cannot be moved");
	cordon_sandbox_destroy(s);
}

static void check_missing(void)
{
	struct cordon_policy *p = cordon_policy_new();
	struct cordon_error err = {0};
	cordon_policy_set(p, "env.set", "PATH=/nowhere", NULL);
	struct cordon_sandbox *s = create(p);
	check(zygote_park(s, "python", NULL, NULL) == 0 && settle(s, &err) == ZYGOTE_FAILED &&
	              strstr(err.message, "python3 is not in this image") && strstr(err.hint, "python3"),
	      "an interpreter that is not there: %s (%s)", err.message, err.hint);
	struct made m = run_text(s, "print(1)", &(struct how){0});
	check(!m.exec && m.err.code == CORDON_ERR_NOT_FOUND && strstr(m.err.hint, "install python3"), "code for it: %s (%s)", m.err.message,
	      m.err.hint);
	cordon_sandbox_destroy(s);
	cordon_policy_free(p);
}

/* Two at a time in one sandbox: each has the code that it was given. */
static void check_parallel(void)
{
	struct cordon_sandbox *s = create(policy);
	struct made m[2] = {0};
	static const char code[] = "import sys, linecache\nsys.stdin.read()\nprint(linecache.getline(__file__, 4), end='')\n# %d\n";
	for (int i = 0; i < 2; i++) {
		char text[sizeof(code)];
		snprintf(text, sizeof(text), code, i);
		const struct cordon_exec_options o = {
			.size = sizeof(o), .language = "py", .code = text, .code_len = strlen(text), .flags = CORDON_EXEC_STDIN};
		if (cordon_exec_start(s, &o, &m[i].exec, &m[i].err) < 0)
			give_up("code starts: %s", m[i].err.message);
	}
	for (int i = 0; i < 2; i++) {
		cordon_exec_close_stdin(m[i].exec);
		cordon_exec_wait(m[i].exec, &m[i].err);
	}
	check(prints_text(&m[0], 0, "# 0\n") && prints_text(&m[1], 0, "# 1\n"), "two programs at a time keep their code apart");
	for (int i = 0; i < 2; i++)
		cordon_exec_free(m[i].exec);
	struct ended e = run_line(s, "find /run/code");
	check(strcmp(e.out, "/run/code\n") == 0, "and nothing stays of it");
	cordon_sandbox_destroy(s);
}

static void check_preload(void)
{
	struct cordon_sandbox *s = create(policy);
	park(s, (const char *const[]){"decimal", "no_such_module", NULL});
	struct made m = run_text(s, "import sys; print('decimal' in sys.modules, 'no_such_module' in sys.modules)", &(struct how){0});
	check(m.warm && prints_text(&m, 0, "True False\n"), "modules are imported ahead, and those that do not exist are not");
	cordon_exec_free(m.exec);
	park(s, (const char *const[]){"decimal", NULL});
	m = run_text(s, "print('ran')", &(struct how){.env = {"OMP_NUM_THREADS=1"}});
	check(prints_text(&m, 0, "ran\n") && !m.warm, "a variable that they may have looked at: a fresh one");
	cordon_exec_free(m.exec);
	cordon_sandbox_destroy(s);
}

/* Its end is told before its memory is free (sandbox/init_leave.c). Who comes next finds nothing of it all the same, and who is left is ended with it. */
static void check_end(void)
{
	static const char holds[] = "import fcntl\nlock = open('/tmp/lock', 'w')\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
				    "memory = b'x' * (200 << 20)\nimport os\nos._exit(5)\n";
	static const char forks[] = "import os, time\nif os.fork() == 0:\n    os.close(1)\n    time.sleep(1000)\nprint('ran')\n";
	struct cordon_sandbox *s = create(policy);
	park(s, NULL);
	struct made m = run_text(s, holds, &(struct how){0});
	struct ended e = run_line(s, "flock -n /tmp/lock echo free");
	check(m.warm && prints_text(&m, 5, "") && strcmp(e.out, "free\n") == 0, "the next command finds it gone");
	cordon_exec_free(m.exec);
	cordon_sandbox_destroy(s);
	s = create(policy);
	park(s, NULL);
	m = run_text(s, forks, &(struct how){0});
	e = run_line(s, "pgrep -c python3");
	check(m.warm && prints_text(&m, 0, "ran\n") && strcmp(e.out, "0\n") == 0, "and what it has started");
	cordon_exec_free(m.exec);
	cordon_sandbox_destroy(s);
}

/* A call of another architecture that has the number of exit_group is no end; it is the end of who makes it. */
static void check_foreign_end(void)
{
#ifdef __x86_64__
	static const char code[] =
		"import ctypes, mmap, os\n"
		"m = mmap.mmap(-1, 4096, prot=7)\n"
		"m.write(b'\\x53\\xb8\\xe7\\0\\0\\0\\xbb\\7\\0\\0\\0\\x31\\xc9\\x31\\xd2\\x31\\xf6\\xcd\\x80\\x5b\\xc3')\n"
		"ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()\n"
		"open('/tmp/after', 'w')\n";
	struct cordon_sandbox *s = create(policy);
	park(s, NULL);
	struct made m = run_text(s, code, &(struct how){0});
	struct ended e = run_line(s, "ls /tmp");
	check(m.warm && result(&m) && result(&m)->signal == SIGSYS && strcmp(e.out, "") == 0, "no other call is taken for its end");
	cordon_exec_free(m.exec);
	cordon_sandbox_destroy(s);
#endif
}

void check_all(void)
{
	check_order();
	check_fallbacks();
	check_death();
	check_limits();
	check_missing();
	check_parallel();
	check_preload();
	check_end();
	check_foreign_end();
	check(true, "the program came to its end");
}
