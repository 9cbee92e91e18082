/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoders that read what another process sent: the launcher's (with the caller's privileges), init's, and the library's (of what
 * comes from inside a sandbox).
 *
 * The first byte of an input says which: a body for one of the three decoders, or a whole message, header and all, which is sent
 * over a socket with descriptors, received by wire_recv(), and then decoded as its type demands. Besides memory errors, a target fails
 * when what was decoded breaks a promise of spec.h, or when a descriptor is left open.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "fuzz_seeds.h"
#include "sandbox/landlock.h"
#include "egress/messages.h"
#include "sandbox/airlock.h"
#include "sandbox/spec.h"
#include "sandbox/trace.h"
#include "sandbox/wire.h"
#include "must.h"

enum kind { KIND_SPEC, KIND_EXEC, KIND_ERROR, KIND_MESSAGE, KIND_TRACE, KIND_COUNT };

static volatile size_t sink; /* so that reads are not optimised away */

static void touch(const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sink += ((const unsigned char *)data)[i];
}

static void touch_str(const char *s)
{
	if (s)
		touch(s, strlen(s) + 1);
}

static void touch_list(const struct string_list *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		MUST(l->items[i]);
		touch_str(l->items[i]);
	}
	MUST(l->items[l->count] == NULL);
}

static bool needs_source(enum op_kind kind)
{
	return kind == OP_SYMLINK || kind == OP_BIND || kind == OP_DEVICE || kind == OP_SCRATCH || kind == OP_ALIAS || kind == OP_COVER ||
	       kind == OP_COPY;
}

/* It leads to something below where it begins: no leading slash, no empty component, no "..". */
static bool leads_below(const char *path)
{
	size_t len = strlen(path);

	return len && path[0] != '/' && !strstr(path, "//") && strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 &&
	       !strstr(path, "/../") && (len < 3 || strcmp(path + len - 3, "/..") != 0);
}

static void check_spec(const struct sandbox_spec *s)
{
	MUST(strlen(s->id) == SPEC_ID_LEN && !strchr(s->id, '/'));
	MUST(s->home[0] == '/');
	touch_str(s->hostname);
	touch_str(s->limits_force);
	for (uint32_t i = 0; i < s->op_count; i++) {
		const struct setup_op *op = &s->ops[i];

		MUST(op->kind > 0 && op->kind < OP_KIND_COUNT && !(op->flags & ~(uint32_t)OP_FLAGS_ALL) && op->mode <= 01777);
		MUST(leads_below(op->target));
		MUST(op->source || !needs_source(op->kind));
		MUST(op->kind != OP_SCRATCH || !strchr(op->source, '/'));
		touch_str(op->source);
		touch(op->data, op->data_len);
		if (op->kind == OP_LAYERED) {
			MUST(op->layers.count >= LAYERED_LOWER);
			for (uint32_t k = LAYERED_UPPER; k < op->layers.count; k++)
				MUST(leads_below(op->layers.items[k]) && !strpbrk(op->layers.items[k], ",:"));
		}
		if (op->kind == OP_ROOT) {
			MUST(i == 0 && op->layers.count > ROOT_LAYER && op->layers.items[ROOT_STAGE][0] == '/');
			for (uint32_t k = ROOT_LAYER; k < op->layers.count; k++)
				MUST(leads_below(op->layers.items[k]));
		}
	}
	for (uint32_t i = 0; i < s->rule_count; i++) {
		MUST(s->rules[i].path);
		MUST(s->rules[i].access < LANDLOCK_ACCESS_COUNT);
		touch_str(s->rules[i].path);
	}
	touch_list(&s->forbid);
	touch_list(&s->read);
	touch_list(&s->write);
}

static void decode_spec(const void *body, size_t len)
{
	struct cordon_error err = {0};
	struct sandbox_spec spec;

	if (sandbox_spec_decode(body, len, &spec, &err) < 0) {
		MUST(err.code != CORDON_OK);
		return;
	}
	check_spec(&spec);
	sandbox_spec_free(&spec);
}

/* One directory at most, and never out of the inbox. */
static void check_code(const struct code_file *files, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		MUST(leads_below(files[i].path) && strchr(files[i].path, '/') == strrchr(files[i].path, '/') && files[i].mode <= 0777);
		touch(files[i].data, files[i].len);
	}
}

static void decode_go(const void *body, size_t len)
{
	struct cordon_error err = {0};
	struct go_spec spec;

	if (go_spec_decode(body, len, &spec, &err) < 0) {
		MUST(err.code != CORDON_OK);
		return;
	}
	MUST(spec.cwd && spec.payload_len <= GO_PAYLOAD_MAX);
	touch(spec.payload, spec.payload_len);
	check_code(spec.code, spec.code_count);
	go_spec_free(&spec);
}

static void decode_exec(const void *body, size_t len)
{
	struct cordon_error err = {0};
	struct exec_spec spec;

	if (exec_spec_decode(body, len, &spec, &err) < 0) {
		MUST(err.code != CORDON_OK);
		return;
	}
	MUST(spec.argv.count > 0 && spec.cwd);
	touch_list(&spec.argv);
	touch_list(&spec.env);
	check_code(spec.code, spec.code_count);
	exec_spec_free(&spec);
}

static void decode_error(const void *body, size_t len)
{
	struct cordon_error out;

	memset(&out, 'x', sizeof(out));
	if (error_decode(body, len, &out) < 0)
		return;
	MUST(memchr(out.message, '\0', sizeof(out.message)) && memchr(out.hint, '\0', sizeof(out.hint)));
}

static void decode_trace(const void *body, size_t len)
{
	struct wire_reader r = {body, (const char *)body + len, false};
	struct trace_event e;

	while (trace_next(&r, &e) > 0) {
		MUST(e.kind > 0 && e.kind < TRACE_KIND_COUNT && e.status >= TRACE_UNKNOWN && e.argv.count <= TRACE_WORDS_MAX);
		MUST(strlen(e.path) < TRACE_PATH_MAX);
		touch_list(&e.argv);
		trace_event_free(&e);
	}
}

static void decode_airlock(struct wire_msg *msg)
{
	struct airlock a = {0};

	airlock_receive(&a, msg, NULL);
	MUST(a.count <= AIRLOCK_SOCKETS_MAX);
	for (size_t i = 0; i < a.count; i++) /* nothing that leads in */
		MUST(a.sockets[i].kind > 0 && a.sockets[i].kind <= AIRLOCK_PORT && a.sockets[i].port);
	airlock_close(&a);
}

static void decode_broker(const void *body, size_t len)
{
	struct airlock_socket sockets[WIRE_MAX_FDS];
	struct broker_config config;
	struct broker_event event;
	size_t count = 0;
	bool last;

	if (broker_config_decode(body, len, &config, NULL) == 0) {
		touch_list(&config.policy);
		free(config.policy.items);
	}
	if (broker_sockets_decode(body, len, sockets, &count, &last, NULL) == 0)
		MUST(count <= WIRE_MAX_FDS);
	if (broker_event_decode(body, len, &event, NULL) == 0)
		MUST(event.kind > 0 && event.kind < BROKER_EVENT_COUNT && event.target && event.protocol && event.rule);
}

static void decode_by_type(struct wire_msg *msg)
{
	struct created_msg created;
	struct exited_msg exited;

	touch(msg->body, msg->len + 1);
	switch (msg->type) {
	case WIRE_CREATE:
	case WIRE_RELAYER:
		decode_spec(msg->body, msg->len);
		break;
	case WIRE_EXEC:
		decode_exec(msg->body, msg->len);
		break;
	case WIRE_GO:
		decode_go(msg->body, msg->len);
		break;
	case WIRE_ERROR:
		decode_error(msg->body, msg->len);
		break;
	case WIRE_CREATED:
		fixed_decode(msg->body, msg->len, &created, sizeof(created), NULL);
		break;
	case WIRE_EXITED:
		fixed_decode(msg->body, msg->len, &exited, sizeof(exited), NULL);
		break;
	case WIRE_TRACE:
		decode_trace(msg->body, msg->len);
		break;
	case WIRE_AIRLOCK:
		decode_airlock(msg);
		break;
	case WIRE_BROKER:
		decode_broker(msg->body, msg->len);
		break;
	case WIRE_READY:
	case WIRE_STARTED:
	case WIRE_SIGNAL:
	case WIRE_CANCEL:
	case WIRE_FREEZE:
	case WIRE_UNPARK:
	case WIRE_PARKED:
	case WIRE_GATE:
	case WIRE_DOOR:
	case WIRE_REQUEST: /* fuzz_keeper.c */
	case WIRE_REPLY:
	case WIRE_WARDEN: /* made from its table: scripts/messages */
		break;
	case WIRE_TYPE_COUNT:
	default:
		MUST(!"a type that does not exist");
	}
}

/* What a message is sent with: a byte that says how many descriptors, whether the last is a memfd that holds what follows the header, and who receives it. */
static int fill_descriptors(uint8_t how, const uint8_t *data, size_t size, int *fds, int null, int memfd)
{
	int n = how & 15;

	for (int i = 0; i < n; i++)
		fds[i] = null;
	if ((how & 16) && n > 0 && size > 16) {
		if (pwrite(memfd, data + 16, size - 16, 0) < 0 || ftruncate(memfd, (off_t)(size - 16)) < 0)
			return 0;
		fds[n - 1] = memfd;
	}
	return n;
}

static void send_and_receive(const uint8_t *data, size_t size)
{
	static int pair[2] = {-1, -1}, null = -1, memfd = -1;
	int fds[16], highest, after;
	struct cordon_error err = {0};
	struct wire_msg msg;
	union {
		struct cmsghdr hdr;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = {0};

	if (pair[0] < 0) {
		MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		memfd = memfd_create("fuzz", MFD_CLOEXEC);
	}
	if (size < 2)
		return;
	uint8_t how = *data++;
	size--;
	int n = fill_descriptors(how, data, size, fds, null, memfd);
	struct iovec iov = {(void *)(uintptr_t)data, (how & 16) && n > 0 && size > 16 ? 16 : size};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	if (n) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n);
		control.hdr =
			(struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, sizeof(int) * (size_t)n);
	}
	highest = dup(null); /* the lowest free number: the same again if nothing was left open */
	close(highest);
	if (sendmsg(pair[0], &m, MSG_NOSIGNAL) < 0)
		return;
	if (how & 32) { /* as init hears it at its door */
		wire_recv_word(pair[1], WIRE_DOOR);
	} else if (wire_recv(pair[1], &msg, &err) == 1) {
		decode_by_type(&msg);
		wire_msg_free(&msg);
	} else {
		MUST(msg.body == NULL && msg.fd_count == 0);
	}
	after = dup(null);
	close(after);
	MUST(after == highest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	/* in a block of exactly that size, so that a read past its end is seen */
	char *copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	switch ((enum kind)(data[0] % KIND_COUNT)) {
	case KIND_SPEC:
		decode_spec(copy + 1, size - 1);
		break;
	case KIND_EXEC:
		decode_exec(copy + 1, size - 1);
		break;
	case KIND_ERROR:
		decode_error(copy + 1, size - 1);
		break;
	case KIND_TRACE:
		decode_trace(copy + 1, size - 1);
		break;
	case KIND_MESSAGE:
	case KIND_COUNT:
	default:
		send_and_receive((const uint8_t *)copy + 1, size - 1);
		break;
	}
	free(copy);
	return 0;
}

/* ---- seeds ------------------------------------------------------------------------------------------------------------------- */

static void seed_message(const char *dir, const char *name, enum wire_type type, const struct buf *body, uint8_t how)
{
	const uint32_t header[] = {0x434f5231u, type, (uint32_t)body->len, how & 16 ? 1u : 0u};
	_cleanup_buf_ struct buf b = {0};

	buf_add(&b, &how, 1);
	buf_add(&b, header, sizeof(header));
	buf_add(&b, body->data, body->len);
	seed_write(dir, name, KIND_MESSAGE, b.data, b.len);
}

static void seed_specs(const char *dir)
{
	static const struct device_number null_device = {1, 3};
	static const char *paths[] = {"/srv/data", "/root/.ssh", "/var/run/docker.sock"};
	static const char *layers[] = {"/var/lib/cordon/layers", "b/app", "b/work/app", "a../app"};
	struct setup_op ops[OP_KIND_COUNT];
	struct access_rule rules[] = {{"/", LANDLOCK_RX}, {"/app", LANDLOCK_RWX}, {"/dev/null", LANDLOCK_DEV}};
	_cleanup_buf_ struct buf b = {0};

	for (int k = 1; k < OP_KIND_COUNT; k++)
		ops[k] = (struct setup_op){.kind = (enum op_kind)k,
		                           .target = "dev/null",
		                           .source = k == OP_SCRATCH ? "home" : "/dev/null",
		                           .mode = 0755,
		                           .flags = OP_OPTIONAL,
		                           .data = &null_device,
		                           .data_len = sizeof(null_device),
		                           .layers = {layers, ARRAY_SIZE(layers)}};
	struct sandbox_spec spec = {.id = "abcdefghij0123456789",
	                            .hostname = "cordon",
	                            .home = "/var/lib/cordon",
	                            .limits_force = "rlimit",
	                            .uid = UINT32_MAX,
	                            .gid = UINT32_MAX,
	                            .memory = 512u << 20,
	                            .pids = 50,
	                            .cpus_milli = 1000,
	                            .disk = 1u << 30,
	                            .ops = ops + 1,
	                            .op_count = OP_KIND_COUNT - 1,
	                            .rules = rules,
	                            .rule_count = ARRAY_SIZE(rules),
	                            .forbid = {paths, 3},
	                            .read = {paths, 1},
	                            .write = {paths, 1}};
	sandbox_spec_encode(&spec, &b);
	seed_write(dir, "spec", KIND_SPEC, b.data, b.len);
	seed_message(dir, "create", WIRE_CREATE, &b, 1);
	seed_message(dir, "create-memfd", WIRE_CREATE, &b, 16 | 2);
}

static void seed_execs(const char *dir)
{
	static const char *argv[] = {"/bin/sh", "-c", "echo hello", ""}, *env[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
	const struct exec_spec spec = {
		.rows = 24, .cols = 80, .timeout_ms = 60000, .files = 1024, .cwd = "/app", .argv = {argv, 4}, .env = {env, 2}};
	_cleanup_buf_ struct buf b = {0};

	exec_spec_encode(&spec, &b);
	seed_write(dir, "exec", KIND_EXEC, b.data, b.len);
	seed_message(dir, "exec-message", WIRE_EXEC, &b, 4);
	seed_message(dir, "exec-memfd", WIRE_EXEC, &b, 16 | 5);
}

static void seed_sockets(const char *dir)
{
	static const struct airlock_socket sockets[] = {{AIRLOCK_PORT, AF_INET6, 443, -1},
	                                                {AIRLOCK_INSIDE, AF_INET, 0, -1},
	                                                {AIRLOCK_PUBLISHED, AF_INET, 3000, -1},
	                                                {AIRLOCK_DOOR, AF_UNIX, 0, -1}};
	_cleanup_buf_ struct buf none = {0}, a = {0}, b = {0};

	airlock_socket_put(&a, &sockets[0]);
	airlock_socket_put(&a, &sockets[1]);
	broker_sockets_encode(sockets, ARRAY_SIZE(sockets), true, &b);
	seed_message(dir, "airlock", WIRE_AIRLOCK, &a, 2);
	seed_message(dir, "sockets", WIRE_BROKER, &b, ARRAY_SIZE(sockets));
	seed_message(dir, "door", WIRE_DOOR, &none, 1);
	seed_message(dir, "door-word", WIRE_DOOR, &none, 32);
}

static void seed_reports(const char *dir)
{
	const struct cordon_error error = {.code = CORDON_ERR_DENIED, .sys_errno = 13, .message = "cannot mount /x", .hint = "do not"};
	const struct exited_msg exited = {.status = 256};
	const struct created_msg created = {.fd_mask = 1};
	_cleanup_buf_ struct buf e = {0}, x = {0}, c = {0}, s = {0};

	error_encode(&error, &e);
	seed_write(dir, "error", KIND_ERROR, e.data, e.len);

	static struct trace_table table;
	struct trace_slot *slot = &table.slots[0];
	_cleanup_buf_ struct buf t = {0};
	*slot = (struct trace_slot){.kind = TRACE_EXEC, .status = 256, .path_len = 8, .argv_len = 6};
	memcpy(slot->text, "/bin/ls\0ls\0-l", 14);
	trace_put(&t, &table, slot);
	trace_put_lost(&t, 2, 7);
	seed_write(dir, "trace", KIND_TRACE, t.data, t.len);
	seed_message(dir, "error-message", WIRE_ERROR, &e, 0);
	buf_add(&x, &exited, sizeof(exited));
	seed_message(dir, "exited", WIRE_EXITED, &x, 0);
	buf_add(&c, &created, sizeof(created));
	seed_message(dir, "created", WIRE_CREATED, &c, 1);
	wire_put_u32(&s, 15);
	seed_message(dir, "signal", WIRE_SIGNAL, &s, 0);
	seed_message(dir, "too-many", WIRE_SIGNAL, &s, 15);
	seed_sockets(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *dir = seeds_directory(*argc, *argv);

	if (dir) {
		seed_specs(dir);
		seed_execs(dir);
		seed_reports(dir);
	}
	return 0;
}
