/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/id.h"
#include "base/util.h"
#include "policy/policy.h"
#include "sandbox/owner.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define FIRST_WORD "cordon"
#define LAST_LINE "end"

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

static void add_value(struct buf *out, const char *value)
{
	for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
		if (*p < 0x20 || *p >= 0x7f || *p == '%')
			buf_addf(out, "%%%02X", *p);
		else
			buf_add(out, p, 1);
	}
}

static void add_text(struct buf *out, const char *key, const char *value)
{
	buf_addf(out, "%s ", key);
	add_value(out, value);
	buf_add_str(out, "\n");
}

static void add_list(struct buf *out, const char *key, const struct strlist *list)
{
	for (size_t i = 0; i < list->count; i++)
		add_text(out, key, list->items[i]);
}

static void add_key(struct buf *out, const struct record_key *key, const void *record)
{
	const void *field = (const char *)record + key->offset;
	const char *text;

	switch (key->type) {
	case RECORD_ID:
	case RECORD_CHARS:
		if (*(const char *)field)
			add_text(out, key->name, field);
		break;
	case RECORD_TEXT:
		text = *(char *const *)field;
		if (text)
			add_text(out, key->name, text);
		break;
	case RECORD_LIST:
		add_list(out, key->name, field);
		break;
	case RECORD_INT:
		buf_addf(out, "%s %d\n", key->name, *(const int *)field);
		break;
	case RECORD_U32:
		buf_addf(out, "%s %" PRIu32 "\n", key->name, *(const uint32_t *)field);
		break;
	case RECORD_I64:
		buf_addf(out, "%s %" PRId64 "\n", key->name, *(const int64_t *)field);
		break;
	case RECORD_U64:
		buf_addf(out, "%s %" PRIu64 "\n", key->name, *(const uint64_t *)field);
		break;
	case RECORD_WORD:
		if (*(const unsigned *)field < key->size)
			add_text(out, key->name, key->words[*(const unsigned *)field]);
		else
			out->failed = true;
		break;
	default:
		break;
	}
}

void record_format(const struct record_kind *kind, const void *record, struct buf *out)
{
	out->cap = RECORD_SIZE_MAX;
	buf_addf(out, FIRST_WORD " %d %s\n", RECORD_VERSION, kind->name);
	for (size_t i = 0; i < kind->count; i++)
		add_key(out, &kind->keys[i], record);
	buf_add_str(out, LAST_LINE "\n");
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

static int hex_digit(char c)
{
	static const char digits[] = "0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* Undoes add_value(), in place: the text only gets shorter. False if the writer would not have written it so. */
static bool decode_value(char *value)
{
	char *to = value;
	for (const char *from = value; *from; from++) {
		unsigned char c = (unsigned char)*from;
		if (c < 0x20 || c >= 0x7f)
			return false;
		if (c == '%') {
			int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
			if (low < 0 || (high == 0 && low == 0))
				return false;
			c = (unsigned char)(high * 16 + low);
			from += 2;
		}
		*to++ = (char)c;
	}
	*to = '\0';
	return true;
}

/* Decimal, as printf writes it: no plus, no leading zeros or blanks. */
static bool parse_number(const char *text, int64_t min, uint64_t max, uint64_t *out)
{
	bool negative = *text == '-';
	const char *digits = text + negative;
	uint64_t limit = negative ? (uint64_t)0 - (uint64_t)min : max, n = 0;

	if (!*digits || (negative && min >= 0) || (*digits == '0' && (digits[1] || negative)))
		return false;
	for (; *digits; digits++) {
		unsigned digit = (unsigned)(*digits - '0');
		if (digit > 9 || n > (limit - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*out = negative ? (uint64_t)0 - n : n;
	return true;
}

static bool parse_word(const struct record_key *key, const char *value, void *field)
{
	for (size_t i = 0; i < key->size; i++) {
		if (strcmp(key->words[i], value) == 0) {
			*(unsigned *)field = (unsigned)i;
			return true;
		}
	}
	return false;
}

static bool parse_chars(char *field, size_t size, const char *value)
{
	size_t len = strlen(value);
	if (len == 0 || len >= size)
		return false;
	memcpy(field, value, len + 1);
	return true;
}

/* 1: taken over, 0: not what this key may hold, -1: out of memory. */
static int parse_field(const struct record_key *key, const char *value, void *record)
{
	void *field = (char *)record + key->offset;
	uint64_t n;
	int fits = 0;

	switch (key->type) {
	case RECORD_ID:
		return id_valid(value) && parse_chars(field, ID_LEN + 1, value);
	case RECORD_CHARS:
		return parse_chars(field, key->size, value);
	case RECORD_TEXT:
		*(char **)field = strdup(value);
		return *(char **)field ? 1 : -1;
	case RECORD_LIST:
		return strlist_add(field, value, NULL) == 0 ? 1 : -1;
	case RECORD_INT:
		if ((fits = parse_number(value, INT32_MIN, INT32_MAX, &n)))
			*(int *)field = (int)(int64_t)n;
		return fits;
	case RECORD_U32:
		if ((fits = parse_number(value, 0, UINT32_MAX, &n)))
			*(uint32_t *)field = (uint32_t)n;
		return fits;
	case RECORD_I64:
		if ((fits = parse_number(value, INT64_MIN, INT64_MAX, &n)))
			*(int64_t *)field = (int64_t)n;
		return fits;
	case RECORD_U64:
		if ((fits = parse_number(value, 0, UINT64_MAX, &n)))
			*(uint64_t *)field = n;
		return fits;
	case RECORD_WORD:
		return parse_word(key, value, field);
	default:
		return 0;
	}
}

struct parser {
	const struct record_kind *kind;
	void *record;
	uint64_t seen;          /* bit i: key i */
	size_t line;            /* its number, from 1 */
	size_t bad_line;        /* the first malformed one; 0: none */
	const char *bad_reason; /* constant text */
};

static void complain(struct parser *p, const char *reason)
{
	if (!p->bad_line) {
		p->bad_line = p->line;
		p->bad_reason = reason;
	}
}

/* -1 only when out of memory; a malformed line is noted and the rest is read all the same. */
static int parse_line(struct parser *p, char *line)
{
	char *value = strchr(line, ' ');
	if (!value || value == line) {
		complain(p, "not a key and a value");
		return 0;
	}
	*value++ = '\0';
	if (line[strspn(line, "abcdefghijklmnopqrstuvwxyz_")] != '\0' || !decode_value(value)) {
		complain(p, "malformed");
		return 0;
	}
	for (size_t i = 0; i < p->kind->count; i++) {
		const struct record_key *key = &p->kind->keys[i];
		if (strcmp(key->name, line) != 0)
			continue;
		if ((p->seen >> i & 1) && key->type != RECORD_LIST) {
			complain(p, "a second value");
			return 0;
		}
		int taken = parse_field(key, value, p->record);
		if (taken < 0)
			return -1;
		if (taken == 0)
			complain(p, "not a value that this key can have");
		else
			p->seen |= UINT64_C(1) << i;
		return 0;
	}
	return 0; /* a key of a later cordon */
}

static int check_first_line(const struct record_kind *kind, const char *line, struct cordon_error *err)
{
	char expected[64], version[16] = "", rest[32] = "";
	snprintf(expected, sizeof(expected), FIRST_WORD " %d %s", RECORD_VERSION, kind->name);
	if (strcmp(line, expected) == 0)
		return 0;
	if (sscanf(line, FIRST_WORD " %15[0-9] %31s", version, rest) == 2 && strcmp(rest, kind->name) == 0) {
		err_set(err, CORDON_ERR_INPUT, "its record has version %s, and this cordon reads version %d", version, RECORD_VERSION);
		return err_hint(err, "it was made by another release of cordon; use that one");
	}
	return err_set(err, CORDON_ERR_INPUT, "damaged: it does not begin with \"%s\"", expected);
}

static int check_complete(const struct parser *p, bool ended, struct cordon_error *err)
{
	if (p->bad_line)
		return err_set(err, CORDON_ERR_INPUT, "damaged: line %zu: %s", p->bad_line, p->bad_reason);
	if (!ended)
		return err_set(err, CORDON_ERR_INPUT, "damaged: cut off after line %zu", p->line);
	for (size_t i = 0; i < p->kind->count; i++)
		if (p->kind->keys[i].type >= RECORD_INT && p->kind->keys[i].size != RECORD_LATER && !(p->seen >> i & 1))
			return err_set(err, CORDON_ERR_INPUT, "damaged: \"%s\" is missing", p->kind->keys[i].name);
	return 0;
}

int record_parse(const struct record_kind *kind, const char *text, size_t len, void *record, struct cordon_error *err)
{
	struct parser p = {.kind = kind, .record = record};
	_cleanup_free_ char *copy = malloc(len + 1);
	bool ended = false;

	if (!copy)
		return err_sys(err, "cannot read a record");
	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	if (strlen(copy) != len)
		return err_set(err, CORDON_ERR_INPUT, "damaged: it contains NUL");
	for (char *line = copy, *next; *line && !ended; line = next) {
		next = strchr(line, '\n');
		if (!next)
			break; /* the writer ends every line */
		*next++ = '\0';
		p.line++;
		if (p.line == 1 && check_first_line(kind, line, err) < 0)
			return -1;
		ended = strcmp(line, LAST_LINE) == 0;
		if (ended && *next)
			complain(&p, "something follows the end");
		if (p.line > 1 && !ended && parse_line(&p, line) < 0)
			return err_sys(err, "cannot read a record");
	}
	return check_complete(&p, ended, err);
}

/* ---- files -------------------------------------------------------------------------------------------------------------------- */

/* What such a file cannot be: damage, in contrast to a disk or a process that is at its end. */
static bool is_damage(int error)
{
	return error == ELOOP || error == ENOTDIR || error == EISDIR || error == ENXIO || error == EIO;
}

/* `size` is what fstat(2) says: nobody writes a record in place. */
static int read_whole(int fd, size_t size, struct buf *out)
{
	char *room = buf_reserve(out, size);
	if (!room)
		return -1;
	while (out->len < size) {
		ssize_t n = read(fd, room + out->len, size - out->len);
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		out->len += (size_t)n;
	}
	return 0;
}

int record_read(int dirfd, const char *path, const struct record_kind *kind, void *record, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	struct stat st;
	/* O_NONBLOCK: a FIFO in its place must not hang us */
	_cleanup_fd_ int fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return err_set(err, CORDON_ERR_NOT_FOUND, "it does not exist");
	if (fd < 0 || fstat(fd, &st) < 0)
		return is_damage(errno) ? err_set(err, CORDON_ERR_INPUT, "damaged: %s", strerror(errno))
		                        : err_sys(err, "cannot open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "damaged: not a regular file");
	if (st.st_size > (off_t)RECORD_SIZE_MAX)
		return err_set(err, CORDON_ERR_INPUT, "damaged: longer than 1 MiB");
	if (read_whole(fd, (size_t)st.st_size, &text) < 0)
		return is_damage(errno) ? err_set(err, CORDON_ERR_INPUT, "damaged: %s", strerror(errno))
		                        : err_sys(err, "cannot read %s", path);
	return record_parse(kind, text.data, text.len, record, err);
}

int record_load(int dirfd, const char *id, const struct record_kind *kind, void *record, char own_id[], struct cordon_error *err)
{
	char path[128];
	struct cordon_error why = {0};
	snprintf(path, sizeof(path), "%s/%s", id, kind->name);
	int r = record_read(dirfd, path, kind, record, &why);
	if (r == 0 && strcmp(own_id, id) != 0)
		r = err_set(&why, CORDON_ERR_INPUT, "damaged: it is the record of '%s'", own_id);
	memcpy(own_id, id, strlen(id) + 1);
	if (r == 0)
		return 0;
	if (why.code == CORDON_ERR_NOT_FOUND)
		return 1;
	if (err)
		*err = why;
	return err_wrap(err, "%s %s", kind->name, id);
}

int record_missing(int dirfd, const char *id, const struct record_kind *kind, struct cordon_error *err)
{
	if (faccessat(dirfd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, CORDON_ERR_INPUT, "%s %s: damaged: its record is missing", kind->name, id);
	return err_set(err, CORDON_ERR_NOT_FOUND, "there is no %s %s", kind->name, id);
}

/*
 * ext4 may have no journal (virtual machines often do without), or one on another disk. jbd2 names those that lie in the file system itself after its
 * device and the journal's inode: "/proc/fs/jbd2/sda1-8".
 */
static bool ext4_has_journal(dev_t dev)
{
	char path[64], target[512], journal[320];
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	const char *name = strrchr(target, '/');
	snprintf(journal, sizeof(journal), "/proc/fs/jbd2/%.255s-8", name ? name + 1 : target);
	return access(journal, F_OK) == 0;
}

bool disk_has_one_journal(int fd)
{
	struct statfs fs;
	struct stat st;
	if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
		return false;
	return fs.f_type == XFS_SUPER_MAGIC || (fs.f_type == EXT4_SUPER_MAGIC && ext4_has_journal(st.st_dev));
}

int disk_write_out(int fd, bool one_journal)
{
	const unsigned wait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
	return one_journal ? sync_file_range(fd, 0, 0, wait) : fsync(fd);
}

/* O_EXCL: the name is ours alone. What could not be written completely is removed again. */
static int write_temp(int dirfd, const char *temp, const struct buf *text, bool wait, struct cordon_error *err)
{
	if (fs_write_file(dirfd, temp, text->data, text->len, 0600, err) < 0) {
		unlinkat(dirfd, temp, 0);
		return -1;
	}
	_cleanup_fd_ int fd = wait ? openat(dirfd, temp, O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (wait && (fd < 0 || disk_write_out(fd, disk_has_one_journal(fd)) < 0)) {
		err_sys(err, "cannot write %s to the disk", temp);
		unlinkat(dirfd, temp, 0);
		return -1;
	}
	return 0;
}

static int write_record(int dirfd, const char *name, const struct record_kind *kind, const void *record, bool wait,
                        struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	char temp[RECORD_TEMP_MAX];

	record_format(kind, record, &text);
	if (text.failed)
		return err_set(err, CORDON_ERR_INPUT, "the record of this %s would be longer than 1 MiB", kind->name);
	if (record_temp_name(temp, RECORD_TEMP, err) < 0 || write_temp(dirfd, temp, &text, wait, err) < 0)
		return -1;
	if (renameat(dirfd, temp, dirfd, name) < 0) {
		err_sys(err, "cannot rename %s to %s", temp, name);
		unlinkat(dirfd, temp, 0);
		return -1;
	}
	return 0;
}

int record_write(int dirfd, const char *name, const struct record_kind *kind, const void *record, struct cordon_error *err)
{
	if (write_record(dirfd, name, kind, record, true, err) < 0)
		return -1;
	return fsync(dirfd) < 0 ? err_sys(err, "cannot write the directory of %s to the disk", name) : 0;
}

int record_write_soon(int dirfd, const char *name, const struct record_kind *kind, const void *record, struct cordon_error *err)
{
	return write_record(dirfd, name, kind, record, false, err);
}

/* ---- temporary names ---------------------------------------------------------------------------------------------------------- */

int record_temp_name(char out[RECORD_TEMP_MAX], const char *prefix, struct cordon_error *err)
{
	char stamp[64], id[ID_LEN + 1];
	if (!owner_stamp(stamp, sizeof(stamp))) /* without it, nobody could ever tell that what we leave behind is garbage */
		return err_set(err, CORDON_ERR_SYSTEM, "cannot read /proc/self: /proc is missing or of another pid namespace");
	id_new(id);
	snprintf(out, RECORD_TEMP_MAX, "%s%s.%s", prefix, stamp, id);
	return 0;
}

bool record_temp_is_dead(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	return strncmp(name, prefix, len) == 0 && owner_is_dead(name + len);
}
