/* SPDX-License-Identifier: Apache-2.0 */
/* A directory for what a test makes, on a disk's file system: set-up and tear-down, of a test or of a group. */
#ifndef CORDON_TESTS_BASE_DIR_H
#define CORDON_TESTS_BASE_DIR_H

extern int base; /* open */
extern char base_path[];

/* Also gives everything that is made from now on the usual modes. */
int base_make(void **state);
int base_remove(void **state);

#endif
