/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher's loop: wait for pid 1 to end, and between two ticks look at memory (watch_memory.c) and disk (watch_disk.c). */
#include "sandbox/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/util.h"
#include "sandbox/watch_parts.h"

#define MS 1000000ULL
#define TICK (5 * MS)
#define TICK_CLOSE (1 * MS) /* while near a limit */
#define TICK_WALK (MS / 5)  /* between two slices of a walk: even at a real-time priority others get on */
#define TICK_DISK (5 * MS)
#define WALK_ANYWAY (2000 * MS)
#define EVADE_TRIES 16
#define WALK_SLICE 400 /* directory entries between two looks at memory, well under a millisecond */

struct watch {
	const struct watch_request *req;
	struct watch_record *record;
	struct watch_memory memory;
	struct watch_walk walk;
	/* disk */
	uint64_t next_disk, walk_started, walk_cost;
	uint64_t known_bytes, known_files;
	struct watch_used at_walk;
	bool walked;
	bool killed;
	bool niced, no_nice; /* the sandbox's weight is lowered; there is no use in it */
	uint64_t next_nice;
	unsigned evade_tries;
};

int watch_record_new(struct cordon_error *err)
{
	_cleanup_fd_ int fd = (int)syscall(SYS_memfd_create, "cordon-watch", 1U /* MFD_CLOEXEC */);

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		return err_sys(err, "cannot make the watcher's record (memfd_create)");
	return steal_fd(&fd);
}

struct watch_used watch_used(const int tree_fds[WATCH_TREES])
{
	struct watch_used used = {.counts_bytes = true, .counts_files = true};
	struct statfs fs;
	struct stat st;
	dev_t first = 0;

	for (size_t i = 0; i < WATCH_TREES; i++) {
		if (tree_fds[i] < 0 || fstat(tree_fds[i], &st) < 0 || (i > 0 && st.st_dev == first) || fstatfs(tree_fds[i], &fs) < 0)
			continue;
		first = i == 0 ? st.st_dev : first;
		used.bytes += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
		used.files += (uint64_t)(fs.f_files - fs.f_ffree);
		used.counts_bytes &= fs.f_blocks > 0;
		used.counts_files &= fs.f_files > 0;
	}
	return used;
}

static uint64_t grown(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

bool watch_grew(const struct watch_used *then, const struct watch_used *now, uint64_t disk, uint64_t inodes)
{
	return grown(now->bytes, then->bytes) >= disk / 8 || (inodes && grown(now->files, then->files) >= inodes / 8);
}

/* Whether the trees may hold so much more than at the last walk that it is worth another. */
static bool walk_is_due(const struct watch *w, const struct watch_used *used, uint64_t now)
{
	const struct watch_request *req = w->req;
	uint64_t bytes = grown(used->bytes, w->at_walk.bytes), files = grown(used->files, w->at_walk.files);

	if (!w->walked)
		return true;
	if (now - w->walk_started < w->walk_cost * 4) /* a big tree is not walked all the time */
		return false;
	if (watch_grew(&w->at_walk, used, req->disk, req->inodes) || (bytes > 0 && w->known_bytes + bytes > req->disk))
		return true;
	if (req->inodes && files > 0 && w->known_files + files > req->inodes)
		return true;
	bool changed = !used->counts_bytes || !used->counts_files || used->bytes != w->at_walk.bytes || used->files != w->at_walk.files;
	return changed && now - w->walk_started >= WALK_ANYWAY;
}

static bool walk_is_over(struct watch *w)
{
	const struct watch_request *req = w->req;
	uint64_t bytes = w->walk.bytes, files = w->walk.files;

	if (w->memory.proc_fd >= 0) { /* files without a name still take room */
		watch_scan_fds(&w->memory);
		bytes += w->memory.unlinked_bytes;
	}
	if (w->walk.torn) { /* hidden or moved while being walked: then what the file system grew by is taken as the sandbox's */
		struct watch_used used = watch_used(req->tree_fds);
		bytes = MAX(bytes, w->known_bytes + grown(used.bytes, w->at_walk.bytes));
		files = MAX(files, w->known_files + grown(used.files, w->at_walk.files));
	}
	w->known_bytes = bytes;
	w->known_files = files;
	w->record->disk_peak = MAX(w->record->disk_peak, bytes);
	return bytes > req->disk || (req->inodes && files > req->inodes) || w->walk.too_deep;
}

/* Looks, if it is time to, or goes on with a walk. true: over. */
static bool disk_over(struct watch *w, uint64_t now)
{
	if (!w->walk.active) {
		if (now < w->next_disk)
			return false;
		w->next_disk = now + TICK_DISK;
		struct watch_used used = watch_used(w->req->tree_fds);
		if (!walk_is_due(w, &used, now))
			return false;
		w->at_walk = used;
		w->walk_started = now;
		w->walked = true;
		watch_walk_start(&w->walk, w->req->tree_fds);
	}
	bool done = watch_walk_step(&w->walk, WALK_SLICE);
	w->walk_cost = watch_clock() - w->walk_started;
	return done ? walk_is_over(w) : w->walk.bytes > w->req->disk;
}

/*
 * Two hundred greedy processes must not keep their watcher off the CPU: on two cores its fair share would be one percent. Root takes the
 * lowest real-time priority (sched(7)). An ordinary user gets, by a session of its own, a group of its own where the kernel has
 * automatic task groups on, and so half of a core if it needs it; short time slices bring an early deadline after a wake-up (EEVDF, since
 * 6.12). Where neither helps, a sandbox that may not use all CPUs leaves one for us.
 */
static void hurry(struct watch *w)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} slice = {.size = 48, .runtime = MS / 10};

	setsid();
	/* the system call itself: musl's function of that name only says ENOSYS */
	if (syscall(SYS_sched_setscheduler, 0, SCHED_RR, &(struct sched_param){.sched_priority = 1}) == 0) {
		w->no_nice = true; /* no need */
		return;
	}
	setpriority(PRIO_PROCESS, 0, -20);
	slice.nice = getpriority(PRIO_PROCESS, 0);
	syscall(SYS_sched_setattr, 0, &slice, 0);
}

/*
 * A sandbox whose CPU limit is an affinity mask leaves CPUs free: go there, since the scheduler may well let us wait behind its processes.
 * The mask is pid 1's, "Cpus_allowed_list:\t0-2,5" in its status; it may be set a little after the watcher started.
 */
static void evade(struct watch *w)
{
	enum { WORDS = 16 };
	unsigned long mine[WORDS] = {0};
	const unsigned bits = 8 * sizeof(mine[0]);
	char text[4096];
	_cleanup_fd_ int fd = openat(w->memory.proc_fd, "1/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[MAX(n, 0)] = '\0';
	char *p = strstr(text, "\nCpus_allowed_list:");
	if (!p || syscall(SYS_sched_getaffinity, 0, sizeof(mine), mine) < 0)
		return;
	for (p = strchr(p, '\t'); p && *p && *p != '\n'; p++) {
		unsigned long from = strtoul(p, &p, 10), to = *p == '-' ? strtoul(p + 1, &p, 10) : from;
		for (; from <= to && from < WORDS * bits; from++)
			mine[from / bits] &= ~(1UL << from % bits);
		if (*p != ',')
			break;
	}
	if (syscall(SYS_sched_setaffinity, 0, sizeof(mine), mine) == 0) /* EINVAL: nothing is left */
		w->evade_tries = EVADE_TRIES;
}

/*
 * An ordinary user cannot raise its own weight, but it can lower that of the sandbox's automatic task group while it fills up, and give it
 * back later (sched(7), "The autogroup feature"; ten writes a second are allowed on the whole machine, EAGAIN). Not if pid 1 is in somebody
 * else's session, 0 in its own pid namespace.
 */
static void yield_cpu(struct watch *w, bool filling, uint64_t now)
{
	char text[512], *p;
	int session = 0;

	if (w->no_nice || filling == w->niced || now < w->next_nice)
		return;
	if (watch_read(&w->memory, 1, "stat", text, sizeof(text)) > 0 && (p = strrchr(text, ')')) && strlen(p) > 4) {
		p += 4; /* ") S", then the parent, the process group, the session */
		for (int i = 0; i < 3; i++)
			session = (int)strtol(p, &p, 10);
	}
	_cleanup_fd_ int fd = session > 0 ? openat(w->memory.proc_fd, "1/autogroup", O_WRONLY | O_CLOEXEC) : -1;
	if (fd >= 0 && write(fd, filling ? "19" : "0", filling ? 2 : 1) > 0)
		w->niced = filling;
	else if (session > 0 && errno != EAGAIN)
		w->no_nice = true;
	w->next_nice = now + TICK;
}

/*
 * Killing pid 1 is enough to end the sandbox, but pid 1 must run to pass it on, and among hundreds of busy processes that can take half a
 * second, in which they all go on. So each gets its own signal, and again until pid 1 is gone, for those that were being forked.
 */
static void add_cpu(struct watch_memory *m, int dir, unsigned pid)
{
	char text[1024];
	unsigned long times[4]; /* user, system, and those of children that were reaped: fields 14 to 17, the third to fifteenth skipped */
	const char *p;

	(void)dir;
	if (watch_read(m, (pid_t)pid, "stat", text, sizeof(text)) > 0 && (p = strrchr(text, ')')) &&
	    sscanf(p, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &times[0], &times[1], &times[2], &times[3]) == 4)
		m->cpu_ticks += times[0] + times[1] + times[2] + times[3];
}

/* v1 has no memory.oom.group: the kernel takes one process, and the rest goes on without it. */
bool watch_oom_killed(int fd)
{
	char text[256];
	const char *p;
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return (p = strstr(text, "\noom_kill ")) && p[10] != '0';
}

static void kill_sandbox(struct watch *w)
{
	if (!w->killed && w->memory.proc_fd >= 0) {
		lseek(w->memory.proc_fd, 0, SEEK_SET);
		watch_each(w->memory.proc_fd, add_cpu, &w->memory);
		w->record->cpu_us = w->memory.cpu_ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	}
	w->killed = true;
	syscall(SYS_pidfd_send_signal, w->req->init_pidfd, SIGKILL, NULL, 0);
	if (w->memory.proc_fd >= 0)
		watch_kill_procs(&w->memory);
}

static void look(struct watch *w)
{
	uint64_t now = watch_clock();
	struct watch_record *r = w->record;

	if (w->req->memory) {
		if (w->evade_tries < EVADE_TRIES && w->evade_tries++ % 4 == 0)
			evade(w);
		yield_cpu(w, watch_memory_filling(&w->memory), now);
		r->over_memory = watch_memory_over(&w->memory, now);
		r->memory_peak = MAX(r->memory_peak, w->memory.total);
	}
	if (w->req->disk && !r->over_memory && disk_over(w, now)) {
		r->disk_peak = MAX(r->disk_peak, w->walk.bytes);
		r->over_disk = 1;
	}
	if (watch_oom_killed(w->req->oom_fd))
		r->over_memory = 1;
	if (r->over_memory || r->over_disk)
		kill_sandbox(w);
}

static uint64_t next_tick(const struct watch *w)
{
	if (w->killed)
		return TICK_CLOSE;
	if (w->walk.active)
		return TICK_WALK;
	if (!w->req->memory)
		return TICK_DISK;
	return watch_memory_close(&w->memory) ? TICK_CLOSE : TICK;
}

void watch_run(const struct watch_request *req)
{
	struct watch_record fallback = {0};
	struct pollfd pid1 = {.fd = req->init_pidfd, .events = POLLIN};
	/* Several hundred kilobytes at most, touched only as far as they are needed. */
	struct watch *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* A descriptor of our own, since the position in the directory belongs to the open file. */
	_cleanup_fd_ int proc_fd = req->proc_fd < 0 ? -1 : openat(req->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (w == MAP_FAILED || (req->memory && proc_fd < 0)) { /* a limit that cannot be watched must not pass for one that holds */
		syscall(SYS_pidfd_send_signal, req->init_pidfd, SIGKILL, NULL, 0);
		return;
	}
	w->req = req;
	w->record = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, req->record_fd, 0);
	if (w->record == MAP_FAILED)
		w->record = &fallback;
	watch_memory_init(&w->memory, req->memory, proc_fd, req->tmpfs_fd, req->record_fd);
	if (req->memory) /* disks fill more slowly */
		hurry(w);
	for (;;) {
		uint64_t wait = next_tick(w);
		struct timespec ts = {.tv_nsec = (long)wait};
		int n = ppoll(&pid1, 1, &ts, NULL);
		if (n > 0 || (n < 0 && errno != EINTR))
			break;
		if (w->killed)
			kill_sandbox(w);
		else
			look(w);
	}
	if (w->record != &fallback)
		munmap(w->record, 4096);
	munmap(w, sizeof(*w));
}
