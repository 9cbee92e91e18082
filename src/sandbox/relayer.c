/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other layers for a live sandbox. Init has given up the right to mount, so a child of the launcher does it: it enters the sandbox's user
 * namespace, in which whoever made it has every capability, and then its mount namespace. What only the host's side can open is opened before; an ordinary user
 * has no right to clone mounts out there, so the child makes a copy of the host's mount namespace that belongs to the sandbox's user namespace and clones from that.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/create.h"
#include "sandbox/mounts.h"

static int enter_user(const struct sandbox *s, struct cordon_error *err)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* to those who live there */
	if (setns(s->user_ns, CLONE_NEWUSER) < 0)
		return err_sys(err, "cannot enter the sandbox's user namespace");
	if (s->ids.mode == IDMAP_SELF)
		return 0;
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return err_sys(err, "cannot become the namespace's root");
	return 0;
}

static int exchange(struct sandbox *s, const struct sandbox_spec *spec, const char *scratch, struct cordon_error *err)
{
	struct mount_sources sources;
	const bool own = s->ids.mode == IDMAP_SELF;
	_cleanup_fd_ int self = openat(AT_FDCWD, "/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC); /* inside there is another /proc */
	if (!own && mounts_prepare(spec, scratch, &s->ids, &s->mounts, &sources, err) < 0)
		return -1;
	if (enter_user(s, err) < 0)
		return -1;
	if (own && unshare(CLONE_NEWNS) < 0)
		return err_sys(err, "cannot create a mount namespace");
	if (own && mounts_prepare(spec, scratch, &s->ids, &s->mounts, &sources, err) < 0)
		return -1;
	if (setns(s->mount_ns, CLONE_NEWNS) < 0)
		return err_sys(err, "cannot enter the sandbox's mount namespace");
	return mounts_relayer(spec, &s->ids, self, &sources, err);
}

/* Masks may have to be made again where layers stay: then what is watched stays, too. */
static bool exchanges_layers(const struct sandbox_spec *spec)
{
	for (uint32_t i = 0; i < spec->op_count; i++)
		if (spec->ops[i].kind == OP_LAYERED)
			return true;
	return false;
}

/* What is done once, and here, for all the children to come. */
static int prepare(struct sandbox *s, const struct sandbox_spec *spec, const char *scratch, struct cordon_error *err)
{
	if (s->user_ns < 0 || s->mount_ns < 0)
		return err_set(err, CORDON_ERR_INPUT, "the sandbox was not made for other layers");
	if (!exchanges_layers(spec))
		return 0;
	if (mounts_fill_cache(spec, scratch, &s->ids, &s->mounts, err) < 0 || sandbox_open_trees(s, spec, err) < 0)
		return -1;
	if (s->watcher) { /* it looks at the old ones */
		kill(s->watcher, SIGKILL);
		s->watch_at_ms = clock_ms() + 1;
	}
	return 0;
}

static void answer(int sock, const struct cordon_error *err, const int trees[MOUNTS_TREES])
{
	_cleanup_buf_ struct buf body = {0};
	if (err->code)
		error_encode(err, &body);
	wire_send(sock, err->code ? WIRE_ERROR : WIRE_READY, &body, trees, err->code ? 0 : MOUNTS_TREES, NULL);
}

void sandbox_relayer(struct host *host, struct sandbox *s, const struct sandbox_spec *spec, int sock)
{
	struct cordon_error err = {0};
	char scratch[4096];
	int trees[MOUNTS_TREES] = {-1, -1};
	scratch_path(&host->scratch, &s->scratch, scratch); /* it was not too long then */
	pid_t pid = prepare(s, spec, scratch, &err) < 0 ? -1 : fork();
	if (pid > 0)
		return;
	if (pid < 0 && !err.code)
		err_sys(&err, "cannot start a process");
	if (pid == 0) {
		prctl(PR_SET_NAME, "cordon-layers", 0, 0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (exchange(s, spec, scratch, &err) == 0)
			mounts_open_trees(trees, &err);
	}
	answer(sock, &err, trees);
	if (pid == 0)
		_exit(0);
}
