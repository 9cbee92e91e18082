/* SPDX-License-Identifier: Apache-2.0 */
/* cordon doctor: which guarantees this host gives, by which mechanism, and how to get the rest. */
#include "cmd/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "cordon.h"

#define CHECKS_MAX 64

/* For the table of commands (main.c), too: help and completion find them there. */
extern const struct option_def doctor_options[];
extern const char doctor_about[];

struct doctor_flags {
	bool json;
};

const struct option_def doctor_options[] = {
	{.name = "json", .offset = offsetof(struct doctor_flags, json), .help = "print JSON"},
	{0},
};

const char doctor_about[] =
	"Each guarantee is tried, as the caller, in the way a sandbox needs it: ✓ yes, ~ weaker, ✗ no, • for information. Under\n"
	"what is missing stands the command that gets it. Exit status: 0 if this host gives every guarantee as strongly as this\n"
	"version of cordon can use it, 1 if one is weaker or missing, 125 if the check itself failed.";

struct report {
	struct {
		const struct check *check;
		struct finding finding;
	} rows[CHECKS_MAX];
	size_t count;
	unsigned tally[CHECK_STATUS_COUNT];
	bool ok;
};

static const char *const status_names[] = {[CHECK_YES] = "yes", [CHECK_WEAKER] = "weaker", [CHECK_NO] = "no", [CHECK_INFO] = "info"};

__attribute__((format(printf, 4, 5))) void found(struct finding *f, enum check_status status, const char *by, const char *fmt, ...)
{
	va_list ap;

	f->status = status;
	snprintf(f->by, sizeof(f->by), "%s", by);
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 2, 3))) void found_fix(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->fix, sizeof(f->fix), fmt, ap);
	va_end(ap);
}

static void run_checks(struct doctor *d, const struct check *checks, struct report *r)
{
	for (const struct check *c = checks; c->name && r->count < CHECKS_MAX; c++) {
		struct finding *f = &r->rows[r->count].finding;

		r->rows[r->count++].check = c;
		c->probe(d, c, f);
		r->tally[f->status]++;
		if (f->status == CHECK_NO || (f->status == CHECK_WEAKER && !f->everywhere))
			r->ok = false;
	}
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

static void print_row(const struct check *c, const struct finding *f, int name_width, int by_width, const struct colours *colours)
{
	static const struct {
		const char *symbol, *colour;
	} looks[] = {[CHECK_YES] = {"✓", "\033[32m"},
	             [CHECK_WEAKER] = {"~", "\033[33m"},
	             [CHECK_NO] = {"✗", "\033[1;31m"},
	             [CHECK_INFO] = {"•", "\033[2m"}};
	const char *colour = *colours->off ? looks[f->status].colour : "";

	printf("  %s%s%s %-*s  %-*s  %s\n", colour, looks[f->status].symbol, colours->off, name_width, c->name, by_width, f->by, f->detail);
	if (*f->fix)
		printf("    %-*s  %s→%s %s%s%s\n", name_width, "", colour, colours->off, colours->bold, f->fix, colours->off);
}

static void print_table(const struct report *r)
{
	struct colours c = colours_for(STDOUT_FILENO);
	size_t name_width = 0, by_width = 0;

	for (size_t i = 0; i < r->count; i++) {
		name_width = MAX(name_width, strlen(r->rows[i].check->name));
		by_width = MAX(by_width, strlen(r->rows[i].finding.by));
	}
	for (size_t i = 0; i < r->count; i++) {
		if (r->rows[i].check->group)
			printf("%s%s%s%s\n", i ? "\n" : "", c.bold, r->rows[i].check->group, c.off);
		print_row(r->rows[i].check, &r->rows[i].finding, (int)name_width, (int)by_width, &c);
	}
	unsigned total = r->tally[CHECK_YES] + r->tally[CHECK_WEAKER] + r->tally[CHECK_NO];
	printf("\n%s%u guarantees: %u yes, %u weaker, %u no%s\n", r->tally[CHECK_NO] ? c.bad : c.bold, total, r->tally[CHECK_YES],
	       r->tally[CHECK_WEAKER], r->tally[CHECK_NO], c.off);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------------- */

static const char *or_null(const char *s)
{
	return *s ? s : NULL;
}

static int print_json(const struct report *r)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	json_object(&j);
	json_kbool(&j, "ok", r->ok);
	json_key(&j, "checks");
	json_array(&j);
	for (size_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->rows[i].finding;

		json_object(&j);
		json_kstr(&j, "name", r->rows[i].check->name);
		json_kstr(&j, "status", status_names[f->status]);
		json_kstr(&j, "by", or_null(f->by));
		json_kstr(&j, "detail", or_null(f->detail));
		json_kstr(&j, "fix", or_null(f->fix));
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
	return b.failed || puts(b.data) < 0 ? -1 : 0;
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

int cmd_doctor(int argc, char **argv)
{
	struct command command = *command_find("doctor");
	static struct report report;
	struct doctor_flags flags = {0};
	struct parsed_options parsed;
	struct cordon_error err = {0};
	struct doctor doctor;
	int status;

	command.options = doctor_options;
	command.about = doctor_about;
	options_parse(&command, argc, argv, &flags, NULL, &parsed);
	if (!options_accept(&command, &parsed, &status))
		return status;
	if (parsed.first < argc) {
		err_set(&err, CORDON_ERR_INPUT, "unexpected argument '%s'", argv[parsed.first]);
		report_error("cordon doctor", &err);
		return EXIT_CORDON_FAILED;
	}
	report = (struct report){.ok = true};
	doctor_open(&doctor);
	run_checks(&doctor, doctor_kernel_checks, &report);
	run_checks(&doctor, doctor_network_checks, &report);
	run_checks(&doctor, doctor_host_checks, &report);
	doctor_close(&doctor);
	if (!flags.json)
		print_table(&report);
	else if (print_json(&report) < 0)
		return EXIT_CORDON_FAILED;
	return report.ok ? EXIT_OK : EXIT_WEAKER;
}
