/* SPDX-License-Identifier: Apache-2.0 */
#include "store_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/store_parts.h"
#include "sandbox/owner.h"

struct store store;
struct cordon_error err;
static char home[64];

int fixture_set_up(void **state)
{
	snprintf(home, sizeof(home), "/var/tmp/cordon-store-XXXXXX");
	err = (struct cordon_error){0};
	return mkdtemp(home) ? store_open(&store, home, &err) : -1;
}

int fixture_tear_down(void **state)
{
	store_close(&store);
	return fs_remove_tree(AT_FDCWD, home, NULL);
}

int ok(int r)
{
	if (r < 0)
		fail_msg("%s", err.message);
	return r;
}

void assert_refused(int r, enum cordon_error_code code, const char *words)
{
	assert_true(r < 0);
	if (err.code != code || !strstr(err.message, words))
		fail_msg("code %d: %s (expected code %d: …%s…)", err.code, err.message, code, words);
}

static const char *in_layer(const char *id, const char *path)
{
	static char full[512];
	snprintf(full, sizeof(full), "%s/%s", id, path);
	return full;
}

void put(const char *id, const char *path, const char *text)
{
	unlinkat(store.layers_fd, in_layer(id, path), 0);
	ok(fs_write_file(store.layers_fd, in_layer(id, path), text, strlen(text), 0644, &err));
}

void put_dir(const char *id, const char *path)
{
	ok(fs_mkdirs(store.layers_fd, in_layer(id, path), 0755, &err));
}

void put_whiteout(const char *id, const char *path)
{
	assert_int_equal(mknodat(store.layers_fd, in_layer(id, path), S_IFCHR, 0), 0);
}

void put_opaque(const char *id, const char *path)
{
	put_dir(id, path);
	_cleanup_fd_ int fd = openat(store.layers_fd, in_layer(id, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fsetxattr(fd, "user.overlay.opaque", "y", 1, 0), 0);
}

bool there(const char *id, const char *path)
{
	return faccessat(store.layers_fd, in_layer(id, path), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

const char *what_is(const char *id, const char *path)
{
	static char text[256];
	struct stat st;
	char value;
	if (fstatat(store.layers_fd, in_layer(id, path), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return "none";
	if (S_ISCHR(st.st_mode))
		return st.st_rdev == 0 ? "whiteout" : "device";
	if (S_ISDIR(st.st_mode)) {
		_cleanup_fd_ int fd = openat(store.layers_fd, in_layer(id, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 && value == 'y' ? "opaque" : "dir";
	}
	if (!S_ISREG(st.st_mode))
		return S_ISLNK(st.st_mode) ? "link" : "special";
	return fs_read_small(store.layers_fd, in_layer(id, path), text, sizeof(text)) < 0 ? "unreadable" : text;
}

static char *id_slot(void)
{
	static char ids[32][LAYER_ID_LEN + 1];
	static size_t next;
	return ids[next++ % ARRAY_SIZE(ids)];
}

void seal(const char *id, const char *parent, const char *sandbox)
{
	static int64_t clock_ms = 1000000;
	struct layer l = {.kind = LAYER_EXEC, .created_ms = clock_ms++, .exit_code = -1};
	snprintf(l.id, sizeof(l.id), "%s", id);
	snprintf(l.parent, sizeof(l.parent), "%s", parent);
	snprintf(l.sandbox, sizeof(l.sandbox), "%s", sandbox);
	ok(layer_seal(&store, &l, &err));
}

const char *new_open_layer(void)
{
	char *id = id_slot();
	ok(layer_begin(&store, geteuid(), getegid(), id, &err));
	return id;
}

const char *new_layer(const char *parent, const char *sandbox)
{
	const char *id = new_open_layer();
	seal(id, parent, sandbox);
	return id;
}

/* A child's, which is dead and reaped. */
const char *dead_stamp(void)
{
	static char stamp[64];
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	pid_t child = fork();
	if (child == 0) {
		bool known = owner_stamp(stamp, sizeof(stamp));
		_exit(!known || write(pipe_fds[1], stamp, sizeof(stamp)) != sizeof(stamp));
	}
	close(pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], stamp, sizeof(stamp)), sizeof(stamp));
	close(pipe_fds[0]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return stamp;
}

const char *new_abandoned_layer(void)
{
	const char *id = new_open_layer();
	char mark[128];
	snprintf(mark, sizeof(mark), "%s.aaaabbbbccccddddeeee\n", dead_stamp());
	put(id, "open", mark);
	return id;
}

void new_box(struct box *b, const char *name, const char *head)
{
	*b = (struct box){.uid = UINT32_MAX, .gid = UINT32_MAX};
	snprintf(b->name, sizeof(b->name), "%s", name);
	snprintf(b->head, sizeof(b->head), "%s", head);
	ok(box_create(&store, b, &err));
}

const char *path_of(const char *dir, const char *id, const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/%s/%s", dir, id, name);
	return path;
}

void overwrite(const char *path, const char *text, size_t len)
{
	char full[512];
	snprintf(full, sizeof(full), "%s/%s", home, path);
	unlink(full);
	ok(fs_write_file(AT_FDCWD, full, text, len, 0600, &err));
}

void collect(int expected)
{
	assert_int_equal(ok(store_collect(&store, 2000000, &err)), expected);
}

size_t count_entries(int dirfd)
{
	struct strlist names = {0};
	ok(store_list(dirfd, &names, &err));
	size_t count = names.count;
	strlist_free(&names);
	return count;
}

/* /proc/locks lists those that wait with an arrow. */
static bool waits_for_lock(pid_t pid)
{
	char line[256], word[32];
	bool found = false;
	FILE *f = fopen("/proc/locks", "re");
	assert_non_null(f);
	snprintf(word, sizeof(word), " %d ", (int)pid);
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, "->") && strstr(line, word);
	fclose(f);
	return found;
}

void wait_until_blocked(pid_t pid)
{
	while (!waits_for_lock(pid))
		sched_yield();
}

int exit_status(pid_t child)
{
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}
