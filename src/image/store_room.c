/* SPDX-License-Identifier: Apache-2.0 */
/* How much room images have. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"
#include "image/store_parts.h"
#include "layers/store_parts.h"

#define QUOTA_FILE "quota"
#define QUOTA_VARIABLE "CORDON_IMAGES_QUOTA"

int image_used(const struct image_store *s, uint64_t *out, struct cordon_error *err)
{
	struct strlist names = {0};
	*out = 0;
	int r = store_list(s->parts[PART_LAYERS], &names, err);
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		struct image_layer l;
		if (image_digest_valid(names.items[i]) && image_layer_load(s, names.items[i], &l, NULL) == 0)
			*out += l.disk;
	}
	strlist_free(&names);
	return r;
}

/* 1: there is no such file. */
static int read_file(const struct image_store *s, uint64_t *out, struct cordon_error *err)
{
	char text[64];
	ssize_t n = fs_read_small(s->dir, QUOTA_FILE, text, sizeof(text));
	if (n < 0 && errno == ENOENT)
		return 1;
	if (n < 0)
		return err_sys(err, "cannot read images/" QUOTA_FILE);
	text[strcspn(text, "\r\n")] = '\0';
	return units_parse_size(text, out, err) < 0 ? err_wrap(err, "images/" QUOTA_FILE) : 0;
}

/* What images have already counts as if it were free, so that the limit does not shrink with every import. */
static int fall_back(const struct image_store *s, uint64_t used, uint64_t *out, struct cordon_error *err)
{
	struct statvfs disk;
	if (fstatvfs(s->dir, &disk) < 0)
		return err_sys(err, "cannot ask for the free space of the images' disk");
	uint64_t most = ((uint64_t)disk.f_bavail * disk.f_frsize + used) / 2;
	*out = MIN(most, IMAGE_QUOTA_DEFAULT);
	return 0;
}

static int find_quota(const struct image_store *s, const char *given, uint64_t used, uint64_t *out, struct cordon_error *err)
{
	const char *variable = getenv(QUOTA_VARIABLE);
	if (given)
		return units_parse_size(given, out, err) < 0 ? err_wrap(err, "--quota") : 0;
	if (variable && *variable)
		return units_parse_size(variable, out, err) < 0 ? err_wrap(err, QUOTA_VARIABLE) : 0;
	int r = read_file(s, out, err);
	return r > 0 ? fall_back(s, used, out, err) : r;
}

int image_room(const char *home, const char *given, struct image_room *out, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s;
	*out = (struct image_room){0};
	int r = image_store_open(&s, home, true, err);
	if (r == 0)
		r = image_used(&s, &out->used, err);
	return r == 0 ? find_quota(&s, given, out->used, &out->quota, err) : -1;
}
