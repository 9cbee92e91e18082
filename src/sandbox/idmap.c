/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/namespaces.h"

#define RANGE 65536u
#define SMALL_BASE 40000u /* three ids a slot, below 65,536, above the ids that distributions use */
#define OVERFLOW_ID 65534u

/* True if our own user namespace maps [first, first+count): only such ids can be given on. */
static bool ids_available(const char *map, uint64_t first, uint64_t count)
{
	char text[1024];
	if (fs_read_small(AT_FDCWD, map, text, sizeof(text)) < 0)
		return false;
	for (char *line = text; line && *line; line = strchr(line, '\n')) {
		unsigned long inside, outside, n;
		line += *line == '\n';
		if (sscanf(line, "%lu %lu %lu", &inside, &outside, &n) == 3 && inside <= first && first + count <= inside + n)
			return true;
	}
	return false;
}

static bool both_available(uint64_t first, uint64_t count)
{
	return ids_available("/proc/self/uid_map", first, count) && ids_available("/proc/self/gid_map", first, count);
}

int idmap_pool_open(struct idmap_pool *pool, struct cordon_error *err)
{
	*pool = (struct idmap_pool){.lock_fd = -1, .mode = IDMAP_SELF};
	if (geteuid() != 0)
		return 0;
	if (both_available(IDMAP_BASE, (uint64_t)IDMAP_SLOTS * RANGE))
		pool->mode = IDMAP_RANGE;
	else if (both_available(SMALL_BASE, 3 * (uint64_t)IDMAP_SLOTS))
		pool->mode = IDMAP_SMALL;
	else
		return 0;
	if (mkdir("/run/cordon", 0700) < 0 && errno != EEXIST)
		return err_sys(err, "cannot create /run/cordon");
	pool->lock_fd = open("/run/cordon/ids", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (pool->lock_fd < 0)
		return err_sys(err, "cannot open /run/cordon/ids");
	pool->next = (uint32_t)getpid() % IDMAP_SLOTS; /* launchers start apart and rarely meet */
	return 0;
}

static int slot_lock(struct idmap_pool *pool, uint32_t slot, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
	return fcntl(pool->lock_fd, F_OFD_SETLK, &l);
}

int idmap_take(struct idmap_pool *pool, uint32_t uid, uint32_t gid, bool host_files, struct idmap *out, struct cordon_error *err)
{
	*out = (struct idmap){.mode = pool->mode, .own_uid = geteuid(), .own_gid = getegid()};
	if (pool->mode == IDMAP_SMALL && host_files)
		out->mode = IDMAP_SELF;
	out->uid = out->own_uid ? out->own_uid : IDMAP_USER;
	out->gid = out->own_gid ? out->own_gid : IDMAP_USER;
	if (out->mode == IDMAP_SELF) {
		if ((uid != UINT32_MAX && uid != out->uid) || (gid != UINT32_MAX && gid != out->gid)) {
			err_set(err, CORDON_ERR_INPUT, "--user %u:%u: only your own ids (%u:%u) can be used", uid, gid, out->uid, out->gid);
			return err_hint(err, "run cordon as root to choose ids inside");
		}
		return 0;
	}
	out->uid = uid == UINT32_MAX ? IDMAP_USER : uid;
	out->gid = gid == UINT32_MAX ? IDMAP_USER : gid;
	uint32_t most = pool->mode == IDMAP_RANGE ? RANGE - 1 : IDMAP_USER;
	if (out->uid > most || out->gid > most)
		return err_set(err, CORDON_ERR_INPUT, "--user %u:%u: ids inside go from 0 to %u", out->uid, out->gid, most);
	for (uint32_t i = 0; i < IDMAP_SLOTS; i++) {
		uint32_t slot = (pool->next + i) % IDMAP_SLOTS;
		if ((pool->taken[slot / 8] & (1u << (slot % 8))) || slot_lock(pool, slot, F_WRLCK) < 0)
			continue;
		pool->taken[slot / 8] |= (uint8_t)(1u << (slot % 8));
		pool->next = (slot + 1) % IDMAP_SLOTS;
		out->slot = slot;
		out->base = pool->mode == IDMAP_RANGE ? IDMAP_BASE + slot * RANGE : SMALL_BASE + slot * 3;
		return 0;
	}
	return err_set(err, CORDON_ERR_SYSTEM, "all %u id ranges are in use", IDMAP_SLOTS);
}

void idmap_release(struct idmap_pool *pool, const struct idmap *m)
{
	if (m->mode == IDMAP_SELF)
		return;
	pool->taken[m->slot / 8] &= (uint8_t) ~(1u << (m->slot % 8));
	slot_lock(pool, m->slot, F_UNLCK);
}

uint32_t idmap_host_id(const struct idmap *m, uint32_t inside)
{
	switch (m->mode) {
	case IDMAP_RANGE:
		return m->base + inside;
	case IDMAP_SMALL:
		return m->base + (inside ? 1 : 0);
	case IDMAP_SELF:
	default:
		return inside;
	}
}

static int write_proc(pid_t pid, const char *file, const char *text, struct cordon_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	_cleanup_fd_ int fd = openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return err_sys(err, "cannot write %s", path);
	return 0;
}

static void map_text(const struct idmap *m, uint32_t id, uint32_t own, char *text, size_t size)
{
	switch (m->mode) {
	case IDMAP_RANGE:
		snprintf(text, size, "0 %u %u\n", m->base, RANGE);
		break;
	case IDMAP_SMALL: /* root for init, one id for the command, and the overflow id so that files of others have an owner */
		if (id == 0)
			snprintf(text, size, "0 %u 1\n%u %u 1\n", m->base, OVERFLOW_ID, m->base + 2);
		else
			snprintf(text, size, "0 %u 1\n%u %u 1\n%u %u 1\n", m->base, id, m->base + 1, OVERFLOW_ID, m->base + 2);
		break;
	case IDMAP_SELF:
	default:
		snprintf(text, size, "%u %u 1\n", id, own);
		break;
	}
}

int idmap_write(const struct idmap *m, pid_t pid, struct cordon_error *err)
{
	char text[160];
	/* an ordinary user may map its group only after giving up setgroups(2), see user_namespaces(7) */
	if (m->mode == IDMAP_SELF && write_proc(pid, "setgroups", "deny", err) < 0)
		return -1;
	map_text(m, m->uid, m->own_uid, text, sizeof(text));
	if (write_proc(pid, "uid_map", text, err) < 0)
		return -1;
	map_text(m, m->gid, m->own_gid, text, sizeof(text));
	return write_proc(pid, "gid_map", text, err);
}

/* Identity on the range, but for owner and user, which change places. */
static void swap_text(const struct idmap *m, uint32_t owner, uint32_t user, bool only, char *text, size_t size)
{
	uint32_t low = MIN(owner, user), high = MAX(owner, user);
	size_t n = 0;
	text[0] = '\0';
	if (only) {
		snprintf(text, size, "%u %u 1\n", owner, m->base + user);
		return;
	}
	if (owner >= RANGE) { /* no place of its own in the range: it takes the user's, whose own files then have no name inside */
		if (user)
			n += (size_t)snprintf(text + n, size - n, "0 %u %u\n", m->base, user);
		n += (size_t)snprintf(text + n, size - n, "%u %u 1\n", owner, m->base + user);
		if (user + 1 < RANGE)
			snprintf(text + n, size - n, "%u %u %u\n", user + 1, m->base + user + 1, RANGE - user - 1);
		return;
	}
	if (low == high) {
		snprintf(text, size, "0 %u %u\n", m->base, RANGE);
		return;
	}
	if (low)
		n += (size_t)snprintf(text + n, size - n, "0 %u %u\n", m->base, low);
	n += (size_t)snprintf(text + n, size - n, "%u %u 1\n%u %u 1\n", low, m->base + high, high, m->base + low);
	if (high - low > 1)
		n += (size_t)snprintf(text + n, size - n, "%u %u %u\n", low + 1, m->base + low + 1, high - low - 1);
	if (high + 1 < RANGE)
		snprintf(text + n, size - n, "%u %u %u\n", high + 1, m->base + high + 1, RANGE - high - 1);
}

int idmap_mount_userns(const struct idmap *m, uid_t owner, gid_t group, bool only, struct cordon_error *err)
{
	char text[256], path[64];
	if (m->mode != IDMAP_RANGE)
		return err_set(err, CORDON_ERR_WEAK_HOST, "this host has no id ranges for idmapped mounts");
	/* A namespace needs a process to be born in; it only has to exist until its descriptor is open. */
	const pid_t launcher = getpid();
	pid_t pid = namespaces_clone(CLONE_NEWUSER, -1, NULL, err);
	if (pid < 0)
		return -1;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		while (getppid() == launcher)
			pause();
		_exit(0);
	}
	int fd = -1;
	swap_text(m, owner, m->uid, only, text, sizeof(text));
	if (write_proc(pid, "uid_map", text, err) < 0)
		goto out;
	swap_text(m, group, m->gid, only, text, sizeof(text));
	if (write_proc(pid, "gid_map", text, err) < 0)
		goto out;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err_sys(err, "cannot open %s", path);
out:
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd;
}
