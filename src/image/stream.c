/* SPDX-License-Identifier: Apache-2.0 */
#include "image/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/wire.h"

const char *image_kind_name(enum image_kind kind)
{
	static const char *const names[IMAGE_KIND_COUNT] = {
		[IMAGE_PLAIN] = "a tar archive",
		[IMAGE_DOCKER] = "docker save",
		[IMAGE_OCI] = "an OCI layout",
		[IMAGE_DIRECTORY] = "a directory",
	};
	return (unsigned)kind < IMAGE_KIND_COUNT && names[kind] ? names[kind] : "unknown";
}

/* ---- bodies ------------------------------------------------------------------------------------------------------------------- */

void stream_put_begin(struct buf *out, const struct stream_begin *b)
{
	wire_put_u32(out, (uint32_t)b->kind);
	wire_put_u32(out, b->layers);
	wire_put_str(out, b->arch);
	wire_put_str(out, b->os);
	wire_put_str(out, b->user);
	wire_put_str(out, b->cwd);
	wire_put_str(out, b->tag);
	wire_put_u32(out, b->env_count);
	for (uint32_t i = 0; i < b->env_count; i++)
		wire_put_str(out, b->env[i]);
}

int stream_get_begin(const char *body, size_t len, struct stream_begin *b)
{
	struct wire_reader r = {.at = body, .end = body + len};
	const uint32_t kind = wire_get_u32(&r);
	*b = (struct stream_begin){.kind = (enum image_kind)kind, .layers = wire_get_u32(&r)};
	b->arch = wire_get_str(&r);
	b->os = wire_get_str(&r);
	b->user = wire_get_str(&r);
	b->cwd = wire_get_str(&r);
	b->tag = wire_get_str(&r);
	const uint32_t count = wire_get_count(&r, sizeof(uint32_t), STREAM_ENV_MAX);
	b->env = calloc(count + 1, sizeof(*b->env));
	for (uint32_t i = 0; b->env && i < count; i++) {
		b->env[i] = wire_get_str(&r);
		r.bad |= !b->env[i];
	}
	b->env_count = count;
	if (b->env && wire_done(&r) && kind >= IMAGE_PLAIN && kind < IMAGE_KIND_COUNT && b->layers <= STREAM_LAYERS_MAX)
		return 0;
	free(b->env);
	b->env = NULL;
	return -1;
}

void stream_put_layer(struct buf *out, const char *digest)
{
	wire_put_str(out, digest);
}

static bool is_digest(const char *s)
{
	return s && (*s == '\0' || (strlen(s) == DIGEST_LEN && strspn(s, "0123456789abcdef") == DIGEST_LEN));
}

int stream_get_layer(const char *body, size_t len, struct stream_layer *l)
{
	struct wire_reader r = {.at = body, .end = body + len};
	l->digest = wire_get_str(&r);
	return wire_done(&r) && is_digest(l->digest) ? 0 : -1;
}

void stream_put_entry(struct buf *out, const struct stream_entry *e)
{
	wire_put_u32(out, (uint32_t)e->type);
	wire_put_u32(out, e->mode);
	wire_put_u64(out, e->uid);
	wire_put_u64(out, e->gid);
	wire_put_u64(out, (uint64_t)e->mtime);
	wire_put_u32(out, e->mtime_ns);
	wire_put_u64(out, e->size);
	wire_put_str(out, e->path);
	wire_put_str(out, e->link);
}

int stream_get_entry(const char *body, size_t len, struct stream_entry *e)
{
	struct wire_reader r = {.at = body, .end = body + len};
	const uint32_t type = wire_get_u32(&r);
	*e = (struct stream_entry){.type = (enum entry_type)type};
	e->mode = wire_get_u32(&r);
	e->uid = wire_get_u64(&r);
	e->gid = wire_get_u64(&r);
	e->mtime = (int64_t)wire_get_u64(&r);
	e->mtime_ns = wire_get_u32(&r);
	e->size = wire_get_u64(&r);
	e->path = wire_get_str(&r);
	e->link = wire_get_str(&r);
	const bool is_link = type == ENTRY_SYMLINK || type == ENTRY_HARDLINK;
	return wire_done(&r) && type >= ENTRY_FILE && type < ENTRY_TYPE_COUNT && e->path && is_link == !!e->link &&
	                       (type == ENTRY_FILE || e->size == 0)
	               ? 0
	               : -1;
}

void stream_put_u64(struct buf *out, uint64_t v)
{
	wire_put_u64(out, v);
}

int stream_get_u64(const char *body, size_t len, uint64_t *v)
{
	struct wire_reader r = {.at = body, .end = body + len};
	*v = wire_get_u64(&r);
	return wire_done(&r) ? 0 : -1;
}

void stream_put_progress(struct buf *out, const struct stream_progress *p)
{
	wire_put_u64(out, p->done);
	wire_put_u64(out, p->total);
}

int stream_get_progress(const char *body, size_t len, struct stream_progress *p)
{
	struct wire_reader r = {.at = body, .end = body + len};
	p->done = wire_get_u64(&r);
	p->total = wire_get_u64(&r);
	return wire_done(&r) ? 0 : -1;
}

void stream_put_error(struct buf *out, const struct cordon_error *err)
{
	wire_put_u32(out, err->code == CORDON_ERR_SYSTEM ? CORDON_ERR_SYSTEM : CORDON_ERR_INPUT);
	wire_put_str(out, err->message);
	wire_put_str(out, err->hint);
}

void stream_get_error(const char *body, size_t len, struct cordon_error *err)
{
	struct wire_reader r = {.at = body, .end = body + len};
	const uint32_t code = wire_get_u32(&r);
	const char *message = wire_get_str(&r), *hint = wire_get_str(&r);
	if (!wire_done(&r) || !message || !*message) {
		err_set(err, CORDON_ERR_SYSTEM, "the reader of the archive failed without saying why");
		return;
	}
	err_set(err, code == CORDON_ERR_SYSTEM ? CORDON_ERR_SYSTEM : CORDON_ERR_INPUT, "%s", message);
	if (hint && *hint)
		err_hint(err, "%s", hint);
}

/* ---- messages ----------------------------------------------------------------------------------------------------------------- */

int stream_send(int fd, enum stream_kind kind, const void *body, size_t len)
{
	const struct stream_header header = {.kind = (uint32_t)kind, .len = (uint32_t)len};
	const size_t all = sizeof(header) + len;
	if (len > STREAM_BODY_MAX) {
		errno = EMSGSIZE;
		return -1;
	}
	for (size_t done = 0; done < all;) {
		struct iovec parts[2];
		int count = 0;
		if (done < sizeof(header))
			parts[count++] = (struct iovec){(char *)(uintptr_t)&header + done, sizeof(header) - done};
		const size_t of_body = done > sizeof(header) ? done - sizeof(header) : 0;
		if (of_body < len)
			parts[count++] = (struct iovec){(char *)(uintptr_t)body + of_body, len - of_body};
		const ssize_t n = writev(fd, parts, count);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

int stream_receive(int fd, struct stream_header *header, char *body, struct cordon_error *err)
{
	const ssize_t n = fs_read_full(fd, header, sizeof(*header));
	if (n == 0)
		return 0;
	if (n < 0)
		return err_sys(err, "cannot read what the reader of the archive says");
	if ((size_t)n != sizeof(*header) || header->kind == 0 || header->kind >= STREAM_KIND_COUNT || header->len > STREAM_BODY_MAX)
		return err_set(err, CORDON_ERR_SYSTEM, "the reader of the archive says what makes no sense");
	const ssize_t got = fs_read_full(fd, body, header->len);
	if (got < 0)
		return err_sys(err, "cannot read what the reader of the archive says");
	return (size_t)got == header->len ? 1 : err_set(err, CORDON_ERR_SYSTEM, "the reader of the archive broke off");
}
