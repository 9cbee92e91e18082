/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/outer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/util.h"

#define LINKS_MAX 8
#define DIGEST_HEX 64

void outer_free(struct outer *o)
{
	for (size_t i = 0; i < o->count; i++) {
		free(o->members[i].name);
		free(o->members[i].link);
		free(o->members[i].text);
		cleanup_fd(&o->members[i].fd);
	}
	free(o->members);
	o->members = NULL;
	o->count = o->room = 0;
}

char *name_clean(const char *name)
{
	char *out = malloc(strlen(name) + 1);
	size_t used = 0, len;
	for (const char *p = name; out && *p; p += len + (p[len] == '/')) {
		len = strcspn(p, "/");
		if (len == 0 || (len == 1 && p[0] == '.'))
			continue;
		if (len == 2 && p[0] == '.' && p[1] == '.') {
			if (used == 0) {
				free(out);
				return NULL;
			}
			while (used > 0 && out[used - 1] != '/')
				used--;
			used -= used > 0;
			continue;
		}
		if (used)
			out[used++] = '/';
		memcpy(out + used, p, len);
		used += len;
	}
	if (out && used == 0) {
		free(out);
		return NULL;
	}
	if (out)
		out[used] = '\0';
	return out;
}

static struct member *add_member(struct outer *o, char *name, struct cordon_error *err)
{
	if (o->count == o->room) {
		const size_t room = o->room ? 2 * o->room : 64;
		struct member *more = realloc(o->members, room * sizeof(*more));
		if (!more) {
			free(name);
			err_sys(err, "cannot remember what is in the archive");
			return NULL;
		}
		o->members = more;
		o->room = room;
	}
	struct member *m = &o->members[o->count++];
	*m = (struct member){.name = name, .fd = -1};
	return m;
}

/* ---- a directory -------------------------------------------------------------------------------------------------------------- */

/* A regular file: nothing else is opened, since a device or a FIFO would notice. */
static int open_regular(int dir, const char *name, uint64_t *size)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return -1;
	_cleanup_fd_ int fd = fs_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, FS_BENEATH);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	*size = (uint64_t)st.st_size;
	return steal_fd(&fd);
}

static int add_file(struct outer *o, int dir, const char *prefix, const char *name, struct cordon_error *err)
{
	char path[80];
	uint64_t size;
	const int fd = open_regular(dir, name, &size);
	if (fd < 0 && errno == EMFILE)
		return err_sys(err, "the layout has more files than can be open");
	if (fd < 0)
		return 0; /* whoever needs it will miss it */
	snprintf(path, sizeof(path), "%s%s", prefix, name);
	char *copy = strdup(path);
	struct member *m = copy ? add_member(o, copy, err) : NULL;
	if (!m) {
		close(fd);
		return -1;
	}
	m->fd = fd;
	m->size = size;
	return 0;
}

static bool is_hex(const char *s, size_t len)
{
	return strspn(s, "0123456789abcdef") >= len;
}

static void want_descriptors(void)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = MIN(l.rlim_max, (rlim_t)BLOBS_MAX + 64);
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

int outer_open_layout(struct outer *o, int dir, struct cordon_error *err)
{
	want_descriptors();
	if (add_file(o, dir, "", "oci-layout", err) < 0 || add_file(o, dir, "", "index.json", err) < 0)
		return -1;
	int blobs = fs_open(dir, "blobs/sha256", O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
	_cleanup_dir_ DIR *d = blobs < 0 ? NULL : fdopendir(blobs);
	if (!d) {
		cleanup_fd(&blobs);
		return err_set(err, CORDON_ERR_INPUT, "the directory is no OCI layout: it has no blobs/sha256");
	}
	for (struct dirent *e; (e = readdir(d));) {
		if (strlen(e->d_name) != DIGEST_HEX || !is_hex(e->d_name, DIGEST_HEX))
			continue;
		if (o->count > BLOBS_MAX)
			return err_set(err, CORDON_ERR_INPUT, "the OCI layout has more than %d blobs", BLOBS_MAX);
		if (add_file(o, dirfd(d), "blobs/sha256/", e->d_name, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- a tar archive ------------------------------------------------------------------------------------------------------------ */

/* Names that archives of layers have: of Docker, podman, skopeo, buildkit, and of what makes images without any of them. */
static bool is_familiar(const char *name)
{
	static const char *const files[] = {"manifest.json", "index.json", "oci-layout", "repositories", "blobs"};
	static const char *const inside[] = {"", "/layer.tar", "/json", "/VERSION", ".json", ".tar", ".tar.gz", ".tgz", ".tar.zst"};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (strcmp(name, files[i]) == 0)
			return true;
	if (strncmp(name, "blobs/", 6) == 0)
		return true;
	const char *id = strncmp(name, "sha256:", 7) == 0 ? name + 7 : name;
	if (!is_hex(id, DIGEST_HEX))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(inside); i++)
		if (strcmp(id + DIGEST_HEX, inside[i]) == 0)
			return true;
	return false;
}

/* What a symbolic link in the archive leads to, by its name. */
static char *link_target(const char *name, const char *target)
{
	const char *slash = strrchr(name, '/');
	const size_t dir = slash && *target != '/' ? (size_t)(slash - name) + 1 : 0;
	const size_t size = dir + strlen(target) + 1;
	_cleanup_free_ char *joined = malloc(size);
	if (!joined)
		return NULL;
	snprintf(joined, size, "%.*s%s", (int)dir, name, target);
	return name_clean(joined);
}

static int keep_text(struct outer *o, struct reader *r, struct member *m, struct cordon_error *err)
{
	size_t done = 0;
	m->text = malloc(m->size + 1);
	if (!m->text)
		return err_sys(err, "cannot remember what is in the archive");
	while (done < m->size) {
		const la_ssize_t n = archive_read_data(r->archive, m->text + done, m->size - done);
		if (n < 0)
			return reader_failed(r, err);
		if (n == 0)
			return err_set(err, CORDON_ERR_INPUT, "the archive is damaged: %.100s is shorter than it says", m->name);
		done += (size_t)n;
	}
	o->kept += done;
	return 0;
}

static const char *entry_name(struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e);
	return name ? name : archive_entry_pathname_utf8(e);
}

static int index_entry(struct outer *o, struct reader *r, struct archive_entry *e, struct cordon_error *err)
{
	const char *raw = entry_name(e), *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
	char *name = raw ? name_clean(raw) : NULL;
	const bool familiar = name && is_familiar(name);
	o->strange += name && !familiar;
	const bool is_file = familiar && !hard && archive_entry_filetype(e) == AE_IFREG && archive_entry_size(e) >= 0;
	const bool is_link = familiar && (hard || (soft && archive_entry_filetype(e) == AE_IFLNK));
	if (o->strange > MEMBERS_STRANGE_MAX || o->count >= MEMBERS_MAX)
		o->files = true;
	if ((!is_file && !is_link) || o->files) {
		free(name);
		return 0;
	}
	struct member *m = add_member(o, name, err);
	if (!m)
		return -1;
	m->header = (uint64_t)archive_read_header_position(r->archive);
	if (is_link) {
		m->link = hard ? name_clean(hard) : link_target(name, soft);
		if (!m->link)
			m->link = strdup(""); /* leads out: to nothing that can be found */
		return m->link ? 0 : err_sys(err, "cannot remember what is in the archive");
	}
	m->size = (uint64_t)archive_entry_size(e);
	return m->size <= TEXT_MAX && m->size <= TEXTS_MAX - o->kept ? keep_text(o, r, m, err) : 0;
}

/* Whether it is compressed as a whole. */
static int find_packed(struct outer *o, struct cordon_error *err)
{
	const void *block;
	_cleanup_source_ struct source *s = source_unpacked(source_file(o->fd, 0, o->size, err), o->most, err);
	if (!s || source_next(s, &block, err) < 0)
		return -1;
	o->packed = source_was_packed(s);
	return 0;
}

static struct source *open_whole(const struct outer *o, uint64_t from, struct cordon_error *err)
{
	if (!o->packed)
		return source_file(o->fd, from, o->size, err);
	struct source *s = source_unpacked(source_file(o->fd, 0, o->size, err), o->most, err);
	return s && from ? source_skipped(s, from, err) : s;
}

int outer_index(struct outer *o, struct cordon_error *err)
{
	struct archive_entry *entry;
	struct reader r = {0};
	if (find_packed(o, err) < 0)
		return -1;
	_cleanup_source_ struct source *s = open_whole(o, 0, err);
	int result = s ? reader_open(&r, READ_TAR, s, err) : -1;
	while (result == 0 && !o->files) {
		result = reader_next(&r, &entry, err);
		if (result <= 0)
			break;
		result = index_entry(o, &r, entry, err);
	}
	reader_close(&r);
	return result;
}

/* ---- what is in it ------------------------------------------------------------------------------------------------------------ */

/* The last of that name, as tar has it. */
static const struct member *find(const struct outer *o, const char *name)
{
	for (size_t i = o->count; i-- > 0;)
		if (strcmp(o->members[i].name, name) == 0)
			return &o->members[i];
	return NULL;
}

bool outer_has(const struct outer *o, const char *name)
{
	return find(o, name) != NULL;
}

const struct member *outer_find(const struct outer *o, const char *name, const char *what, struct cordon_error *err)
{
	_cleanup_free_ char *clean = name_clean(name);
	const struct member *m = NULL;
	if (!clean) {
		err_set(err, CORDON_ERR_INPUT, "%s leads out of the archive: %.200s", what, name);
		return NULL;
	}
	m = find(o, clean);
	for (int hops = 0; m && m->link; hops++)
		m = hops < LINKS_MAX ? find(o, m->link) : NULL;
	if (!m)
		err_set(err, CORDON_ERR_INPUT, "%s is not in the archive: %.200s", what, clean);
	return m;
}

struct source *outer_open(const struct outer *o, const struct member *m, struct cordon_error *err)
{
	if (m->fd >= 0)
		return source_file(m->fd, 0, m->size, err);
	return source_member(open_whole(o, m->header, err), m->size, err);
}

static void digest_of(const void *data, size_t len, char digest[SHA256_HEX])
{
	unsigned char bytes[SHA256_SIZE];
	struct sha256 s;
	sha256_begin(&s);
	sha256_add(&s, data, len);
	sha256_end(&s, bytes);
	sha256_hex(bytes, digest);
}

int outer_text(const struct outer *o, const struct member *m, struct buf *out, char digest[SHA256_HEX], struct cordon_error *err)
{
	if (m->size > TEXT_MAX)
		return err_set(err, CORDON_ERR_INPUT, "%.100s in the archive is too large to be what it should be: %llu bytes", m->name,
		               (unsigned long long)m->size);
	out->len = 0;
	char *room = buf_reserve(out, m->size + 1);
	if (!room)
		return err_sys(err, "cannot read %.100s", m->name);
	_cleanup_source_ struct source *s = m->text ? NULL : outer_open(o, m, err);
	if (m->text)
		memcpy(room, m->text, m->size);
	else if (!s || source_read_all(s, room, m->size, err) < 0)
		return -1;
	if (s && s->count != m->size)
		return err_set(err, CORDON_ERR_INPUT, "%.100s became shorter while it was read", m->name);
	out->len = m->size;
	digest_of(room, out->len, digest);
	return 0;
}
