/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "audit/chunk.h"
#include "audit/trail.h"
#include "base/sha256.h"
#include "base/util.h"

enum { THREADS_MAX = 16 };

void broken_set(struct audit_broken *b, const char *file, uint64_t line, uint64_t seq, const char *fmt, ...)
{
	va_list args;

	if (b->found)
		return;
	*b = (struct audit_broken){.found = true, .line = line, .seq = seq};
	snprintf(b->file, sizeof(b->file), "%s", file);
	va_start(args, fmt);
	vsnprintf(b->what, sizeof(b->what), fmt, args);
	va_end(args);
}

/* ---- one piece --------------------------------------------------------------------------------------------------------------- */

/* What the pieces before and after must fit to. */
struct chunk_checked {
	uint64_t lines; /* that are good */
	uint64_t first, last;
	char prev[AUDIT_HASH], head[AUDIT_HASH];
	char from[TEXT_TIME], to[TEXT_TIME];
	bool rotates;
	uint64_t torn;
	bool expected;
	char *what; /* is wrong with the line behind these; allocated */
	uint64_t bad_seq;
};

/* What each thread has of its own. */
struct worker {
	struct checker *checker;
	EVP_MD_CTX *ctx;
	struct buf buffer;
	char *scratch;
};

struct checker {
	int dir;
	struct checked_segment *segments;
	size_t count;
	const struct audit_expect *expect;
	const EVP_MD *sha256;
	struct job {
		struct checked_segment *segment;
		uint64_t chunk; /* UINT64_MAX: the hash of the whole file */
	} * jobs;
	size_t job_count;
	atomic_size_t next;
	atomic_int failed; /* errno */
};

static bool hash_of(struct worker *w, const struct audit_line *l, char out[SHA256_HEX])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	size_t len = AUDIT_HASH + l->record + 1;

	/* in one piece: calls cost more than the copy */
	memcpy(w->scratch, l->prev, AUDIT_HASH);
	memcpy(w->scratch + AUDIT_HASH, l->line, l->record);
	w->scratch[len - 1] = '}';
	if (EVP_DigestInit_ex2(w->ctx, w->checker->sha256, NULL) != 1 || EVP_DigestUpdate(w->ctx, w->scratch, len) != 1 ||
	    EVP_DigestFinal_ex(w->ctx, digest, NULL) != 1)
		return false;
	sha256_hex(digest, out);
	return true;
}

static void put_wrong(struct chunk_checked *c, uint64_t seq, char *what)
{
	c->bad_seq = seq;
	c->what = what ? what : strdup("something is wrong, and there is no memory to say what");
}

__attribute__((format(printf, 3, 4))) static bool wrong(struct chunk_checked *c, uint64_t seq, const char *fmt, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	put_wrong(c, seq, text);
	return false;
}

/* Does the record follow the one before? NULL, or what is wrong (to be freed). */
static char *follows(const struct audit_line *l, uint64_t last, const char *head, bool rotated)
{
	char *text = NULL;
	int n = 0;

	if (rotated)
		n = asprintf(&text, "it follows record %" PRIu64 ", which ends the segment", last);
	else if (l->seq > last + 1)
		n = asprintf(&text, "it follows record %" PRIu64 ": %" PRIu64 " missing in between", last, l->seq - last - 1);
	else if (l->seq <= last)
		n = asprintf(&text, "it is out of order: it follows record %" PRIu64, last);
	else if (memcmp(l->prev, head, AUDIT_HASH) != 0)
		n = asprintf(&text, "it does not belong to record %" PRIu64 " before it: one of them was replaced", last);
	return n < 0 ? strdup("it does not follow the record before it") : text;
}

static bool check_line(struct worker *w, const char *line, size_t len, struct chunk_checked *c)
{
	const struct audit_expect *expect = w->checker->expect;
	char hash[SHA256_HEX];
	struct audit_line l;
	const char *why = audit_scan(line, len, &l);

	if (why)
		return wrong(c, l.seq, "this is not a record: %s", why);
	if (!hash_of(w, &l, hash))
		return wrong(c, l.seq, "libcrypto cannot make a hash");
	if (memcmp(hash, l.hash, AUDIT_HASH) != 0)
		return wrong(c, l.seq, "it was changed: its hash is not that of what it says");
	char *what = c->lines ? follows(&l, c->last, c->head, c->rotates) : NULL;
	if (what) {
		put_wrong(c, l.seq, what);
		return false;
	}
	if (expect && expect->seq == l.seq) {
		if (memcmp(expect->hash, l.hash, AUDIT_HASH) != 0)
			return wrong(c, l.seq, "it is another one than was noted: its hash is %.*s", AUDIT_HASH, l.hash);
		c->expected = true;
	}
	if (!c->lines) {
		c->first = l.seq;
		memcpy(c->prev, l.prev, AUDIT_HASH);
		memcpy(c->from, l.ts, TEXT_TIME);
		memcpy(c->to, l.ts, TEXT_TIME);
	}
	if (memcmp(l.ts, c->from, TEXT_TIME) < 0)
		memcpy(c->from, l.ts, TEXT_TIME);
	if (memcmp(l.ts, c->to, TEXT_TIME) > 0)
		memcpy(c->to, l.ts, TEXT_TIME);
	c->last = l.seq;
	memcpy(c->head, l.hash, AUDIT_HASH);
	c->rotates = audit_line_rotates(&l);
	c->lines++;
	return true;
}

static int check_chunk(struct worker *w, struct checked_segment *s, int fd, uint64_t index)
{
	struct chunk_checked *c = &s->chunks[index];
	struct chunk_lines lines;

	if (chunk_read(fd, s->size, index, &w->buffer, &lines) < 0)
		return -1;
	for (size_t at = 0; at < lines.len;) {
		const char *line = lines.data + at;
		size_t len = (size_t)((const char *)memchr(line, '\n', lines.len - at) - line);

		if (!check_line(w, line, len, c))
			return 0;
		at += len + 1;
	}
	c->torn = lines.torn;
	if (lines.overlong)
		wrong(c, 0, "this is not a record: the line is too long");
	return 0;
}

static int hash_file(struct worker *w, struct checked_segment *s, int fd)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	if (EVP_DigestInit_ex2(w->ctx, w->checker->sha256, NULL) != 1)
		goto no_crypto;
	for (off_t at = 0; at < s->size;) {
		w->buffer.len = 0;
		char *data = buf_reserve(&w->buffer, (size_t)CHUNK);
		ssize_t n = data ? pread(fd, data, (size_t)MIN(CHUNK, s->size - at), at) : -1;

		if (n < 0)
			return -1;
		if (n == 0)
			break; /* it was cut meanwhile: the hash will not be the one that it should be */
		if (EVP_DigestUpdate(w->ctx, data, (size_t)n) != 1)
			goto no_crypto;
		at += n;
	}
	if (EVP_DigestFinal_ex(w->ctx, digest, NULL) != 1)
		goto no_crypto;
	sha256_hex(digest, s->sha256);
	return 0;
no_crypto:
	errno = EIO;
	return -1;
}

/* ---- all pieces -------------------------------------------------------------------------------------------------------------- */

static int do_job(struct worker *w, const struct job *j)
{
	char name[TRAIL_NAME];

	trail_name(j->segment->number, TRAIL_SUFFIX, name);
	_cleanup_fd_ int fd = openat(w->checker->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	return j->chunk == UINT64_MAX ? hash_file(w, j->segment, fd) : check_chunk(w, j->segment, fd, j->chunk);
}

static void *work(void *arg)
{
	struct checker *c = arg;
	struct worker w = {.checker = c, .ctx = EVP_MD_CTX_new(), .scratch = malloc(AUDIT_HASH + AUDIT_LINE_MAX + 1)};

	if (!w.ctx || !w.scratch)
		c->failed = ENOMEM;
	for (size_t i; !c->failed && (i = c->next++) < c->job_count;)
		if (do_job(&w, &c->jobs[i]) < 0)
			c->failed = errno ? errno : EIO;
	EVP_MD_CTX_free(w.ctx);
	buf_free(&w.buffer);
	free(w.scratch);
	return NULL;
}

static unsigned cpu_count(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static void work_all(struct checker *c, unsigned threads)
{
	pthread_t others[THREADS_MAX];
	unsigned started = 0;

	threads = MIN(MIN(threads ? threads : cpu_count(), (unsigned)THREADS_MAX), (unsigned)MIN(c->job_count, (size_t)THREADS_MAX));
	while (started + 1 < threads && pthread_create(&others[started], NULL, work, c) == 0)
		started++;
	work(c); /* also when no other thread could be made */
	while (started)
		pthread_join(others[--started], NULL);
}

static int measure_segments(struct checker *c, struct cordon_error *err)
{
	uint64_t jobs = 0;

	for (size_t i = 0; i < c->count; i++) {
		struct checked_segment *s = &c->segments[i];
		char name[TRAIL_NAME];
		struct stat st;

		trail_name(s->number, TRAIL_SUFFIX, name);
		if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(err, "cannot examine %s", name);
		if (!S_ISREG(st.st_mode))
			return err_set(err, CORDON_ERR_SYSTEM, "%s is not a file", name);
		s->size = st.st_size;
		s->chunks = calloc(chunk_count(s->size) + 1, sizeof(*s->chunks));
		if (!s->chunks)
			return err_sys(err, "audit");
		jobs += chunk_count(s->size) + s->want_sha256;
	}
	c->jobs = calloc(jobs + 1, sizeof(*c->jobs));
	return c->jobs ? 0 : err_sys(err, "audit");
}

/* Whole files first: they take longest. */
static void list_jobs(struct checker *c)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->segments[i].want_sha256)
			c->jobs[c->job_count++] = (struct job){&c->segments[i], UINT64_MAX};
	for (size_t i = 0; i < c->count; i++)
		for (uint64_t k = 0; k < chunk_count(c->segments[i].size); k++)
			c->jobs[c->job_count++] = (struct job){&c->segments[i], k};
}

/* Puts the pieces together; what is wrong in the first of them, or between two, counts. */
static void join(struct checked_segment *s)
{
	char name[TRAIL_NAME];

	trail_name(s->number, TRAIL_SUFFIX, name);
	for (uint64_t k = 0; k < chunk_count(s->size) && !s->broken.found; k++) {
		const struct chunk_checked *c = &s->chunks[k];

		if (c->lines && s->records) {
			const struct audit_line l = {.seq = c->first, .prev = c->prev};
			_cleanup_free_ char *what = follows(&l, s->last, s->head, s->rotates);

			if (what)
				broken_set(&s->broken, name, s->records + 1, c->first, "%s", what);
		}
		if (c->lines && !s->records) {
			s->first = c->first;
			memcpy(s->prev, c->prev, AUDIT_HASH);
			memcpy(s->from, c->from, TEXT_TIME);
			memcpy(s->to, c->to, TEXT_TIME);
		}
		if (c->lines && !s->broken.found) {
			s->last = c->last;
			memcpy(s->head, c->head, AUDIT_HASH);
			if (memcmp(c->from, s->from, TEXT_TIME) < 0)
				memcpy(s->from, c->from, TEXT_TIME);
			if (memcmp(c->to, s->to, TEXT_TIME) > 0)
				memcpy(s->to, c->to, TEXT_TIME);
			s->rotates = c->rotates;
			s->records += c->lines;
		}
		s->torn = c->torn;
		s->expected = s->expected || c->expected;
		if (c->what)
			broken_set(&s->broken, name, s->records + 1, c->bad_seq, "%s", c->what);
	}
}

int check_segments(int dir, struct checked_segment *segments, size_t count, unsigned threads, const struct audit_expect *expect,
                   struct cordon_error *err)
{
	struct checker c = {.dir = dir, .segments = segments, .count = count, .expect = expect && expect->seq ? expect : NULL};
	EVP_MD *md = EVP_MD_fetch(NULL, "SHA256", NULL);
	int r;

	c.sha256 = md;
	r = md ? measure_segments(&c, err) : err_set(err, CORDON_ERR_SYSTEM, "libcrypto has no SHA-256");
	if (r == 0) {
		list_jobs(&c);
		work_all(&c, threads);
		errno = c.failed;
		if (c.failed)
			r = err_sys(err, "cannot read the audit");
	}
	for (size_t i = 0; r == 0 && i < count; i++)
		join(&segments[i]);
	free(c.jobs);
	EVP_MD_free(md);
	return r;
}

void checked_segments_free(struct checked_segment *segments, size_t count)
{
	for (size_t i = 0; segments && i < count; i++) {
		for (uint64_t k = 0; segments[i].chunks && k < chunk_count(segments[i].size); k++)
			free(segments[i].chunks[k].what);
		free(segments[i].chunks);
	}
	free(segments);
}
