/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives, through the reader and then through the writer, in one process. A target fails when something outside of the image's place changes, or when the writer does not
 * understand what the reader says.
 */
#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/util.h"
#include "fuzz_place.h"
#include "fuzz_seeds.h"
#include "must.h"
#include "unpack/unpack.h"

#define UNPACKED_MAX ((uint64_t)4 << 20)

static int try_archive(const void *data, size_t size)
{
	struct cordon_error err = {0};
	struct outer outer;
	_cleanup_fd_ int archive = place_file(data, size), stream = memfd_create("stream", MFD_CLOEXEC);
	struct emit emit = {.fd = stream};
	MUST(stream >= 0);
	int r = unpack_prepare(&outer, archive, 0, &err);
	outer.most = UNPACKED_MAX;
	if (r == 0)
		r = unpack_run(&outer, &emit, &err);
	MUST(r == 0 || (err.code != CORDON_OK && *err.message));
	if (r < 0)
		emit_error(&emit, &err);
	outer_free(&outer);
	emit_free(&emit);
	MUST(lseek(stream, 0, SEEK_SET) == 0);
	const int written = place_write(stream);
	MUST(r == 0 || written < 0);
	return written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > (256 << 10))
		return 0;
	try_archive(data + 1, size - 1);
	return 0;
}

/* ---- seeds ------------------------------------------------------------------------------------------------------------------- */

struct made {
	char bytes[64 << 10];
	size_t len;
};

static void add_entry(struct archive *a, const char *path, unsigned type, const char *link, const void *data, size_t len)
{
	struct archive_entry *e = archive_entry_new();
	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, type ? type : AE_IFREG);
	archive_entry_set_perm(e, 04755);
	archive_entry_set_mtime(e, 1, 500);
	archive_entry_set_size(e, (la_int64_t)len);
	if (type == AE_IFLNK)
		archive_entry_set_symlink(e, link);
	else if (link)
		archive_entry_set_hardlink(e, link);
	archive_entry_xattr_add_entry(e, "user.overlay.opaque", "y", 1);
	archive_write_header(a, e);
	archive_write_data(a, data, len);
	archive_entry_free(e);
}

static struct archive *begin_tar(struct made *m, int format, int filter)
{
	struct archive *a = archive_write_new();
	archive_write_set_format(a, format);
	archive_write_add_filter(a, filter);
	archive_write_set_bytes_in_last_block(a, 1);
	MUST(archive_write_open_memory(a, m->bytes, sizeof(m->bytes), &m->len) == ARCHIVE_OK);
	return a;
}

static void make_files(struct made *m, int format, int filter, const char *whiteout)
{
	struct archive *a = begin_tar(m, format, filter);
	add_entry(a, "./", AE_IFDIR, NULL, NULL, 0);
	add_entry(a, "d/f", 0, NULL, "hello", 5);
	add_entry(a, "d/h", 0, "d/f", NULL, 0);
	add_entry(a, "l", AE_IFLNK, "../../witness", NULL, 0);
	add_entry(a, whiteout, 0, NULL, NULL, 0);
	add_entry(a, "null", AE_IFCHR, NULL, NULL, 0);
	add_entry(a, "a-long-name/a-long-name/a-long-name/a-long-name/a-long-name/a-long-name/a-long-name/a-long-name/a-long-name/x", 0,
	          NULL, "x", 1);
	archive_write_free(a);
}

static void digest_of(const void *data, size_t len, char out[SHA256_HEX])
{
	unsigned char bytes[SHA256_SIZE];
	struct sha256 s;
	sha256_begin(&s);
	sha256_add(&s, data, len);
	sha256_end(&s, bytes);
	sha256_hex(bytes, out);
}

#if defined(__x86_64__)
#define ARCH "amd64"
#else
#define ARCH "arm64"
#endif

static void make_docker(struct made *m, const struct made *layer)
{
	char digest[SHA256_HEX], name[100], config[400], config_name[100], manifest[400], config_digest[SHA256_HEX];
	digest_of(layer->bytes, layer->len, digest);
	snprintf(name, sizeof(name), "%s/layer.tar", digest);
	snprintf(config, sizeof(config),
	         "{\"architecture\":\"" ARCH
	         "\",\"os\":\"linux\",\"config\":{\"Env\":[\"A=1\"]},\"rootfs\":{\"diff_ids\":[\"sha256:%s\"]}}",
	         digest);
	digest_of(config, strlen(config), config_digest);
	snprintf(config_name, sizeof(config_name), "%s.json", config_digest);
	snprintf(manifest, sizeof(manifest), "[{\"Config\":\"%s\",\"Layers\":[\"%s\"]}]", config_name, name);
	struct archive *a = begin_tar(m, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
	add_entry(a, name, 0, NULL, layer->bytes, layer->len);
	add_entry(a, config_name, 0, NULL, config, strlen(config));
	add_entry(a, "manifest.json", 0, NULL, manifest, strlen(manifest));
	archive_write_free(a);
}

static void make_oci(struct made *m)
{
	static const char index[] =
		"{\"manifests\":[{\"digest\":\"sha256:0000000000000000000000000000000000000000000000000000000000000000\",\"size\":2}]}";
	struct archive *a = begin_tar(m, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FILTER_NONE);
	add_entry(a, "oci-layout", 0, NULL, "{}", 2);
	add_entry(a, "index.json", 0, NULL, index, strlen(index));
	add_entry(a, "blobs/sha256/0000000000000000000000000000000000000000000000000000000000000000", 0, NULL, "{}", 2);
	archive_write_free(a);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct {
		const char *name;
		int format, filter;
	} tars[] = {
		{"pax", ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FILTER_NONE},
		{"gnu", ARCHIVE_FORMAT_TAR_GNUTAR, ARCHIVE_FILTER_NONE},
		{"ustar-gzip", ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_GZIP},
		{"pax-zstd", ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FILTER_ZSTD},
	};
	const char *dir = seeds_directory(*argc, *argv);
	struct made m, layer;
	place_make();
	for (size_t i = 0; i < ARRAY_SIZE(tars); i++) {
		make_files(&m, tars[i].format, tars[i].filter, "d/x");
		MUST(try_archive(m.bytes, m.len) == 0);
		seed_write(dir, tars[i].name, 0, m.bytes, m.len);
	}
	make_files(&layer, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE, "d/.wh.x");
	make_docker(&m, &layer);
	MUST(try_archive(m.bytes, m.len) == 0);
	seed_write(dir, "docker", 0, m.bytes, m.len);
	make_oci(&m);
	seed_write(dir, "oci", 0, m.bytes, m.len);
	return 0;
}
