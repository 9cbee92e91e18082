/* SPDX-License-Identifier: Apache-2.0 */
/* File name patterns, as a policy writes them. */
#ifndef CORDON_BASE_GLOB_H
#define CORDON_BASE_GLOB_H

#include <stdbool.h>

#define GLOB_MAX 1023 /* bytes of a pattern */

/*
 * Does the pattern match the whole path? Both are relative, or both absolute, with single slashes and none at the end.
 *
 *   ?    one character, no slash (a character of UTF-8, or one byte of what is none)
 *   *    any number of these, also none
 *   **   any number of any characters, slashes too; as a component of its own that others follow: any number of whole components, also none
 *
 * So "*.log" is a log at the top, "**" "/" "*.log" one anywhere, and "build/" "**" all that is below build, without build itself. Everything
 * else stands for itself; there is no quoting. It takes at most len(pattern) * len(path) steps, whatever the pattern. A pattern that is longer
 * than GLOB_MAX matches nothing.
 */
bool glob_match(const char *pattern, const char *path);

#endif
