/* SPDX-License-Identifier: Apache-2.0 */
/* What commands say about the ports of a sandbox that are published: lists of "INSIDE HOST", as the keeper has them. */
#ifndef CORDON_CMD_PUBLISHED_H
#define CORDON_CMD_PUBLISHED_H

#include "base/json.h"
#include "cmd/run.h"
#include "policy/policy.h"

struct cordon_sandbox;

/* For a person, as its command begins. */
void published_note(const struct run_options *o, struct cordon_sandbox *s);

/* "127.0.0.1:8080 for port 3000" */
char *published_text(const char *item);
/* "published":[{"port":3000,"host":"127.0.0.1","host_port":8080}] */
void published_json(struct json *j, const struct strlist *items);

#endif
