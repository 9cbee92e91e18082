/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/unpack.h"

#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "unpack/image.h"

#define ROOM(most) ((most) > UINT64_MAX / 4 ? UINT64_MAX : 2 * (most) + ((uint64_t)1 << 30)) /* with headers and padding */

/*
 * What libraries would look for when it is first needed. The locale stays "C": to one that is UTF-8 libarchive would put the names of pax headers into another form of
 * Unicode, while those that cannot be had in this one it leaves as they are, and names are bytes.
 */
static void warm_up(void)
{
	json_object_seed(0);
	const iconv_t to = iconv_open("ANSI_X3.4-1968", "UTF-8");
	if (to != (iconv_t)-1)
		iconv_close(to);
}

int unpack_prepare(struct outer *o, int fd, uint64_t most, struct cordon_error *err)
{
	struct stat st;
	*o = (struct outer){.fd = fd, .most = ROOM(most)};
	warm_up();
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot look at the archive");
	if (S_ISDIR(st.st_mode))
		return outer_open_layout(o, fd, err);
	if (!S_ISREG(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "the archive is no file");
	o->size = (uint64_t)st.st_size;
	return o->size ? 0 : err_set(err, CORDON_ERR_INPUT, "the archive is empty: the file has no bytes");
}

/* ---- one layer ---------------------------------------------------------------------------------------------------------------- */

/* Where the last header was looked for: a tar archive has something there, or it has been cut off. */
static int check_whole(const struct reader *r, uint64_t length, struct cordon_error *err)
{
	const int64_t at = archive_read_header_position(r->archive);
	return at >= 0 && (uint64_t)at < length ? 0 : err_set(err, CORDON_ERR_INPUT, "the archive is damaged: its end is missing");
}

static int emit_files(struct emit *e, struct reader *r, struct cordon_error *err)
{
	struct archive_entry *entry;
	int result;
	while ((result = reader_next(r, &entry, err)) > 0)
		if (emit_entry(e, r, entry, err) < 0)
			return -1;
	return result;
}

/* The tar archive in a source, which may be compressed. diff_id: of all of it, uncompressed. */
static int emit_tar(struct emit *e, struct source *s, bool whole, char diff_id[SHA256_HEX], struct cordon_error *err)
{
	struct reader r = {0};
	source_hash(s);
	int result = reader_open(&r, READ_TAR, s, err);
	r.limited = true;
	if (result == 0)
		result = emit_files(e, &r, err);
	if (result == 0)
		result = source_end(s, SOURCE_IDLE_MAX, diff_id, err);
	if (result == 0 && whole)
		result = check_whole(&r, s->count, err);
	reader_close(&r);
	return result;
}

/* ---- archives of layers ------------------------------------------------------------------------------------------------------- */

static int check_digest(const char *what, size_t number, const char *found, const char *wanted, struct cordon_error *err)
{
	if (!*wanted || strcmp(found, wanted) == 0)
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "layer %zu is not what it should be: its %s is %s, not %s", number, what, found, wanted);
}

static int emit_blob(struct outer *o, struct emit *e, const struct layer_blob *b, size_t number, struct cordon_error *err)
{
	char digest[SHA256_HEX], diff_id[SHA256_HEX];
	struct source *blob = outer_open(o, b->member, err);
	if (!blob)
		return -1;
	source_hash(blob);
	_cleanup_source_ struct source *s = source_unpacked(blob, o->most, err);
	if (!s)
		return -1;
	e->meter = blob;
	int r = emit_layer(e, STREAM_LAYER, b->diff_id, err);
	if (r == 0)
		r = emit_tar(e, s, false, diff_id, err);
	if (r == 0)
		r = source_end(blob, SOURCE_IDLE_MAX, digest, err);
	e->meter = NULL;
	e->before += b->member->size;
	if (r < 0)
		return err_wrap(err, "layer %zu", number);
	if (check_digest("digest", number, digest, b->digest, err) < 0 ||
	    check_digest("uncompressed digest", number, diff_id, b->diff_id, err) < 0)
		return -1;
	return emit_layer(e, STREAM_LAYER_END, diff_id, err);
}

static int emit_layers(struct outer *o, struct emit *e, const struct image_layers *l, struct cordon_error *err)
{
	struct stream_begin b = {.kind = l->kind, .layers = (uint32_t)l->count, .tag = l->tag};
	int r = config_begin(l->config, &b, err);
	if (r == 0)
		r = emit_begin(e, &b, err);
	free(b.env);
	e->whiteouts = true;
	for (size_t i = 0; i < l->count; i++)
		e->total += l->items[i].member->size;
	for (size_t i = 0; r == 0 && i < l->count; i++)
		r = emit_blob(o, e, &l->items[i], i + 1, err);
	return r < 0 ? -1 : emit_end(e, err);
}

/* ---- archives of files -------------------------------------------------------------------------------------------------------- */

static int emit_plain(struct outer *o, struct emit *e, struct cordon_error *err)
{
	const struct stream_begin b = {.kind = IMAGE_PLAIN, .layers = 1};
	char diff_id[SHA256_HEX];
	struct source *file = source_file(o->fd, 0, o->size, err);
	_cleanup_source_ struct source *s = file ? source_unpacked(file, o->most, err) : NULL;
	if (!s || emit_begin(e, &b, err) < 0 || emit_layer(e, STREAM_LAYER, "", err) < 0)
		return -1;
	e->meter = file;
	e->total = o->size;
	const int r = emit_tar(e, s, true, diff_id, err);
	e->meter = NULL;
	return r < 0 || emit_layer(e, STREAM_LAYER_END, diff_id, err) < 0 ? -1 : emit_end(e, err);
}

/* Has something that a layer or a configuration could be. */
static bool has_layers(const struct outer *o)
{
	static const char *const manifests[] = {"manifest.json", "index.json", "oci-layout", "repositories"};
	for (size_t i = 0; i < o->count; i++) {
		bool known = false;
		for (size_t k = 0; k < ARRAY_SIZE(manifests); k++)
			known |= strcmp(o->members[i].name, manifests[k]) == 0;
		if (!known)
			return true;
	}
	return false;
}

int unpack_run(struct outer *o, struct emit *e, struct cordon_error *err)
{
	_cleanup_layers_ struct image_layers layers = {0};
	const bool directory = o->size == 0;
	if (!directory && outer_index(o, err) < 0) {
		if (strstr(err->message, "Unrecognized archive format"))
			err_set(err, CORDON_ERR_INPUT,
			        "the file is no archive that can be read: neither a tar archive nor an image in one");
		return -1;
	}
	if (!o->files && outer_has(o, "index.json") && (directory || outer_has(o, "oci-layout")) && !outer_has(o, "manifest.json"))
		return oci_read(o, &layers, err) < 0 ? -1 : emit_layers(o, e, &layers, err);
	if (!o->files && outer_has(o, "manifest.json") && has_layers(o))
		return docker_read(o, &layers, err) < 0 ? -1 : emit_layers(o, e, &layers, err);
	if (directory)
		return err_set(err, CORDON_ERR_INPUT, "the directory is no OCI layout: it has no index.json that can be read");
	if (!o->files && outer_has(o, "repositories") && has_layers(o))
		return err_set(err, CORDON_ERR_INPUT, "the archive was made by Docker before 1.10: it has no manifest.json");
	return emit_plain(o, e, err);
}
