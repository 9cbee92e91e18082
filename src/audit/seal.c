/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/trail.h"
#include "base/fs.h"
#include "base/util.h"

#define FIRST_LINE "cordon-audit-seal 1\n"
#define RETIRED_MAX ((off_t)64 << 20)

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

enum kind { SEGMENT, NUMBER, TIME, HEX, BASE64 };
static const struct field {
	const char *name;
	enum kind kind;
	size_t offset, len;
} fields[] = {
	{"segment", SEGMENT, offsetof(struct seal, number), 0},     {"first", NUMBER, offsetof(struct seal, first), 0},
	{"last", NUMBER, offsetof(struct seal, last), 0},           {"from", TIME, offsetof(struct seal, from), TEXT_TIME},
	{"to", TIME, offsetof(struct seal, to), TEXT_TIME},         {"prev", HEX, offsetof(struct seal, prev), AUDIT_HASH},
	{"head", HEX, offsetof(struct seal, head), AUDIT_HASH},     {"size", NUMBER, offsetof(struct seal, size), 0},
	{"sha256", HEX, offsetof(struct seal, sha256), AUDIT_HASH}, {"sealed", TIME, offsetof(struct seal, sealed), TEXT_TIME},
	{"key", HEX, offsetof(struct seal, key), SEAL_KEY_ID},      {"signature", BASE64, offsetof(struct seal, signature), SEAL_SIGNATURE},
};

static void add_field(struct buf *out, const struct field *f, const struct seal *s)
{
	const void *at = (const char *)s + f->offset;
	char name[TRAIL_NAME];

	switch (f->kind) {
	case SEGMENT:
		trail_name(*(const unsigned *)at, TRAIL_SUFFIX, name);
		buf_addf(out, "%s %s\n", f->name, name);
		break;
	case NUMBER:
		buf_addf(out, "%s %" PRIu64 "\n", f->name, *(const uint64_t *)at);
		break;
	case TIME:
	case HEX:
	case BASE64:
	default:
		buf_addf(out, "%s %s\n", f->name, (const char *)at);
		break;
	}
}

void seal_text(const struct seal *s, struct buf *out)
{
	buf_add_str(out, FIRST_LINE);
	for (size_t i = 0; i + 1 < ARRAY_SIZE(fields); i++)
		add_field(out, &fields[i], s);
}

static bool parse_number(const char *s, size_t len, uint64_t *out)
{
	*out = 0;
	if (len == 0 || len > 19 || (len > 1 && s[0] == '0') || strspn(s, "0123456789") != len)
		return false;
	for (size_t i = 0; i < len; i++)
		*out = *out * 10 + (uint64_t)(s[i] - '0');
	return true;
}

static bool parse_field(const struct field *f, const char *value, size_t len, struct seal *s)
{
	static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
	void *at = (char *)s + f->offset;
	const char *rest;

	switch (f->kind) {
	case SEGMENT:
		*(unsigned *)at = trail_number(value, &rest);
		return *(unsigned *)at && strncmp(rest, TRAIL_SUFFIX "\n", strlen(TRAIL_SUFFIX) + 1) == 0;
	case NUMBER:
		return parse_number(value, len, at);
	case TIME:
		if (len != f->len || !audit_time_valid(value))
			return false;
		break;
	case HEX:
	case BASE64:
	default:
		if (len != f->len || strspn(value, f->kind == HEX ? "0123456789abcdef" : base64) != len)
			return false;
		break;
	}
	memcpy(at, value, len);
	((char *)at)[len] = '\0';
	return true;
}

const char *seal_parse(const char *text, size_t len, struct seal *out)
{
	static const char *const wrong = "it is not in the form of a seal";
	const char *at = text, *end = text + len;

	*out = (struct seal){0};
	if (len > SEAL_TEXT_MAX || strlen(text) != len || strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0)
		return wrong;
	at += strlen(FIRST_LINE);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		size_t n = strlen(fields[i].name);
		const char *nl = strchr(at, '\n');

		if (!nl || strncmp(at, fields[i].name, n) != 0 || at[n] != ' ' ||
		    !parse_field(&fields[i], at + n + 1, (size_t)(nl - at) - n - 1, out))
			return wrong;
		at = nl + 1;
	}
	return at == end ? NULL : wrong;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

const char *seal_read(int dir, unsigned number, struct seal *out, bool *absent)
{
	char name[TRAIL_NAME], text[SEAL_TEXT_MAX + 1];

	trail_name(number, SEAL_SUFFIX, name);
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	*absent = fd < 0 && errno == ENOENT;
	if (fd < 0)
		return *absent ? "there is none" : strerror(errno);
	ssize_t n = fs_pread_full(fd, text, SEAL_TEXT_MAX, 0);
	if (n < 0)
		return strerror(errno);
	text[n] = '\0';
	const char *why = seal_parse(text, (size_t)n, out);
	return why ? why : out->number != number ? "it is the seal of another segment" : NULL;
}

int seal_write(int dir, const struct seal *s, struct cordon_error *err)
{
	static const char temporary[] = "seal.new";
	_cleanup_buf_ struct buf text = {0};
	char name[TRAIL_NAME];

	seal_text(s, &text);
	add_field(&text, &fields[ARRAY_SIZE(fields) - 1], s);
	trail_name(s->number, SEAL_SUFFIX, name);
	_cleanup_fd_ int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || text.failed)
		return err_sys(err, "cannot make %s", name);
	if (fs_write_full(fd, text.data, text.len) < 0 || fsync(fd) < 0 || renameat(dir, temporary, dir, name) < 0 || fsync(dir) < 0) {
		err_sys(err, "cannot write %s", name);
		unlinkat(dir, temporary, 0);
		return -1;
	}
	return 0;
}

/* ---- retired ----------------------------------------------------------------------------------------------------------------- */

void seal_list_free(struct seal_list *l)
{
	free(l->items);
	*l = (struct seal_list){0};
}

/* One line: a seal with tabs for line feeds. */
static const char *parse_line(const char *line, size_t len, struct seal *out)
{
	char text[SEAL_TEXT_MAX + 2];

	if (len > SEAL_TEXT_MAX || memchr(line, '\0', len))
		return "it is not in the form of a seal";
	for (size_t i = 0; i < len; i++)
		text[i] = line[i] == '\t' ? '\n' : line[i];
	text[len] = '\0';
	return seal_parse(text, len, out);
}

int seal_retired(int dir, struct seal_list *out, size_t *bad, const char **why, struct cordon_error *err)
{
	_cleanup_fd_ int fd = openat(dir, SEAL_RETIRED, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	*out = (struct seal_list){0};
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open %s", SEAL_RETIRED);
	if (st.st_size > RETIRED_MAX)
		return err_set(err, CORDON_ERR_SYSTEM, "%s is too large", SEAL_RETIRED);
	_cleanup_free_ char *data = malloc((size_t)st.st_size + 1);
	ssize_t n = data ? fs_pread_full(fd, data, (size_t)st.st_size, 0) : -1;
	if (n < 0)
		return err_sys(err, "cannot read %s", SEAL_RETIRED);
	size_t lines = 0;
	for (ssize_t i = 0; i < n; i++)
		lines += data[i] == '\n';
	out->items = calloc(lines + 1, sizeof(*out->items));
	if (!out->items)
		return err_sys(err, "audit");
	for (const char *at = data, *nl; at < data + n && (nl = memchr(at, '\n', (size_t)(data + n - at))); at = nl + 1) {
		*why = parse_line(at, (size_t)(nl - at), &out->items[out->count]);
		if (*why) {
			*bad = out->count + 1;
			return 1;
		}
		out->count++;
		out->size = nl + 1 - data;
	}
	return 0;
}

int seal_retire(int dir, const struct seal *s, off_t size, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};

	seal_text(s, &text);
	add_field(&text, &fields[ARRAY_SIZE(fields) - 1], s);
	for (size_t i = 0; i < text.len; i++)
		text.data[i] = text.data[i] == '\n' ? '\t' : text.data[i];
	buf_add(&text, "\n", 1);
	_cleanup_fd_ int fd = openat(dir, SEAL_RETIRED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || text.failed)
		return err_sys(err, "cannot open %s", SEAL_RETIRED);
	/* what an interrupted one has left behind the whole lines goes away */
	if (ftruncate(fd, size) < 0 || lseek(fd, size, SEEK_SET) < 0 || fs_write_full(fd, text.data, text.len) < 0 || fsync(fd) < 0 ||
	    fsync(dir) < 0) {
		int saved = errno;
		int cut = ftruncate(fd, size);

		(void)cut;
		errno = saved;
		return err_sys(err, "cannot write %s", SEAL_RETIRED);
	}
	return 0;
}
