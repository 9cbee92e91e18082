/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/util.h"
#include "unpack/image.h"

/* The digest that a name promises: blobs/sha256/HEX, sha256:HEX, HEX.json. "": none. */
static void digest_in_name(const char *name, char out[SHA256_HEX])
{
	static const char *const before[] = {"blobs/sha256/", "sha256:", ""};
	static const char *const after[] = {"", "", ".json"};
	out[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		const size_t n = strlen(before[i]);
		if (strncmp(name, before[i], n) != 0 || strlen(name) != n + DIGEST_LEN + strlen(after[i]) ||
		    strspn(name + n, "0123456789abcdef") != DIGEST_LEN || strcmp(name + n + DIGEST_LEN, after[i]) != 0)
			continue;
		memcpy(out, name + n, DIGEST_LEN);
		out[DIGEST_LEN] = '\0';
		return;
	}
}

static int add_layers(const struct outer *o, const json_t *layers, struct image_layers *out, struct cordon_error *err)
{
	const size_t count = json_array_size(layers);
	if (!json_is_array(layers) || count == 0)
		return err_set(err, CORDON_ERR_INPUT, "manifest.json names no layers");
	if (count > STREAM_LAYERS_MAX)
		return err_set(err, CORDON_ERR_INPUT, "the image has %zu layers; at most %d can be put on each other", count,
		               STREAM_LAYERS_MAX);
	for (size_t i = 0; i < count; i++) {
		struct layer_blob *b = &out->items[i];
		const char *name = json_string_value(json_array_get(layers, i));
		if (!name)
			return err_set(err, CORDON_ERR_INPUT, "manifest.json names a layer by something that is no name");
		b->member = outer_find(o, name, "a layer that manifest.json names", err);
		if (!b->member)
			return -1;
		digest_in_name(name, b->digest);
	}
	out->count = count;
	return 0;
}

int docker_read(const struct outer *o, struct image_layers *out, struct cordon_error *err)
{
	char digest[SHA256_HEX];
	const struct member *m = outer_find(o, "manifest.json", "the manifest", err);
	_cleanup_json_ json_t *manifest = m ? json_member(o, m, "", "manifest.json", err) : NULL;
	if (!manifest)
		return -1;
	if (!json_is_array(manifest) || json_array_size(manifest) == 0)
		return err_set(err, CORDON_ERR_INPUT, "manifest.json names no image");
	if (json_array_size(manifest) > 1) {
		err_set(err, CORDON_ERR_INPUT, "the archive has %zu images in it", json_array_size(manifest));
		return err_hint(err, "save one at a time");
	}
	const json_t *image = json_array_get(manifest, 0);
	const char *config = json_string_value(json_object_get(image, "Config"));
	if (!config)
		return err_set(err, CORDON_ERR_INPUT, "manifest.json names no configuration");
	out->kind = IMAGE_DOCKER;
	image_layers_tag(out, json_array_get(json_object_get(image, "RepoTags"), 0));
	if (add_layers(o, json_object_get(image, "Layers"), out, err) < 0)
		return -1;
	m = outer_find(o, config, "the configuration that manifest.json names", err);
	digest_in_name(config, digest);
	return m ? config_read(o, m, digest, out, err) : -1;
}
