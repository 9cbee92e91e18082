/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of archives that has been taken over could say to the writer. A target fails when something outside of the image's place changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "fuzz_place.h"
#include "fuzz_seeds.h"
#include "image/stream.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > (1 << 20))
		return 0;
	const int stream = place_file(data + 1, size - 1); /* the first byte is the seeds' */
	place_write(stream);
	close(stream);
	return 0;
}

/* ---- seeds ------------------------------------------------------------------------------------------------------------------- */

static void add(struct buf *out, enum stream_kind kind, struct buf *body)
{
	const struct stream_header h = {.kind = (uint32_t)kind, .len = (uint32_t)body->len};
	buf_add(out, &h, sizeof(h));
	buf_add(out, body->data, body->len);
	body->len = 0;
}

static void add_layer(struct buf *out, struct buf *body)
{
	static const struct stream_entry entries[] = {
		{.type = ENTRY_DIR, .path = "d", .mode = 0700},
		{.type = ENTRY_FILE, .path = "d/f", .mode = 04755, .size = 5, .mtime = 1},
		{.type = ENTRY_SYMLINK, .path = "l", .link = "../../witness", .uid = 70000},
		{.type = ENTRY_HARDLINK, .path = "h", .link = "d/f"},
		{.type = ENTRY_WHITEOUT, .path = "d/gone"},
		{.type = ENTRY_OPAQUE, .path = "o"},
		{.type = ENTRY_LEFT_OUT, .path = "null"},
		{.type = ENTRY_FILE, .path = "s", .size = 9000},
	};
	stream_put_layer(body, "");
	add(out, STREAM_LAYER, body);
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		stream_put_entry(body, &entries[i]);
		add(out, STREAM_ENTRY, body);
		if (entries[i].size == 5) {
			buf_add_str(body, "hello");
			add(out, STREAM_DATA, body);
		} else if (entries[i].size) {
			stream_put_u64(body, entries[i].size);
			add(out, STREAM_HOLE, body);
		}
	}
	stream_put_layer(body, "");
	add(out, STREAM_LAYER_END, body);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *env[] = {"PATH=/bin", "A=b"};
	const struct stream_begin begin = {.kind = IMAGE_OCI, .arch = "amd64", .cwd = "/", .env = env, .env_count = 2, .layers = 2};
	const struct stream_progress progress = {5, 10};
	struct buf all = {0}, body = {0};
	place_make();
	stream_put_begin(&body, &begin);
	add(&all, STREAM_BEGIN, &body);
	add_layer(&all, &body);
	stream_put_progress(&body, &progress);
	add(&all, STREAM_PROGRESS, &body);
	add_layer(&all, &body);
	add(&all, STREAM_END, &body);
	const int stream = place_file(all.data, all.len);
	MUST(place_write(stream) == 0);
	close(stream);
	seed_write(seeds_directory(*argc, *argv), "image", 0, all.data, all.len);
	buf_free(&all);
	buf_free(&body);
	return 0;
}
