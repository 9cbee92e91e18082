/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pattern of files.* or process.* covers: the one definition behind what is explained (match.c), what is planned (backend/permit.c) and what is
 * found in a sandbox's tree (sandbox/expand.c). match.h says what it means. Paths are absolute and normal.
 */
#ifndef CORDON_POLICY_COVER_H
#define CORDON_POLICY_COVER_H

#include <stdbool.h>
#include <stddef.h>

/* The path itself: the pattern matches it, or is "PATH" "/" "**". */
bool cover_names(const char *pattern, const char *path);

/* wide: what is denied is denied with all that is below it, whatever the pattern looks like. */
bool cover_path(const char *pattern, const char *path, bool wide);

/* Something below `directory` may be named by the pattern. */
bool cover_below(const char *pattern, const char *directory);

/* The last name of the pattern has no wildcard, or it ends with "/" "**": a directory that it names is meant with all that is in it. */
bool cover_is_tree(const char *pattern);

/* How much of the pattern, in whole names, has no wildcard: "/data" of "/data/x*". 0 if the first name has one; the whole of a plain path. */
size_t cover_plain_part(const char *pattern);

/* How long the pattern is without a "/" "**" at its end. */
size_t cover_stem(const char *pattern);

/* Where the last name that begins with a dot ends; 0 if there is none. */
size_t cover_hidden_part(const char *path);
/* The pattern spells out the first `len` bytes of the path. */
bool cover_spells(const char *pattern, const char *path, size_t len);

#endif
