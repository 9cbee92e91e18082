/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "must.h"

static char place[64];
static int place_fd = -1;
static struct stat witness;

static void remove_place(void)
{
	fs_remove_tree(AT_FDCWD, place, NULL);
}

/* In memory where there is such a place: the disk is not what is tried here. */
void place_make(void)
{
	static const char *const tops[] = {"/dev/shm", "/tmp"};
	for (size_t i = 0; i < ARRAY_SIZE(tops) && place_fd < 0; i++) {
		snprintf(place, sizeof(place), "%s/cordon-fuzz.XXXXXX", tops[i]);
		if (mkdtemp(place))
			place_fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	MUST(place_fd >= 0);
	atexit(remove_place);
	MUST(fs_write_file(place_fd, "witness", "as it was\n", 10, 0600, NULL) == 0);
	MUST(fstatat(place_fd, "witness", &witness, AT_SYMLINK_NOFOLLOW) == 0);
}

static void check_names(int dir, const char *const *wanted, size_t count)
{
	struct buf names = {0};
	size_t found = 0;
	MUST(fs_read_names(dir, &names) == 0);
	for (const char *name = names.data; name && name < names.data + names.len; name += strlen(name) + 1, found++) {
		bool known = false;
		for (size_t i = 0; i < count; i++)
			known |= strcmp(name, wanted[i]) == 0;
		MUST(known);
	}
	MUST(found == count);
	buf_free(&names);
}

static void check_around(void)
{
	static const char *const outside[] = {"witness", "deep"}, *const beside[] = {"staging"};
	struct stat st;
	check_names(place_fd, outside, ARRAY_SIZE(outside));
	MUST(fstatat(place_fd, "witness", &st, AT_SYMLINK_NOFOLLOW) == 0);
	MUST(st.st_ino == witness.st_ino && st.st_nlink == 1 && st.st_size == witness.st_size && st.st_mode == witness.st_mode &&
	     st.st_uid == witness.st_uid && memcmp(&st.st_ctim, &witness.st_ctim, sizeof(st.st_ctim)) == 0);
	_cleanup_fd_ int deep = openat(place_fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(deep >= 0);
	check_names(deep, beside, ARRAY_SIZE(beside));
}

int place_write(int stream)
{
	const struct image_write_limits limits = {.bytes = 1 << 20, .entries = 200, .file_bytes = 1 << 20, .depth = 32};
	struct image_write_result result;
	struct cordon_error err = {0};
	MUST(mkdirat(place_fd, "deep", 0700) == 0 && mkdirat(place_fd, "deep/staging", 0700) == 0);
	_cleanup_fd_ int staging = openat(place_fd, "deep/staging", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int r = image_write(stream, staging, &limits, &result, NULL, NULL, &err);
	uint64_t bytes = 0, entries = 0;
	for (size_t i = 0; r == 0 && i < result.layer_count; i++) {
		bytes += result.layers[i].bytes;
		entries += result.layers[i].entries;
	}
	MUST(bytes <= limits.bytes && entries <= limits.entries);
	MUST(r == 0 || (err.code != CORDON_OK && *err.message));
	if (r == 0)
		image_write_result_free(&result);
	check_around();
	MUST(fs_remove_tree(place_fd, "deep", NULL) == 0);
	return r;
}

int place_file(const void *data, size_t len)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	MUST(fd >= 0 && fs_write_full(fd, data, len) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}
