/* SPDX-License-Identifier: Apache-2.0 */
/* cordon-unpack MOST: see unpack.h. Started by the library (image/unpack.h); MOST: bytes that the image may have. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/inherited.h"
#include "unpack/unpack.h"

int main(int argc, char **argv)
{
	struct cordon_error err = {0};
	struct emit emit = {.fd = STDOUT_FILENO};
	struct outer outer;
	char *end = NULL;
	inherited_close(STDERR_FILENO + 1);
	errno = 0;
	const unsigned long long most = argc == 2 ? strtoull(argv[1], &end, 10) : 0;
	if (argc != 2 || !end || *end || errno)
		return 2;
	int r = unpack_prepare(&outer, STDIN_FILENO, most, &err);
	if (r == 0)
		r = unpack_confine(&err);
	if (r == 0)
		r = unpack_run(&outer, &emit, &err);
	if (r < 0)
		emit_error(&emit, &err);
	_exit(r < 0 ? 1 : 0); /* what is left, the kernel takes back faster */
}
