/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"

/* ---- numbers ------------------------------------------------------------------------------------------------------------------ */

/* Thousandths, without zeros at the end. */
static void format_cpus(uint64_t milli, char buf[VALUE_TEXT_MAX])
{
	size_t len;

	snprintf(buf, VALUE_TEXT_MAX, "%" PRIu64 ".%03" PRIu64, milli / 1000, milli % 1000);
	len = strlen(buf);
	while (buf[len - 1] == '0')
		len--;
	buf[buf[len - 1] == '.' ? len - 1 : len] = '\0';
}

const char *value_format_number(const struct policy_key *key, uint64_t n, char buf[VALUE_TEXT_MAX])
{
	if (n == 0 && key->words)
		snprintf(buf, VALUE_TEXT_MAX, "%s", key->words[0]);
	else if (key->type == POLICY_SIZE)
		units_format_size(n, buf);
	else if (key->type == POLICY_DURATION)
		units_format_duration(n, buf);
	else if (key->type == POLICY_CPUS)
		format_cpus(n, buf);
	else
		snprintf(buf, VALUE_TEXT_MAX, "%" PRIu64, n);
	return buf;
}

static int parse_number(const struct policy_key *key, const char *text, uint64_t *n)
{
	if (key->type == POLICY_SIZE)
		return units_parse_size(text, n, NULL);
	if (key->type == POLICY_DURATION)
		return units_parse_duration(text, n, NULL);
	if (key->type == POLICY_CPUS)
		return units_parse_cpus(text, n, NULL);
	return units_parse_count(text, key->min, key->max, n, NULL);
}

/* The text of units_parse_*() would name the widest range; here it is the range of this key. */
int value_parse_number(const struct policy_key *key, const char *text, uint64_t *out, struct cordon_error *err)
{
	static const struct {
		const char *noun, *form;
	} words[] = {
		[POLICY_SIZE] = {"a size", "write a number with B, K, M, G or T, such as 512M"},
		[POLICY_DURATION] = {"a duration", "write a number with ms, s, m, h or d, such as 60s"},
		[POLICY_CPUS] = {"a number of CPUs", "write a decimal number, such as 1 or 0.5"},
		[POLICY_COUNT] = {"a whole number", "write digits only"},
	};
	char min[VALUE_TEXT_MAX], max[VALUE_TEXT_MAX];
	uint64_t n = 0;
	bool malformed;

	if (key->words && !strcmp(text, key->words[0])) {
		*out = 0;
		return 0;
	}
	malformed = parse_number(key, text, &n) < 0 && errno != ERANGE;
	if (!malformed && n >= key->min && n <= key->max) { /* n stays 0, below every minimum, when it was out of range */
		*out = n;
		return 0;
	}
	value_format_number(key, key->min, min);
	value_format_number(key, key->max, max);
	return err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' is %s%s (%s; %s to %s%s%s)", key->name, text,
	               malformed ? "not " : "out of range", malformed ? words[key->type].noun : "", words[key->type].form, min, max,
	               key->words ? "; or " : "", key->words ? key->words[0] : "");
}

int value_parse_bool(const struct policy_key *key, const char *text, bool *out, struct cordon_error *err)
{
	bool yes = !strcmp(text, "true");

	if (!yes && strcmp(text, "false") != 0)
		return err_set(err, CORDON_ERR_INPUT, "%s: '%.60s' is neither true nor false", key->name, text);
	*out = yes;
	return 0;
}

/* ---- words -------------------------------------------------------------------------------------------------------------------- */

size_t value_word_count(const char *const *words)
{
	size_t count = 0;

	while (words[count])
		count++;
	return count;
}

void value_join_words(const char *const *words, size_t count, struct buf *out)
{
	for (size_t i = 0; i < count; i++)
		buf_addf(out, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", words[i]);
}

int value_parse_word(const char *const *words, const char *text, unsigned *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf all = {0};
	const char *near;
	unsigned count = 0;

	for (; words[count]; count++) {
		if (!strcmp(text, words[count])) {
			*out = count; /* what an enum without negative values is */
			return 0;
		}
	}
	value_join_words(words, count, &all);
	err_set(err, CORDON_ERR_INPUT, "'%.60s' is not known (write %s)", text, all.data ? all.data : "");
	near = nearest_word(text, words, count);
	return near ? err_hint(err, "did you mean '%s'?", near) : -1;
}

/* ---- exit statuses ------------------------------------------------------------------------------------------------------------ */

static bool parse_status(const char *text, size_t len, uint64_t *status)
{
	char digits[4];

	if (len == 0 || len >= sizeof(digits))
		return false;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return units_parse_count(digits, 0, 255, status, NULL) == 0;
}

/* Adds one or several with commas between them: all or none. */
int value_parse_statuses(const struct policy_key *key, const char *text, uint8_t out[32], size_t *last, struct cordon_error *err)
{
	uint8_t more[32];

	memcpy(more, out, sizeof(more));
	for (const char *s = text;; s++) {
		uint64_t status;
		size_t len;

		s += s > text ? strspn(s, " ") : 0;
		len = strcspn(s, ",");
		if (!parse_status(s, len, &status))
			return err_set(err, CORDON_ERR_INPUT, "%s: '%.*s' is not an exit status (write 0 to 255, several as 0,1)",
			               key->name, (int)MIN(len, (size_t)60), s);
		more[status / 8] |= (uint8_t)(1u << status % 8);
		*last = (size_t)status;
		s += len;
		if (!*s)
			break;
	}
	memcpy(out, more, sizeof(more));
	return 0;
}
