/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/create.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "sandbox/birth.h"
#include "sandbox/confine.h"
#include "sandbox/landlock.h"
#include "sandbox/mounts.h"
#include "sandbox/namespaces.h"
#include "sandbox/owner.h"
#include "sandbox/watch.h"

/* A command that is done by then needs no watcher; memory fills faster than disks, but no program gets far in its first milliseconds. */
#define WATCH_DELAY_MS 10
#define WATCH_MEMORY_DELAY_MS 4
#define WATCH_LATEST_MS \
	1000 /* among many others a short command waits for its turn; a watcher for each of them would cost more than they do */
#define INODE_PER_BYTES 4096
#define MAX_BUSY 2000 /* attempts, a few milliseconds apart */

uint64_t clock_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int probe_limits(struct host *host, const char *forced, struct cordon_error *err)
{
	const char *want = forced ? forced : "";
	if (host->limits_probed && strcmp(host->limits_forced, want) == 0)
		return 0;
	if (host->limits_probed)
		limits_host_close(&host->limits);
	host->limits_probed = false;
	free(host->limits_forced);
	host->limits_forced = strdup(want);
	if (!host->limits_forced)
		return err_sys(err, "strdup");
	if (limits_probe(want, &host->limits, err) < 0)
		return -1;
	host->limits_probed = true;
	return 0;
}

/* All but two: the network namespace is made beside or after the rest (birth.c), the cgroup namespace when the cgroups have been entered. */
static uint64_t namespace_flags(uint32_t weaken)
{
	static const struct {
		uint32_t weaken;
		uint64_t flag;
	} table[] = {
		{WEAKEN_USERNS, CLONE_NEWUSER}, {WEAKEN_PIDNS, CLONE_NEWPID}, {WEAKEN_MNTNS, CLONE_NEWNS},
		{WEAKEN_IPCNS, CLONE_NEWIPC},   {WEAKEN_UTSNS, CLONE_NEWUTS},
	};
	uint64_t flags = 0;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (!(weaken & table[i].weaken))
			flags |= table[i].flag;
	return flags;
}

/* What set-up stands on; a container's filter may lack what the kernel has. Each call is made with arguments that cannot succeed. */
static int check_kernel(struct cordon_error *err)
{
	/* clang-format off */
	static const struct {
		const char *name;
		long number;
		const char *since;
	} needed[] = {
		{"openat2", SYS_openat2, "5.6"},       {"open_tree", SYS_open_tree, "5.2"},     {"move_mount", SYS_move_mount, "5.2"},
		{"fsopen", SYS_fsopen, "5.2"},         {"fsconfig", SYS_fsconfig, "5.2"},       {"fsmount", SYS_fsmount, "5.2"},
		{"mount_setattr", SYS_mount_setattr, "5.12"}, {"close_range", SYS_close_range, "5.9"}, {"pidfd_send_signal", SYS_pidfd_send_signal, "5.1"},
		{"seccomp", SYS_seccomp, "3.17"},
	};
	/* clang-format on */
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (syscall(needed[i].number, -1L, 0L, -1L, 0L, 0L) < 0 && errno == ENOSYS) {
			err_set(err, CORDON_ERR_WEAK_HOST, "the system call %s is missing here", needed[i].name);
			return err_hint(err, "Linux has it since %s; inside a container its seccomp profile may hide it", needed[i].since);
		}
	}
	return 0;
}

static int check_strength(struct host *host, const struct sandbox_spec *spec, struct cordon_error *err)
{
	if (landlock_abi() == 0 && !(spec->flags & SPEC_ALLOW_WEAK_LANDLOCK)) {
		err_set(err, CORDON_ERR_WEAK_HOST, "this kernel has no Landlock");
		return err_hint(err, "boot with lsm=…,landlock (Linux 5.13 or later), or accept it with --allow-weak landlock");
	}
	const struct limits_host *l = &host->limits;
	const char *weak = l->memory == LIMIT_RLIMIT ? "memory" : l->cpu == LIMIT_RLIMIT ? "cpu" : l->pids == LIMIT_RLIMIT ? "pids" : NULL;
	if (weak && (spec->flags & SPEC_STRICT)) {
		err_set(err, CORDON_ERR_WEAK_HOST, "limits.strict: the %s limit can only be held in a weaker form here: %s", weak,
		        l->why[0] ? l->why : "no usable cgroup controllers");
		return err_hint(err, "`cordon doctor` says how to get a controller");
	}
	return 0;
}

static int send_created(const struct sandbox *s, int sock, struct cordon_error *err)
{
	const int all[CREATED_FD_COUNT] = {
		[CREATED_PIDFD] = s->pidfd,
		[CREATED_MEMORY] = s->limits.usage_memory_fd,
		[CREATED_OOM] = s->limits.usage_oom_fd,
		[CREATED_PIDS] = s->limits.usage_pids_fd,
		[CREATED_CPU] = s->limits.usage_cpu_fd,
		[CREATED_WATCH] = s->record_fd,
		[CREATED_SCRATCH] = s->scratch.fd,
	};
	struct created_msg m = {
		.memory_by = s->limits.memory,
		.pids_by = s->limits.pids,
		.cpu_by = s->limits.cpu,
		.weak_landlock = landlock_abi() == 0,
		.uid = s->ids.uid,
		.gid = s->ids.gid,
	};
	int fds[CREATED_FD_COUNT];
	size_t n = 0;
	for (size_t i = 0; i < CREATED_FD_COUNT; i++) {
		if (all[i] >= 0) {
			m.fd_mask |= 1u << i;
			fds[n++] = all[i];
		}
	}
	_cleanup_buf_ struct buf b = {0};
	buf_add(&b, &m, sizeof(m));
	return wire_send(sock, WIRE_CREATED, &b, fds, n, err);
}

static int send_fds(const struct sandbox *s, const int *fds, size_t count, struct cordon_error *err)
{
	for (size_t i = 0; i < count; i += WIRE_MAX_FDS)
		if (wire_send(s->handshake, WIRE_READY, NULL, fds + i, MIN(count - i, (size_t)WIRE_MAX_FDS), err) < 0)
			return -1;
	return wire_send(s->handshake, WIRE_READY, NULL, NULL, 0, err);
}

/* The mounts of an image are shifted by the child's own map. Opened before the child changes its ids, which makes it nobody's to look at. */
static int open_own(const struct sandbox_spec *spec, struct sandbox *s, struct cordon_error *err)
{
	char path[64];
	if (s->ids.mode != IDMAP_RANGE || (spec->weaken & WEAKEN_USERNS) || !spec->op_count || spec->ops[0].kind != OP_ROOT)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)s->pid);
	s->mounts.own = open(path, O_RDONLY | O_CLOEXEC);
	return s->mounts.own < 0 ? err_sys(err, "cannot open %s", path) : 0;
}

static int send_tasks(const struct sandbox *s, struct cordon_error *err)
{
	int tasks[ARRAY_SIZE(s->limits.enter_fds)];
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		if (s->limits.enter_fds[i] >= 0)
			tasks[n++] = s->limits.enter_fds[i];
	return send_fds(s, tasks, n, err);
}

/*
 * Our half of the work: id maps first, then the mounts that only we can make, then the cgroups. The child builds meanwhile, from the word on that its ids are there. One that
 * nobody waits for, or that has to share the CPUs with others, gets that word when all else is done: so it has to be woken once only.
 */
static int support_child(struct host *host, const struct sandbox_spec *spec, const struct limits_request *want, const char *scratch,
                         struct sandbox *s, struct cordon_error *err)
{
	struct mount_sources sources = {0};
	if (!host->kernel_checked && check_kernel(err) < 0) /* it does not begin without our word */
		return -1;
	host->kernel_checked = true;
	if (!(spec->weaken & WEAKEN_USERNS) && idmap_write(&s->ids, s->pid, err) < 0)
		return -1;
	if (open_own(spec, s, err) < 0 || (!s->queued && send_fds(s, NULL, 0, err) < 0))
		return -1;
	if (scratch_make(&host->scratch, spec, &s->ids, &s->scratch, err) < 0 || sandbox_open_trees(s, spec, err) < 0)
		return -1;
	if (s->ids.mode != IDMAP_SELF && mounts_prepare(spec, scratch, &s->ids, &s->mounts, &sources, err) < 0)
		return -1;
	int r = s->queued ? 0 : send_fds(s, sources.fds, sources.count, err);
	if (r == 0)
		r = limits_complete(&host->limits, want, &s->limits, err);
	if (r == 0 && s->queued)
		r = send_fds(s, NULL, 0, err) < 0 || send_fds(s, sources.fds, sources.count, err) < 0 ? -1 : 0;
	mount_sources_close(&sources);
	return r < 0 ? -1 : send_tasks(s, err);
}

/* The loop reaps and cleans up as for any other. */
static void abandon(struct sandbox *s)
{
	if (s->pid > 0)
		kill(s->pid, SIGKILL);
	else
		s->dead = true;
}

/* Where there is one id only, that is what root is called inside. */
static int take_ids(struct host *host, const struct sandbox_spec *spec, struct idmap *ids, struct cordon_error *err)
{
	const bool files = mounts_show_host_files(spec), one = host->ids.mode == IDMAP_SELF || (host->ids.mode == IDMAP_SMALL && files);
	const bool root = spec->flags & SPEC_ROOT;
	int r = root && one ? idmap_take(&host->ids, UINT32_MAX, UINT32_MAX, files, ids, err)
	                    : idmap_take(&host->ids, spec->uid, spec->gid, files, ids, err);
	ids->root = root;
	if (root && one)
		ids->uid = ids->gid = 0;
	return r;
}

int sandbox_create(struct host *host, const struct sandbox_spec *spec, int sock, struct sandbox *s, struct cordon_error *err)
{
	char scratch[4096];
	*s = (struct sandbox){.pidfd = -1,
	                      .handshake = -1,
	                      .proc_fd = -1,
	                      .root_fd = -1,
	                      .user_ns = -1,
	                      .mount_ns = -1,
	                      .tree_fds = {-1, -1, -1},
	                      .mounts = MOUNTS_NO_CACHE,
	                      .record_fd = -1,
	                      .scratch.fd = -1,
	                      .watch_at_ms = UINT64_MAX,
	                      .limits_gone = true,
	                      .parked = spec->flags & SPEC_PARKED,
	                      .queued = (spec->flags & SPEC_PARKED) || host->births >= host->cpus,
	                      .disk = spec->disk,
	                      .memory = spec->memory};
	if (scratch_open(&host->scratch, spec->home, scratch_choose(spec), err) < 0 || probe_limits(host, spec->limits_force, err) < 0 ||
	    check_strength(host, spec, err) < 0)
		return -1;
	if (take_ids(host, spec, &s->ids, err) < 0)
		return -1;
	snprintf(s->id, sizeof(s->id), "%s", spec->id);
	snprintf(s->name, sizeof(s->name), "%s.%s", host->stamp, spec->id); /* from here on there is something to clean up */
	scratch_take(&host->scratch, host->stamp, spec, &s->ids, &s->scratch);
	if (scratch_path(&host->scratch, &s->scratch, scratch) < 0) {
		err_set(err, CORDON_ERR_INPUT, "CORDON_HOME is too long");
		goto fail;
	}
	const struct limits_request want = {.memory = spec->memory,
	                                    .pids = spec->pids,
	                                    .cpus_milli = spec->cpus_milli,
	                                    .disk = spec->disk,
	                                    .freezes = spec->flags & SPEC_LIVE};
	if (limits_begin(&host->limits, &want, s->name, &s->limits, err) < 0)
		goto fail;
	s->limits_gone = false;
	s->record_fd = watch_record_new(err);
	if (s->record_fd < 0)
		goto fail;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		err_sys(err, "socketpair");
		goto fail;
	}
	s->handshake = pair[0];
	s->pid = namespaces_clone(namespace_flags(spec->weaken), s->limits.v2_fd, &s->pidfd, err);
	if (s->pid == 0) {
		close(pair[0]);
		struct birth b = {.spec = spec,
		                  .ids = &s->ids,
		                  .queued = s->queued,
		                  .limits = &s->limits,
		                  .scratch = scratch,
		                  .sock = sock,
		                  .handshake = pair[1]};
		birth_run(&b);
	}
	close(pair[1]);
	if (s->pid < 0 || support_child(host, spec, &want, scratch, s, err) < 0 || send_created(s, sock, err) < 0)
		goto fail;
	return 0;
fail:
	abandon(s);
	return -1;
}

void sandbox_kill(const struct sandbox *s)
{
	if (s->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
}

/* What others remove must not hide what this one writes. */
static void lower_baseline(struct sandbox *s, struct watch_used now)
{
	s->used.bytes = MIN(s->used.bytes, now.bytes);
	s->used.files = MIN(s->used.files, now.files);
}

static void schedule_watcher(struct sandbox *s)
{
	s->used_at_ms = clock_ms();
	lower_baseline(s, watch_used(s->tree_fds));
	s->watch_at_ms = s->used_at_ms + (s->limits.memory == LIMIT_RLIMIT ? WATCH_MEMORY_DELAY_MS : WATCH_DELAY_MS);
}

static uint64_t inodes_of(const struct sandbox *s)
{
	return MAX(s->disk / INODE_PER_BYTES, (uint64_t)1024);
}

/* A look such as a watcher takes first: neither is the disk much fuller, by whomever, nor was anybody killed. */
static bool watcher_can_wait(struct sandbox *s, uint64_t now_ms)
{
	if (s->limits.memory == LIMIT_RLIMIT || now_ms - s->used_at_ms >= WATCH_LATEST_MS)
		return false;
	const struct watch_used used = watch_used(s->tree_fds);
	lower_baseline(s, used);
	return used.counts_bytes && used.counts_files && !watch_grew(&s->used, &used, s->disk, inodes_of(s)) &&
	       !(s->limits.memory == LIMIT_CGROUP1 && watch_oom_killed(s->limits.usage_oom_fd));
}

void sandbox_unpark(struct sandbox *s)
{
	if (s->parked && s->handshake < 0)
		schedule_watcher(s);
	s->parked = false;
}

void sandbox_handshake(struct sandbox *s)
{
	_cleanup_msg_ struct wire_msg msg;
	int r = wire_recv(s->handshake, &msg, NULL);
	if (r > 0 && (msg.fd_count == 2 || msg.fd_count == 4)) {
		s->proc_fd = wire_take_fd(&msg, 0);
		s->root_fd = wire_take_fd(&msg, 1);
		s->user_ns = wire_take_fd(&msg, 2);
		s->mount_ns = wire_take_fd(&msg, 3);
		if (!s->parked) /* nothing of anybody's runs in it yet, and nobody writes */
			schedule_watcher(s);
	} else if (r != 0) { /* out of descriptors: unwatched is not an option, the limits would not hold */
		sandbox_kill(s);
	}
	cleanup_fd(&s->handshake);
	s->handshake = -1;
}

int sandbox_open_trees(struct sandbox *s, const struct sandbox_spec *spec, struct cordon_error *err)
{
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(s->tree_fds); i++) {
		cleanup_fd(&s->tree_fds[i]);
		s->tree_fds[i] = -1;
	}
	for (uint32_t i = 0; i < spec->op_count && n < ARRAY_SIZE(s->tree_fds); i++) {
		const struct setup_op *op = &spec->ops[i];
		const struct string_list *layers = scratch_layers(op);
		if (!layers && op->kind != OP_SCRATCH)
			continue;
		const char *stage = layers ? layers->items[LAYERED_STAGE] : "";
		_cleanup_fd_ int at = *stage ? open(stage, O_PATH | O_DIRECTORY | O_CLOEXEC) : fcntl(s->scratch.fd, F_DUPFD_CLOEXEC, 3);
		const char *name = layers ? layers->items[LAYERED_UPPER] : op->source;
		int fd = at < 0 ? -1 : fs_open(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, FS_BENEATH);
		if (fd < 0)
			return err_sys(err, "cannot open %s to watch it", name);
		s->tree_fds[n++] = fd;
	}
	s->used = watch_used(s->tree_fds);
	return 0;
}

void sandbox_start_watcher(struct sandbox *s)
{
	const uint64_t now = clock_ms();
	const bool waits = watcher_can_wait(s, now);
	s->watch_at_ms = waits ? now + WATCH_DELAY_MS : UINT64_MAX;
	if (waits)
		return;
	pid_t pid = fork();
	if (pid < 0) {
		sandbox_kill(s);
		return;
	}
	if (pid > 0) {
		s->watcher = pid;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_NAME, "cordon-watch", 0, 0, 0);
	struct watch_request req = {
		.memory = s->limits.memory == LIMIT_RLIMIT ? s->memory : 0,
		.disk = s->disk,
		.inodes = inodes_of(s),
		.init_pidfd = s->pidfd,
		.proc_fd = s->proc_fd,
		.tmpfs_fd = s->root_fd,
		.tree_fds = {s->tree_fds[0], s->tree_fds[1], s->tree_fds[2]},
		.oom_fd = s->limits.memory == LIMIT_CGROUP1 ? s->limits.usage_oom_fd : -1,
		.record_fd = s->record_fd,
	};
	int keep[] = {req.init_pidfd,  req.proc_fd,     req.tmpfs_fd, req.tree_fds[0],
	              req.tree_fds[1], req.tree_fds[2], req.oom_fd,   req.record_fd};
	confine_close_except(keep, ARRAY_SIZE(keep));
	watch_run(&req);
	_exit(0);
}

/*
 * The last figures, for a reader that comes after the cgroup is gone (its files then answer ENODEV). With memory.oom.group init dies
 * with the rest, and the library learns of it at the same moment as we do.
 */
static void keep_usage(const struct sandbox *s)
{
	const int fds[] = {[CREATED_MEMORY] = s->limits.usage_memory_fd,
	                   [CREATED_OOM] = s->limits.usage_oom_fd,
	                   [CREATED_PIDS] = s->limits.usage_pids_fd,
	                   [CREATED_CPU] = s->limits.usage_cpu_fd};
	for (size_t i = CREATED_MEMORY; i < ARRAY_SIZE(fds); i++) {
		char text[WATCH_TEXT_SIZE] = "";
		if (fds[i] < 0 || pread(fds[i], text, sizeof(text) - 1, 0) <= 0 ||
		    pwrite(s->record_fd, text, sizeof(text), WATCH_TEXT_AT(i)) < 0)
			continue; /* then the figure is missing from the result */
	}
}

bool sandbox_clean_up(struct host *host, struct sandbox *s)
{
	if (s->watcher)
		return false;
	if (!s->limits_gone) {
		limits_kill(&host->limits, &s->limits);
		keep_usage(s);
		/* one that stays busy (a process that cannot be killed now) is left to a later launcher's sweep */
		s->limits_gone = limits_destroy(&host->limits, &s->limits) == 0 || ++s->busy == MAX_BUSY;
	}
	s->scratch_gone = s->scratch_gone || scratch_remove(&host->scratch, &s->scratch);
	if (!s->limits_gone || !s->scratch_gone)
		return false;
	idmap_release(&host->ids, &s->ids);
	int *fds[] = {&s->pidfd,       &s->handshake,   &s->proc_fd,     &s->root_fd,       &s->user_ns,    &s->mount_ns,
	              &s->tree_fds[0], &s->tree_fds[1], &s->tree_fds[2], &s->mounts.userns, &s->mounts.own, &s->record_fd};
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		cleanup_fd(fds[i]);
	return true;
}
