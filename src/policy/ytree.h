/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML text as a small tree that remembers where everything stood. libyaml reads it; what a policy has no use for, and what makes small files
 * large or ambiguous (anchors, aliases, merge keys, tags, several documents), is refused, and so is everything over a cap.
 */
#ifndef CORDON_POLICY_YTREE_H
#define CORDON_POLICY_YTREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define YTREE_SIZE_MAX ((size_t)1 << 20)
#define YTREE_DEPTH_MAX 16
#define YTREE_NODES_MAX ((size_t)65536)

enum ynode_type { YNODE_SCALAR, YNODE_LIST, YNODE_MAP };

struct ynode {
	enum ynode_type type;
	unsigned line, column; /* from 1; columns count characters */
	char *text;            /* of a scalar: NUL-terminated, without another NUL in it */
	bool plain;            /* of a scalar: without quotes */
	struct ynode *items;   /* of a list; of a map: keys (always scalars) and values in turn */
	size_t count;
};
void ynode_free(struct ynode *n);

/* True for what YAML reads as "no value": nothing, "~" or "null", without quotes. */
bool ynode_is_null(const struct ynode *n);

struct ytree_problem {
	unsigned line, column;
	struct cordon_error error; /* CORDON_ERR_INPUT, or CORDON_ERR_SYSTEM when out of memory */
};

/* *root is to be freed after success. A text without a document is a problem, too. */
int ytree_parse(const char *data, size_t len, struct ynode *root, struct ytree_problem *problem);

#endif
