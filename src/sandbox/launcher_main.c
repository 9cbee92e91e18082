/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher as a program of its own, for callers that must not fork. */
#include "sandbox/launcher.h"

int main(int argc, char **argv)
{
	return launcher_run(argc > 1 ? argv[1] : 0);
}
