/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker and podman. Both need an image, and nothing is pulled for a benchmark: theirs is the root file system of the other peers, a few links and empty
 * directories over which the host's /usr is mounted. dockerd is started for the session, with everything it owns in our directory, and stopped by its pid.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/bench.h"

#define START_MS 30000.0
#define IMAGE "cordon-bench"
#define MOUNTS_MAX (4 << 20)

static const char *first_of(const char *const *paths)
{
	for (size_t i = 0; paths[i]; i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

/* Makes DIR/image.tar once. */
static int image_tar(struct bench *b, char tar[160], struct cordon_error *err)
{
	char rootfs[160];

	snprintf(tar, 160, "%s/image.tar", b->dir);
	snprintf(rootfs, sizeof(rootfs), "%s/rootfs", b->dir);
	if (bench_rootfs(b, err) < 0)
		return -1;
	if (access(tar, F_OK) == 0)
		return 0;
	return bench_spawn_words(
		b, (const char *const[]){"/bin/tar", "--owner=0", "--group=0", "--numeric-owner", "-C", rootfs, "-cf", tar, ".", NULL},
		NULL, 0, err);
}

/* argv + import IMAGE.tar, run to its end */
static int import(struct bench *b, const struct strlist *front, const char *program, struct cordon_error *err)
{
	struct strlist argv = {0};
	char tar[160];

	if (image_tar(b, tar, err) < 0 || strlist_copy(&argv, front, err) < 0)
		return -1;
	free(argv.items[0]);
	argv.items[0] = strdup(program); /* bench_spawn_words() takes a path */
	const char *const words[] = {"import", tar, IMAGE, NULL};
	int r = bench_add_words(&argv, words, err);
	if (r == 0)
		r = bench_spawn_words(b, (const char *const *)argv.items, NULL, 0, err);
	strlist_free(&argv);
	return r < 0 ? err_wrap(err, "importing an image") : 0;
}

/* ---- docker ------------------------------------------------------------------------------------------------------------------- */

static int docker_words(struct bench *b, struct strlist *argv, struct cordon_error *err)
{
	char host[160];

	snprintf(host, sizeof(host), "unix://%s/docker.sock", b->dir);
	const char *const words[] = {"docker", "-H", host, NULL};
	return bench_add_words(argv, words, err);
}

static int spawn_engine(struct bench *b, const char *program, struct cordon_error *err)
{
	struct bench_command c = {.program = program, .mount_ns = -1};
	char data[128], exec[128], host[160], pid_file[128], log[128];

	snprintf(data, sizeof(data), "%s/docker", b->dir);
	snprintf(exec, sizeof(exec), "%s/docker-exec", b->dir);
	snprintf(host, sizeof(host), "unix://%s/docker.sock", b->dir);
	snprintf(pid_file, sizeof(pid_file), "%s/dockerd.pid", b->dir);
	snprintf(log, sizeof(log), "%s/dockerd.log", b->dir);
	const char *const words[] = {"dockerd",
	                             "--data-root",
	                             data,
	                             "--exec-root",
	                             exec,
	                             "-H",
	                             host,
	                             "-p",
	                             pid_file,
	                             "--iptables=false",
	                             "--ip6tables=false",
	                             "--ip-forward=false",
	                             "--bridge=none",
	                             "--log-level=error",
	                             NULL};
	_cleanup_fd_ int out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	pid_t pid = out < 0 || bench_add_words(&c.argv, words, err) < 0 ? -1 : bench_spawn(b, &c, out, out, err);
	bench_command_free(&c);
	if (pid < 0)
		return out < 0 ? err_sys(err, "%s", log) : -1;
	b->engine = pid;
	return 0;
}

/* Until it answers. There is nothing to wait on but the answer itself. */
static int await_engine(struct bench *b, const char *docker, struct cordon_error *err)
{
	char host[160];
	double end = bench_now_ms() + START_MS;

	snprintf(host, sizeof(host), "unix://%s/docker.sock", b->dir);
	const char *const words[] = {docker, "-H", host, "version", NULL};
	while (bench_spawn_words(b, words, NULL, 0, err) < 0) {
		if (waitpid(b->engine, NULL, WNOHANG) == b->engine) {
			b->engine = 0;
			return err_set(err, CORDON_ERR_SYSTEM, "dockerd ended at once");
		}
		if (bench_now_ms() > end || bench_interrupted())
			return err_wrap(err, "dockerd does not answer");
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	}
	return 0;
}

static int start_engine(struct bench *b, struct cordon_error *err)
{
	static const char *const paths[] = {"/usr/sbin/dockerd", "/usr/bin/dockerd", NULL};
	static const char docker[] = "/usr/bin/docker";
	const char *dockerd = first_of(paths);
	struct strlist argv = {0};

	if (geteuid())
		return err_set(err, CORDON_ERR_SYSTEM, "needs root, to start its engine");
	if (!dockerd)
		return err_set(err, CORDON_ERR_NOT_FOUND, "dockerd is not installed");
	bench_progress("starting dockerd", 0, 0);
	int r = spawn_engine(b, dockerd, err);
	if (r == 0)
		r = await_engine(b, docker, err);
	if (r == 0)
		r = docker_words(b, &argv, err);
	if (r == 0)
		r = import(b, &argv, docker, err);
	strlist_free(&argv);
	return r;
}

/* A user's podman leaves a process behind that holds its namespaces. */
static void end_podman(struct bench *b)
{
	char text[32];
	long pid = fs_read_small(b->dir_fd, "podman-tmp/pause.pid", text, sizeof(text)) > 0 ? strtol(text, NULL, 10) : 0;

	if (pid > 1)
		kill((pid_t)pid, SIGTERM);
}

/* Engines mount things below their directories, and do not always unmount them. The last ones first. */
static void unmount_all(const struct bench *b)
{
	_cleanup_free_ char *text = malloc(MOUNTS_MAX);
	size_t len = strlen(b->dir);
	ssize_t n = text && *b->dir && geteuid() == 0 ? fs_read_small(-1, "/proc/self/mountinfo", text, MOUNTS_MAX) : -1;

	while (n > 0) {
		char *line = memrchr(text, '\n', (size_t)n - 1), point[512];
		line = line ? line + 1 : text;
		if (sscanf(line, "%*s %*s %*s %*s %511s", point) == 1 && strncmp(point, b->dir, len) == 0 && point[len] == '/')
			umount2(point, MNT_DETACH | UMOUNT_NOFOLLOW);
		n = line - text;
	}
}

static void end_dockerd(struct bench *b)
{
	if (b->engine <= 0)
		return;
	kill(b->engine, SIGTERM); /* ends its containerd as well */
	while (waitpid(b->engine, NULL, 0) < 0 && errno == EINTR)
		;
	b->engine = 0;
}

void bench_engine_stop(struct bench *b)
{
	if (b->dir_fd >= 0)
		end_podman(b);
	end_dockerd(b);
	unmount_all(b);
}

int bench_docker(struct bench *b, struct strlist *argv, struct cordon_error *err)
{
	if (!b->engine && !b->engine_dead && start_engine(b, &b->engine_error) < 0) {
		b->engine_dead = true;
		end_dockerd(b);
	}
	if (b->engine_dead) {
		*err = b->engine_error;
		return -1;
	}
	return docker_words(b, argv, err);
}

/* ---- podman ------------------------------------------------------------------------------------------------------------------- */

int bench_podman(struct bench *b, struct strlist *argv, struct cordon_error *err)
{
	static const char *const runtimes[] = {"/usr/sbin/runc", "/usr/bin/runc", "/usr/bin/crun", NULL};
	char root[128], run[128], tmp[128];
	const char *runtime = first_of(runtimes);

	if (!runtime)
		return err_set(err, CORDON_ERR_NOT_FOUND, "neither runc nor crun is installed");
	snprintf(root, sizeof(root), "%s/podman", b->dir);
	snprintf(run, sizeof(run), "%s/podman-run", b->dir);
	snprintf(tmp, sizeof(tmp), "%s/podman-tmp", b->dir);
	const char *const words[] = {"podman",   "--root",           root,   "--runroot", run,     "--tmpdir", tmp, "--cgroup-manager",
	                             "cgroupfs", "--events-backend", "file", "--runtime", runtime, NULL};
	if (bench_add_words(argv, words, err) < 0)
		return -1;
	if (!b->podman_image && import(b, argv, "/usr/bin/podman", err) < 0)
		return -1;
	b->podman_image = true;
	return 0;
}
