/* SPDX-License-Identifier: Apache-2.0 */
/* cordon selftest: attacks a sandbox from the inside, and tells which protection stopped what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/util.h"
#include "cmd/cmd.h"
#include "policy/policy.h"
#include "selftest/harness.h"

struct selftest_flags {
	bool json, list, verbose;
	const char *only, *image;
};

const struct option_def selftest_options[] = {
	{.name = "json", .offset = offsetof(struct selftest_flags, json), .help = "print JSON"},
	{.name = "list", .offset = offsetof(struct selftest_flags, list), .help = "list the attacks and what stops each, and try none"},
	{.name = "only", .argument = "NAME", .offset = offsetof(struct selftest_flags, only), .help = "try this attack only"},
	{.name = "image",
         .argument = "NAME",
         .offset = offsetof(struct selftest_flags, image),
         .complete = COMPLETE_IMAGE,
         .help = "in a sandbox on this image (default host)"},
	{.name = "verbose", .offset = offsetof(struct selftest_flags, verbose), .help = "say what each attack tries"},
	{0},
};

const char selftest_about[] =
	"Each attack is first tried outside a sandbox, where it must work (the control), so that a broken one does not count as blocked;\n"
	"all of them are harmless, and after decoys that are laid out for the purpose. Exit status: 0 if every attack was blocked and every\n"
	"control that could be run worked, 1 if not, 125 if the test itself failed.";

struct tally {
	unsigned total, blocked, not_blocked, no_control, control_failed;
};

/* Each attack counts once. */
static struct tally count_up(const struct verdict *verdicts)
{
	struct tally t = {0};

	for (size_t i = 0; i < selftest_attack_count; i++) {
		const struct verdict *v = &verdicts[i];

		if (!v->tried)
			continue;
		t.total++;
		if (!v->blocked)
			t.not_blocked++;
		else if (v->control == CONTROL_FAILED)
			t.control_failed++;
		else if (v->control == CONTROL_MISSING)
			t.no_control++;
		else
			t.blocked++;
	}
	return t;
}

static bool all_well(const struct tally *t)
{
	return t->not_blocked == 0 && t->control_failed == 0;
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

static int name_width(void)
{
	size_t width = 0;

	for (size_t i = 0; i < selftest_attack_count; i++)
		width = MAX(width, strlen(selftest_attacks[i].name));
	return (int)width;
}

/* For people: an attack that only looks, and finds nothing, has met no error. */
static const char *met(const struct verdict *v)
{
	return strcmp(v->detail, errno_name(ENOTSEEN)) == 0 ? "nothing seen" : v->detail;
}

static void print_verdict(const struct verdict *v, int width, bool verbose, const struct colours *c)
{
	if (!v->blocked)
		printf("%s✗ %-*s  NOT BLOCKED%s     %s\n", c->bad, width, v->attack->name, c->off,
		       v->detail[0] ? v->detail : v->attack->what);
	else if (v->control == CONTROL_FAILED)
		printf("%s! %-*s  control failed%s  %s outside; inside %s → %s\n", c->bad, width, v->attack->name, c->off,
		       v->control_detail, met(v), v->blocked_by);
	else if (v->control == CONTROL_MISSING)
		printf("%s– %-*s  no control      %s → %s; outside: %s%s\n", c->dim, width, v->attack->name, met(v), v->blocked_by,
		       v->control_detail, c->off);
	else
		printf("✓ %s%-*s%s  blocked         %s → %s\n", c->name, width, v->attack->name, c->off, met(v), v->blocked_by);
	if (verbose)
		printf("  %*s  %s%s%s\n", width, "", c->dim, v->attack->what, c->off);
}

static void print_table(const struct verdict *verdicts, const struct tally *t, bool verbose)
{
	struct colours c = colours_for(STDOUT_FILENO);
	int width = name_width();

	for (size_t i = 0; i < selftest_attack_count; i++)
		if (verdicts[i].tried)
			print_verdict(&verdicts[i], width, verbose, &c);
	printf("\n%s%u attacks: %u blocked, %u NOT BLOCKED, %u without control", all_well(t) ? c.bold : c.bad, t->total, t->blocked,
	       t->not_blocked, t->no_control);
	if (t->control_failed)
		printf(", %u with a control that failed", t->control_failed);
	printf("%s\n", c.off);
}

/* "seccomp, capabilities" */
static void protections_text(unsigned stops, struct buf *b)
{
	const char *name;

	while ((name = protection_next(&stops)))
		buf_addf(b, "%s%s", b->len ? ", " : "", name);
}

static void print_list(void)
{
	struct colours c = colours_for(STDOUT_FILENO);
	int width = name_width();

	for (size_t i = 0; i < selftest_attack_count; i++) {
		_cleanup_buf_ struct buf by = {0};

		protections_text(selftest_attacks[i].stops, &by);
		printf("%s%-*s%s  %s %s(%s)%s\n", c.name, width, selftest_attacks[i].name, c.off, selftest_attacks[i].what, c.dim,
		       by.data ? by.data : "", c.off);
	}
}

/* ---- JSON -------------------------------------------------------------------------------------------------------------------- */

static void add_attack(struct json *j, const struct attack *a)
{
	unsigned stops = a->stops;
	const char *name;

	json_kstr(j, "name", a->name);
	json_kstr(j, "description", a->what);
	json_key(j, "protections");
	json_array(j);
	while ((name = protection_next(&stops)))
		json_str(j, name);
	json_end(j);
}

static void add_verdict(struct json *j, const struct verdict *v)
{
	static const char *const controls[] = {[CONTROL_WORKED] = "worked", [CONTROL_MISSING] = "n/a", [CONTROL_FAILED] = "failed"};

	json_object(j);
	add_attack(j, v->attack);
	json_kstr(j, "control", controls[v->control]);
	json_kstr(j, "control_detail", v->control_detail[0] ? v->control_detail : NULL);
	json_kstr(j, "inside", v->blocked ? "blocked" : "not_blocked");
	json_kstr(j, "errno", v->detail[0] ? v->detail : NULL);
	json_kstr(j, "blocked_by", v->blocked_by);
	json_end(j);
}

static int print_buffer(struct buf *b)
{
	if (b->failed || puts(b->data) < 0 || fflush(stdout) != 0)
		return EXIT_CORDON_FAILED;
	return EXIT_OK;
}

static int print_json(const struct verdict *verdicts, const struct tally *t)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	json_object(&j);
	json_key(&j, "attacks");
	json_array(&j);
	for (size_t i = 0; i < selftest_attack_count; i++)
		if (verdicts[i].tried)
			add_verdict(&j, &verdicts[i]);
	json_end(&j);
	json_kint(&j, "total", t->total);
	json_kint(&j, "blocked", t->blocked);
	json_kint(&j, "not_blocked", t->not_blocked);
	json_kint(&j, "without_control", t->no_control);
	json_kint(&j, "control_failed", t->control_failed);
	json_kbool(&j, "ok", all_well(t));
	json_end(&j);
	return print_buffer(&b);
}

static int print_list_json(void)
{
	_cleanup_buf_ struct buf b = {0};
	struct json j = {.out = &b};

	json_object(&j);
	json_key(&j, "attacks");
	json_array(&j);
	for (size_t i = 0; i < selftest_attack_count; i++) {
		json_object(&j);
		add_attack(&j, &selftest_attacks[i]);
		json_end(&j);
	}
	json_end(&j);
	json_end(&j);
	return print_buffer(&b);
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

static int check_only(const char *name, struct cordon_error *err)
{
	const char **names = calloc(selftest_attack_count, sizeof(*names)), *near;
	bool found = false;

	if (!names)
		return err_sys(err, "cannot look for '%s'", name);
	for (size_t i = 0; i < selftest_attack_count; i++) {
		names[i] = selftest_attacks[i].name;
		found = found || strcmp(names[i], name) == 0;
	}
	near = nearest_word(name, names, selftest_attack_count);
	free(names);
	if (found)
		return 0;
	if (near)
		err_set(err, CORDON_ERR_INPUT, "--only: no attack is called '%s' (did you mean %s?)", name, near);
	else
		err_set(err, CORDON_ERR_INPUT, "--only: no attack is called '%s'", name);
	return err_hint(err, "cordon selftest --list shows them all");
}

static int attack_and_report(const struct selftest_flags *flags, struct cordon_error *err)
{
	_cleanup_free_ struct verdict *verdicts = calloc(selftest_attack_count, sizeof(*verdicts));
	struct tally t;

	if (!verdicts)
		return err_sys(err, "cannot start");
	if (selftest_run(flags->only, flags->image, verdicts, err) < 0)
		return -1;
	t = count_up(verdicts);
	if (flags->json && print_json(verdicts, &t) != EXIT_OK)
		return err_set(err, CORDON_ERR_SYSTEM, "cannot write the result");
	if (!flags->json)
		print_table(verdicts, &t, flags->verbose);
	return all_well(&t) ? EXIT_OK : EXIT_WEAKER;
}

int cmd_selftest(int argc, char **argv)
{
	const struct command *command = command_find("selftest");
	struct selftest_flags flags = {0};
	struct parsed_options parsed;
	struct cordon_error err = {0};
	int status;

	options_parse(command, argc, argv, &flags, NULL, &parsed);
	if (!options_accept(command, &parsed, &status))
		return status;
	if (parsed.first < argc)
		err_set(&err, CORDON_ERR_INPUT, "unexpected argument '%s'", argv[parsed.first]);
	else if (!flags.only || check_only(flags.only, &err) == 0) {
		if (!flags.list)
			status = attack_and_report(&flags, &err);
		else if (flags.json)
			status = print_list_json();
		else {
			print_list();
			status = EXIT_OK;
		}
	}
	if (err.code == CORDON_OK)
		return status;
	report_error("cordon selftest", &err);
	return EXIT_CORDON_FAILED;
}
