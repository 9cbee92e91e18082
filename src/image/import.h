/* SPDX-License-Identifier: Apache-2.0 */
/* From an archive or a directory to an image in the store. */
#ifndef CORDON_IMAGE_IMPORT_H
#define CORDON_IMAGE_IMPORT_H

#include "image/image.h"
#include "image/write.h"

struct image_import {
	const char *name;              /* NULL: the archive's tag, else made from `source` */
	const char *source;            /* what it comes from, for people, and for a name */
	bool replace;                  /* an image that has this name already */
	const struct strlist *preload; /* NULL: none */
	const struct image *described; /* env, cwd, user that are to hold instead of the archive's; NULL: those of the archive */
	image_progress *progress;
	void *arg;
};

struct image_imported {
	struct image image;
	struct image_added added;
	struct image_neutralised neutralised;
	enum image_kind kind;
	bool shell; /* there is a /bin/sh in it */
};
void image_imported_free(struct image_imported *i);
#define _cleanup_imported_ __attribute__((cleanup(image_imported_free)))

/*
 * source: an archive that can be sought in, or a directory. CORDON_ERR_INPUT: it is no image, one for another machine, too large, or its name is taken. Nothing of it is in the store
 * then; the staging directory is the caller's to remove, in any case.
 */
int image_import(struct image_staging *s, int source, const struct image_import *what, struct image_imported *out,
                 struct cordon_error *err);

/* What cannot be sought in (a pipe) into a file without a name in the staging directory, as far as the quota lets it. The file's descriptor. */
int image_spool(struct image_staging *s, int from, image_progress *progress, void *arg, struct cordon_error *err);

/* "dir/My App-1.0.tar.gz" gives "my-app-1.0". -1: nothing in it can be a name. */
int image_name_from_path(const char *path, char out[IMAGE_NAME_MAX + 1]);
/* "registry.example/team/App:1.0" gives "app:1.0"; the tag "latest" is left out. -1: the same. */
int image_name_from_tag(const char *tag, char out[IMAGE_NAME_MAX + 1]);

/* Modules to load beforehand, "numpy,pandas": identifiers with dots. */
int image_parse_preload(const char *text, struct strlist *out, struct cordon_error *err);

#endif
