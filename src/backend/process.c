/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: namespaces, Landlock, seccomp and cgroups of the host's own kernel, through the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/airlock_plan.h"
#include "backend/backend.h"
#include "backend/image_host.h"
#include "backend/image_root.h"
#include "backend/permit.h"
#include "base/fs.h"
#include "base/util.h"
#include "lib/context.h"
#include "policy/match.h"
#include "sandbox/landlock.h"

/* ---- from policy and options to a spec --------------------------------------------------------------------------------------- */

static int parse_user(const char *text, uint32_t *uid, uint32_t *gid, struct cordon_error *err)
{
	char *end;
	*uid = *gid = UINT32_MAX;
	if (!text)
		return 0;
	errno = 0;
	unsigned long u = strtoul(text, &end, 10), g = u;
	bool ok = *text >= '0' && *text <= '9';
	if (ok && *end == ':') {
		ok = end[1] >= '0' && end[1] <= '9';
		g = strtoul(end + 1, &end, 10);
	}
	if (!ok || *end || errno || u >= UINT32_MAX || g >= UINT32_MAX)
		return err_set(err, CORDON_ERR_INPUT, "user '%.60s' is not UID or UID:GID (numbers)", text);
	*uid = (uint32_t)u;
	*gid = (uint32_t)g;
	return 0;
}

static int check_hostname(const char *name, struct cordon_error *err)
{
	size_t n = strlen(name);
	if (n == 0 || n > 63 || name[0] == '-' || name[n - 1] == '-' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != n)
		return err_set(err, CORDON_ERR_INPUT, "hostname '%.80s' is not valid (letters, digits and inner hyphens, at most 63)",
		               name);
	return 0;
}

/* An absolute path inside without "." or ".."; returned without the leading slash. */
static const char *guest_path(const char *path, struct cordon_error *err)
{
	bool ok = path && path[0] == '/' && path[1] && path[1] != '/';
	for (const char *p = path ? path + 1 : ""; ok && *p;) {
		size_t n = strcspn(p, "/");
		ok = n && !(n == 1 && p[0] == '.') && !(n == 2 && p[0] == '.' && p[1] == '.');
		p += n + (p[n] == '/' && p[n + 1] != '\0');
		if (*p == '/')
			ok = false;
	}
	if (ok)
		return path + 1;
	err_set(err, CORDON_ERR_INPUT, "'%.200s' is not an absolute, normalised path inside the sandbox", path ? path : "");
	return NULL;
}

/* Places whose contents the sandbox itself depends on. */
static int check_target(const char *target, struct cordon_error *err)
{
	static const struct {
		const char *path;
		bool below; /* and everything below it */
	} reserved[] = {
		{"proc", true}, {"dev", true},    {"usr", false},   {"etc", false},    {"bin", false}, {"sbin", false},
		{"lib", false}, {"lib32", false}, {"lib64", false}, {"libx32", false}, {"run", false}, {"run/code", false},
	};
	bool staged = target[0] == '.'; /* where mounts.c puts things for a moment */
	for (size_t i = 0; i < ARRAY_SIZE(reserved) && !staged; i++) {
		size_t n = strlen(reserved[i].path);
		if (strncmp(target, reserved[i].path, n) == 0 && (target[n] == '\0' || (target[n] == '/' && reserved[i].below)))
			return err_set(err, CORDON_ERR_INPUT, "cannot mount over /%s: it belongs to the sandbox", reserved[i].path);
	}
	return staged ? err_set(err, CORDON_ERR_INPUT, "cannot mount on /%s: names at the top may not begin with a dot", target) : 0;
}

bool backend_shows_at_own_path(const char *host)
{
	static const char *const taken[] = {"/usr",  "/etc", "/proc",  "/dev",       "/sys", "/app",    "/bin",
	                                    "/sbin", "/lib", "/lib64", "/home/user", "/run", "/var/run"};
	bool free_path = strcmp(host, "/") != 0;
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		free_path = free_path && !fs_path_within(host, taken[i]) && !fs_path_within(taken[i], host);
	return free_path;
}

/* The workspace is named by whoever runs cordon and is never written: it needs no grant, but the forbidden list applies to it. */
static int plan_workspace(struct plan *p, const struct cordon_sandbox_options *o, const struct backend_layers *layers, struct strlist *read,
                          struct cordon_error *err)
{
	static const char *scratch[] = {[LAYERED_STAGE] = "", [LAYERED_UPPER] = "upper", [LAYERED_WORK] = "work"};
	const struct string_list stack = layers ? layers->app : (struct string_list){scratch, ARRAY_SIZE(scratch)};
	if (layers && !layers->app.count)
		return 0;
	if (!o->workspace) {
		plan_op(p, layers ? OP_LAYERED : OP_SCRATCH, "app", layers ? NULL : "app", 0)->layers = stack;
		return 0;
	}
	char real[PATH_MAX];
	struct stat st;
	_cleanup_fd_ int fd = fs_open(AT_FDCWD, o->workspace, O_PATH, 0, FS_ANYWHERE);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "workspace %s", o->workspace);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "workspace %s: not a directory", o->workspace);
	if (fs_fd_path(fd, real, sizeof(real)) < 0)
		return err_sys(err, "workspace %s", o->workspace);
	if (strlist_add(read, real, err) < 0)
		return -1;
	const char *host = plan_string(p, real);
	plan_op(p, OP_LAYERED, "app", host, OP_CHECKED)->layers = stack;
	/* also at its own path: virtual environments and build trees hold absolute paths. Not where the sandbox has something else. */
	if (backend_shows_at_own_path(host))
		plan_op(p, OP_ALIAS, host + 1, "app", OP_CAREFUL);
	return 0;
}

static int plan_mount(struct plan *p, const struct cordon_mount *m, struct cordon_error *err)
{
	const char *target = guest_path(m->guest, err);
	if (!target || check_target(target, err) < 0)
		return err_wrap(err, "mount %s", m->host ? m->host : "");
	plan_op(p, OP_BIND, target, m->host, OP_CHECKED | OP_CAREFUL | (m->writable ? OP_WRITABLE : 0));
	plan_rule(p, m->guest, m->writable ? LANDLOCK_RWX : LANDLOCK_RX);
	return 0;
}

/* What lies in a tree that is exchanged goes with it, and has to come back. */
static int plan_mounts_in_trees(struct plan *p, const struct cordon_sandbox_options *o, struct cordon_error *err)
{
	for (size_t i = 0; i < o->mount_count; i++) {
		const char *guest = o->mounts[i].guest;
		bool inside = fs_path_within(guest, "/home/user");
		for (uint32_t k = 0; k < p->op_count && !inside;
		     k++) /* planned before: /app and, if it is shown there, the workspace's own path */
			inside = p->ops[k].kind != OP_BIND && fs_path_within(guest + 1, p->ops[k].target);
		if (inside && plan_mount(p, &o->mounts[i], err) < 0)
			return -1;
	}
	return 0;
}

static int plan_user_parts(struct plan *p, const struct cordon_sandbox_options *o, struct cordon_error *err)
{
	for (size_t i = 0; i < o->mount_count; i++)
		if (plan_mount(p, &o->mounts[i], err) < 0)
			return -1;
	for (size_t i = 0; i < o->file_count; i++) {
		const struct cordon_file *f = &o->files[i];
		const char *target = guest_path(f->guest, err);
		if (!target || check_target(target, err) < 0)
			return err_wrap(err, "file");
		struct setup_op *op = plan_op(p, OP_FILE, target, NULL, OP_CAREFUL);
		op->data = f->data;
		op->data_len = f->len;
		op->mode = f->mode & 0777;
		plan_op(p, OP_READONLY, target, NULL, OP_CAREFUL); /* it may lie in a directory that the user inside can write */
	}
	plan_op(p, OP_INBOX, "run/code", NULL, 0);
	return 0;
}

/* What nothing overrides, then what the policy adds, and our own state. */
static int forbidden_paths(const struct cordon *ctx, const struct cordon_policy *policy, struct strlist *out, struct cordon_error *err)
{
	if (policy_forbidden_paths(getenv("HOME"), out, err) < 0)
		return -1;
	for (size_t i = 0; i < policy->mounts_forbid.count; i++)
		if (strlist_add(out, policy->mounts_forbid.items[i], err) < 0)
			return -1;
	return strlist_add(out, ctx->home, err);
}

static struct string_list as_list(const struct strlist *l)
{
	return (struct string_list){(const char **)(void *)l->items, (uint32_t)l->count};
}

#ifdef CORDON_TEST_HOOKS
static uint32_t weakened(void)
{
	static const char *const names[] = {"seccomp", "landlock", "userns",   "pidns", "mntns", "netns",
	                                    "ipcns",   "utsns",    "cgroupns", "caps",  "masks"};
	const char *want = getenv("CORDON_TEST_WEAKEN");
	for (size_t i = 0; want && i < ARRAY_SIZE(names); i++)
		if (strcmp(want, names[i]) == 0)
			return 1u << i;
	return 0;
}
#endif

/* What those who set it up have to know of the policy. */
static uint32_t permit_flags(const struct cordon_policy *p)
{
	const bool listed = !policy_runs_anything(p) || p->process.deny.count > 0 || !p->process.shell;
	return (listed ? SPEC_LISTED : 0) | (p->process.native ? 0 : SPEC_NO_NATIVE) | (p->process.subprocess ? 0 : SPEC_NO_SUBPROCESS) |
	       (p->network.localhost ? 0 : SPEC_NO_LOOPBACK);
}

/* ---- starting ---------------------------------------------------------------------------------------------------------------- */

static int receive_created(struct backend_sandbox *s, struct wire_msg *msg, struct cordon_error *err)
{
	if (fixed_decode(msg->body, msg->len, &s->info, sizeof(s->info), err) < 0)
		return -1;
	size_t next = 0;
	for (size_t i = 0; i < CREATED_FD_COUNT; i++)
		if (s->info.fd_mask & (1u << i))
			s->fds[i] = wire_take_fd(msg, next++);
	return 0;
}

/* New handles; the old ones would keep the old mounts alive. */
static void take_trees(struct backend_sandbox *s, struct wire_msg *msg)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->trees); i++) {
		cleanup_fd(&s->trees[i]);
		s->trees[i] = wire_take_fd(msg, i);
	}
}

/* CREATED comes from the launcher and READY from init, in either order; or an ERROR from one of them. */
static int process_ready(struct backend_sandbox *s, struct cordon_error *err)
{
	for (bool created = false, ready = false; !created || !ready;) {
		_cleanup_msg_ struct wire_msg msg;
		int r = wire_recv(s->control, &msg, err);
		if (r < 0)
			return -1;
		if (r == 0) {
			err_set(err, CORDON_ERR_SYSTEM, "the sandbox died while it was set up");
			return err_hint(err, "is the memory limit large enough? `cordon doctor` checks the host");
		}
		if (msg.type == WIRE_ERROR) {
			error_decode(msg.body, msg.len, err);
			return -1;
		}
		if (msg.type == WIRE_CREATED && receive_created(s, &msg, err) < 0)
			return -1;
		created = created || msg.type == WIRE_CREATED;
		if (msg.type == WIRE_AIRLOCK && airlock_receive(&s->airlock, &msg, err) < 0)
			return -1;
		if (msg.type == WIRE_READY)
			take_trees(s, &msg);
		ready = ready || msg.type == WIRE_READY;
	}
	s->ready = true;
	return 0;
}

/* Sends a request to the launcher; returns the socket over which the answers come. */
static int request(struct cordon *ctx, enum wire_type type, const struct buf *body, struct cordon_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	int r = wire_send(ctx->requests, type, body, &pair[1], 1, err);
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		if (err && err->sys_errno == EPIPE)
			err_set(err, CORDON_ERR_SYSTEM, "the launcher is gone");
		return -1;
	}
	return pair[0];
}

/* … and waits for the one word that answers it; trees of it go to s. */
static int ask(struct cordon *ctx, enum wire_type type, const struct buf *body, struct backend_sandbox *s, struct cordon_error *err)
{
	_cleanup_fd_ int sock = request(ctx, type, body, err);
	_cleanup_msg_ struct wire_msg msg = {.type = WIRE_READY};
	int r = sock < 0 ? -1 : wire_recv(sock, &msg, err);
	if (r == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the launcher gave no answer");
	if (r > 0 && msg.type == WIRE_ERROR) {
		error_decode(msg.body, msg.len, err);
		return -1;
	}
	if (r > 0 && msg.fd_count)
		take_trees(s, &msg);
	return r > 0 ? 0 : -1;
}

/* Init sees the end of file and leaves; the kernel ends the rest. Another thread may be about to use the socket, so it is not closed. */
static void process_stop(struct backend_sandbox *s)
{
	if (s->control >= 0)
		shutdown(s->control, SHUT_RDWR);
	if (s->fds[CREATED_PIDFD] >= 0) /* should init not get to read it */
		syscall(SYS_pidfd_send_signal, s->fds[CREATED_PIDFD], SIGKILL, NULL, 0);
}

static void process_release(struct backend_sandbox *s)
{
	cleanup_fd(&s->control);
	cleanup_fd(&s->seed);
	cleanup_fd(&s->image);
	strlist_free(&s->image_env);
	s->control = s->seed = s->image = -1;
	airlock_close(&s->airlock);
	for (size_t i = 0; i < CREATED_FD_COUNT; i++) {
		cleanup_fd(&s->fds[i]);
		s->fds[i] = -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(s->trees); i++) {
		cleanup_fd(&s->trees[i]);
		s->trees[i] = -1;
	}
}

/* What a spec is made of, and what has to be freed with it. */
struct draft {
	struct plan plan;
	struct strlist read, forbid;
	struct image_root image; /* hold -1: none */
	bool layered;            /* … and its root can be written */
	struct sandbox_spec spec;
};

static void draft_free(struct draft *d)
{
	strlist_free(&d->read);
	strlist_free(&d->forbid);
	plan_free(&d->plan);
	image_root_close(&d->image);
}

/* The host paths that the operations may touch (D2). */
static int draft_rules(struct draft *d, struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *o,
                       struct cordon_error *err)
{
	if ((o->workspace || o->mount_count) && forbidden_paths(ctx, policy, &d->forbid, err) < 0)
		return -1;
	if (d->plan.failed)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	d->spec.read = as_list(&d->read);
	d->spec.write = as_list(&policy->mounts_write);
	d->spec.forbid = as_list(&d->forbid);
	d->spec.ops = d->plan.ops;
	d->spec.op_count = d->plan.op_count;
	d->spec.rules = d->plan.rules;
	d->spec.rule_count = d->plan.rule_count;
	return 0;
}

static void plan_home(struct plan *p, const struct backend_layers *layers)
{
	if (!layers)
		plan_op(p, OP_SCRATCH, "home/user", "home", 0);
	else if (layers->home.count)
		plan_op(p, OP_LAYERED, "home/user", NULL, 0)->layers = layers->home;
}

/* The root: the host's, or an image. */
static int draft_root(struct draft *d, const struct plan_names *names, const struct backend_layers *layers, const char *authority,
                      struct cordon_error *err)
{
	static const char *scratch[] = {[LAYERED_STAGE] = "", [LAYERED_UPPER] = "root", [LAYERED_WORK] = "root-work"};
	const struct string_list over = layers ? layers->root : (struct string_list){scratch, ARRAY_SIZE(scratch)};
	if (d->layered && d->image.hold < 0) {
		err_set(err, CORDON_ERR_INPUT, "root: layered needs an image: the host's own root is not written over");
		return err_hint(err, "--image NAME; cordon image build or import makes one");
	}
	if (d->image.hold < 0) {
		image_host_plan(&d->plan, names);
		return authority ? image_host_trust(&d->plan, authority, err) : 0;
	}
	image_root_plan(&d->plan, &d->image, d->layered ? &over : NULL, names);
	if (d->layered && image_root_open_up(&d->plan, &d->image, geteuid() != 0, err) < 0)
		return -1;
	return authority ? image_root_trust(&d->plan, &d->image, authority, err) : 0;
}

static int draft_sandbox(struct draft *d, struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *o,
                         const struct backend_layers *layers, const char *authority, struct cordon_error *err)
{
	struct sandbox_spec *spec = &d->spec;
	if (parse_user(o->user, &spec->uid, &spec->gid, err) < 0 || check_hostname(spec->hostname, err) < 0)
		return -1;
	d->layered = policy->root == ROOT_LAYERED;
	if (d->layered && !o->user)
		spec->uid = spec->gid = 0;
	spec->flags |= d->layered && spec->uid == 0 ? SPEC_ROOT : 0;
	uint32_t uid = spec->uid != UINT32_MAX ? spec->uid : geteuid() ? geteuid() : 1000;
	uint32_t gid = spec->gid != UINT32_MAX ? spec->gid : getegid() ? getegid() : 1000;
	if (airlock_plan(policy, &spec->airlock, err) < 0)
		return -1;
	const struct plan_names names = {spec->hostname, airlock_resolver(&spec->airlock), uid, gid};
	if (draft_root(d, &names, layers, authority, err) < 0)
		return -1;
	plan_home(&d->plan, layers);
	if (strlist_copy(&d->read, &policy->mounts_read, err) < 0 || plan_workspace(&d->plan, o, layers, &d->read, err) < 0 ||
	    plan_user_parts(&d->plan, o, err) < 0 ||
	    permit_plan(&d->plan, policy, ctx->home, d->image.hold < 0 ? NULL : &d->image, false, &spec->flags, err) < 0)
		return -1;
	return draft_rules(d, ctx, policy, o, err);
}

static int process_start(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *o,
                         const struct backend_layers *layers, struct backend_sandbox *out, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	struct draft d = {.image = IMAGE_ROOT_NONE,
	                  .spec = {
				  .hostname = o->hostname ? o->hostname : "cordon",
				  .home = ctx->home,
				  .limits_force = getenv("CORDON_LIMITS"),
				  .memory = policy->limits.memory,
				  .pids = policy->limits.pids,
				  .cpus_milli = policy->limits.cpus_milli,
				  .disk = policy->limits.disk,
				  .flags = (policy->limits.strict ? SPEC_STRICT : 0) | (layers ? SPEC_LIVE : 0) |
	                                   (strlist_has(&policy->weak_allow, "landlock") ? SPEC_ALLOW_WEAK_LANDLOCK : 0) |
	                                   permit_flags(policy),
			  }};
#ifdef CORDON_TEST_HOOKS
	d.spec.weaken = weakened();
#endif
	*out = (struct backend_sandbox){
		.control = -1, .seed = -1, .image = -1, .parked = out->parked, .authority = out->authority, .trees = {-1, -1}};
	memset(out->fds, -1, sizeof(out->fds));
	if (o->workspace)
		out->seed = open(o->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	id_new(out->id);
	d.spec.id = out->id;
	d.spec.flags |= out->parked ? SPEC_PARKED : 0;
	int r = o->image && strcmp(o->image, IMAGE_HOST) != 0 ? image_root_open(ctx->home, o->image, &d.image, err) : 0;
	if (r == 0)
		r = draft_sandbox(&d, ctx, policy, o, layers, out->authority, err);
	if (r == 0) {
		sandbox_spec_encode(&d.spec, &body);
		out->control = request(ctx, WIRE_CREATE, &body, err);
		r = out->control < 0 ? -1 : 0;
		out->image = steal_fd(&d.image.hold);
		out->image_env = d.image.image.env;
		d.image.image.env = (struct strlist){0};
	}
	if (r < 0)
		process_release(out);
	draft_free(&d);
	return r;
}

/* Layers that stay where they are, for the plan of what lies in them. */
static const struct backend_layers *standing(void)
{
	static const char *items[] = {[LAYERED_STAGE] = "", [LAYERED_UPPER] = "-", [LAYERED_WORK] = "-"};
	static const struct backend_layers layers = {.app = {items, ARRAY_SIZE(items)}, .home = {items, ARRAY_SIZE(items)}};
	return &layers;
}

static int process_relayer(struct cordon *ctx, const struct cordon_policy *policy, const struct cordon_sandbox_options *o,
                           const struct backend_layers *layers, struct backend_sandbox *s, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	struct draft d = {.image = IMAGE_ROOT_NONE,
	                  .spec = {.id = s->id, .hostname = "", .home = ctx->home, .uid = UINT32_MAX, .gid = UINT32_MAX}};
	const bool stay = !layers->app.count && !layers->home.count;
	int r = strlist_copy(&d.read, &policy->mounts_read, err);
	plan_home(&d.plan, stay ? standing() : layers);
	if (r < 0 || plan_workspace(&d.plan, o, stay ? standing() : layers, &d.read, err) < 0 ||
	    plan_mounts_in_trees(&d.plan, o, err) < 0 || permit_plan(&d.plan, policy, ctx->home, NULL, true, &d.spec.flags, err) < 0)
		r = -1;
	if (r == 0 && stay)
		permit_stay(&d.plan);
	if (r == 0)
		r = draft_rules(&d, ctx, policy, o, err);
	if (r == 0 && d.plan.op_count > 0) {
		sandbox_spec_encode(&d.spec, &body);
		atomic_store(&s->remounted, true);
		r = ask(ctx, WIRE_RELAYER, &body, s, err);
	}
	draft_free(&d);
	return r;
}

static int process_unpark(struct cordon *ctx, struct backend_sandbox *s, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	struct freeze_msg m = {0};
	memcpy(m.id, s->id, sizeof(m.id));
	buf_add(&body, &m, sizeof(m));
	return wire_send(ctx->requests, WIRE_UNPARK, &body, NULL, 0, err);
}

/* Without a cgroup to freeze, init stops what it can; what starts another program meanwhile is not stopped. */
static int process_freeze(struct cordon *ctx, struct backend_sandbox *s, bool frozen, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	struct freeze_msg m = {.frozen = frozen};
	struct cordon_error why = {0};
	memcpy(m.id, s->id, sizeof(m.id));
	buf_add(&body, &m, sizeof(m));
	if (ask(ctx, WIRE_FREEZE, &body, s, &why) == 0)
		return 0;
	if (why.sys_errno != ENOTSUP) {
		if (err)
			*err = why;
		return -1;
	}
	return wire_send(s->control, WIRE_FREEZE, &body, NULL, 0, err);
}

/* ---- execs ------------------------------------------------------------------------------------------------------------------- */

static int process_exec(struct backend_sandbox *s, const struct backend_exec *e, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	const int fds[] = {e->sock, e->stdio[0], e->stdio[1], e->stdio[2]};
	exec_spec_encode(e->spec, &body);
	if (wire_send(s->control, WIRE_EXEC, &body, fds, e->spec->tty ? 1 : 4, err) < 0) {
		if (err && err->sys_errno == EPIPE)
			err_set(err, CORDON_ERR_SYSTEM, "the sandbox is gone");
		return -1;
	}
	return 0;
}

static int process_signal(struct backend_sandbox *s, int sock, int signo, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	if (signo == 0)
		return wire_send(sock, WIRE_CANCEL, NULL, NULL, 0, err);
	wire_put_u32(&body, (uint32_t)signo);
	return wire_send(sock, WIRE_SIGNAL, &body, NULL, 0, err);
}

/* User namespaces are what everything else stands on; the rest is checked when a sandbox is made. */
static int process_probe(struct cordon_error *err)
{
	char text[64];
	if (fs_read_small(AT_FDCWD, "/proc/sys/user/max_user_namespaces", text, sizeof(text)) > 0 && strtoul(text, NULL, 10) == 0) {
		err_set(err, CORDON_ERR_WEAK_HOST, "user namespaces are switched off");
		return err_hint(err, "sysctl -w user.max_user_namespaces=15000");
	}
	if (geteuid() != 0 && fs_read_small(AT_FDCWD, "/proc/sys/kernel/unprivileged_userns_clone", text, sizeof(text)) > 0 &&
	    text[0] == '0') {
		err_set(err, CORDON_ERR_WEAK_HOST, "user namespaces are switched off for ordinary users");
		return err_hint(err, "sysctl -w kernel.unprivileged_userns_clone=1");
	}
	return 0;
}

/* While it can be written to there is room for a word, whoever else has one to say. */
static int process_door(struct backend_sandbox *s, int sock, struct cordon_error *err)
{
	struct pollfd p = {.fd = s->control, .events = POLLOUT};
	if (poll(&p, 1, 0) <= 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the sandbox does not listen");
	return wire_send(s->control, WIRE_DOOR, NULL, &sock, 1, err);
}

const struct backend backend_process = {
	.name = "process",
	.probe = process_probe,
	.start = process_start,
	.relayer = process_relayer,
	.freeze = process_freeze,
	.ready = process_ready,
	.unpark = process_unpark,
	.exec = process_exec,
	.door = process_door,
	.signal = process_signal,
	.stop = process_stop,
	.release = process_release,
};
