/* SPDX-License-Identifier: Apache-2.0 */
#include "image/look.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "image/store_parts.h"

#define LINKS_MAX 40 /* as the kernel */

int image_view(const char *home, const struct image *i, struct view *out, struct cordon_error *err)
{
	_cleanup_image_store_ struct image_store s;
	_cleanup_free_ int *fds = calloc(i->layers.count + 1, sizeof(*fds));
	size_t count = 0;
	int r = image_store_open(&s, home, false, err);
	if (r == 0 && !fds)
		r = err_sys(err, "cannot open image %s", i->name);
	for (; r == 0 && count < i->layers.count; count++) {
		char path[IMAGE_PATH_MAX];
		snprintf(path, sizeof(path), "%s/" IMAGE_TREE, i->layers.items[count]);
		fds[count] = openat(s.parts[PART_LAYERS], path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fds[count] < 0) {
			r = err_sys(err, "image %s: layer %.12s", i->name, i->layers.items[count]);
			break;
		}
	}
	if (r == 0)
		r = view_from(fds, count, false, out, err);
	while (fds && count > 0)
		close(fds[--count]);
	return r == 0 ? 0 : r > 0 ? err_set(err, CORDON_ERR_NOT_FOUND, "image %s was removed", i->name) : -1;
}

/* ---- paths -------------------------------------------------------------------------------------------------------------------- */

struct walk {
	char done[IMAGE_LOOK_MAX]; /* resolved so far, without links; "" is the top */
	char rest[IMAGE_LOOK_MAX]; /* still to go */
	int links;
};

static void go_up(struct walk *w)
{
	char *slash = strrchr(w->done, '/');
	if (slash)
		*slash = '\0';
	else
		w->done[0] = '\0';
}

/* Takes the next component off `rest`; false: there is none left. */
static bool next_component(struct walk *w, char component[NAME_MAX + 1])
{
	const char *from = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(from, "/");
	if (len == 0 || len > NAME_MAX)
		return false;
	memcpy(component, from, len);
	component[len] = '\0';
	memmove(w->rest, from + len, strlen(from + len) + 1);
	return true;
}

/* The link's target comes before what is still to go. */
static int follow(struct walk *w, const struct view *v, const char *path, const struct view_entry *e, struct cordon_error *err)
{
	char target[IMAGE_LOOK_MAX], rest[IMAGE_LOOK_MAX];
	_cleanup_fd_ int fd = view_open_entry(v, path, e, err);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);
	if (fd < 0)
		return -1;
	if (n < 0)
		return err_sys(err, "cannot read the link %s", path);
	target[n] = '\0';
	if (++w->links > LINKS_MAX || (size_t)n + strlen(w->rest) + 2 > sizeof(rest)) {
		errno = ELOOP;
		return err_sys(err, "cannot follow %s", path);
	}
	snprintf(rest, sizeof(rest), "%.*s%s", (int)n, target, w->rest);
	memcpy(w->rest, rest, strlen(rest) + 1);
	if (target[0] == '/')
		w->done[0] = '\0';
	return 0;
}

/* One component further. 1: go on, 0: nothing is there. */
static int step(struct walk *w, const struct view *v, const char *component, struct view_entry *out, struct cordon_error *err)
{
	char path[IMAGE_LOOK_MAX];
	if (strcmp(component, ".") == 0)
		return 1;
	if (strcmp(component, "..") == 0) {
		go_up(w);
		return view_stat(v, w->done, out, err) < 0 ? -1 : 1;
	}
	int n = snprintf(path, sizeof(path), "%s%s%s", w->done, *w->done ? "/" : "", component);
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	if (view_stat(v, path, out, err) < 0)
		return -1;
	if (out->st.st_mode == 0)
		return 0;
	if (S_ISLNK(out->st.st_mode))
		return follow(w, v, path, out, err) < 0 ? -1 : 1;
	memcpy(w->done, path, (size_t)n + 1);
	return 1;
}

int image_look(const struct view *v, const char *path, struct view_entry *out, char path_out[IMAGE_LOOK_MAX], struct cordon_error *err)
{
	struct walk w = {0};
	char component[NAME_MAX + 1];
	int r = 1;
	*out = (struct view_entry){0};
	if (strlen(path) >= sizeof(w.rest))
		return err_set(err, CORDON_ERR_INPUT, "a path of more than %d bytes", IMAGE_LOOK_MAX - 1);
	memcpy(w.rest, path, strlen(path) + 1);
	while (r > 0 && next_component(&w, component))
		r = step(&w, v, component, out, err);
	if (r < 0)
		return -1;
	if (r == 0 || w.rest[strspn(w.rest, "/")] || S_ISLNK(out->st.st_mode))
		*out = (struct view_entry){0};
	if (path_out)
		memcpy(path_out, w.done, strlen(w.done) + 1);
	return 0;
}

/* ---- programs ----------------------------------------------------------------------------------------------------------------- */

/* In the words of images (GOARCH). */
static const struct {
	unsigned machine;
	unsigned char class;
	const char *arch;
} machines[] = {
	{EM_X86_64, ELFCLASS64, "amd64"},  {EM_AARCH64, ELFCLASS64, "arm64"}, {EM_386, ELFCLASS32, "386"},
	{EM_ARM, ELFCLASS32, "arm"},       {EM_PPC64, ELFCLASS64, "ppc64le"}, {EM_S390, ELFCLASS64, "s390x"},
	{EM_RISCV, ELFCLASS64, "riscv64"}, {EM_MIPS, ELFCLASS64, "mips64le"},
};

static const char *elf_arch(int fd)
{
	unsigned char h[20];
	if (fs_pread_full(fd, h, sizeof(h), 0) != (ssize_t)sizeof(h) || memcmp(h, ELFMAG, SELFMAG) != 0)
		return NULL;
	unsigned machine = h[EI_DATA] == ELFDATA2MSB ? (unsigned)h[18] << 8 | h[19] : (unsigned)h[19] << 8 | h[18];
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == machine && machines[i].class == h[EI_CLASS])
			return machines[i].arch;
	return "unknown";
}

int image_traits(const struct view *v, struct image_traits *out, struct cordon_error *err)
{
	static const char *const programs[] = {"/bin/sh",       "/bin/bash",        "/bin/busybox",
	                                       "/usr/bin/env",  "/usr/bin/python3", "/usr/local/bin/python3",
	                                       "/usr/bin/node", "/sbin/ldconfig"};
	*out = (struct image_traits){0};
	for (size_t i = 0; i < ARRAY_SIZE(programs) && !out->arch; i++) {
		struct view_entry e;
		char path[IMAGE_LOOK_MAX];
		struct cordon_error why = {0};
		if (image_look(v, programs[i], &e, path, &why) < 0 && why.sys_errno != ELOOP) {
			if (err)
				*err = why;
			return -1;
		}
		if (!S_ISREG(e.st.st_mode))
			continue;
		_cleanup_fd_ int fd = view_open_entry(v, path, &e, NULL);
		out->shell |= i == 0;
		if (fd >= 0)
			out->arch = elf_arch(fd);
	}
	return 0;
}
