/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss: what is left of a commit, or of a layer, when a disk with a volatile write cache loses its power at any instant.
 *
 * Theory of operation. tests/power/run boots two guests.
 *
 * In the first, `power record` changes a tree again and again. Each time the changes become a sealed layer, and the layer is committed to
 * a directory. QEMU writes every write and every flush of the disk to a log (blklogwrites). Behind the file system the disk has a place for
 * marks: what the directory looks like now, that a commit begins, that a layer is sealed. A mark is a write of its own and causes no flush,
 * so the log itself says what was promised at each position in it. Between cordon's system calls, somebody else's fsync(2) brings the
 * journal of the file system to the disk now and then: whatever is there by then must be right. Some commits are killed on the way and
 * recovered, so that loss of power hits recoveries, too.
 *
 * In the second, `power check` goes through the log. For each crash point it makes the disk as it could be then: everything up to the last
 * flush, and of the blocks written after it any subset, mounts that, has it recovered, and compares. A block of 4096 bytes is written or
 * not; larger writes come apart. The directory must be exactly the tree before or after the commit that was under way, or the last one if
 * none was. Layers that were sealed must be there, complete, and one that was just being sealed must be complete or still open.
 */
#ifndef CORDON_TESTS_POWER_H
#define CORDON_TESTS_POWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../crash/crash.h"
#include "layers/store.h"

#define BLOCK 4096u           /* of the file system, and what the disk writes in one piece */
#define MARKS_SIZE (1u << 20) /* at the end of the disk */
#define MOUNT_POINT "/disk"   /* in both guests */
#define TARGET MOUNT_POINT "/target"
#define STORE MOUNT_POINT "/home"

/* How the file system is mounted, in both guests. */
struct fs_options {
	const char *type, *options;
};
void disk_mount(const char *device, const struct fs_options *fs);

/* ---- random numbers: the same in each run with the same seed -------------------------------------------------------------------- */

struct rng {
	uint64_t state;
};
struct rng rng_new(uint64_t seed, uint64_t stream);
/* From 0 to below - 1. */
uint64_t rng_below(struct rng *r, uint64_t below);

/* ---- workload.c ----------------------------------------------------------------------------------------------------------------- */

/* A first tree, and changes to one: files new, rewritten, appended to, gone; directories renamed, removed; modes, attributes, links. */
void tree_begin(int tree, struct rng *r);
void tree_change(int tree, struct rng *r);

/* ---- marks.c -------------------------------------------------------------------------------------------------------------------- */

enum mark_kind {
	MARK_TREE,   /* the directory is exactly `text`, and nothing is going on */
	MARK_BEGIN,  /* a commit begins; the next MARK_TREE says what it made of the directory */
	MARK_SEAL,   /* layer `id`, which holds `text`, is about to be sealed */
	MARK_SEALED, /* layer `id` has been */
	MARK_DROP,   /* layer `id` is about to be dropped */
	MARK_KIND_COUNT
};

struct mark {
	enum mark_kind kind;
	char id[LAYER_ID_LEN + 1];
	char *text; /* owned */
	size_t at;  /* in the log: the number of its entry */
};

/* fd: the place for marks, O_DIRECT. */
void mark_write(int fd, enum mark_kind kind, const char *id, const char *text);
/* From what was written; false if it is none. */
bool mark_parse(const void *data, size_t len, struct mark *out);

/* ---- stepper.c ------------------------------------------------------------------------------------------------------------------ */

struct stepping {
	struct rng rng;
	unsigned long kill_at; /* the stop (before or after a system call) at which the child is killed; NEVER */
	bool kill_renames;     /* only the stops of calls that rename count for that: the manifest, and what follows from it */
	unsigned long stops;   /* out: how many there were, of those that count */
	unsigned noise;        /* at one stop of so many somebody else syncs a file of his own; 0: never */
	int noise_fd;          /* that file */
	const char *without;   /* calls that do nothing in the child, "fsync,syncfs", to see that this is noticed; "": none */
};

/* Runs act(base) in a child that is stopped before and after each of its system calls. Returns KILLED, or what act() returned. */
int run_stepped(int (*act)(int base), int base, struct stepping *s);

/* ---- log.c ---------------------------------------------------------------------------------------------------------------------- */

struct log_entry {
	uint64_t offset, len; /* on the disk, in bytes; len 0: a flush */
	const unsigned char *data;
};

struct write_log {
	unsigned char *bytes;
	struct log_entry *entries;
	size_t count;
	struct mark *marks; /* in the order of the log */
	size_t mark_count;
	size_t flushes;
	uint64_t disk_size; /* of the file system alone */
};
/* Reads the log of a disk of this size; dies if it is not one. */
void log_read(int fd, uint64_t size, uint64_t fs_size, struct write_log *out);

/* ---- check.c -------------------------------------------------------------------------------------------------------------------- */

/* Which of the blocks written since the last flush are there. */
enum keep { KEEP_NONE, KEEP_ALL, KEEP_PREFIX, KEEP_HALF, KEEP_FEW, KEEP_MOST, KEEP_COUNT };
extern const char *const keep_names[KEEP_COUNT];

struct crash_point {
	size_t at; /* so many entries of the log have happened */
	enum keep keep;
	uint64_t seed;
};

enum verdict { FOUND_OLD, FOUND_NEW, FOUND_LOST, FOUND_TORN, FOUND_DEAD, VERDICT_COUNT };
/* Looks at a crashed disk and prints what is wrong with it. *layers: how many sealed ones there are or should be; *bad: how many are not right. */
enum verdict crash_check(const char *device, const struct fs_options *fs, const struct write_log *log, size_t at, unsigned *layers,
                         unsigned *bad);

/* ---- the two guests ------------------------------------------------------------------------------------------------------------- */

struct record_options {
	const char *device;
	struct fs_options fs;
	uint64_t seed;
	unsigned rounds;
	const char *without;
};
int record_main(const struct record_options *o);

struct replay_options {
	const char *base, *log, *scratch; /* the disk before the recording, its log, and a device of the same size */
	struct fs_options fs;
	uint64_t seed;
	size_t points;
	long only; /* one point alone; -1: all */
};
int replay_main(const struct replay_options *o);

#endif
