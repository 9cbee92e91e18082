/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git's configuration files, read as data: no git is run and nothing is looked up. The grammar is that of git's config.c; where git would
 * give up the whole file for a mistake, only the rest of the line is left out here, since whoever asks wants to know what might be in it.
 */
#ifndef CORDON_LAYERS_GITCONFIG_H
#define CORDON_LAYERS_GITCONFIG_H

#include <stddef.h>

#include "base/err.h"

struct git_setting {
	const char *section; /* in lower case and without its subsection: "includeif" */
	const char *key;     /* in lower case: "path" */
	const char *value;   /* "" for a key alone */
};

/* Calls `each` for all settings of the text, in order, until it returns other than 0, which is then returned. */
int git_config_parse(const char *text, size_t len, int (*each)(void *arg, const struct git_setting *s, struct cordon_error *err), void *arg,
                     struct cordon_error *err);

#endif
