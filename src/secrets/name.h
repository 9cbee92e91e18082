/* SPDX-License-Identifier: Apache-2.0 */
/* Names of secrets: [A-Za-z0-9_][A-Za-z0-9._-]{0,63}. File names that no directory hides, and nothing that is taken for an option. */
#ifndef CORDON_SECRETS_NAME_H
#define CORDON_SECRETS_NAME_H

#include <stdbool.h>
#include <string.h>

#define SECRET_NAME_MAX 64
#define SECRET_NAME_PATTERN "[A-Za-z0-9_][A-Za-z0-9._-]{0,63}" /* the same for a schema */

static inline bool secret_name_valid(const char *name)
{
	size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return len > 0 && len <= SECRET_NAME_MAX && !name[len] && name[0] != '.' && name[0] != '-';
}

#endif
