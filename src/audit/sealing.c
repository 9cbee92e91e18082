/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing full segments, and removing old ones. Whoever does it holds the lock of the seals; writers go on meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/record.h"
#include "audit/trail.h"
#include "audit/verify.h"
#include "base/fs.h"
#include "base/util.h"

/* ---- sealing ----------------------------------------------------------------------------------------------------------------- */

static int not_whole(const struct audit_broken *b, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_SYSTEM, "%s, line %" PRIu64 ": %s; it is not sealed", b->file, b->line, b->what);
	return err_hint(err, "cordon audit --verify examines the whole log");
}

/* The head of the segment before, by its seal. */
static bool head_before(int dir, unsigned number, struct chain_head *out)
{
	struct seal seal;
	bool absent;

	*out = (struct chain_head){.hash = AUDIT_NO_HASH};
	if (number == 1)
		return true;
	if (seal_read(dir, number - 1, &seal, &absent))
		return false;
	out->seq = seal.last;
	memcpy(out->hash, seal.head, sizeof(out->hash));
	return true;
}

static int seal_one(int dir, const struct checked_segment *s, const struct seal_key *key, struct cordon_error *err)
{
	struct seal seal = {.number = s->number, .first = s->first, .last = s->last, .size = (uint64_t)s->size};
	struct audit_broken b = s->broken;
	struct chain_head before;
	char name[TRAIL_NAME];

	trail_name(s->number, TRAIL_SUFFIX, name);
	if (!s->rotates || s->torn)
		broken_set(&b, name, s->records, s->last, "the end of the segment is missing");
	if (head_before(dir, s->number, &before) && (s->first != before.seq + 1 || strcmp(s->prev, before.hash) != 0))
		broken_set(&b, name, 1, s->first, "it does not follow the segment before");
	if (b.found)
		return not_whole(&b, err);
	memcpy(seal.from, s->from, sizeof(seal.from));
	memcpy(seal.to, s->to, sizeof(seal.to));
	memcpy(seal.prev, s->prev, sizeof(seal.prev));
	memcpy(seal.head, s->head, sizeof(seal.head));
	memcpy(seal.sha256, s->sha256, sizeof(seal.sha256));
	audit_time(audit_now(), seal.sealed);
	return seal_sign(&seal, key, err) < 0 ? -1 : seal_write(dir, &seal, err);
}

/* One after the other, so that what is done stays done. */
static int seal_pending(int dir, const struct seal_key *key, struct audit_sealed *out, struct cordon_error *err)
{
	_cleanup_trail_list_ struct trail_list segments = {0};

	if (trail_list(dir, TRAIL_SUFFIX, &segments, err) < 0)
		return -1;
	for (size_t i = 0; i + 1 < segments.count; i++) { /* the newest is being written */
		char name[TRAIL_NAME];

		trail_name(segments.items[i], SEAL_SUFFIX, name);
		if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		struct checked_segment *s = calloc(1, sizeof(*s));
		if (!s)
			return err_sys(err, "audit");
		s->number = segments.items[i];
		s->want_sha256 = true;
		int r = check_segments(dir, s, 1, 0, NULL, err);
		if (r == 0)
			r = seal_one(dir, s, key, err);
		checked_segments_free(s, 1);
		if (r < 0)
			return -1;
		out->sealed++;
	}
	return 0;
}

/* ---- removing ---------------------------------------------------------------------------------------------------------------- */

/* Is the file still what was sealed? A forgery must not become a good seal in `retired`. */
static int check_sealed(int dir, const struct seal *seal, struct cordon_error *err)
{
	struct checked_segment *s = calloc(1, sizeof(*s));

	if (!s)
		return err_sys(err, "audit");
	s->number = seal->number;
	s->want_sha256 = true;
	int r = check_segments(dir, s, 1, 0, NULL, err);
	if (r == 0 && ((uint64_t)s->size != seal->size || strcmp(s->sha256, seal->sha256) != 0))
		r = err_set(err, CORDON_ERR_SYSTEM, "%06u" TRAIL_SUFFIX " is not the segment that was sealed; it is not removed",
		            seal->number);
	checked_segments_free(s, 1);
	return r;
}

/* The segment, its seal, and what interrupted writers had left in it. */
static int remove_files(int dir, unsigned number, struct cordon_error *err)
{
	_cleanup_buf_ struct buf names = {0};
	char segment[TRAIL_NAME];

	trail_name(number, TRAIL_SUFFIX, segment);
	if (fs_read_names(dir, &names) < 0 || (unlinkat(dir, segment, 0) < 0 && errno != ENOENT))
		return err_sys(err, "cannot remove %s", segment);
	for (size_t i = 0; i < names.len; i += strlen(names.data + i) + 1) {
		const char *rest;

		if (trail_number(names.data + i, &rest) == number && strcmp(rest, TRAIL_SUFFIX) != 0 &&
		    unlinkat(dir, names.data + i, 0) < 0)
			return err_sys(err, "cannot remove %s", names.data + i);
	}
	return fsync(dir) < 0 ? err_sys(err, "cannot sync the audit's directory") : 0;
}

struct removal {
	int dir;
	const struct audit_retention *keep;
	const struct seal_key *key;
	struct seal_list retired;
	struct audit *audit; /* where it is noted */
	struct audit_sealed *out;
	uint64_t bytes; /* of all segments */
};

static int retire_one(struct removal *m, const struct seal *s, struct cordon_error *err)
{
	const bool noted = m->retired.count && m->retired.items[m->retired.count - 1].number >= s->number;
	char name[TRAIL_NAME];

	trail_name(s->number, TRAIL_SUFFIX, name);
	if (!noted) { /* else it was interrupted between this and the removal */
		const struct audit_field detail[] = {AUDIT_INT("first", s->first), AUDIT_INT("last", s->last), AUDIT_INT("bytes", s->size),
		                                     AUDIT_TEXT("head", s->head), AUDIT_END};
		const struct audit_event e = {
			.level = AUDIT_INFO, .category = AUDIT_SYSTEM, .action = "retire", .target = name, .detail = detail};

		if (check_sealed(m->dir, s, err) < 0 || audit_record(m->audit, &e, err) < 0 ||
		    seal_retire(m->dir, s, m->retired.size, err) < 0)
			return -1;
	}
	if (remove_files(m->dir, s->number, err) < 0)
		return -1;
	m->out->retired++;
	m->out->retired_bytes += s->size;
	m->bytes -= MIN(m->bytes, s->size);

	size_t bad;
	const char *why;
	seal_list_free(&m->retired);
	return seal_retired(m->dir, &m->retired, &bad, &why, err) < 0 ? -1 : 0;
}

static bool is_over(const struct removal *m, const struct seal *s)
{
	char oldest[TEXT_TIME + 1];

	if (m->keep->max_bytes && m->bytes > m->keep->max_bytes)
		return true;
	if (!m->keep->max_age_ms)
		return false;
	audit_time(audit_now() - (int64_t)m->keep->max_age_ms * 1000, oldest);
	return strcmp(s->to, oldest) < 0;
}

static off_t size_of(int dir, unsigned number)
{
	char name[TRAIL_NAME];
	struct stat st;

	trail_name(number, TRAIL_SUFFIX, name);
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
}

static int retire(struct removal *m, struct cordon_error *err)
{
	_cleanup_trail_list_ struct trail_list segments = {0};
	const char *why = NULL;
	size_t bad = 0;
	int r = seal_retired(m->dir, &m->retired, &bad, &why, err);

	if (r > 0)
		return err_set(err, CORDON_ERR_SYSTEM, "%s, line %zu: %s", SEAL_RETIRED, bad, why);
	if (r < 0 || trail_list(m->dir, TRAIL_SUFFIX, &segments, err) < 0)
		return -1;
	for (size_t i = 0; i < segments.count; i++)
		m->bytes += (uint64_t)size_of(m->dir, segments.items[i]);
	/* each removal is on record in the newest one, which is therefore not empty: the next record finds what it follows */
	for (size_t i = 0; i + 1 < segments.count; i++) {
		struct seal s;
		bool absent;

		why = seal_read(m->dir, segments.items[i], &s, &absent);
		if (!why)
			why = seal_check(&s, m->key);
		if (why)
			return err_set(err, CORDON_ERR_SYSTEM, "%06u" SEAL_SUFFIX ": %s; the segment is not removed", segments.items[i],
			               why);
		if (!is_over(m, &s))
			break;
		if (retire_one(m, &s, err) < 0)
			return -1;
	}
	return 0;
}

int audit_seal(const char *home, const struct audit_retention *keep, struct audit_sealed *out, struct cordon_error *err)
{
	static const struct audit_retention all = {0};
	_cleanup_key_ struct seal_key *key = NULL;
	struct audit *audit = NULL;
	struct removal m = {.keep = keep ? keep : &all, .out = out};
	int r = -1;

	*out = (struct audit_sealed){0};
	if (audit_open(&audit, home, NULL, err) < 0)
		return -1;
	_cleanup_fd_ int dir = trail_open_dir(home, err);
	_cleanup_fd_ int lock = dir < 0 ? -1 : seal_lock(dir, true, err);
	if (lock >= 0 && audit_rotate(audit, err) == 0 && (key = seal_key_private(dir, err))) {
		memcpy(out->key, seal_key_id(key), sizeof(out->key));
		r = seal_pending(dir, key, out, err);
	}
	if (r == 0 && (m.keep->max_age_ms || m.keep->max_bytes)) {
		m.dir = dir;
		m.key = key;
		m.audit = audit;
		r = retire(&m, err);
	}
	seal_list_free(&m.retired);
	audit_close(audit);
	return r;
}
