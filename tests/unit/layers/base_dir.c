/* SPDX-License-Identifier: Apache-2.0 */
#include "base_dir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

#define TEMPLATE "/var/tmp/cordon-unit-XXXXXX"

int base = -1;
char base_path[sizeof(TEMPLATE)];

int base_make(void **state)
{
	(void)state;
	umask(022);
	memcpy(base_path, TEMPLATE, sizeof(TEMPLATE));
	if (!mkdtemp(base_path))
		return -1;
	base = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return base < 0 ? -1 : 0;
}

int base_remove(void **state)
{
	(void)state;
	close(base);
	return fs_remove_tree(AT_FDCWD, base_path, NULL);
}
