/* SPDX-License-Identifier: Apache-2.0 */
/* A mark on the disk: a head, then the text, up to the end of a sector. All go to the same place: what counts is their entry in the log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "power.h"

#define MAGIC "cordon-mark-1\n\n"
#define SECTOR 512u

struct head {
	char magic[16];
	uint32_t kind, length;
	char id[LAYER_ID_LEN + 4];
};

void mark_write(int fd, enum mark_kind kind, const char *id, const char *text)
{
	void *sectors;
	struct head head = {.magic = MAGIC, .kind = kind, .length = (uint32_t)strlen(text)};
	size_t size = (sizeof(head) + head.length + SECTOR - 1) / SECTOR * SECTOR;
	snprintf(head.id, sizeof(head.id), "%s", id);
	MUST(size <= MARKS_SIZE && posix_memalign(&sectors, BLOCK, size) == 0);
	memset(sectors, 0, size);
	memcpy(sectors, &head, sizeof(head));
	memcpy((char *)sectors + sizeof(head), text, head.length);
	MUST(pwrite(fd, sectors, size, 0) == (ssize_t)size);
	free(sectors);
}

bool mark_parse(const void *data, size_t len, struct mark *out)
{
	struct head head;
	if (len < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	if (memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0 || head.kind >= MARK_KIND_COUNT || head.length > len - sizeof(head))
		return false;
	*out = (struct mark){.kind = (enum mark_kind)head.kind, .text = strndup((const char *)data + sizeof(head), head.length)};
	MUST(out->text);
	snprintf(out->id, sizeof(out->id), "%.*s", LAYER_ID_LEN, head.id);
	return true;
}
