/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the audit, as a writer sees them. Theory of operation:
 *
 * Everything happens under an exclusive flock(2) on the file `lock`, which also holds the number of the newest segment, as a hint. Under the lock the writer
 * looks at the end of the newest segment: if it is where this writer left it (same size, no next segment), the hash and number of the last record are known;
 * else the last record is read and checked. Then a batch of records is chained and appended with one write(2). If that fails, the file is cut to where it
 * ended before, so that nothing half stays. A writer that was killed in the middle leaves a part of a line, or whole lines that nobody was told about:
 * whole lines stay; the rest is moved to a file of its own (NNNNNN.torn-SEQ, where SEQ is the number that the lost record would have had). As long as that
 * file exists and record SEQ does not, the record that tells about it is due, and the next batch begins with it: also when this writer is killed, too.
 *
 * A segment ends with a record that says so. It is synced before the next one is made, so that of all segments only the newest can be behind on
 * the disk; a directory is synced whenever a file was made in it.
 *
 * Not for several threads: audit.c takes care of that.
 */
#ifndef CORDON_AUDIT_TRAIL_H
#define CORDON_AUDIT_TRAIL_H

#include <sys/types.h>

#include "audit/record.h"

#define TRAIL_LOCK "lock"
#define TRAIL_SUFFIX ".jsonl"
enum { TRAIL_NAME = 64 }; /* room for the name of a file */

struct trail {
	char *path; /* of the directory, for messages */
	int dir;
	int fd;          /* the newest segment; -1: not looked at yet */
	unsigned number; /* its number */
	off_t size;      /* where it ended when it was last looked at */
	off_t reserved;  /* where the blocks end that are its own already */
	bool full;       /* its last record is written, but there is no next one yet */
	struct chain_head head;
	uint64_t max_segment;
	unsigned ended; /* how many segments this writer has ended */
	int lost;       /* errno of a sync that failed: nobody knows what is on the disk */
	struct buf lines;
	/* Called with each batch that was written, whole lines; NULL: nobody wants to know. */
	void (*written)(void *arg, const char *lines, size_t len);
	void *arg;
};

int trail_open(struct trail *t, const char *home, uint64_t max_segment, struct cordon_error *err);
void trail_close(struct trail *t);

/* Appends bodies (see audit_body()), each with its length as uint32_t in front. *done: how many bytes of these are in the log, also on failure. */
int trail_append(struct trail *t, const char *bodies, size_t len, size_t *done, struct cordon_error *err);

/* Ends the newest segment, if it holds a record. */
int trail_rotate(struct trail *t, struct cordon_error *err);

/* ---- for everybody who reads these files ------------------------------------------------------------------------------------- */

/* "000012.jsonl" */
void trail_name(unsigned number, const char *suffix, char out[TRAIL_NAME]);
/* The number in front of a name, 0 if there is none; *rest is what follows it (".jsonl"). */
unsigned trail_number(const char *name, const char **rest);

/* Numbers, in their order. */
struct trail_list {
	unsigned *items;
	size_t count;
};
void trail_list_free(struct trail_list *l);
#define _cleanup_trail_list_ __attribute__((cleanup(trail_list_free)))
/* All files with this suffix. */
int trail_list(int dir, const char *suffix, struct trail_list *out, struct cordon_error *err);

/* Opens the directory to read it. -1 with CORDON_ERR_NOT_FOUND if there is none. */
int trail_open_dir(const char *home, struct cordon_error *err);

#endif
