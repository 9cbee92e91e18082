/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_SIZE sizeof(((struct cordon_error *)0)->message)
#define HINT_SIZE sizeof(((struct cordon_error *)0)->hint)
#define CUT_MARK "..."

/* Ends a text that did not fit with a mark, and not in the middle of a UTF-8 character. */
static void mark_cut(char *text, size_t size)
{
	size_t end = size - sizeof(CUT_MARK);

	while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
		end--;
	memcpy(text + end, CUT_MARK, sizeof(CUT_MARK));
}

/*
 * Messages quote values that strangers wrote. A line feed would fake a second message and an escape character would reach the
 * user's terminal, so control characters never get further than this.
 */
static void keep_to_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

__attribute__((format(printf, 3, 0))) static void vcompose(char *out, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(out, size, fmt, ap);

	if (n < 0)
		snprintf(out, size, "(no message)");
	else if ((size_t)n >= size)
		mark_cut(out, size);
	keep_to_one_line(out);
}

__attribute__((format(printf, 3, 4))) static void compose(char *out, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vcompose(out, size, fmt, ap);
	va_end(ap);
}

/* Each text is composed aside and copied last, since the arguments may point into *err itself. */

int err_set(struct cordon_error *err, enum cordon_error_code code, const char *fmt, ...)
{
	char message[MESSAGE_SIZE];
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vcompose(message, sizeof(message), fmt, ap);
	va_end(ap);
	*err = (struct cordon_error){.code = code};
	memcpy(err->message, message, sizeof(message));
	return -1;
}

int err_sys(struct cordon_error *err, const char *fmt, ...)
{
	int saved = errno;
	char what[MESSAGE_SIZE - 128]; /* the rest is for the reason, which is the part that must not be cut */
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vcompose(what, sizeof(what), fmt, ap);
	va_end(ap);
	*err = (struct cordon_error){.code = CORDON_ERR_SYSTEM, .sys_errno = saved};
	/* strerror() is safe in threads here: musl's strings are constant, and glibc's buffer is per thread since 2.32. */
	compose(err->message, sizeof(err->message), "%s: %s", what, strerror(saved));
	errno = saved;
	return -1;
}

int err_wrap(struct cordon_error *err, const char *fmt, ...)
{
	char context[MESSAGE_SIZE / 2]; /* at most half, so that the cause stays readable however often it is wrapped */
	char message[MESSAGE_SIZE];
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vcompose(context, sizeof(context), fmt, ap);
	va_end(ap);
	if (err->message[0])
		compose(message, sizeof(message), "%s: %s", context, err->message);
	else
		compose(message, sizeof(message), "%s", context);
	memcpy(err->message, message, sizeof(message));
	return -1;
}

int err_hint(struct cordon_error *err, const char *fmt, ...)
{
	char hint[HINT_SIZE];
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vcompose(hint, sizeof(hint), fmt, ap);
	va_end(ap);
	memcpy(err->hint, hint, sizeof(hint));
	return -1;
}
