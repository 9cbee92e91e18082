/* SPDX-License-Identifier: Apache-2.0 */
#include "image/import.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"
#include "image/look.h"
#include "image/store_parts.h"
#include "image/unpack.h"

#define SPOOL_CHUNK ((size_t)1 << 20)

void image_imported_free(struct image_imported *i)
{
	image_free(&i->image);
	*i = (struct image_imported){0};
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

/* Letters that a name cannot have become one hyphen; what a name cannot begin or end with is left out. */
static int make_name(const char *from, size_t len, char out[IMAGE_NAME_MAX + 1])
{
	size_t n = 0;
	for (size_t i = 0; i < len && n < IMAGE_NAME_MAX; i++) {
		unsigned char c = (unsigned char)tolower((unsigned char)from[i]);
		bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		if (plain || (n > 0 && (c == '.' || c == '_')))
			out[n++] = (char)c;
		else if (n > 0 && out[n - 1] != '-')
			out[n++] = '-';
	}
	while (n > 0 && strchr("-._", out[n - 1]))
		n--;
	out[n] = '\0';
	return image_check_name(out, NULL);
}

int image_name_from_path(const char *path, char out[IMAGE_NAME_MAX + 1])
{
	static const char *const endings[] = {".gz", ".tgz", ".zst", ".tzst", ".xz", ".txz", ".bz2", ".tar", ".oci", ".docker"};
	size_t len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		len--;
	const char *slash = memrchr(path, '/', len), *base = slash ? slash + 1 : path;
	len -= (size_t)(base - path);
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) { /* .tar comes after what may be behind it */
		size_t ending = strlen(endings[i]);
		if (len > ending && strncasecmp(base + len - ending, endings[i], ending) == 0)
			len -= ending;
	}
	return make_name(base, len, out);
}

int image_name_from_tag(const char *tag, char out[IMAGE_NAME_MAX + 1])
{
	const char *slash = strrchr(tag, '/'), *base = slash ? slash + 1 : tag, *colon = strchr(base, ':');
	if (make_name(base, colon ? (size_t)(colon - base) : strlen(base), out) < 0)
		return -1;
	size_t len = strlen(out);
	if (colon && strcmp(colon + 1, "latest") != 0)
		snprintf(out + len, IMAGE_NAME_MAX + 1 - len, "%.*s", (int)(IMAGE_NAME_MAX - len), colon);
	return image_check_name(out, NULL);
}

static int choose_name(const struct image_import *what, const char *tag, char out[IMAGE_NAME_MAX + 1], struct cordon_error *err)
{
	if (what->name) {
		if (image_check_name(what->name, err) < 0)
			return -1;
		snprintf(out, IMAGE_NAME_MAX + 1, "%s", what->name);
		return 0;
	}
	if ((tag && image_name_from_tag(tag, out) == 0) || (what->source && image_name_from_path(what->source, out) == 0))
		return 0;
	err_set(err, CORDON_ERR_INPUT, "the image says no name that can be used");
	return err_hint(err, "give one: cordon image import SOURCE NAME");
}

static bool module_valid(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool first = i == 0 || name[i - 1] == '.', letter = isalpha((unsigned char)name[i]) || name[i] == '_';
		if (!letter && (first || !(isdigit((unsigned char)name[i]) || (name[i] == '.' && i + 1 < len))))
			return false;
	}
	return len > 0 && len <= 200;
}

int image_parse_preload(const char *text, struct strlist *out, struct cordon_error *err)
{
	while (*text) {
		char name[256];
		size_t skip = strspn(text, ", \t"), len = strcspn(text + skip, ", \t");
		text += skip;
		if (len == 0)
			break;
		if (!module_valid(text, len))
			return err_set(err, CORDON_ERR_INPUT, "'%.*s' is not the name of a Python module", (int)MIN(len, 80), text);
		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		if (!strlist_has(out, name) && strlist_add(out, name, err) < 0)
			return -1;
		text += len;
	}
	return 0;
}

/* ---- room --------------------------------------------------------------------------------------------------------------------- */

static uint64_t room_left(const struct image_staging *s)
{
	return s->room.quota > s->room.used ? s->room.quota - s->room.used : 0;
}

static int over_quota(const struct image_staging *s, struct cordon_error *err)
{
	char quota[32], used[32];
	err_set(err, CORDON_ERR_INPUT, "the quota of images is exceeded: %s for all, of which %s are taken",
	        units_format_size(s->room.quota, quota), s->room.used ? units_format_size(s->room.used, used) : "none");
	return err_hint(err, "remove some (cordon image rm), or raise it: --quota, or a size in $CORDON_HOME/images/quota");
}

/* A file that is gone with its last descriptor, however we end. */
static int open_spool(const struct image_staging *s, struct cordon_error *err)
{
	int fd = openat(s->dir, "spool", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || unlinkat(s->dir, "spool", 0) < 0) {
		cleanup_fd(&fd);
		return err_sys(err, "cannot make a file for what comes");
	}
	return fd;
}

int image_spool(struct image_staging *s, int from, image_progress *progress, void *arg, struct cordon_error *err)
{
	_cleanup_free_ char *chunk = malloc(SPOOL_CHUNK);
	_cleanup_fd_ int fd = chunk ? open_spool(s, err) : err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	uint64_t done = 0;
	while (fd >= 0) {
		ssize_t n = read(from, chunk, SPOOL_CHUNK);
		if (n == 0)
			return steal_fd(&fd);
		if (progress && !progress(arg, done, 0))
			return err_set(err, CORDON_ERR_INPUT, "interrupted");
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "cannot read the archive");
		done += (uint64_t)n;
		if (done > room_left(s))
			return over_quota(s, err);
		if (fs_write_full(fd, chunk, (size_t)n) < 0)
			return err_sys(err, "cannot write %s of the archive", "a copy");
	}
	return -1;
}

/* ---- reading and writing -------------------------------------------------------------------------------------------------------- */

static int write_archive(const struct image_staging *s, int archive, const struct image_import *what,
                         const struct image_write_limits *limits, struct image_write_result *out, struct cordon_error *err)
{
	_cleanup_fd_ int stream = -1;
	pid_t pid = -1;
	if (unpack_start(archive, limits->bytes, &stream, &pid, err) < 0)
		return -1;
	int r = image_write(stream, s->dir, limits, out, what->progress, what->arg, err);
	cleanup_fd(&stream);
	stream = -1;
	unpack_end(pid, r < 0 ? err : NULL);
	return r;
}

static int write_source(const struct image_staging *s, int source, const struct image_import *what, struct image_write_result *out,
                        struct cordon_error *err)
{
	const struct image_write_limits limits = {
		.bytes = room_left(s), .entries = IMAGE_ENTRIES_MAX, .file_bytes = IMAGE_FILE_MAX, .depth = IMAGE_DEPTH_MAX};
	struct stat st;
	if (limits.bytes == 0)
		return over_quota(s, err);
	if (fstat(source, &st) < 0)
		return err_sys(err, "cannot examine it");
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "it is neither a file nor a directory");
	if (S_ISDIR(st.st_mode) && !image_is_layout(source))
		return image_write_directory(source, s->dir, &limits, out, what->progress, what->arg, err);
	return write_archive(s, source, what, &limits, out, err);
}

/* ---- what has come ------------------------------------------------------------------------------------------------------------- */

/* Topmost first, as overlayfs wants them, and without those that nothing shows of. Returns how many. */
static size_t order_layers(const struct image_write_result *w, struct image_layer *out)
{
	size_t count = 0;
	for (size_t i = w->layer_count; i-- > 0;) {
		struct image_layer *l = &out[count++];
		*l = (struct image_layer){.bytes = w->layers[i].bytes, .files = w->layers[i].entries, .staged = (int)i};
		memcpy(l->digest, w->layers[i].digest, sizeof(l->digest));
		if (w->layers[i].hides_lower)
			break;
	}
	return count;
}

static int view_staged(const struct image_staging *s, const struct image_layer *layers, size_t count, struct view *out,
                       struct cordon_error *err)
{
	_cleanup_free_ int *fds = calloc(count + 1, sizeof(*fds));
	size_t opened = 0;
	int r = fds ? 0 : err_sys(err, "cannot look into the image");
	for (; r == 0 && opened < count; opened++) {
		char path[32];
		snprintf(path, sizeof(path), "%d/" IMAGE_TREE, layers[opened].staged);
		fds[opened] = openat(s->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fds[opened] < 0) {
			r = err_sys(err, "cannot look into the image");
			break;
		}
	}
	if (r == 0)
		r = view_from(fds, opened, false, out, err);
	while (fds && opened > 0)
		close(fds[--opened]);
	return r;
}

static int check_arch(const char *arch, const char *os, struct cordon_error *err)
{
	if (os && *os && strcmp(os, "linux") != 0)
		return err_set(err, CORDON_ERR_INPUT, "the image is for %.40s, and cordon runs images for linux", os);
	if (!arch || strcmp(arch, image_host_arch()) == 0)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "the image is for %.40s, and this machine is %s", arch, image_host_arch());
	return err_hint(err, "get the one for %s: docker pull --platform linux/%s, say", image_host_arch(), image_host_arch());
}

static int copy_text(char **to, const char *from, struct cordon_error *err)
{
	*to = from && *from ? strdup(from) : NULL;
	return from && *from && !*to ? err_sys(err, "cannot describe the image") : 0;
}

static int describe(const struct image_import *what, const struct image_write_result *w, const char *arch, struct image *out,
                    struct cordon_error *err)
{
	const struct image *d = what->described;
	if (copy_text(&out->arch, arch, err) < 0 || copy_text(&out->source, what->source, err) < 0 ||
	    copy_text(&out->cwd, d ? d->cwd : w->cwd, err) < 0 || copy_text(&out->user, d ? d->user : w->user, err) < 0 ||
	    strlist_copy(&out->env, d ? &d->env : &w->env, err) < 0)
		return -1;
	return what->preload ? strlist_copy(&out->preload, what->preload, err) : 0;
}

static int examine(const struct image_staging *s, const struct image_import *what, const struct image_write_result *w,
                   const struct image_layer *layers, size_t count, struct image_imported *out, struct cordon_error *err)
{
	_cleanup_view_ struct view v = {0};
	struct image_traits traits = {0};
	struct cordon_error why = {0}; /* a directory may be closed even to its owner, if that is no root: then nothing in it counts */
	uint64_t files = 0;
	for (size_t i = 0; i < count; i++)
		files += layers[i].files;
	if (files == 0)
		return err_set(err, CORDON_ERR_INPUT, "there is no file in it");
	if ((view_staged(s, layers, count, &v, &why) < 0 || image_traits(&v, &traits, &why) < 0) && why.sys_errno != EACCES) {
		if (err)
			*err = why;
		return -1;
	}
	const char *arch = traits.arch ? traits.arch : w->arch && *w->arch ? w->arch : NULL; /* programs know better than papers */
	out->shell = traits.shell;
	return check_arch(arch, w->os, err) < 0 ? -1 : describe(what, w, arch, &out->image, err);
}

/* Before the work, where it can be known; image_add() looks again. */
static int check_name_is_free(const struct image_staging *s, const struct image_import *what, struct cordon_error *err)
{
	_cleanup_image_ struct image old = {0};
	if (!what->name)
		return 0;
	if (image_check_name(what->name, err) < 0)
		return -1;
	if (what->replace || image_find(s->home, what->name, &old, NULL) < 0)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "image '%s' exists", what->name);
	return err_hint(err, "give another name, or --force to replace it");
}

int image_import(struct image_staging *s, int source, const struct image_import *what, struct image_imported *out, struct cordon_error *err)
{
	_cleanup_write_result_ struct image_write_result w = {0};
	*out = (struct image_imported){0};
	if (check_name_is_free(s, what, err) < 0 || write_source(s, source, what, &w, err) < 0)
		return -1;
	_cleanup_free_ struct image_layer *layers = calloc(w.layer_count + 1, sizeof(*layers));
	if (!layers)
		return err_sys(err, "cannot add the image");
	size_t count = order_layers(&w, layers);
	out->kind = w.kind;
	out->neutralised = w.neutralised;
	if (choose_name(what, w.tag, out->image.name, err) == 0 && examine(s, what, &w, layers, count, out, err) == 0 &&
	    image_add(s, &out->image, layers, count, what->replace, &out->added, err) == 0)
		return 0;
	image_imported_free(out);
	return -1;
}
