/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: code in Python, JavaScript, TypeScript and Ruby is read by one evaluator. A table per grammar (code_kinds.c) says which of its
 * nodes is a call, an attribute, an assignment; what is left of the differences between the languages is in code_bind.c.
 *
 * It walks the tree twice. Each expression has a value: a text (known in part), the dotted name of something from outside ("os.system", "fs.rmSync",
 * "sqlite3.connect()" for what that call gives), a list, a function of the text itself, or nothing that is known. Variables keep every value that was
 * ever assigned to them, whatever the order: the first walk only learns these, with the arguments that functions are called with and what they return; the
 * second one reports. A name is compared with the rules where it is used: called, passed on, imported.
 */
#ifndef CORDON_GATE_CODE_H
#define CORDON_GATE_CODE_H

#include "gate/index.h"
#include "gate/tree.h"

enum code_kind {
	C_OTHER, /* its children are looked at, nothing is known of its value */
	C_IDENT,
	C_MEMBER, /* a.b, A::B */
	C_INDEX,  /* a[b] */
	C_CALL,
	C_ARGS,
	C_PAIR, /* k: v, k=v */
	C_STRING,
	C_STRINGS, /* "a" "b" */
	C_PART,    /* the literal part of a string */
	C_ESCAPE,
	C_INTERPOLATION,
	C_SYMBOL,
	C_BACKTICK, /* a command in Ruby */
	C_HEREDOC,
	C_HEREDOC_BODY,
	C_NUMBER,
	C_TRUE,
	C_FALSE,
	C_NULL,
	C_LIST,
	C_DICT,
	C_SPREAD,
	C_BINARY,
	C_CONDITIONAL,
	C_WRAP, /* has the value of its first child: (a), await a, a as T */
	C_LAST, /* … of its last one: (a, b) */
	C_ASSIGN,
	C_AUGMENT,
	C_TARGETS, /* several names that are assigned to */
	C_OBJECT_PATTERN,
	C_PAIR_PATTERN,
	C_SHORTHAND,
	C_DEFAULT,  /* a = b as a parameter or in a pattern */
	C_KEY_NAME, /* a name that is only a key */
	C_FUNCTION,
	C_LAMBDA,
	C_CLASS,
	C_PARAMS,
	C_DECORATED,
	C_DECORATOR,
	C_IMPORT,
	C_IMPORT_FROM,
	C_IMPORT_ALIAS,
	C_DOTTED,
	C_STAR,
	C_RELATIVE,
	C_ES_IMPORT,
	C_EXPORT,
	C_IMPORT_SPECIFIER,
	C_NAMESPACE_IMPORT,
	C_IMPORT_REQUIRE,
	C_IMPORT_CLAUSE,
	C_IMPORT_WORD, /* import(…) */
	C_FOR,
	C_COMPREHENSION,
	C_WHILE,   /* and what else may have no end */
	C_WITH_AS, /* a as b */
	C_RETURN,
	C_SELF,
	C_FIELD_NAME, /* @a: a variable of the object */
	C_GLOBAL,
	C_ALIAS,
	C_SKIP, /* types: nothing of it runs */
};
extern const struct tree_kind python_kinds[], javascript_kinds[], ruby_kinds[];

enum val_kind { V_UNKNOWN, V_TEXT, V_NAME, V_LIST, V_DICT, V_FUNCTION, V_CLASS, V_OBJECT, V_NUMBER, V_TRUE, V_FALSE, V_NULL, V_ALTS };

struct val;
struct val_pair {
	struct text key;
	const struct val *value;
};

struct val {
	enum val_kind kind;
	uint32_t node;            /* V_LIST, V_DICT: where it was written */
	struct text text;         /* V_TEXT, V_NAME, V_NUMBER */
	const struct val *self;   /* V_NAME of a member: what it belongs to */
	const struct val *stands; /* V_NAME of an object that stands for a path: the path */
	const struct val **items; /* V_LIST, V_ALTS */
	struct val_pair *pairs;   /* V_DICT */
	size_t count;
	struct function *function; /* V_FUNCTION */
	struct scope *class;       /* V_CLASS, V_OBJECT: where its methods are */
};
extern const struct val val_unknown;

struct scope {
	struct scope *up;
	struct map vars;    /* const struct val * */
	struct map globals; /* names that belong to the outermost scope */
	bool is_class;
	struct text *stars; /* modules of which every name is here */
	size_t star_count;
};

struct function {
	uint32_t node;
	struct scope *scope;
	struct text *params;
	const struct val **values; /* of the parameters: what it was called with */
	size_t param_count;
	const struct val *gives;
	bool method; /* the first parameter is the object */
};

struct args {
	const struct val **list;
	size_t count;
	struct val_pair *named;
	size_t named_count;
	bool spread; /* there may be more */
	const struct val *block;
};

struct code {
	struct run *run;
	struct arena *arena;
	const struct gate *gate;
	const struct language *language;
	enum gate_language which;
	struct tree tree;
	struct scope *top, *scope;
	struct scope **scopes;       /* by node: the second walk finds what the first one learned */
	struct function **functions; /* by node */
	struct function *function;   /* the one that is being walked */
	struct map fields;           /* of objects: by name alone */
	uint32_t *heredocs, *bodies; /* Ruby: where they are announced and where they are, in the same order */
	size_t heredoc_count, body_count;
};

/* ---- values (code_value.c) */
const struct val *val_text(struct code *c, struct text t);
const struct val *val_name(struct code *c, struct text name, const struct val *self);
const struct val *val_list(struct code *c, uint32_t node, const struct val **items, size_t count);
const struct val *val_dict(struct code *c, uint32_t node, struct val_pair *pairs, size_t count);
/* Both, as alternatives; without repetitions, and not without end. */
const struct val *val_or(struct code *c, const struct val *a, const struct val *b);
/* for each alternative: v itself if it is none */
#define VAL_ALTS(v, each)                                                                                                         \
	for (size_t each##_i = 0, each##_n = (v)->kind == V_ALTS ? (v)->count : 1; each##_i < each##_n; each##_i++)               \
		for (const struct val *each = (v)->kind == V_ALTS ? (v)->items[each##_i] : (v), *each##_once = each; each##_once; \
		     each##_once = NULL)
/* What it is as a text, as far as known; of alternatives the first. */
struct text val_as_text(const struct val *v);
const struct val *val_member(struct code *c, const struct val *v, struct text name);
const struct val *val_index(struct code *c, const struct val *v, const struct val *key);
const struct val *val_concat(struct code *c, const struct val *a, const struct val *b);
/* One of its items: what a loop over it gives. */
const struct val *val_item(struct code *c, const struct val *v);

/* ---- walking (code_eval.c, code_bind.c) */
/* The value of an expression; what it names is compared with the rules. */
const struct val *code_eval(struct code *c, uint32_t n);
/* The same, and nothing is compared: the caller knows how the value is used. */
const struct val *code_value(struct code *c, uint32_t n);
void code_children(struct code *c, uint32_t n);
const struct val *code_string(struct code *c, uint32_t n);
const struct val *code_lookup(struct code *c, struct text name);
void code_set(struct code *c, struct text name, const struct val *v);
void code_assign(struct code *c, uint32_t target, const struct val *v);
const struct val *code_function(struct code *c, uint32_t n);
const struct val *code_class(struct code *c, uint32_t n);
/* Statements that give names to things: imports, `with`, `global` … False: it is none. */
bool code_binding(struct code *c, uint32_t n);
void code_for(struct code *c, uint32_t n);

/* ---- calls (code_call.c) */
const struct val *code_call(struct code *c, uint32_t n);
/* A call of that value, wherever it comes from. */
const struct val *code_called(struct code *c, uint32_t n, const struct val *callee, const struct args *args);

/* ---- shapes (code_shape.c) */
/* A loop: does it end? */
void shape_loop(struct code *c, uint32_t n);
/* "x" * 10**12 */
void shape_repeat(struct code *c, uint32_t n, struct text op, uint32_t left, uint32_t right);

/* ---- languages without a grammar (tokens.c) */
void tokens_check(struct run *r, enum gate_language language);

/* ---- rules (code_match.c) */
void match_mention(struct code *c, uint32_t n, const struct val *v, bool kept);
void match_call(struct code *c, uint32_t n, const struct val *callee, const struct args *args);
void match_import(struct code *c, uint32_t n, struct text module);
/* Exactly this name, with patterns in it. */
enum sure name_match(const char *pattern, struct text name, bool prefix);
/* What may apply to a name: by its first part, or, of "*.name", by any part. */
size_t name_candidates(const struct lookup *first, const struct lookup *member, struct arena *a, struct text name, const void ***out);

#endif
