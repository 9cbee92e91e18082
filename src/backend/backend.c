/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <string.h>

#include "base/util.h"

static const struct backend *const backends[] = {&backend_process};

const struct backend *backend_find(const char *name, struct cordon_error *err)
{
	if (!name || strcmp(name, "auto") == 0)
		return backends[0];
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
	err_set(err, CORDON_ERR_INPUT, "there is no backend '%.40s' in this version", name);
	err_hint(err, "available: process");
	return NULL;
}
