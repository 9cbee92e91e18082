/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/reply.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"

#define HEADER 12
#define NAME_MAX_LEN 255 /* with lengths and the root */
#define LABEL_MAX 63
#define RECORD_FIXED 10 /* type, class, TTL, length */

#define TYPE_A 1
#define TYPE_CNAME 5
#define TYPE_AAAA 28
#define CLASS_IN 1

#define FLAG_ANSWER 0x80 /* of the third byte */
#define FLAGS_OPCODE 0x78
#define FLAG_TRUNCATED 0x02
#define FLAG_RECURSION 0x01
#define CODE_MASK 0x0f /* of the fourth */
#define CODE_OK 0
#define CODE_NO_NAME 3

/* Labels with their lengths, letters in lower case, up to the root. */
struct name {
	size_t len;
	unsigned char bytes[NAME_MAX_LEN];
};

struct message {
	const unsigned char *data;
	size_t len;
};

struct record {
	struct name owner;
	uint16_t type, class;
	size_t at, len; /* its data */
};

static uint16_t u16(const struct message *m, size_t at)
{
	return (uint16_t)(m->data[at] << 8 | m->data[at + 1]);
}

/* ---- the question -------------------------------------------------------------------------------------------------------------- */

size_t reply_question(const char *name, int family, uint16_t id, unsigned char out[REPLY_QUESTION_MAX])
{
	const unsigned char head[HEADER] = {(unsigned char)(id >> 8), (unsigned char)id, FLAG_RECURSION, 0, 0, 1};
	const unsigned char tail[5] = {0, 0, family == AF_INET ? TYPE_A : TYPE_AAAA, 0, CLASS_IN};
	size_t at = HEADER;
	memcpy(out, head, HEADER);
	for (const char *label = name; label;) {
		const char *dot = strchr(label, '.');
		const size_t len = dot ? (size_t)(dot - label) : strlen(label);
		if (len == 0 || len > LABEL_MAX || at + 1 + len + 1 > HEADER + NAME_MAX_LEN)
			return 0;
		out[at++] = (unsigned char)len;
		memcpy(out + at, label, len);
		at += len;
		label = dot ? dot + 1 : NULL;
	}
	memcpy(out + at, tail, sizeof(tail));
	return at + sizeof(tail);
}

/* ---- names in an answer -------------------------------------------------------------------------------------------------------- */

static bool add_label(struct name *n, const unsigned char *label)
{
	const size_t len = (size_t)label[0] + 1;
	if (n->len + len > NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = label[i];
		n->bytes[n->len++] = i > 0 && c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
	}
	return true;
}

/*
 * *at: behind the name, as it stands there. A pointer leads backwards, to before the part that it ends: there is no going round in circles, and
 * who makes it a long way is not followed.
 */
static bool read_name(const struct message *m, size_t *at, struct name *out)
{
	size_t here = *at, part = here;
	unsigned jumps = 0;
	out->len = 0;
	while (here < m->len) {
		const unsigned char len = m->data[here];
		if (len > LABEL_MAX) {
			if (len < 0xc0 || here + 2 > m->len)
				return false;
			const size_t to = (size_t)(u16(m, here) & 0x3fff);
			if (to >= part || jumps == REPLY_JUMPS_MAX)
				return false;
			*at = jumps ? *at : here + 2;
			jumps++;
			here = part = to;
			continue;
		}
		if (here + 1 + len > m->len || !add_label(out, m->data + here))
			return false;
		here += 1u + len;
		if (len == 0) {
			*at = jumps ? *at : here;
			return true;
		}
	}
	return false;
}

static bool same_name(const struct name *a, const struct name *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* ---- the answer ---------------------------------------------------------------------------------------------------------------- */

static bool read_record(const struct message *m, size_t *at, struct record *out)
{
	if (!read_name(m, at, &out->owner) || *at + RECORD_FIXED > m->len)
		return false;
	out->type = u16(m, *at);
	out->class = u16(m, *at + 2);
	out->len = u16(m, *at + 8);
	out->at = *at + RECORD_FIXED;
	*at = out->at + out->len;
	return *at <= m->len;
}

/* All of them are looked at, in whatever order they are. -1: one cannot be read; 0: the name has no other; 1: *name is its other name. */
static int follow(const struct message *m, size_t begin, unsigned records, struct name *name)
{
	struct record r;
	for (size_t at = begin; records > 0; records--) {
		if (!read_record(m, &at, &r))
			return -1;
		if (r.type != TYPE_CNAME || r.class != CLASS_IN || !same_name(&r.owner, name))
			continue;
		size_t target = r.at;
		if (!read_name(m, &target, name) || target != r.at + r.len)
			return -1;
		return 1;
	}
	return 0;
}

static bool collect(const struct message *m, size_t at, unsigned records, const struct name *name, uint16_t type, struct reply *out)
{
	const size_t size = type == TYPE_A ? 4 : 16;
	struct record r;
	for (; records > 0; records--) {
		if (!read_record(m, &at, &r))
			return false;
		if (r.type != type || r.class != CLASS_IN || !same_name(&r.owner, name))
			continue;
		if (r.len != size)
			return false;
		if (out->count < REPLY_ADDRESSES_MAX)
			memcpy(out->addresses[out->count++], m->data + r.at, size);
	}
	return true;
}

/* The question is there again, as it was asked; only letters may have another case. */
static bool read_question(const struct message *m, const struct message *asked, size_t *at, struct name *name)
{
	struct name same;
	size_t end = HEADER;
	*at = HEADER;
	return u16(m, 4) == 1 && read_name(m, at, name) && read_name(asked, &end, &same) && same_name(name, &same) && *at + 4 <= m->len &&
	       memcmp(m->data + *at, asked->data + end, 4) == 0;
}

enum reply_kind reply_read(const void *message, size_t len, const unsigned char *question, size_t question_len, struct reply *out)
{
	const struct message m = {message, len}, asked = {question, question_len};
	struct name name;
	size_t at;
	int more = 1;
	out->count = 0;
	if (len < HEADER || memcmp(m.data, question, 2) != 0 || (m.data[2] & (FLAG_ANSWER | FLAGS_OPCODE)) != FLAG_ANSWER ||
	    !read_question(&m, &asked, &at, &name))
		return REPLY_FOREIGN;
	if (m.data[2] & FLAG_TRUNCATED)
		return REPLY_TRUNCATED;
	if ((m.data[3] & CODE_MASK) != CODE_OK)
		return (m.data[3] & CODE_MASK) == CODE_NO_NAME ? REPLY_NO_NAME : REPLY_FAILED;
	const uint16_t type = u16(&m, at), records = MIN(u16(&m, 6), (uint16_t)REPLY_RECORDS_MAX);
	at += 4;
	for (unsigned aliases = 0; more == 1; aliases++)
		more = aliases > REPLY_ALIASES_MAX ? -1 : follow(&m, at, records, &name);
	return more == 0 && collect(&m, at, records, &name, type, out) ? REPLY_ADDRESSES : REPLY_FAILED;
}
