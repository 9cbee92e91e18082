/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/program.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cordon.h"

/* From the directory of a program or library: PREFIX/bin, PREFIX/lib, PREFIX/lib/ARCHITECTURE. */
static bool find_from(const char *path, size_t len, const char *name, char out[PATH_MAX])
{
	static const char *const places[] = {"", "../libexec/cordon/", "../../libexec/cordon/"};
	const char *slash = memrchr(path, '/', len);
	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++)
		if ((size_t)snprintf(out, PATH_MAX, "%.*s/%s%s", (int)(slash - path), path, places[i], name) < PATH_MAX &&
		    access(out, X_OK) == 0)
			return true;
	return false;
}

void program_find(const char *name, char out[PATH_MAX])
{
	char self[PATH_MAX];
	Dl_info info = {0};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
	if (n > 0 && find_from(self, (size_t)n, name, out))
		return;
	if (dladdr((const void *)(uintptr_t)cordon_version, &info) && info.dli_fname &&
	    find_from(info.dli_fname, strlen(info.dli_fname), name, out))
		return;
	snprintf(out, PATH_MAX, "%s/%s", CORDON_LIBEXECDIR, name);
}
