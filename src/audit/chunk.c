/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/chunk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

/* As much as there is: the file may have been cut since. */
static int read_range(int fd, off_t from, off_t end, struct buf *buffer)
{
	buffer->len = 0;
	char *data = buf_reserve(buffer, (size_t)(end - from));

	if (!data) {
		errno = ENOMEM;
		return -1;
	}
	while (from < end) {
		ssize_t n = pread(fd, data + buffer->len, (size_t)(end - from), from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		buffer->len += (size_t)n;
		from += n;
	}
	return 0;
}

int chunk_read(int fd, off_t size, uint64_t index, struct buf *buffer, struct chunk_lines *out)
{
	const off_t first = (off_t)index * CHUNK, from = first ? first - 1 : 0, end = MIN(size, first + CHUNK + AUDIT_LINE_MAX);

	*out = (struct chunk_lines){.begin = first};
	if (read_range(fd, from, end, buffer) < 0)
		return -1;
	if ((off_t)buffer->len < end - from) /* cut meanwhile */
		size = from + (off_t)buffer->len;
	const off_t last = MIN(size, first + CHUNK); /* lines begin in here */
	if (last <= first)
		return 0;
	const char *data = buffer->data, *stop = data + buffer->len;
	const char *begin = first ? memchr(data, '\n', buffer->len) : data;
	if (!begin || (first && from + (begin - data) + 1 >= last))
		return 0; /* all of it belongs to a line that began before */
	begin += first ? 1 : 0;
	out->data = begin;
	out->begin = from + (begin - data);

	/* the line that begins last ends at the first line feed from the piece's last byte on */
	const char *edge = data + (last - 1 - from);
	const char *nl = edge < stop ? memchr(edge, '\n', (size_t)(stop - edge)) : NULL;
	if (!nl) {
		nl = stop > begin ? memrchr(begin, '\n', (size_t)(stop - begin)) : NULL;
		const char *rest = nl ? nl + 1 : begin;

		out->overlong = from + (stop - data) < size || stop - rest >= AUDIT_LINE_MAX;
		out->torn = out->overlong ? 0 : (size_t)(stop - rest);
	}
	out->len = nl ? (size_t)(nl + 1 - begin) : 0;
	return 0;
}
