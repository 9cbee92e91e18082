/* SPDX-License-Identifier: Apache-2.0 */
/* Errors travel outward as one value: the callee fills it, each caller may put its own context in front. */
#ifndef CORDON_BASE_ERR_H
#define CORDON_BASE_ERR_H

#include "cordon.h"

/* Each returns -1, so that `return err_sys(…)` reads well. err may be NULL. */
int err_set(struct cordon_error *err, enum cordon_error_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Appends ": strerror(errno)" and keeps errno in sys_errno. */
int err_sys(struct cordon_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " in front of the message that is there. */
int err_wrap(struct cordon_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_hint(struct cordon_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
