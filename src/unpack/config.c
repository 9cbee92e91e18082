/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "unpack/image.h"

#define VARIABLES_BYTES_MAX ((size_t)128 << 10)
#define STRING_MAX 4096

void image_layers_free(struct image_layers *l)
{
	json_decref(l->config);
	l->config = NULL;
}

const char *machine_arch(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
#error "what do images call this architecture?"
#endif
}

json_t *json_member(const struct outer *o, const struct member *m, const char *digest, const char *what, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	char found[SHA256_HEX];
	json_error_t fault;
	if (outer_text(o, m, &text, found, err) < 0)
		return NULL;
	if (*digest && strcmp(digest, found) != 0) {
		err_set(err, CORDON_ERR_INPUT, "%s is not what it should be: its digest is %s, not %s", what, found, digest);
		return NULL;
	}
	json_t *j = json_loadb(text.data, text.len, 0, &fault);
	if (!j)
		err_set(err, CORDON_ERR_INPUT, "%s cannot be read: line %d: %s", what, fault.line, fault.text);
	return j;
}

bool digest_parse(const json_t *value, char out[SHA256_HEX])
{
	const char *s = json_string_value(value);
	if (!s || strncmp(s, "sha256:", 7) != 0 || strlen(s + 7) != DIGEST_LEN || strspn(s + 7, "0123456789abcdef") != DIGEST_LEN)
		return false;
	memcpy(out, s + 7, SHA256_HEX);
	return true;
}

void image_layers_tag(struct image_layers *l, const json_t *tag)
{
	const char *s = json_string_value(tag);
	if (s && strlen(s) < sizeof(l->tag))
		memcpy(l->tag, s, strlen(s) + 1);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));
	return s && *s ? s : NULL;
}

static int check_platform(const json_t *config, struct cordon_error *err)
{
	const char *os = text_of(config, "os"), *arch = text_of(config, "architecture");
	if (os && strcmp(os, "linux") != 0)
		return err_set(err, CORDON_ERR_INPUT, "the image is for %.60s, and cordon runs images for linux", os);
	if (arch && strcmp(arch, machine_arch()) != 0)
		return err_set(err, CORDON_ERR_INPUT, "the image is for %.60s, and this machine is %s", arch, machine_arch());
	return 0;
}

static int check_diff_ids(struct image_layers *l, struct cordon_error *err)
{
	const json_t *ids = json_object_get(json_object_get(l->config, "rootfs"), "diff_ids");
	if (!json_is_array(ids) || json_array_size(ids) != l->count)
		return err_set(err, CORDON_ERR_INPUT, "the image's configuration knows %zu layers, and its manifest %zu",
		               json_array_size(ids), l->count);
	for (size_t i = 0; i < l->count; i++)
		if (!digest_parse(json_array_get(ids, i), l->items[i].diff_id))
			return err_set(err, CORDON_ERR_INPUT, "the image's configuration has no SHA-256 digest for layer %zu", i + 1);
	return 0;
}

int config_read(const struct outer *o, const struct member *m, const char *digest, struct image_layers *out, struct cordon_error *err)
{
	out->config = json_member(o, m, digest, "the image's configuration", err);
	if (!out->config)
		return -1;
	return check_platform(out->config, err) < 0 ? -1 : check_diff_ids(out, err);
}

static int add_variables(const json_t *env, struct stream_begin *b, struct cordon_error *err)
{
	size_t i, bytes = 0;
	json_t *item;
	b->env = calloc(json_array_size(env) + 1, sizeof(*b->env));
	if (!b->env)
		return err_sys(err, "cannot read the image's configuration");
	json_array_foreach((json_t *)(uintptr_t)env, i, item)
	{
		const char *s = json_string_value(item);
		bytes += s ? strlen(s) : 0;
		if (b->env_count == STREAM_ENV_MAX || bytes > VARIABLES_BYTES_MAX)
			return err_set(err, CORDON_ERR_INPUT, "the image's configuration has too many variables");
		if (s)
			b->env[b->env_count++] = s;
	}
	return 0;
}

int config_begin(const json_t *config, struct stream_begin *b, struct cordon_error *err)
{
	const json_t *inner = json_object_get(config, "config");
	const char **const texts[] = {&b->arch, &b->os, &b->user, &b->cwd};
	b->arch = text_of(config, "architecture");
	b->os = text_of(config, "os");
	b->user = text_of(inner, "User");
	b->cwd = text_of(inner, "WorkingDir");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (*texts[i] && strlen(*texts[i]) > STRING_MAX)
			return err_set(err, CORDON_ERR_INPUT, "the image's configuration has a value of more than %d bytes", STRING_MAX);
	return add_variables(json_object_get(inner, "Env"), b, err);
}
