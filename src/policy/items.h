/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of text that lists of a policy hold; see struct policy_item. */
#ifndef CORDON_POLICY_ITEMS_H
#define CORDON_POLICY_ITEMS_H

#include "policy/policy.h"

#define POLICY_TEXT_MAX 1023 /* bytes of a text without a form of its own */

extern const struct policy_item item_variable;     /* the name of a variable that may be taken from the host */
extern const struct policy_item item_host_path;    /* an absolute path, on the host */
extern const struct policy_item item_inside_glob;  /* a pattern of absolute paths inside */
extern const struct policy_item item_project_glob; /* a pattern of paths relative to the workspace */
extern const struct policy_item item_guarantee;    /* one that may be weaker */
extern const struct policy_item item_host;         /* a name, a suffix or a block of addresses: policy/host.h */
extern const struct policy_item item_named_host;   /* a name or a suffix */
extern const struct policy_item item_program;      /* a name, a pattern of names, or of absolute paths */
extern const struct policy_item item_pack;         /* the name of a rule pack */
extern const struct policy_item item_text;         /* one line, not empty */
extern const struct policy_item item_secret;       /* "store:NAME" or "env:NAME" */
extern const struct policy_item item_header;       /* the name of an HTTP header */
extern const struct policy_item item_format;       /* one line with one {} in it */
extern const struct policy_item item_method;       /* of HTTP */
extern const struct policy_item item_url_path;     /* a pattern of what stands in a URL behind the host */
extern const struct policy_item item_placeholder;  /* the name of a variable to be set inside */

/* The one form of an absolute path: single slashes, none at the end, no "." and "..". Allocated; NULL with err set. */
char *policy_normal_path(const char *value, struct cordon_error *err);

#endif
