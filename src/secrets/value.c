/* SPDX-License-Identifier: Apache-2.0 */
/* Values in memory, and where a policy takes them from. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "policy/policy.h"
#include "secrets/store.h"

#define ROOM (SECRET_VALUE_MAX + 2) /* a line feed that is taken off or one byte too many, and a NUL */

int secret_begin(struct secret *s, struct cordon_error *err)
{
	void *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*s = (struct secret){0};
	if (room == MAP_FAILED)
		return err_sys(err, "no memory for a secret");
	/* both as far as this machine allows it: old limits on locked memory are small */
	madvise(room, ROOM, MADV_DONTDUMP);
	(void)mlock(room, ROOM);
	s->data = room;
	return 0;
}

void secret_wipe(struct secret *s)
{
	if (!s->data)
		return;
	explicit_bzero(s->data, ROOM);
	munmap(s->data, ROOM);
	*s = (struct secret){0};
}

int secret_check(const struct secret *s, const char *what, struct cordon_error *err)
{
	if (s->len == 0)
		return err_set(err, CORDON_ERR_INPUT, "%s is empty: that is no secret", what);
	if (s->len > SECRET_VALUE_MAX)
		return err_set(err, CORDON_ERR_INPUT, "%s is too long for a secret: it has more than %d KB", what, SECRET_VALUE_MAX / 1024);
	if (memchr(s->data, '\0', s->len))
		return err_set(err, CORDON_ERR_INPUT, "%s has a NUL byte in it: a secret is text", what);
	return 0;
}

/* Up to the end, or one byte more than a value and its line feed can have. */
static int read_all(struct secret *s, int fd)
{
	const ssize_t n = fs_read_full(fd, s->data + s->len, ROOM - s->len);
	if (n < 0)
		return -1;
	s->len += (size_t)n;
	return 0;
}

int secret_read(struct secret *s, int fd, const char *what, struct cordon_error *err)
{
	if (secret_begin(s, err) < 0)
		return -1;
	int r = read_all(s, fd) < 0 ? err_sys(err, "cannot read %s", what) : 0;
	if (s->len > 0 && s->len < ROOM && s->data[s->len - 1] == '\n')
		s->data[--s->len] = '\0';
	if (r == 0)
		r = secret_check(s, what, err);
	if (r < 0)
		secret_wipe(s);
	return r;
}

int secret_copy(struct secret *s, const char *text, const char *what, struct cordon_error *err)
{
	size_t len = strlen(text);

	if (secret_begin(s, err) < 0)
		return -1;
	s->len = MIN(len, SECRET_VALUE_MAX + 1);
	memcpy(s->data, text, s->len);
	if (secret_check(s, what, err) == 0)
		return 0;
	secret_wipe(s);
	return -1;
}

/* What RFC 9110 5.5 calls a field value, in any encoding. */
int secret_check_header(const struct secret *s, struct cordon_error *err)
{
	if (s->len > SECRET_HEADER_MAX)
		return err_set(err, CORDON_ERR_INPUT, "it is too long for a header: it has more than %d KB", SECRET_HEADER_MAX >> 10);
	for (size_t i = 0; i < s->len; i++) {
		unsigned char c = (unsigned char)s->data[i];

		if ((c >= ' ' && c != 0x7f) || c == '\t')
			continue;
		err_set(err, CORDON_ERR_INPUT, "it has %s in it, and cannot be sent in a header",
		        c == '\n' || c == '\r' ? "a line break" : "a control character");
		return err_hint(err, "a header takes one line: set the secret again without the rest");
	}
	return 0;
}
