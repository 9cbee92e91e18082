/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/renames.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/landlock.h"
#include "sandbox/renames_parts.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6: the answer wakes its caller on the same CPU */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#define WORKERS_MAX 16 /* directories that are moved at the same time; further renames wait */

static bool may_have_lower(const struct sandbox_spec *spec, const struct setup_op *op)
{
	return op->kind == OP_LAYERED && ((spec->flags & SPEC_LIVE) || (op->source && *op->source) || op->layers.count > LAYERED_LOWER);
}

bool renames_needed(const struct sandbox_spec *spec)
{
	for (uint32_t i = 0; i < spec->op_count; i++)
		if (may_have_lower(spec, &spec->ops[i]))
			return true;
	return false;
}

/* ---- the command's child, and init ---------------------------------------------------------------------------------------------- */

static int load_plain(const struct seccomp_program *prog)
{
	static struct seccomp_program plain;
	plain = *prog;
	seccomp_allow_notified(&plain);
	return seccomp_load(&plain);
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

static int send_descriptor(int sock, int fd)
{
	char byte = 0;
	union control control = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int renames_load(const struct seccomp_program *prog, int sock)
{
	int listener = seccomp_load_listener(prog);
	if (listener == -EINVAL || listener == -EBUSY) /* before Linux 5.0; or we run under somebody else's listener */
		return load_plain(prog);
	if (listener < 0)
		return listener;
	int r = send_descriptor(sock, listener);
	close(listener); /* the command must never have it: it could answer its own calls */
	return r;
}

ssize_t renames_receive(int sock, void *data, size_t len, int *listener)
{
	for (;;) {
		union control control = {0};
		struct iovec iov = {data, len};
		struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
		ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
		const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);
		if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			return n;
		cleanup_fd(listener);
		memcpy(listener, CMSG_DATA(c), sizeof(int));
	}
}

/* ---- talking to the kernel ------------------------------------------------------------------------------------------------------ */

/* Newer kernels may have longer forms (SECCOMP_GET_NOTIF_SIZES). */
union notification {
	struct seccomp_notif n;
	char room[512];
};

static bool receive(int listener, union notification *out)
{
	memset(out, 0, sizeof(*out)); /* the kernel insists */
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, out) == 0;
}

/* If nobody waits for it any more, nothing happens. */
static void respond(int listener, uint64_t id, int error, uint32_t flags)
{
	union {
		struct seccomp_notif_resp r;
		char room[512];
	} answer = {.r = {.id = id, .error = -error, .flags = flags}};
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static void go_on(int listener, uint64_t id)
{
	respond(listener, id, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

void renames_decline(int listener)
{
	union notification n;
	if (receive(listener, &n))
		go_on(listener, n.n.id);
}

/* ---- the worker ----------------------------------------------------------------------------------------------------------------- */

static int try_rename(const struct request *r, unsigned flags)
{
	return syscall(SYS_renameat2, r->old.parent, r->old.name, r->new.parent, r->new.name, flags) < 0 ? errno : 0;
}

/* 0 or an errno. */
static int act(const struct request *r, const struct timespec *born, int lock)
{
	const unsigned flags = flags_of(call_of(r->nr), r->args);
	int error = try_rename(r, flags);
	if (error != EXDEV)
		return error;
	/*
	 * By hand one after another, as in the kernel, so that of two who want the same directory one gets it and one does not find it. The
	 * lock ends with this process; on a file of init's own, which nothing inside can lock.
	 */
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (lock < 0 || fcntl(lock, F_SETLKW, &all) < 0)
		return EXDEV;
	error = try_rename(r, flags);
	if (error != EXDEV)
		return error;
	return rename_by_hand(r->old.parent, r->old.name, r->new.parent, r->new.name, flags, born);
}

/* What a worker has to say. */
struct outcome {
	int error;   /* 0 or an errno */
	dev_t dev;   /* of the directory under its new name */
	ino_t inode; /* 0: unknown */
};

/* From here on with no more rights than the caller had at its start. */
_Noreturn static void work(const struct request *r, int landlock_fd, int lock, const struct timespec *born, int result)
{
	struct outcome o = {.error = EXDEV};
	struct stat st;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (confine_capabilities(0) == 0 && (landlock_fd < 0 || landlock_restrict(landlock_fd) == 0))
		o.error = act(r, born, lock);
	if (o.error == 0 && fstatat(r->new.parent, r->new.name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		o.dev = st.st_dev;
		o.inode = st.st_ino;
	}
	_exit(write(result, &o, sizeof(o)) == (ssize_t)sizeof(o) ? 0 : 1);
}

/* ---- the supervisor ------------------------------------------------------------------------------------------------------------- */

/*
 * A directory that is being moved, or that was. A caller that is interrupted or frozen while it waits calls again, and so may one that was
 * interrupted just when the answer came; the kernel tells neither. It must find that its directory was moved, and not that it is missing.
 */
struct job {
	enum { JOB_NONE, JOB_RUNNING, JOB_DONE } state;
	pid_t worker;
	int result;
	struct outcome outcome;
	struct request request;
};

struct supervisor {
	int listener, landlock_fd, lock;
	bool hung_up;
	struct timespec born;
	struct narrowed narrowed;
	struct request request;
	struct job jobs[WORKERS_MAX];
};

/* The one that is done for the longest time, if all are in use. NULL: all of them run. */
static struct job *free_job(struct supervisor *s)
{
	struct job *oldest = NULL;
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		struct job *j = &s->jobs[i];
		if (j->state == JOB_NONE)
			return j;
		if (j->state == JOB_DONE && (!oldest || j->request.id < oldest->request.id))
			oldest = j;
	}
	return oldest;
}

/* The directory is still where the last call put it, and nothing came in its old place: who repeats the call was not told. */
static bool is_as_left(const struct job *j, struct request *now)
{
	struct stat old, new;
	bool same = find_again(&j->request, now) && fstatat(now->old.parent, now->old.name, &old, AT_SYMLINK_NOFOLLOW) < 0 &&
	            errno == ENOENT && fstatat(now->new.parent, now->new.name, &new, AT_SYMLINK_NOFOLLOW) == 0 && j->outcome.inode != 0 &&
	            new.st_dev == j->outcome.dev &&new.st_ino == j->outcome.inode;
	close_request(now);
	return same;
}

/* True if the call is one that was made before, and is taken care of. */
static bool resume(struct supervisor *s, const struct seccomp_notif *n)
{
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		struct job *j = &s->jobs[i];
		if (j->state == JOB_NONE || j->request.thread != (pid_t)n->pid)
			continue;
		bool again = is_repeated(&j->request, n, &s->request);
		if (again && j->state == JOB_RUNNING) {
			j->request.id = n->id;
			return true;
		}
		if (again && is_as_left(j, &s->request)) {
			respond(s->listener, n->id, 0, 0);
			return true;
		}
		if (j->state == JOB_DONE)
			j->state = JOB_NONE;
	}
	return false;
}

static bool start_worker(struct supervisor *s, struct job *j)
{
	int result[2];
	if (pipe2(result, O_CLOEXEC) < 0)
		return false;
	j->request = s->request;
	j->worker = fork();
	if (j->worker == 0) {
		close(s->listener);
		work(&j->request, s->landlock_fd, s->lock, &s->born, result[1]);
	}
	close(result[1]);
	if (j->worker < 0) {
		close(result[0]);
		return false;
	}
	j->result = result[0];
	j->state = JOB_RUNNING;
	return true;
}

static void finish_job(struct supervisor *s, struct job *j)
{
	if (read(j->result, &j->outcome, sizeof(j->outcome)) != (ssize_t)sizeof(j->outcome))
		j->outcome = (struct outcome){.error = EIO}; /* it was killed: both names may be there */
	close(j->result);
	waitpid(j->worker, NULL, 0);
	respond(s->listener, j->request.id, j->outcome.error, 0);
	j->state = j->outcome.error ? JOB_NONE : JOB_DONE;
}

/* The process that was read may have been another by then, if the caller died: then nobody waits for an answer. */
static bool is_still_there(int listener, uint64_t id)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static void handle(struct supervisor *s, struct job *j)
{
	union notification n;
	if (!receive(s->listener, &n))
		return; /* its caller was killed */
	if (n.n.data.nr == SYS_landlock_restrict_self)
		note_narrowing(&s->narrowed, (pid_t)n.n.pid);
	else if (resume(s, &n.n))
		return;
	if (!read_request(&n.n, &s->request) || may_be_narrowed(&s->narrowed, s->request.thread) ||
	    (is_still_there(s->listener, n.n.id) && !start_worker(s, j)))
		go_on(s->listener, n.n.id);
	close_request(&s->request);
}

static void turn(struct supervisor *s)
{
	struct pollfd p[1 + WORKERS_MAX];
	struct job *who[1 + WORKERS_MAX], *place = s->hung_up ? NULL : free_job(s);
	nfds_t n = 1;
	p[0] = (struct pollfd){.fd = place ? s->listener : -1, .events = POLLIN};
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		if (s->jobs[i].state != JOB_RUNNING)
			continue;
		who[n] = &s->jobs[i];
		p[n++] = (struct pollfd){.fd = s->jobs[i].result, .events = POLLIN};
	}
	if (s->hung_up && n == 1)
		_exit(0);
	if (poll(p, n, -1) < 0)
		return;
	for (nfds_t i = 1; i < n; i++)
		if (p[i].revents)
			finish_job(s, who[i]);
	if (p[0].revents & POLLIN)
		handle(s, place);
	else if (p[0].revents)
		s->hung_up = true; /* nobody is left who could call */
}

/* When the sandbox began. A second is given for coarse clocks; files that come out as younger than they are cost time, nothing else. */
static struct timespec birth_of_init(void)
{
	struct timespec now;
	uint64_t age = (ticks_since_boot() - start_ticks(1)) / (uint64_t)sysconf(_SC_CLK_TCK);
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= (time_t)age + 1;
	return now;
}

static bool notifications_fit(void)
{
	struct seccomp_notif_sizes sizes;
	return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 && sizes.seccomp_notif <= sizeof(union notification) &&
	       sizes.seccomp_notif_resp <= sizeof(union notification) && sizes.seccomp_data == sizeof(struct seccomp_data);
}

_Noreturn void renames_supervise(int listener, int landlock_fd, int lock, const struct seccomp_program *prog, bool distrust)
{
	static struct supervisor s; /* one per process; keeps the stack small */
	int keep[] = {0, 1, 2, listener, landlock_fd, lock};
	s.listener = listener;
	s.landlock_fd = landlock_fd;
	s.lock = lock;
	s.narrowed.anybody = distrust;
	prctl(PR_SET_NAME, "cordon-renames", 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (confine_close_except(keep, ARRAY_SIZE(keep)) < 0 || !notifications_fit() || load_plain(prog) < 0)
		_exit(1);
	s.born = birth_of_init();
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	for (;;)
		turn(&s);
}
