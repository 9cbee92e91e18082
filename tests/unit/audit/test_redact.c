/* SPDX-License-Identifier: Apache-2.0 */
/* What is a secret, and what is not. Made-up ones only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/redact.h"
#include "base/util.h"

/* Each letter and digit may be part of a secret scanner's prey elsewhere: the shapes are put together here. */
#define TWENTY "a1B2c3D4e5F6g7H8i9J0"
#define FORTY TWENTY TWENTY

static char *redacted(const struct redactor *r, const char *text)
{
	struct buf out = {0};

	redact_text(r, text, strlen(text), &out);
	char *s = buf_steal(&out);
	assert_non_null(s);
	return s;
}

static void assert_text(const char *text, const char *wanted)
{
	_cleanup_free_ char *got = redacted(NULL, text);

	assert_string_equal(got, wanted);
}

static void test_names_of_secrets(void **state)
{
	static const char *const secret[] = {
		"DB_PASSWORD",         "password",      "PGPASSWORD",      "mysql_passwd", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY",
		"GITHUB_TOKEN",        "token",         "--db-password",   "x-api-key",    "apiKey",         "accessToken",
		"clientSecret",        "MYSQL_PWD",     "SMTP_PASS",       "GH_PAT",       "NPM_AUTH",       "Authorization",
		"Set-Cookie",          "_authToken",    "SECRET_KEY_BASE", "PRIVATE_KEY",  "passphrase",     "DEPLOY_CREDS",
		"proxy-authorization", "AUTH_TOKEN_V2",
	};
	static const char *const harmless[] = {
		"PATH",
		"PWD",
		"OLDPWD",
		"HOME",
		"MONKEY",
		"KEYBOARD",
		"TOKENIZERS_PARALLELISM",
		"SSH_AUTH_SOCK",
		"AWS_ACCESS_KEY_ID",
		"PASSWORD_FILE",
		"SSH_PUBLIC_KEY",
		"SECRET_NAME",
		"KEY",
		"key",
		"COMPASS",
		"author",
		"",
		"-",
		"---",
	};
	char longest[1000];

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		if (!redact_name(NULL, secret[i], strlen(secret[i])))
			fail_msg("%s should be secret", secret[i]);
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (redact_name(NULL, harmless[i], strlen(harmless[i])))
			fail_msg("%s should not be secret", harmless[i]);
	memset(longest, 'A', sizeof(longest));
	assert_false(redact_name(NULL, longest, sizeof(longest)));
}

static void test_secrets_are_left_out(void **state)
{
	static const struct {
		const char *text, *wanted;
	} cases[] = {
		/* named */
		{"DB_PASSWORD=hunter2 ./run", "DB_PASSWORD=[redacted] ./run"},
		{"export API_KEY='a b c'; ls", "export API_KEY='[redacted]'; ls"},
		{"tool --password=hunter2 -v", "tool --password=[redacted] -v"},
		{"tool --password hunter2 -v", "tool --password [redacted] -v"},
		{"tool --token \"a b\" x", "tool --token \"[redacted]\" x"},
		{"https://x.example/?q=1&access_token=abc&b=2", "https://x.example/?q=1&access_token=[redacted]&b=2"},
		{"{\"user\":\"u\",\"password\":\"p\\\"w\",\"n\":1}", "{\"user\":\"u\",\"password\":\"[redacted]\",\"n\":1}"},
		{"{\"apiKey\" : \"abc\"}", "{\"apiKey\" : \"[redacted]\"}"},
		{"-d '{\\\"secret\\\":\\\"abc\\\",\\\"n\\\":1}'", "-d '{\\\"secret\\\":\\\"[redacted]\\\",\\\"n\\\":1}'"},
		{"password: hunter2\nuser: x", "password: [redacted]\nuser: x"},
		{"//registry.example/:_authToken=abc", "//registry.example/:_authToken=[redacted]"},
		/* headers */
		{"curl -H 'Authorization: Bearer abc def' https://x.example", "curl -H 'Authorization: [redacted]' https://x.example"},
		{"Cookie: a=b; c=d\nHost: x", "Cookie: [redacted]\nHost: x"},
		{"X-Api-Key:abc", "X-Api-Key:[redacted]"},
		/* URLs */
		{"git clone https://user:pa:ss@host.example/x.git", "git clone https://user:[redacted]@host.example/x.git"},
		{"postgres://u:p@db:5432/x", "postgres://u:[redacted]@db:5432/x"},
		{"https://x-access-token:abc@github.example/", "https://x-access-token:[redacted]@github.example/"},
		/* programs */
		{"curl -u me:pw https://x.example", "curl -u me:[redacted] https://x.example"},
		{"/usr/bin/curl -sume:pw -ume:pw x", "/usr/bin/curl -sume:pw -ume:[redacted] x"},
		{"mysql -uroot -psecret db", "mysql -uroot -p[redacted] db"},
		{"mysqldump -psecret db | gzip -p", "mysqldump -p[redacted] db | gzip -p"},
		{"sshpass -p secret ssh host", "sshpass -p [redacted] ssh host"},
		{"redis-cli -a secret ping", "redis-cli -a [redacted] ping"},
		{"docker login -u me -p secret r.example", "docker login -u me -p [redacted] r.example"},
		/* shapes */
		{"AKIA"
	         "IOSFODNN7EXAMPLE",
	         "[redacted]"},
		{"key is ghp_" TWENTY TWENTY ".", "key is [redacted]."},
		{"sk-proj-" FORTY, "[redacted]"},
		{"\"xoxb-" TWENTY "\"", "\"[redacted]\""},
		{"(glpat-" TWENTY ")", "([redacted])"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", "[redacted] end"},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\nabc\ndef\n-----END OPENSSH PRIVATE KEY-----\nrest",
	         "-----BEGIN OPENSSH PRIVATE KEY-----[redacted]-----END OPENSSH PRIVATE KEY-----\nrest"},
		{"-----BEGIN PRIVATE KEY-----\nabc", "-----BEGIN PRIVATE KEY-----[redacted]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_text(cases[i].text, cases[i].wanted);
}

static void test_what_is_no_secret_stays(void **state)
{
	static const char *const texts[] = {
		"",
		"make -j2 CC=gcc",
		"ls -la /home/user/.ssh",
		"secret-service:443",
		"vault.secret.example:8200",
		"tool --password=$PW --token ${TOKEN} -v",
		"tool --password --verbose",
		"docker run -p 8080:80 -u 1000:1000 img",
		"curl -u 1000:1000",
		"ps -p 1234",
		"mkdir -p a/b",
		"git log --pretty=format:%h",
		"https://host.example:8080/path@v2",
		"https://user@host.example/",
		"sk-learn-contrib-something-long-name",
		"pip install scikit-learn sk-video",
		"AKIA is a prefix",
		"tokenize key=value monkey=banana",
		"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
		"-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
		"if (token == NULL) return;",
		"password=",
		"PASSWORD_FILE=/run/secrets/db",
		"/app/src/password.c:12: warning",
		"\xff\xfe\x01 bytes \x80",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_text(texts[i], texts[i]);
}

static void assert_argv(const char *const *argv, const char *const *wanted)
{
	struct redact_state words = {.program = NULL};

	for (size_t i = 0; argv[i]; i++) {
		_cleanup_buf_ struct buf out = {0};

		redact_word(NULL, &words, argv[i], strlen(argv[i]), &out);
		assert_string_equal(out.len ? out.data : "", wanted[i]);
	}
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_words_of_a_command_are_seen_together(void **state)
{
	assert_argv(WORDS("tool", "--password", "two words; here", "x"), WORDS("tool", "--password", "[redacted]", "x"));
	assert_argv(WORDS("curl", "-u", "me:a b", "https://x"), WORDS("curl", "-u", "me:[redacted]", "https://x"));
	assert_argv(WORDS("/usr/bin/mysql", "-psecret"), WORDS("/usr/bin/mysql", "-p[redacted]"));
	assert_argv(WORDS("sh", "-c", "mysql -psecret; mkdir -p x"), WORDS("sh", "-c", "mysql -p[redacted]; mkdir -p x"));
	assert_argv(WORDS("tool", "--token", "", "word"), WORDS("tool", "--token", "", "word"));
	assert_argv(WORDS("tool", "--token", "--other", "word"), WORDS("tool", "--token", "--other", "word"));
	assert_argv(WORDS("env", "API_TOKEN=abc", "run"), WORDS("env", "API_TOKEN=[redacted]", "run"));
}

static void assert_variable(const char *variable, const char *wanted)
{
	_cleanup_buf_ struct buf out = {0};

	redact_variable(NULL, variable, strlen(variable), &out);
	assert_string_equal(out.data, wanted);
}

static void test_variables_are_secret_to_their_end(void **state)
{
	assert_variable("DB_PASSWORD=a b;c&d", "DB_PASSWORD=[redacted]");
	assert_variable("PATH=/usr/bin:/bin", "PATH=/usr/bin:/bin");
	assert_variable("DATABASE_URL=postgres://u:p@h/x", "DATABASE_URL=postgres://u:[redacted]@h/x");
	assert_variable("TOKEN=", "TOKEN=");
	assert_variable("odd", "odd");
}

static void test_a_user_adds_names_and_values(void **state)
{
	const struct redactor r = {.names = WORDS("*_PIN", "LAUNCH_CODE"), .values = WORDS("hunter2", "abc", "multi word")};
	static const struct {
		const char *text, *wanted;
	} cases[] = {
		{"DOOR_PIN=1234", "DOOR_PIN=[redacted]"},
		{"--launch-code 0000", "--launch-code [redacted]"},
		{"say hunter2, twice: hunter2hunter2", "say [redacted], twice: [redacted][redacted]"},
		{"abc is too short to be replaced", "abc is too short to be replaced"},
		{"a multi word one", "a [redacted] one"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *got = redacted(&r, cases[i].text);

		assert_string_equal(got, cases[i].wanted);
	}
}

/* Hostile texts take time in proportion to their length: this would take hours otherwise. */
static void test_long_hostile_texts_are_no_burden(void **state)
{
	static const char *const pieces[] = {"-----BEGIN ", "password=\"", "'a ",  "://a:",    "\\\"",
	                                     "--token ",    "eyJ",         "x:\"", "curl -u ", "a://b@"};

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		_cleanup_buf_ struct buf text = {0}, out = {0};

		while (text.len < (size_t)256 << 10)
			buf_add_str(&text, pieces[i]);
		redact_text(NULL, text.data, text.len, &out);
		assert_false(out.failed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_secrets),
		cmocka_unit_test(test_secrets_are_left_out),
		cmocka_unit_test(test_what_is_no_secret_stays),
		cmocka_unit_test(test_words_of_a_command_are_seen_together),
		cmocka_unit_test(test_variables_are_secret_to_their_end),
		cmocka_unit_test(test_a_user_adds_names_and_values),
		cmocka_unit_test(test_long_hostile_texts_are_no_burden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
