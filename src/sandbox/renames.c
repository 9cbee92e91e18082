/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/renames.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/landlock.h"
#include "sandbox/notify.h"
#include "sandbox/renames_parts.h"

static bool may_have_lower(const struct sandbox_spec *spec, const struct setup_op *op)
{
	if (op->kind == OP_ROOT)
		return op->over.count;
	return op->kind == OP_LAYERED && ((spec->flags & SPEC_LIVE) || (op->source && *op->source) || op->layers.count > LAYERED_LOWER);
}

bool renames_needed(const struct sandbox_spec *spec)
{
	for (uint32_t i = 0; i < spec->op_count; i++)
		if (may_have_lower(spec, &spec->ops[i]))
			return true;
	return false;
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

/* ---- the supervisor's part ------------------------------------------------------------------------------------------------------ */

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

struct renames {
	int listener, landlock_fd, lock;
	struct timespec born;
	struct narrowed narrowed;
	struct request request;
	struct job jobs[RENAMES_MAX];
};

/* The one that is done for the longest time, if all are in use. NULL: all of them run. */
static struct job *free_job(struct renames *s)
{
	struct job *oldest = NULL;
	for (size_t i = 0; i < RENAMES_MAX; i++) {
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
static bool resume(struct renames *s, const struct seccomp_notif *n)
{
	for (size_t i = 0; i < RENAMES_MAX; i++) {
		struct job *j = &s->jobs[i];
		if (j->state == JOB_NONE || j->request.thread != (pid_t)n->pid)
			continue;
		bool again = is_repeated(&j->request, n, &s->request);
		if (again && j->state == JOB_RUNNING) {
			j->request.id = n->id;
			return true;
		}
		if (again && is_as_left(j, &s->request)) {
			notify_answer(s->listener, n->id, 0);
			return true;
		}
		if (j->state == JOB_DONE)
			j->state = JOB_NONE;
	}
	return false;
}

static bool start_worker(struct renames *s, struct job *j)
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

static void finish_job(struct renames *s, struct job *j)
{
	if (read(j->result, &j->outcome, sizeof(j->outcome)) != (ssize_t)sizeof(j->outcome))
		j->outcome = (struct outcome){.error = EIO}; /* it was killed: both names may be there */
	close(j->result);
	waitpid(j->worker, NULL, 0);
	notify_answer(s->listener, j->request.id, j->outcome.error);
	j->state = j->outcome.error ? JOB_NONE : JOB_DONE;
}

bool renames_has_room(struct renames *s)
{
	return free_job(s);
}

void renames_handle(struct renames *s, const struct seccomp_notif *n)
{
	struct job *j = free_job(s);
	if (n->data.nr == SYS_landlock_restrict_self)
		note_narrowing(&s->narrowed, (pid_t)n->pid);
	else if (resume(s, n))
		return;
	if (!j || !read_request(n, &s->request) || may_be_narrowed(&s->narrowed, s->request.thread) ||
	    (notify_is_waiting(s->listener, n->id) && !start_worker(s, j)))
		notify_go_on(s->listener, n->id);
	close_request(&s->request);
}

size_t renames_wait(const struct renames *s, struct pollfd *p)
{
	size_t n = 0;
	for (size_t i = 0; i < RENAMES_MAX; i++)
		if (s->jobs[i].state == JOB_RUNNING)
			p[n++] = (struct pollfd){.fd = s->jobs[i].result, .events = POLLIN};
	return n;
}

void renames_turn(struct renames *s, const struct pollfd *p, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; p[i].revents && k < RENAMES_MAX; k++)
			if (s->jobs[k].state == JOB_RUNNING && s->jobs[k].result == p[i].fd) {
				finish_job(s, &s->jobs[k]);
				break;
			}
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

struct renames *renames_begin(int listener, int landlock_fd, int lock, bool distrust)
{
	static struct renames s; /* one per process; keeps the stack small */
	s.listener = listener;
	s.landlock_fd = landlock_fd;
	s.lock = lock;
	s.narrowed.anybody = distrust;
	s.born = birth_of_init();
	return &s;
}
