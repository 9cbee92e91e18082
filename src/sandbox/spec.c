/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/spec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "sandbox/landlock.h"

#define MAX_OPS 4096
#define MAX_RULES 65536
#define MAX_PATTERNS 4096
#define MAX_LAYERS 256
#define MAX_FILES 16
#define MAX_STRINGS (1u << 20) /* the kernel stops at fewer: a quarter of the stack limit, execve(2) */

void string_list_put(struct buf *b, const struct string_list *l)
{
	wire_put_u32(b, l->count);
	for (uint32_t i = 0; i < l->count; i++)
		wire_put_str(b, l->items[i]);
}

void string_list_get(struct wire_reader *r, struct string_list *l)
{
	uint32_t n = wire_get_count(r, sizeof(uint32_t) + 1, MAX_STRINGS);
	l->items = calloc((size_t)n + 1, sizeof(*l->items));
	if (!l->items) {
		r->bad = true;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		l->items[i] = wire_get_str(r);
		if (!l->items[i]) {
			r->bad = true;
			return;
		}
	}
	l->count = n;
}

static bool op_searches(const struct setup_op *op)
{
	return op->kind == OP_HIDE || op->kind == OP_EXEC;
}

static void find_put(struct buf *b, const struct op_find *f)
{
	string_list_put(b, &f->patterns);
	string_list_put(b, &f->keep);
	string_list_put(b, &f->skip);
}

static void airlock_put(struct buf *b, const struct airlock_spec *a)
{
	wire_put_u32(b, a->port_count);
	for (uint32_t i = 0; i < a->port_count; i++)
		wire_put_u32(b, a->ports[i]);
	wire_put_u32(b, a->block_count);
	for (uint32_t i = 0; i < a->block_count; i++) {
		wire_put_u32(b, a->blocks[i].family);
		wire_put_u32(b, a->blocks[i].bits);
		wire_put_bytes(b, a->blocks[i].address, sizeof(a->blocks[i].address));
	}
}

static bool get_block(struct wire_reader *r, struct airlock_block *out)
{
	size_t len = 0;
	const uint32_t family = wire_get_u32(r), bits = wire_get_u32(r);
	const void *address = wire_get_bytes(r, &len);
	if (!address || len != sizeof(out->address) || (family != AF_INET && family != AF_INET6) || bits > (family == AF_INET ? 32 : 128))
		return false;
	*out = (struct airlock_block){.family = (uint8_t)family, .bits = (uint8_t)bits};
	memcpy(out->address, address, len);
	return true;
}

static void airlock_get(struct wire_reader *r, struct airlock_spec *a)
{
	a->port_count = wire_get_count(r, sizeof(uint32_t), AIRLOCK_PORTS_MAX);
	for (uint32_t i = 0; i < a->port_count; i++) {
		const uint32_t port = wire_get_u32(r);
		r->bad = r->bad || port == 0 || port > UINT16_MAX;
		a->ports[i] = (uint16_t)port;
	}
	a->block_count = wire_get_count(r, 3 * sizeof(uint32_t), AIRLOCK_BLOCKS_MAX);
	for (uint32_t i = 0; i < a->block_count; i++)
		r->bad = !get_block(r, &a->blocks[i]) || r->bad;
}

void sandbox_spec_encode(const struct sandbox_spec *s, struct buf *b)
{
	wire_put_str(b, s->id);
	wire_put_str(b, s->hostname);
	wire_put_str(b, s->home);
	wire_put_str(b, s->limits_force);
	wire_put_u32(b, s->flags);
	wire_put_u32(b, s->weaken);
	wire_put_u32(b, s->uid);
	wire_put_u32(b, s->gid);
	wire_put_u64(b, s->memory);
	wire_put_u64(b, s->pids);
	wire_put_u64(b, s->cpus_milli);
	wire_put_u64(b, s->disk);
	airlock_put(b, &s->airlock);
	wire_put_u32(b, s->op_count);
	for (uint32_t i = 0; i < s->op_count; i++) {
		const struct setup_op *op = &s->ops[i];
		wire_put_u32(b, op->kind);
		wire_put_u32(b, op->flags);
		wire_put_u32(b, op->mode);
		wire_put_str(b, op->target);
		wire_put_str(b, op->source);
		wire_put_bytes(b, op->data, op->data_len);
		if (op->kind == OP_LAYERED || op->kind == OP_ROOT)
			string_list_put(b, &op->layers);
		if (op->kind == OP_ROOT)
			string_list_put(b, &op->over);
		if (op_searches(op))
			find_put(b, &op->find);
	}
	wire_put_u32(b, s->rule_count);
	for (uint32_t i = 0; i < s->rule_count; i++) {
		wire_put_str(b, s->rules[i].path);
		wire_put_u32(b, s->rules[i].access);
		wire_put_str(b, s->rules[i].pattern);
	}
	string_list_put(b, &s->forbid);
	string_list_put(b, &s->read);
	string_list_put(b, &s->write);
}

/* A target is a relative path without "." or ".." components: it cannot name anything outside the new root. */
static bool target_is_plain(const char *t)
{
	if (!t || *t == '\0' || *t == '/')
		return false;
	for (;;) {
		size_t n = strcspn(t, "/");
		if (n == 0 || (n == 1 && t[0] == '.') || (n == 2 && t[0] == '.' && t[1] == '.'))
			return false;
		if (t[n] == '\0')
			return true;
		t += n + 1;
	}
}

/* What each kind of operation works on. */
static const enum {
	NO_SOURCE,
	ANY_SOURCE,
	NAME_SOURCE,
	INSIDE_SOURCE
} op_sources[OP_KIND_COUNT] = {
	[OP_SYMLINK] = ANY_SOURCE, [OP_BIND] = ANY_SOURCE,     [OP_DEVICE] = ANY_SOURCE,
	[OP_COPY] = ANY_SOURCE,    [OP_SCRATCH] = NAME_SOURCE, [OP_ALIAS] = INSIDE_SOURCE,
	[OP_HIDE] = ANY_SOURCE,    [OP_EXEC] = ANY_SOURCE,     [OP_COVER] = INSIDE_SOURCE,
};

/* Layers are named below their stage, and by what cannot be mistaken for another option of overlayfs. */
static bool layers_are_valid(const struct string_list *l)
{
	if (l->count < LAYERED_LOWER || l->count > MAX_LAYERS || (l->items[LAYERED_STAGE][0] && l->items[LAYERED_STAGE][0] != '/'))
		return false;
	for (uint32_t i = LAYERED_UPPER; i < l->count; i++)
		if (!target_is_plain(l->items[i]) || strpbrk(l->items[i], ",:\\"))
			return false;
	return true;
}

static bool root_is_valid(const struct setup_op *op)
{
	const struct string_list *l = &op->layers;
	if (l->count <= ROOT_LAYER || l->count > MAX_LAYERS || l->items[ROOT_STAGE][0] != '/')
		return false;
	for (uint32_t i = ROOT_LAYER; i < l->count; i++)
		if (!target_is_plain(l->items[i]))
			return false;
	return op->over.count == 0 || layers_are_valid(&op->over);
}

/* Everything that is looked for is an absolute path, or a pattern of them. */
static bool find_is_valid(const struct setup_op *op)
{
	const struct string_list *lists[] = {&op->find.patterns, &op->find.keep, &op->find.skip};
	for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
		if (lists[k]->count > MAX_PATTERNS)
			return false;
		for (uint32_t i = 0; i < lists[k]->count; i++)
			if (lists[k]->items[i][0] != '/')
				return false;
	}
	return op->source && op->source[0] == '/';
}

static bool op_is_valid(const struct setup_op *op)
{
	if (op->kind == 0 || op->kind >= OP_KIND_COUNT || (op->flags & ~(uint32_t)OP_FLAGS_ALL) || (op->mode & ~01777u))
		return false;
	if (op->kind == OP_ROOT)
		return op->target && strcmp(op->target, ".") == 0;
	if (op_searches(op)) /* the target may be the root itself */
		return find_is_valid(op) && op->target && (strcmp(op->target, ".") == 0 || target_is_plain(op->target));
	if (!target_is_plain(op->target))
		return false;
	switch (op_sources[op->kind]) {
	case ANY_SOURCE:
		return op->source;
	case NAME_SOURCE:
		return target_is_plain(op->source) && !strchr(op->source, '/');
	case INSIDE_SOURCE:
		return target_is_plain(op->source);
	case NO_SOURCE:
	default:
		return true;
	}
}

static void get_ops(struct wire_reader *r, struct sandbox_spec *s)
{
	uint32_t n = wire_get_count(r, 6 * sizeof(uint32_t), MAX_OPS);
	s->ops = calloc((size_t)n + 1, sizeof(*s->ops));
	if (!s->ops) {
		r->bad = true;
		return;
	}
	s->op_count = n;
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		struct setup_op *op = &s->ops[i];
		op->kind = (enum op_kind)wire_get_u32(r);
		op->flags = wire_get_u32(r);
		op->mode = wire_get_u32(r);
		op->target = wire_get_str(r);
		op->source = wire_get_str(r);
		op->data = wire_get_bytes(r, &op->data_len);
		if (op->kind == OP_LAYERED || op->kind == OP_ROOT)
			string_list_get(r, &op->layers);
		if (!r->bad && op->kind == OP_ROOT)
			string_list_get(r, &op->over);
		if (!r->bad && op_searches(op)) {
			string_list_get(r, &op->find.patterns);
			string_list_get(r, &op->find.keep);
			string_list_get(r, &op->find.skip);
		}
		if (r->bad || !op_is_valid(op) || (op->kind == OP_LAYERED && !layers_are_valid(&op->layers)) ||
		    (op->kind == OP_ROOT && (i > 0 || !root_is_valid(op))))
			r->bad = true;
	}
}

static void get_rules(struct wire_reader *r, struct sandbox_spec *s)
{
	uint32_t n = wire_get_count(r, 3 * sizeof(uint32_t), MAX_RULES);
	s->rules = calloc((size_t)n + 1, sizeof(*s->rules));
	if (!s->rules) {
		r->bad = true;
		return;
	}
	s->rule_count = n;
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		s->rules[i].path = wire_get_str(r);
		s->rules[i].access = wire_get_u32(r);
		s->rules[i].pattern = wire_get_str(r);
		if (!s->rules[i].path || s->rules[i].access >= LANDLOCK_ACCESS_COUNT ||
		    (s->rules[i].pattern && (s->rules[i].pattern[0] != '/' || s->rules[i].path[0] != '/')))
			r->bad = true;
	}
}

/* The id becomes a directory name and a cgroup name. */
static bool id_is_valid(const char *id)
{
	return id && strlen(id) == SPEC_ID_LEN && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") == SPEC_ID_LEN;
}

int sandbox_spec_decode(const void *body, size_t len, struct sandbox_spec *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	*out = (struct sandbox_spec){0};
	out->id = wire_get_str(&r);
	out->hostname = wire_get_str(&r);
	out->home = wire_get_str(&r);
	out->limits_force = wire_get_str(&r);
	out->flags = wire_get_u32(&r);
	out->weaken = wire_get_u32(&r);
	out->uid = wire_get_u32(&r);
	out->gid = wire_get_u32(&r);
	out->memory = wire_get_u64(&r);
	out->pids = wire_get_u64(&r);
	out->cpus_milli = wire_get_u64(&r);
	out->disk = wire_get_u64(&r);
	airlock_get(&r, &out->airlock);
	get_ops(&r, out);
	get_rules(&r, out);
	string_list_get(&r, &out->forbid);
	string_list_get(&r, &out->read);
	string_list_get(&r, &out->write);
	if (!wire_done(&r) || !id_is_valid(out->id) || !out->hostname || strlen(out->hostname) > 64 || !out->home || *out->home != '/') {
		sandbox_spec_free(out);
		return err_set(err, CORDON_ERR_INPUT, "malformed sandbox request");
	}
#ifndef CORDON_TEST_HOOKS
	out->weaken = 0;
#endif
	return 0;
}

void sandbox_spec_free(struct sandbox_spec *s)
{
	for (uint32_t i = 0; s->ops && i < s->op_count; i++) {
		free(s->ops[i].layers.items);
		free(s->ops[i].over.items);
		free(s->ops[i].find.patterns.items);
		free(s->ops[i].find.keep.items);
		free(s->ops[i].find.skip.items);
	}
	free(s->ops);
	free(s->rules);
	free(s->forbid.items);
	free(s->read.items);
	free(s->write.items);
	*s = (struct sandbox_spec){0};
}

static void files_put(struct buf *b, const struct code_file *files, uint32_t count)
{
	wire_put_u32(b, count);
	for (uint32_t i = 0; i < count; i++) {
		wire_put_str(b, files[i].path);
		wire_put_u32(b, files[i].mode);
		wire_put_bytes(b, files[i].data, files[i].len);
	}
}

static uint32_t files_get(struct wire_reader *r, struct code_file **out)
{
	const uint32_t n = wire_get_count(r, 3 * sizeof(uint32_t), MAX_FILES);
	*out = calloc((size_t)n + 1, sizeof(**out));
	for (uint32_t i = 0; *out && i < n && !r->bad; i++) {
		struct code_file *f = &(*out)[i];
		f->path = wire_get_str(r);
		f->mode = wire_get_u32(r);
		f->data = wire_get_bytes(r, &f->len);
		r->bad = r->bad || !target_is_plain(f->path) || strchr(f->path, '/') != strrchr(f->path, '/') || (f->mode & ~0777u);
	}
	r->bad = r->bad || !*out;
	return r->bad ? 0 : n;
}

void exec_spec_encode(const struct exec_spec *s, struct buf *b)
{
	wire_put_u32(b, s->tty);
	wire_put_u32(b, s->parked);
	wire_put_u32(b, s->more);
	wire_put_u32(b, s->remounted);
	wire_put_u32(b, s->tracked);
	wire_put_u32(b, s->rows);
	wire_put_u32(b, s->cols);
	wire_put_u64(b, s->timeout_ms);
	wire_put_u64(b, s->files);
	wire_put_str(b, s->cwd);
	string_list_put(b, &s->argv);
	string_list_put(b, &s->env);
	files_put(b, s->code, s->code_count);
}

int exec_spec_decode(const void *body, size_t len, struct exec_spec *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	*out = (struct exec_spec){0};
	out->tty = wire_get_u32(&r);
	out->parked = wire_get_u32(&r);
	out->more = wire_get_u32(&r);
	out->remounted = wire_get_u32(&r);
	out->tracked = wire_get_u32(&r);
	out->rows = wire_get_u32(&r);
	out->cols = wire_get_u32(&r);
	out->timeout_ms = wire_get_u64(&r);
	out->files = wire_get_u64(&r);
	out->cwd = wire_get_str(&r);
	string_list_get(&r, &out->argv);
	string_list_get(&r, &out->env);
	out->code_count = files_get(&r, &out->code);
	if (!wire_done(&r) || out->argv.count == 0 || !out->cwd || (out->parked && out->tty)) {
		exec_spec_free(out);
		return err_set(err, CORDON_ERR_INPUT, "malformed exec request");
	}
	return 0;
}

void exec_spec_free(struct exec_spec *s)
{
	free(s->argv.items);
	free(s->env.items);
	free(s->code);
	*s = (struct exec_spec){0};
}

void go_spec_encode(const struct go_spec *s, struct buf *b)
{
	wire_put_u32(b, s->more);
	wire_put_u64(b, s->timeout_ms);
	wire_put_str(b, s->cwd);
	wire_put_bytes(b, s->payload, s->payload_len);
	files_put(b, s->code, s->code_count);
}

int go_spec_decode(const void *body, size_t len, struct go_spec *out, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	*out = (struct go_spec){0};
	out->more = wire_get_u32(&r);
	out->timeout_ms = wire_get_u64(&r);
	out->cwd = wire_get_str(&r);
	out->payload = wire_get_bytes(&r, &out->payload_len);
	out->code_count = files_get(&r, &out->code);
	if (!wire_done(&r) || !out->cwd || out->payload_len == 0 || out->payload_len > GO_PAYLOAD_MAX) {
		go_spec_free(out);
		return err_set(err, CORDON_ERR_INPUT, "malformed exec request");
	}
	return 0;
}

void go_spec_free(struct go_spec *s)
{
	free(s->code);
	*s = (struct go_spec){0};
}

void error_encode(const struct cordon_error *e, struct buf *b)
{
	wire_put_u32(b, e->code);
	wire_put_u32(b, (uint32_t)e->sys_errno);
	wire_put_str(b, e->message);
	wire_put_str(b, e->hint);
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t n = strnlen(from, size - 1);
	memcpy(to, from, n);
	to[n] = '\0';
}

int error_decode(const void *body, size_t len, struct cordon_error *out)
{
	struct wire_reader r = {.at = body, .end = (const char *)body + len};
	uint32_t code = wire_get_u32(&r);
	int sys_errno = (int)wire_get_u32(&r);
	const char *message = wire_get_str(&r);
	const char *hint = wire_get_str(&r);
	if (!wire_done(&r) || !message || !hint || code > CORDON_ERR_BUSY)
		return err_set(out, CORDON_ERR_SYSTEM, "malformed error report from the sandbox");
	if (out) {
		out->code = (enum cordon_error_code)code;
		out->sys_errno = sys_errno;
		copy_text(out->message, sizeof(out->message), message);
		copy_text(out->hint, sizeof(out->hint), hint);
	}
	return 0;
}

int fixed_decode(const void *body, size_t len, void *out, size_t size, struct cordon_error *err)
{
	if (len != size)
		return err_set(err, CORDON_ERR_SYSTEM, "malformed report from the sandbox: %zu bytes instead of %zu", len, size);
	memcpy(out, body, size);
	return 0;
}
