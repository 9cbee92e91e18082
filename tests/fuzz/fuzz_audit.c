/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit. The first byte of an input says what the rest is: a line of a log, the strings of an event, a text with secrets, or a seal. Besides
 * memory errors, a target fails when a line is accepted that the writer would not have written, when an event does not become a good record, when a
 * known secret comes through, or when a seal has two spellings.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/csv.h"
#include "audit/query.h"
#include "audit/record.h"
#include "audit/scan.h"
#include "audit/seal.h"
#include "base/util.h"
#include "fuzz_seeds.h"
#include "must.h"

enum kind { KIND_LINE, KIND_EVENT, KIND_REDACT, KIND_SEAL, KIND_COUNT };

/* ---- lines ------------------------------------------------------------------------------------------------------------------- */

static void check_string(struct slice s)
{
	struct buf bytes = {0}, again = {0};

	if (!s.at)
		return;
	audit_decode(&bytes, s, TEXT_BYTES);
	MUST(audit_encode(&again, bytes.data, bytes.len, SIZE_MAX) == 0);
	MUST(again.len == s.len && (s.len == 0 || memcmp(again.data, s.at, s.len) == 0));
	buf_free(&bytes);
	buf_free(&again);
}

static void check_csv(const struct audit_line *l)
{
	struct buf row = {0};
	size_t quotes = 0;

	audit_csv_add(&row, l);
	MUST(!row.failed && row.len > 2 && memcmp(row.data + row.len - 2, "\r\n", 2) == 0);
	for (size_t i = 0; i < row.len; i++) {
		MUST(i == 0 || row.data[i - 1] != '"' || row.data[i] != '=' || quotes % 2 == 0);
		quotes += row.data[i] == '"';
	}
	MUST(quotes % 2 == 0);
	buf_free(&row);
}

static void try_line(const char *data, size_t size)
{
	const struct audit_filter f = {.target = "/app/**", .action = "*", .sandbox = "a", .since = "2026-01-31T12:00:00.000000Z"};
	struct audit_line l;

	if (audit_scan(data, size, &l))
		return;
	MUST(!memchr(data, '\n', size) && size < AUDIT_LINE_MAX && l.seq > 0 && l.record + AUDIT_TAIL == size);
	const struct slice strings[] = {l.tenant, l.sandbox, l.exec, l.action, l.target, l.rule};
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		check_string(strings[i]);
	check_csv(&l);
	audit_matches(&f, &l);
	audit_line_intact(&l);
}

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

static void try_event(const char *data, size_t size)
{
	enum { PARTS = 8 };
	char *parts[PARTS + 1] = {0}, *copy = malloc(size + 1);
	struct chain_head head = {.hash = AUDIT_NO_HASH};
	struct buf body = {0}, line = {0};
	struct cordon_error err = {0};
	struct audit_line l;

	MUST(copy);
	memcpy(copy, data, size);
	copy[size] = '\0';
	for (size_t i = 0, at = 0; i < PARTS && at <= size; i++) {
		parts[i] = copy + at;
		at += strlen(copy + at) + 1;
	}
	const struct audit_field inner[] = {AUDIT_TEXT("inner", parts[5]), AUDIT_END};
	const struct audit_field detail[] = {AUDIT_ARGV("argv", parts), AUDIT_ENV("env", parts), AUDIT_TEXT("text", parts[3]),
	                                     AUDIT_OBJECT("object", inner), AUDIT_END};
	const struct audit_event e = {.level = (enum audit_level)(size % AUDIT_LEVEL_COUNT),
	                              .allowed = (enum audit_allowed)(size % AUDIT_ALLOWED_COUNT),
	                              .tenant = parts[0],
	                              .sandbox = parts[1],
	                              .action = "x",
	                              .target = data,
	                              .target_len = size,
	                              .rule = parts[2],
	                              .detail = detail};
	MUST(audit_body(&body, &e, NULL, &err) == 0 && body.len <= RECORD_BODY_MAX);
	audit_chain(&line, &head, body.data, body.len);
	MUST(!line.failed && line.len <= AUDIT_LINE_MAX && memchr(line.data, '\n', line.len) == line.data + line.len - 1);
	MUST(!audit_scan(line.data, line.len - 1, &l) && audit_line_intact(&l) && l.seq == 1);
	buf_free(&body);
	buf_free(&line);
	free(copy);
}

/* ---- secrets and seals ------------------------------------------------------------------------------------------------------- */

static void try_redact(const char *data, size_t size)
{
	static const char *const values[] = {"hunter2", NULL};
	const struct redactor r = {.values = values};
	struct buf out = {0};

	redact_text(&r, data, size, &out);
	MUST(!out.failed && (out.len == 0 || !memmem(out.data, out.len, "hunter2", 7)));
	buf_free(&out);
}

static void try_seal(const char *data, size_t size)
{
	struct buf text = {0};
	struct seal s;
	char *copy = strndup(data, size);

	MUST(copy);
	if (strlen(copy) == size && !seal_parse(copy, size, &s)) {
		seal_text(&s, &text);
		buf_addf(&text, "signature %s\n", s.signature);
		MUST(text.len == size && memcmp(text.data, data, size) == 0);
	}
	buf_free(&text);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const tries[KIND_COUNT])(const char *, size_t) = {try_line, try_event, try_redact, try_seal};
	char *rest;

	if (size < 2 || size > 70000)
		return 0;
	rest = malloc(size - 1); /* its own block, so that a byte too far is noticed */
	MUST(rest);
	memcpy(rest, data + 1, size - 1);
	tries[data[0] % KIND_COUNT](rest, size - 1);
	free(rest);
	return 0;
}

/* ---- seeds ------------------------------------------------------------------------------------------------------------------- */

static void seed_lines(const char *dir)
{
	const char *const texts[] = {"a", "b\n", "\xff\xc3\xbc", NULL};
	const struct audit_field inner[] = {AUDIT_TEXTS("t", texts), AUDIT_END};
	const struct audit_field *const list[] = {inner, inner, NULL};
	const struct audit_field detail[] = {AUDIT_INT("n", -5), AUDIT_REAL("r", 1.5),     AUDIT_BOOL("b", true),
	                                     AUDIT_NULL("z"),    AUDIT_OBJECTS("o", list), AUDIT_END};
	const struct audit_event events[] = {
		{.action = "start",
	         .target = "/usr/bin/make",
	         .sandbox = "abc",
	         .exec = "def",
	         .rule = "process.allow",
	         .tenant = "acme",
	         .detail = detail},
		{.action = "rotate", .category = AUDIT_SYSTEM, .level = AUDIT_CRITICAL, .allowed = AUDIT_DENIED},
		{.action = "x", .target = "=1+1\xe2\x80\xa8\"\\\x01", .allowed = AUDIT_ALLOWED},
	};
	struct chain_head head = {.hash = AUDIT_NO_HASH};

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct buf body = {0}, line = {0};
		char name[32];

		snprintf(name, sizeof(name), "line-%zu", i);
		if (audit_body(&body, &events[i], NULL, NULL) == 0)
			audit_chain(&line, &head, body.data, body.len);
		if (line.len)
			seed_write(dir, name, KIND_LINE, line.data, line.len - 1);
		buf_free(&body);
		buf_free(&line);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char event[] = "acme\0box\0curl\0-u\0me:pw\0--token\0abc\0\xff\xfe";
	static const char *const texts[] = {"curl -u me:hunter2 -H 'Authorization: Bearer x' https://u:p@h/?api_key=x",
	                                    "{\"password\": \"a\\\"b\"} mysql -pX; docker login -p y --token $T",
	                                    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
	                                    "AKIAABCDEFGHIJKLMNOP sk-a1B2c3D4e5F6g7H8i9J0 eyJabc.eyJdef.ghi12345678901234"};
	const char *dir = seeds_directory(*argc, *argv);
	struct seal s = {
		.number = 1, .first = 1, .last = 2, .size = 3, .prev = AUDIT_NO_HASH, .head = AUDIT_NO_HASH, .sha256 = AUDIT_NO_HASH};
	struct buf text = {0};

	seed_lines(dir);
	seed_write(dir, "event", KIND_EVENT, event, sizeof(event));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char name[32];

		snprintf(name, sizeof(name), "redact-%zu", i);
		seed_write(dir, name, KIND_REDACT, texts[i], strlen(texts[i]));
	}
	audit_time(0, s.from);
	audit_time(0, s.to);
	audit_time(0, s.sealed);
	memset(s.key, 'a', SEAL_KEY_ID);
	seal_text(&s, &text);
	buf_add_str(&text, "signature ");
	for (int i = 0; i < SEAL_SIGNATURE; i++)
		buf_add(&text, "A", 1);
	buf_add(&text, "\n", 1);
	if (!text.failed)
		seed_write(dir, "seal", KIND_SEAL, text.data, text.len);
	buf_free(&text);
	return 0;
}
