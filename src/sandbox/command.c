/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/command.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/landlock.h"
#include "sandbox/supervisor.h"

enum stage {
	STAGE_NONE,
	STAGE_SESSION,
	STAGE_TERMINAL,
	STAGE_LIMITS,
	STAGE_USER,
	STAGE_CAPS,
	STAGE_CWD,
	STAGE_LANDLOCK,
	STAGE_SECCOMP,
	STAGE_EXEC
};

static const char *const stage_names[] = {
	[STAGE_NONE] = "start",
	[STAGE_SESSION] = "make a session",
	[STAGE_TERMINAL] = "set up standard input and output",
	[STAGE_LIMITS] = "set resource limits",
	[STAGE_USER] = "change to the unprivileged user",
	[STAGE_CAPS] = "drop capabilities",
	[STAGE_CWD] = "enter the working directory",
	[STAGE_LANDLOCK] = "apply Landlock",
	[STAGE_SECCOMP] = "load the system call filter",
	[STAGE_EXEC] = "execute",
};

static int child_stdio(const struct command *l)
{
	if (l->tty >= 0) {
		if (ioctl(l->tty, TIOCSCTTY, 0) < 0)
			return -errno;
		for (int i = 0; i < 3; i++)
			if (dup2(l->tty, i) < 0)
				return -errno;
		return 0;
	}
	/* all three lie above 2 (descriptors 0-2 of init are taken), so no dup2 overwrites a source */
	for (int i = 0; i < 3; i++)
		if (dup2(l->stdio[i], i) < 0)
			return -errno;
	return 0;
}

static int child_limits(const struct command *l)
{
	const struct init_config *c = l->config;
	const struct confine_limits limits = {.files = l->spec->files, .disk = c->disk, .data = c->data_limit, .procs = c->proc_limit};
	return confine_rlimits(&limits);
}

/* Raw system calls: the C library's wrappers would try to do this for every thread. */
int command_user(const struct init_config *c)
{
	if (c->ids.mode == IDMAP_SELF)
		return 0;
	if ((c->weaken & WEAKEN_CAPS) && prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return -errno;
	/* without a user namespace (weakened builds only) the host's ids are used as they would be mapped */
	uint32_t shift = (c->weaken & WEAKEN_USERNS) && c->ids.mode == IDMAP_RANGE ? c->ids.base : 0;
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, c->ids.gid + shift, c->ids.gid + shift, c->ids.gid + shift) < 0 ||
	    syscall(SYS_setresuid, c->ids.uid + shift, c->ids.uid + shift, c->ids.uid + shift) < 0)
		return -errno;
	return 0;
}

static int child_capabilities(const struct init_config *c)
{
	if (c->weaken & WEAKEN_CAPS)
		return confine_keep_all_capabilities();
	return confine_capabilities(c->flags & SPEC_ROOT ? CONFINE_ROOT : 0);
}

/* As execve(2), with the password for the filter. */
static void execute(const char *path, const struct exec_spec *s, uint64_t password)
{
	syscall(SYS_execve, path, s->argv.items, s->env.items, 0L, 0L, password);
}

/* As execvpe(3), but on our small stack and with the PATH of the new environment. */
static int child_exec(const struct exec_spec *s, uint64_t password)
{
	const char *const *argv = s->argv.items;
	const char *file = argv[0], *path = "/usr/local/bin:/usr/bin:/bin";
	char full[4096];
	int seen = ENOENT;

	if (strchr(file, '/')) {
		execute(file, s, password);
		return -errno;
	}
	for (uint32_t i = 0; i < s->env.count; i++)
		if (strncmp(s->env.items[i], "PATH=", 5) == 0)
			path = s->env.items[i] + 5;
	for (const char *p = path; *file && p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		size_t n = strcspn(p, ":"), name = strlen(file);
		if (n == 0 || n + 1 + name >= sizeof(full)) /* an empty entry would mean the working directory */
			continue;
		memcpy(full, p, n);
		full[n] = '/';
		memcpy(full + n + 1, file, name + 1);
		/* each execve has to be answered by init: those that can only fail are not made */
		if (faccessat(AT_FDCWD, full, F_OK, 0) < 0 && (errno == ENOENT || errno == ENOTDIR))
			continue;
		execute(full, s, password);
		if (errno != ENOENT && errno != ENOTDIR)
			seen = errno;
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			break;
	}
	return -seen;
}

_Noreturn static void fail(const struct command *l, enum stage stage, int error)
{
	const struct command_failure f = {stage, -error};
	_exit(write(l->report, &f, sizeof(f)) == (ssize_t)sizeof(f) ? 127 : 126);
}

/* The one that the command itself is to have gets the number that it knows it by. */
static int child_channel(struct command *l)
{
	if (l->report == PARKED_FD && (l->report = fcntl(l->report, F_DUPFD_CLOEXEC, PARKED_FD + 1)) < 0)
		return -errno;
	if (l->channel == PARKED_FD)
		return fcntl(PARKED_FD, F_SETFD, 0) < 0 ? -errno : 0;
	if (dup2(l->channel, PARKED_FD) < 0)
		return -errno;
	close(l->channel);
	return 0;
}

/* All descriptors but the standard ones, the pipe and where the request comes from; exec closes those two. */
static int child_descriptors(struct command *l)
{
	int keep[] = {0, 1, 2, l->report, l->request, l->channel};
	int r = confine_close_except(keep, ARRAY_SIZE(keep));
	return r < 0 || l->channel < 0 ? r : child_channel(l);
}

/* What was made ahead gets to know what it was made for. The message stays: the spec points into it. The limits come after it, which takes memory. */
static int child_receive(struct command *l, enum stage *stage)
{
	static struct wire_msg msg;
	static struct exec_spec spec;
	*stage = STAGE_NONE;
	if (wire_recv(l->request, &msg, NULL) <= 0 || msg.type != WIRE_EXEC || msg.fd_count != 3 ||
	    exec_spec_decode(msg.body, msg.len, &spec, NULL) < 0)
		_exit(126); /* init is gone, or wants no more of it */
	l->spec = &spec;
	memcpy(l->stdio, msg.fds, sizeof(l->stdio));
	*stage = STAGE_TERMINAL;
	int r = child_stdio(l);
	*stage = r < 0 ? *stage : STAGE_LIMITS;
	return r < 0 ? r : child_limits(l);
}

_Noreturn void command_become(struct command *l)
{
	const struct init_config *c = l->config;
	uint64_t password = 0;
	sigset_t none;
	int r;

	if (setsid() < 0)
		fail(l, STAGE_SESSION, -errno);
	if (l->spec && (r = child_stdio(l)) < 0)
		fail(l, STAGE_TERMINAL, r);
	if (l->spec && (r = child_limits(l)) < 0)
		fail(l, STAGE_LIMITS, r);
	if ((r = command_user(c)) < 0)
		fail(l, STAGE_USER, r);
	if ((r = child_capabilities(c)) < 0)
		fail(l, STAGE_CAPS, r);
	if (l->spec && chdir(l->spec->cwd) < 0)
		fail(l, STAGE_CWD, -errno);
	umask(022);
	if (c->landlock_fd >= 0 && (r = landlock_restrict(c->landlock_fd)) < 0)
		fail(l, STAGE_LANDLOCK, r);
	if ((r = child_descriptors(l)) < 0)
		fail(l, STAGE_TERMINAL, r);
	if ((c->flags & SPEC_NO_NATIVE) && (r = confine_no_exec_gain()) < 0 && r != -EINVAL) /* before Linux 6.3 the filter is alone */
		fail(l, STAGE_LIMITS, r);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (l->unobserved && getrandom(&password, sizeof(password), GRND_NONBLOCK) != sizeof(password))
		password = 0;
	const struct supervisor_filter filter = {.program = c->seccomp,
	                                         .password = password,
	                                         .exits = l->channel >= 0,
	                                         .freezable = c->flags & SPEC_LIVE,
	                                         .needed = c->flags & SPEC_NO_SUBPROCESS};
	if (c->seccomp && (r = supervisor_load(&filter, l->report)) < 0)
		fail(l, STAGE_SECCOMP, r);
	enum stage stage;
	if (!l->spec && ((r = child_receive(l, &stage)) < 0))
		fail(l, stage, r);
	if (l->request >= 0 && chdir(l->spec->cwd) < 0)
		fail(l, STAGE_CWD, -errno);
	fail(l, STAGE_EXEC, child_exec(l->spec, password));
}

int command_no_cwd(const char *cwd, int error, struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_INPUT, "cannot enter working directory %s: %s", cwd, strerror(error));
}

void command_failed(const struct command_failure *f, const char *name, const char *cwd, struct cordon_error *err)
{
	errno = f->error;
	if (f->stage == STAGE_EXEC && (f->error == ENOENT || f->error == ENOTDIR)) {
		err_set(err, CORDON_ERR_NOT_FOUND, "%s: not found", name);
		if (!strchr(name, '/'))
			err_hint(err, "the sandbox sees /usr, /bin and /lib of the host, and its PATH is set by the policy");
	} else if (f->stage == STAGE_EXEC) {
		err_set(err, CORDON_ERR_NOT_RUNNABLE, "%s: cannot be executed: %s", name, strerror(f->error));
	} else if (f->stage == STAGE_CWD) {
		command_no_cwd(cwd, f->error, err);
	} else {
		err_sys(err, "cannot %s", f->stage < ARRAY_SIZE(stage_names) ? stage_names[f->stage] : "start");
	}
}
