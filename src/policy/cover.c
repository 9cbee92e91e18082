/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/cover.h"

#include <limits.h>
#include <string.h>

#include "base/glob.h"

size_t cover_stem(const char *pattern)
{
	size_t len = strlen(pattern);

	while (len >= 3 && strncmp(pattern + len - 3, "/**", 3) == 0)
		len -= 3;
	return len;
}

bool cover_names(const char *pattern, const char *path)
{
	size_t len = cover_stem(pattern);
	char directory[GLOB_MAX + 1];

	if (glob_match(pattern, path))
		return true;
	if (len > GLOB_MAX || !pattern[len])
		return false;
	memcpy(directory, pattern, len);
	directory[len] = '\0';
	return glob_match(len > 0 ? directory : "/", path);
}

static bool last_is_wild(const char *pattern)
{
	const char *slash = strrchr(pattern, '/');

	return strpbrk(slash ? slash : pattern, "*?") != NULL;
}

bool cover_is_tree(const char *pattern)
{
	return pattern[cover_stem(pattern)] || !last_is_wild(pattern);
}

/* One of the directories above the path is named. */
static bool names_one_above(const char *pattern, const char *path)
{
	char above[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(above))
		return false;
	memcpy(above, path, len + 1);
	while (len > 0) {
		while (len > 0 && above[len - 1] != '/')
			len--;
		len -= len > 0;
		above[len] = '\0';
		if (len > 0 && glob_match(pattern, above))
			return true;
	}
	return glob_match(pattern, "/");
}

bool cover_path(const char *pattern, const char *path, bool wide)
{
	return cover_names(pattern, path) || ((wide || !last_is_wild(pattern)) && names_one_above(pattern, path));
}

/* Copies the name at *s, moves *s behind it; false at the end. Longer names than fit do not exist. */
static bool next_name(const char **s, char name[GLOB_MAX + 1])
{
	size_t n;

	*s += strspn(*s, "/");
	n = strcspn(*s, "/");
	if (n == 0 || n > GLOB_MAX)
		return false;
	memcpy(name, *s, n);
	name[n] = '\0';
	*s += n;
	return true;
}

bool cover_below(const char *pattern, const char *directory)
{
	char want[GLOB_MAX + 1], name[GLOB_MAX + 1];

	while (next_name(&directory, name)) {
		if (!next_name(&pattern, want))
			return false;
		if (strstr(want, "**"))
			return true;
		if (!glob_match(want, name))
			return false;
	}
	return next_name(&pattern, want);
}

size_t cover_plain_part(const char *pattern)
{
	size_t len = strcspn(pattern, "*?");

	if (!pattern[len])
		return len;
	while (len > 0 && pattern[len] != '/')
		len--;
	return len;
}

size_t cover_hidden_part(const char *path)
{
	size_t end = 0;

	for (const char *s = path; (s = strstr(s, "/.")); s++)
		end = (size_t)(s + 1 - path) + strcspn(s + 1, "/");
	return end;
}

bool cover_spells(const char *pattern, const char *path, size_t len)
{
	return strcspn(pattern, "*?") >= len && strncmp(pattern, path, len) == 0 && (pattern[len] == '/' || !pattern[len]);
}
