/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log that QEMU's blklogwrites makes, in the form of Linux' dm-log-writes: a sector with a head, then for each request a sector that
 * describes it, and its data. A request is logged when it is done and before the guest hears of it: whatever the guest knew to be written
 * when it sent a flush stands before that flush.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "power.h"

#define LOG_MAGIC 0x6a736677736872u
#define LOG_FLUSH 1u

/* Both little-endian, and so are the machines this is for. */
struct log_head {
	uint64_t magic, version, count;
	uint32_t sector_size;
} __attribute__((packed));

struct log_request {
	uint64_t sector, sectors, flags, data_len;
};

static void read_all(int fd, unsigned char *bytes, uint64_t size)
{
	for (uint64_t at = 0; at < size;) {
		ssize_t n = pread(fd, bytes + at, size - at, (off_t)at);
		MUST(n > 0);
		at += (uint64_t)n;
	}
}

static void add_mark(struct write_log *log, const struct log_entry *e, size_t at)
{
	struct mark *more = realloc(log->marks, (log->mark_count + 1) * sizeof(*more));
	MUST(more && mark_parse(e->data, e->len, &more[log->mark_count]));
	more[log->mark_count++].at = at;
	log->marks = more;
}

/* virtio-blk knows no writes that pass the cache by (the guest sends a flush after them), and nothing is discarded: there are no other flags. */
static void parse(struct write_log *log, uint64_t size, uint32_t sector)
{
	uint64_t at = sector;
	for (size_t i = 0; i < log->count; i++) {
		struct log_request q;
		struct log_entry *e = &log->entries[i];
		MUST(at + sector <= size);
		memcpy(&q, log->bytes + at, sizeof(q));
		at += sector;
		MUST(q.flags == (q.sectors ? 0 : LOG_FLUSH) && q.sectors <= (size - at) / sector);
		*e = (struct log_entry){q.sector * sector, q.sectors * sector, log->bytes + at};
		at += e->len;
		log->flushes += !e->len;
		if (e->len && e->offset >= log->disk_size)
			add_mark(log, e, i);
		else
			MUST(e->offset % BLOCK == 0 && e->len % BLOCK == 0 && e->offset + e->len <= log->disk_size);
	}
}

void log_read(int fd, uint64_t size, uint64_t fs_size, struct write_log *out)
{
	struct log_head head;
	*out = (struct write_log){.disk_size = fs_size, .bytes = malloc(size)};
	MUST(out->bytes && size > sizeof(head));
	read_all(fd, out->bytes, size);
	memcpy(&head, out->bytes, sizeof(head));
	MUST(head.magic == LOG_MAGIC && head.version == 1 && head.sector_size == 512 && head.count <= size / head.sector_size);
	out->count = (size_t)head.count;
	out->entries = calloc(out->count, sizeof(*out->entries));
	MUST(out->entries);
	parse(out, size, head.sector_size);
}
