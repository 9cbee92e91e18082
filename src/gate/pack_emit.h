/* SPDX-License-Identifier: Apache-2.0 */
/* Packs as C: what gate-pack writes at build time, so that opening a gate reads no YAML and checks no example. */
#ifndef CORDON_GATE_PACK_EMIT_H
#define CORDON_GATE_PACK_EMIT_H

#include "base/buf.h"
#include "gate/pack.h"

/* A C file that defines gate_builtin_packs. */
void pack_emit(struct buf *out, const struct gate_pack *const *packs, size_t count);

#endif
