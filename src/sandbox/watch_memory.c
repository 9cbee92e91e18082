/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a sandbox hold in memory, without a controller that counts it. Theory of operation:
 *
 * Every tick asks sysinfo(2), one system call, whether the host as a whole lost free memory or gained shared memory; the sandbox itself
 * is looked at when that amounts to an eighth of what is left to the limit, and at the latest when the rest could have been filled at
 * FILL_RATE. So an idle sandbox costs next to nothing and a greedy one is looked at every tick.
 *
 * A look adds up resident sizes (statm), which is an upper bound: shared pages count several times, and pages of files count though they
 * can be dropped at any time. Only if that bound is over the limit, a pass over smaps_rollup (since 4.14) tells what is really held:
 * proportional anonymous and shared-memory pages (Pss_Anon and Pss_Shmem, since 5.4), as a memory cgroup would see it after reclaim. The
 * biggest process comes first, and the pass ends as soon as the answer is known either way.
 *
 * Shared memory can also be held without being mapped: watch_shm.c. The truth is between max(mapped, held) and mapped + held; if the limit
 * lies between those two, full smaps tell what is both.
 *
 * Not seen, and why the limit counts as weak: shared pages that are in nobody's page table and reachable by no descriptor of a main
 * thread (a descriptor in flight over a socket, a shared mapping after MADV_DONTNEED), kernel memory, huge pages of the host's pool.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "base/util.h"
#include "sandbox/watch_parts.h"

#define MS 1000000ULL
#define FILL_RATE 8 /* bytes per ns that a sandbox may fill at most; what two cores do with huge pages */
#define LOOK_MIN (5 * MS)
#define LOOK_MAX (100 * MS)
#define LEARN_INTERVAL (250 * MS)
#define PASS_TRIES 3
#define SHM_VALID (500 * MS)
#define TWINS_MAX (100 * MS)

struct proc_dirent {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

uint64_t watch_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* By hand: this runs thousands of times a second. */
char *watch_put_number(char *p, unsigned number)
{
	char digits[12];
	int n = 0;

	do
		digits[n++] = (char)('0' + number % 10);
	while (number /= 10);
	while (n > 0)
		*p++ = digits[--n];
	return p;
}

/* "PID/FILE" */
const char *watch_pid_path(char path[48], pid_t pid, const char *file)
{
	char *p = watch_put_number(path, (unsigned)pid);

	*p++ = '/';
	while ((*p++ = *file++))
		;
	return path;
}

ssize_t watch_read(const struct watch_memory *m, pid_t pid, const char *file, char *buf, size_t size)
{
	char path[48];
	_cleanup_fd_ int fd = openat(m->proc_fd, watch_pid_path(path, pid, file), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[MAX(n, 0)] = '\0';
	return n;
}

/* Calls each() for every number among the names in a directory of /proc. */
void watch_each(int dir, void (*each)(struct watch_memory *, int dir, unsigned number), struct watch_memory *m)
{
	char buf[4096] __attribute__((aligned(8)));
	long n;

	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (long pos = 0; pos < n;) {
			const struct proc_dirent *e = (const void *)(buf + pos);
			const char *s = e->name;
			unsigned number = 0;
			pos += e->reclen;
			while (*s >= '0' && *s <= '9')
				number = number * 10 + (unsigned)(*s++ - '0');
			if (!*s)
				each(m, dir, number);
		}
}

static void kill_proc(struct watch_memory *m, int dir, unsigned pid)
{
	char path[48];
	_cleanup_fd_ int fd = openat(dir, watch_pid_path(path, (pid_t)pid, ""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)m;
	if (fd >= 0) /* a directory of /proc serves as a pidfd, pidfd_send_signal(2) */
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

void watch_kill_procs(struct watch_memory *m)
{
	lseek(m->proc_fd, 0, SEEK_SET);
	watch_each(m->proc_fd, kill_proc, m);
}

/* ---- cheap: resident sizes ----------------------------------------------------------------------------------------------------- */

static void add_proc(struct watch_memory *m, int dir, unsigned pid)
{
	char text[128], *p = text;
	uint64_t field[3];

	(void)dir;
	m->signature += (uint64_t)pid * pid;
	if (watch_read(m, (pid_t)pid, "statm", text, sizeof(text)) <= 0)
		return;
	for (int i = 0; i < 3; i++)
		field[i] = strtoull(p, &p, 10);
	m->rss += field[1] * m->page;
	m->shared += field[2] * m->page;
	if (field[1] == 0) /* a zombie */
		return;
	if (m->count == WATCH_PROCS)
		m->extra += (field[1] - MIN(field[1], field[2])) * m->page;
	else
		m->procs[m->count++] = (struct watch_proc){
			.pid = (pid_t)pid, .size = (uint32_t)field[0], .rss = (uint32_t)field[1], .shared = (uint32_t)field[2]};
}

static void scan_procs(struct watch_memory *m)
{
	m->count = 0;
	m->rss = m->shared = m->extra = m->signature = 0;
	lseek(m->proc_fd, 0, SEEK_SET);
	watch_each(m->proc_fd, add_proc, m);
}

static void subtract_pid(struct watch_memory *m, int dir, unsigned pid)
{
	(void)dir;
	m->signature -= (uint64_t)pid * pid;
}

/* Whether processes came or went since scan_procs(); may be asked once. */
static bool procs_changed(struct watch_memory *m)
{
	lseek(m->proc_fd, 0, SEEK_SET);
	watch_each(m->proc_fd, subtract_pid, m);
	return m->signature != 0;
}

/* ---- exact: proportional sizes --------------------------------------------------------------------------------------------------- */

static uint64_t kb_after(const char *text, const char *key, bool *found)
{
	const char *p = strstr(text, key);

	if (found)
		*found = p;
	return p ? strtoull(p + strlen(key), NULL, 10) * 1024 : 0;
}

static uint64_t anon_of(const struct watch_memory *m, const struct watch_proc *p)
{
	return (p->rss - MIN(p->rss, p->shared)) * m->page;
}

/* Anonymous bytes of p, proportional; p->shmem the shared ones. */
static uint64_t measure_proc(struct watch_memory *m, struct watch_proc *p)
{
	bool found;
	uint64_t anon = anon_of(m, p);

	p->shmem = 0;
	if (watch_read(m, p->pid, "smaps_rollup", m->buf, sizeof(m->buf)) <= 0)
		return errno == ESRCH || errno == ENOENT ? 0
		                                         : anon; /* gone; or not ours to read, or too old a kernel: resident minus shared */
	uint64_t pss_anon = kb_after(m->buf, "\nPss_Anon:", &found);
	if (!found)
		return MIN(anon, kb_after(m->buf, "\nPss:", NULL));
	p->shmem = kb_after(m->buf, "\nPss_Shmem:", NULL);
	/* "Anonymous:" is the resident size at this very moment; statm's of a while ago would make later growth count twice */
	m->base[(unsigned)p->pid % WATCH_PROCS] = (struct watch_base){
		.pid = p->pid, .pass = m->pass, .pss = pss_anon, .anon = MAX(anon, kb_after(m->buf, "\nAnonymous:", NULL))};
	return pss_anon;
}

static void sort_by_rss(struct watch_proc *v, unsigned count)
{
	for (unsigned gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) /* Shell's: no allocation, no recursion */
		for (unsigned i = gap; i < count; i++) {
			struct watch_proc p = v[i];
			unsigned j = i;
			for (; j >= gap && v[j - gap].rss < p.rss; j -= gap)
				v[j] = v[j - gap];
			v[j] = p;
		}
}

static pid_t parent_of(struct watch_memory *m, pid_t pid)
{
	const char *p;

	if (watch_read(m, pid, "stat", m->buf, 1024) <= 0 || !(p = strrchr(m->buf, ')')) || strlen(p) < 4)
		return -1;
	return (pid_t)strtol(p + 3, NULL, 10);
}

/* Whether to leave out the child of such a pair: for TWINS_MAX from when it was first seen. */
static bool twin_is_young(struct watch_memory *m, pid_t pid)
{
	for (unsigned i = 0; i < ARRAY_SIZE(m->twins); i++)
		if (m->twins[i].pid == pid) {
			m->twins[i].seen = m->now;
			return m->now - m->twins[i].since <= TWINS_MAX;
		}
	for (unsigned i = 0; i < ARRAY_SIZE(m->twins); i++)
		if (m->now - m->twins[i].seen > TWINS_MAX || !m->twins[i].pid) {
			m->twins[i] = (struct watch_twin){.pid = pid, .since = m->now, .seen = m->now};
			return true;
		}
	return false;
}

/*
 * Between vfork() and exec() a child lives in its parent's memory, and every figure in /proc shows that memory twice; a program of half the
 * limit would be killed for starting another. No interface tells such a pair from two equals (kcmp(2) wants pids that we do not
 * know), so a child that looks like its parent almost to the page is left out, but not for long.
 */
static void drop_twins(struct watch_memory *m)
{
	for (unsigned i = 0; i < m->count && m->procs[i].rss * m->page > m->limit / 16; i++)
		for (unsigned j = i + 1; j < m->count && m->procs[i].size; j++) {
			struct watch_proc *a = &m->procs[i], *b = &m->procs[j];
			if (b->size && a->rss - b->rss > a->rss / 64 + 64)
				break; /* sorted by rss */
			if (a->size != b->size)
				continue;
			bool older = parent_of(m, b->pid) == a->pid;
			if ((!older && parent_of(m, a->pid) != b->pid) || !twin_is_young(m, older ? b->pid : a->pid))
				continue;
			a->pid = older ? a->pid : b->pid;
			m->rss -= MIN(m->rss, b->rss * m->page);
			m->shared -= MIN(m->shared, b->shared * m->page);
			b->rss = b->shared = b->size = 0; /* has no say any more */
		}
}

/*
 * What the processes known from the last pass hold at least, without another pass: a page that one of them has gained since is new memory
 * (sharing comes about by fork, with the new process, which is not counted here), one that it has lost may have been shared.
 */
static uint64_t anon_at_least(const struct watch_memory *m)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < m->count; i++) {
		const struct watch_proc *p = &m->procs[i];
		const struct watch_base *b = &m->base[(unsigned)p->pid % WATCH_PROCS];
		uint64_t now = anon_of(m, p) + b->pss;
		if (b->pid == p->pid && b->pass == m->pass && now > b->anon)
			sum += now - b->anon;
	}
	return sum;
}

/*
 * What the processes that the pass did not get to hold: sharing comes about by fork, so each shares about as many bytes as each of those that
 * were seen (not the same part: those are the biggest, and what they have more than the others is their own).
 */
static uint64_t estimate_unseen(const struct watch_memory *m, unsigned seen, uint64_t shared)
{
	uint64_t sum = 0, each = shared / seen;

	for (unsigned i = seen; i < m->count; i++) {
		uint64_t anon = anon_of(m, &m->procs[i]);
		sum += anon - MIN(anon, each);
	}
	return sum;
}

/* The pass described above; true: over. `full`: it goes on even when it knows that it is not. */
static bool measure(struct watch_memory *m, uint64_t held, bool full)
{
	uint64_t anon = m->extra, mapped = 0, rest, shared = 0;

	m->pass++;
	sort_by_rss(m->procs, m->count);
	drop_twins(m);
	rest = m->rss;
	for (unsigned i = 0; i < m->count; i++) {
		struct watch_proc *p = &m->procs[i];
		if (p->rss == 0)
			continue;
		uint64_t bytes = measure_proc(m, p);
		anon += bytes;
		mapped += p->shmem;
		shared += anon_of(m, p) - MIN(anon_of(m, p), bytes);
		rest -= MIN(rest, p->rss * m->page);
		m->total = anon + MAX(mapped, held);
		m->bound = anon + mapped + held + rest;
		if (m->total > m->limit) {
			m->total += estimate_unseen(m, i + 1, shared);
			return true;
		}
		if (m->bound <= m->limit && !full) {
			m->total += estimate_unseen(m, i + 1, shared);
			return false;
		}
	}
	if (m->bound <= m->limit)
		return false;
	if (m->fds_at != m->now) { /* which inodes are held must be fresh for this */
		watch_scan_fds(m);
		held = watch_held(m);
	}
	m->total = anon + held;
	for (unsigned i = 0; i < m->count && m->total <= m->limit; i++)
		if (m->procs[i].shmem > 0)
			m->total += watch_mapped_not_held(m, &m->procs[i]);
	m->bound = m->total;
	/* Good for a while, as long as nothing grows: the full pass costs milliseconds for each hundred megabytes that are mapped. */
	m->shm_exact = m->total - anon;
	m->shm_shared = m->shared;
	m->shm_held = held;
	m->shm_until = m->now + SHM_VALID;
	return m->total > m->limit;
}

/*
 * A pass takes milliseconds. A process that was measured before it forked, and its child after, count some pages one and a half times; a
 * memfd may have been closed since it was counted. Nobody shall be killed for that: such a result is checked, but not for ever.
 */
static bool measure_well(struct watch_memory *m, uint64_t held, bool full)
{
	for (int tries = 1;; tries++) {
		bool over = measure(m, held, full);
		m->base_ok = !procs_changed(m);
		if (!over || tries == PASS_TRIES || (m->base_ok && (m->memfd_bytes == 0 || m->fds_at == m->now)))
			return over;
		scan_procs(m);
		if (m->memfd_bytes > 0)
			watch_scan_fds(m);
		held = watch_held(m);
	}
}

bool watch_memory_close(const struct watch_memory *m)
{
	return m->total > m->limit / 10 * 8 || (m->bound <= m->limit && m->bound > m->limit / 10 * 9);
}

bool watch_memory_filling(const struct watch_memory *m)
{
	return m->bound > m->limit / 2;
}

bool watch_memory_over(struct watch_memory *m, uint64_t now)
{
	struct sysinfo si;
	uint64_t gap = m->limit - MIN(m->limit, m->bound);

	if (sysinfo(&si) < 0)
		return false;
	uint64_t unit = si.mem_unit ? si.mem_unit : 1;
	uint64_t host_free = si.freeram * unit, host_shared = si.sharedram * unit;
	bool close_to = watch_memory_close(m);
	/* Growth counts from the best moment since: what others gave back in between must not hide it. */
	m->host_free = MAX(m->host_free, host_free);
	m->host_shared = MIN(m->host_shared, host_shared);
	m->fds_shared = MIN(m->fds_shared, host_shared);
	if (!close_to && now < m->next_look && host_free + gap / 8 >= m->host_free && host_shared <= m->host_shared + gap / 8)
		return false;
	m->now = now;
	m->host_free = host_free;
	m->host_shared = host_shared;

	scan_procs(m);
	watch_join_ipc(m);
	if (now >= m->next_fds || host_shared > m->fds_shared + gap / 16)
		watch_scan_fds(m);
	uint64_t held = watch_held(m), anon = m->rss - MIN(m->rss, m->shared), shm = m->shared + held;
	bool over = false;
	bool shm_known = now < m->shm_until && m->shared <= m->shm_shared + m->limit / 64 && held <= m->shm_held;
	if (shm_known)
		shm = MIN(shm, m->shm_exact + m->limit / 64);
	uint64_t least = m->base_ok ? anon_at_least(m) : 0;
	bool fits = anon + shm <= m->limit;
	/* Half full: learn who shares what, so that later the cheap figures alone can tell that the limit is passed. */
	bool learn = anon + shm > m->limit / 2 && least < anon / 8 * 7 && (now >= m->next_learn || m->rss > m->pass_rss + m->limit / 8);
	if (!fits && least + held > m->limit && (held == 0 || m->fds_at == now)) {
		over = true;
		m->bound = m->total = least + held;
	} else if ((fits && learn) || (!fits && (now >= m->next_pass || m->rss > m->pass_rss + gap / 2 || held > m->limit))) {
		over = measure_well(m, held, learn);
		m->pass_rss = m->rss;
		m->pass_cost = watch_clock() - now;
		/* copying on write changes what is held without changing any resident size, so passes go on; but not all the time */
		m->next_pass = now + MAX((m->limit - MIN(m->limit, m->total)) / FILL_RATE, m->pass_cost * (watch_memory_close(m) ? 2 : 5));
		m->next_learn = now + LEARN_INTERVAL;
	} else if (fits) {
		m->bound = anon + shm;
		m->total = anon + (shm_known ? m->shm_exact : held);
	}
	gap = m->limit - MIN(m->limit, m->bound);
	m->next_look = now + MIN(MAX(gap / FILL_RATE, LOOK_MIN), LOOK_MAX);
	return over;
}

void watch_memory_init(struct watch_memory *m, uint64_t limit, int proc_fd, int tmpfs_fd, int memfd)
{
	struct stat st;

	m->limit = limit;
	m->host_shared = m->fds_shared = UINT64_MAX; /* until the first look */
	m->page = (uint64_t)sysconf(_SC_PAGESIZE);
	m->proc_fd = proc_fd;
	m->tmpfs_fd = tmpfs_fd;
	if (fstat(memfd, &st) == 0)
		m->shm_dev = st.st_dev; /* all memfds, shared anonymous mappings and System V segments live on one internal tmpfs */
	if (tmpfs_fd >= 0 && fstat(tmpfs_fd, &st) == 0)
		m->tmpfs_dev = st.st_dev;
}
