/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/confine.h"
#include "sandbox/create.h"
#include "sandbox/init.h"
#include "sandbox/landlock.h"
#include "sandbox/mounts.h"
#include "sandbox/namespaces.h"
#include "sandbox/renames.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

/* The launcher's word that the maps are written, or, later, the mounts or task files that only it can open; nothing means "go on". */
static int receive_sources(struct birth *b, struct mount_sources *sources, struct cordon_error *err)
{
	*sources = (struct mount_sources){0};
	for (;;) {
		_cleanup_msg_ struct wire_msg msg;
		int r = wire_recv(b->handshake, &msg, err);
		if (r <= 0)
			return r < 0 ? -1 : err_set(err, CORDON_ERR_SYSTEM, "the launcher went away");
		if (msg.fd_count == 0)
			return 0;
		for (size_t i = 0; i < msg.fd_count && sources->count < MOUNTS_MAX_SOURCES; i++)
			sources->fds[sources->count++] = wire_take_fd(&msg, i);
	}
}

static int get_sources(void *arg, struct mount_sources *out, struct cordon_error *err)
{
	struct birth *b = arg;
	if (receive_sources(b, out, err) < 0)
		return -1;
	struct mounts_cache cache = MOUNTS_NO_CACHE;
	return b->ids->mode == IDMAP_SELF ? mounts_prepare(b->spec, b->scratch, b->ids, &cache, out, err) : 0;
}

/* The v1 cgroups are made by the launcher while we build; their namespace must be made after they were entered. */
static int enter_cgroups(struct birth *b, struct cordon_error *err)
{
	struct mount_sources tasks;
	if (receive_sources(b, &tasks, err) < 0)
		return -1;
	for (size_t i = 0; i < tasks.count; i++) {
		if (write(tasks.fds[i], "0", 1) != 1)
			return err_sys(err, "cannot enter the cgroup");
		close(tasks.fds[i]);
	}
	if (!(b->spec->weaken & WEAKEN_CGROUPNS) && unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(err, "cannot create a cgroup namespace");
	return 0;
}

/* Without a CPU controller: as many CPUs as the limit needs, somewhere among those we have. */
static int pin_cpus(uint64_t milli, struct cordon_error *err)
{
	cpu_set_t have, use;
	CPU_ZERO(&use);
	if (sched_getaffinity(0, sizeof(have), &have) < 0)
		return err_sys(err, "sched_getaffinity");
	int count = CPU_COUNT(&have);
	uint64_t want = MIN((milli + 999) / 1000, (uint64_t)count);
	int skip = count ? (int)(clock_ms() % (uint64_t)count) : 0;
	for (int round = 0; round < 2; round++)
		for (int cpu = 0; cpu < CPU_SETSIZE && want; cpu++)
			if (CPU_ISSET(cpu, &have) && skip-- <= 0 && !CPU_ISSET(cpu, &use)) {
				CPU_SET(cpu, &use);
				want--;
			}
	if (sched_setaffinity(0, sizeof(use), &use) < 0)
		return err_sys(err, "sched_setaffinity");
	return 0;
}

int birth_ruleset(const struct sandbox_spec *spec, struct cordon_error *err)
{
	if (spec->weaken & WEAKEN_LANDLOCK)
		return -1;
	_cleanup_free_ struct landlock_rule *rules = calloc(spec->rule_count + 1, sizeof(*rules));
	if (!rules)
		return err_sys(err, "cannot build the Landlock rules");
	for (uint32_t i = 0; i < spec->rule_count; i++) {
		rules[i].path = spec->rules[i].path;
		rules[i].access = (__typeof__(rules[i].access))spec->rules[i].access;
		rules[i].optional = true;
	}
	return landlock_ruleset(rules, spec->rule_count, err);
}

/* What the watcher has to look at can only be opened in here, and the way back into a sandbox that lives on. */
static int send_view(struct birth *b, const struct mounts_view *view, struct cordon_error *err)
{
	const bool live = b->spec->flags & SPEC_LIVE;
	_cleanup_fd_ int user = live ? openat(AT_FDCWD, "/proc/self/ns/user", O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_fd_ int mount = live ? openat(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC) : -1;
	const int fds[] = {view->proc_fd, view->root_fd, user, mount};
	if (view->proc_fd < 0)
		return 0; /* weakened builds only */
	if (live && (user < 0 || mount < 0))
		return err_sys(err, "cannot open the namespaces");
	return wire_send(b->handshake, WIRE_READY, NULL, fds, live ? 4 : 2, err);
}

/*
 * Dies with the launcher. A change of ids takes the signal away again (prctl(2)), so this is said after each. Should the launcher be dead
 * already, the next word from it does not come.
 */
static void die_with_launcher(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static int become_root_inside(const struct idmap *ids, uint32_t weaken, struct cordon_error *err)
{
	if (ids->mode == IDMAP_SELF || (weaken & WEAKEN_USERNS))
		return 0;
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return err_sys(err, "cannot become the namespace's root");
	die_with_launcher();
	return 0;
}

/* What can be done before the ids are known: the launcher is writing the maps meanwhile. */
static int prepare(const struct birth *b, struct init_config *config, struct cordon_error *err)
{
	static struct seccomp_program program;
	const struct sandbox_spec *spec = b->spec;
	if (!(spec->weaken & (WEAKEN_CAPS | WEAKEN_USERNS))) {
		int r = confine_bounding_set();
		if (r < 0) {
			errno = -r;
			return err_sys(err, "cannot drop the capabilities of programs");
		}
	}
	if (!(spec->weaken & WEAKEN_SECCOMP)) {
		unsigned flags = (b->limits->cpu == LIMIT_RLIMIT ? SECCOMP_PIN_CPUS : 0) | (mounts_writable(spec) ? SECCOMP_NO_SETID : 0);
		config->renames = renames_needed(spec);
		if (seccomp_compile(flags | (config->renames ? SECCOMP_NOTIFY : 0), &program, err) < 0)
			return -1;
		config->seccomp = &program;
	}
	return 0;
}

static int set_up(struct birth *b, struct init_config *config, struct cordon_error *err)
{
	const struct sandbox_spec *spec = b->spec;
	const bool own_network = !(spec->weaken & WEAKEN_NETNS);
	struct mount_sources none;
	struct mounts_view view = {-1, -1};
	if (receive_sources(b, &none, err) < 0)
		return -1;
	/* now, not sooner: until its word is given, the launcher has better use for the other CPU */
	if (own_network && namespaces_network_begin(err) < 0)
		return -1;
	if (become_root_inside(b->ids, spec->weaken, err) < 0)
		return -1;
	if (!(spec->weaken & WEAKEN_UTSNS) && (sethostname(spec->hostname, strlen(spec->hostname)) < 0 || setdomainname("(none)", 6) < 0))
		return err_sys(err, "cannot set the host name");
	if (b->limits->cpu == LIMIT_RLIMIT && pin_cpus(spec->cpus_milli, err) < 0)
		return -1;
	if (!(spec->weaken & WEAKEN_MNTNS) && mounts_build(spec, b->ids, get_sources, b, &view, err) < 0)
		return -1;
	if ((spec->weaken & WEAKEN_MNTNS) && receive_sources(b, &none, err) < 0)
		return -1;
	if (own_network && namespaces_network_join(err) < 0)
		return -1;
	if (enter_cgroups(b, err) < 0 || send_view(b, &view, err) < 0)
		return -1;
	if ((spec->flags & SPEC_LIVE) && mounts_open_trees(config->trees, err) < 0)
		return -1;
	if (landlock_abi() > 0) {
		config->landlock_fd = birth_ruleset(spec, err);
		if (config->landlock_fd < 0 && !(spec->weaken & WEAKEN_LANDLOCK))
			return -1;
	}
	return 0;
}

/* Last, when nothing more has to be set up. */
static int lock_down(struct birth *b, struct init_config *config, struct cordon_error *err)
{
	const uint64_t keep = 1ull << CAP_KILL | 1ull << CAP_SETUID | 1ull << CAP_SETGID | (config->renames ? 1ull << CAP_SYS_PTRACE : 0);
	int null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(null, i) < 0)
			return err_sys(err, "cannot open /dev/null");
	int fds[] = {0, 1, 2, config->sock, config->landlock_fd, config->trees[0], config->trees[1]};
	int r = confine_close_except(fds, ARRAY_SIZE(fds));
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0 && !(b->spec->weaken & WEAKEN_CAPS))
		r = confine_capabilities(keep);
	if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		r = -errno;
	if (r < 0) {
		errno = -r;
		return err_sys(err, "cannot lock down init");
	}
	return 0;
}

_Noreturn void birth_run(struct birth *b)
{
	struct cordon_error err = {0};
	struct init_config config = {
		.sock = b->sock,
		.landlock_fd = -1,
		.trees = {-1, -1},
		.rules = b->spec->flags & SPEC_LIVE ? b->spec : NULL,
		.ids = *b->ids,
		.disk = b->spec->disk,
		.data_limit = b->limits->memory == LIMIT_RLIMIT ? b->spec->memory : 0,
		/* as a user init and the watcher have the same id as the commands and count as two of them */
		.proc_limit = b->limits->pids == LIMIT_RLIMIT
	                              ? b->spec->pids + (b->ids->mode == IDMAP_SELF ? 2 : 0) + renames_needed(b->spec)
	                              : 0,
		.weaken = b->spec->weaken,
	};
	die_with_launcher();
	setsid();
	/* a user's watcher cannot have real-time priority: what it watches stands back instead, or hundreds of hogs keep it from the CPU */
	if (b->limits->memory == LIMIT_RLIMIT && b->ids->mode == IDMAP_SELF)
		setpriority(PRIO_PROCESS, 0, 19);
	if (prepare(b, &config, &err) < 0 || set_up(b, &config, &err) < 0 || lock_down(b, &config, &err) < 0) {
		_cleanup_buf_ struct buf body = {0};
		error_encode(&err, &body);
		wire_send(b->sock, WIRE_ERROR, &body, NULL, 0, NULL);
		_exit(125);
	}
	init_run(&config);
}
