/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/cmd.h"
#include "policy/policy.h"

enum { SUGGESTIONS_MAX = 64, LABEL_MAX = 64 };

static const struct option_def help_option = {.name = "help", .letter = 'h', .help = "show this help"};

/* One run of the parser. */
struct parser {
	const struct command *command;
	char *target;
	struct cordon_policy *policy;
	struct strlist *settings; /* NULL: not wanted */
	struct parsed_options *out;
};

static const struct option_def *find_option(const struct command *command, const char *name, size_t len, char letter)
{
	for (const struct option_def *o = command->options; o && o->name; o++)
		if (name ? strlen(o->name) == len && memcmp(o->name, name, len) == 0 : o->letter == letter)
			return o;
	if (name ? len == 4 && memcmp(name, "help", 4) == 0 : letter == 'h')
		return &help_option;
	return NULL;
}

/* The first error is kept: the ones after it are often its consequences. */
static struct cordon_error *new_error(struct parser *p, struct cordon_error *ignored)
{
	return p->out->err.code == CORDON_OK ? &p->out->err : ignored;
}

__attribute__((format(printf, 2, 3))) static void fail_usage(struct parser *p, const char *fmt, ...)
{
	struct cordon_error ignored = {0}, *err = new_error(p, &ignored);
	char message[sizeof(err->message)];
	va_list args;

	if (err == &p->out->err)
		p->out->usage = true;
	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	err_set(err, CORDON_ERR_INPUT, "%s", message);
}

/* The only one that begins like this; NULL: none or several. */
static const char *only_completion(const char *word, const char *const *candidates, size_t count)
{
	const char *found = NULL;

	for (size_t i = 0; i < count; i++) {
		if (strncmp(candidates[i], word, strlen(word)) != 0)
			continue;
		if (found)
			return NULL;
		found = candidates[i];
	}
	return found;
}

/* What a sandbox is made with, given to a command that works on one: it cannot be changed any more. */
static bool belongs_to_create(const struct parser *p, const char *word)
{
	const struct command *create = command_find("create");

	return p->command->complete == COMPLETE_SANDBOX && create && strncmp(word, "--", 2) == 0 &&
	       find_option(create, word + 2, strlen(word + 2), 0);
}

static void fail_unknown(struct parser *p, const char *given, size_t len)
{
	char labels[SUGGESTIONS_MAX][LABEL_MAX];
	const char *candidates[SUGGESTIONS_MAX];
	char word[LABEL_MAX], suggestion[LABEL_MAX + 32] = "";
	size_t n = 0;

	for (const struct option_def *o = p->command->options; o && o->name && n < SUGGESTIONS_MAX; o++, n++) {
		snprintf(labels[n], LABEL_MAX, "--%s", o->name);
		candidates[n] = labels[n];
	}
	if (n < SUGGESTIONS_MAX)
		candidates[n++] = "--help";
	snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word) - 1), given);
	const bool first = p->out->err.code == CORDON_OK, for_create = belongs_to_create(p, word);
	const char *near = len > 2 && !for_create ? only_completion(word, candidates, n) : NULL;
	if (!near && len > 2 && !for_create)
		near = nearest_word(word, candidates, n);
	if (near)
		snprintf(suggestion, sizeof(suggestion), " (did you mean %s?)", near);
	fail_usage(p, "unknown option '%s'%s", word, suggestion);
	if (first && for_create)
		err_hint(&p->out->err, "a sandbox gets it when it is made: cordon create %s", word);
}

int options_set_policy(struct cordon_policy *policy, const char *key, const char *shown, const char *value, struct cordon_error *err)
{
	size_t len = strlen(key);

	if (cordon_policy_set(policy, key, value, err) == 0)
		return 0;
	if (strncmp(err->message, key, len) == 0 && strncmp(err->message + len, ": ", 2) == 0)
		memmove(err->message, err->message + len + 2, strlen(err->message + len + 2) + 1);
	return err_wrap(err, "%s", shown);
}

static void set_policy(struct parser *p, const struct option_def *o, const char *shown, const char *value, struct cordon_error *err)
{
	_cleanup_free_ char *setting = NULL;

	if (options_set_policy(p->policy, o->policy_key, shown, value, err) < 0 || !p->settings)
		return;
	if (asprintf(&setting, "%s=%s", o->policy_key, value) < 0) {
		setting = NULL;
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	} else {
		strlist_add(p->settings, setting, err);
	}
}

static void store(struct parser *p, const struct option_def *o, const char *shown, const char *value)
{
	struct cordon_error ignored = {0}, *err = new_error(p, &ignored);

	if (o == &help_option) {
		p->out->help = true;
	} else if (o->policy_key) {
		set_policy(p, o, shown, o->argument ? value : "true", err);
	} else if (o->repeat) {
		strlist_add((struct strlist *)(void *)(p->target + o->offset), value, err);
	} else if (o->argument) {
		*(const char **)(void *)(p->target + o->offset) = value;
	} else {
		*(bool *)(void *)(p->target + o->offset) = true;
	}
}

/* "--name", "--name=value" or "--name value"; returns how many words were used. */
static int parse_long(struct parser *p, char **argv)
{
	const char *name = argv[0] + 2, *value = strchr(name, '=');
	size_t len = value ? (size_t)(value - name) : strlen(name);
	const struct option_def *o = find_option(p->command, name, len, 0);
	char shown[LABEL_MAX];

	if (!o) {
		fail_unknown(p, argv[0], len + 2);
		return 1;
	}
	snprintf(shown, sizeof(shown), "--%s", o->name);
	if (!o->argument) {
		if (value)
			fail_usage(p, "%s takes no value, but '%s' was given", shown, value + 1);
		else
			store(p, o, shown, NULL);
		return 1;
	}
	if (value) {
		store(p, o, shown, value + 1);
		return 1;
	}
	if (!argv[1]) {
		fail_usage(p, "%s needs a value: %s", shown, o->argument);
		return 1;
	}
	store(p, o, shown, argv[1]);
	return 2;
}

/* "-it", "-c VALUE", "-cVALUE"; returns how many words were used. */
static int parse_short(struct parser *p, char **argv)
{
	for (const char *s = argv[0] + 1; *s; s++) {
		const struct option_def *o = find_option(p->command, NULL, 0, *s);
		char shown[3] = {'-', *s, 0};

		if (!o) {
			/* "-memory" is a long option with a dash too few, more likely than a bundle. */
			if (s == argv[0] + 1 && s[1])
				fail_unknown(p, argv[0], strlen(argv[0]));
			else
				fail_usage(p, "unknown option '%s'", shown);
			return 1;
		}
		if (!o->argument) {
			store(p, o, shown, NULL);
			continue;
		}
		if (s[1]) {
			store(p, o, shown, s + 1);
			return 1;
		}
		if (!argv[1]) {
			fail_usage(p, "%s needs a value: %s", shown, o->argument);
			return 1;
		}
		store(p, o, shown, argv[1]);
		return 2;
	}
	return 1;
}

/* Moves the last `words` of the first `count` to the front. */
static void to_front(char **argv, int count, int words)
{
	for (; words > 0; words--) {
		char *last = argv[count - 1];

		memmove(argv + 1, argv, (size_t)(count - 1) * sizeof(*argv));
		argv[0] = last;
	}
}

int options_parse_settings(const struct command *command, int argc, char **argv, void *target, struct cordon_policy *policy,
                           struct strlist *settings, struct parsed_options *out)
{
	struct parser p = {.command = command, .target = target, .policy = policy, .settings = settings, .out = out};
	int first = 1; /* operands seen so far are argv[first] to argv[i - 1] */

	*out = (struct parsed_options){.dashes = argc};
	for (int i = 1; i < argc;) {
		bool end = strcmp(argv[i], "--") == 0, option = argv[i][0] == '-' && argv[i][1];
		int words = 1;

		if (!option && !command->mixed)
			break;
		if (option && !end)
			words = argv[i][1] == '-' ? parse_long(&p, argv + i) : parse_short(&p, argv + i);
		i += words;
		if (option) {
			to_front(argv + first, i - first, words);
			first += words;
		}
		if (end) {
			out->dashes = i;
			break;
		}
	}
	out->first = first;
	return out->err.code == CORDON_OK ? 0 : -1;
}

int options_parse(const struct command *command, int argc, char **argv, void *target, struct cordon_policy *policy,
                  struct parsed_options *out)
{
	return options_parse_settings(command, argc, argv, target, policy, NULL, out);
}

bool options_accept(const struct command *command, const struct parsed_options *parsed, int *status)
{
	char who[LABEL_MAX];

	if (parsed->help) {
		options_help(command, stdout);
		*status = EXIT_OK;
		return false;
	}
	if (parsed->err.code == CORDON_OK)
		return true;
	snprintf(who, sizeof(who), "cordon %s", command->name);
	report_error(who, &parsed->err);
	if (parsed->usage)
		fprintf(stderr, "see: %s --help\n", who);
	*status = EXIT_CORDON_FAILED;
	return false;
}

/* ---- how they are shown ------------------------------------------------------------------------------------------------------ */

struct colours colours_for(int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	/* no-color.org: any value but an empty one counts. */
	if ((no_color && *no_color) || !term || strcmp(term, "dumb") == 0 || !isatty(fd))
		return (struct colours){"", "", "", "", "", ""};
	return (struct colours){
		.bold = "\033[1m", .name = "\033[36m", .good = "\033[32m", .bad = "\033[1;31m", .dim = "\033[2m", .off = "\033[0m"};
}

void options_label(const struct option_def *o, char *buf, size_t size)
{
	char letter[5] = "";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(buf, size, "%s--%s%s%s", letter, o->name, o->argument ? " " : "", o->argument ? o->argument : "");
}

const char *options_fallback(const struct option_def *o)
{
	const struct policy_key *key = o->policy_key && o->argument && !o->repeat ? policy_key_find(o->policy_key) : NULL;

	if (o->fallback)
		return o->fallback[0] ? o->fallback : NULL;
	return key ? key->fallback : NULL;
}

static void print_option(const struct option_def *o, const struct colours *c, int width, FILE *out)
{
	char label[LABEL_MAX];
	const char *fallback = options_fallback(o);

	options_label(o, label, sizeof(label));
	fprintf(out, "  %s%s%-*s%s  %s", o->letter ? "" : "    ", c->name, o->letter ? width : width - 4, label, c->off, o->help);
	if (fallback)
		fprintf(out, " %s(default %s)%s", c->dim, fallback, c->off);
	fputc('\n', out);
}

/* One line per form of the operands. */
static void print_usage(const struct command *command, const char *indent, FILE *out)
{
	const char *form = command->operands;

	for (;;) {
		size_t len = strcspn(form, "\n");

		fprintf(out, "%scordon %s [options]%s%.*s\n", indent, command->name, len ? " " : "", (int)len, form);
		if (!form[len])
			return;
		form += len + 1;
	}
}

void options_help(const struct command *command, FILE *out)
{
	struct colours c = colours_for(fileno(out));
	char label[LABEL_MAX];
	int width = 12;

	fprintf(out, "%scordon %s%s: %s\n\n", c.bold, command->name, c.off, command->summary);
	fprintf(out, "%sUsage%s\n", c.bold, c.off);
	print_usage(command, "  ", out);
	if (command->about)
		fprintf(out, "\n%s\n", command->about);
	for (const struct option_def *o = command->options; o && o->name; o++) {
		options_label(o, label, sizeof(label));
		width = MAX(width, (int)strlen(label) + (o->letter ? 0 : 4));
	}
	if (!command->options || !command->options->group)
		fprintf(out, "\n%sOptions%s\n", c.bold, c.off);
	for (const struct option_def *o = command->options; o && o->name; o++) {
		if (o->group)
			fprintf(out, "\n%s%s%s\n", c.bold, o->group, c.off);
		print_option(o, &c, width, out);
	}
	print_option(&help_option, &c, width, out);
	if (command->examples)
		fprintf(out, "\n%sExamples%s\n", c.bold, c.off);
	for (const struct example *e = command->examples; e && e->line; e++)
		fprintf(out, "  %s# %s%s\n  %s\n", c.dim, e->what, c.off, e->line);
}

/* "|" would end a cell. */
static void print_cell(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '|')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void markdown_row(const struct option_def *o, FILE *out)
{
	char label[LABEL_MAX];
	const char *fallback = options_fallback(o);

	options_label(o, label, sizeof(label));
	fputs("| `", out);
	print_cell(label, out);
	fputs("` | ", out);
	print_cell(o->help, out);
	if (fallback)
		fprintf(out, " (default: %s)", fallback);
	fputs(" |\n", out);
}

void options_markdown(const struct command *command, FILE *out)
{
	fprintf(out, "## cordon %s\n\n%s\n\n", command->name, command->summary);
	print_usage(command, "    ", out);
	if (command->about)
		fprintf(out, "\n%s\n", command->about);
	for (const struct option_def *o = command->options; o && o->name; o++) {
		if (o->group || o == command->options)
			fprintf(out, "\n### %s\n\n| option | meaning |\n|---|---|\n", o->group ? o->group : "Options");
		markdown_row(o, out);
	}
	if (!command->options)
		fputs("\n### Options\n\n| option | meaning |\n|---|---|\n", out);
	markdown_row(&help_option, out);
	fputc('\n', out);
	for (const struct example *e = command->examples; e && e->line; e++)
		fprintf(out, "%s:\n\n    %s\n\n", e->what, e->line);
}
