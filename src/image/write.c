/* SPDX-License-Identifier: Apache-2.0 */
#include "image/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "image/layer.h"
#include "image/writing.h"

/* ---- what comes out of it ----------------------------------------------------------------------------------------------------- */

void image_write_result_free(struct image_write_result *r)
{
	free(r->layers);
	free(r->arch);
	free(r->os);
	free(r->user);
	free(r->cwd);
	free(r->tag);
	strlist_free(&r->env);
	*r = (struct image_write_result){0};
}

int writing_add_layer(struct image_write_result *r, const struct written_layer *l, struct cordon_error *err)
{
	struct written_layer *more = realloc(r->layers, (r->layer_count + 1) * sizeof(*more));
	if (!more)
		return err_sys(err, "cannot remember the layers");
	r->layers = more;
	r->layers[r->layer_count++] = *l;
	return 0;
}

bool image_is_layout(int dir)
{
	static const char *const files[] = {"oci-layout", "index.json"};
	struct stat st;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (fstatat(dir, files[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			return false;
	return true;
}

/* ---- the stream --------------------------------------------------------------------------------------------------------------- */

enum state { AT_START, BETWEEN, IN_LAYER, IN_FILE, AT_END, STATE_COUNT };

struct writing {
	enum state state;
	int staging;
	uint32_t layers; /* as many as were announced */
	struct new_layer layer;
	struct new_layer_totals totals;
	struct image_write_result *out;
	image_progress *progress;
	void *arg;
};

static int copy_text(char **to, const char *from, struct cordon_error *err)
{
	if (!from || !*from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : err_sys(err, "cannot remember the image's configuration");
}

static bool is_assignment(const char *s)
{
	const char *equals = strchr(s, '=');
	return equals && equals != s;
}

static int nonsense(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "the reader of the archive says what makes no sense");
}

static int on_begin(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	struct stream_begin b;
	if (stream_get_begin(body, len, &b) < 0)
		return nonsense(err);
	struct image_write_result *r = w->out;
	r->kind = b.kind;
	w->layers = b.layers;
	w->state = BETWEEN;
	int failed = copy_text(&r->arch, b.arch, err) < 0 || copy_text(&r->os, b.os, err) < 0 || copy_text(&r->user, b.user, err) < 0 ||
	             copy_text(&r->cwd, b.cwd, err) < 0 || copy_text(&r->tag, b.tag, err) < 0;
	for (uint32_t i = 0; !failed && i < b.env_count; i++)
		failed = is_assignment(b.env[i]) && strlist_add(&r->env, b.env[i], err) < 0;
	free(b.env);
	return failed ? -1 : 0;
}

static int on_layer(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	struct stream_layer l;
	if (stream_get_layer(body, len, &l) < 0 || w->out->layer_count >= w->layers)
		return nonsense(err);
	w->state = IN_LAYER;
	return new_layer_begin(&w->layer, &w->totals, w->staging, (unsigned)w->out->layer_count, err);
}

static int on_entry(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	struct stream_entry e;
	if (stream_get_entry(body, len, &e) < 0)
		return nonsense(err);
	const int r = new_layer_entry(&w->layer, &e, err);
	w->state = new_layer_wants_data(&w->layer) ? IN_FILE : IN_LAYER;
	return r;
}

static int on_data(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	const int r = new_layer_data(&w->layer, body, len, err);
	w->state = new_layer_wants_data(&w->layer) ? IN_FILE : IN_LAYER;
	return r;
}

static int on_hole(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	uint64_t hole;
	if (stream_get_u64(body, len, &hole) < 0)
		return nonsense(err);
	const int r = new_layer_hole(&w->layer, hole, err);
	w->state = new_layer_wants_data(&w->layer) ? IN_FILE : IN_LAYER;
	return r;
}

static int on_layer_end(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	struct written_layer done;
	struct stream_layer l;
	if (stream_get_layer(body, len, &l) < 0)
		return nonsense(err);
	if (new_layer_end(&w->layer, &done, err) < 0)
		return -1;
	memcpy(done.diff_id, l.digest, strlen(l.digest) + 1);
	new_layer_free(&w->layer);
	w->state = BETWEEN;
	return writing_add_layer(w->out, &done, err);
}

static int on_end(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	if (len != 0 || w->out->layer_count != w->layers)
		return nonsense(err);
	if (w->layers == 0)
		return err_set(err, CORDON_ERR_INPUT, "the image is empty: it has no layers");
	w->state = AT_END;
	return 0;
}

static int on_error(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	stream_get_error(body, len, err);
	return -1;
}

static int on_progress(struct writing *w, const char *body, size_t len, struct cordon_error *err)
{
	struct stream_progress p;
	if (stream_get_progress(body, len, &p) < 0)
		return nonsense(err);
	return !w->progress || w->progress(w->arg, p.done, p.total) ? 0 : err_set(err, CORDON_ERR_SYSTEM, "interrupted");
}

#define IN(state) (1u << (state))

/* What may come when, and what is done then. */
static const struct {
	unsigned when;
	int (*take)(struct writing *, const char *, size_t, struct cordon_error *);
} messages[STREAM_KIND_COUNT] = {
	[STREAM_BEGIN] = {IN(AT_START), on_begin},
	[STREAM_LAYER] = {IN(BETWEEN), on_layer},
	[STREAM_ENTRY] = {IN(IN_LAYER), on_entry},
	[STREAM_DATA] = {IN(IN_FILE), on_data},
	[STREAM_HOLE] = {IN(IN_FILE), on_hole},
	[STREAM_LAYER_END] = {IN(IN_LAYER), on_layer_end},
	[STREAM_END] = {IN(BETWEEN), on_end},
	[STREAM_ERROR] = {IN(AT_START) | IN(BETWEEN) | IN(IN_LAYER) | IN(IN_FILE), on_error},
	[STREAM_PROGRESS] = {IN(BETWEEN) | IN(IN_LAYER) | IN(IN_FILE), on_progress},
};

static int write_all(struct writing *w, int stream, struct cordon_error *err)
{
	_cleanup_free_ char *body = malloc(STREAM_BODY_MAX);
	struct stream_header header;
	if (!body)
		return err_sys(err, "cannot read the image");
	while (w->state != AT_END) {
		const int r = stream_receive(stream, &header, body, err);
		if (r < 0)
			return -1;
		if (r == 0)
			return err_set(err, CORDON_ERR_SYSTEM, "the reader of the archive ended without a word");
		if (!(messages[header.kind].when & IN(w->state)))
			return nonsense(err);
		if (messages[header.kind].take(w, body, header.len, err) < 0)
			return -1;
	}
	return 0;
}

int image_write(int stream, int staging, const struct image_write_limits *limits, struct image_write_result *out, image_progress *progress,
                void *arg, struct cordon_error *err)
{
	struct writing w = {.staging = staging, .totals.limits = limits, .out = out, .progress = progress, .arg = arg};
	*out = (struct image_write_result){0};
	w.layer = (struct new_layer){.tree = -1, .parent = -1, .file = -1};
	const int r = write_all(&w, stream, err);
	out->neutralised = w.totals.neutralised;
	new_layer_free(&w.layer);
	if (r < 0)
		image_write_result_free(out);
	return r;
}
