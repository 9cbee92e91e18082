/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as gzip: who wants that (RFC 9110, 12.5.3), for what it is worth it, and the making. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/util.h"
#include "server/http_parts.h"

#define WORTH_BYTES 1024
#define LEVEL 5
#define GZIP_WINDOW (15 + 16) /* 16: in gzip's form, see deflateInit2 */
#define PIECE ((size_t)16 << 10)

/* ---- who wants it -------------------------------------------------------------------------------------------------------------- */

static const char *skip_space(const char *s)
{
	return s + strspn(s, " \t");
}

/* "0.5" is 500. What is not a weight is none: 0. */
static int weight(const char *s, const char *end)
{
	int value = 0, scale = 1000;

	if (s == end || (*s != '0' && *s != '1'))
		return 0;
	value = (*s++ - '0') * 1000;
	if (s < end && *s == '.')
		for (s++; s < end && *s >= '0' && *s <= '9' && scale > 1; s++)
			value += (*s - '0') * (scale /= 10);
	while (s < end && (*s == ' ' || *s == '\t'))
		s++;
	return s == end && value <= 1000 ? value : 0;
}

/* The weight of one member, "gzip;q=0.5": 1000, unless it says something else. */
static int weight_of(const char *parameters, const char *end)
{
	const char *at = skip_space(parameters);

	if (at >= end)
		return 1000;
	if (*at != ';')
		return 0;
	at = skip_space(at + 1);
	if (end - at < 2 || (at[0] | 0x20) != 'q' || at[1] != '=')
		return 0;
	return weight(at + 2, end);
}

static void weigh(const char *list, int *gzip, int *identity, int *any)
{
	for (const char *at = list; *at;) {
		at = skip_space(at);
		const char *end = at + strcspn(at, ",");
		const size_t name = strcspn(at, ",; \t");
		const int w = weight_of(at + name, end);

		if ((name == 4 && strncasecmp(at, "gzip", 4) == 0) || (name == 6 && strncasecmp(at, "x-gzip", 6) == 0))
			*gzip = w;
		else if (name == 8 && strncasecmp(at, "identity", 8) == 0)
			*identity = w;
		else if (name == 1 && *at == '*')
			*any = w;
		at = *end ? end + 1 : end;
	}
}

bool gzip_accepted(const struct http_exchange *x)
{
	int gzip = -1, identity = -1, any = -1;

	for (size_t i = 0; i < x->request.header_count; i++)
		if (strcasecmp(x->headers[i].name, "accept-encoding") == 0)
			weigh(x->headers[i].value, &gzip, &identity, &any);
	if (gzip < 0)
		gzip = any;
	return gzip > 0 && gzip >= identity;
}

bool gzip_worth(const struct http_answer *a)
{
	static const char *const types[] = {
		"text/",           "application/json", "application/x-ndjson", "application/problem+json", "application/javascript",
		"application/xml", "application/yaml", "image/svg+xml",        "application/wasm",         "application/manifest+json"};

	if (a->plain || a->len <= WORTH_BYTES || !a->type || a->status == 204 || a->status == 206 || a->status == 304)
		return false;
	for (size_t i = 0; i < a->header_count; i++)
		if (strcasecmp(a->headers[i].name, "content-encoding") == 0)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strncasecmp(a->type, types[i], strlen(types[i])) == 0)
			return true;
	return false;
}

/* ---- the making ---------------------------------------------------------------------------------------------------------------- */

struct gzip {
	z_stream z;
};

struct gzip *gzip_new(void)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (g && deflateInit2(&g->z, LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) == Z_OK)
		return g;
	free(g);
	return NULL;
}

void gzip_free(struct gzip *g)
{
	if (!g)
		return;
	deflateEnd(&g->z);
	free(g);
}

/* What is not the last is flushed, so that who follows a stream sees each piece when it is written. */
static bool run(struct gzip *g, int flush, struct buf *out)
{
	char piece[PIECE];
	int result;

	do {
		g->z.next_out = (Bytef *)piece;
		g->z.avail_out = sizeof(piece);
		result = deflate(&g->z, flush);
		if (result == Z_STREAM_ERROR)
			return false;
		buf_add(out, piece, sizeof(piece) - g->z.avail_out);
	} while (!out->failed && (g->z.avail_out == 0 || g->z.avail_in > 0));
	return !out->failed && (flush != Z_FINISH || result == Z_STREAM_END);
}

bool gzip_add(struct gzip *g, const void *data, size_t len, bool last, struct buf *out)
{
	bool done = true;

	do { /* zlib counts in 32 bits */
		const size_t n = MIN(len, (size_t)1 << 30);
		g->z.next_in = (Bytef *)(uintptr_t)data;
		g->z.avail_in = (uInt)n;
		data = (const char *)data + n;
		len -= n;
		done = run(g, len ? Z_NO_FLUSH : last ? Z_FINISH : Z_SYNC_FLUSH, out);
	} while (done && len);
	if (last || !done)
		deflateReset(&g->z);
	return done;
}
