/* SPDX-License-Identifier: Apache-2.0 */
/* A place to write images to, with something around it that must stay as it is. */
#ifndef CORDON_FUZZ_PLACE_H
#define CORDON_FUZZ_PLACE_H

#include <stddef.h>

#include "image/write.h"

/* Once. */
void place_make(void);
/* Writes an image out of the bytes of a stream, checks what is around it, and removes it. 0 if the image was taken. */
int place_write(int stream);
/* A file in memory with these bytes, at its beginning. */
int place_file(const void *data, size_t len);

#endif
