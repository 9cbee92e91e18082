/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds for a fuzz target, written where libFuzzer will look for them. */
#ifndef CORDON_TESTS_FUZZ_SEEDS_H
#define CORDON_TESTS_FUZZ_SEEDS_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's two entry points. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first directory among the arguments, NULL if there is none (a single input is being replayed). */
const char *seeds_directory(int argc, char **argv);
/* DIR/seed-NAME: one kind byte, then the bytes. Does nothing if dir is NULL. */
void seed_write(const char *dir, const char *name, uint8_t kind, const void *data, size_t len);

#endif
