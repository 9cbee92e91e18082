/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that others run as parts of themselves: whoever lists gcc means cc1 and the assembler as well. Only what a program does not work without, or
 * what its everyday use starts; process.deny and process.shell take helpers away like anything else.
 */
#ifndef CORDON_POLICY_HELPERS_H
#define CORDON_POLICY_HELPERS_H

struct policy_helper {
	const char *const *programs; /* patterns of names that process.allow may list; NULL-terminated */
	const char *const *helpers;  /* as in process.allow; NULL-terminated */
};
/* Ends with a row without programs. */
extern const struct policy_helper policy_helpers[];

#endif
