/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain shell, read without the grammar. Most lines of most scripts are made of few things: words, quotes, variables, pipes, lists, redirections, loops,
 * conditions, functions. These are read here, a hundred times as fast, into the very nodes that the grammar would give. What is not plain, or what the
 * grammar reads in a way of its own, is refused, and then the grammar is asked: a line that is refused costs time, one that is read otherwise would
 * be a hole. That both are the same is tested over the corpus, over made-up scripts, and by fuzzing.
 */
#ifndef CORDON_GATE_PLAIN_H
#define CORDON_GATE_PLAIN_H

#include "gate/tree.h"

struct plain {
	struct run *run;
	struct node *nodes; /* in the arena: what is read goes behind them */
	uint32_t count;
	const char *text;
	uint32_t at, end;
	/* inner */
	uint32_t closed; /* the end of the last `;`, `&` or newline that ended a statement */
	unsigned depth;
};

/*
 * Reads the statements of the line at p->at, which is the beginning of one, and of as many more as they go on for. False: nothing has changed, and
 * p->at is not plain.
 */
bool plain_line(struct plain *p);

#endif
