/* SPDX-License-Identifier: Apache-2.0 */
/* What shell and code have in common: one text against one test. */
#ifndef CORDON_GATE_MATCH_H
#define CORDON_GATE_MATCH_H

#include "gate/index.h"

/* Prefix, classes, patterns and taints of the test; `base` is where relative paths begin. */
enum sure test_text(struct run *r, const struct test *test, struct text value, struct text base);

/* The classes of a path that is absolute and normal, or begins with a marker; asked once for each. */
struct class_set path_classes(struct run *r, struct text path);

/* ${home}, ${workspace} and ${any} in a text of a pack. */
struct text text_template(const struct gate *g, struct arena *a, const char *s);

#endif
