/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon audit`: what happened, and whether the log of it is whole. */
#include "cmd/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/csv.h"
#include "audit/record.h"
#include "audit/verify.h"
#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/tree.h"

enum { TABLE_LIMIT = 100, FOLLOW_LIMIT = 10 };

/* ---- options ----------------------------------------------------------------------------------------------------------------- */

static int word_of(const char *given, const char *const *words, size_t count, const char *option, struct cordon_error *err)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(given, words[i]) == 0)
			return (int)i;
	const char *near = nearest_word(given, words, count);
	if (near)
		return err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' is none (did you mean %s?)", option, given, near);
	_cleanup_buf_ struct buf all = {0};
	for (size_t i = 0; i < count; i++)
		buf_addf(&all, "%s%s", i ? ", " : "", words[i]);
	return err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' is none of %s", option, given, all.data ? all.data : "");
}

/* A name is turned into an id while there is such a sandbox; an id also finds one that is gone. */
static int find_sandbox(const struct tree_args *a, const char *given, char id[ID_LEN + 1])
{
	_cleanup_box_ struct box b = {0};
	_cleanup_free_ char *path = NULL;
	struct store s;

	if (asprintf(&path, "%s/sandboxes", a->home) < 0) {
		path = NULL;
		return -1;
	}
	if (access(path, F_OK) < 0 || store_open(&s, a->home, NULL) < 0) /* which would make it */
		return -1;
	int r = box_find(&s, given, &b, NULL);
	if (r == 0)
		memcpy(id, b.id, ID_LEN + 1);
	store_close(&s);
	return r;
}

static int parse_times(const struct audit_flags *f, struct audit_filter *out, struct cordon_error *err)
{
	const int64_t now = audit_now();

	if (f->since && audit_parse_time(f->since, now, out->since, err) < 0)
		return err_wrap(err, "--since");
	if (f->until && audit_parse_time(f->until, now, out->until, err) < 0)
		return err_wrap(err, "--until");
	if (f->since && f->until && strcmp(out->since, out->until) >= 0)
		return err_set(err, CORDON_ERR_INPUT, "--since %s is not before --until %s", f->since, f->until);
	return 0;
}

static int parse_filter(const struct tree_args *a, const struct audit_flags *f, struct audit_filter *out, char id[ID_LEN + 1],
                        struct cordon_error *err)
{
	int word;

	*out = (struct audit_filter){.denied = f->denied, .tenant = f->tenant, .exec = f->exec, .action = f->action, .target = f->target};
	if (f->level) {
		word = word_of(f->level, audit_level_names, AUDIT_LEVEL_COUNT, "--level", err);
		if (word < 0)
			return -1;
		out->level = (enum audit_level)word;
	}
	for (size_t i = 0; i < f->categories.count; i++) {
		word = word_of(f->categories.items[i], audit_category_names, AUDIT_CATEGORY_COUNT, "--category", err);
		if (word < 0)
			return -1;
		out->categories |= 1u << word;
	}
	if (f->sandbox)
		out->sandbox = find_sandbox(a, f->sandbox, id) == 0 ? id : f->sandbox;
	return parse_times(f, out, err);
}

/* What to do; at most one of these. */
static int check_modes(const struct audit_flags *f, struct cordon_error *err)
{
	const struct {
		bool given;
		const char *name;
	} modes[] = {{f->summary, "--summary"},
	             {f->follow, "--follow"},
	             {f->export_to != NULL, "--export"},
	             {f->verify, "--verify"},
	             {f->seal, "--seal"}};
	const char *first = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (modes[i].given && first)
			return err_set(err, CORDON_ERR_INPUT, "%s and %s do not go together", first, modes[i].name);
		first = modes[i].given ? modes[i].name : first;
	}
	const struct {
		bool given, mode;
		const char *name, *needs;
	} pairs[] = {{f->format != NULL, f->export_to != NULL, "--format", "--export"},
	             {f->pub != NULL, f->verify, "--pub", "--verify"},
	             {f->expect != NULL, f->verify, "--expect", "--verify"},
	             {f->max_age != NULL, f->seal, "--max-age", "--seal"},
	             {f->max_size != NULL, f->seal, "--max-size", "--seal"}};
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		if (pairs[i].given && !pairs[i].mode)
			return err_set(err, CORDON_ERR_INPUT, "%s is only for %s", pairs[i].name, pairs[i].needs);
	return 0;
}

static int parse_limit(const struct audit_flags *f, uint64_t fallback, uint64_t *out, struct cordon_error *err)
{
	*out = fallback;
	if (f->limit && units_parse_count(f->limit, 0, INT64_MAX, out, err) < 0)
		return err_wrap(err, "--limit");
	return 0;
}

/* ---- records ----------------------------------------------------------------------------------------------------------------- */

static int print_raw(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	(void)arg;
	if (fwrite(l->line, 1, l->len, stdout) != l->len || putchar('\n') == EOF)
		return err_sys(err, "cannot write to standard output");
	return 0;
}

static void report_damaged(uint64_t damaged)
{
	if (damaged)
		fprintf(stderr, "cordon audit: %" PRIu64 " line%s no record%s and left out; see cordon audit --verify\n", damaged,
		        damaged == 1 ? " is" : "s are", damaged == 1 ? "" : "s");
}

/* No log is the same as an empty one, to whoever looks for records. */
static int query(const struct tree_args *a, const struct audit_filter *filter, uint64_t limit, audit_visitor *visit, void *arg,
                 struct audit_found *found, struct cordon_error *err)
{
	int r = audit_query(a->home, filter, limit, visit, arg, found, err);

	if (r < 0 && err->code == CORDON_ERR_NOT_FOUND) {
		*found = (struct audit_found){0};
		return 0;
	}
	return r;
}

static int show(const struct tree_args *a, const struct audit_flags *f, const struct audit_filter *filter, struct cordon_error *err)
{
	struct audit_found found;
	struct audit_page page;
	uint64_t limit;

	if (parse_limit(f, f->json ? 0 : TABLE_LIMIT, &limit, err) < 0)
		return -1;
	audit_page_begin(&page);
	int r = query(a, filter, limit, f->json ? print_raw : audit_page_add, &page, &found, err);
	if (r == 0)
		r = audit_page_end(&page, err);
	else
		table_free(&page.table);
	if (r < 0)
		return -1;
	fflush(stdout);
	report_damaged(found.damaged);
	if (!f->json && found.matched == 0)
		fputs("no records\n", stderr);
	else if (!f->json && !f->limit && found.more)
		fprintf(stderr, "the last %d; --limit 0 shows all\n", TABLE_LIMIT);
	return EXIT_OK;
}

static int add_to_summary(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	return audit_summary_add(arg, l) < 0 ? err_set(err, CORDON_ERR_SYSTEM, "out of memory") : 0;
}

static int summarise(const struct tree_args *a, const struct audit_flags *f, const struct audit_filter *filter, struct cordon_error *err)
{
	struct audit_summary s = {0};
	struct audit_found found;
	uint64_t limit;
	int r = parse_limit(f, 0, &limit, err);

	if (r == 0)
		r = query(a, filter, limit, add_to_summary, &s, &found, err);
	if (r == 0) {
		_cleanup_buf_ struct buf line = {0};

		audit_summary_finish(&s);
		if (f->json) {
			audit_json_summary(&s, &found, &line);
			r = tree_print_json(a, &line, EXIT_OK);
		} else {
			r = audit_print_summary(&s, &found, err);
			fflush(stdout);
		}
		report_damaged(found.damaged);
	}
	audit_summary_free(&s);
	return r;
}

/* ---- following --------------------------------------------------------------------------------------------------------------- */

struct follower {
	struct audit_page page;
	bool json;
	uint64_t last; /* number of the record that was shown last */
};

/* Those that came between the first look and the waiting are seen twice: shown once. */
static int show_next(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	struct follower *w = arg;

	if (l->seq <= w->last)
		return 0;
	w->last = l->seq;
	return w->json ? print_raw(NULL, l, err) : audit_print_line(&w->page, l, err);
}

static int follow(const struct tree_args *a, const struct audit_flags *f, const struct audit_filter *filter, struct cordon_error *err)
{
	struct follower w = {.json = f->json};
	struct audit_reader reader;
	struct audit_found found;
	uint64_t limit;

	audit_page_begin(&w.page);
	if (parse_limit(f, FOLLOW_LIMIT, &limit, err) < 0 || audit_reader_open(&reader, a->home, err) < 0)
		return -1;
	/* --limit 0 --follow: only what is still to come would be useless as "all", so 0 is all here, too */
	int r = query(a, filter, limit, show_next, &w, &found, err);
	while (r >= 0) {
		r = audit_reader_next(&reader, filter, show_next, &w, err);
		if (r == 0 && (fflush(stdout) != 0 || ferror(stdout)))
			break; /* nobody listens any more */
		if (r == 0)
			r = audit_reader_wait(&reader, err);
	}
	audit_reader_close(&reader);
	return r < 0 ? -1 : EXIT_OK;
}

/* ---- exporting --------------------------------------------------------------------------------------------------------------- */

struct exporter {
	FILE *out;
	bool csv;
	struct buf row;
};

static int export_one(void *arg, const struct audit_line *l, struct cordon_error *err)
{
	struct exporter *x = arg;

	x->row.len = 0;
	if (x->csv) {
		audit_csv_add(&x->row, l);
	} else {
		buf_add(&x->row, l->line, l->len);
		buf_add(&x->row, "\n", 1);
	}
	if (x->row.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	return fwrite(x->row.data, 1, x->row.len, x->out) == x->row.len ? 0 : err_sys(err, "cannot write");
}

static int find_format(const struct audit_flags *f, bool *csv, struct cordon_error *err)
{
	static const char *const formats[] = {"jsonl", "csv"};
	const char *dot = strrchr(f->export_to, '.'), *slash = strrchr(f->export_to, '/');
	int word;

	if (f->format)
		word = word_of(f->format, formats, ARRAY_SIZE(formats), "--format", err);
	else if (dot && (!slash || dot > slash) && (strcmp(dot, ".csv") == 0 || strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".json") == 0))
		word = strcmp(dot, ".csv") == 0;
	else
		word = err_set(err, CORDON_ERR_INPUT, "--export %s: call it .jsonl or .csv, or say which with --format", f->export_to);
	*csv = word == 1;
	return word < 0 ? -1 : 0;
}

static int export_records(const struct tree_args *a, const struct audit_flags *f, const struct audit_filter *filter, struct exporter *x,
                          struct cordon_error *err)
{
	struct audit_found found;
	uint64_t limit;

	if (x->csv) {
		audit_csv_titles(&x->row);
		if (x->row.failed || fwrite(x->row.data, 1, x->row.len, x->out) != x->row.len)
			return err_sys(err, "cannot write");
	}
	if (parse_limit(f, 0, &limit, err) < 0 || query(a, filter, limit, export_one, x, &found, err) < 0)
		return -1;
	if (fflush(x->out) != 0)
		return err_sys(err, "cannot write");
	report_damaged(found.damaged);
	if (x->out != stdout)
		fprintf(stderr, "%" PRIu64 " record%s to %s\n", found.matched, found.matched == 1 ? "" : "s", f->export_to);
	return 0;
}

/* The file is there when it is complete, or not at all. What is no file (a pipe, a device) is written to as it is. */
static int export_to_file(const struct tree_args *a, const struct audit_flags *f, const struct audit_filter *filter, struct exporter *x,
                          struct cordon_error *err)
{
	_cleanup_free_ char *temporary = NULL;
	struct stat st;
	const bool special = stat(f->export_to, &st) == 0 && !S_ISREG(st.st_mode);

	if (asprintf(&temporary, "%s.XXXXXX", f->export_to) < 0) {
		temporary = NULL;
		return err_sys(err, "audit");
	}
	int fd = special ? open(f->export_to, O_WRONLY | O_CLOEXEC | O_NOCTTY) : mkostemp(temporary, O_CLOEXEC);
	x->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!x->out) {
		cleanup_fd(&fd);
		return err_sys(err, "cannot create %s", f->export_to);
	}
	int r = export_records(a, f, filter, x, err);
	if (r == 0 && !special && fsync(fd) < 0)
		r = err_sys(err, "cannot write");
	if (fclose(x->out) != 0 && r == 0)
		r = err_sys(err, "cannot write");
	if (r == 0 && !special && rename(temporary, f->export_to) < 0)
		r = err_sys(err, "cannot rename");
	if (r < 0 && !special)
		unlink(temporary);
	return r < 0 ? err_wrap(err, "%s", f->export_to) : 0;
}

static int export(const struct tree_args *a, const struct audit_flags *f, const struct audit_filter *filter, struct cordon_error *err)
{
	struct exporter x = {.out = stdout};
	int r = find_format(f, &x.csv, err);

	if (r == 0)
		r = strcmp(f->export_to, "-") == 0 ? export_records(a, f, filter, &x, err) : export_to_file(a, f, filter, &x, err);
	buf_free(&x.row);
	return r;
}

/* ---- the log as a whole ------------------------------------------------------------------------------------------------------ */

static int parse_expect(const char *text, struct audit_expect *out, struct cordon_error *err)
{
	const char *colon = strchr(text, ':');
	char number[32] = "";

	if (colon && (size_t)(colon - text) < sizeof(number))
		memcpy(number, text, (size_t)(colon - text));
	if (!colon || units_parse_count(number, 1, INT64_MAX, &out->seq, NULL) < 0 || strlen(colon + 1) != AUDIT_HASH ||
	    strspn(colon + 1, "0123456789abcdef") != AUDIT_HASH)
		return err_set(err, CORDON_ERR_INPUT,
		               "--expect '%.100s': the number of a record and its hash, as --verify prints them: 4711:9f86d0…", text);
	memcpy(out->hash, colon + 1, AUDIT_HASH);
	return 0;
}

static void print_verified(const struct audit_verified *v, const struct audit_flags *f)
{
	const struct colours c = colours_for(STDOUT_FILENO);
	const struct audit_broken *b = &v->broken;

	if (b->found) {
		printf("%sbroken:%s %s", c.bad, c.off, b->file);
		if (b->line)
			printf(", line %" PRIu64, b->line);
		if (b->seq)
			printf(" (record %" PRIu64 ")", b->seq);
		printf(": %s\n", b->what);
		if (v->records)
			printf("%s%" PRIu64 " records before that are good%s\n", c.dim, v->records, c.off);
		return;
	}
	printf("%sgood:%s %" PRIu64 " record%s in %u segment%s, %u sealed", c.good, c.off, v->records, v->records == 1 ? "" : "s",
	       v->segments, v->segments == 1 ? "" : "s", v->sealed);
	if (v->retired)
		printf(", %u removed and accounted for", v->retired);
	putchar('\n');
	if (v->last)
		printf("head: %" PRIu64 ":%s\n", v->last, v->head);
	if (v->key[0])
		printf("key: %s%s\n", v->key, f->pub ? "" : " (the one that lies beside the log; compare it with --pub FILE)");
	if (v->torn)
		printf("%s%u file%s with what interrupted writers have left%s\n", c.dim, v->torn, v->torn == 1 ? "" : "s", c.off);
	if (v->torn_bytes)
		printf("%sthe last %" PRIu64 " bytes are part of a record that was never reported%s\n", c.dim, v->torn_bytes, c.off);
}

static void json_verified(const struct audit_verified *v, struct buf *out)
{
	const struct audit_broken *b = &v->broken;
	struct json j = {.out = out};

	json_object(&j);
	json_kbool(&j, "ok", !b->found);
	json_kint(&j, "records", (int64_t)v->records);
	json_kint(&j, "bytes", (int64_t)v->bytes);
	json_kint(&j, "segments", v->segments);
	json_kint(&j, "sealed", v->sealed);
	json_kint(&j, "retired", v->retired);
	json_kint(&j, "torn", v->torn);
	json_kint(&j, "torn_bytes", (int64_t)v->torn_bytes);
	json_kint(&j, "first", (int64_t)v->first);
	json_kint(&j, "last", (int64_t)v->last);
	json_kstr(&j, "head", v->head);
	json_kstr(&j, "key", v->key[0] ? v->key : NULL);
	json_key(&j, "broken");
	if (b->found) {
		json_object(&j);
		json_kstr(&j, "file", b->file);
		json_kint(&j, "line", (int64_t)b->line);
		json_kint(&j, "seq", (int64_t)b->seq);
		json_kstr(&j, "reason", b->what);
		json_end(&j);
	} else {
		json_null(&j);
	}
	json_end(&j);
}

static int verify(const struct tree_args *a, const struct audit_flags *f, struct cordon_error *err)
{
	struct audit_verify_options options = {.pub = f->pub};
	_cleanup_buf_ struct buf line = {0};
	struct audit_verified v;

	if ((f->expect && parse_expect(f->expect, &options.expect, err) < 0) || audit_verify(a->home, &options, &v, err) < 0)
		return -1;
	const int status = v.broken.found ? EXIT_WEAKER : EXIT_OK;
	if (!f->json) {
		print_verified(&v, f);
		return status;
	}
	json_verified(&v, &line);
	return tree_print_json(a, &line, status);
}

static int seal(const struct tree_args *a, const struct audit_flags *f, struct cordon_error *err)
{
	_cleanup_buf_ struct buf line = {0};
	struct audit_retention keep = {0};
	struct audit_sealed s;
	char size[FORMAT_MAX];

	if (f->max_age && units_parse_duration(f->max_age, &keep.max_age_ms, err) < 0)
		return err_wrap(err, "--max-age");
	if (f->max_size && units_parse_size(f->max_size, &keep.max_bytes, err) < 0)
		return err_wrap(err, "--max-size");
	if (audit_seal(a->home, &keep, &s, err) < 0)
		return -1;
	if (!f->json) {
		printf("%u segment%s sealed with key %s", s.sealed, s.sealed == 1 ? "" : "s", s.key);
		if (s.retired)
			printf(", %u removed (%s)", s.retired, format_bytes(s.retired_bytes, size));
		putchar('\n');
		return EXIT_OK;
	}
	struct json j = {.out = &line};
	json_object(&j);
	json_kint(&j, "sealed", s.sealed);
	json_kint(&j, "retired", s.retired);
	json_kint(&j, "retired_bytes", (int64_t)s.retired_bytes);
	json_kstr(&j, "key", s.key);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

static int audit(const struct tree_args *a, const struct audit_flags *f, struct cordon_error *err)
{
	struct audit_filter filter;
	char id[ID_LEN + 1];

	if (check_modes(f, err) < 0)
		return -1;
	if (f->verify)
		return verify(a, f, err);
	if (f->seal)
		return seal(a, f, err);
	if (parse_filter(a, f, &filter, id, err) < 0)
		return -1;
	if (f->summary)
		return summarise(a, f, &filter, err);
	if (f->follow)
		return follow(a, f, &filter, err);
	return f->export_to ? export(a, f, &filter, err) : show(a, f, &filter, err);
}

int cmd_audit(int argc, char **argv)
{
	struct audit_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	const struct tree_form form = {.command = "audit", .target = &f, .json = &f.json};
	int status;

	if (tree_parse(&form, argc, argv, &a, &status)) {
		status = audit(&a, &f, &err);
		if (status < 0)
			status = tree_fail(&a, &err);
	}
	strlist_free(&f.categories);
	return status;
}
