/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest as text, one step per line, paths encoded as in filemeta.h ("." is DIR itself):
 *
 *   cordon-commit 1
 *   stage BEFORE AFTER TOP          a stage and the times of the directory it is in; DIR's own comes first
 *   unlink PATH
 *   rmdir PATH
 *   tree PATH
 *   move STAGE NUMBER PATH
 *   meta PATH MODE UID GID MTIME ATTRS
 *   touch PATH MODE MTIME
 *   end CODE                        of everything above (HMAC-SHA256 with our key): what was cut off, damaged, or not written by us is never acted upon
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/util.h"
#include "layers/commit_parts.h"
#include "layers/filemeta.h"
#include "layers/view_parts.h"

#define HEADER "cordon-commit 1\n"

static const char *const step_names[STEP_OP_COUNT] = {
	[STEP_UNLINK] = "unlink", [STEP_RMDIR] = "rmdir", [STEP_TREE] = "tree",
	[STEP_MOVE] = "move",     [STEP_META] = "meta",   [STEP_TOUCH] = "touch",
};

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

static void code_of(const char *s, size_t len, const struct commit_key *key, char out[SHA256_HEX])
{
	unsigned char code[SHA256_SIZE];
	hmac_sha256(key->bytes, sizeof(key->bytes), s, len, code);
	sha256_hex(code, out);
}

static void add_path(struct buf *out, const char *path)
{
	if (*path)
		path_encode(out, path);
	else
		buf_add_str(out, ".");
}

void manifest_begin(struct buf *out, const struct stage_list *l)
{
	out->cap = MANIFEST_MAX;
	buf_add_str(out, HEADER);
	for (size_t i = 0; i < l->count; i++) {
		buf_addf(out, "stage %" PRId64 " %" PRId64 " ", l->items[i].before, l->items[i].after);
		add_path(out, l->items[i].top);
		buf_add_str(out, "\n");
	}
}

void manifest_step(struct buf *out, enum step_op op, const char *path)
{
	buf_addf(out, "%s ", step_names[op]);
	add_path(out, path);
	buf_add_str(out, "\n");
}

void manifest_move(struct buf *out, size_t stage, size_t number, const char *path)
{
	buf_addf(out, "%s %zu %zu ", step_names[STEP_MOVE], stage, number);
	add_path(out, path);
	buf_add_str(out, "\n");
}

void manifest_meta(struct buf *out, const char *path, const struct file_meta *meta)
{
	buf_addf(out, "%s ", step_names[STEP_META]);
	add_path(out, path);
	buf_add_str(out, " ");
	file_meta_format(out, meta);
	buf_add_str(out, "\n");
}

void manifest_touch(struct buf *out, const char *path, mode_t mode, int64_t mtime)
{
	buf_addf(out, "%s ", step_names[STEP_TOUCH]);
	add_path(out, path);
	buf_addf(out, " %o %" PRId64 "\n", (unsigned)mode & 07777, mtime);
}

void manifest_end(struct buf *out, const struct commit_key *key)
{
	char code[SHA256_HEX];
	if (out->failed)
		return;
	code_of(out->data, out->len, key, code);
	buf_addf(out, "end %s\n", code);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

void manifest_free(struct manifest *m)
{
	free(m->data);
	free(m->lines);
	stages_free(&m->stages);
	*m = (struct manifest){0};
}

static int damaged(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_INPUT, "damaged");
}

/* NULL unless it is "." (which gives "") or stays below DIR. */
static char *take_path(const char *text, size_t len)
{
	char *path = path_decode(text, len);
	if (path && strcmp(path, ".") == 0) {
		*path = '\0';
	} else if (path && !path_is_clean(path)) {
		free(path);
		path = NULL;
	}
	return path;
}

/* "BEFORE AFTER TOP" */
static int parse_stage(struct manifest *m, const char *text, struct cordon_error *err)
{
	int64_t before, after;
	int at = 0;
	if (sscanf(text, "%" SCNd64 " %" SCNd64 " %n", &before, &after, &at) != 2 || at == 0)
		return damaged(err);
	char *top = take_path(text + at, strlen(text + at));
	if (top && (m->stages.count == 0) != (*top == '\0')) { /* DIR's own is the first, and only that */
		free(top);
		top = NULL;
	}
	struct stage *s = stages_add(&m->stages, top, before);
	if (!s)
		return damaged(err);
	s->after = after;
	return 0;
}

/* Cuts the text into lines: the stages are taken in, the steps counted and left for manifest_get(). */
static int parse_lines(struct manifest *m, size_t len, struct cordon_error *err)
{
	size_t lines = 0;
	for (size_t i = 0; i < len; i++)
		lines += m->data[i] == '\n';
	m->lines = calloc(lines + 1, sizeof(*m->lines));
	if (!m->lines)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	for (char *line = m->data + strlen(HEADER), *end; line < m->data + len; line = end + 1) {
		end = strchr(line, '\n');
		*end = '\0';
		if (strncmp(line, "stage ", 6) != 0)
			m->lines[m->count++] = line;
		else if (parse_stage(m, line + 6, err) < 0)
			return -1;
	}
	return m->stages.count > 0 ? 0 : damaged(err);
}

/* The length without the last line, or 0 if that line does not vouch for the rest. */
static size_t checked_length(const char *data, size_t len, const struct commit_key *key)
{
	const size_t last = strlen("end ") + SHA256_HEX - 1 + 1;
	char code[SHA256_HEX], want[SHA256_HEX + 8];
	if (len < strlen(HEADER) + last || strncmp(data, HEADER, strlen(HEADER)) != 0 || strlen(data) != len)
		return 0;
	code_of(data, len - last, key, code);
	snprintf(want, sizeof(want), "end %s\n", code);
	return strcmp(data + len - last, want) == 0 && data[len - last - 1] == '\n' ? len - last : 0;
}

static int read_all(int fd, struct buf *out)
{
	out->cap = MANIFEST_MAX;
	for (;;) {
		char *room = buf_reserve(out, 65536);
		ssize_t n = room ? read(fd, room, 65536) : -1;
		if (!room)
			errno = EFBIG;
		if (n <= 0)
			return (int)n;
		out->len += (size_t)n;
	}
}

int manifest_load(int stage, const char *name, const struct commit_key *key, struct manifest *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	*out = (struct manifest){0};
	_cleanup_fd_ int fd = openat(stage, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || read_all(fd, &text) < 0)
		return err_sys(err, "cannot read %s", name);
	size_t len = text.data ? checked_length(text.data, text.len, key) : 0;
	out->data = buf_steal(&text);
	int r = len == 0 ? err_set(err, CORDON_ERR_DENIED, "not ours, or damaged") : parse_lines(out, len, err);
	return r < 0 ? err_wrap(err, "%s", name) : 0;
}

/* What follows the path of "meta" and "touch". */
static bool parse_rest(struct step *s, const char *rest)
{
	unsigned mode;
	int end = 0;
	if (s->op == STEP_META) {
		s->meta = rest;
		return *rest;
	}
	if (s->op != STEP_TOUCH)
		return !*rest;
	if (sscanf(rest, "%o %" SCNd64 "%n", &mode, &s->mtime, &end) != 2 || rest[end])
		return false;
	s->mode = mode & 07777;
	return true;
}

int manifest_get(const struct manifest *m, size_t i, struct step *out, struct cordon_error *err)
{
	const char *line = m->lines[i];
	size_t word = strcspn(line, " ");
	int at = 0;

	*out = (struct step){.op = STEP_OP_COUNT};
	for (int op = 0; op < STEP_OP_COUNT; op++)
		if (strlen(step_names[op]) == word && strncmp(line, step_names[op], word) == 0)
			out->op = (enum step_op)op;
	if (out->op == STEP_OP_COUNT || !line[word])
		return damaged(err);
	line += word + 1;
	if (out->op == STEP_MOVE) {
		if (sscanf(line, "%zu %zu %n", &out->stage, &out->number, &at) != 2 || at == 0 || out->stage >= m->stages.count)
			return damaged(err);
		line += at;
	}
	size_t len = strcspn(line, " ");
	out->path = take_path(line, len);
	if (out->path && (*out->path || out->op == STEP_TOUCH) && parse_rest(out, line[len] ? line + len + 1 : ""))
		return 0;
	free(out->path);
	out->path = NULL;
	return damaged(err);
}
