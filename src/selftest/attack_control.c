/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controls: every attack once more, where it should work. Some as a plain process; those that need privileges in namespaces of their
 * own, where the caller is root and nothing that is done reaches the host:
 *
 *   this process ── writes the id maps of ──▶ the owner: new user, mount, pid, network, IPC and UTS namespaces
 *                                               └── pid 1: fresh /proc, empty /etc, a read-only /usr with a writable /usr/local
 *                                                     └── one process per attack, each with a mount namespace of its own
 */
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "selftest/attack.h"

/* As the sandboxes' ids: above all that systemd hands out. */
#define SPARE_IDS 1879048192u

static void report(const struct attack *a, const char *verdict, const char *detail)
{
	dprintf(STDOUT_FILENO, "%s\t%s\t%s\n", a->name, verdict, detail);
}

static bool chosen(const struct attack *a, const char *only, bool in_namespaces)
{
	return (a->control == CONTROL_USERNS) == in_namespaces && (!only || strcmp(only, a->name) == 0);
}

/* Root of a user namespace is not the host's, whatever its id looks like. */
static bool is_host_root(void)
{
	return geteuid() == 0 && attack_all_ids(NULL) == 0;
}

static void try_controls(const char *only, const struct decoys *d, bool in_namespaces)
{
	for (size_t i = 0; i < attack_count; i++) {
		const struct attack *a = &attack_table[i];
		struct outcome o;

		if (!chosen(a, only, in_namespaces))
			continue;
		if (a->control == CONTROL_ROOT && !is_host_root()) {
			report(a, "n/a", "only root could do it");
			continue;
		}
		attack_try(a, d, in_namespaces, &o);
		if (o.worked)
			report(a, "worked", "");
		else if (strcmp(o.detail, errno_name(ENODECOY)) == 0)
			report(a, "n/a", "its decoy could not be made");
		else if (strcmp(o.detail, "ENOSYS") == 0)
			report(a, "n/a", "this kernel does not have it");
		else if (word_in(a->absent, o.detail))
			report(a, "n/a", a->absent_why);
		else
			report(a, "failed", o.detail);
	}
}

/* ---- the namespaces ---- */

static int write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return write_text(path, text);
}

/* The caller becomes root in there; where the caller may map more ids, others are there too (for setuid and chown). */
static int write_maps(pid_t pid)
{
	char many[64], uid[32], gid[32];

	snprintf(many, sizeof(many), "0 %u 1\n1 %u 65535\n", (unsigned)geteuid(), SPARE_IDS + 1);
	if (write_map(pid, "uid_map", many) == 0)
		return write_map(pid, "gid_map", many);
	snprintf(uid, sizeof(uid), "0 %u 1\n", (unsigned)geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1\n", (unsigned)getegid());
	write_map(pid, "setgroups", "deny"); /* user_namespaces(7): without, an ordinary user may not write gid_map */
	if (write_map(pid, "uid_map", uid) < 0)
		return -errno;
	return write_map(pid, "gid_map", gid);
}

/* So that attacks on /usr, /etc and /proc hit something, and nothing of the host's. */
static int build_mounts(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ||
	    mount("none", "/etc", "tmpfs", 0, "mode=755") < 0 || mount("none", "/usr", "tmpfs", 0, "mode=755") < 0 ||
	    mkdir("/usr/local", 0755) < 0 || mount("none", "/usr/local", "tmpfs", 0, "mode=755") < 0 ||
	    mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		return -errno;
	return 0;
}

/* Runs in the new user namespace, once its ids are mapped. Exits with an errno if the namespaces cannot be made. */
static int owner_main(const char *only, const struct decoys *d)
{
	pid_t pid;
	int r;

	if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return -errno;
	pid = fork();
	if (pid != 0)
		return child_result(pid);
	r = build_mounts();
	if (r < 0)
		_exit(-r);
	prctl(PR_SET_DUMPABLE, 1); /* a change of credentials cleared it, and pid 1 is to be looked into */
	try_controls(only, d, true);
	_exit(0);
}

static int try_in_namespaces(const char *only, const struct decoys *d)
{
	int ready[2], go[2], r;
	char byte = 0;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER) < 0)
			byte = (char)errno;
		if (write(ready[1], &byte, 1) != 1 || byte != 0 || read(go[0], &byte, 1) != 1)
			_exit(byte ? byte : EPIPE);
		close(ready[0]);
		close(ready[1]);
		close(go[0]);
		close(go[1]);
		_exit(-owner_main(only, d));
	}
	close(ready[1]);
	r = pid > 0 && read(ready[0], &byte, 1) == 1 && byte == 0 ? write_maps(pid) : -EPERM;
	if (r == 0 && write(go[1], "", 1) != 1)
		r = -EPIPE;
	close(go[1]);
	if (pid > 0) {
		int ended = child_result(pid);

		if (r == 0)
			r = ended;
	}
	close(go[0]);
	close(ready[0]);
	return r;
}

/* Only a process in a cgroup of its own has something to tell; where the caller has none, the decoys brought one. */
static void enter_cgroup(const struct decoys *d)
{
	const char *dir = decoy_get(d, "cgroupdir");
	char path[512];

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	write_text(path, "0");
}

void controls_try_all(const char *only, const struct decoys *d)
{
	char why[96];
	int r;

	enter_cgroup(d);
	try_controls(only, d, false);
	r = try_in_namespaces(only, d);
	if (r == 0)
		return;
	snprintf(why, sizeof(why), "no namespaces to try it in (%s)", errno_name(-r));
	for (size_t i = 0; i < attack_count; i++)
		if (chosen(&attack_table[i], only, true))
			report(&attack_table[i], "n/a", why);
}
