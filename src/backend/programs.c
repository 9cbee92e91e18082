/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/programs.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

#define ENTRIES_MAX ((size_t)8 << 20)
#define DEPTH_MAX 200
#define HEADERS_MAX 64
#define DYNAMIC_MAX ((size_t)64 << 10)

#ifndef DF_1_PIE
#define DF_1_PIE 0x08000000
#endif

static int out_of_memory(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
}

/* ---- lists -------------------------------------------------------------------------------------------------------------------- */

static bool grow(void **items, size_t *size, size_t count, size_t item)
{
	if (count < *size)
		return true;
	size_t want = *size ? *size * 2 : 256;
	void *more = realloc(*items, want * item);
	if (!more)
		return false;
	*items = more;
	*size = want;
	return true;
}

int programs_add(struct programs *p, const char *path, const struct program *like, struct cordon_error *err)
{
	if (!grow((void **)&p->items, &p->size, p->count, sizeof(*p->items)))
		return out_of_memory(err);
	p->items[p->count] = *like;
	p->items[p->count].path = strdup(path);
	return p->items[p->count].path ? (p->count++, 0) : out_of_memory(err);
}

int programs_add_dir(struct programs_dirs *d, const char *path, const struct programs_dir *like, struct cordon_error *err)
{
	if (!grow((void **)&d->items, &d->size, d->count, sizeof(*d->items)))
		return out_of_memory(err);
	d->items[d->count] = *like;
	d->items[d->count].path = strdup(path);
	return d->items[d->count].path ? (d->count++, 0) : out_of_memory(err);
}

void programs_free(struct programs *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->items[i].path);
	free(p->items);
	strlist_free(&p->loaders);
	*p = (struct programs){0};
}

void programs_free_dirs(struct programs_dirs *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->items[i].path);
	free(d->items);
	*d = (struct programs_dirs){0};
}

struct programs_dir programs_stamp(const struct stat *st)
{
	return (struct programs_dir){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.mtime = st->st_mtim.tv_sec,
		.mtime_nsec = st->st_mtim.tv_nsec,
		.ctime = st->st_ctim.tv_sec,
		.ctime_nsec = st->st_ctim.tv_nsec,
	};
}

/* ---- what is a program -------------------------------------------------------------------------------------------------------- */

/* The few things that are asked of either class of ELF file. */
struct elf {
	int fd;
	bool wide; /* 64 bits */
	uint16_t type, headers;
	uint64_t at;
	size_t header_size;
};

struct segment {
	uint32_t type;
	uint64_t offset, size;
};

static bool read_elf(int fd, struct elf *e)
{
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr narrow;
		Elf64_Ehdr wide;
	} h;
	ssize_t n = pread(fd, &h, sizeof(h), 0);

	if (n < (ssize_t)sizeof(h.narrow) || memcmp(h.ident, ELFMAG, SELFMAG) != 0)
		return false;
	*e = (struct elf){.fd = fd, .wide = h.ident[EI_CLASS] == ELFCLASS64};
	if (e->wide && n < (ssize_t)sizeof(h.wide))
		return false;
	e->type = e->wide ? h.wide.e_type : h.narrow.e_type;
	e->headers = e->wide ? h.wide.e_phnum : h.narrow.e_phnum;
	e->at = e->wide ? h.wide.e_phoff : h.narrow.e_phoff;
	e->header_size = e->wide ? h.wide.e_phentsize : h.narrow.e_phentsize;
	return true;
}

static bool read_segment(const struct elf *e, size_t i, struct segment *s)
{
	union {
		Elf32_Phdr narrow;
		Elf64_Phdr wide;
	} h;
	const size_t size = e->wide ? sizeof(h.wide) : sizeof(h.narrow);

	if (e->header_size < size || pread(e->fd, &h, size, (off_t)(e->at + i * e->header_size)) != (ssize_t)size)
		return false;
	*s = e->wide ? (struct segment){h.wide.p_type, h.wide.p_offset, h.wide.p_filesz}
	             : (struct segment){h.narrow.p_type, h.narrow.p_offset, h.narrow.p_filesz};
	return true;
}

static bool has_flag(const struct elf *e, const unsigned char *table, size_t len, int64_t tag, uint64_t bits)
{
	const size_t size = e->wide ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);

	for (size_t at = 0; at + size <= len; at += size) {
		Elf64_Dyn wide;
		Elf32_Dyn narrow;

		memcpy(e->wide ? (void *)&wide : (void *)&narrow, table + at, size);
		if ((e->wide ? wide.d_tag : narrow.d_tag) == tag && (!bits || ((e->wide ? wide.d_un.d_val : narrow.d_un.d_val) & bits)))
			return true;
	}
	return false;
}

static int note_loader(const struct elf *e, const struct segment *s, struct strlist *loaders, struct cordon_error *err)
{
	char name[PATH_MAX];
	ssize_t n = pread(e->fd, name, MIN(s->size, sizeof(name) - 1), (off_t)s->offset);

	if (n <= 0)
		return 0;
	name[n] = '\0';
	return name[0] != '/' || strlist_has(loaders, name) ? 0 : strlist_add(loaders, name, err);
}

/* 1: it is a program. Libraries that can be started as well (libc.so.6) have a name as a library, and are none. */
static int is_native(int fd, struct strlist *loaders, struct cordon_error *err)
{
	struct elf e;
	struct segment s, loader = {0};
	bool starts, library = false;

	if (!read_elf(fd, &e) || (e.type != ET_EXEC && e.type != ET_DYN))
		return 0;
	starts = e.type == ET_EXEC;
	for (size_t i = 0; i < MIN(e.headers, (uint16_t)HEADERS_MAX) && read_segment(&e, i, &s); i++) {
		if (s.type == PT_INTERP)
			loader = s;
		if (s.type != PT_DYNAMIC)
			continue;
		_cleanup_free_ unsigned char *table = malloc(DYNAMIC_MAX);
		if (!table)
			return out_of_memory(err);
		ssize_t n = pread(fd, table, MIN(s.size, DYNAMIC_MAX), (off_t)s.offset);
		library = n > 0 && has_flag(&e, table, (size_t)n, DT_SONAME, 0);
		starts = starts || (n > 0 && has_flag(&e, table, (size_t)n, DT_FLAGS_1, DF_1_PIE));
	}
	if (library || (!starts && !loader.size))
		return 0;
	return loader.size && note_loader(&e, &loader, loaders, err) < 0 ? -1 : 1;
}

/* Files that cannot be started are looked into as well, since a loader needs no more than to read them; but not those that are something else by name. */
static bool is_data(const char *name)
{
	static const char *const endings[] = {
		".py",      ".pyc",     ".h",   ".hpp", ".c",   ".cc",  ".cpp",  ".html", ".htm",  ".gz",    ".txt", ".md",   ".rst",
		".json",    ".js",      ".mjs", ".ts",  ".map", ".css", ".xml",  ".png",  ".svg",  ".gif",   ".jpg", ".mo",   ".po",
		".pm",      ".pl",      ".pod", ".rb",  ".ri",  ".go",  ".rs",   ".java", ".jar",  ".class", ".a",   ".o",    ".la",
		".pc",      ".ttf",     ".otf", ".pfb", ".afm", ".tfm", ".sty",  ".tex",  ".vim",  ".lua",   ".el",  ".elc",  ".conf",
		".service", ".desktop", ".xz",  ".bz2", ".zst", ".zip", ".yaml", ".yml",  ".toml", ".ini",   ".cfg", ".d.ts",
	};
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(endings); i++)
		if (strcmp(dot, endings[i]) == 0)
			return true;
	return false;
}

/* ---- the search --------------------------------------------------------------------------------------------------------------- */

struct scan {
	struct programs *out;
	struct programs_dirs *dirs;
	size_t entries;
	char path[PATH_MAX];
	size_t len;
};

static int scan_directory(struct scan *s, int fd, int depth, struct cordon_error *err);

int programs_look(struct programs *out, const char *path, int dir, const char *name, const struct stat *st, struct cordon_error *err)
{
	const bool executable = st->st_mode & 0111;
	struct program p = {.dev = st->st_dev, .ino = st->st_ino, .kind = PROGRAM_OTHER};

	if (!executable && (is_data(name) || st->st_size < (off_t)sizeof(Elf32_Ehdr)))
		return 0;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const int native = fd < 0 ? 0 : is_native(fd, &out->loaders, err);
	if (native < 0)
		return -1;
	if (native || (fd < 0 && executable)) /* what cannot be read may be one */
		p.kind = PROGRAM_NATIVE;
	else if (!executable)
		return 0;
	return programs_add(out, path, &p, err);
}

static int scan_entry(struct scan *s, int dir, const struct dirent *d, int depth, struct cordon_error *err)
{
	struct stat st;

	if (++s->entries > ENTRIES_MAX)
		return err_set(err, CORDON_ERR_INPUT, "%s: too many files to be searched for programs", s->path);
	if (d->d_type == DT_LNK || fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISREG(st.st_mode))
		return programs_look(s->out, s->path, dir, d->d_name, &st, err);
	if (!S_ISDIR(st.st_mode))
		return 0;
	int fd = depth < DEPTH_MAX ? openat(dir, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	return fd < 0 ? 0 : scan_directory(s, fd, depth + 1, err);
}

/* Takes fd over. Its stamp is taken before its names are read: a change in between makes the cache stale, not wrong. */
static int scan_directory(struct scan *s, int fd, int depth, struct cordon_error *err)
{
	const size_t len = s->len;
	const struct dirent *d;
	struct stat st;
	_cleanup_dir_ DIR *dir = fdopendir(fd);
	int r = 0;

	if (!dir) {
		close(fd);
		return err_sys(err, "cannot read %s", s->path);
	}
	if (fstat(dirfd(dir), &st) < 0)
		return err_sys(err, "cannot stat %s", s->path);
	const struct programs_dir stamp = programs_stamp(&st);
	if (programs_add_dir(s->dirs, s->path, &stamp, err) < 0)
		return -1;
	while (r == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		int n = snprintf(s->path + len, sizeof(s->path) - len, "/%s", d->d_name);
		if (n > 0 && (size_t)n < sizeof(s->path) - len) {
			s->len = len + (size_t)n;
			r = scan_entry(s, dirfd(dir), d, depth, err);
		}
		s->len = len;
		s->path[len] = '\0';
	}
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct program *)a)->path, ((const struct program *)b)->path);
}

void programs_sort(struct programs *p)
{
	if (p->count > 0)
		qsort(p->items, p->count, sizeof(*p->items), by_path);
}

int programs_scan(const char *root, struct programs *out, struct programs_dirs *dirs, struct cordon_error *err)
{
	struct scan s = {.out = out, .dirs = dirs};
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "cannot search %s for programs", root);
	s.len = (size_t)snprintf(s.path, sizeof(s.path), "%s", root);
	if (s.len >= sizeof(s.path)) {
		close(fd);
		return err_set(err, CORDON_ERR_INPUT, "%.100s...: the path is too long", root);
	}
	if (scan_directory(&s, fd, 0, err) < 0)
		return -1;
	programs_sort(out);
	return 0;
}
