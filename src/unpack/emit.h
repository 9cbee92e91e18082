/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to the writer, see image/stream.h. */
#ifndef CORDON_UNPACK_EMIT_H
#define CORDON_UNPACK_EMIT_H

#include "image/stream.h"
#include "unpack/source.h"

struct emit {
	int fd;
	bool whiteouts;             /* names with ".wh." mean something: in layers, not in tar archives of files */
	const struct source *meter; /* what has been read of it is progress */
	uint64_t before, total;     /* bytes of what was read before it, and of everything */
	uint64_t told;
	struct buf body;
};
void emit_free(struct emit *e);

int emit_begin(struct emit *e, const struct stream_begin *b, struct cordon_error *err);
int emit_layer(struct emit *e, enum stream_kind kind, const char *digest, struct cordon_error *err);
/* One entry with its contents. */
int emit_entry(struct emit *e, struct reader *r, struct archive_entry *entry, struct cordon_error *err);
int emit_end(struct emit *e, struct cordon_error *err);
void emit_error(struct emit *e, const struct cordon_error *err);

#endif
