/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The candidates. Each peer gets every namespace that it has, a read-only root made from this host's /usr, no network, no capabilities and
 * no_new_privs. crun and runc, which can, also get cordon's limits and system call filter (equal strength but for Landlock), and a second
 * time neither ("lean": in a cgroup, as they come); crun can also do without a cgroup. docker and podman get the same limits and their own filter. A
 * configuration is tried before it is measured; the first that works is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/bench.h"

/* ---- command lines ----------------------------------------------------------------------------------------------------------- */

/* /bin, /lib and so on are links into /usr on most hosts, and directories on others. */
const char *const bench_top_dirs[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

int bench_top_link(const char *name, char *target, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/%s", name);
	ssize_t n = readlink(path, target, size - 1);
	target[MAX(n, 0)] = '\0';
	return n > 0 ? 1 : access(path, F_OK) == 0 ? 0 : -1;
}

static int bare_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	(void)b, (void)c, (void)err;
	return 0;
}

static int cordon_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	static const char *const words[] = {"cordon", "run", "--", NULL};
	(void)b;
	return bench_add_words(&c->argv, words, err);
}

static int bwrap_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	static const char *const first[] = {
		"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", NULL};
	static const char *const last[] = {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/", "--", NULL};

	(void)b;
	if (bench_add_words(&c->argv, first, err) < 0)
		return -1;
	for (size_t i = 0; bench_top_dirs[i]; i++) {
		char target[128], path[32];
		int kind = bench_top_link(bench_top_dirs[i], target, sizeof(target));
		const char *words[] = {kind ? "--symlink" : "--ro-bind", kind ? target : path, path, NULL};

		snprintf(path, sizeof(path), "/%s", bench_top_dirs[i]);
		if (kind >= 0 && bench_add_words(&c->argv, words, err) < 0)
			return -1;
	}
	return bench_add_words(&c->argv, last, err);
}

static int firejail_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	static const char *const words[] = {
		"firejail",        "--quiet",         "--noprofile",  "--net=none", "--private", "--private-dev",
		"--ipc-namespace", "--caps.drop=all", "--nonewprivs", "--",         NULL};
	(void)b;
	return bench_add_words(&c->argv, words, err);
}

static int nspawn_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	static const char *const words[] = {"systemd-nspawn",
	                                    "-q",
	                                    "--register=no",
	                                    "--keep-unit",
	                                    "--timezone=off",
	                                    "--resolv-conf=off",
	                                    "--read-only",
	                                    "--bind-ro=/usr",
	                                    "--tmpfs=/tmp",
	                                    "--private-network",
	                                    "--private-users=100000:65536",
	                                    "--pipe",
	                                    "--as-pid2",
	                                    "--no-new-privileges=yes",
	                                    "--drop-capability=all",
	                                    NULL};
	char where[160];

	if (geteuid())
		return err_set(err, CORDON_ERR_SYSTEM, "needs root");
	if (bench_rootfs(b, err) < 0)
		return -1;
	snprintf(where, sizeof(where), "--directory=%s/rootfs", b->dir);
	const char *const last[] = {where, "--", NULL};
	return bench_add_words(&c->argv, words, err) < 0 ? -1 : bench_add_words(&c->argv, last, err);
}

/* The global options of crun, runc and runsc. */
static int oci_front(struct bench *b, struct bench_command *c, const char *const *options, struct cordon_error *err)
{
	char state[160];

	snprintf(state, sizeof(state), "%s/state", b->dir);
	const char *const first[] = {c->program, "--root", state, NULL};
	return bench_add_words(&c->argv, first, err) < 0 ? -1 : bench_add_words(&c->argv, options, err);
}

static int runc_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	static const char *const none[] = {NULL};
	return oci_front(b, c, none, err);
}

static int runsc_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	/* a Sentry that finds no hardware behind /dev/kvm hangs: ptrace works everywhere */
	static const char *const root[] = {"--platform=ptrace", "--network=none", "--ignore-cgroups", NULL}, *const user[] = {
														     "--platform=ptrace",
														     "--network=none",
														     "--ignore-cgroups",
														     "--rootless", NULL};
	return oci_front(b, c, geteuid() ? user : root, err);
}

/* An ordinary user has no cgroups to manage. */
static int crun_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	static const char *const root[] = {"--cgroup-manager=cgroupfs", NULL}, *const user[] = {"--cgroup-manager=disabled", NULL};
	return oci_front(b, c, geteuid() ? user : root, err);
}

static int crun_no_cgroup_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	static const char *const words[] = {"--cgroup-manager=disabled", NULL};
	return oci_front(b, c, words, err);
}

/* crun refuses hosts with v1 controllers and a v2 hierarchy beside them. */
static int crun_private_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	return bench_private_view(c, err) < 0 ? -1 : crun_front(b, c, err);
}

static int crun_no_cgroup_private_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	return bench_private_view(c, err) < 0 ? -1 : crun_no_cgroup_front(b, c, err);
}

static int docker_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	return bench_docker(b, &c->argv, err);
}

static int podman_front(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	return bench_podman(b, &c->argv, err);
}

/* ---- the list ---------------------------------------------------------------------------------------------------------------- */

enum kind { KIND_PLAIN, KIND_OCI, KIND_ENGINE };

#define OCI_HOW \
	"all 7 namespaces, read-only root from /usr, masked /proc, no capabilities, cordon's list of system calls, its limits (as root)"
#define LEAN_HOW "the same without filter and limits"
#define HIDDEN ", where " BENCH_UNIFIED " is out of sight"
#define ENGINE_HOW \
	"run --rm --network none --read-only --cap-drop ALL, no new privileges, cordon's limits, its own filter, /usr as a read-only volume"
#define CRUN                                           \
	{                                              \
		"/usr/bin/crun", "/usr/local/bin/crun" \
	}
#define RUNC                                                              \
	{                                                                 \
		"/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc" \
	}

struct way {
	int (*front)(struct bench *b, struct bench_command *c, struct cordon_error *err);
	enum bench_strength strength;
	const char *how;
};

struct peer {
	const char *name;
	bool peer;
	enum kind kind;
	const char *programs[3]; /* the first that exists */
	struct way ways[2];      /* the first that works */
};

/* A table is read by its rows. */
/* clang-format off */
static const struct peer peers[] = {
	{"bare", false, KIND_PLAIN, {0}, {{bare_front, 0, "vfork and exec, no isolation"}}},
	{"cordon", false, KIND_PLAIN, {"/proc/self/exe"}, {{cordon_front, 0, "cordon run, default policy"}}},
	{"bwrap", true, KIND_PLAIN, {"/usr/bin/bwrap", "/usr/local/bin/bwrap"},
	 {{bwrap_front, 0, "--unshare-all, read-only /usr, --proc, --dev, tmpfs /tmp, no capabilities; no filter, no limits"}}},
	{"crun", true, KIND_OCI, CRUN,
	 {{crun_front, BENCH_FULL, "run; " OCI_HOW}, {crun_private_front, BENCH_FULL, "run" HIDDEN "; " OCI_HOW}}},
	{"crun-lean", true, KIND_OCI, CRUN,
	 {{crun_front, BENCH_LEAN, "run; " LEAN_HOW}, {crun_private_front, BENCH_LEAN, "run" HIDDEN "; " LEAN_HOW}}},
	{"crun-no-cgroup", true, KIND_OCI, CRUN,
	 {{crun_no_cgroup_front, BENCH_LEAN, "run --cgroup-manager=disabled; " LEAN_HOW ", and without a cgroup"},
	  {crun_no_cgroup_private_front, BENCH_LEAN, "run --cgroup-manager=disabled" HIDDEN "; " LEAN_HOW ", and without a cgroup"}}},
	{"runc", true, KIND_OCI, RUNC, {{runc_front, BENCH_FULL, "run; " OCI_HOW}}},
	{"runc-lean", true, KIND_OCI, RUNC, {{runc_front, BENCH_LEAN, "run; " LEAN_HOW}}},
	{"firejail", true, KIND_PLAIN, {"/usr/bin/firejail", "/usr/local/bin/firejail"},
	 {{firejail_front, 0, "--noprofile --net=none --private --private-dev --ipc-namespace, no capabilities; no filter, no limits"}}},
	{"nspawn", true, KIND_PLAIN, {"/usr/bin/systemd-nspawn"},
	 {{nspawn_front, 0, "--as-pid2 --read-only --private-network --private-users, no capabilities, its own filter; no limits"}}},
	{"runsc", true, KIND_OCI, {"/usr/bin/runsc", "/usr/local/bin/runsc"},
	 {{runsc_front, BENCH_NEW, "run --platform=ptrace --network=none --ignore-cgroups; gVisor's own kernel between"}}},
	{"podman", true, KIND_ENGINE, {"/usr/bin/podman"}, {{podman_front, 0, ENGINE_HOW}}},
	{"docker", true, KIND_ENGINE, {"/usr/bin/docker"}, {{docker_front, 0, ENGINE_HOW "; an engine that was started for this"}}},
};
/* clang-format on */
_Static_assert(ARRAY_SIZE(peers) + 4 <= BENCH_ROWS_MAX, "more candidates than places");

const char *const bench_names[] = {"bare",      "cordon",   "bwrap",  "crun",  "crun-lean", "crun-no-cgroup", "runc",
                                   "runc-lean", "firejail", "nspawn", "runsc", "podman",    "docker",         NULL};

static const char *const engine_limits[] = {"--network",
                                            "none",
                                            "--read-only",
                                            "--cap-drop",
                                            "ALL",
                                            "--security-opt",
                                            "no-new-privileges",
                                            "--memory",
                                            "512m",
                                            "--pids-limit",
                                            "50",
                                            "--cpus",
                                            "1",
                                            "-v",
                                            "/usr:/usr:ro",
                                            NULL};

/* As many descriptors and processes as we may hand out: an engine that wants more for its containers fails where it may not. */
static int engine_words(struct strlist *argv, struct cordon_error *err)
{
	struct rlimit files, processes;
	char nofile[64], nproc[64];

	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_NPROC, &processes);
	unsigned long most[] = {(unsigned long)MIN(files.rlim_max, 20000), (unsigned long)MIN(processes.rlim_max, 4096)};
	snprintf(nofile, sizeof(nofile), "nofile=%lu:%lu", most[0], most[0]);
	snprintf(nproc, sizeof(nproc), "nproc=%lu:%lu", most[1], most[1]);
	const char *const words[] = {"--ulimit", nofile, "--ulimit", nproc, NULL}, *const image[] = {"cordon-bench", NULL};
	return bench_add_words(argv, engine_limits, err) < 0 || bench_add_words(argv, words, err) < 0 ? -1
	                                                                                              : bench_add_words(argv, image, err);
}

static int add_id(struct bench_command *c, struct cordon_error *err)
{
	c->id_at = (int)c->argv.count;
	return strlist_add(&c->argv, BENCH_ID, err);
}

/* What makes a sandbox, runs the payload in it and removes it. */
static int run_tail(struct bench *b, const struct peer *p, const struct way *w, struct bench_command *c, const char *const *payload,
                    struct cordon_error *err)
{
	static const char *const run[] = {"run", "--bundle", NULL}, *const engine[] = {"run", "--rm", NULL};
	char dir[160];

	if (p->kind == KIND_PLAIN)
		return bench_add_words(&c->argv, payload, err);
	if (p->kind == KIND_OCI)
		return bench_bundle(b, payload, w->strength, dir, err) < 0 || bench_add_words(&c->argv, run, err) < 0 ||
		                       strlist_add(&c->argv, dir, err) < 0 || add_id(c, err) < 0
		               ? -1
		               : 0;
	return bench_add_words(&c->argv, engine, err) < 0 || engine_words(&c->argv, err) < 0 ? -1 : bench_add_words(&c->argv, payload, err);
}

static int spawn_row(struct bench *b, struct bench_row *r, double *value, struct cordon_error *err)
{
	return bench_spawn_once(b, &r->command, value, err);
}

/* Twice: what a first run leaves behind must not stop a second one, and both warm the caches. */
static int try_out(struct bench *b, struct bench_command *c, struct cordon_error *err)
{
	double ms;

	for (int i = 0; i < 2; i++)
		if (bench_spawn_once(b, c, &ms, err) < 0)
			return -1;
	return 0;
}

/* Its program and version; false: it is not there, which the row says. */
static bool find_program(struct bench *b, const struct peer *p, struct bench_row *r)
{
	r->once = spawn_row;
	for (size_t i = 0; i < ARRAY_SIZE(p->programs) && p->programs[i] && !r->command.program; i++)
		if (access(p->programs[i], X_OK) == 0)
			r->command.program = p->programs[i];
	if (!r->command.program) {
		err_set(&r->error, CORDON_ERR_NOT_FOUND, "not installed");
		return false;
	}
	if (p->peer)
		bench_spawn_words(b, (const char *const[]){r->command.program, "--version", NULL}, r->version, sizeof(r->version), NULL);
	return true;
}

static void add_candidate(struct bench *b, struct bench_section *s, const struct peer *p, const char *const *payload)
{
	struct bench_row *r = bench_row_add(s, p->name, p->ways[0].how);

	if (!r)
		return;
	if (!p->programs[0]) { /* bare */
		r->command.program = payload[0];
		r->once = spawn_row;
	} else if (!find_program(b, p, r)) {
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(p->ways) && p->ways[i].front; i++) {
		struct cordon_error err = {0};

		bench_progress(p->name, 0, 0);
		if (p->ways[i].front(b, &r->command, &err) == 0 && run_tail(b, p, &p->ways[i], &r->command, payload, &err) == 0 &&
		    try_out(b, &r->command, &err) == 0) {
			r->how = p->ways[i].how;
			r->error = (struct cordon_error){0};
			return;
		}
		if (i == 0 || err.code != CORDON_ERR_INPUT)
			r->error = err;
		bench_command_free(&r->command);
	}
}

void bench_add_candidates(struct bench *b, struct bench_section *s, const char *const *payload, int without)
{
	for (size_t i = 0; i < ARRAY_SIZE(peers) && !bench_interrupted(); i++) {
		bool left_out = peers[i].peer ? without & BENCH_NO_PEERS : i == 1 && without & BENCH_NO_CORDON;

		if (!left_out && bench_wanted(b, peers[i].name, peers[i].peer))
			add_candidate(b, s, &peers[i], payload);
	}
	bench_progress(NULL, 0, 0);
}

/* ---- containers that are held open --------------------------------------------------------------------------------------------- */

/* Of a row, by its context. */
struct held {
	char id[sizeof(BENCH_ID)], pid_file[160];
	char mark[80]; /* what its helper has among its arguments: the id that the engine gave it */
	struct bench_command stop;
};

static int hold_words(struct bench *b, const struct peer *p, const struct way *w, struct held *h, struct bench_command *c,
                      struct cordon_error *err)
{
	static const char *const sleeper[] = {"/bin/sleep", "infinity", NULL};
	const char *const engine[] = {"run", "--detach", "--name", h->id, NULL};
	char dir[160];

	if (p->kind == KIND_ENGINE)
		return bench_add_words(&c->argv, engine, err) < 0 || engine_words(&c->argv, err) < 0
		               ? -1
		               : bench_add_words(&c->argv, sleeper, err);
	if (bench_bundle(b, sleeper, w->strength, dir, err) < 0)
		return -1;
	const char *const run[] = {"run", "--detach", "--pid-file", h->pid_file, "--bundle", dir, h->id, NULL};
	return bench_add_words(&c->argv, run, err);
}

/* Starts a container, and fills in the commands that use and end it. */
static int hold(struct bench *b, const struct peer *p, const struct way *w, struct bench_row *r, const char *const *payload,
                struct cordon_error *err)
{
	struct bench_command start = {.program = r->command.program, .mount_ns = -1};
	struct held *h = r->context;
	double ms;

	h->stop = (struct bench_command){.program = r->command.program, .mount_ns = -1};
	snprintf(h->id, sizeof(h->id), "cordon-bench-%d-%u", (int)getpid(), b->serial++);
	snprintf(h->pid_file, sizeof(h->pid_file), "%s/%s.pid", b->dir, h->id);
	const char *const exec[] = {"exec", h->id, NULL}, *const end[] = {p->kind == KIND_ENGINE ? "rm" : "delete",
	                                                                  p->kind == KIND_ENGINE ? "-f" : "--force", h->id, NULL};
	int ready = w->front(b, &start, err) < 0 || hold_words(b, p, w, h, &start, err) < 0 || w->front(b, &h->stop, err) < 0 ||
	                            bench_add_words(&h->stop.argv, end, err) < 0 || w->front(b, &r->command, err) < 0 ||
	                            bench_add_words(&r->command.argv, exec, err) < 0 || bench_add_words(&r->command.argv, payload, err) < 0
	                    ? -1
	                    : 0;
	snprintf(h->mark, sizeof(h->mark), "%s", h->id);
	/* an engine's client prints an id; what a runtime has for its output is the container's */
	int started = ready;
	if (ready == 0)
		started = bench_spawn_line(b, &start, p->kind == KIND_ENGINE ? h->mark : NULL, sizeof(h->mark), err);
	bench_command_free(&start);
	if (started == 0 && try_out(b, &r->command, err) == 0)
		return 0;
	if (h->stop.argv.count)
		bench_spawn_once(b, &h->stop, &ms, NULL);
	bench_command_free(&h->stop);
	bench_command_free(&r->command);
	return -1;
}

static void add_held(struct bench *b, struct bench_section *s, const struct peer *p, const char *const *payload)
{
	struct bench_row *r = bench_row_add(s, p->name, "exec in a container that runs sleep, made as for a cold start");

	if (!r || !find_program(b, p, r))
		return;
	if (!(r->context = calloc(1, sizeof(struct held)))) {
		err_set(&r->error, CORDON_ERR_SYSTEM, "out of memory");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(p->ways) && p->ways[i].front; i++) {
		struct cordon_error err = {0};

		bench_progress(p->name, 0, 0);
		if (hold(b, p, &p->ways[i], r, payload, &err) == 0) {
			r->error = (struct cordon_error){0};
			return;
		}
		if (i == 0 || err.code != CORDON_ERR_INPUT)
			r->error = err;
	}
	free(steal_ptr(&r->context));
}

void bench_add_held(struct bench *b, struct bench_section *s, const char *const *payload)
{
	for (size_t i = 0; i < ARRAY_SIZE(peers) && !bench_interrupted(); i++)
		if (peers[i].kind != KIND_PLAIN && !strchr(peers[i].name, '-') && bench_wanted(b, peers[i].name, true))
			add_held(b, s, &peers[i], payload);
	bench_progress(NULL, 0, 0);
}

bool bench_held_of(const struct bench_row *r, const char **id, const char **pid_file)
{
	const struct held *h = r->once == spawn_row ? r->context : NULL;

	if (!h)
		return false;
	*id = h->mark;
	*pid_file = h->pid_file;
	return true;
}

void bench_end_held(struct bench *b, struct bench_section *s)
{
	double ms;

	for (size_t i = 0; i < s->count; i++) {
		struct held *h = s->rows[i].once == spawn_row ? s->rows[i].context : NULL;

		if (!h)
			continue;
		bench_spawn_once(b, &h->stop, &ms, NULL);
		bench_command_free(&h->stop);
		free(h);
		s->rows[i].context = NULL;
	}
}
