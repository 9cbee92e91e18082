/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/query.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/chunk.h"
#include "audit/trail.h"
#include "base/glob.h"
#include "base/units.h"
#include "base/util.h"

/* ---- what matches ------------------------------------------------------------------------------------------------------------ */

/* Ids are plain letters: nothing to decode. */
static bool begins_with(struct slice s, const char *wanted)
{
	size_t n = strlen(wanted);

	return s.at && s.len >= n && memcmp(s.at, wanted, n) == 0;
}

static bool matches_glob(struct slice s, const char *glob)
{
	_cleanup_buf_ struct buf text = {0};

	if (!s.at)
		return false;
	audit_decode(&text, s, TEXT_BYTES);
	return !text.failed && glob_match(glob, text.len ? text.data : "");
}

bool audit_matches(const struct audit_filter *f, const struct audit_line *l)
{
	if (l->level < f->level || (f->categories && !(f->categories & 1u << l->category)) || (f->denied && l->allowed != AUDIT_DENIED))
		return false;
	if ((f->since[0] && memcmp(l->ts, f->since, TEXT_TIME) < 0) || (f->until[0] && memcmp(l->ts, f->until, TEXT_TIME) >= 0))
		return false;
	if ((f->sandbox && !begins_with(l->sandbox, f->sandbox)) || (f->exec && !begins_with(l->exec, f->exec)))
		return false;
	if (f->tenant && !(begins_with(l->tenant, f->tenant) && l->tenant.len == strlen(f->tenant)))
		return false;
	return (!f->action || matches_glob(l->action, f->action)) && (!f->target || matches_glob(l->target, f->target));
}

/* ---- times ------------------------------------------------------------------------------------------------------------------- */

/* So many digits as a number in [least, most]. */
static bool take_digits(const char **s, int count, int least, int most, int *out)
{
	*out = 0;
	for (int i = 0; i < count; i++, (*s)++) {
		if (**s < '0' || **s > '9')
			return false;
		*out = *out * 10 + (**s - '0');
	}
	return *out >= least && *out <= most;
}

static bool take_char(const char **s, const char *set)
{
	if (!**s || !strchr(set, **s))
		return false;
	(*s)++;
	return true;
}

/* ".25" in microseconds; what is finer is left out. */
static bool take_fraction(const char **s, int64_t *us)
{
	int64_t unit = 100000;

	if (!take_char(s, "."))
		return true;
	if (**s < '0' || **s > '9')
		return false;
	for (; **s >= '0' && **s <= '9'; (*s)++, unit /= 10)
		*us += unit * (**s - '0');
	return true;
}

/* "Z", "+02:00", or nothing, which is UTC, too: as records have it. */
static bool take_offset(const char **s, int64_t *us)
{
	int sign = **s == '-' ? 1 : -1, hours, minutes;

	if (!**s || take_char(s, "Zz"))
		return true;
	if (!take_char(s, "+-") || !take_digits(s, 2, 0, 23, &hours) || !take_char(s, ":") || !take_digits(s, 2, 0, 59, &minutes))
		return false;
	*us += (int64_t)sign * (hours * 3600 + minutes * 60) * 1000000;
	return true;
}

/* RFC 3339. */
static bool parse_moment(const char *s, int64_t *us)
{
	static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	struct tm tm = {0};
	int year, month, day;

	*us = 0;
	if (!take_digits(&s, 4, 0, 9999, &year) || !take_char(&s, "-") || !take_digits(&s, 2, 1, 12, &month) || !take_char(&s, "-") ||
	    !take_digits(&s, 2, 1, days[month - 1], &day) || (month == 2 && day == 29 && (year % 4 || (year % 100 == 0 && year % 400))))
		return false;
	if (take_char(&s, "Tt ")) {
		if (!take_digits(&s, 2, 0, 23, &tm.tm_hour) || !take_char(&s, ":") || !take_digits(&s, 2, 0, 59, &tm.tm_min))
			return false;
		if (take_char(&s, ":") && (!take_digits(&s, 2, 0, 60, &tm.tm_sec) || !take_fraction(&s, us)))
			return false;
		if (!take_offset(&s, us))
			return false;
	}
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	*us += (int64_t)timegm(&tm) * 1000000;
	return !*s;
}

int audit_parse_time(const char *text, int64_t now_us, char out[TEXT_TIME + 1], struct cordon_error *err)
{
	uint64_t ms;
	int64_t us;

	if (parse_moment(text, &us))
		audit_time(us, out);
	else if (strspn(text, "0123456789.") < strlen(text) && units_parse_duration(text, &ms, NULL) == 0)
		audit_time(now_us - (int64_t)ms * 1000, out);
	else
		return err_set(err, CORDON_ERR_INPUT, "'%.80s' is not a time: 2026-01-31T12:00:00Z, 2026-01-31, or how long ago: 90m, 2d",
		               text);
	return 0;
}

/* ---- searching --------------------------------------------------------------------------------------------------------------- */

struct search {
	int dir;
	const struct audit_filter *filter;
	struct trail_list segments;
	off_t *sizes; /* as they were at the beginning: what comes later does not count */
	struct buf buffer;
	struct audit_found *found;
};

static int open_segment(int dir, unsigned number)
{
	char name[TRAIL_NAME];

	trail_name(number, TRAIL_SUFFIX, name);
	return openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static int search_begin(struct search *s, const char *home, struct cordon_error *err)
{
	struct stat st;

	s->dir = trail_open_dir(home, err);
	if (s->dir < 0 || trail_list(s->dir, TRAIL_SUFFIX, &s->segments, err) < 0)
		return -1;
	s->sizes = calloc(s->segments.count + 1, sizeof(*s->sizes));
	if (!s->sizes)
		return err_sys(err, "audit");
	for (size_t i = 0; i < s->segments.count; i++) {
		_cleanup_fd_ int fd = open_segment(s->dir, s->segments.items[i]);

		s->sizes[i] = fd >= 0 && fstat(fd, &st) == 0 ? st.st_size : 0;
	}
	return 0;
}

static void search_end(struct search *s)
{
	cleanup_fd(&s->dir);
	trail_list_free(&s->segments);
	free(s->sizes);
	buf_free(&s->buffer);
}

/* What to do with a line that matches; `skip` of them are passed over. */
struct visit {
	audit_visitor *visit; /* NULL: only counted */
	void *arg;
	uint64_t skip, matched;
};

static int visit_chunk(struct search *s, int fd, off_t size, uint64_t index, struct visit *v, struct cordon_error *err)
{
	struct chunk_lines c;

	if (chunk_read(fd, size, index, &s->buffer, &c) < 0)
		return err_sys(err, "cannot read the audit");
	for (size_t at = 0; at < c.len;) {
		size_t len = (size_t)((const char *)memchr(c.data + at, '\n', c.len - at) - (c.data + at));
		struct audit_line l;

		if (audit_scan(c.data + at, len, &l))
			s->found->damaged += v->visit ? 1 : 0;
		else if (audit_matches(s->filter, &l) && ++v->matched > v->skip && v->visit && v->visit(v->arg, &l, err) < 0)
			return -1;
		at += len + 1;
	}
	s->found->damaged += v->visit && c.overlong ? 1 : 0;
	return 0;
}

/* Where to begin so that at most `limit` records follow: counted from the end. */
struct place {
	size_t segment;
	uint64_t chunk, skip;
};

static int find_place(struct search *s, uint64_t limit, struct place *out, struct cordon_error *err)
{
	uint64_t total = 0;

	*out = (struct place){0};
	for (size_t i = s->segments.count; limit && i--;) {
		_cleanup_fd_ int fd = open_segment(s->dir, s->segments.items[i]);

		for (uint64_t k = fd < 0 ? 0 : chunk_count(s->sizes[i]); k--;) {
			struct visit v = {.visit = NULL};

			if (visit_chunk(s, fd, s->sizes[i], k, &v, err) < 0)
				return -1;
			total += v.matched;
			if (total < limit)
				continue;
			*out = (struct place){i, k, total - limit};
			s->found->more = i || k || out->skip;
			return 0;
		}
	}
	return 0;
}

int audit_query(const char *home, const struct audit_filter *f, uint64_t limit, audit_visitor *visit, void *arg, struct audit_found *found,
                struct cordon_error *err)
{
	static const struct audit_filter any = {0};
	struct audit_found ignored;
	struct search s = {.dir = -1, .filter = f ? f : &any, .found = found ? found : &ignored};
	struct place place;
	int r = search_begin(&s, home, err);

	*s.found = (struct audit_found){0};
	if (r == 0)
		r = find_place(&s, limit, &place, err);
	for (size_t i = r == 0 ? place.segment : 0; r == 0 && i < s.segments.count; i++) {
		_cleanup_fd_ int fd = open_segment(s.dir, s.segments.items[i]);
		const uint64_t count = fd < 0 ? 0 : chunk_count(s.sizes[i]); /* one that is gone was retired */

		for (uint64_t k = i == place.segment ? place.chunk : 0; r == 0 && k < count; k++) {
			struct visit v = {.visit = visit, .arg = arg, .skip = i == place.segment && k == place.chunk ? place.skip : 0};

			r = visit_chunk(&s, fd, s.sizes[i], k, &v, err);
			s.found->matched += v.matched - MIN(v.skip, v.matched);
		}
	}
	search_end(&s);
	return r;
}
