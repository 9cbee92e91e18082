/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives over a socket is either exactly what was sent, or an error: no truncation, no extra byte, no count or length that the
 * rest of the message cannot hold, and never a descriptor that stays open because the message that brought it was malformed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/util.h"
#include "sandbox/landlock.h"
#include "sandbox/spec.h"
#include "sandbox/wire.h"

#define ID "abcdefghij0123456789"

/* ---- samples ---- */

static const struct device_number null_device = {1, 3};

static const char *hidden_items[] = {"/**/.env", "/data/key"};
static struct setup_op sample_ops[] = {
	{.kind = OP_BIND, .target = "usr", .source = "/usr"},
	{.kind = OP_FILE, .target = "etc/hostname", .data = "a\0b\n", .data_len = 4, .mode = 0644},
	{.kind = OP_DEVICE, .target = "dev/null", .source = "/dev/null", .data = &null_device, .data_len = sizeof(null_device)},
	{.kind = OP_SYMLINK, .target = "var/tmp", .source = "/tmp"},
	{.kind = OP_SCRATCH, .target = "home/user", .source = "home", .flags = OP_WRITABLE | OP_OWNED},
	{.kind = OP_VOLATILE, .target = "tmp", .mode = 01777},
	{.kind = OP_MASK, .target = "proc/kcore", .flags = OP_OPTIONAL},
	{.kind = OP_HIDE,
         .target = ".",
         .source = "/",
         .flags = OP_DOTS,
         .find = {{hidden_items, 2}, {hidden_items, 1}, {hidden_items, 2}}},
};
static struct access_rule sample_rules[] = {{"/", LANDLOCK_RX, NULL}, {"/app", LANDLOCK_RWX, NULL}, {"/data", LANDLOCK_LIST, "/data/**/x"}};
static const char *forbid_items[] = {"/root/.ssh", "/var/run/docker.sock"}, *read_items[] = {"/srv/data"};

static const struct sandbox_spec sample_spec = {
	.id = ID,
	.hostname = "cordon",
	.home = "/var/lib/cordon",
	.flags = SPEC_STRICT,
	.uid = 1000,
	.gid = 1001,
	.memory = (uint64_t)512 << 20,
	.pids = 50,
	.cpus_milli = 1500,
	.disk = UINT64_MAX,
	.ops = sample_ops,
	.op_count = ARRAY_SIZE(sample_ops),
	.rules = sample_rules,
	.rule_count = ARRAY_SIZE(sample_rules),
	.forbid = {forbid_items, ARRAY_SIZE(forbid_items)},
	.read = {read_items, ARRAY_SIZE(read_items)},
};

static const char *argv_items[] = {"/bin/echo", "", "two words", "\xff\xfe"}, *env_items[] = {"PATH=/bin", "EMPTY="};

static const struct exec_spec sample_exec = {
	.tty = 1,
	.rows = 24,
	.cols = 80,
	.timeout_ms = 60000,
	.files = 1024,
	.cwd = "/app",
	.argv = {argv_items, ARRAY_SIZE(argv_items)},
	.env = {env_items, ARRAY_SIZE(env_items)},
};

static const struct cordon_error sample_error = {
	.code = CORDON_ERR_DENIED, .sys_errno = EACCES, .message = "cannot mount /x: no", .hint = "mount something narrower"};

/* ---- helpers ---- */

static unsigned open_descriptors(void)
{
	unsigned n = 0;
	DIR *dir = opendir("/proc/self/fd");

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The bytes in a block of exactly their size, so that a sanitizer or valgrind sees a read past their end. */
static char *exact(const void *data, size_t len)
{
	char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	if (len)
		memcpy(copy, data, len);
	return copy;
}

static int decode_spec(const void *data, size_t len)
{
	struct cordon_error err = {0};
	struct sandbox_spec out;
	char *body = exact(data, len);
	int r = sandbox_spec_decode(body, len, &out, &err);

	if (r == 0) {
		sandbox_spec_free(&out);
	} else {
		assert_int_equal(err.code, CORDON_ERR_INPUT);
		assert_true(err.message[0] != '\0');
		assert_null(out.ops); /* nothing is left to be freed */
	}
	free(body);
	return r;
}

static int decode_exec(const void *data, size_t len)
{
	struct cordon_error err = {0};
	struct exec_spec out;
	char *body = exact(data, len);
	int r = exec_spec_decode(body, len, &out, &err);

	if (r == 0) {
		exec_spec_free(&out);
	} else {
		assert_int_equal(err.code, CORDON_ERR_INPUT);
		assert_null(out.argv.items);
	}
	free(body);
	return r;
}

static int decode_error(const void *data, size_t len)
{
	struct cordon_error out = {0};
	char *body = exact(data, len);
	int r = error_decode(body, len, &out);

	assert_int_not_equal(out.code, CORDON_OK); /* a malformed report is an error of its own */
	free(body);
	return r;
}

/* ---- round trips ---- */

static void assert_same_list(const struct string_list *a, const struct string_list *b)
{
	assert_int_equal(a->count, b->count);
	for (uint32_t i = 0; i < a->count; i++)
		assert_string_equal(a->items[i], b->items[i]);
}

static void test_sandbox_spec_survives_the_round_trip(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct cordon_error err = {0};
	struct sandbox_spec out;

	sandbox_spec_encode(&sample_spec, &b);
	assert_false(b.failed);
	assert_int_equal(sandbox_spec_decode(b.data, b.len, &out, &err), 0);
	assert_string_equal(out.id, ID);
	assert_string_equal(out.hostname, sample_spec.hostname);
	assert_string_equal(out.home, sample_spec.home);
	assert_null(out.limits_force);
	assert_int_equal(out.flags, SPEC_STRICT);
	assert_int_equal(out.uid, 1000);
	assert_int_equal(out.gid, 1001);
	assert_true(out.memory == sample_spec.memory && out.disk == UINT64_MAX && out.pids == 50 && out.cpus_milli == 1500);
	assert_int_equal(out.op_count, ARRAY_SIZE(sample_ops));
	for (size_t i = 0; i < ARRAY_SIZE(sample_ops); i++) {
		assert_int_equal(out.ops[i].kind, sample_ops[i].kind);
		assert_int_equal(out.ops[i].flags, sample_ops[i].flags);
		assert_int_equal(out.ops[i].mode, sample_ops[i].mode);
		assert_string_equal(out.ops[i].target, sample_ops[i].target);
		assert_int_equal(out.ops[i].source == NULL, sample_ops[i].source == NULL);
		if (out.ops[i].source)
			assert_string_equal(out.ops[i].source, sample_ops[i].source);
		assert_int_equal(out.ops[i].data_len, sample_ops[i].data_len);
		if (out.ops[i].data_len)
			assert_memory_equal(out.ops[i].data, sample_ops[i].data, out.ops[i].data_len);
	}
	assert_int_equal(out.rule_count, 3);
	assert_null(out.rules[1].pattern);
	assert_string_equal(out.rules[2].pattern, "/data/**/x");
	assert_int_equal(out.rules[2].access, LANDLOCK_LIST);
	assert_same_list(&out.ops[ARRAY_SIZE(sample_ops) - 1].find.patterns, &sample_ops[ARRAY_SIZE(sample_ops) - 1].find.patterns);
	assert_same_list(&out.ops[ARRAY_SIZE(sample_ops) - 1].find.keep, &sample_ops[ARRAY_SIZE(sample_ops) - 1].find.keep);
	assert_string_equal(out.rules[1].path, "/app");
	assert_int_equal(out.rules[1].access, LANDLOCK_RWX);
	assert_same_list(&out.forbid, &sample_spec.forbid);
	assert_same_list(&out.read, &sample_spec.read);
	assert_int_equal(out.write.count, 0);
	sandbox_spec_free(&out);
}

static void test_exec_spec_survives_the_round_trip_and_its_lists_end_with_null(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct cordon_error err = {0};
	struct exec_spec out;

	exec_spec_encode(&sample_exec, &b);
	assert_int_equal(exec_spec_decode(b.data, b.len, &out, &err), 0);
	assert_int_equal(out.tty, 1);
	assert_int_equal(out.rows, 24);
	assert_int_equal(out.cols, 80);
	assert_true(out.timeout_ms == 60000 && out.files == 1024);
	assert_string_equal(out.cwd, "/app");
	assert_same_list(&out.argv, &sample_exec.argv);
	assert_same_list(&out.env, &sample_exec.env);
	assert_null(out.argv.items[out.argv.count]);
	assert_null(out.env.items[out.env.count]);
	exec_spec_free(&out);
}

static void test_error_survives_the_round_trip(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct cordon_error out = {0};

	error_encode(&sample_error, &b);
	assert_int_equal(error_decode(b.data, b.len, &out), 0);
	assert_int_equal(out.code, CORDON_ERR_DENIED);
	assert_int_equal(out.sys_errno, EACCES);
	assert_string_equal(out.message, sample_error.message);
	assert_string_equal(out.hint, sample_error.hint);
}

static void test_error_text_that_is_too_long_is_cut_and_terminated(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct cordon_error out;
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memset(&out, 'y', sizeof(out));
	wire_put_u32(&b, CORDON_ERR_SYSTEM);
	wire_put_u32(&b, 0);
	wire_put_str(&b, text);
	wire_put_str(&b, text);
	assert_int_equal(error_decode(b.data, b.len, &out), 0);
	assert_int_equal(strlen(out.message), sizeof(out.message) - 1);
	assert_int_equal(strlen(out.hint), sizeof(out.hint) - 1);
}

/* ---- malformed bodies ---- */

static void test_every_truncation_of_a_body_is_refused(void **state)
{
	_cleanup_buf_ struct buf spec = {0}, exec = {0}, error = {0};

	sandbox_spec_encode(&sample_spec, &spec);
	exec_spec_encode(&sample_exec, &exec);
	error_encode(&sample_error, &error);
	for (size_t i = 0; i < spec.len; i++)
		assert_int_equal(decode_spec(spec.data, i), -1);
	for (size_t i = 0; i < exec.len; i++)
		assert_int_equal(decode_exec(exec.data, i), -1);
	for (size_t i = 0; i < error.len; i++)
		assert_int_equal(decode_error(error.data, i), -1);
	assert_int_equal(decode_spec(spec.data, spec.len), 0);
	assert_int_equal(decode_exec(exec.data, exec.len), 0);
	assert_int_equal(decode_error(error.data, error.len), 0);
}

static void test_a_byte_after_the_end_is_refused(void **state)
{
	_cleanup_buf_ struct buf spec = {0}, exec = {0}, error = {0};

	sandbox_spec_encode(&sample_spec, &spec);
	exec_spec_encode(&sample_exec, &exec);
	error_encode(&sample_error, &error);
	buf_add(&spec, "", 1);
	buf_add(&exec, "", 1);
	buf_add(&error, "", 1);
	assert_int_equal(decode_spec(spec.data, spec.len), -1);
	assert_int_equal(decode_exec(exec.data, exec.len), -1);
	assert_int_equal(decode_error(error.data, error.len), -1);
}

/* Whatever four bytes are replaced by a huge number, be they a count, a length or a flag, nothing is read or allocated past the end. */
static void test_huge_numbers_anywhere_are_survived(void **state)
{
	static const uint32_t huge[] = {UINT32_MAX, UINT32_MAX - 1, INT32_MAX, (uint32_t)INT32_MAX + 1, 65537, 0};
	_cleanup_buf_ struct buf spec = {0}, exec = {0}, error = {0};
	struct {
		const struct buf *b;
		int (*decode)(const void *, size_t);
	} all[] = {{&spec, decode_spec}, {&exec, decode_exec}, {&error, decode_error}};

	sandbox_spec_encode(&sample_spec, &spec);
	exec_spec_encode(&sample_exec, &exec);
	error_encode(&sample_error, &error);
	for (size_t k = 0; k < ARRAY_SIZE(all); k++) {
		for (size_t i = 0; i + 4 <= all[k].b->len; i++) {
			for (size_t v = 0; v < ARRAY_SIZE(huge); v++) {
				char *copy = exact(all[k].b->data, all[k].b->len);

				memcpy(copy + i, &huge[v], 4);
				if (k < 2) /* an error report that happens to say "no error" is none of decode_error()'s cases */
					all[k].decode(copy, all[k].b->len);
				free(copy);
			}
		}
	}
}

static void test_counts_that_the_body_cannot_hold_are_refused(void **state)
{
	static const uint32_t counts[] = {1, 65536, 65537, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct wire_reader r;

		wire_put_u32(&b, counts[i]);
		r = (struct wire_reader){.at = b.data, .end = b.data + b.len};
		assert_int_equal(wire_get_count(&r, 5, UINT32_MAX), 0);
		assert_true(r.bad);
	}
}

static void test_strings_with_a_nul_inside_or_none_at_the_end_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {{"evil\0.good", 11}, {"open", 4}, {"", 0}, {"\0\0", 2}};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct wire_reader r;

		wire_put_bytes(&b, bad[i].bytes, bad[i].len);
		r = (struct wire_reader){.at = b.data, .end = b.data + b.len};
		assert_null(wire_get_str(&r));
		assert_true(r.bad);
	}
}

static void test_a_reader_that_failed_once_yields_nothing_more(void **state)
{
	_cleanup_buf_ struct buf b = {0};
	struct wire_reader r;
	size_t len = 7;

	wire_put_u32(&b, 100); /* a length that is not there */
	wire_put_u32(&b, 42);
	r = (struct wire_reader){.at = b.data, .end = b.data + b.len};
	assert_null(wire_get_bytes(&r, &len));
	assert_int_equal(len, 0);
	assert_int_equal(wire_get_u32(&r), 0);
	assert_true(wire_get_u64(&r) == 0);
	assert_null(wire_get_str(&r));
	assert_false(wire_done(&r));
}

static int decode_with_op(const struct setup_op *op)
{
	struct sandbox_spec spec = sample_spec;
	_cleanup_buf_ struct buf b = {0};
	struct setup_op copy = *op;

	spec.ops = &copy;
	spec.op_count = 1;
	sandbox_spec_encode(&spec, &b);
	return decode_spec(b.data, b.len);
}

static void test_targets_that_leave_the_root_are_refused(void **state)
{
	static const char *const bad[] = {"", "/", "/etc", ".", "..", "../x", "a/../b", "a/..", "a//b", "a/", "a/./b", "./a"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_DIR, .target = bad[i]}), -1);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_DIR, .target = NULL}), -1);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_DIR, .target = "..a/b.."}), 0);
}

static void test_unknown_kinds_flags_and_modes_are_refused(void **state)
{
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = (enum op_kind)0, .target = "a"}), -1);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_KIND_COUNT, .target = "a"}), -1);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_DIR, .target = "a", .flags = OP_FLAGS_ALL + 1}), -1);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_DIR, .target = "a", .mode = 04755}), -1); /* set-user-id */
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_DIR, .target = "a", .mode = 02755}), -1);
}

/* What an operation works on is there; else the launcher would hand NULL to functions that do not take it. */
static void test_operations_without_their_source_are_refused(void **state)
{
	static const enum op_kind need[] = {OP_SYMLINK, OP_BIND, OP_DEVICE, OP_SCRATCH, OP_ALIAS, OP_COVER, OP_COPY};

	for (size_t i = 0; i < ARRAY_SIZE(need); i++)
		assert_int_equal(decode_with_op(&(struct setup_op){
					 .kind = need[i], .target = "a", .data = &null_device, .data_len = sizeof(null_device)}),
		                 -1);
}

/* `source` of OP_SCRATCH names a directory that the launcher makes, as root, below its scratch directory. */
static void test_scratch_names_that_leave_the_scratch_directory_are_refused(void **state)
{
	static const char *const bad[] = {"", ".", "..", "../x", "/etc/x", "a/b"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_SCRATCH, .target = "a", .source = bad[i]}), -1);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_SCRATCH, .target = "a", .source = "home"}), 0);
}

/* Layers become options of a mount, and the upper one is written: none may lie elsewhere or bring options of its own. */
static void test_layers_that_leave_their_stage_are_refused(void **state)
{
	static const char *const bad[] = {"", "/a", "..", "a/../..", "a,index=on", "a:b", "a\\"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		for (size_t at = LAYERED_UPPER; at <= LAYERED_LOWER; at++) {
			const char *items[] = {"/stage", "up", "work", "low"};
			items[at] = bad[i];
			assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_LAYERED, .target = "app", .layers = {items, 4}}), -1);
		}
	}
	const char *good[] = {"", "up", "work", "low/app"}, *relative[] = {"stage", "up", "work"};
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_LAYERED, .target = "app", .layers = {good, 4}}), 0);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_LAYERED, .target = "app", .layers = {good, 2}}), -1);
	assert_int_equal(decode_with_op(&(struct setup_op){.kind = OP_LAYERED, .target = "app", .layers = {relative, 3}}), -1);
}

/* The access of a rule is an index into a table of landlock.c. */
static void test_access_rules_that_do_not_exist_are_refused(void **state)
{
	static const uint32_t bad[] = {LANDLOCK_ACCESS_COUNT, 1000, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct access_rule rule = {.path = "/", .access = bad[i]};
		struct sandbox_spec spec = sample_spec;
		_cleanup_buf_ struct buf b = {0};

		spec.rules = &rule;
		spec.rule_count = 1;
		sandbox_spec_encode(&spec, &b);
		assert_int_equal(decode_spec(b.data, b.len), -1);
	}
}

static int decode_with(void (*change)(struct sandbox_spec *s, const char *value), const char *value)
{
	struct sandbox_spec spec = sample_spec;
	_cleanup_buf_ struct buf b = {0};

	change(&spec, value);
	sandbox_spec_encode(&spec, &b);
	return decode_spec(b.data, b.len);
}

static void set_id(struct sandbox_spec *s, const char *value)
{
	s->id = value;
}

static void set_home(struct sandbox_spec *s, const char *value)
{
	s->home = value;
}

static void set_hostname(struct sandbox_spec *s, const char *value)
{
	s->hostname = value;
}

static void test_ids_homes_and_host_names_are_checked(void **state)
{
	static const char *const bad_ids[] = {"", "short", ID "x", "../../../../etc/pass", "ABCDEFGHIJ0123456789", "abcdefghij012345678\n"};
	char long_name[66];

	for (size_t i = 0; i < ARRAY_SIZE(bad_ids); i++)
		assert_int_equal(decode_with(set_id, bad_ids[i]), -1);
	assert_int_equal(decode_with(set_id, NULL), -1);
	assert_int_equal(decode_with(set_home, NULL), -1);
	assert_int_equal(decode_with(set_home, ""), -1);
	assert_int_equal(decode_with(set_home, "relative"), -1);
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(decode_with(set_hostname, long_name), -1);
	assert_int_equal(decode_with(set_hostname, NULL), -1);
}

#ifndef CORDON_TEST_HOOKS
static void test_a_request_to_weaken_the_sandbox_is_ignored(void **state)
{
	struct sandbox_spec spec = sample_spec, out;
	_cleanup_buf_ struct buf b = {0};

	spec.weaken = UINT32_MAX;
	sandbox_spec_encode(&spec, &b);
	assert_int_equal(sandbox_spec_decode(b.data, b.len, &out, NULL), 0);
	assert_int_equal(out.weaken, 0);
	sandbox_spec_free(&out);
}
#endif

static void test_an_exec_without_command_or_directory_is_refused(void **state)
{
	struct exec_spec spec = sample_exec;
	_cleanup_buf_ struct buf a = {0}, b = {0};

	spec.argv.count = 0;
	exec_spec_encode(&spec, &a);
	assert_int_equal(decode_exec(a.data, a.len), -1);
	spec = sample_exec;
	spec.cwd = NULL;
	exec_spec_encode(&spec, &b);
	assert_int_equal(decode_exec(b.data, b.len), -1);
}

static void test_fixed_messages_must_have_their_exact_size(void **state)
{
	struct exited_msg in = {.status = 256, .cpu_us = 7}, out;

	assert_int_equal(fixed_decode(&in, sizeof(in), &out, sizeof(out), NULL), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	assert_int_equal(fixed_decode(&in, sizeof(in) - 1, &out, sizeof(out), NULL), -1);
	assert_int_equal(fixed_decode(&in, 0, &out, sizeof(out), NULL), -1);
}

/* ---- over a socket ---- */

struct wire_header { /* as in wire.c */
	uint32_t magic, type, len, flags;
};
#define MAGIC 0x434f5231u

struct pair {
	int a, b;
};

static struct pair sockets(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	return (struct pair){fds[0], fds[1]};
}

static void close_pair(struct pair p)
{
	close(p.a);
	close(p.b);
}

/* Sends header and bytes as they are, with n descriptors of one kind. */
static void send_raw(int sock, const void *data, size_t len, const int *fds, size_t n)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	union {
		struct cmsghdr hdr;
		char space[CMSG_SPACE(sizeof(int) * 32)];
	} control = {0};

	if (n) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	assert_int_equal(sendmsg(sock, &m, MSG_NOSIGNAL), (ssize_t)len);
}

static void test_a_message_arrives_with_its_descriptors(void **state)
{
	struct pair p = sockets();
	_cleanup_buf_ struct buf body = {0};
	struct wire_msg msg;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int fds[] = {null, null};
	unsigned before = open_descriptors();

	buf_add(&body, "hello", 5);
	assert_int_equal(wire_send(p.a, WIRE_EXEC, &body, fds, 2, NULL), 0);
	assert_int_equal(wire_recv(p.b, &msg, NULL), 1);
	assert_int_equal(msg.type, WIRE_EXEC);
	assert_int_equal(msg.len, 5);
	assert_memory_equal(msg.body, "hello", 6); /* terminated, for convenience */
	assert_int_equal(msg.fd_count, 2);
	assert_true(fcntl(msg.fds[0], F_GETFD) & FD_CLOEXEC);
	int taken = wire_take_fd(&msg, 0);
	assert_true(taken >= 0);
	assert_int_equal(wire_take_fd(&msg, 0), -1);
	assert_int_equal(wire_take_fd(&msg, 2), -1);
	wire_msg_free(&msg);
	close(taken);
	assert_int_equal(open_descriptors(), before);
	close(null);
	close_pair(p);
}

static void test_an_empty_message_and_the_end_of_the_line(void **state)
{
	struct pair p = sockets();
	struct wire_msg msg;

	assert_int_equal(wire_send(p.a, WIRE_READY, NULL, NULL, 0, NULL), 0);
	assert_int_equal(wire_recv(p.b, &msg, NULL), 1);
	assert_int_equal(msg.len, 0);
	assert_non_null(msg.body);
	wire_msg_free(&msg);
	close(p.a);
	assert_int_equal(wire_recv(p.b, &msg, NULL), 0);
	close(p.b);
}

static void test_large_bodies_travel_in_a_memfd_and_arrive_whole(void **state)
{
	static const size_t sizes[] = {WIRE_INLINE - 1, WIRE_INLINE, WIRE_INLINE + 1, (size_t)3 << 20, WIRE_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct pair p = sockets();
		_cleanup_buf_ struct buf body = {0};
		struct wire_msg msg;
		unsigned before = open_descriptors();
		char *room = buf_reserve(&body, sizes[i]);

		assert_non_null(room);
		for (size_t k = 0; k < sizes[i]; k++)
			room[k] = (char)(k * 31 >> 3);
		body.len = sizes[i];
		assert_int_equal(wire_send(p.a, WIRE_CREATE, &body, &p.a, 1, NULL), 0);
		assert_int_equal(wire_recv(p.b, &msg, NULL), 1);
		assert_int_equal(msg.len, sizes[i]);
		assert_memory_equal(msg.body, body.data, sizes[i]);
		assert_int_equal(msg.fd_count, 1); /* the memfd is not among them */
		wire_msg_free(&msg);
		assert_int_equal(open_descriptors(), before);
		close_pair(p);
	}
}

static void test_messages_over_the_cap_are_not_sent(void **state)
{
	struct pair p = sockets();
	struct cordon_error err = {0};
	static char byte;
	struct buf body = {.data = &byte, .len = WIRE_MAX + 1};
	struct buf failed = {.failed = true};
	int fds[WIRE_MAX_FDS + 1] = {0};

	assert_int_equal(wire_send(p.a, WIRE_EXEC, &body, NULL, 0, &err), -1);
	assert_int_equal(wire_send(p.a, WIRE_EXEC, NULL, fds, WIRE_MAX_FDS + 1, &err), -1);
	assert_int_equal(wire_send(p.a, WIRE_EXEC, &failed, NULL, 0, &err), -1);
	close_pair(p);
}

static void test_malformed_headers_are_refused_and_leak_no_descriptor(void **state)
{
	static const struct wire_header bad[] = {
		{0, WIRE_READY, 0, 0},
		{MAGIC, 0, 0, 0},
		{MAGIC, WIRE_TYPE_COUNT, 0, 0},
		{MAGIC, UINT32_MAX, 0, 0},
		{MAGIC, WIRE_READY, 1, 0}, /* a body that does not come */
		{MAGIC, WIRE_READY, UINT32_MAX, 0},
		{MAGIC, WIRE_READY, WIRE_MAX + 1, 1},
		{MAGIC, WIRE_READY, 0, 2},
		{MAGIC, WIRE_READY, 100, 1}, /* the last descriptor is no regular file, or is shorter */
	};
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), small = memfd_create("small", MFD_CLOEXEC);
	const int fds[] = {null, null, small};

	assert_int_equal(write(small, "short", 5), 5);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		for (size_t n = 0; n <= ARRAY_SIZE(fds); n++) {
			struct pair p = sockets();
			struct cordon_error err = {0};
			struct wire_msg msg;
			unsigned before = open_descriptors();

			send_raw(p.a, &bad[i], sizeof(bad[i]), fds, n);
			assert_int_equal(wire_recv(p.b, &msg, &err), -1);
			assert_int_equal(err.code, CORDON_ERR_INPUT);
			assert_null(msg.body);
			assert_int_equal(msg.fd_count, 0);
			assert_int_equal(open_descriptors(), before);
			close_pair(p);
		}
	}
	close(null);
	close(small);
}

static void test_every_truncation_of_a_message_is_refused(void **state)
{
	_cleanup_buf_ struct buf body = {0}, whole = {0};

	error_encode(&sample_error, &body);
	struct wire_header h = {MAGIC, WIRE_ERROR, (uint32_t)body.len, 0};
	buf_add(&whole, &h, sizeof(h));
	buf_add(&whole, body.data, body.len);
	buf_add(&whole, "", 1);
	for (size_t len = 1; len <= whole.len; len++) {
		struct pair p = sockets();
		struct wire_msg msg;
		int got;

		send_raw(p.a, whole.data, len, &p.a, 1);
		got = wire_recv(p.b, &msg, NULL);
		assert_int_equal(got, len == whole.len - 1 ? 1 : -1);
		if (got == 1)
			wire_msg_free(&msg);
		close_pair(p);
	}
}

static void test_more_descriptors_than_allowed_are_refused_and_closed(void **state)
{
	struct wire_header h = {MAGIC, WIRE_EXEC, 0, 0};
	int fds[32];
	struct pair p = sockets();
	struct wire_msg msg;
	unsigned before = open_descriptors();

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = p.a;
	send_raw(p.a, &h, sizeof(h), fds, ARRAY_SIZE(fds));
	assert_int_equal(wire_recv(p.b, &msg, NULL), -1);
	assert_int_equal(open_descriptors(), before);
	close_pair(p);
}

static void test_a_message_that_is_too_large_for_the_reader_is_refused(void **state)
{
	static char data[sizeof(struct wire_header) + WIRE_INLINE + 1];
	struct wire_header h = {MAGIC, WIRE_EXEC, WIRE_INLINE + 1, 0};
	struct pair p = sockets();
	struct wire_msg msg;

	memcpy(data, &h, sizeof(h));
	send_raw(p.a, data, sizeof(data), NULL, 0);
	assert_int_equal(wire_recv(p.b, &msg, NULL), -1);
	close_pair(p);
}

/* A body that is a pipe would block its reader for ever, a directory or device is nonsense. */
static void test_a_body_that_is_no_regular_file_is_refused_without_blocking(void **state)
{
	struct wire_header h = {MAGIC, WIRE_EXEC, 100, 1};
	int pipes[2], dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path = open("/etc/passwd", O_PATH | O_CLOEXEC);

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	const int fds[] = {pipes[0], dir, path};
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		struct pair p = sockets();
		struct wire_msg msg;
		unsigned before = open_descriptors();

		send_raw(p.a, &h, sizeof(h), &fds[i], 1);
		assert_int_equal(wire_recv(p.b, &msg, NULL), -1);
		assert_int_equal(open_descriptors(), before);
		close_pair(p);
	}
	close(pipes[0]);
	close(pipes[1]);
	close(dir);
	close(path);
}

static void test_a_memfd_that_shrinks_is_refused(void **state)
{
	struct wire_header h = {MAGIC, WIRE_EXEC, 4096, 1};
	struct pair p = sockets();
	struct wire_msg msg;
	int fd = memfd_create("body", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, 4096), 0);
	send_raw(p.a, &h, sizeof(h), &fd, 1);
	assert_int_equal(ftruncate(fd, 100), 0); /* after it was sent, before it is read */
	assert_int_equal(wire_recv(p.b, &msg, NULL), -1);
	close(fd);
	close_pair(p);
}

static void test_would_block_is_told_apart_from_the_end(void **state)
{
	struct pair p = sockets();
	struct cordon_error err = {0};
	struct wire_msg msg;

	assert_int_equal(fcntl(p.b, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(wire_recv(p.b, &msg, &err), -1);
	assert_int_equal(err.sys_errno, EAGAIN);
	close_pair(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sandbox_spec_survives_the_round_trip),
		cmocka_unit_test(test_exec_spec_survives_the_round_trip_and_its_lists_end_with_null),
		cmocka_unit_test(test_error_survives_the_round_trip),
		cmocka_unit_test(test_error_text_that_is_too_long_is_cut_and_terminated),
		cmocka_unit_test(test_every_truncation_of_a_body_is_refused),
		cmocka_unit_test(test_a_byte_after_the_end_is_refused),
		cmocka_unit_test(test_huge_numbers_anywhere_are_survived),
		cmocka_unit_test(test_counts_that_the_body_cannot_hold_are_refused),
		cmocka_unit_test(test_strings_with_a_nul_inside_or_none_at_the_end_are_refused),
		cmocka_unit_test(test_a_reader_that_failed_once_yields_nothing_more),
		cmocka_unit_test(test_targets_that_leave_the_root_are_refused),
		cmocka_unit_test(test_unknown_kinds_flags_and_modes_are_refused),
		cmocka_unit_test(test_operations_without_their_source_are_refused),
		cmocka_unit_test(test_scratch_names_that_leave_the_scratch_directory_are_refused),
		cmocka_unit_test(test_layers_that_leave_their_stage_are_refused),
		cmocka_unit_test(test_access_rules_that_do_not_exist_are_refused),
		cmocka_unit_test(test_ids_homes_and_host_names_are_checked),
#ifndef CORDON_TEST_HOOKS
		cmocka_unit_test(test_a_request_to_weaken_the_sandbox_is_ignored),
#endif
		cmocka_unit_test(test_an_exec_without_command_or_directory_is_refused),
		cmocka_unit_test(test_fixed_messages_must_have_their_exact_size),
		cmocka_unit_test(test_a_message_arrives_with_its_descriptors),
		cmocka_unit_test(test_an_empty_message_and_the_end_of_the_line),
		cmocka_unit_test(test_large_bodies_travel_in_a_memfd_and_arrive_whole),
		cmocka_unit_test(test_messages_over_the_cap_are_not_sent),
		cmocka_unit_test(test_malformed_headers_are_refused_and_leak_no_descriptor),
		cmocka_unit_test(test_every_truncation_of_a_message_is_refused),
		cmocka_unit_test(test_more_descriptors_than_allowed_are_refused_and_closed),
		cmocka_unit_test(test_a_message_that_is_too_large_for_the_reader_is_refused),
		cmocka_unit_test(test_a_body_that_is_no_regular_file_is_refused_without_blocking),
		cmocka_unit_test(test_a_memfd_that_shrinks_is_refused),
		cmocka_unit_test(test_would_block_is_told_apart_from_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
