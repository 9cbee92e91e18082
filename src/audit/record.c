/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit/text.h"
#include "base/sha256.h"
#include "base/util.h"

const char *const audit_level_names[AUDIT_LEVEL_COUNT] = {"debug", "info", "warning", "error", "critical"};
const char *const audit_category_names[AUDIT_CATEGORY_COUNT] = {"exec", "file", "network", "policy", "snapshot", "auth", "system"};
const char *const audit_allowed_names[AUDIT_ALLOWED_COUNT] = {"null", "true", "false"};

enum { ACTION_MAX = 64, DEPTH_MAX = 8, TOKEN_MAX = 4096 };

/* Bytes that a string may take in a record, so that none of them leaves too little for the others. */
enum { ID_ROOM = 512, RULE_ROOM = 2048, TARGET_ROOM = 16384 };

/*
 * What a string and a list in detail may take. If it does not all fit, everything is tried again with the next row, so that one long string does not
 * push out what comes behind it.
 */
static const struct room {
	size_t text;  /* bytes of a string */
	size_t items; /* of a list */
} rooms[] = {{RECORD_BODY_MAX, SIZE_MAX}, {16384, 2048}, {4096, 512}, {1024, 128}, {256, 64}, {64, 16}, {16, 4}};

struct encoder {
	struct buf *out;
	const struct redactor *r;
	const struct room *room;
	size_t end; /* the most that `out` may hold */
	size_t cut; /* bytes that were left out */
};

int64_t audit_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

/*
 * Without its secrets: these must be found before anything is cut, since half a token has no shape. Only as much is looked at as can be shown, and some more;
 * there may be half a token where that ends, so as much goes again.
 */
static size_t redact(struct encoder *x, const struct audit_field *f, struct redact_state *state, const char *s, size_t len, size_t room,
                     struct buf *out)
{
	const size_t some = MIN(len, room + TOKEN_MAX);

	if (f && f->type == AUDIT_TYPE_ARGV)
		redact_word(x->r, state, s, some, out);
	else if (f && f->type == AUDIT_TYPE_ENV)
		redact_variable(x->r, s, some, out);
	else
		redact_text(x->r, s, some, out);
	x->out->failed = x->out->failed || out->failed;
	if (some == len || out->failed)
		return 0;
	const size_t kept = out->len - MIN(out->len, (size_t)TOKEN_MAX), missing = len - some + (out->len - kept);
	out->len = kept;
	return missing;
}

static void add_quoted(struct encoder *x, const struct audit_field *f, struct redact_state *state, const char *s, size_t len, size_t room)
{
	_cleanup_buf_ struct buf plain = {0};
	const size_t missing = redact(x, f, state, s, len, room, &plain);

	buf_add(x->out, "\"", 1);
	const size_t cut = audit_encode(x->out, plain.data, plain.len, room);
	if (missing && !cut)
		buf_add_str(x->out, AUDIT_CUT_MARK);
	x->cut += missing + cut;
	buf_add(x->out, "\"", 1);
}

static void add_text(struct encoder *x, const char *s, size_t len, size_t room)
{
	if (s)
		add_quoted(x, NULL, NULL, s, len, room);
	else
		buf_add_str(x->out, "null");
}

/* Ids and rules, which have no secrets in them. */
static void add_member(struct encoder *x, const char *key, const char *s, size_t room)
{
	buf_add_str(x->out, key);
	if (!s) {
		buf_add(x->out, "null", 4);
		return;
	}
	buf_add(x->out, "\"", 1);
	x->cut += audit_encode(x->out, s, strlen(s), room);
	buf_add(x->out, "\"", 1);
}

static bool is_full(const struct encoder *x)
{
	return x->out->len > x->end || x->out->failed;
}

static void add_texts(struct encoder *x, const struct audit_field *f)
{
	struct redact_state state = {.program = NULL};
	size_t i = 0;

	buf_add(x->out, "[", 1);
	for (const char *const *s = f->value.texts; s && *s; s++, i++) {
		if (i >= x->room->items || is_full(x)) {
			x->cut += strlen(*s);
			continue;
		}
		if (i)
			buf_add(x->out, ",", 1);
		add_quoted(x, f, &state, *s, strlen(*s), x->room->text);
	}
	buf_add(x->out, "]", 1);
}

/* Without "%f", because printf writes the decimal point of the caller's locale. */
static void add_real(struct buf *out, double v)
{
	if (!isfinite(v) || v >= 1e15 || v <= -1e15) {
		buf_add_str(out, "null");
		return;
	}
	int64_t thousandths = (int64_t)(v < 0 ? v * 1000 - 0.5 : v * 1000 + 0.5);
	uint64_t size = (uint64_t)(thousandths < 0 ? -thousandths : thousandths);

	buf_addf(out, "%s%" PRIu64 ".%03u", thousandths < 0 ? "-" : "", size / 1000, (unsigned)(size % 1000));
}

static void add_object(struct encoder *x, const struct audit_field *fields, unsigned depth);

static void add_objects(struct encoder *x, const struct audit_field *const *objects, unsigned depth)
{
	size_t i = 0;

	buf_add(x->out, "[", 1);
	for (; objects && *objects; objects++, i++) {
		if (i >= x->room->items || is_full(x)) {
			x->cut++; /* at least: what it holds is not counted */
			continue;
		}
		if (i)
			buf_add(x->out, ",", 1);
		add_object(x, *objects, depth);
	}
	buf_add(x->out, "]", 1);
}

static void add_value(struct encoder *x, const struct audit_field *f, unsigned depth)
{
	if (f->type >= AUDIT_TYPE_INT && redact_name(x->r, f->key, strlen(f->key))) {
		buf_add_str(x->out, "\"" REDACTED "\"");
		return;
	}
	switch (f->type) {
	case AUDIT_TYPE_BOOL:
		buf_add_str(x->out, f->value.flag ? "true" : "false");
		break;
	case AUDIT_TYPE_INT:
		buf_addf(x->out, "%" PRId64, f->value.number);
		break;
	case AUDIT_TYPE_REAL:
		add_real(x->out, f->value.real);
		break;
	case AUDIT_TYPE_TEXT:
		add_text(x, f->value.text, f->value.text ? strlen(f->value.text) : 0, x->room->text);
		break;
	case AUDIT_TYPE_TEXTS:
	case AUDIT_TYPE_ARGV:
	case AUDIT_TYPE_ENV:
		add_texts(x, f);
		break;
	case AUDIT_TYPE_OBJECT:
		add_object(x, f->value.object, depth);
		break;
	case AUDIT_TYPE_OBJECTS:
		add_objects(x, f->value.objects, depth);
		break;
	case AUDIT_TYPE_NULL:
	default:
		buf_add_str(x->out, "null");
		break;
	}
}

static void add_fields(struct encoder *x, const struct audit_field *fields, unsigned depth)
{
	for (const struct audit_field *f = fields; f && f->key; f++) {
		buf_add_str(x->out, f == fields ? "\"" : ",\"");
		audit_encode(x->out, f->key, strlen(f->key), ID_ROOM);
		buf_add_str(x->out, "\":");
		add_value(x, f, depth + 1);
	}
}

static void add_object(struct encoder *x, const struct audit_field *fields, unsigned depth)
{
	if (depth >= DEPTH_MAX) {
		x->cut++;
		buf_add_str(x->out, "null");
		return;
	}
	buf_add(x->out, "{", 1);
	add_fields(x, fields, depth);
	buf_add(x->out, "}", 1);
}

/* ---- records ----------------------------------------------------------------------------------------------------------------- */

/* The whole detail with the given room; false if it does not fit. `cut` bytes are missing elsewhere in the record. */
static bool add_detail(struct encoder *x, const struct audit_event *e, size_t cut)
{
	size_t begin = x->out->len;

	x->cut = cut;
	if (!e->detail && !cut) {
		buf_add_str(x->out, "null");
		return true;
	}
	buf_add(x->out, "{", 1);
	if (x->room)
		add_fields(x, e->detail, 0);
	else
		x->cut++; /* nothing of it fits */
	if (x->cut)
		buf_addf(x->out, "%s\"cut\":%zu", x->out->len > begin + 1 ? "," : "", x->cut);
	buf_add(x->out, "}", 1);
	if (x->out->len <= x->end || x->out->failed)
		return true;
	x->out->len = begin;
	return false;
}

static int check_action(const char *action, struct cordon_error *err)
{
	size_t len = action ? strspn(action, "abcdefghijklmnopqrstuvwxyz0123456789_.-") : 0;

	if (len == 0 || len > ACTION_MAX || action[len] || action[0] < 'a' || action[0] > 'z')
		return err_set(err, CORDON_ERR_INPUT,
		               "audit: '%.80s' is not an action: a lower-case word of at most %d letters, digits, _, . and -",
		               action ? action : "", ACTION_MAX);
	return 0;
}

static void add_parts(struct buf *out, const char *a, const char *b, const char *c)
{
	buf_add_str(out, a);
	buf_add_str(out, b);
	buf_add_str(out, c);
}

int audit_body(struct buf *out, const struct audit_event *e, const struct redactor *r, struct cordon_error *err)
{
	struct encoder x = {.out = out, .r = r, .end = out->len + RECORD_BODY_MAX};
	char time[TEXT_TIME + 1];

	if (check_action(e->action, err) < 0)
		return -1;
	if ((unsigned)e->level >= AUDIT_LEVEL_COUNT || (unsigned)e->category >= AUDIT_CATEGORY_COUNT ||
	    (unsigned)e->allowed >= AUDIT_ALLOWED_COUNT)
		return err_set(err, CORDON_ERR_INPUT, "audit: level, category or allowed is not one that there is");
	audit_time(e->time_us ? e->time_us : audit_now(), time);
	add_parts(out, ",\"ts\":\"", time, "\"");
	add_member(&x, ",\"tenant\":", e->tenant, ID_ROOM);
	add_member(&x, ",\"sandbox\":", e->sandbox, ID_ROOM);
	add_member(&x, ",\"exec\":", e->exec, ID_ROOM);
	add_parts(out, ",\"level\":\"", audit_level_names[e->level], "\",\"category\":\"");
	add_parts(out, audit_category_names[e->category], "\",\"action\":\"", e->action);
	buf_add_str(out, "\",\"target\":");
	add_text(&x, e->target, e->target_len || !e->target ? e->target_len : strlen(e->target), TARGET_ROOM);
	add_parts(out, ",\"allowed\":", audit_allowed_names[e->allowed], "");
	add_member(&x, ",\"rule\":", e->rule, RULE_ROOM);
	buf_add_str(out, ",\"detail\":");

	const size_t cut = x.cut;
	bool fits = false;
	for (size_t i = 0; i < ARRAY_SIZE(rooms) && !fits; i++) {
		x.room = &rooms[i];
		fits = add_detail(&x, e, cut);
	}
	x.room = NULL;
	if (!fits)
		add_detail(&x, e, cut);
	return out->failed ? err_set(err, CORDON_ERR_SYSTEM, "audit: out of memory") : 0;
}

/* ---- the chain --------------------------------------------------------------------------------------------------------------- */

void audit_hash(const char *prev, const char *record, size_t len, char hash[AUDIT_HASH + 1])
{
	unsigned char digest[SHA256_SIZE];
	struct sha256 s;

	sha256_begin(&s);
	sha256_add(&s, prev, AUDIT_HASH);
	sha256_add(&s, record, len);
	sha256_add(&s, "}", 1);
	sha256_end(&s, digest);
	sha256_hex(digest, hash);
}

void audit_chain(struct buf *out, struct chain_head *head, const char *body, size_t len)
{
	size_t begin = out->len;
	char hash[AUDIT_HASH + 1], number[32];
	int n = snprintf(number, sizeof(number), "{\"seq\":%" PRIu64, head->seq + 1);

	buf_add(out, number, (size_t)n);
	buf_add(out, body, len);
	if (out->failed)
		return;
	audit_hash(head->hash, out->data + begin, out->len - begin, hash);
	buf_add(out, ",\"prev\":\"", 9);
	buf_add(out, head->hash, AUDIT_HASH);
	buf_add(out, "\",\"hash\":\"", 10);
	buf_add(out, hash, AUDIT_HASH);
	buf_add(out, "\"}\n", 3);
	memcpy(head->hash, hash, sizeof(hash));
	head->seq++;
}
