/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole log: retired segments by their seals, the others record by record, all in one chain. What is checked first is reported first, and
 * nothing that comes behind a break is believed.
 */
#include "audit/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "audit/record.h"
#include "audit/trail.h"
#include "base/fs.h"
#include "base/util.h"

struct verifier {
	int dir;
	const struct audit_verify_options *options;
	struct audit_verified *out;
	struct seal_key *key;
	struct trail_list segments, seals;
	struct seal_list retired;
	struct checked_segment *checked; /* as many as segments */
	unsigned hint;                   /* the newest segment, as the writers have noted it */
	unsigned next;                   /* the number that the next segment must have */
	struct chain_head head;          /* what its first record must follow */
	bool expected;                   /* the expected record was found */
};

int seal_lock(int dir, bool change, struct cordon_error *err)
{
	int fd = openat(dir, SEAL_LOCK, (change ? O_RDWR | O_CREAT : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && !change) /* a copy that may not be written: nobody else changes it */
		return -1;
	while (fd >= 0 && flock(fd, change ? LOCK_EX : LOCK_SH) < 0) {
		if (errno == EINTR)
			continue;
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		err_sys(err, "cannot lock the audit's seals");
	return fd < 0 ? -2 : fd;
}

#define BROKEN(v, file, ...) broken_set(&(v)->out->broken, file, 0, 0, __VA_ARGS__)

/* ---- retired segments -------------------------------------------------------------------------------------------------------- */

/* Takes a segment for what its seal says. */
static void follow_seal(struct verifier *v, const struct seal *s)
{
	v->next = s->number + 1;
	v->head.seq = s->last;
	memcpy(v->head.hash, s->head, sizeof(v->head.hash));
	if (v->options->expect.seq != s->last)
		return;
	if (strcmp(v->options->expect.hash, s->head) == 0)
		v->expected = true;
	else
		BROKEN(v, SEAL_RETIRED, "record %" PRIu64 " is another one than was noted: its hash is %s", s->last, s->head);
}

/* Those whose files are still there are checked as files: an interrupted removal. */
static int verify_retired(struct verifier *v, struct cordon_error *err)
{
	const char *why = NULL;
	size_t bad = 0;
	int r = seal_retired(v->dir, &v->retired, &bad, &why, err);

	if (r < 0)
		return -1;
	for (size_t i = 0; i < v->retired.count && !v->out->broken.found; i++) {
		const struct seal *s = &v->retired.items[i];
		const char *wrong = v->key ? seal_check(s, v->key) : NULL;

		if (v->segments.count && s->number >= v->segments.items[0])
			return 0;
		if (wrong)
			broken_set(&v->out->broken, SEAL_RETIRED, i + 1, s->first, "the seal of a segment that was removed: %s", wrong);
		else if (s->number != v->next || s->first != v->head.seq + 1 || strcmp(s->prev, v->head.hash) != 0)
			broken_set(&v->out->broken, SEAL_RETIRED, i + 1, s->first,
			           "it does not follow the one before: a line is missing, or was replaced");
		else
			follow_seal(v, s);
		v->out->retired += !v->out->broken.found;
	}
	if (r > 0)
		broken_set(&v->out->broken, SEAL_RETIRED, bad, 0, "%s", why);
	return 0;
}

/* ---- segments ---------------------------------------------------------------------------------------------------------------- */

static void verify_place(struct verifier *v, const struct checked_segment *s, const char *name)
{
	if (s->number != v->next) {
		char missing[TRAIL_NAME];

		trail_name(v->next, TRAIL_SUFFIX, missing);
		BROKEN(v, missing, "it is missing");
	} else if (s->records && (s->first != v->head.seq + 1 || strcmp(s->prev, v->head.hash) != 0)) {
		if (s->first != v->head.seq + 1)
			broken_set(&v->out->broken, name, 1, s->first,
			           "it should be record %" PRIu64 ": the segment is another one, or its beginning is missing",
			           v->head.seq + 1);
		else
			broken_set(&v->out->broken, name, 1, s->first,
			           "it does not follow the segment before: one of the two was replaced");
	}
}

static void verify_end(struct verifier *v, const struct checked_segment *s, const char *name, bool newest)
{
	if (newest)
		v->out->torn_bytes = s->torn;
	else if (s->torn)
		broken_set(&v->out->broken, name, s->records + 1, 0, "something follows the last record");
	else if (!s->rotates)
		broken_set(&v->out->broken, name, s->records, s->last,
		           "the end of the segment is missing: this is not the record that ends one");
}

static void verify_seal(struct verifier *v, const struct checked_segment *s)
{
	char name[TRAIL_NAME];
	struct seal seal;
	bool absent;
	const char *why = seal_read(v->dir, s->number, &seal, &absent);

	trail_name(s->number, SEAL_SUFFIX, name);
	if (absent)
		return;
	if (!why && v->key)
		why = seal_check(&seal, v->key);
	if (!why && (seal.size != (uint64_t)s->size || strcmp(seal.sha256, s->sha256) != 0))
		why = "the segment is not the one that was sealed";
	if (!why && (seal.first != s->first || seal.last != s->last || strcmp(seal.head, s->head) != 0 || strcmp(seal.prev, s->prev) != 0))
		why = "it says something else than the segment";
	if (why)
		BROKEN(v, name, "%s", why);
	v->out->sealed++;
}

/* Of a segment that is shorter than its seal says the end is missing, whatever its last line looks like. */
static void verify_size(struct verifier *v, const struct checked_segment *s, const char *name)
{
	struct seal seal;
	bool absent;

	if (!seal_read(v->dir, s->number, &seal, &absent) && (!v->key || !seal_check(&seal, v->key)) && seal.size > (uint64_t)s->size)
		broken_set(&v->out->broken, name, s->records, s->last, "%" PRIu64 " bytes are missing at the end, by its seal",
		           seal.size - (uint64_t)s->size);
}

static void verify_segment(struct verifier *v, struct checked_segment *s, bool newest)
{
	char name[TRAIL_NAME];

	trail_name(s->number, TRAIL_SUFFIX, name);
	verify_place(v, s, name);
	if (!v->out->broken.found && s->broken.found)
		v->out->broken = s->broken;
	if (!v->out->broken.found)
		verify_size(v, s, name);
	if (!v->out->broken.found)
		verify_end(v, s, name, newest);
	if (!v->out->broken.found)
		verify_seal(v, s);
	if (v->out->broken.found)
		return;
	v->next = s->number + 1;
	v->out->records += s->records;
	v->out->bytes += (uint64_t)s->size;
	v->out->segments++;
	v->expected = v->expected || s->expected;
	if (s->records) {
		v->head.seq = s->last;
		memcpy(v->head.hash, s->head, sizeof(v->head.hash));
		v->out->first = v->out->first ? v->out->first : s->first;
	}
}

static int check_all(struct verifier *v, struct cordon_error *err)
{
	v->checked = calloc(v->segments.count + 1, sizeof(*v->checked));
	if (!v->checked)
		return err_sys(err, "audit");
	for (size_t i = 0, k = 0; i < v->segments.count; i++) {
		v->checked[i].number = v->segments.items[i];
		while (k < v->seals.count && v->seals.items[k] < v->segments.items[i])
			k++;
		v->checked[i].want_sha256 = k < v->seals.count && v->seals.items[k] == v->segments.items[i];
	}
	return check_segments(v->dir, v->checked, v->segments.count, v->options->threads, &v->options->expect, err);
}

/* ---- what must be there ------------------------------------------------------------------------------------------------------ */

/* Before the segments are listed: there may be a new one at any moment. */
static void read_hint(struct verifier *v)
{
	char text[TRAIL_NAME];

	v->hint = fs_read_small(v->dir, TRAIL_LOCK, text, sizeof(text)) > 0 ? trail_number(text, NULL) : 0;
}

/* The writers have noted which one is the newest; a seal that is left over tells of others. */
static void verify_missing(struct verifier *v)
{
	unsigned last = v->seals.count ? MAX(v->hint, v->seals.items[v->seals.count - 1]) : v->hint;
	char name[TRAIL_NAME];

	trail_name(v->next, TRAIL_SUFFIX, name);
	if (last >= v->next)
		BROKEN(v, name, "it is missing");
}

static void verify_expected(struct verifier *v)
{
	const struct audit_expect *e = &v->options->expect;

	if (!e->seq || v->expected)
		return;
	if (e->seq > v->head.seq)
		BROKEN(v, AUDIT_DIR, "record %" PRIu64 ", which was noted, is missing: the log ends with record %" PRIu64, e->seq,
		       v->head.seq);
	else
		BROKEN(v, AUDIT_DIR,
		       "record %" PRIu64 ", which was noted, was removed with its segment: only the last records of these can be compared",
		       e->seq);
}

static int find_key(struct verifier *v, struct cordon_error *err)
{
	struct cordon_error why = {0};

	if (v->options->pub)
		v->key = seal_key_public(AT_FDCWD, v->options->pub, err);
	else if (v->seals.count || faccessat(v->dir, SEAL_RETIRED, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		v->key = seal_key_public(v->dir, SEAL_KEY_PUB, &why);
	else
		return 0;
	if (v->key)
		memcpy(v->out->key, seal_key_id(v->key), sizeof(v->out->key));
	else if (v->options->pub)
		return -1;
	else
		BROKEN(v, SEAL_KEY_PUB, "%.200s: the seals cannot be checked", why.message);
	return 0;
}

static void count_torn(struct verifier *v)
{
	_cleanup_buf_ struct buf names = {0};

	if (fs_read_names(v->dir, &names) < 0)
		return;
	for (size_t i = 0; i < names.len; i += strlen(names.data + i) + 1) {
		const char *rest;

		if (trail_number(names.data + i, &rest) && strncmp(rest, ".torn-", 6) == 0)
			v->out->torn++;
	}
}

static int verify(struct verifier *v, struct cordon_error *err)
{
	read_hint(v);
	if (trail_list(v->dir, TRAIL_SUFFIX, &v->segments, err) < 0 || trail_list(v->dir, SEAL_SUFFIX, &v->seals, err) < 0 ||
	    find_key(v, err) < 0 || verify_retired(v, err) < 0 || check_all(v, err) < 0)
		return -1;
	for (size_t i = 0; i < v->segments.count && !v->out->broken.found; i++)
		verify_segment(v, &v->checked[i], i + 1 == v->segments.count);
	v->out->last = v->head.seq;
	memcpy(v->out->head, v->head.hash, sizeof(v->out->head));
	if (!v->out->broken.found)
		verify_missing(v);
	if (!v->out->broken.found)
		verify_expected(v);
	count_torn(v);
	return 0;
}

int audit_verify(const char *home, const struct audit_verify_options *options, struct audit_verified *out, struct cordon_error *err)
{
	static const struct audit_verify_options plain = {0};
	struct verifier v = {.options = options ? options : &plain, .out = out, .next = 1, .head = {.hash = AUDIT_NO_HASH}};

	*out = (struct audit_verified){0};
	v.dir = trail_open_dir(home, err);
	if (v.dir < 0)
		return -1;
	int r = -1, lock = seal_lock(v.dir, false, err);
	if (lock != -2)
		r = verify(&v, err);
	checked_segments_free(v.checked, v.segments.count);
	trail_list_free(&v.segments);
	trail_list_free(&v.seals);
	seal_list_free(&v.retired);
	seal_key_free(v.key);
	cleanup_fd(&lock);
	cleanup_fd(&v.dir);
	return r;
}
