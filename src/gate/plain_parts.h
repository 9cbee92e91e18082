/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that read plain shell know of each other. All of them: false if it is not plain, and then p is of no more use. */
#ifndef CORDON_GATE_PLAIN_PARTS_H
#define CORDON_GATE_PLAIN_PARTS_H

#include <string.h>

#include "gate/plain.h"
#include "gate/shell.h"

#define PLAIN_DEPTH 24 /* of statements within statements */

enum {
	C_WORD = 1,  /* part of a word, and nothing but itself */
	C_NAME = 2,  /* of a variable */
	C_START = 4, /* … at its beginning */
	C_RUN = 8,   /* of a command */
	C_END = 16,  /* ends a word */
	C_TEXT = 32, /* may stand within quotes */
};

extern const unsigned char plain_classes[256];

static inline bool is(const struct plain *p, uint32_t at, unsigned class)
{
	return at < p->end && plain_classes[(unsigned char)p->text[at]] & class;
}

static inline char here(const struct plain *p)
{
	return p->at < p->end ? p->text[p->at] : '\0';
}

static inline char ahead(const struct plain *p, uint32_t n)
{
	return n < p->end - p->at ? p->text[p->at + n] : '\0';
}

static inline bool looking_at(const struct plain *p, const char *s, size_t n)
{
	return p->end - p->at >= n && memcmp(p->text + p->at, s, n) == 0;
}

/* ---- nodes (plain_words.c) */
void plain_blanks(struct plain *p);
uint32_t plain_add(struct plain *p, unsigned kind, unsigned flags, uint32_t start, uint32_t end);
/* A sign of n bytes. */
uint32_t plain_sign(struct plain *p, unsigned kind, uint32_t n);
/* The part that it plays in the node around it. */
void plain_plays(struct plain *p, uint32_t n, enum tree_field field);
/* A node that is begun here; what follows up to its close is in it. */
uint32_t plain_open(struct plain *p, unsigned kind);
void plain_close(struct plain *p, uint32_t n);
/* The end of the node is that of its last child, not of the blanks behind it. */
void plain_close_behind(struct plain *p, uint32_t n);
/* A node around everything from n on, which becomes its first child. */
void plain_wrap(struct plain *p, uint32_t n, unsigned kind);

/* ---- words and simple commands (plain_words.c) */
uint32_t plain_name_end(const struct plain *p, uint32_t at);
bool plain_at_word(const struct plain *p);
bool plain_at_redirect(const struct plain *p);
/* One that ends where a word has to. */
bool plain_word(struct plain *p, enum tree_field field);
/* Words up to something else. */
bool plain_words(struct plain *p, enum tree_field field);
bool plain_command(struct plain *p);
/* export, local: names, and values for them. n is the length of the first word. */
bool plain_declaration(struct plain *p, uint32_t n);
/*
 * X=1 by itself. False without having read anything: it stands in front of a command, or there are several, which the grammar has its own ideas about.
 */
bool plain_lone_assignment(struct plain *p);
/* One redirection; words behind its file are more of the same, for the grammar. */
bool plain_redirect(struct plain *p);

/* ---- statements (plain.c) */
bool plain_statement(struct plain *p);

#endif
