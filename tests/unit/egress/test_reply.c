/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of resolvers: what is right is read, and what is not is passed over, or is an error, never more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/buf.h"
#include "egress/reply.h"

#define A 1
#define CNAME 5
#define AAAA 28

static unsigned char question[REPLY_QUESTION_MAX];
static size_t question_len;
static struct reply found;

static void ask(const char *name, int family)
{
	question_len = reply_question(name, family, 0xbeef, question);
	assert_true(question_len > 0);
}

/* Made of the question: an answer with so many records, which are to follow. */
static void begin(struct buf *b, unsigned char flags, unsigned char code, unsigned records)
{
	buf_add(b, question, question_len);
	b->data[2] = (char)(0x80 | flags);
	b->data[3] = (char)(0x80 | code);
	b->data[6] = (char)(records >> 8);
	b->data[7] = (char)records;
}

static void add_record(struct buf *b, const void *owner, size_t owner_len, unsigned char type, const void *data, size_t len)
{
	const unsigned char fixed[] = {0, type, 0, 1, 0, 0, 0, 60, (unsigned char)(len >> 8), (unsigned char)len};
	buf_add(b, owner, owner_len);
	buf_add(b, fixed, sizeof(fixed));
	buf_add(b, data, len);
}

#define ASKED "\xc0\x0c" /* the name in the question */
#define ADD(b, owner, type, data) add_record(b, owner, sizeof(owner) - 1, type, data, sizeof(data) - 1)

static enum reply_kind read_it(const struct buf *b)
{
	memset(&found, 0x5a, sizeof(found));
	char *exact = malloc(b->len); /* so that a byte too many is noticed */
	assert_non_null(exact);
	memcpy(exact, b->data, b->len);
	enum reply_kind kind = reply_read(exact, b->len, question, question_len, &found);
	free(exact);
	return kind;
}

static void test_addresses_of_both_families_are_read(void **state)
{
	_cleanup_buf_ struct buf b = {0}, b6 = {0};
	(void)state;
	ask("api.example", AF_INET);
	begin(&b, 0, 0, 2);
	ADD(&b, ASKED, A, "\1\2\3\4");
	ADD(&b, "\3API\7eXample\0", A, "\5\6\7\10");
	assert_int_equal(read_it(&b), REPLY_ADDRESSES);
	assert_int_equal(found.count, 2);
	assert_memory_equal(found.addresses[0], "\1\2\3\4", 4);
	assert_memory_equal(found.addresses[1], "\5\6\7\10", 4);
	ask("api.example", AF_INET6);
	begin(&b6, 0, 0, 2);
	ADD(&b6, ASKED, A, "\1\2\3\4"); /* nobody asked for it */
	ADD(&b6, ASKED, AAAA, "0123456789abcdef");
	assert_int_equal(read_it(&b6), REPLY_ADDRESSES);
	assert_int_equal(found.count, 1);
	assert_memory_equal(found.addresses[0], "0123456789abcdef", 16);
}

static void test_aliases_are_followed_in_any_order(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	(void)state;
	ask("a.example", AF_INET);
	begin(&b, 0, 0, 5);
	ADD(&b, "\1c\0", A, "\1\1\1\1");
	ADD(&b, "\1b\0", CNAME, "\1c\0");
	ADD(&b, "\5other\0", A, "\6\6\6\6");
	ADD(&b, ASKED, CNAME, "\1b\0");
	ADD(&b, "\1C\0", A, "\2\2\2\2");
	assert_int_equal(read_it(&b), REPLY_ADDRESSES);
	assert_int_equal(found.count, 2);
	assert_memory_equal(found.addresses[0], "\1\1\1\1", 4);
	assert_memory_equal(found.addresses[1], "\2\2\2\2", 4);
}

static void test_aliases_that_go_in_circles_are_an_error(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	(void)state;
	ask("a.example", AF_INET);
	begin(&b, 0, 0, 3);
	ADD(&b, ASKED, CNAME, "\1b\0");
	ADD(&b, "\1b\0", CNAME, ASKED);
	ADD(&b, ASKED, A, "\1\1\1\1");
	assert_int_equal(read_it(&b), REPLY_FAILED);
}

static void test_what_is_no_answer_to_the_question_is_foreign(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	static const size_t spots[] = {0, 1, 4, 5, 13, 14, 15};
	(void)state;
	ask("a1.example", AF_INET);
	begin(&b, 0, 0, 1);
	ADD(&b, ASKED, A, "\1\1\1\1");
	assert_int_equal(read_it(&b), REPLY_ADDRESSES);
	for (size_t i = 0; i < sizeof(spots) / sizeof(spots[0]); i++) {
		b.data[spots[i]] ^= 1;
		assert_int_equal(read_it(&b), REPLY_FOREIGN); /* the id, how many questions, the name */
		b.data[spots[i]] ^= 1;
	}
	b.data[question_len - 3] ^= 1; /* the type */
	assert_int_equal(read_it(&b), REPLY_FOREIGN);
	b.data[question_len - 3] ^= 1;
	b.data[2] = 1; /* a question itself */
	assert_int_equal(read_it(&b), REPLY_FOREIGN);
	b.data[2] = (char)0xa8; /* an answer to something else than a query */
	assert_int_equal(read_it(&b), REPLY_FOREIGN);
}

static void test_codes_and_truncation_are_told(void **state)
{
	static const struct {
		unsigned char flags, code;
		enum reply_kind kind;
	} cases[] = {{0, 0, REPLY_ADDRESSES}, {0, 3, REPLY_NO_NAME}, {0, 2, REPLY_FAILED}, {0, 5, REPLY_FAILED}, {2, 0, REPLY_TRUNCATED}};
	(void)state;
	ask("a.example", AF_INET);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_buf_ struct buf b = {0};
		begin(&b, cases[i].flags, cases[i].code, 0);
		assert_int_equal(read_it(&b), cases[i].kind);
		assert_int_equal(found.count, 0);
	}
}

static void test_every_answer_that_is_cut_off_is_refused(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	(void)state;
	ask("a.example", AF_INET);
	begin(&b, 0, 0, 2);
	ADD(&b, ASKED, CNAME, "\1b\xc0\x0e");
	ADD(&b, "\1b\xc0\x0e", A, "\1\1\1\1");
	const size_t whole = b.len;
	assert_int_equal(read_it(&b), REPLY_ADDRESSES);
	assert_int_equal(found.count, 1);
	for (b.len = 0; b.len < whole; b.len++)
		assert_int_equal(read_it(&b), b.len < question_len ? REPLY_FOREIGN : REPLY_FAILED);
}

static void test_records_that_lie_are_an_error(void **state)
{
	(void)state;
	ask("a.example", AF_INET);
	{
		_cleanup_buf_ struct buf b = {0}; /* an address of five bytes */
		begin(&b, 0, 0, 1);
		ADD(&b, ASKED, A, "\1\1\1\1\1");
		assert_int_equal(read_it(&b), REPLY_FAILED);
	}
	{
		_cleanup_buf_ struct buf b = {0}; /* a name that points at itself */
		begin(&b, 0, 0, 1);
		const unsigned char self[] = {(unsigned char)(0xc0 | b.len >> 8), (unsigned char)b.len};
		add_record(&b, self, 2, A, "\1\1\1\1", 4);
		assert_int_equal(read_it(&b), REPLY_FAILED);
	}
	{
		_cleanup_buf_ struct buf b = {0}; /* an alias with something behind it */
		begin(&b, 0, 0, 1);
		ADD(&b, ASKED, CNAME, "\1b\0\0");
		assert_int_equal(read_it(&b), REPLY_FAILED);
	}
	{
		_cleanup_buf_ struct buf b = {0}; /* a label of a kind that there is not */
		begin(&b, 0, 0, 1);
		ADD(&b, "\x80xxxx\0", A, "\1\1\1\1");
		assert_int_equal(read_it(&b), REPLY_FAILED);
	}
}

static void test_more_addresses_than_there_is_room_for_are_left_out(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	(void)state;
	ask("a.example", AF_INET);
	begin(&b, 0, 0, 300);
	for (int i = 0; i < 300; i++)
		ADD(&b, ASKED, A, "\1\1\1\1");
	assert_int_equal(read_it(&b), REPLY_ADDRESSES);
	assert_int_equal(found.count, REPLY_ADDRESSES_MAX);
}

/* What is behind the question begins with so many pointers, each to the one before, the first to the name in the question. Where the last one is. */
static size_t add_chain(struct buf *b, unsigned pointers)
{
	size_t last = 12;
	for (unsigned i = 0; i < pointers; i++) {
		const unsigned char pointer[] = {(unsigned char)(0xc0 | last >> 8), (unsigned char)last};
		last = b->len;
		buf_add(b, pointer, sizeof(pointer));
	}
	return last;
}

/* A record of the name that is so many pointers away; where they are is some other record's data. */
static enum reply_kind read_after_jumps(unsigned jumps)
{
	_cleanup_buf_ struct buf b = {0};
	ask("a.example", AF_INET);
	begin(&b, 0, 0, 2);
	add_record(&b, ASKED, 2, 16, "", 0); /* TXT */
	const size_t length_at = b.len - 2;
	const size_t last = add_chain(&b, jumps - 1);
	const size_t len = b.len - length_at - 2;
	b.data[length_at] = (char)(len >> 8);
	b.data[length_at + 1] = (char)len;
	const unsigned char owner[] = {(unsigned char)(0xc0 | last >> 8), (unsigned char)last};
	add_record(&b, owner, 2, A, "\1\2\3\4", 4);
	return read_it(&b);
}

static void test_a_name_has_no_more_pointers_than_labels(void **state)
{
	(void)state;
	assert_int_equal(read_after_jumps(1), REPLY_ADDRESSES);
	assert_int_equal(found.count, 1);
	assert_int_equal(read_after_jumps(REPLY_JUMPS_MAX), REPLY_ADDRESSES);
	assert_int_equal(found.count, 1);
	assert_int_equal(read_after_jumps(REPLY_JUMPS_MAX + 1), REPLY_FAILED);
}

static void test_records_behind_many_others_are_not_looked_at(void **state)
{
	(void)state;
	ask("a.example", AF_INET);
	for (unsigned others = REPLY_RECORDS_MAX - 1; others <= REPLY_RECORDS_MAX; others++) {
		_cleanup_buf_ struct buf b = {0};
		begin(&b, 0, 0, others + 1);
		for (unsigned i = 0; i < others; i++)
			ADD(&b, "\1b\0", A, "\1\1\1\1");
		ADD(&b, ASKED, A, "\2\2\2\2");
		assert_int_equal(read_it(&b), REPLY_ADDRESSES);
		assert_int_equal(found.count, others < REPLY_RECORDS_MAX);
	}
}

static void test_names_that_dns_has_not_are_not_asked_for(void **state)
{
	char label[70], name[300] = "";
	(void)state;
	memset(label, 'a', sizeof(label));
	label[64] = '\0';
	assert_int_equal(reply_question(label, AF_INET, 1, question), 0);
	label[63] = '\0';
	assert_true(reply_question(label, AF_INET, 1, question) > 0);
	assert_int_equal(reply_question("", AF_INET, 1, question), 0);
	assert_int_equal(reply_question("a..b", AF_INET, 1, question), 0);
	memset(name, 'a', 255);
	for (size_t i = 1; i < 255; i += 2)
		name[i] = '.';
	assert_int_equal(reply_question(name, AF_INET6, 1, question), 0);
	name[253] = '\0';
	assert_int_equal(reply_question(name, AF_INET6, 1, question), 12 + 255 + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_of_both_families_are_read),
		cmocka_unit_test(test_aliases_are_followed_in_any_order),
		cmocka_unit_test(test_aliases_that_go_in_circles_are_an_error),
		cmocka_unit_test(test_what_is_no_answer_to_the_question_is_foreign),
		cmocka_unit_test(test_codes_and_truncation_are_told),
		cmocka_unit_test(test_every_answer_that_is_cut_off_is_refused),
		cmocka_unit_test(test_records_that_lie_are_an_error),
		cmocka_unit_test(test_more_addresses_than_there_is_room_for_are_left_out),
		cmocka_unit_test(test_a_name_has_no_more_pointers_than_labels),
		cmocka_unit_test(test_records_behind_many_others_are_not_looked_at),
		cmocka_unit_test(test_names_that_dns_has_not_are_not_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
