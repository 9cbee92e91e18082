/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image-import SOURCE STAGING [BYTES [ENTRIES]]: an archive or directory through cordon-unpack and the writer, as `cordon image import` does it, without a store. Prints
 * what was written as JSON, or "error CODE: MESSAGE"; exit 1 then. cordon-unpack is looked for beside this program.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/util.h"
#include "image/unpack.h"
#include "image/write.h"

struct heard {
	uint64_t calls, done, total;
};

static bool on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct heard *h = arg;
	h->calls++;
	h->done = done;
	h->total = total;
	return true;
}

static int import(int source, int staging, const struct image_write_limits *limits, struct image_write_result *out, struct heard *heard,
                  struct cordon_error *err)
{
	struct stat st;
	int stream;
	pid_t pid;
	if (fstat(source, &st) == 0 && S_ISDIR(st.st_mode) && !image_is_layout(source))
		return image_write_directory(source, staging, limits, out, on_progress, heard, err);
	if (unpack_start(source, limits->bytes, &stream, &pid, err) < 0)
		return -1;
	const int r = image_write(stream, staging, limits, out, on_progress, heard, err);
	close(stream);
	unpack_end(pid, err);
	return r;
}

static void print_layers(struct json *j, const struct image_write_result *r)
{
	json_key(j, "layers");
	json_array(j);
	for (size_t i = 0; i < r->layer_count; i++) {
		const struct written_layer *l = &r->layers[i];
		json_object(j);
		json_kstr(j, "digest", l->digest);
		json_kstr(j, "diff_id", l->diff_id);
		json_kint(j, "bytes", (int64_t)l->bytes);
		json_kint(j, "entries", (int64_t)l->entries);
		json_kbool(j, "hides_lower", l->hides_lower);
		json_end(j);
	}
	json_end(j);
}

static void print(const struct image_write_result *r, const struct heard *h)
{
	_cleanup_buf_ struct buf text = {0};
	struct json j = {.out = &text};
	json_object(&j);
	json_kstr(&j, "kind", image_kind_name(r->kind));
	print_layers(&j, r);
	json_kint(&j, "devices", (int64_t)r->neutralised.devices);
	json_kint(&j, "set_ids", (int64_t)r->neutralised.set_ids);
	json_kint(&j, "owners", (int64_t)r->neutralised.owners);
	json_kint(&j, "mounts", (int64_t)r->neutralised.mounts);
	json_kstr(&j, "arch", r->arch);
	json_kstr(&j, "os", r->os);
	json_kstr(&j, "user", r->user);
	json_kstr(&j, "cwd", r->cwd);
	json_key(&j, "env");
	json_array(&j);
	for (size_t i = 0; i < r->env.count; i++)
		json_str(&j, r->env.items[i]);
	json_end(&j);
	json_kint(&j, "progress_calls", (int64_t)h->calls);
	json_kint(&j, "progress_done", (int64_t)h->done);
	json_kint(&j, "progress_total", (int64_t)h->total);
	json_end(&j);
	puts(text.data);
}

int main(int argc, char **argv)
{
	struct image_write_limits limits = {(uint64_t)1 << 30, IMAGE_ENTRIES_MAX, IMAGE_FILE_MAX, IMAGE_DEPTH_MAX};
	_cleanup_write_result_ struct image_write_result result = {0};
	struct cordon_error err = {0};
	struct heard heard = {0};
	if (argc < 3)
		return 2;
	if (argc > 3)
		limits.bytes = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		limits.entries = strtoull(argv[4], NULL, 10);
	_cleanup_fd_ int source = open(argv[1], O_RDONLY | O_CLOEXEC), staging = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (source < 0 || staging < 0) {
		perror(argv[source < 0 ? 1 : 2]);
		return 2;
	}
	if (import(source, staging, &limits, &result, &heard, &err) < 0) {
		printf("error %d: %s%s%s\n", (int)err.code, err.message, *err.hint ? " | " : "", err.hint);
		return 1;
	}
	print(&result, &heard);
	return 0;
}
