/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "policy/cover.h"
#include "sandbox/confine.h"
#include "sandbox/create.h"
#include "sandbox/expand.h"
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

/* ---- Landlock ----------------------------------------------------------------------------------------------------------------- */

#define MAX_FOUND 65536

struct rules {
	struct landlock_rule *items;
	size_t count, size;
	struct landlock_rule like; /* what those that are being found are to be */
	bool trees;                /* directories are meant, too, with all that is in them */
};

static int add_rule(struct rules *r, const char *path, struct cordon_error *err)
{
	if (r->count == r->size) {
		size_t size = r->size ? r->size * 2 : 64;
		struct landlock_rule *more = realloc(r->items, size * sizeof(*more));
		if (!more)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		r->items = more;
		r->size = size;
	}
	r->items[r->count] = r->like;
	r->items[r->count++].path = path;
	return 0;
}

static int found_rule(void *arg, const struct expand_entry *e, struct cordon_error *err)
{
	struct rules *r = arg;
	if (e->is_dir && !r->trees)
		return 0;
	if (r->count >= MAX_FOUND)
		return err_set(err, CORDON_ERR_INPUT, "the policy's patterns match more than %d files", MAX_FOUND);
	char *path = strdup(e->path);
	if (!path || add_rule(r, path, err) < 0) {
		free(path);
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return 0;
}

static int find_rules(struct rules *r, const struct access_rule *rule, struct cordon_error *err)
{
	_cleanup_fd_ int root = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *pattern = rule->pattern;
	const struct expand x = {
		.root = root,
		.start = rule->path[1] ? rule->path + 1 : ".",
		.name = rule->path,
		.patterns = {&pattern, 1},
		.within = !cover_is_tree(pattern),
		.found = found_rule,
		.arg = r,
	};
	r->trees = !x.within;
	return root < 0 ? err_sys(err, "cannot open the root") : expand(&x, err);
}

static int ruleset(const struct sandbox_spec *spec, struct cordon_error *err)
{
	struct rules r = {0}, found = {0};
	int fd = 0;
	for (uint32_t i = 0; i < spec->rule_count && fd == 0; i++) {
		const struct access_rule *rule = &spec->rules[i];
		r.like = found.like = (struct landlock_rule){.access = (__typeof__(r.like.access))rule->access, .optional = true};
		fd = rule->pattern ? find_rules(&found, rule, err) : add_rule(&r, rule->path, err);
	}
	for (size_t i = 0; i < found.count && fd == 0; i++) {
		r.like = found.items[i];
		fd = add_rule(&r, found.items[i].path, err);
	}
	if (fd == 0)
		fd = landlock_ruleset(r.items, r.count, err);
	for (size_t i = 0; i < found.count; i++)
		free((char *)(uintptr_t)found.items[i].path);
	free(found.items);
	free(r.items);
	return fd;
}

int birth_ruleset(const struct sandbox_spec *spec, const struct idmap *ids, struct cordon_error *err)
{
	const bool as_user = (spec->flags & SPEC_PERMITS) && ids->mode != IDMAP_SELF;
	if (spec->weaken & WEAKEN_LANDLOCK)
		return -1;
	if (as_user) { /* init has no right of its own to look into the user's directories */
		setfsgid(ids->gid);
		setfsuid(ids->uid);
	}
	int fd = ruleset(spec, err);
	if (as_user) {
		setfsuid(geteuid());
		setfsgid(getegid());
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* the change of ids took it away */
	}
	return fd;
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
		int r = confine_bounding_set(spec->flags & SPEC_ROOT ? CONFINE_ROOT : 0);
		if (r < 0) {
			errno = -r;
			return err_sys(err, "cannot drop the capabilities of programs");
		}
	}
	if (!(spec->weaken & WEAKEN_SECCOMP)) {
		unsigned flags = (b->limits->cpu == LIMIT_RLIMIT ? SECCOMP_PIN_CPUS : 0) | (mounts_writable(spec) ? SECCOMP_NO_SETID : 0);
		config->renames = renames_needed(spec);
		flags |= (config->renames ? SECCOMP_NOTIFY : 0) | (spec->flags & SPEC_LISTED ? SECCOMP_LISTED : 0);
		flags |= (spec->flags & SPEC_ROOT) && b->ids->mode == IDMAP_SELF ? SECCOMP_ONE_ID : 0;
		if (spec->flags & SPEC_NO_NATIVE)
			flags |= SECCOMP_NO_NATIVE | (confine_has_no_exec_gain() ? SECCOMP_MDWE : 0);
		config->supervisor_filter = (flags & ~(unsigned)SECCOMP_NOTIFY) | SECCOMP_READER;
		flags |= SECCOMP_TRACE | (spec->flags & SPEC_NO_SUBPROCESS ? SECCOMP_ALONE : 0);
		if (seccomp_compile(flags, &program, err) < 0)
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
	struct mounts_view view = {-1, -1, -1};
	struct airlock airlock = {0};
	if (receive_sources(b, &none, err) < 0)
		return -1;
	/* now, not sooner: until its word is given, the launcher has better use for the other CPU */
	const bool loopback = !(spec->flags & SPEC_NO_LOOPBACK), alone = b->queued && !spec->airlock.port_count;
	if (own_network && (alone ? namespaces_network_make(loopback, err) : namespaces_network_begin(loopback, &spec->airlock, err)) < 0)
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
	if (own_network && (namespaces_network_join(&airlock, err) < 0 || airlock_send(&airlock, b->sock, err) < 0))
		return -1;
	if (enter_cgroups(b, err) < 0 || send_view(b, &view, err) < 0)
		return -1;
	config->inbox = view.inbox_fd;
	if ((spec->flags & SPEC_LIVE) && mounts_open_trees(config->trees, err) < 0)
		return -1;
	if ((spec->flags & SPEC_PERMITS) && landlock_abi() == 0) {
		err_set(err, CORDON_ERR_WEAK_HOST, "Landlock is missing: nothing would hold the policy's files.* and process.*");
		return err_hint(err, "boot with lsm=…,landlock (Linux 5.13 or later)");
	}
	if (landlock_abi() > 0) {
		config->landlock_fd = birth_ruleset(spec, b->ids, err);
		if (config->landlock_fd < 0 && !(spec->weaken & WEAKEN_LANDLOCK))
			return -1;
	}
	return 0;
}

/* Last, when nothing more has to be set up. */
static int lock_down(struct birth *b, struct init_config *config, struct cordon_error *err)
{
	const uint64_t keep = 1ull << CAP_KILL | 1ull << CAP_SETUID | 1ull << CAP_SETGID | (config->seccomp ? 1ull << CAP_SYS_PTRACE : 0) |
	                      (b->spec->flags & SPEC_ROOT ? CONFINE_ROOT : 0);
	int null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(null, i) < 0)
			return err_sys(err, "cannot open /dev/null");
	int fds[] = {0, 1, 2, config->sock, config->landlock_fd, config->inbox, config->trees[0], config->trees[1]};
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
		.inbox = -1,
		.trees = {-1, -1},
		.rules = b->spec->flags & SPEC_LIVE ? b->spec : NULL,
		.ids = *b->ids,
		.disk = b->spec->disk,
		.data_limit = b->limits->memory == LIMIT_RLIMIT ? b->spec->memory : 0,
		/* the supervisor has the same id as the commands, and as a user init and the watcher have it, too: they count among them */
		.proc_limit = b->limits->pids == LIMIT_RLIMIT ? b->spec->pids + (b->ids->mode == IDMAP_SELF ? 3 : 1) : 0,
		.flags = b->spec->flags,
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
