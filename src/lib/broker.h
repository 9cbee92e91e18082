/* SPDX-License-Identifier: Apache-2.0 */
/* One broker as a process, from the library's side: started, told what to do (egress/messages.h), and waited for. Who keeps one alive is lib/egress.h. */
#ifndef CORDON_LIB_BROKER_H
#define CORDON_LIB_BROKER_H

#include <sys/types.h>

#include "egress/messages.h"
#include "policy/policy.h"

struct broker_process {
	int sock; /* to it; -1: none */
	pid_t pid;
};

/* Whether a sandbox with this policy has one. */
bool broker_needed(const struct cordon_policy *policy);

int broker_start(struct broker_process *b, struct cordon_error *err);
/* At once, and waits for it. */
void broker_kill(struct broker_process *b);

/* In this order. authority: of an earlier one of the same sandbox, NULL: none. */
int broker_send_config(const struct broker_process *b, const struct cordon_policy *policy, const struct broker_authority *authority,
                       struct cordon_error *err);
/* Where the policy has secrets: what it has made, or was told. Points into msg. */
int broker_receive_authority(const struct broker_process *b, struct wire_msg *msg, struct broker_authority *out, struct cordon_error *err);
/* Is the host's resolv.conf another one than *known (NULL: not known yet), which it is afterwards? */
bool broker_resolv_changed(char **known);
/* A command begins. resolv: what is in resolv.conf now, NULL: what was in it before. False: it has read nothing for long, and is of no use. One that is gone is noticed elsewhere. */
bool broker_send_fresh(const struct broker_process *b, const char *resolv);
/* The values of the policy's secrets, which are looked for only now. */
int broker_send_secrets(const struct broker_process *b, const char *home, const struct cordon_policy *policy, struct cordon_error *err);
/* One at least. */
int broker_send_sockets(const struct broker_process *b, const struct airlock_socket *sockets, size_t count, struct cordon_error *err);
int broker_wait_ready(const struct broker_process *b, struct cordon_error *err);

#endif
