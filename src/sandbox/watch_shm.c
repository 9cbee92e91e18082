/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory that a sandbox holds, mapped or not: by memfds that are open, by files in its tmpfs, by System V segments. Their sizes are
 * known exactly and each inode counts once; pages of them that are mapped as well show in the processes' own figures a second time, and
 * watch_mapped_not_held() tells by device and inode which are only there.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/util.h"
#include "sandbox/watch_parts.h"

#define FDS_INTERVAL 1000000000ULL /* ns between scans while the host's shared memory does not grow; a scan costs ten looks */
#define JOIN_TRIES 20

/* true if the inode was there already; `add` it otherwise */
static bool know_inode(struct watch_memory *m, dev_t dev, ino_t ino, bool add)
{
	uint64_t key = (uint64_t)ino ^ ((uint64_t)dev << 40);
	size_t i = (size_t)((key * 0x9e3779b97f4a7c15ULL) >> 48) & (WATCH_INODES - 1);

	for (; m->inodes[i].generation == m->generation; i = (i + 1) & (WATCH_INODES - 1))
		if (m->inodes[i].key == key)
			return true;
	/* Three quarters full: nobody innocent holds that many deleted files; they count once per descriptor from here on. */
	if (add && m->inode_count < WATCH_INODES / 4 * 3) {
		m->inodes[i].key = key;
		m->inodes[i].generation = m->generation;
		m->inode_count++;
	}
	return false;
}

static void add_fd(struct watch_memory *m, int dir, unsigned number)
{
	static const char deleted[] = " (deleted)"; /* memfds always carry it: "/memfd:NAME (deleted)" */
	const size_t suffix = sizeof(deleted) - 1;
	char name[12];
	struct stat st;

	*watch_put_number(name, number) = '\0';
	/* The link's text first: to stat what it leads to may hang on a network file system. */
	ssize_t n = readlinkat(dir, name, m->buf, sizeof(m->buf));
	if (n < 0 ? errno != ENAMETOOLONG : (size_t)n < suffix || memcmp(m->buf + n - suffix, deleted, suffix) != 0)
		return;
	if (fstatat(dir, name, &st, 0) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 0 || know_inode(m, st.st_dev, st.st_ino, true))
		return;
	if (st.st_dev == m->shm_dev)
		m->memfd_bytes += (uint64_t)st.st_blocks * 512;
	else if (st.st_dev != m->tmpfs_dev) /* that one counts as a whole */
		m->unlinked_bytes += (uint64_t)st.st_blocks * 512;
}

static void add_fds_of(struct watch_memory *m, int dir, unsigned pid)
{
	char path[48];
	_cleanup_fd_ int fds = openat(dir, watch_pid_path(path, (pid_t)pid, "fd"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fds >= 0)
		watch_each(fds, add_fd, m);
}

void watch_scan_fds(struct watch_memory *m)
{
	m->memfd_bytes = m->unlinked_bytes = 0;
	m->inode_count = 0;
	m->generation++;
	lseek(m->proc_fd, 0, SEEK_SET);
	watch_each(m->proc_fd, add_fds_of, m);
	m->fds_at = m->now;
	m->fds_shared = m->host_shared;
	m->next_fds = m->now + FDS_INTERVAL;
}

/*
 * System V segments outlive their mappings, and their sum can only be asked for inside the ipc namespace. As root that takes a setns();
 * an ordinary user has the right to it after joining the sandbox's user namespace, which it owns. That is safe: the sandbox cannot see this
 * process, its pid namespace does not contain it. pid 1 has not exec'ed and may be out of reach for lack of it, so any process will do.
 */
void watch_join_ipc(struct watch_memory *m)
{
	struct stat own, theirs;
	int death_signal = 0;

	if (m->counts_sysv || m->join_tries >= JOIN_TRIES)
		return;
	m->join_tries++;
	prctl(PR_GET_PDEATHSIG, &death_signal);
	for (unsigned i = 0; i < m->count; i++) {
		char path[48];
		_cleanup_fd_ int ipc = openat(m->proc_fd, watch_pid_path(path, m->procs[i].pid, "ns/ipc"), O_RDONLY | O_CLOEXEC);
		if (ipc < 0)
			continue;
		if (fstat(ipc, &theirs) < 0 || stat("/proc/self/ns/ipc", &own) < 0 || own.st_ino == theirs.st_ino) {
			m->join_tries = JOIN_TRIES; /* no ipc namespace of its own: those segments may be anybody's */
			return;
		}
		_cleanup_fd_ int user = openat(m->proc_fd, watch_pid_path(path, m->procs[i].pid, "ns/user"), O_RDONLY | O_CLOEXEC);
		m->counts_sysv = setns(ipc, CLONE_NEWIPC) == 0 || (setns(user, CLONE_NEWUSER) == 0 && setns(ipc, CLONE_NEWIPC) == 0);
		prctl(PR_SET_PDEATHSIG, death_signal); /* gone with the old credentials, PR_SET_PDEATHSIG(2const) */
		if (m->counts_sysv)
			return;
	}
}

uint64_t watch_held(const struct watch_memory *m)
{
	uint64_t held = m->memfd_bytes;
	struct statfs fs;
	struct shm_info info;

	if (m->tmpfs_fd >= 0 && fstatfs(m->tmpfs_fd, &fs) == 0)
		held += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	if (m->counts_sysv && shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info) >= 0)
		held += (uint64_t)info.shm_rss * m->page;
	return held;
}

/*
 * Bytes of shared memory that p has mapped, proportional, and that watch_held() does not have. Reads the whole of smaps in pieces; of each
 * mapping the head ("7f12…-7f13… rw-s 00000000 00:01 1234   /memfd:x (deleted)") and "Pss:" matter.
 */
uint64_t watch_mapped_not_held(struct watch_memory *m, const struct watch_proc *p)
{
	char path[48];
	_cleanup_fd_ int fd = openat(m->proc_fd, watch_pid_path(path, p->pid, "smaps"), O_RDONLY | O_CLOEXEC);
	uint64_t sum = 0;
	size_t have = 0;
	bool counts = false;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, m->buf + have, sizeof(m->buf) - 1 - have)) > 0) {
		char *line = m->buf, *end;
		m->buf[have + (size_t)n] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			if (counts && strncmp(line, "Pss:", 4) == 0) {
				sum += strtoull(line + 4, NULL, 10) * 1024;
				continue;
			}
			char *s = strchr(line, ' ');
			if (!s || s == line || s[-1] == ':' || !strchr(line, '-') || strchr(line, '-') > s)
				continue;       /* not a head */
			s = strchr(s + 1, ' '); /* after the flags: offset, device, inode, name */
			if (s)
				strtoull(s, &s, 16);
			unsigned long major = s ? strtoul(s, &s, 16) : 0;
			unsigned long minor = s && *s == ':' ? strtoul(s + 1, &s, 16) : 0;
			uint64_t ino = s ? strtoull(s, &s, 10) : 0;
			dev_t dev = makedev(major, minor);
			while (s && *s == ' ')
				s++;
			/* Pages of other tmpfs mounts (the host's) are the host's; of ours all are held, and so are System V's if we can ask. */
			counts = dev == m->shm_dev && ino != 0 && !know_inode(m, dev, (ino_t)ino, false) &&
			         !(m->counts_sysv && s && strncmp(s, "/SYSV", 5) == 0);
		}
		have = strlen(line);
		if (have >= sizeof(m->buf) - 1)
			have = 0; /* no line is that long */
		memmove(m->buf, line, have);
	}
	return sum;
}
