/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strtod() and strtoull() are not used: they take blanks, signs, "nan", "0x10" and "1e3", and the former obeys the caller's locale.
 * The arithmetic is in integers, so that a value that is printed and read again is the same value.
 */
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define SIZE_LIMIT ((uint64_t)1 << 50)
#define DURATION_LIMIT ((uint64_t)365 * 24 * 3600 * 1000)
#define FRACTION_SCALE ((uint64_t)1000000000) /* digits past the ninth are read and dropped */
#define FORMAT_SIZE 32

struct decimal {
	uint64_t whole;
	uint64_t fraction; /* in 1/FRACTION_SCALE */
	bool has_fraction;
	bool overflow;
	const char *suffix; /* what follows the number */
};

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"min", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000},
};

/* errno tells a malformed value (EINVAL) from one outside the range (ERANGE), for callers that word the message themselves. */
static int refuse(struct cordon_error *err, int why, const char *text, const char *noun, const char *form)
{
	if (why == ERANGE)
		err_set(err, CORDON_ERR_INPUT, "'%.60s' is out of range (%s)", text, form);
	else
		err_set(err, CORDON_ERR_INPUT, "'%.60s' is not %s (%s)", text, noun, form);
	errno = why;
	return -1;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits, optionally a point and more digits; false if there are none. */
static bool parse_decimal(const char *text, struct decimal *d)
{
	uint64_t place = FRACTION_SCALE / 10;

	*d = (struct decimal){0};
	if (!is_digit(*text))
		return false;
	for (; is_digit(*text); text++) {
		uint64_t digit = (uint64_t)(*text - '0');

		if (d->whole > (UINT64_MAX - digit) / 10)
			d->overflow = true;
		else
			d->whole = d->whole * 10 + digit;
	}
	if (*text == '.') {
		d->has_fraction = true;
		if (!is_digit(*++text))
			return false;
		for (; is_digit(*text); text++, place /= 10)
			d->fraction += (uint64_t)(*text - '0') * place;
	}
	d->suffix = text;
	return true;
}

/* The number times factor, rounded down (a limit never gets wider than it was written); an errno value if it is outside [min, max]. */
static int scale(const struct decimal *d, uint64_t factor, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t part;

	if (factor == 1 && d->has_fraction)
		return EINVAL; /* half a byte */
	if (d->overflow || d->whole > max / factor)
		return ERANGE;
	/* factor * fraction / FRACTION_SCALE, split in two because the product may not fit */
	part = factor / FRACTION_SCALE * d->fraction + factor % FRACTION_SCALE * d->fraction / FRACTION_SCALE;
	if (part > max - d->whole * factor || d->whole * factor + part < min)
		return ERANGE;
	*out = d->whole * factor + part;
	return 0;
}

/* 0 if there is no such unit. */
static uint64_t size_factor(const char *suffix)
{
	static const char letters[] = "KMGTPkmgtp";
	static const char *const endings[] = {"", "B", "b", "iB", "ib", "IB"};
	const char *letter;

	if (!*suffix || !strcmp(suffix, "B") || !strcmp(suffix, "b"))
		return 1;
	letter = strchr(letters, *suffix);
	for (size_t i = 0; letter && i < ARRAY_SIZE(endings); i++)
		if (!strcmp(suffix + 1, endings[i]))
			return (uint64_t)1 << (10 * ((letter - letters) % 5 + 1));
	return 0;
}

static uint64_t duration_factor(const char *suffix)
{
	for (size_t i = 0; i < ARRAY_SIZE(duration_units); i++)
		if (!strcmp(suffix, duration_units[i].name))
			return duration_units[i].factor;
	return 0;
}

int units_parse_size(const char *text, uint64_t *bytes, struct cordon_error *err)
{
	struct decimal d;
	uint64_t factor;
	int why = EINVAL;

	text = text ? text : "";
	if (parse_decimal(text, &d) && (factor = size_factor(d.suffix)) > 0)
		why = scale(&d, factor, 1, SIZE_LIMIT, bytes);
	if (why == 0)
		return 0;
	return refuse(err, why, text, "a size", "write a number with B, K, M, G or T, such as 512M; 1B to 1P");
}

int units_parse_duration(const char *text, uint64_t *ms, struct cordon_error *err)
{
	struct decimal d;
	uint64_t factor;
	int why = EINVAL;

	text = text ? text : "";
	if (parse_decimal(text, &d) && (factor = duration_factor(d.suffix)) > 0)
		why = scale(&d, factor, 1, DURATION_LIMIT, ms);
	if (why == 0)
		return 0;
	return refuse(err, why, text, "a duration", "write a number with ms, s, m, h or d, such as 60s; 1ms to 365d");
}

int units_parse_cpus(const char *text, uint64_t *milli, struct cordon_error *err)
{
	struct decimal d;
	int why = EINVAL;

	text = text ? text : "";
	if (parse_decimal(text, &d) && !*d.suffix)
		why = scale(&d, 1000, 10, 1024 * 1000, milli);
	if (why == 0)
		return 0;
	return refuse(err, why, text, "a number of CPUs", "write a decimal number, such as 1 or 0.5; 0.01 to 1024");
}

int units_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *n, struct cordon_error *err)
{
	struct decimal d;
	int why = EINVAL;
	char form[96];

	text = text ? text : "";
	if (parse_decimal(text, &d) && !*d.suffix)
		why = scale(&d, 1, min, max, n);
	if (why == 0)
		return 0;
	snprintf(form, sizeof(form), "write digits only; %" PRIu64 " to %" PRIu64, min, max);
	return refuse(err, why, text, "a whole number", form);
}

/* "1", "1.5", "1.25": no trailing zeros. */
static void format_thousandths(char *buf, uint64_t whole, unsigned thousandths, const char *unit)
{
	if (thousandths == 0)
		snprintf(buf, FORMAT_SIZE, "%" PRIu64 "%s", whole, unit);
	else if (thousandths % 100 == 0)
		snprintf(buf, FORMAT_SIZE, "%" PRIu64 ".%u%s", whole, thousandths / 100, unit);
	else if (thousandths % 10 == 0)
		snprintf(buf, FORMAT_SIZE, "%" PRIu64 ".%02u%s", whole, thousandths / 10, unit);
	else
		snprintf(buf, FORMAT_SIZE, "%" PRIu64 ".%03u%s", whole, thousandths, unit);
}

const char *units_format_size(uint64_t bytes, char *buf)
{
	static const char *const names[] = {"B", "K", "M", "G", "T", "P"};
	char candidate[FORMAT_SIZE];

	format_thousandths(buf, bytes, 0, names[0]);
	for (unsigned i = 1; i < ARRAY_SIZE(names); i++) {
		uint64_t factor = (uint64_t)1 << (10 * i);
		uint64_t thousandths = bytes % factor * 1000; /* below 2^60 */

		if (bytes < factor || thousandths % factor != 0)
			continue;
		format_thousandths(candidate, bytes / factor, (unsigned)(thousandths / factor), names[i]);
		if (strlen(candidate) <= strlen(buf))
			snprintf(buf, FORMAT_SIZE, "%s", candidate);
	}
	return buf;
}

/* As people say it: a larger unit only for a whole number of at least two, so 60s and 90s but 2m, 24h but 2d. */
const char *units_format_duration(uint64_t ms, char *buf)
{
	static const struct unit larger[] = {{"d", 24 * 3600 * 1000}, {"h", 3600 * 1000}, {"m", 60 * 1000}};

	for (size_t i = 0; i < ARRAY_SIZE(larger); i++) {
		uint64_t factor = larger[i].factor;

		if (ms % factor == 0 && ms / factor >= 2) {
			format_thousandths(buf, ms / factor, 0, larger[i].name);
			return buf;
		}
	}
	if (ms < 1000)
		format_thousandths(buf, ms, 0, "ms");
	else
		format_thousandths(buf, ms / 1000, (unsigned)(ms % 1000), "s");
	return buf;
}
