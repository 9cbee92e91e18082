/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about one command know of each other. */
#ifndef CORDON_GATE_SHELL_RUN_H
#define CORDON_GATE_SHELL_RUN_H

#include "gate/shell.h"

/* ---- shell_command.c */
/* The words as a command within `outer`. */
struct text command_inner(struct shell *sh, const struct command *outer, struct text *argv, size_t n);
/* Code in the language's own check; the shell's own within this shell (`in_shell`: eval), or in one of its own. */
struct text command_code(struct shell *sh, const struct command *c, enum gate_language language, struct text code, bool in_shell,
                         const struct fields *args);
/* Operands from the given one on: what "$1" … will be. */
struct fields operands_from(struct shell *sh, const struct parsed *p, size_t from);
/* Every word from that operand on: a command, with its options. */
struct fields words_from(const struct parsed *p, size_t from);
/* An option chooses among what is below the operands. */
bool is_narrow(const struct parsed *p, const struct gate_command *d);
/* … and this is what they may choose. */
struct text found_below(struct shell *sh, const struct parsed *p, struct text start);

/* ---- commands that run commands (shell_run.c); *ran: there was one */
struct text command_others(struct shell *sh, const struct parsed *p, const struct gate_command *d, bool *ran);

/* A command within the words of one that nobody has described, or that may run anything (role `wrapper`). */
void command_embedded(struct shell *sh, const struct parsed *p);

/* ---- what the shell does itself (shell_builtin.c) */
void command_builtin(struct shell *sh, const struct parsed *p, const struct gate_command *d);

#endif
