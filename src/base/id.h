/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of sandboxes, layers and execs: twenty random letters and digits, a DNS label and a file name. */
#ifndef CORDON_BASE_ID_H
#define CORDON_BASE_ID_H

#include <stdbool.h>

#define ID_LEN 20

/* A random id, [a-z0-9]{20}. */
void id_new(char id[ID_LEN + 1]);

/* True if it has the form of one. What users give must pass here (or through box.h) before it becomes part of a path. */
bool id_valid(const char *id);

#endif
