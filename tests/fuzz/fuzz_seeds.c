/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_seeds.h"

#include <stdio.h>
#include <sys/stat.h>

const char *seeds_directory(int argc, char **argv)
{
	struct stat st;

	for (int i = 1; i < argc; i++)
		if (argv[i][0] != '-' && stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
			return argv[i];
	return NULL;
}

void seed_write(const char *dir, const char *name, uint8_t kind, const void *data, size_t len)
{
	char path[4096];
	FILE *file;

	if (!dir || (size_t)snprintf(path, sizeof(path), "%s/seed-%s", dir, name) >= sizeof(path))
		return;
	file = fopen(path, "we");
	if (!file)
		return;
	fputc(kind, file);
	if (len)
		fwrite(data, 1, len, file);
	fclose(file);
}
