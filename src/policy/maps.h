/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of a policy that are structures: rules of the network, patterns, secrets. Each kind is a table of fields, which gives the reader of the
 * policy file, the schema, the copies and the printed form.
 *
 * As one string, for policy_set() and in a sandbox's record: "host=api.example.com;ports=443,8443;protocol=tcp". Several values of a field have
 * commas between them; ";" and "%" in a text are written %3B and %25. What has no "FIELD=" in front is the first field alone, and for network.outbound
 * HOST:PORT[,PORT…] is understood as well ("[ADDRESS/PREFIX]:PORT" where the address has colons), for network.inbound HOSTPORT:PORT.
 */
#ifndef CORDON_POLICY_MAPS_H
#define CORDON_POLICY_MAPS_H

#include "base/buf.h"
#include "policy/policy.h"

enum policy_field_type {
	FIELD_TEXT,  /* char *, in the form of `item` */
	FIELD_TEXTS, /* struct strlist, likewise; one at least, where it is required */
	FIELD_PORT,  /* struct policy_ports with exactly one */
	FIELD_PORTS, /* struct policy_ports, one at least */
	FIELD_WORD,  /* an enum; one of `words` */
};

struct policy_field {
	const char *name;
	enum policy_field_type type;
	size_t offset; /* in the structure */
	bool required;
	bool any;             /* of a port: 0 can be given, too, and stands for any */
	const char *fallback; /* what it is when it is not given; NULL: nothing */
	const char *help;
	const struct policy_item *item;
	const char *const *words;
};

/* What a whole item can be written as. */
enum policy_short_form {
	SHORT_FIRST,      /* its first field */
	SHORT_HOST_PORTS, /* the same, or HOST:PORTS */
	SHORT_HOST_PORT,  /* the same, or HOSTPORT:PORT */
};

struct policy_map {
	size_t size; /* of the structure */
	const struct policy_field *fields;
	size_t count;
	enum policy_short_form short_form;
};

extern const struct policy_map map_outbound, map_inbound, map_pattern, map_secret;
extern const char *const policy_languages[LANGUAGE_COUNT + 1], *const policy_protocols[PROTOCOL_COUNT + 1];

const struct policy_field *policy_field_find(const struct policy_map *map, const char *name, size_t len);
bool policy_field_is_list(const struct policy_field *f);

/* A structure that is being filled in. */
struct policy_draft {
	const struct policy_map *map;
	void *item;
	uint32_t given; /* one bit per field */
};
int policy_draft_begin(struct policy_draft *d, const struct policy_map *map, struct cordon_error *err);
/* Sets a field, or adds to one that is a list. */
int policy_draft_put(struct policy_draft *d, const struct policy_field *f, const char *value, struct cordon_error *err);
/* Fills in what was not given, and moves the structure to the end of the list. */
int policy_draft_finish(struct policy_draft *d, struct maplist *list, struct cordon_error *err);
void policy_draft_clear(struct policy_draft *d);

/* From one string, as above. */
int maplist_add(struct maplist *list, const struct policy_map *map, const char *text, struct cordon_error *err);
int maplist_copy(struct maplist *to, const struct maplist *from, const struct policy_map *map, struct cordon_error *err);
void maplist_free(struct maplist *list, const struct policy_map *map);
const void *maplist_item(const struct maplist *list, const struct policy_map *map, size_t i);

/* The values of a field, each as policy_draft_put() takes it; none if it has none. */
int policy_field_values(const struct policy_field *f, const void *item, struct strlist *out, struct cordon_error *err);
/* The whole item as one string. */
void policy_item_text(const struct policy_map *map, const void *item, struct buf *out);

#endif
