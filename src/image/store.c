/* SPDX-License-Identifier: Apache-2.0 */
/* The image store: its directories, its records, finding and holding an image. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/store_parts.h"
#include "layers/store_parts.h"

#define HEX "0123456789abcdef"
#define NEAREST_MAX 3

static const struct record_key image_keys[] = {
	{"name", RECORD_CHARS, offsetof(struct image, name), IMAGE_NAME_MAX + 1, NULL},
	{"id", RECORD_CHARS, offsetof(struct image, id), DIGEST_LEN + 1, NULL},
	{"layer", RECORD_LIST, offsetof(struct image, layers), 0, NULL},
	{"env", RECORD_LIST, offsetof(struct image, env), 0, NULL},
	{"cwd", RECORD_TEXT, offsetof(struct image, cwd), 0, NULL},
	{"user", RECORD_TEXT, offsetof(struct image, user), 0, NULL},
	{"arch", RECORD_TEXT, offsetof(struct image, arch), 0, NULL},
	{"source", RECORD_TEXT, offsetof(struct image, source), 0, NULL},
	{"preload", RECORD_LIST, offsetof(struct image, preload), 0, NULL},
	{"created", RECORD_I64, offsetof(struct image, created_ms), 0, NULL},
	{"bytes", RECORD_U64, offsetof(struct image, bytes), 0, NULL},
};
const struct record_kind image_record = {"image", image_keys, ARRAY_SIZE(image_keys)};

static const struct record_key layer_keys[] = {
	{"digest", RECORD_CHARS, offsetof(struct image_layer, digest), DIGEST_LEN + 1, NULL},
	{"bytes", RECORD_U64, offsetof(struct image_layer, bytes), 0, NULL},
	{"disk", RECORD_U64, offsetof(struct image_layer, disk), 0, NULL},
	{"files", RECORD_U64, offsetof(struct image_layer, files), 0, NULL},
	{"created", RECORD_I64, offsetof(struct image_layer, created_ms), 0, NULL},
};
const struct record_kind image_layer_record = {"layer", layer_keys, ARRAY_SIZE(layer_keys)};

void image_free(struct image *i)
{
	strlist_free(&i->layers);
	strlist_free(&i->env);
	strlist_free(&i->preload);
	free(i->cwd);
	free(i->user);
	free(i->arch);
	free(i->source);
	*i = (struct image){0};
}

/* ---- the directories ---------------------------------------------------------------------------------------------------------- */

static const char *const part_names[PART_COUNT] = {
	[PART_NAMES] = "names", [PART_IDS] = "ids", [PART_LAYERS] = "layers", [PART_TMP] = "tmp"};

/* What is mounted as a root file system must not be in other people's hands. */
static int check_private(int fd, const char *home, const char *name, struct cordon_error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_sys(err, "cannot examine %s/%s", home, name);
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	err_set(err, CORDON_ERR_DENIED, "%s/%s belongs to or can be written by somebody else", home, name);
	return err_hint(err, "if it is yours, chmod go-w it; or set CORDON_HOME to a directory of your own");
}

/* 1: it is not there, and make is not set. */
static int open_directory(int parent, const char *home, const char *name, bool make, int *out, struct cordon_error *err)
{
	bool made = make && mkdirat(parent, name, 0700) == 0;
	if (make && !made && errno != EEXIST) {
		err_sys(err, "cannot create %s/%s", home, name);
		return err_hint(err, "set CORDON_HOME to a directory that you can write to");
	}
	if (made && fchmodat(parent, name, 0700, 0) < 0) /* whatever the umask is */
		return err_sys(err, "cannot create %s/%s", home, name);
	_cleanup_fd_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && !make)
		return 1;
	if (fd < 0)
		return err_sys(err, "cannot open %s/%s", home, name);
	if (check_private(fd, home, name, err) < 0)
		return -1;
	*out = steal_fd(&fd);
	return 0;
}

static int open_parts(struct image_store *s, const char *home, bool make, struct cordon_error *err)
{
	char images[4096];
	snprintf(images, sizeof(images), "%s/images", home);
	for (int i = 0; i < PART_COUNT; i++) {
		int r = open_directory(s->dir, images, part_names[i], make, &s->parts[i], err);
		if (r != 0)
			return r;
	}
	return 0;
}

int image_store_open(struct image_store *s, const char *home, bool make, struct cordon_error *err)
{
	*s = (struct image_store){.dir = -1, .parts = {-1, -1, -1, -1}};
	if (strlen(home) > 4000)
		return err_set(err, CORDON_ERR_INPUT, "CORDON_HOME is too long");
	if (make && fs_mkdirs(AT_FDCWD, home, 0700, err) < 0)
		return err_hint(err, "set CORDON_HOME to a directory that you can write to");
	_cleanup_fd_ int home_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0 && errno == ENOENT && !make)
		return 1;
	if (home_fd < 0)
		return err_sys(err, "cannot open %s", home);
	int r = open_directory(home_fd, home, "images", make, &s->dir, err);
	if (r == 0)
		r = open_parts(s, home, make, err);
	if (r != 0)
		image_store_close(s);
	return r;
}

void image_store_close(struct image_store *s)
{
	for (int i = 0; i < PART_COUNT; i++)
		cleanup_fd(&s->parts[i]);
	cleanup_fd(&s->dir);
	*s = (struct image_store){.dir = -1, .parts = {-1, -1, -1, -1}};
}

int image_store_lock(const struct image_store *s, struct cordon_error *err)
{
	_cleanup_fd_ int fd = openat(s->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, "cannot open the lock of the images");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(err, "cannot lock the images");
	return steal_fd(&fd);
}

static int name_below(char *path, size_t size, const char *home, const char *part, const char *name)
{
	int n = snprintf(path, size, "%s/images/%s%s", home, part, name);
	if (n < 0 || (size_t)n >= size) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

int image_layers_dir(const char *home, char *path, size_t size)
{
	return name_below(path, size, home, "layers", "");
}

int image_name_file(const char *home, const char *name, char *path, size_t size)
{
	return name_below(path, size, home, "names/", name);
}

/* ---- names -------------------------------------------------------------------------------------------------------------------- */

#define NAME_FIRST "abcdefghijklmnopqrstuvwxyz0123456789"
#define NAME_REST NAME_FIRST "._-"
#define TAG_FIRST NAME_FIRST "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define TAG_REST TAG_FIRST ".-"

static bool name_valid(const char *name)
{
	size_t len = strlen(name), base = strspn(name, NAME_REST);
	if (len == 0 || len > IMAGE_NAME_MAX || !strchr(NAME_FIRST, name[0]))
		return false;
	if (base == len)
		return true;
	const char *tag = name + base + 1;
	return name[base] == ':' && *tag && strchr(TAG_FIRST, *tag) && tag[strspn(tag, TAG_REST)] == '\0';
}

int image_check_name(const char *name, struct cordon_error *err)
{
	if (strcmp(name, IMAGE_HOST) == 0 || strncmp(name, IMAGE_HOST ":", strlen(IMAGE_HOST ":")) == 0) {
		err_set(err, CORDON_ERR_INPUT, "'" IMAGE_HOST "' is the machine's own root and cannot be the name of an image");
		return err_hint(err, "give it another name");
	}
	if (name_valid(name))
		return 0;
	err_set(err, CORDON_ERR_INPUT, "'%.80s' cannot be the name of an image", name);
	return err_hint(err, "a-z and 0-9 first, then also . _ -, and a tag after a colon if you like: base, python:3.12");
}

bool image_digest_valid(const char *digest)
{
	return strlen(digest) == DIGEST_LEN && digest[strspn(digest, HEX)] == '\0';
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

static int check_image(const struct image *i, const char *name, struct cordon_error *err)
{
	bool digests = image_digest_valid(i->id) && i->layers.count > 0;
	for (size_t n = 0; n < i->layers.count; n++)
		digests = digests && image_digest_valid(i->layers.items[n]);
	if (!digests || strcmp(i->name, name) != 0)
		return err_set(err, CORDON_ERR_INPUT, "damaged: it is not the record of this image");
	return 0;
}

int image_load(const struct image_store *s, const char *name, struct image *out, struct cordon_error *err)
{
	struct cordon_error why = {0};
	*out = (struct image){0};
	int r = record_read(s->parts[PART_NAMES], name, &image_record, out, &why);
	if (r < 0 && why.code == CORDON_ERR_NOT_FOUND)
		return 1;
	if (r == 0)
		r = check_image(out, name, &why);
	snprintf(out->name, sizeof(out->name), "%s", name);
	if (r == 0)
		return 0;
	if (err)
		*err = why;
	return err_wrap(err, "image %s", name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct image_item *)a)->image.name, ((const struct image_item *)b)->image.name);
}

int image_load_all(const struct image_store *s, struct image_list *out, struct cordon_error *err)
{
	struct strlist names = {0};
	*out = (struct image_list){0};
	int r = store_list(s->parts[PART_NAMES], &names, err);
	if (r == 0 && names.count > 0) {
		out->items = calloc(names.count, sizeof(*out->items));
		if (!out->items)
			r = err_sys(err, "cannot list the images");
	}
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		struct image_item *item = &out->items[out->count];
		if (!name_valid(names.items[i])) /* temporary names */
			continue;
		int loaded = image_load(s, names.items[i], &item->image, NULL);
		item->damaged = loaded < 0;
		if (loaded <= 0)
			out->count++;
	}
	strlist_free(&names);
	if (out->count > 1)
		qsort(out->items, out->count, sizeof(*out->items), by_name);
	return r;
}

void image_list_free(struct image_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		image_free(&l->items[i].image);
	free(l->items);
	*l = (struct image_list){0};
}

int image_list(const char *home, struct image_list *out, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s;
	*out = (struct image_list){0};
	int r = image_store_open(&s, home, false, err);
	if (r == 0)
		r = image_load_all(&s, out, err);
	if (r < 0)
		image_list_free(out);
	return r < 0 ? -1 : 0;
}

int image_layer_load(const struct image_store *s, const char *digest, struct image_layer *out, struct cordon_error *err)
{
	*out = (struct image_layer){0};
	int r = record_load(s->parts[PART_LAYERS], digest, &image_layer_record, out, out->digest, err);
	out->staged = -1;
	return r;
}

int image_layer_read(const char *home, const char *digest, struct image_layer *out, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s;
	int r = image_digest_valid(digest) ? image_store_open(&s, home, false, err) : 1;
	if (r == 0)
		r = image_layer_load(&s, digest, out, err);
	return r > 0 ? err_set(err, CORDON_ERR_NOT_FOUND, "there is no layer %.12s", digest) : r;
}

/* ---- finding ------------------------------------------------------------------------------------------------------------------ */

static void hint_nearest(const struct image_list *all, const char *name, struct cordon_error *err)
{
	_cleanup_free_ const char **words = calloc(all->count + 1, sizeof(*words));
	char text[200] = "";
	size_t len = 0;
	for (size_t i = 0; words && i < all->count; i++)
		words[i] = all->items[i].image.name;
	for (int n = 0; words && n < NEAREST_MAX; n++) {
		const char *near = nearest_word(name, words, all->count);
		if (!near)
			break;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.60s", n ? ", " : "", near);
		for (size_t i = 0; i < all->count; i++)
			if (words[i] == near)
				words[i] = NULL;
	}
	if (len > 0)
		err_hint(err, "did you mean %s?", text);
	else if (all->count > 0)
		err_hint(err, "cordon image ls lists them");
	else
		err_hint(err, "there are none yet: cordon image import or cordon image build makes one");
}

static int not_found(const struct image_store *s, const char *name, struct cordon_error *err)
{
	struct image_list all = {0};
	err_set(err, CORDON_ERR_NOT_FOUND, "there is no image '%.127s'", name);
	if (s)
		image_load_all(s, &all, NULL);
	hint_nearest(&all, name, err);
	image_list_free(&all);
	return -1;
}

int image_find(const char *home, const char *name, struct image *out, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s;
	*out = (struct image){0};
	if (image_check_name(name, err) < 0)
		return -1;
	int r = image_store_open(&s, home, false, err);
	if (r == 0) {
		r = image_load(&s, name, out, err);
		if (r > 0)
			return not_found(&s, name, err);
		if (r < 0)
			image_free(out);
		return r;
	}
	return r < 0 ? -1 : not_found(NULL, name, err);
}

/* ---- holding ------------------------------------------------------------------------------------------------------------------ */

int image_open_id(const struct image_store *s, const char *id, int *out, struct cordon_error *err)
{
	int fd = openat(s->parts[PART_IDS], id, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0)
		return err_sys(err, "cannot open image %.12s", id);
	*out = fd;
	return 0;
}

static int lock_shared(int fd, struct stat *st)
{
	while (flock(fd, LOCK_SH) < 0)
		if (errno != EINTR)
			return -1;
	return fstat(fd, st);
}

int image_hold(const char *home, const struct image *i, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s;
	int r = image_digest_valid(i->id) ? image_store_open(&s, home, false, err) : 1;
	while (r == 0) {
		_cleanup_fd_ int fd = -1;
		struct stat st;
		r = image_open_id(&s, i->id, &fd, err);
		if (r == 0 && lock_shared(fd, &st) < 0)
			r = err_sys(err, "cannot hold image %s", i->name);
		else if (r == 0 && st.st_nlink > 0) /* else it was removed before we had it, and may have been made anew */
			return steal_fd(&fd);
	}
	return r > 0 ? err_set(err, CORDON_ERR_NOT_FOUND, "image '%.127s' was removed", i->name) : -1;
}

/* "3: FLOCK  ADVISORY  READ 1234 08:01:5678 0 EOF", see proc_locks(5). The device is not compared: btrfs and overlayfs tell others another one. */
static bool holds(const char *line, ino_t inode, pid_t *pid)
{
	char kind[16], mode[16], access[16];
	unsigned major, minor;
	unsigned long number, found;
	int owner;
	if (sscanf(line, "%lu: %15s %15s %15s %d %x:%x:%lu", &number, kind, mode, access, &owner, &major, &minor, &found) != 8)
		return false;
	*pid = owner;
	return strcmp(kind, "FLOCK") == 0 && strcmp(access, "READ") == 0 && found == (unsigned long)inode && owner > 0;
}

int image_holders(const char *home, const struct image *i, pid_t *out, size_t most, size_t *count, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s;
	_cleanup_fd_ int fd = -1;
	struct stat st;
	char line[256];
	*count = 0;
	int r = image_store_open(&s, home, false, err);
	if (r == 0)
		r = image_open_id(&s, i->id, &fd, err);
	if (r != 0)
		return r < 0 ? -1 : 0;
	FILE *locks = fopen("/proc/locks", "re");
	if (!locks)
		return err_sys(err, "cannot read /proc/locks");
	if (fstat(fd, &st) == 0)
		while (*count < most && fgets(line, sizeof(line), locks))
			*count += holds(line, st.st_ino, &out[*count]);
	fclose(locks);
	return 0;
}

/* ---- architectures ------------------------------------------------------------------------------------------------------------ */

const char *image_host_arch(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
	return "unknown";
#endif
}
