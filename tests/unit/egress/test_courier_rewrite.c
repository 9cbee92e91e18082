/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests get which secrets, and what becomes of their heads. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "egress/http.h"
#include "egress/rewrite.h"

#define VALUE "s3cr3t-value"
#define RULE "from=env:KEY;hosts=api.example,*.sub.example"
#define HOST "Host: api.example\r\n"
#define PLAIN "Accept-Encoding: identity\r\n"

struct world {
	struct cordon_policy policy;
	struct keyring keys;
	struct host_target host;
};

/* Rules up to a NULL; their values are VALUE, then VALUE2, … */
static void begin(struct world *w, const char *host, const char *const *rules)
{
	struct cordon_error err = {0};

	assert_int_equal(policy_init(&w->policy, &err), 0);
	for (size_t i = 0; rules[i]; i++)
		assert_int_equal(policy_set(&w->policy, "secrets", rules[i], &err), 0);
	assert_int_equal(keyring_init(&w->keys, &w->policy, &err), 0);
	for (size_t i = 0; rules[i]; i++) {
		char value[32] = VALUE;
		int pipe[2];

		if (i)
			snprintf(value, sizeof(value), VALUE "%zu", i + 1);
		assert_int_equal(pipe2(pipe, O_CLOEXEC), 0);
		assert_int_equal(write(pipe[1], value, strlen(value)), strlen(value));
		close(pipe[1]);
		assert_int_equal(keyring_read(&w->keys, pipe[0], &err), 0);
		close(pipe[0]);
	}
	assert_int_equal(host_target_parse(host, &w->host, &err), 0);
}

static void end(struct world *w)
{
	keyring_clear(&w->keys);
	policy_clear(&w->policy);
}

/* The head goes through the check, as it does on a connection. `wanted` NULL: denied, with this reason. */
static void expect(const char *const *rules, const char *host, bool plain_port, const char *head, const char *wanted, const char *reason)
{
	struct world w;
	struct http_part part;
	struct buf out = {0};
	size_t len = strlen(head);
	const char *refused;
	char why[KEYRING_WHY] = "";

	begin(&w, host, rules);
	struct http_check *h = http_check_new(host, 80);
	assert_non_null(h);
	if (http_check_step(h, head, &len, &part, &refused) != HTTP_PASS)
		fail_msg("refused: %s\n%s", refused, head);
	assert_true(part.is_head && len == strlen(head));
	const struct rewrite r = {&w.keys, &w.host, plain_port};
	const enum rewrite_verdict v = rewrite_head(&r, &part, head, len, &out, why);
	if (wanted) {
		if (v != REWRITE_OK)
			fail_msg("%s:\n%s", why, head);
		assert_string_equal(out.data, wanted);
	} else {
		assert_int_equal(v, REWRITE_DENIED);
		if (!strstr(why, reason))
			fail_msg("'%s' has nothing of '%s'", why, reason);
	}
	rewrite_wipe(&out);
	assert_null(out.data);
	http_check_free(h);
	end(&w);
}

static const char *const one[] = {RULE, NULL};

static void test_a_header_is_put_in(void **state)
{
	expect(one, "api.example", false, "GET /a?b HTTP/1.1\r\n" HOST "Accept: *\r\n\r\n",
	       "GET /a?b HTTP/1.1\r\n" HOST "Accept: *\r\n" PLAIN "Authorization: Bearer " VALUE "\r\n\r\n", NULL);
	expect(one, "x.sub.example", false, "OPTIONS * HTTP/1.0\r\nHost: x.sub.example\r\n\r\n",
	       "OPTIONS * HTTP/1.0\r\nHost: x.sub.example\r\n" PLAIN "Authorization: Bearer " VALUE "\r\n\r\n", NULL);
}

static void test_every_field_of_that_name_is_taken_out(void **state)
{
	static const char *const fields[] = {"Authorization: x\r\n", "authorization:\r\n", "AUTHORIZATION:x:y\r\nauthorizatioN: \t z\r\n",
	                                     "Authorization: Bearer " VALUE "\r\n"};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		char head[256];

		snprintf(head, sizeof(head), "GET / HTTP/1.1\r\n%sX-A: 1\r\n" HOST "%s\r\n", fields[i], fields[i]);
		expect(one, "api.example", false, head, "GET / HTTP/1.1\r\nX-A: 1\r\n" HOST PLAIN "Authorization: Bearer " VALUE "\r\n\r\n",
		       NULL);
	}
	expect(one, "api.example", false, "GET / HTTP/1.1\r\n" HOST "X-Authorization: a\r\nAuthorizatio: b\r\nA: Authorization: c\r\n\r\n",
	       "GET / HTTP/1.1\r\n" HOST "X-Authorization: a\r\nAuthorizatio: b\r\nA: Authorization: c\r\n" PLAIN
	       "Authorization: Bearer " VALUE "\r\n\r\n",
	       NULL);
}

static void test_nothing_compressed_is_accepted(void **state)
{
	expect(one, "api.example", false,
	       "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n" HOST "accept_encoding: br, zstd\r\nACCEPT-ENCODING:\r\n\r\n",
	       "GET / HTTP/1.1\r\n" HOST PLAIN "Authorization: Bearer " VALUE "\r\n\r\n", NULL);
}

static void test_an_underscore_is_a_dash_to_some(void **state)
{
	static const char *const rules[] = {"from=env:KEY;hosts=api.example;header=X-Api-Key;format=k={}.", NULL};

	expect(rules, "api.example", false, "GET / HTTP/1.1\r\nx_api-KEY: mine\r\n" HOST "\r\n",
	       "GET / HTTP/1.1\r\n" HOST PLAIN "X-Api-Key: k=" VALUE ".\r\n\r\n", NULL);
}

static void test_the_first_rule_of_a_header_counts(void **state)
{
	static const char *const rules[] = {"from=env:A;hosts=other.example;format=a {}", "from=env:B;hosts=api.example;format=b {}",
	                                    "from=env:C;hosts=api.example;header=AUTHORIZATION;format=c {}",
	                                    "from=env:D;hosts=api.example;header=X-D;format={}", NULL};

	expect(rules, "api.example", false, "GET / HTTP/1.1\r\n" HOST "\r\n",
	       "GET / HTTP/1.1\r\n" HOST PLAIN "Authorization: b " VALUE "2\r\nX-D: " VALUE "4\r\n\r\n", NULL);
}

static void test_rules_of_methods_and_paths(void **state)
{
	static const char *const rules[] = {"from=env:A;hosts=api.example;methods=GET;paths=/v1/**,/me;format=a {}",
	                                    "from=env:B;hosts=api.example;methods=POST,PUT;format=b {}", NULL};

	expect(rules, "api.example", false, "GET /v1/x/y HTTP/1.1\r\n" HOST "\r\n",
	       "GET /v1/x/y HTTP/1.1\r\n" HOST PLAIN "Authorization: a " VALUE "\r\n\r\n", NULL);
	expect(rules, "api.example", false, "GET /me?/../ HTTP/1.1\r\n" HOST "\r\n",
	       "GET /me?/../ HTTP/1.1\r\n" HOST PLAIN "Authorization: a " VALUE "\r\n\r\n", NULL);
	/* no rule for POST has paths: nothing depends on what this one means */
	expect(rules, "api.example", false, "POST /@a%2fb/../c HTTP/1.1\r\n" HOST "\r\n",
	       "POST /@a%2fb/../c HTTP/1.1\r\n" HOST PLAIN "Authorization: b " VALUE "2\r\n\r\n", NULL);
	expect(rules, "api.example", false, "GET /other HTTP/1.1\r\n" HOST "\r\n", NULL,
	       "no secret is for GET /other; env:A is for GET /v1/**, /me; env:B is for POST, PUT");
	expect(rules, "api.example", false, "DELETE /v1/x HTTP/1.1\r\n" HOST "\r\n", NULL, "DELETE /v1/x");
	expect(rules, "api.example", false, "GET /v1/../x HTTP/1.1\r\n" HOST "\r\n", NULL, "\"..\"");
	expect(rules, "api.example", false, "GET /v1/a HTTP/1.1\r\n" HOST "x_http_method_override: PATCH\r\n\r\n", NULL,
	       "x-http-method-override");
	expect(rules, "api.example", false, "GET /v1/a HTTP/1.1\r\n" HOST "X-Original-URL: /admin\r\n\r\n", NULL, "x-original-url");
	/* where rules are for every request, such fields say nothing that matters here */
	expect(one, "api.example", false, "POST / HTTP/1.1\r\nX-HTTP-Method: PATCH\r\n" HOST "\r\n",
	       "POST / HTTP/1.1\r\nX-HTTP-Method: PATCH\r\n" HOST PLAIN "Authorization: Bearer " VALUE "\r\n\r\n", NULL);
}

static void test_what_makes_another_request_of_it_is_denied(void **state)
{
	static const char *const methods[] = {"from=env:A;hosts=api.example;methods=GET", NULL};
	static const char *const paths[] = {"from=env:A;hosts=api.example;paths=/v1/*", NULL};
	static const char *const methods_by[] = {"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-Method",
	                                         "X-Forwarded-Method"};
	static const char *const paths_by[] = {"X-Original-Url",     "X-Original-Uri",        "X-Original-Path",
	                                       "X-Rewrite-Url",      "X-Forwarded-Uri",       "X-Forwarded-Path",
	                                       "X-Forwarded-Prefix", "X-Envoy-Original-Path", "Destination"};
	static const char *const queries[] = {"_method=DELETE", "a&_METHOD=PUT",     "a;_method",
	                                      "%5fmethod=x",    ".method=x",         "+_method=x",
	                                      "_m%65thod[]=x",  "%24httpMethod=PUT", "x-http-method-override=PUT"};
	static const char *const others[] = {"method=x", "_methods=x", "a_method=x", "_metho=x", "x=_method",
	                                     "",         "&",          "%",          "_method%", "a=?_method"};
	char head[256], wanted[512];

	for (size_t i = 0; i < ARRAY_SIZE(methods_by); i++) {
		snprintf(head, sizeof(head), "GET /v1/a HTTP/1.1\r\n" HOST "%s: x\r\n\r\n", methods_by[i]);
		snprintf(wanted, sizeof(wanted), "GET /v1/a HTTP/1.1\r\n" HOST "%s: x\r\n" PLAIN "Authorization: Bearer " VALUE "\r\n\r\n",
		         methods_by[i]);
		expect(methods, "api.example", false, head, NULL, "another request");
		expect(paths, "api.example", false, head, wanted, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(paths_by); i++) {
		snprintf(head, sizeof(head), "GET /v1/a HTTP/1.1\r\n" HOST "%s: x\r\n\r\n", paths_by[i]);
		snprintf(wanted, sizeof(wanted), "GET /v1/a HTTP/1.1\r\n" HOST "%s: x\r\n" PLAIN "Authorization: Bearer " VALUE "\r\n\r\n",
		         paths_by[i]);
		expect(paths, "api.example", false, head, NULL, "another request");
		expect(methods, "api.example", false, head, wanted, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		snprintf(head, sizeof(head), "GET /v1/a?%s HTTP/1.1\r\n" HOST "\r\n", queries[i]);
		snprintf(wanted, sizeof(wanted), "GET /v1/a?%s HTTP/1.1\r\n" HOST PLAIN "Authorization: Bearer " VALUE "\r\n\r\n",
		         queries[i]);
		expect(methods, "api.example", false, head, NULL, "another request");
		expect(paths, "api.example", false, head, wanted, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		snprintf(head, sizeof(head), "GET /v1/a?%s HTTP/1.1\r\n" HOST "\r\n", others[i]);
		snprintf(wanted, sizeof(wanted), "GET /v1/a?%s HTTP/1.1\r\n" HOST PLAIN "Authorization: Bearer " VALUE "\r\n\r\n",
		         others[i]);
		expect(methods, "api.example", false, head, wanted, NULL);
	}
}

static void test_trace_and_whole_addresses_are_denied(void **state)
{
	expect(one, "api.example", false, "TRACE / HTTP/1.1\r\n" HOST "\r\n", NULL, "TRACE");
	expect(one, "api.example", false, "GET http://api.example/ HTTP/1.1\r\n" HOST "\r\n", NULL, "not a path");
}

static void test_port_80_is_not_said_at_443(void **state)
{
	expect(one, "api.example", true, "GET / HTTP/1.1\r\nHost: API.example:80\r\nA: b\r\n\r\n",
	       "GET / HTTP/1.1\r\nA: b\r\nHost: api.example\r\n" PLAIN "Authorization: Bearer " VALUE "\r\n\r\n", NULL);
}

static void test_paths_that_mean_different_things(void **state)
{
	static const char *const good[] = {"/",
	                                   "/a",
	                                   "/a/",
	                                   "/a/b.c/..d/.e/...",
	                                   "/a%20b/%C3%A4",
	                                   "/a;b=c/d",
	                                   "/~x/:y/@z",
	                                   "/%e4%b8%ad.%e6%96%87",
	                                   "/.%e9%85%8d%e7%bd%ae",
	                                   "/%e0%a4%85",
	                                   "/%ef%bc%88a%ef%bc%89",
	                                   "/%20a",
	                                   "/a..%20",
	                                   "/%e2%80%a6",
	                                   "/%f0%9f%98%80"};
	static const char *const bad[] = {"",
	                                  "a",
	                                  "*",
	                                  "/.",
	                                  "/..",
	                                  "/a/.",
	                                  "/a/..",
	                                  "/a/../b",
	                                  "/a/./b",
	                                  "//a",
	                                  "/a//b",
	                                  "/a/..;/b",
	                                  "/a/.;x=y/b",
	                                  "/a/.;",
	                                  "/;/a",
	                                  "/a%2fb",
	                                  "/a%2Fb",
	                                  "/%2e%2e/a",
	                                  "/%2E/a",
	                                  "/a%5cb",
	                                  "/a\\b",
	                                  "/a%",
	                                  "/a%2",
	                                  "/a%zz",
	                                  "/a%u002e",
	                                  "/a%252e",
	                                  "/a%00",
	                                  "/a%0a",
	                                  "/a%7f",
	                                  "/%c0%ae",
	                                  "/%C1%1c",
	                                  "/a#b",
	                                  "/a%23b",
	                                  "/a%3fb",
	                                  "/a%3b",
	                                  "/%e0%80%ae%e0%80%ae/a",
	                                  "/a/%E0%80%AFb",
	                                  "/%e0%9f%bf",
	                                  "/%f0%80%80%ae",
	                                  "/%f8%80%80%80%ae",
	                                  "/%fc%80%80%80%80%ae",
	                                  "/a%ef%bc%8fb",
	                                  "/%ef%bc%8e%ef%bc%8e/a",
	                                  "/%ef%bc%bc",
	                                  "/a%ef%bc%85b",
	                                  "/%ef%b9%92",
	                                  "/%e2%80%a4%e2%80%a4",
	                                  "/%e2%80%a5/a",
	                                  "/a/..%20/b",
	                                  "/a/..%a0/b",
	                                  "/a/..%85",
	                                  "/a/%20../b",
	                                  "/a/.%20",
	                                  "/a/..%c2%a0/b",
	                                  "/a/..%20;x/b",
	                                  "/a/..%e3%80%80/b",
	                                  "/a/..%e2%80%8b/b",
	                                  "/a/..%ef%bb%bf/b"};
	char *long_one = malloc(KEYRING_PATH_MAX + 1);

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (keyring_path_check((struct http_text){good[i], strlen(good[i])}))
			fail_msg("%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (!keyring_path_check((struct http_text){bad[i], strlen(bad[i])}))
			fail_msg("%s", bad[i]);
	assert_non_null(long_one);
	memset(long_one, 'a', KEYRING_PATH_MAX + 1);
	long_one[0] = '/';
	assert_null(keyring_path_check((struct http_text){long_one, KEYRING_PATH_MAX}));
	assert_non_null(keyring_path_check((struct http_text){long_one, KEYRING_PATH_MAX + 1}));
	free(long_one);
}

static void test_a_value_that_no_header_holds(void **state)
{
	struct cordon_policy policy;
	struct keyring keys;
	struct cordon_error err = {0};
	char *value = malloc(SECRET_HEADER_MAX + 1);

	assert_non_null(value);
	memset(value, 'a', SECRET_HEADER_MAX + 1);
	assert_int_equal(policy_init(&policy, &err), 0);
	assert_int_equal(policy_set(&policy, "secrets", RULE, &err), 0);
	for (size_t more = 0; more <= 1; more++) {
		int pipe[2];

		assert_int_equal(keyring_init(&keys, &policy, &err), 0);
		assert_int_equal(pipe2(pipe, O_CLOEXEC), 0);
		assert_int_equal(write(pipe[1], value, SECRET_HEADER_MAX + more), SECRET_HEADER_MAX + more);
		close(pipe[1]);
		assert_int_equal(keyring_read(&keys, pipe[0], &err), more ? -1 : 0);
		close(pipe[0]);
		keyring_clear(&keys);
	}
	assert_non_null(strstr(err.message, "env:KEY: it is too long for a header"));
	policy_clear(&policy);
	free(value);
}

static void test_a_head_with_a_folded_field_never_comes_here(void **state)
{
	static const char head[] = "GET / HTTP/1.1\r\n" HOST "Authorization: a\r\n b\r\n\r\n";
	struct http_part part;
	size_t len = strlen(head);
	const char *why;
	struct http_check *h = http_check_new("api.example", 80);

	assert_non_null(h);
	assert_int_equal(http_check_step(h, head, &len, &part, &why), HTTP_REFUSED);
	assert_int_equal(len, 0);
	assert_false(part.is_head);
	http_check_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_header_is_put_in),
		cmocka_unit_test(test_every_field_of_that_name_is_taken_out),
		cmocka_unit_test(test_nothing_compressed_is_accepted),
		cmocka_unit_test(test_an_underscore_is_a_dash_to_some),
		cmocka_unit_test(test_the_first_rule_of_a_header_counts),
		cmocka_unit_test(test_rules_of_methods_and_paths),
		cmocka_unit_test(test_what_makes_another_request_of_it_is_denied),
		cmocka_unit_test(test_trace_and_whole_addresses_are_denied),
		cmocka_unit_test(test_port_80_is_not_said_at_443),
		cmocka_unit_test(test_paths_that_mean_different_things),
		cmocka_unit_test(test_a_value_that_no_header_holds),
		cmocka_unit_test(test_a_head_with_a_folded_field_never_comes_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
