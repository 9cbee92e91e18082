/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The syntax tree of a text as a flat list, each node before its children. tree-sitter builds it; afterwards only this is looked at: it is an eighth of the
 * size, children are found without a search, and what kind a node is does not depend on a grammar's numbering.
 */
#ifndef CORDON_GATE_TREE_H
#define CORDON_GATE_TREE_H

#include "gate/run.h"

struct node {
	uint16_t kind; /* of shell.h or code.h; 0: nothing of interest */
	uint8_t field; /* enum tree_field, the part that it plays in its parent */
	uint8_t flags;
	uint32_t start, end; /* bytes of the text */
	uint32_t size;       /* nodes below it, itself included: the next sibling is that much further on */
};

enum { NODE_ERROR = 1, NODE_MISSING = 2, NODE_NAMED = 4 };

struct tree {
	const struct node *nodes; /* nodes[0] is the root */
	uint32_t count;
	struct text text;
	uint32_t error, error_end; /* the first place that does not parse; error == error_end: none */
};

/* Fields, by the same name in every grammar. */
/* clang-format off */
#define TREE_FIELDS(X) \
	X(alias) X(alternative) X(argument) X(arguments) X(attribute) X(block) X(body) X(condition) X(consequence) X(constructor) X(cause) \
	X(definition) X(descriptor) X(destination) X(function) X(index) X(key) X(left) X(method) X(module_name) X(name) X(object) X(operator) \
	X(parameters) X(pattern) X(property) X(receiver) X(redirect) X(right) X(scope) X(source) X(subscript) X(superclass) X(superclasses) \
	X(type) X(value) X(variable) X(parameter) X(return_type)
enum tree_field {
	F_NONE,
#define X(name) F_##name,
	TREE_FIELDS(X)
#undef X
	F_COUNT
};
/* clang-format on */

/* A grammar's words for what the evaluators know. */
struct tree_kind {
	const char *name;
	uint16_t kind;
};

struct grammar; /* one per language of a gate */
struct grammar *grammar_new(enum gate_language language);
void grammar_free(struct grammar *g);

/* The tree of the current source. */
void tree_read(struct run *r, const struct grammar *g, struct tree *out);
/* The two ways to read it: by the grammar alone; or, if it is shell, line by line, as long scripts are. The same tree, but for the kind of its root, where
 * the text is without errors. */
void tree_read_whole(struct run *r, const struct grammar *g, struct tree *out);
void tree_read_lines(struct run *r, const struct grammar *g, struct tree *out);

/* for each child c of node n */
#define TREE_CHILDREN(t, n, c) for (uint32_t c = (n) + 1, c##_end = (n) + (t)->nodes[n].size; c < c##_end; c += (t)->nodes[c].size)

/* The first child that plays this part; 0 (which is the root, and no child) if there is none. */
static inline uint32_t tree_field(const struct tree *t, uint32_t n, enum tree_field field)
{
	TREE_CHILDREN(t, n, c)
	if (t->nodes[c].field == field)
		return c;
	return 0;
}

/* The first child that is a named node. */
static inline uint32_t tree_named(const struct tree *t, uint32_t n)
{
	TREE_CHILDREN(t, n, c)
	if (t->nodes[c].flags & NODE_NAMED)
		return c;
	return 0;
}

static inline struct text tree_text(const struct tree *t, uint32_t n)
{
	return (struct text){t->text.s + t->nodes[n].start, t->nodes[n].end - t->nodes[n].start};
}

#endif
