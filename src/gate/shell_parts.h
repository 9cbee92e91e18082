/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about statements know of each other. */
#ifndef CORDON_GATE_SHELL_PARTS_H
#define CORDON_GATE_SHELL_PARTS_H

#include "gate/shell.h"
#include "gate/shell_redirect.h"

static inline const struct node *node_at(const struct shell *sh, uint32_t n)
{
	return &sh->tree->nodes[n];
}

static inline struct text text_at(const struct shell *sh, uint32_t n)
{
	return tree_text(sh->tree, n);
}

/* What two statements write, one after the other. */
struct text output_add(struct shell *sh, struct text a, struct text b);

/* ---- texts (shell_patch.c): in a form that the grammar knows, of the same length */
struct text shell_patched(struct run *r, struct text t);
/* … and what only the parser is to see. */
struct text shell_for_parser(struct run *r, struct text t);

/* ---- simple commands (shell_simple.c) */
bool is_word(const struct node *n);
/* n is the command, or 0; m what holds it and its redirections (perhaps n itself). Once for each value that a variable in it may have. */
struct text simple_command(struct shell *sh, uint32_t n, uint32_t m, struct after *after);
/* Its output, if that does not go into files. */
struct text command_finish(struct shell *sh, const struct command *c, struct text out);

/* ---- loops, conditions, functions (shell_compound.c) */
struct text compound_statement(struct shell *sh, uint32_t n);
void function_define(struct shell *sh, uint32_t n);
/* Functions that nobody calls here may be called elsewhere: with what, nobody knows. */
void functions_uncalled(struct shell *sh);

#endif
