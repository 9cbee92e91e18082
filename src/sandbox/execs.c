/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/execs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/exec_check.h"
#include "sandbox/notify.h"

#define FORKED_NO_EXEC 0x40u /* PF_FORKNOEXEC of the kernel's sched.h, as in /proc/PID/stat */

/* Linux 6.13, the status since 6.15; see pidfd.h of the kernel. */
struct pidfd_facts {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};
#define PIDFD_GET_FACTS _IOWR(0xff, 11, struct pidfd_facts)
#define PIDFD_HAS_PID (1u << 0)
#define PIDFD_HAS_STATUS (1u << 3)

struct execs {
	struct execs_config config;
	struct exec_check check;
	int epoll;
	size_t open, waiting; /* slots in these states */
	size_t dying;         /* of the open ones: they have ended, and their parents may not have noticed yet */
	bool tells_status;    /* a pidfd does, once the parent has */
	int pidfds[TRACE_SLOTS];
};

static bool is_exec(int nr)
{
	return nr == SYS_execve || nr == SYS_execveat;
}

bool execs_is_call(int nr)
{
#ifdef SYS_fork
	if (nr == SYS_fork || nr == SYS_vfork)
		return true;
#endif
	return is_exec(nr) || nr == SYS_clone;
}

static uint64_t clock_us(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------ */

static void close_pidfd(struct execs *x, size_t i)
{
	cleanup_fd(&x->pidfds[i]); /* and it leaves the epoll set: there is no other copy */
	x->pidfds[i] = -1;
}

static void set_ended(struct execs *x, size_t i, uint32_t flags, int status)
{
	struct trace_slot *s = &x->config.table->slots[i];
	if (s->kind == TRACE_EXEC && !s->dying)
		s->duration_us = clock_us(CLOCK_MONOTONIC) - s->begun_us;
	s->flags |= flags;
	s->status = status;
	x->open -= s->state == TRACE_SLOT_OPEN;
	x->dying -= s->dying;
	x->waiting++;
	close_pidfd(x, i);
	s->state = TRACE_SLOT_ENDED; /* last: from here on init may send it */
}

/* A slot to be filled in; the one that is open for the longest time, if all are in use. TRACE_SLOTS: all of them wait. */
static size_t find_room(struct execs *x)
{
	struct trace_table *t = x->config.table;
	size_t oldest = TRACE_SLOTS;
	for (size_t i = 0; i < TRACE_SLOTS; i++) {
		if (i >= t->used) {
			t->used = (uint32_t)i + 1;
			return i;
		}
		if (t->slots[i].state == TRACE_SLOT_FREE)
			return i;
		if (t->slots[i].state == TRACE_SLOT_OPEN && (oldest == TRACE_SLOTS || t->slots[i].begun_us < t->slots[oldest].begun_us))
			oldest = i;
	}
	if (oldest < TRACE_SLOTS)
		set_ended(x, oldest, TRACE_RUNNING, TRACE_UNKNOWN);
	return TRACE_SLOTS;
}

/* ---- how it went ---------------------------------------------------------------------------------------------------------------- */

static bool get_facts(int pidfd, uint32_t wanted, struct pidfd_facts *out)
{
	*out = (struct pidfd_facts){.mask = wanted};
	return pidfd >= 0 && ioctl(pidfd, PIDFD_GET_FACTS, out) == 0 && (out->mask & wanted);
}

/* The process runs what it ran before the call. Known of those only of which nobody could tell beforehand whether they may be executed. */
static bool has_failed(const struct trace_slot *s, const struct notify_stat *now)
{
	if (s->forked)
		return now->flags & FORKED_NO_EXEC;
	return s->stack && s->stack == now->stack;
}

/* Where programs are listed, an execve that fails was denied, most probably. */
static void set_denied(struct execs *x, size_t i)
{
	struct trace_slot *s = &x->config.table->slots[i];
	s->kind = TRACE_DENIED;
	s->duration_us = 0;
	set_ended(x, i, 0, TRACE_UNKNOWN);
}

/* One that has ended. False: its status is not known yet, and will be when its parent has fetched it. */
static bool end_slot(struct execs *x, size_t i, bool now_or_never)
{
	const struct trace_slot *s = &x->config.table->slots[i];
	struct pidfd_facts facts;
	struct notify_stat now;
	if (get_facts(x->pidfds[i], PIDFD_HAS_STATUS, &facts)) {
		set_ended(x, i, 0, facts.exit_code);
		return true;
	}
	if (x->tells_status && !s->unsure && !now_or_never)
		return false;
	const bool zombie = notify_read_stat(s->pid, &now) && now.state == 'Z' && now.parent == s->ppid;
	if (zombie && s->unsure && has_failed(s, &now))
		set_denied(x, i);
	else if (zombie)
		set_ended(x, i, 0, now.exit_code);
	else /* fetched meanwhile */
		set_ended(x, i, 0, get_facts(x->pidfds[i], PIDFD_HAS_STATUS, &facts) ? facts.exit_code : TRACE_UNKNOWN);
	return true;
}

static void note_end(struct execs *x, size_t i)
{
	struct trace_slot *s = &x->config.table->slots[i];
	if (s->state != TRACE_SLOT_OPEN || end_slot(x, i, false) || s->dying)
		return;
	s->duration_us = clock_us(CLOCK_MONOTONIC) - s->begun_us;
	s->dying = 1;
	x->dying++;
}

static void settle(struct execs *x, bool now_or_never)
{
	const struct trace_table *t = x->config.table;
	for (size_t i = 0; x->dying && i < t->used; i++)
		if (t->slots[i].state == TRACE_SLOT_OPEN && t->slots[i].dying)
			end_slot(x, i, now_or_never);
}

void execs_look(struct execs *x, bool last)
{
	struct epoll_event events[64];
	int n;
	do {
		n = epoll_wait(x->epoll, events, ARRAY_SIZE(events), 0);
		for (int i = 0; i < n; i++)
			note_end(x, events[i].data.u32);
	} while (n == (int)ARRAY_SIZE(events));
	settle(x, last);
}

static bool has_ended(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	return pidfd >= 0 && poll(&p, 1, 0) > 0;
}

/* The process of a slot calls execve again, or another has its number by now. */
static void close_former(struct execs *x, const struct trace_slot *s)
{
	const struct trace_table *t = x->config.table;
	struct notify_stat now;
	for (size_t i = 0; x->open && i < t->used; i++) {
		const struct trace_slot *former = &t->slots[i];
		if (former->state != TRACE_SLOT_OPEN || former->pid != s->pid || former == s)
			continue;
		if (has_ended(x->pidfds[i]))
			end_slot(x, i, true);
		else if (former->unsure && notify_read_stat(s->pid, &now) && has_failed(former, &now))
			set_denied(x, i);
		else
			set_ended(x, i, TRACE_BY_EXEC, TRACE_UNKNOWN);
	}
}

/* ---- what is asked for ---------------------------------------------------------------------------------------------------------- */

struct call {
	int dirfd, flags;
	uint64_t path, argv;
};

static struct call call_of(const struct seccomp_notif *n)
{
	const __u64 *a = n->data.args;
	if (n->data.nr == SYS_execve)
		return (struct call){.dirfd = AT_FDCWD, .path = a[0], .argv = a[1]};
	return (struct call){.dirfd = (int)a[0], .flags = (int)a[4], .path = a[1], .argv = a[2]};
}

/* As many words as fit. */
static void read_argv(struct notify_memory *m, uint64_t address, struct trace_slot *s)
{
	uint64_t words[TRACE_WORDS_MAX + 1];
	const size_t count = address ? notify_read(m, address, words, sizeof(words)) / sizeof(words[0]) : 0;
	const size_t room = MIN(TRACE_ARGV_MAX, sizeof(s->text) - s->path_len);
	size_t i;
	for (i = 0; i < count && words[i] && i < TRACE_WORDS_MAX; i++) {
		char *to = s->text + s->path_len + s->argv_len;
		const size_t left = room - s->argv_len;
		size_t n = left ? notify_read_string(m, words[i], to, left) : 0;
		if (n == 0 && left && notify_read(m, words[i], to, left) == left) { /* it is longer than that */
			n = left;
			to[n - 1] = '\0';
			s->flags |= TRACE_CUT;
		}
		if (n == 0)
			break;
		s->argv_len += (uint32_t)n;
	}
	if (i < count && words[i])
		s->flags |= TRACE_CUT;
}

/* Where a path of the caller's leads from its working directory, or what a descriptor is (fexecve(3)). */
static void name_file(int fd, struct trace_slot *s)
{
	char link[32];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, s->text, TRACE_PATH_MAX - 1);
	if (n > 0) {
		s->path_len = (uint32_t)n + 1;
		s->text[n] = '\0';
	}
}

/* As openat(2) with O_PATH would for the caller: /proc/self is its own, not ours, and /dev/fd leads there. */
static int open_for(pid_t thread, int base, const char *path, int flags)
{
	static const struct {
		const char *prefix, *below;
	} own[] = {{"/proc/self/", ""}, {"/proc/thread-self/", ""}, {"/dev/fd/", "fd/"}};
	char theirs[TRACE_PATH_MAX];
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		const size_t len = strlen(own[i].prefix);
		int n = strncmp(path, own[i].prefix, len) != 0
		                ? -1
		                : snprintf(theirs, sizeof(theirs), "/proc/%d/%s%s", (int)thread, own[i].below, path + len);
		if (n > 0 && n < (int)sizeof(theirs))
			path = theirs;
	}
	return openat(base, path, O_PATH | O_CLOEXEC | (flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0));
}

enum found { FOUND_NOTHING, FOUND_REFUSED, FOUND };

/* What the caller would find, by mode and mount, and by Landlock where that matters. */
static enum found find(struct execs *x, pid_t thread, const struct call *c, struct trace_slot *s)
{
	struct stat st;
	const bool by_fd = s->text[0] == '\0';
	_cleanup_fd_ int base = s->text[0] == '/' ? -1 : notify_open_base(thread, s->text, c->dirfd);
	_cleanup_fd_ int file = by_fd ? -1 : open_for(thread, base, s->text, c->flags);
	const int fd = by_fd ? base : file;
	if (fd < 0 || fstat(fd, &st) < 0)
		return FOUND_NOTHING;
	if (s->text[0] != '/' || strncmp(s->text, "/proc/", 6) == 0 || strncmp(s->text, "/dev/", 5) == 0)
		name_file(fd, s);
	if (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
		return FOUND_NOTHING;
	if (!S_ISREG(st.st_mode))
		return FOUND_REFUSED;
	const int error = exec_check(&x->check, fd, &st);
	s->unsure = error < 0;
	return error <= 0 ? FOUND : error == ENOENT ? FOUND_NOTHING : FOUND_REFUSED;
}

/* Path and arguments, and what the path leads to. */
static enum found read_call(struct execs *x, const struct seccomp_notif *n, struct trace_slot *s)
{
	const struct call c = call_of(n);
	_cleanup_memory_ struct notify_memory memory;
	enum found found = FOUND_NOTHING;
	memset(s, 0, offsetof(struct trace_slot, text));
	notify_memory_open(&memory, (pid_t)n->pid);
	s->path_len = (uint32_t)notify_read_string(&memory, c.path, s->text, TRACE_PATH_MAX);
	if (s->path_len > 1 || (s->path_len == 1 && (c.flags & AT_EMPTY_PATH)))
		found = find(x, (pid_t)n->pid, &c, s);
	if (found != FOUND_NOTHING)
		read_argv(&memory, c.argv, s);
	return found;
}

/* ---- one call ------------------------------------------------------------------------------------------------------------------- */

/* From now on the process is watched. */
static void open_slot(struct execs *x, size_t i)
{
	struct trace_slot *s = &x->config.table->slots[i];
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u32 = (uint32_t)i};
	s->state = TRACE_SLOT_OPEN;
	x->open++;
	if (x->pidfds[i] < 0 || epoll_ctl(x->epoll, EPOLL_CTL_ADD, x->pidfds[i], &ev) < 0)
		set_ended(x, i, 0, TRACE_UNKNOWN); /* no more descriptors: at least that it was started is told */
}

static int open_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Which process it is. A pidfd is of processes only: for the number of any other of its threads there is none. */
static bool identify(struct execs *x, pid_t thread, size_t i)
{
	struct trace_slot *s = &x->config.table->slots[i];
	struct pidfd_facts facts;
	struct notify_stat now;
	s->pid = thread;
	x->pidfds[i] = open_pidfd(thread);
	if (x->pidfds[i] < 0) {
		s->pid = notify_process_of(thread);
		x->pidfds[i] = open_pidfd(s->pid);
	}
	if (!s->unsure && get_facts(x->pidfds[i], PIDFD_HAS_PID, &facts)) {
		s->ppid = (int32_t)facts.ppid;
		return true;
	}
	if (!notify_read_stat(s->pid, &now))
		return false;
	s->ppid = now.parent;
	s->stack = now.stack;
	s->forked = s->pid == thread && (now.flags & FORKED_NO_EXEC);
	return true;
}

/* A second process, which is refused: told once, since who is refused one tries again. */
static enum found read_fork(struct execs *x, struct trace_slot *s)
{
	static const char name[] = "fork";
	memset(s, 0, offsetof(struct trace_slot, text));
	memcpy(s->text, name, sizeof(name));
	s->path_len = sizeof(name);
	return x->config.table->forks++ == 0 ? FOUND_REFUSED : FOUND_NOTHING;
}

/* Fills in a slot and says what to make of it. False: nothing to be told. */
static bool describe(struct execs *x, const struct seccomp_notif *n, size_t i)
{
	struct trace_slot *s = &x->config.table->slots[i];
	const enum found found = is_exec(n->data.nr) ? read_call(x, n, s) : read_fork(x, s);
	const bool denied = x->config.alone || (found == FOUND_REFUSED && x->config.listed);
	if (found == FOUND_NOTHING || (found == FOUND_REFUSED && !denied) || !identify(x, (pid_t)n->pid, i))
		return false;
	s->kind = denied ? TRACE_DENIED : TRACE_EXEC;
	s->time_us = clock_us(CLOCK_REALTIME);
	s->begun_us = clock_us(CLOCK_MONOTONIC);
	s->status = TRACE_UNKNOWN;
	if (!notify_is_waiting(x->config.listener, n->id))
		return false; /* it may have been another that was read */
	close_former(x, s);
	return true;
}

static void record(struct execs *x, const struct seccomp_notif *n)
{
	struct trace_table *t = x->config.table;
	if (t->seen >= TRACE_MOST) {
		t->lost++;
		return;
	}
	size_t i = find_room(x);
	if (i == TRACE_SLOTS) {
		execs_send(x);
		i = find_room(x);
	}
	if (i == TRACE_SLOTS) {
		t->lost++;
		return;
	}
	if (!describe(x, n, i)) {
		close_pidfd(x, i);
		return;
	}
	t->seen++;
	if (t->slots[i].kind == TRACE_DENIED)
		set_ended(x, i, 0, TRACE_UNKNOWN);
	else
		open_slot(x, i);
}

static void answer(const struct execs *x, uint64_t id)
{
	if (x->config.alone)
		notify_answer(x->config.listener, id, EPERM);
	else
		notify_go_on(x->config.listener, id);
}

void execs_handle(struct execs *x, const struct seccomp_notif *n)
{
	x->config.table->answering = n->id;
	settle(x, false);
	record(x, n);
	answer(x, n->id);
	x->config.table->answering = 0;
}

/* ---- around it ------------------------------------------------------------------------------------------------------------------ */

/* An earlier supervisor was killed: how what it watched will end, nobody knows. But who waits for its answer gets it. */
static void take_over(struct execs *x)
{
	struct trace_table *t = x->config.table;
	for (size_t i = 0; i < t->used; i++) {
		t->slots[i].dying = 0;
		x->open += t->slots[i].state == TRACE_SLOT_OPEN;
		x->waiting += t->slots[i].state == TRACE_SLOT_ENDED;
		if (t->slots[i].state == TRACE_SLOT_OPEN)
			set_ended(x, i, 0, TRACE_UNKNOWN);
	}
	if (t->answering) {
		t->lost++;
		answer(x, t->answering);
		t->answering = 0;
	}
}

/* There is no question to try it with before a process has ended. */
static bool knows_status(void)
{
	struct utsname u;
	int major = 0, minor = 0;
	return uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 && (major > 6 || (major == 6 && minor >= 15));
}

struct execs *execs_begin(const struct execs_config *config)
{
	static struct execs x; /* one per process; keeps the stack small */
	x.config = *config;
	for (size_t i = 0; i < TRACE_SLOTS; i++)
		x.pidfds[i] = -1;
	x.epoll = epoll_create1(EPOLL_CLOEXEC);
	x.tells_status = knows_status();
	exec_check_begin(&x.check, config->listed ? config->landlock_fd : -1);
	if (x.epoll < 0)
		return NULL;
	take_over(&x);
	return &x;
}

int execs_fd(const struct execs *x)
{
	return x->epoll;
}

size_t execs_waiting(const struct execs *x)
{
	return x->waiting;
}

size_t execs_dying(const struct execs *x)
{
	return x->dying;
}

size_t execs_open(const struct execs *x)
{
	return x->open;
}

bool execs_send(struct execs *x)
{
	size_t sent = 0;
	const bool all = trace_send(x->config.sock, x->config.table, &sent);
	x->waiting -= sent;
	return all;
}
