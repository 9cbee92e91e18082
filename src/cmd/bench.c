/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"
int cmd_bench(int argc, char **argv)
{
	return 125;
}
