/* SPDX-License-Identifier: Apache-2.0 */
/* Code: what needs a permission is found by whatever name it goes, and is moot where that is granted. */
#include "gate_case.h"

static int open_strict(void **state)
{
	gate = open_with(0);
	return 0;
}

/* The calls that the default pack is there for, and the permission that makes each moot. */
static void each_dangerous_call_of_python_depends_on_its_permission(void **state)
{
	static const struct {
		const char *text;
		unsigned needs;
	} cases[] = {
		{"import os\nos.system('ls')", GATE_SUBPROCESS},
		{"import subprocess\nsubprocess.run(['ls'])", GATE_SUBPROCESS},
		{"__import__('x')", GATE_DYNAMIC},
		{"eval('1')", GATE_DYNAMIC},
		{"exec('1')", GATE_DYNAMIC},
		{"compile('1', 'x', 'eval')", GATE_DYNAMIC},
		{"open('/data/x')", GATE_FILES},
		{"import socket\nsocket.socket()", GATE_NETWORK},
		{"import requests\nrequests.get('http://x')", GATE_NETWORK},
		{"import urllib.request\nurllib.request.urlopen('http://x')", GATE_NETWORK},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static const unsigned all[] = {GATE_SUBPROCESS, GATE_NETWORK, GATE_FILES, GATE_DYNAMIC};
		for (size_t k = 0; k < ARRAY_SIZE(all); k++) {
			struct gate *g = open_with(all[k]);
			struct gate_result r;
			assert_int_equal(gate_code(g, GATE_PYTHON, cases[i].text, strlen(cases[i].text), &r, NULL), 0);
			if ((r.verdict == GATE_DENY) != (all[k] != cases[i].needs))
				fail_msg("%s with permission %u: %s", cases[i].text, all[k], gate_verdict_names[r.verdict]);
			gate_result_free(&r);
			gate_close(g);
		}
	}
}

static void other_names_of_the_same_thing_are_followed_in_python(void **state)
{
	static const struct gate_case cases[] = {
		DENY("from os import system as s\ns('x')", "subprocess"),
		DENY("import os as o\nf = o.system\nf('x')", "subprocess"),
		DENY("getattr(__import__('os'), 'sys' + 'tem')('x')", "subprocess"),
		DENY("import importlib\nimportlib.import_module('os').popen('x')", "subprocess"),
		DENY("import builtins\nbuiltins.__dict__['ev' + 'al']('1')", "eval"),
		DENY("import sys\nsys.modules['os'].system('x')", "subprocess"),
		DENY("f = open\nf('/etc/' + 'passwd')", "files-outside"),
		DENY("from pathlib import Path\n(Path('/') / 'etc' / 'passwd').read_text()", NULL),
		DENY("().__class__.__bases__[0].__subclasses__()", "reflection"),
		ALLOW("class A:\n    def system(self, x): return x\nA().system('x')"),
		ALLOW("def eval(x): return x\neval(1)"),
		ALLOW("print('os.system(1)') # eval('x')"),
		ALLOW("import re\nre.compile('x')"),
		ALLOW("open('data.txt').read()"),
		ALLOW("import shutil\nshutil.rmtree('build')"),
		UNPROVEN("def f(:\n  pass", "parse-error"),
	};
	check_cases(gate, GATE_PYTHON, cases, ARRAY_SIZE(cases));
}

static void commands_in_code_are_commands(void **state)
{
	static const struct gate_case cases[] = {
		DENY("import subprocess\nsubprocess.run(['rm', '-rf', '/'])", "delete-vital"),
		DENY("import os\nd = '/'\nos.system(f'rm -rf {d}')", "delete-vital"),
		DENY("import shutil, os\nshutil.rmtree(os.path.expanduser('~'))", NULL),
		ALLOW("import subprocess\nsubprocess.run(['git', 'status'], check=True)"),
	};
	struct gate *granted = open_with(GATE_SUBPROCESS);
	check_cases(granted, GATE_PYTHON, cases, ARRAY_SIZE(cases));
	gate_close(granted);
}

static void the_same_holds_for_javascript(void **state)
{
	static const struct gate_case cases[] = {
		DENY("require('child_process').exec('x')", "subprocess"),
		DENY("const { execSync: e } = require('node:child_process'); e('x')", "subprocess"),
		DENY("const m = 'child_' + 'process'; require(m).exec('x')", "subprocess"),
		DENY("import('child_process').then(c => c.exec('x'))", "subprocess"),
		DENY("globalThis['ev' + 'al']('1')", "eval"),
		DENY("(() => {}).constructor('return 1')()", NULL),
		DENY("fetch('http://x')", "network"),
		DENY("require('fs').readFileSync('/etc/passwd')", "files-outside"),
		ALLOW("/x/.exec('x'); console.log('eval(1)')"),
		ALLOW("require('fs').writeFileSync('out.txt', 'x')"),
		ALLOW("const http = require('http'); console.log(http.STATUS_CODES[404])"),
		UNPROVEN("const app = require('express')(); app.listen(3000)", "serve"),
	};
	check_cases(gate, GATE_JAVASCRIPT, cases, ARRAY_SIZE(cases));
	static const struct gate_case typed[] = {
		DENY("(globalThis as any)['eval']('1');", NULL),
		DENY("import { exec } from 'child_process'; exec('x' as string);", "subprocess"),
		ALLOW("interface A { eval: boolean } const a: A = { eval: true };"),
	};
	check_cases(gate, GATE_TYPESCRIPT, typed, ARRAY_SIZE(typed));
}

static void the_same_holds_for_ruby(void **state)
{
	static const struct gate_case cases[] = {
		DENY("system('x')", "subprocess"),       DENY("`x`", "subprocess"),
		DENY("Kernel.send(:system, 'x')", NULL), DENY("Object.const_get('Ker' + 'nel').system('x')", "subprocess"),
		DENY("open('|x')", "pipe-open"),         DENY("File.read('/etc/passwd')", "files-outside"),
		DENY("require 'net/http'", "network"),   ALLOW("class A; def system(x) = x; def go = system(1); end"),
		ALLOW("puts 'system(1)' # `x`"),         ALLOW("File.write('out.txt', 'x')"),
	};
	check_cases(gate, GATE_RUBY, cases, ARRAY_SIZE(cases));
}

static void names_of_languages_are_found(void **state)
{
	assert_int_equal(gate_language_find("python"), GATE_PYTHON);
	assert_int_equal(gate_language_find("bash"), GATE_SHELL);
	assert_int_equal(gate_language_find("ts"), GATE_TYPESCRIPT);
	assert_int_equal(gate_language_find("cobol"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_dangerous_call_of_python_depends_on_its_permission),
		cmocka_unit_test(other_names_of_the_same_thing_are_followed_in_python),
		cmocka_unit_test(commands_in_code_are_commands),
		cmocka_unit_test(the_same_holds_for_javascript),
		cmocka_unit_test(the_same_holds_for_ruby),
		cmocka_unit_test(names_of_languages_are_found),
	};
	return cmocka_run_group_tests(tests, open_strict, close_gate);
}
