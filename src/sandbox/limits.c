/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits by control groups. Theory of operation:
 *
 * Each hierarchy that this process may use gets one directory, `cordon`, held as an O_PATH descriptor; each sandbox gets one directory
 * below it in each hierarchy that holds one of its limits. Everything happens relative to those descriptors, with no stdio and no
 * allocation, because making and removing these directories is a good part of a cold start.
 *
 * Finding out what is there costs a statfs() instead of parsing mountinfo: /sys/fs/cgroup is either the unified hierarchy itself, or a
 * tmpfs with one v1 hierarchy per directory and perhaps a v2 one without controllers in `unified` (file-hierarchy of systemd, cgroups(7)).
 * A path below such a mount starts at the root of our own cgroup namespace (or at what a container engine bound there), so "the top" is
 * always the top of what we may see.
 *
 * Joining: v2 by CLONE_INTO_CGROUP, v1 by a "0" to `tasks`, never by a pid to `cgroup.procs`, which takes a lock over all thread groups and
 * waits for an RCU grace period: milliseconds. The kernel checks these writes against the opener's credentials (since 5.16), so descriptors
 * opened here work in a child that already lives in a user namespace of its own.
 */
#include "sandbox/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>

#include "base/util.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define SUBTREE "cordon"
#define PATH_SIZE (LIMITS_NAME_MAX + 48)

enum controller { MEMORY = 1 << 0, PIDS = 1 << 1, CPU = 1 << 2, ALL = MEMORY | PIDS | CPU };
static const struct {
	const char *name;
	enum controller bit;
} controllers[] = {{"memory", MEMORY}, {"pids", PIDS}, {"cpu", CPU}};

/* Appends at p, never past end; the result is always terminated. */
static char *put(char *p, const char *end, const char *s)
{
	while (*s && p + 1 < end)
		*p++ = *s++;
	*p = '\0';
	return p;
}

static const char *decimal(uint64_t n, char buf[24])
{
	char *p = buf + 23;

	for (*p = '\0'; p == buf + 23 || n > 0; n /= 10)
		*--p = (char)('0' + n % 10);
	return p;
}

/* "NAME/FILE"; names are checked by limits_create() and fit. */
static const char *join(char path[PATH_SIZE], const char *name, const char *file)
{
	put(put(put(path, path + PATH_SIZE, name), path + PATH_SIZE, "/"), path + PATH_SIZE, file);
	return path;
}

/* 0 or -errno. */
static int write_file(int dir, const char *path, const char *value)
{
	_cleanup_fd_ int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

/* Reads a short file as a string; its length or -1. */
static ssize_t read_file(int dir, const char *path, char *buf, size_t size)
{
	_cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[MAX(n, 0)] = '\0';
	return n;
}

static int open_dir(int dir, const char *path)
{
	return openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool is_fs(int fd, long magic)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (long)fs.f_type == magic;
}

/* The first reason is the one that matters. */
__attribute__((format(printf, 2, 3))) static void set_why(struct limits_host *host, const char *fmt, ...)
{
	if (!host->why[0]) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(host->why, sizeof(host->why), fmt, ap);
		va_end(ap);
	}
}

/* ---- probing ------------------------------------------------------------------------------------------------------------------- */

/* PARENT/cordon of the wanted kind of hierarchy, made if need be, writable by us; -1 with errno. ENODEV: no such hierarchy. */
static int open_subtree(int root, const char *parent, long magic)
{
	char path[64];
	put(put(path, path + sizeof(path), parent), path + sizeof(path), "/" SUBTREE);

	_cleanup_fd_ int fd = open_dir(root, path);
	if (fd < 0 && errno == ENOENT) {
		/* Looked at before the mkdir, which would succeed as well in a plain directory where nothing is mounted. */
		_cleanup_fd_ int top = open_dir(root, parent);
		if (top < 0 || !is_fs(top, magic)) {
			errno = ENODEV;
			return -1;
		}
		if (mkdirat(top, SUBTREE, 0755) < 0 && errno != EEXIST)
			return -1;
		fd = open_dir(top, SUBTREE);
	}
	if (fd < 0)
		return -1;
	if (!is_fs(fd, magic)) {
		errno = ENODEV;
		return -1;
	}
	/* root's subtree is no use to anybody else, and container engines mount it read-only: EACCES, EROFS */
	return faccessat(fd, ".", W_OK | X_OK, 0) < 0 ? -1 : steal_fd(&fd);
}

static void probe_v1(struct limits_host *host, int root)
{
	const struct {
		const char *name, *other; /* cpu and cpuacct may be mounted together, and then `cpu` is usually, but not always, a link */
		enum limit_method *method;
		int *fd;
	} hierarchies[] = {{"memory", NULL, &host->memory, &host->memory_fd},
	                   {"pids", NULL, &host->pids, &host->pids_fd},
	                   {"cpu", "cpu,cpuacct", &host->cpu, &host->cpu_fd}};

	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		*hierarchies[i].fd = open_subtree(root, hierarchies[i].name, CGROUP_SUPER_MAGIC);
		if (*hierarchies[i].fd < 0 && errno == ENODEV && hierarchies[i].other)
			*hierarchies[i].fd = open_subtree(root, hierarchies[i].other, CGROUP_SUPER_MAGIC);
		if (*hierarchies[i].fd >= 0)
			*hierarchies[i].method = LIMIT_CGROUP1;
		else if (errno == ENODEV)
			set_why(host, "no %s controller is mounted below " CGROUP_ROOT, hierarchies[i].name);
		else
			set_why(host, CGROUP_ROOT "/%s/" SUBTREE ": %s (uid %u)", hierarchies[i].name, strerror(errno),
			        (unsigned)geteuid());
	}
}

/* Which of our controllers a file such as cgroup.controllers or cgroup.subtree_control names. */
static unsigned read_controllers(int dir, const char *file)
{
	char text[512], *save = NULL;
	unsigned found = 0;

	if (read_file(dir, file, text, sizeof(text)) <= 0)
		return 0;
	for (char *word = strtok_r(text, " \n", &save); word; word = strtok_r(NULL, " \n", &save))
		for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
			if (strcmp(word, controllers[i].name) == 0)
				found |= controllers[i].bit;
	return found;
}

/*
 * Hands controllers down to dir's children. 0 or -errno. All in one write, which takes effect as a whole or not at all: pids or cpu without
 * memory would turn a cgroup that has processes into the root of a threaded subtree, whose children can hold no processes of their own
 * (cgroup-v2.rst, "Threads"). If it is refused for one of them (cpu with real-time processes around, EINVAL), the others follow memory.
 */
static int enable_controllers(int dir, unsigned which)
{
	char words[48] = "", *p = words;

	if (!which)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
		if (which & controllers[i].bit)
			p = put(put(p, words + sizeof(words), " +"), words + sizeof(words), controllers[i].name);
	int r = write_file(dir, "cgroup.subtree_control", words + 1);
	if (r == 0 || r == -EBUSY || !(which & (which - 1)))
		return r;
	if (enable_controllers(dir, which & MEMORY) == 0) {
		enable_controllers(dir, which & PIDS);
		enable_controllers(dir, which & CPU);
	}
	return r;
}

/* TOP/cordon as the place for v2 cgroups with as many controllers as can be had. -1: not even a directory. */
static int use_v2_top(struct limits_host *host, int top, const char *shown)
{
	_cleanup_fd_ int fd = open_subtree(top, ".", CGROUP2_SUPER_MAGIC);
	if (fd < 0) {
		set_why(host, "%s/" SUBTREE ": %s (uid %u)", shown, strerror(errno), (unsigned)geteuid());
		return -1;
	}
	unsigned have = read_controllers(fd, "cgroup.subtree_control");
	if (have != ALL) {
		char type[32];
		if (read_file(fd, "cgroup.type", type, sizeof(type)) > 0 && strcmp(type, "domain\n") != 0) {
			set_why(host, "%s is the root of a threaded subtree", shown);
			return -1;
		}
		unsigned offered = read_controllers(top, "cgroup.controllers");
		/*
		 * "No internal processes" (cgroups(7)): a cgroup that has processes cannot hand controllers down, EBUSY; only the real root is
		 * exempt. That is what a container sees whose root cgroup is its own, and an ordinary user directly in a delegated scope.
		 */
		int r = enable_controllers(top, offered & ~read_controllers(top, "cgroup.subtree_control"));
		int r2 = enable_controllers(fd, offered & ~have);
		have = read_controllers(fd, "cgroup.subtree_control");
		for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
			if (have & controllers[i].bit)
				continue;
			if (!(offered & controllers[i].bit))
				set_why(host, "%s controller is not delegated to %s (uid %u)", controllers[i].name, shown,
				        (unsigned)geteuid());
			else if (r == -EBUSY)
				set_why(host, "%s has processes of its own, so it cannot hand down the %s controller", shown,
				        controllers[i].name);
			else
				set_why(host, "cannot enable the %s controller in %s: %s", controllers[i].name, shown,
				        strerror(-(r ? r : r2)));
		}
	}
	if (have & MEMORY)
		host->memory = LIMIT_CGROUP2;
	if (have & PIDS)
		host->pids = LIMIT_CGROUP2;
	if (have & CPU)
		host->cpu = LIMIT_CGROUP2;
	host->v2_fd = steal_fd(&fd);
	return 0;
}

/*
 * An ordinary user: the nearest ancestor of our own cgroup that is ours and hands memory and pids down. Moving a process (and cloning
 * into a cgroup) needs write access to cgroup.procs of the nearest common ancestor (cgroup-v2.rst, "Delegation Containment"), which is
 * that very directory. With systemd this is user@UID.service or a slice below it; a login session's own scope is not below it.
 */
static void probe_v2_user(struct limits_host *host, int root)
{
	char text[4096], *path = NULL;

	if (read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) > 0)
		path = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
	if (path) {
		path = strchr(path, '/') + 1;
		path[strcspn(path, "\n")] = '\0';
	}
	if (!path || strncmp(path, "..", 2) == 0) {
		set_why(host, "our own cgroup is not below " CGROUP_ROOT);
		return;
	}
	for (;;) {
		_cleanup_fd_ int dir = open_dir(root, *path ? path : ".");
		if (dir >= 0 && faccessat(dir, ".", W_OK, 0) == 0 && faccessat(dir, "cgroup.procs", W_OK, 0) == 0 &&
		    (read_controllers(dir, "cgroup.subtree_control") & (MEMORY | PIDS)) == (MEMORY | PIDS)) {
			char shown[128];
			put(put(shown, shown + sizeof(shown), CGROUP_ROOT "/"), shown + sizeof(shown), path);
			if (use_v2_top(host, dir, shown) == 0)
				return;
		}
		if (!*path)
			break;
		char *slash = strrchr(path, '/');
		*(slash ? slash : path) = '\0';
	}
	set_why(host, "no cgroup above ours is delegated to uid %u with the memory and pids controllers", (unsigned)geteuid());
}

int limits_probe(const char *forced, struct limits_host *host, struct cordon_error *err)
{
	enum limit_method only = LIMIT_NONE;

	*host = (struct limits_host){.memory = LIMIT_RLIMIT,
	                             .pids = LIMIT_RLIMIT,
	                             .cpu = LIMIT_RLIMIT,
	                             .v2_fd = -1,
	                             .memory_fd = -1,
	                             .pids_fd = -1,
	                             .cpu_fd = -1};
	if (forced && *forced) {
		for (only = LIMIT_CGROUP2; only <= LIMIT_RLIMIT && strcmp(forced, limit_method_name(only, "rlimit")) != 0; only++)
			;
		if (only > LIMIT_RLIMIT)
			return err_set(err, CORDON_ERR_INPUT, "CORDON_LIMITS=%s: must be cgroup2, cgroup1 or rlimit", forced);
	}
	if (only == LIMIT_RLIMIT) {
		set_why(host, "CORDON_LIMITS=rlimit");
		return 0;
	}

	_cleanup_fd_ int root = open_dir(AT_FDCWD, CGROUP_ROOT);
	if (root < 0) {
		set_why(host, "no cgroups: " CGROUP_ROOT ": %s", strerror(errno));
	} else if (is_fs(root, CGROUP2_SUPER_MAGIC)) {
		if (only == LIMIT_CGROUP1)
			set_why(host, "this host has the unified cgroup hierarchy only");
		else if (geteuid() == 0)
			use_v2_top(host, root, CGROUP_ROOT);
		else
			probe_v2_user(host, root);
	} else {
		if (only != LIMIT_CGROUP2)
			probe_v1(host, root);
		/* A controller is in one hierarchy only: where v1 has them all, v2 is asked for nothing but a place to kill and freeze. */
		bool all_v1 = host->memory_fd >= 0 && host->pids_fd >= 0 && host->cpu_fd >= 0;
		if (all_v1 || only == LIMIT_CGROUP1) {
			host->v2_fd = open_subtree(root, "unified", CGROUP2_SUPER_MAGIC);
		} else {
			_cleanup_fd_ int unified = open_dir(root, "unified");
			if (unified >= 0 && is_fs(unified, CGROUP2_SUPER_MAGIC))
				use_v2_top(host, unified, CGROUP_ROOT "/unified");
			else
				set_why(host, "no cgroup2 hierarchy at " CGROUP_ROOT);
		}
	}

	if (only != LIMIT_NONE && (host->memory != only || host->pids != only)) {
		err_set(err, CORDON_ERR_WEAK_HOST, "CORDON_LIMITS=%s: not usable here: %s", forced, host->why);
		limits_host_close(host);
		return -1;
	}
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(steal_fd(fd));
}

void limits_host_close(struct limits_host *host)
{
	close_fd(&host->v2_fd);
	close_fd(&host->memory_fd);
	close_fd(&host->pids_fd);
	close_fd(&host->cpu_fd);
}

/* ---- one sandbox --------------------------------------------------------------------------------------------------------------- */

static int open_file(int dir, const char *name, const char *file, int flags)
{
	return openat(dir, join((char[PATH_SIZE]){0}, name, file), flags | O_CLOEXEC);
}

/* Writes a limit. `optional`: not an error on kernels without that file. 0 or -1 with *err. */
static int set_limit(int dir, const char *name, const char *file, const char *value, bool optional, struct cordon_error *err)
{
	char path[PATH_SIZE];
	int r = write_file(dir, join(path, name, file), value);

	if (r == 0 || (optional && r == -ENOENT))
		return 0;
	errno = -r;
	return err_sys(err, "cannot set %s to %s", path, value);
}

static int make_dir(int parent, const char *name, struct cordon_error *err)
{
	return mkdirat(parent, name, 0755) == 0 ? 0 : err_sys(err, "cannot make cgroup " SUBTREE "/%s", name);
}

static int create_v1(const struct limits_host *host, const struct limits_request *req, struct limits *l, struct cordon_error *err)
{
	char number[24];
	struct sysinfo si;

	if (req->memory && host->memory == LIMIT_CGROUP1) {
		const char *bytes = decimal(req->memory, number);
		if (make_dir(host->memory_fd, l->name, err) < 0 ||
		    set_limit(host->memory_fd, l->name, "memory.limit_in_bytes", bytes, false, err) < 0)
			return -1;
		/* socket buffers count only where this is set, and come out of a pool that the whole host shares (tcp_mem) */
		if (set_limit(host->memory_fd, l->name, "memory.kmem.tcp.limit_in_bytes", bytes, true, err) < 0)
			return -1;
		/* memory + swap, after the one it may not be lower than; the file exists only with swap accounting */
		if (sysinfo(&si) == 0 && si.totalswap > 0 &&
		    set_limit(host->memory_fd, l->name, "memory.memsw.limit_in_bytes", bytes, true, err) < 0)
			return -1;
		l->enter_fds[0] = open_file(host->memory_fd, l->name, "tasks", O_WRONLY);
		l->usage_memory_fd = open_file(host->memory_fd, l->name, "memory.max_usage_in_bytes", O_RDONLY);
		l->usage_oom_fd = open_file(host->memory_fd, l->name, "memory.oom_control", O_RDONLY);
	}
	if (req->pids && host->pids == LIMIT_CGROUP1) {
		if (make_dir(host->pids_fd, l->name, err) < 0 ||
		    set_limit(host->pids_fd, l->name, "pids.max", decimal(req->pids + 1, number), false, err) < 0)
			return -1;
		l->enter_fds[1] = open_file(host->pids_fd, l->name, "tasks", O_WRONLY);
		l->usage_pids_fd = open_file(host->pids_fd, l->name, "pids.peak", O_RDONLY); /* since 6.1 */
	}
	if (req->cpus_milli && host->cpu == LIMIT_CGROUP1) {
		if (make_dir(host->cpu_fd, l->name, err) < 0)
			return -1;
		/* The period of a new group is 100 ms. EINVAL: more than an ancestor's quota, which then holds anyway (sched-bwc.rst). */
		char path[PATH_SIZE];
		int r = write_file(host->cpu_fd, join(path, l->name, "cpu.cfs_quota_us"), decimal(MAX(req->cpus_milli, 10) * 100, number));
		if (r < 0 && r != -EINVAL) {
			errno = -r;
			return err_sys(err, "cannot set %s", path);
		}
		l->enter_fds[2] = open_file(host->cpu_fd, l->name, "tasks", O_WRONLY);
	}
	if ((l->memory == LIMIT_CGROUP1 && l->enter_fds[0] < 0) || (l->pids == LIMIT_CGROUP1 && l->enter_fds[1] < 0) ||
	    (l->cpu == LIMIT_CGROUP1 && l->enter_fds[2] < 0))
		return err_sys(err, "cannot open the tasks file of cgroup " SUBTREE "/%s", l->name);
	return 0;
}

/* Sandboxes enter it before they are limited: until then only our own code runs in it. */
static int set_v2(const struct limits_host *host, const struct limits_request *req, struct limits *l, struct cordon_error *err)
{
	char number[24];

	if (req->memory && host->memory == LIMIT_CGROUP2) {
		/* swap.max: only with CONFIG_SWAP and swapaccount; oom.group: since 4.19, one kill takes the whole sandbox */
		if (set_limit(l->v2_fd, ".", "memory.max", decimal(req->memory, number), false, err) < 0 ||
		    set_limit(l->v2_fd, ".", "memory.swap.max", "0", true, err) < 0 ||
		    set_limit(l->v2_fd, ".", "memory.oom.group", "1", true, err) < 0)
			return -1;
		l->usage_cpu_fd =
			openat(l->v2_fd, "cpu.stat", O_RDONLY | O_CLOEXEC); /* init dies with the rest (oom.group) and cannot say */
		l->usage_memory_fd = openat(l->v2_fd, "memory.peak", O_RDONLY | O_CLOEXEC); /* since 5.19 */
		l->usage_oom_fd = openat(l->v2_fd, "memory.events", O_RDONLY | O_CLOEXEC);
	}
	if (req->pids && host->pids == LIMIT_CGROUP2) {
		if (set_limit(l->v2_fd, ".", "pids.max", decimal(req->pids + 1, number), false, err) < 0)
			return -1;
		l->usage_pids_fd = openat(l->v2_fd, "pids.peak", O_RDONLY | O_CLOEXEC); /* since 6.1 */
	}
	if (req->cpus_milli && host->cpu == LIMIT_CGROUP2) /* "QUOTA" alone keeps the period, 100 ms */
		return set_limit(l->v2_fd, ".", "cpu.max", decimal(MAX(req->cpus_milli, 10) * 100, number), false, err);
	return 0;
}

int limits_begin(const struct limits_host *host, const struct limits_request *req, const char *name, struct limits *out,
                 struct cordon_error *err)
{
	*out = (struct limits){
		.memory = req->memory ? host->memory : LIMIT_NONE,
		.pids = req->pids ? host->pids : LIMIT_NONE,
		.cpu = req->cpus_milli ? host->cpu : LIMIT_NONE,
		.v2_fd = -1,
		.enter_fds = {-1, -1, -1},
		.usage_memory_fd = -1,
		.usage_oom_fd = -1,
		.usage_pids_fd = -1,
		.usage_cpu_fd = -1,
	};
	if (!*name || *name == '.' || strlen(name) >= LIMITS_NAME_MAX || strchr(name, '/'))
		return err_set(err, CORDON_ERR_INPUT, "bad cgroup name \"%s\"", name);
	put(out->name, out->name + sizeof(out->name), name);
	const bool holds = out->memory == LIMIT_CGROUP2 || out->pids == LIMIT_CGROUP2 || out->cpu == LIMIT_CGROUP2;
	if (host->v2_fd < 0 || !(holds || req->freezes)) /* a cgroup that is of no use is a tenth of what a sandbox costs the launcher */
		return 0;
	if (make_dir(host->v2_fd, name, err) < 0)
		return -1;
	out->v2_fd = open_dir(host->v2_fd, name);
	if (out->v2_fd < 0) {
		err_sys(err, "cannot open cgroup " SUBTREE "/%s", name);
		unlinkat(host->v2_fd, name, AT_REMOVEDIR); /* that alone: the others of this name are not ours */
		return -1;
	}
	out->has_v2 = true;
	return 0;
}

int limits_complete(const struct limits_host *host, const struct limits_request *req, struct limits *l, struct cordon_error *err)
{
	return set_v2(host, req, l, err) < 0 ? -1 : create_v1(host, req, l, err);
}

int limits_destroy(const struct limits_host *host, struct limits *l)
{
	const struct {
		bool used;
		int fd;
	} parents[] = {{l->has_v2, host->v2_fd},
	               {l->memory == LIMIT_CGROUP1, host->memory_fd},
	               {l->pids == LIMIT_CGROUP1, host->pids_fd},
	               {l->cpu == LIMIT_CGROUP1, host->cpu_fd}};
	int busy = 0;

	for (size_t i = 0; i < ARRAY_SIZE(l->enter_fds); i++)
		close_fd(&l->enter_fds[i]);
	close_fd(&l->usage_memory_fd);
	close_fd(&l->usage_oom_fd);
	close_fd(&l->usage_pids_fd);
	close_fd(&l->usage_cpu_fd);
	close_fd(&l->v2_fd);
	for (size_t i = 0; i < ARRAY_SIZE(parents); i++)
		if (parents[i].used && unlinkat(parents[i].fd, l->name, AT_REMOVEDIR) < 0 && errno == EBUSY)
			busy = 1;
	return busy;
}

const char *limit_method_name(enum limit_method m, const char *rlimit_name)
{
	switch (m) {
	case LIMIT_CGROUP2:
		return "cgroup2";
	case LIMIT_CGROUP1:
		return "cgroup1";
	case LIMIT_RLIMIT:
		return rlimit_name;
	case LIMIT_NONE:
	default:
		return "none";
	}
}
