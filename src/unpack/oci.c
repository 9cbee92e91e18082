/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "unpack/image.h"

#define INDEXES_MAX 4 /* inside one another */
#define DESCRIPTORS_MAX 1000

static const struct member *find_blob(const struct outer *o, const json_t *descriptor, const char *what, char digest[SHA256_HEX],
                                      struct cordon_error *err)
{
	char name[sizeof("blobs/sha256/") + SHA256_HEX];
	if (!digest_parse(json_object_get(descriptor, "digest"), digest)) {
		err_set(err, CORDON_ERR_INPUT, "%s is named without a SHA-256 digest", what);
		return NULL;
	}
	snprintf(name, sizeof(name), "blobs/sha256/%s", digest);
	const struct member *m = outer_find(o, name, what, err);
	const json_t *size = json_object_get(descriptor, "size");
	if (m && json_is_integer(size) && (uint64_t)json_integer_value(size) != m->size) {
		err_set(err, CORDON_ERR_INPUT, "%s is not what it should be: it has %llu bytes, not %lld", what,
		        (unsigned long long)m->size, (long long)json_integer_value(size));
		return NULL;
	}
	return m;
}

static bool says(const json_t *object, const char *key, const char *value)
{
	const char *s = json_string_value(json_object_get(object, key));
	return s && strcmp(s, value) == 0;
}

/* Of a descriptor in an index: one without a platform is whatever its configuration says. What buildkit adds about how it was built is for "unknown". */
static bool is_for_us(const json_t *descriptor)
{
	const json_t *platform = json_object_get(descriptor, "platform");
	return !json_is_object(platform) || (says(platform, "os", "linux") && says(platform, "architecture", machine_arch()));
}

static void list_platforms(const json_t *manifests, struct buf *out)
{
	size_t i;
	json_t *m;
	json_array_foreach((json_t *)(uintptr_t)manifests, i, m)
	{
		const json_t *platform = json_object_get(m, "platform");
		const char *os = json_string_value(json_object_get(platform, "os")),
			   *arch = json_string_value(json_object_get(platform, "architecture"));
		if (os && arch && strcmp(os, "unknown") != 0 && out->len < 200)
			buf_addf(out, "%s%.30s/%.30s", out->len ? ", " : "", os, arch);
	}
}

/* The one descriptor that is meant. */
static const json_t *choose(const json_t *index, struct cordon_error *err)
{
	const json_t *manifests = json_object_get(index, "manifests"), *chosen = NULL;
	_cleanup_buf_ struct buf others = {0};
	const size_t count = json_array_size(manifests);
	size_t found = 0;
	for (size_t i = 0; i < count && i < DESCRIPTORS_MAX; i++) {
		const json_t *d = json_array_get(manifests, i);
		if (!is_for_us(d))
			continue;
		chosen = chosen ? chosen : d;
		found++;
	}
	if (found == 1)
		return chosen;
	list_platforms(manifests, &others);
	if (count == 0)
		err_set(err, CORDON_ERR_INPUT, "the index names no image");
	else if (found == 0)
		err_set(err, CORDON_ERR_INPUT, "the image is for %s, and this machine is linux/%s",
		        others.len ? others.data : "other machines", machine_arch());
	else
		err_set(err, CORDON_ERR_INPUT, "the layout has %zu images for linux/%s in it, and it is not known which one is meant",
		        found, machine_arch());
	return NULL;
}

static bool is_index(const json_t *j)
{
	return json_is_array(json_object_get(j, "manifests"));
}

static int read_manifest(const struct outer *o, const json_t *manifest, struct image_layers *out, struct cordon_error *err)
{
	const json_t *layers = json_object_get(manifest, "layers");
	const size_t count = json_array_size(layers);
	char digest[SHA256_HEX], what[40];
	if (!json_is_array(layers) || count == 0)
		return err_set(err, CORDON_ERR_INPUT, "the manifest names no layers");
	if (count > STREAM_LAYERS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the image has %zu layers; at most %d can be put on each other", count,
		               STREAM_LAYERS_MAX);
	for (size_t i = 0; i < count; i++) {
		snprintf(what, sizeof(what), "layer %zu", i + 1);
		out->items[i].member = find_blob(o, json_array_get(layers, i), what, out->items[i].digest, err);
		if (!out->items[i].member)
			return -1;
	}
	out->count = count;
	const struct member *m = find_blob(o, json_object_get(manifest, "config"), "the image's configuration", digest, err);
	return m ? config_read(o, m, digest, out, err) : -1;
}

/* A reference as a whole: where it is only a tag ("1.0"), nobody would know what it is of. */
static void take_tag(const json_t *descriptor, struct image_layers *out)
{
	static const char *const keys[] = {"org.opencontainers.image.ref.name", "io.containerd.image.name"};
	const json_t *annotations = json_object_get(descriptor, "annotations");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const json_t *tag = json_object_get(annotations, keys[i]);
		if (json_is_string(tag) && strpbrk(json_string_value(tag), ":/"))
			image_layers_tag(out, tag);
	}
}

int oci_read(const struct outer *o, struct image_layers *out, struct cordon_error *err)
{
	char digest[SHA256_HEX];
	const struct member *m = outer_find(o, "index.json", "the index", err);
	_cleanup_json_ json_t *here = m ? json_member(o, m, "", "index.json", err) : NULL;
	out->kind = IMAGE_OCI;
	for (int depth = 0; here && is_index(here); depth++) {
		const json_t *descriptor = choose(here, err);
		if (!descriptor)
			return -1;
		if (depth == INDEXES_MAX)
			return err_set(err, CORDON_ERR_INPUT, "the index has too many others inside one another");
		take_tag(descriptor, out);
		m = find_blob(o, descriptor, "the image's manifest", digest, err);
		json_t *next = m ? json_member(o, m, digest, "the image's manifest", err) : NULL;
		json_decref(here);
		here = next;
	}
	return here ? read_manifest(o, here, out, err) : -1;
}
