/* SPDX-License-Identifier: Apache-2.0 */
/* Images of layers: what the manifests of `docker save` and of OCI layouts say, and what configurations do. */
#ifndef CORDON_UNPACK_IMAGE_H
#define CORDON_UNPACK_IMAGE_H

#include <jansson.h>

#include "image/stream.h"
#include "unpack/outer.h"

static inline void cleanup_json(json_t **j)
{
	json_decref(*j);
}
#define _cleanup_json_ __attribute__((cleanup(cleanup_json)))

struct image_layers {
	enum image_kind kind;
	json_t *config; /* owned */
	struct layer_blob {
		const struct member *member;
		char digest[SHA256_HEX];  /* as it lies there; "": not said */
		char diff_id[SHA256_HEX]; /* uncompressed, from the configuration */
	} items[STREAM_LAYERS_MAX];
	size_t count;
	char tag[256]; /* what it was called; "": not said */
};
void image_layers_free(struct image_layers *l);
#define _cleanup_layers_ __attribute__((cleanup(image_layers_free)))

/* manifest.json of `docker save`. */
int docker_read(const struct outer *o, struct image_layers *out, struct cordon_error *err);
/* index.json of an OCI layout. */
int oci_read(const struct outer *o, struct image_layers *out, struct cordon_error *err);

/* ---- for both ------------------------------------------------------------------------------------------------------------------- */

/* The machine's, as configurations write it. */
const char *machine_arch(void);

/* A text of the archive. digest: what it has to have; "": any. `what` is for messages. */
json_t *json_member(const struct outer *o, const struct member *m, const char *digest, const char *what, struct cordon_error *err);
/* "sha256:HEX" to HEX; false if it is none. */
bool digest_parse(const json_t *value, char out[SHA256_HEX]);
/* Reads the configuration, which must be for this machine, and gives each layer its diff_id. */
int config_read(const struct outer *o, const struct member *m, const char *digest, struct image_layers *out, struct cordon_error *err);
/* Takes it over as the image's tag, unless it is none that could be one. */
void image_layers_tag(struct image_layers *l, const json_t *tag);
/* What of it travels. The strings belong to the configuration, the array is the caller's to free. */
int config_begin(const json_t *config, struct stream_begin *b, struct cordon_error *err);

#endif
