/* SPDX-License-Identifier: Apache-2.0 */
/* The second guest: crash points in the log, one after the other, each on a fresh copy of the disk as it was at its last flush. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "power.h"

#define FAILURES_SHOWN 5

const char *const keep_names[KEEP_COUNT] = {"none", "all", "the first", "about half", "a few", "most"};
static const char *const verdict_names[VERDICT_COUNT] = {"old", "new", "LOST", "TORN", "DEAD"};

/* What a child tells about its crash point. */
struct result {
	enum verdict verdict;
	unsigned layers, bad_layers;
};

struct replayer {
	const struct replay_options *o;
	struct write_log log;
	int scratch;
	unsigned char *durable; /* the disk as it was at the last flush before the current point */
	size_t flushed;         /* so many entries of the log are in it */
	struct result *shared;
	size_t found[VERDICT_COUNT], failures, dropped, layers, bad_layers;
};

/* ---- crash points --------------------------------------------------------------------------------------------------------------- */

static bool on_file_system(const struct write_log *log, const struct log_entry *e)
{
	return e->len && e->offset < log->disk_size;
}

/* Positions directly after a write (with something in the cache, therefore) or, if before_flush, directly before a flush of one or more. */
static size_t *positions(const struct write_log *log, bool before_flush, size_t *count)
{
	size_t *found = calloc(log->count + 1, sizeof(*found));
	MUST(found);
	*count = 0;
	for (size_t i = log->marks[0].at + 1; i + 1 < log->count; i++)
		if (on_file_system(log, &log->entries[i]) && (!before_flush || !log->entries[i + 1].len))
			found[(*count)++] = i + 1;
	MUST(*count > 0);
	return found;
}

static int by_position(const void *a, const void *b)
{
	const struct crash_point *x = a, *y = b;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Half of them directly before flushes, evenly spread over all flushes, when there is the most to lose; the others after any write. */
static struct crash_point *choose_points(const struct replayer *rep)
{
	struct rng r = rng_new(rep->o->seed, 3);
	size_t n = rep->o->points, flush_count, write_count;
	_cleanup_free_ size_t *flushes = positions(&rep->log, true, &flush_count), *writes = positions(&rep->log, false, &write_count);
	struct crash_point *points = calloc(n, sizeof(*points));
	MUST(points);
	for (size_t i = 0; i < n; i++) {
		points[i].at = i % 2 ? flushes[i * flush_count / n] : writes[rng_below(&r, write_count)];
		points[i].keep = (enum keep)rng_below(&r, KEEP_COUNT);
		points[i].seed = rng_below(&r, UINT64_MAX);
	}
	qsort(points, n, sizeof(*points), by_position);
	return points;
}

/* ---- the disk at a crash point -------------------------------------------------------------------------------------------------- */

static void advance(struct replayer *rep, size_t at)
{
	size_t last = rep->flushed;
	for (size_t i = rep->flushed; i < at; i++)
		if (!rep->log.entries[i].len)
			last = i + 1;
	for (; rep->flushed < last; rep->flushed++) {
		const struct log_entry *e = &rep->log.entries[rep->flushed];
		if (on_file_system(&rep->log, e))
			memcpy(rep->durable + e->offset, e->data, e->len);
	}
}

static bool kept(const struct crash_point *p, struct rng *r, size_t number, size_t cut)
{
	switch (p->keep) {
	case KEEP_NONE:
		return false;
	case KEEP_ALL:
		return true;
	case KEEP_PREFIX:
		return number < cut;
	case KEEP_HALF:
		return rng_below(r, 2);
	case KEEP_FEW:
		return rng_below(r, 8) == 0;
	case KEEP_MOST:
		return rng_below(r, 8) != 0;
	case KEEP_COUNT:
		break;
	}
	return false;
}

static size_t blocks_since_flush(const struct replayer *rep, size_t at)
{
	size_t n = 0;
	for (size_t i = rep->flushed; i < at; i++)
		n += on_file_system(&rep->log, &rep->log.entries[i]) ? rep->log.entries[i].len / BLOCK : 0;
	return n;
}

static void put(const struct replayer *rep, const unsigned char *data, size_t len, uint64_t offset)
{
	MUST(pwrite(rep->scratch, data, len, (off_t)offset) == (ssize_t)len);
}

/* Returns how many blocks are lost. Writes to the scratch device are O_DIRECT, so they come from aligned memory. */
static size_t make_disk(struct replayer *rep, const struct crash_point *p)
{
	static unsigned char block[BLOCK] __attribute__((aligned(BLOCK)));
	struct rng r = rng_new(p->seed, 4);
	size_t number = 0, lost = 0;
	advance(rep, p->at);
	size_t cut = rng_below(&r, blocks_since_flush(rep, p->at) + 1);
	put(rep, rep->durable, rep->log.disk_size, 0);
	for (size_t i = rep->flushed; i < p->at; i++) {
		const struct log_entry *e = &rep->log.entries[i];
		for (uint64_t at = 0; on_file_system(&rep->log, e) && at < e->len; at += BLOCK) {
			if (!kept(p, &r, number++, cut)) {
				lost++;
				continue;
			}
			memcpy(block, e->data + at, BLOCK);
			put(rep, block, BLOCK, e->offset + at);
		}
	}
	return lost;
}

/* ---- one after the other -------------------------------------------------------------------------------------------------------- */

/* In a child: what does not survive the disk it finds must not end all of it. */
static void check_point(struct replayer *rep, const struct crash_point *p)
{
	int status;
	*rep->shared = (struct result){.verdict = FOUND_DEAD};
	fflush(NULL);
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		struct result *res = rep->shared;
		if (rep->failures >= FAILURES_SHOWN)
			MUST(freopen("/dev/null", "w", stdout));
		res->verdict = crash_check(rep->o->scratch, &rep->o->fs, &rep->log, p->at, &res->layers, &res->bad_layers);
		fflush(NULL);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	if (status != 0) {
		rep->shared->verdict = FOUND_DEAD;
		umount2(MOUNT_POINT, MNT_DETACH);
	}
}

static void replay_point(struct replayer *rep, const struct crash_point *p, size_t number)
{
	size_t lost = make_disk(rep, p);
	check_point(rep, p);
	rep->found[rep->shared->verdict]++;
	rep->dropped += lost > 0;
	rep->layers += rep->shared->layers;
	rep->bad_layers += rep->shared->bad_layers;
	bool failed = rep->shared->verdict > FOUND_NEW || rep->shared->bad_layers;
	rep->failures += failed;
	if ((failed && rep->failures <= FAILURES_SHOWN) || rep->o->only >= 0)
		printf("point %zu: after entry %zu of %zu, %s of what was not flushed kept, %zu blocks lost: %s\n", number, p->at,
		       rep->log.count, keep_names[p->keep], lost, verdict_names[rep->shared->verdict]);
}

static void set_up(struct replayer *rep)
{
	_cleanup_fd_ int base = open(rep->o->base, O_RDONLY | O_CLOEXEC), log = open(rep->o->log, O_RDONLY | O_CLOEXEC);
	off_t size = lseek(base, 0, SEEK_END), log_size = lseek(log, 0, SEEK_END);
	MUST(base >= 0 && log >= 0 && size > (off_t)MARKS_SIZE && log_size > 0);
	log_read(log, (uint64_t)log_size, (uint64_t)size - MARKS_SIZE, &rep->log);
	MUST(rep->log.mark_count > 0 && rep->log.marks[0].kind == MARK_TREE);
	rep->durable = mmap(NULL, rep->log.disk_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rep->shared = mmap(NULL, sizeof(*rep->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(rep->durable != MAP_FAILED && rep->shared != MAP_FAILED);
	for (uint64_t at = 0; at < rep->log.disk_size; at += MARKS_SIZE)
		MUST(pread(base, rep->durable + at, MARKS_SIZE, (off_t)at) == (ssize_t)MARKS_SIZE);
	rep->scratch = open(rep->o->scratch, O_WRONLY | O_DIRECT | O_CLOEXEC);
	MUST(rep->scratch >= 0);
}

int replay_main(const struct replay_options *o)
{
	struct replayer rep = {.o = o};
	set_up(&rep);
	_cleanup_free_ struct crash_point *points = choose_points(&rep);
	printf("a log of %zu writes and %zu flushes; seed %" PRIu64 "\n", rep.log.count - rep.log.flushes, rep.log.flushes, o->seed);
	for (size_t i = 0; i < o->points; i++)
		if (o->only < 0 || (size_t)o->only == i)
			replay_point(&rep, &points[i], i);
	size_t *n = rep.found, torn = n[FOUND_TORN] + n[FOUND_DEAD], other = n[FOUND_LOST] + torn;
	printf("%zu crash points: %zu old tree, %zu new tree, %zu other (%zu torn, %zu lost)\n", n[FOUND_OLD] + n[FOUND_NEW] + other,
	       n[FOUND_OLD], n[FOUND_NEW], other, torn, n[FOUND_LOST]);
	printf("in %zu of them blocks were lost; %zu sealed layers compared, %zu of them damaged or missing\n", rep.dropped, rep.layers,
	       rep.bad_layers);
	return other > 0 || rep.bad_layers > 0;
}
