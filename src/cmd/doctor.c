/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"
int cmd_doctor(int argc, char **argv)
{
	return 125;
}
