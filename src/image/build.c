/* SPDX-License-Identifier: Apache-2.0 */
#include "image/build.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"

#define ROOT_DIR "root" /* debootstrap's target in the staging directory */
#define ASK_MS 200      /* how often is asked whether to go on while nothing comes */
#define CHUNK ((size_t)256 << 10)
#define LINE_MAX_SAID 400

/* ---- a program and what it says ------------------------------------------------------------------------------------------------- */

struct job {
	const struct image_build *what;
	pid_t pid;
	int out, log;             /* our ends; out -1: its output is part of what it says */
	int spool;                /* where the output goes; -1: nowhere */
	uint64_t written, most;   /* of the output */
	char line[LINE_MAX_SAID]; /* what it is saying */
	size_t line_len;
	char last[LINE_MAX_SAID]; /* the last line that tells of an error, else the last one */
	bool last_is_error;
};

static void say_line(struct job *j)
{
	j->line[j->line_len] = '\0';
	j->line_len = 0;
	if (!j->line[strspn(j->line, " \t")])
		return;
	bool error = strncmp(j->line, "E: ", 3) == 0 || strncasecmp(j->line, "error", 5) == 0;
	/* of several errors the first tells the cause */
	if (!j->last_is_error)
		snprintf(j->last, sizeof(j->last), "%s", error && j->line[2] == ' ' ? j->line + 3 : j->line);
	j->last_is_error |= error;
	if (j->what->said)
		j->what->said(j->what->arg, j->line);
}

static void hear(struct job *j, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n' || text[i] == '\r')
			say_line(j);
		else if (j->line_len < sizeof(j->line) - 1)
			j->line[j->line_len++] = text[i];
	}
}

/* In a session of its own: Ctrl-C is ours, and what it has started goes with it. It tidies up when it is asked to end, also by our death. */
static pid_t start(struct job *j, const struct strlist *argv, const struct strlist *env, struct cordon_error *err)
{
	int out[2] = {-1, -1}, log[2] = {-1, -1};
	if ((j->spool >= 0 && pipe2(out, O_CLOEXEC) < 0) || pipe2(log, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	pid_t parent = getpid();
	j->pid = fork();
	if (j->pid == 0) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		setsid();
		prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
		if (getppid() != parent || dup2(null, 0) < 0 || dup2(out[1] >= 0 ? out[1] : log[1], 1) < 0 || dup2(log[1], 2) < 0)
			_exit(126);
		signal(SIGINT, SIG_DFL);
		execvpe(argv->items[0], argv->items, env->items);
		_exit(127);
	}
	cleanup_fd(&out[1]);
	close(log[1]);
	j->out = out[0];
	j->log = log[0];
	return j->pid < 0 ? err_sys(err, "cannot start %s", argv->items[0]) : j->pid;
}

static int take_output(struct job *j, char *chunk, struct cordon_error *err)
{
	ssize_t n = read(j->out, chunk, CHUNK);
	if (n < 0)
		return errno == EINTR ? 0 : err_sys(err, "cannot read what it made");
	if (n == 0) {
		close(j->out);
		j->out = -1;
		return 0;
	}
	j->written += (uint64_t)n;
	if (j->written > j->most)
		return err_set(err, CORDON_ERR_INPUT, "the image is larger than the quota of images leaves");
	return fs_write_full(j->spool, chunk, (size_t)n) < 0 ? err_sys(err, "cannot write what it made") : 0;
}

static int take_words(struct job *j, char *chunk, struct cordon_error *err)
{
	ssize_t n = read(j->log, chunk, CHUNK);
	if (n < 0)
		return errno == EINTR ? 0 : err_sys(err, "cannot read what it says");
	if (n == 0) {
		close(j->log);
		j->log = -1;
	}
	hear(j, chunk, (size_t)n);
	return 0;
}

static int listen(struct job *j, struct cordon_error *err)
{
	_cleanup_free_ char *chunk = malloc(CHUNK);
	if (!chunk)
		return err_sys(err, "cannot listen");
	while (j->out >= 0 || j->log >= 0) {
		struct pollfd fds[] = {{.fd = j->out, .events = POLLIN}, {.fd = j->log, .events = POLLIN}};
		if (poll(fds, ARRAY_SIZE(fds), ASK_MS) < 0 && errno != EINTR)
			return err_sys(err, "poll");
		if (j->what->progress && !j->what->progress(j->what->arg, 0, 0))
			return err_set(err, CORDON_ERR_INPUT, "interrupted");
		if (fds[0].revents && take_output(j, chunk, err) < 0)
			return -1;
		if (fds[1].revents && take_words(j, chunk, err) < 0)
			return -1;
	}
	return 0;
}

/* What it still has to say, until it has ended. */
static void hear_out(struct job *j)
{
	char text[4096];
	ssize_t n;
	while (j->log >= 0 && ((n = read(j->log, text, sizeof(text))) > 0 || (n < 0 && errno == EINTR)))
		;
}

static int tell_end(const struct job *j, const char *name, int status, struct cordon_error *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && !*j->last)
		return err_set(err, CORDON_ERR_WEAK_HOST, "cannot start %s", name);
	err_set(err, CORDON_ERR_INPUT, "%s failed: %s", name, *j->last ? j->last : "it does not say why");
	return err_hint(err, "--verbose shows all that it says");
}

/* spool -1: standard output belongs to what it says. */
static int run(const struct image_build *what, const struct strlist *argv, const struct strlist *env, int spool, uint64_t most,
               struct cordon_error *err)
{
	struct job j = {.what = what, .out = -1, .log = -1, .spool = spool, .most = most};
	int status = 0;
	if (start(&j, argv, env, err) < 0)
		return -1;
	int r = listen(&j, err);
	cleanup_fd(&j.out);
	if (r < 0) {
		kill(-j.pid, SIGTERM); /* mmdebstrap takes away what it has made */
		hear_out(&j);
	}
	cleanup_fd(&j.log);
	while (waitpid(j.pid, &status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? -1 : tell_end(&j, argv->items[0], status, err);
}

/* ---- the two ways ---------------------------------------------------------------------------------------------------------------- */

struct plan {
	enum build_mode mode;
	char finish[PATH_MAX + 16];
	char place[PATH_MAX]; /* the staging directory, as a path */
	struct strlist argv, env;
};

static void plan_free(struct plan *p)
{
	strlist_free(&p->argv);
	strlist_free(&p->env);
}

/* With ids of their own, or pretended ones, programs cannot pass cordon's directories, which are the caller's alone: these have a temporary directory as usual. */
static int make_plan(const struct image_staging *s, const struct recipe *r, struct plan *p, struct cordon_error *err)
{
	char directory[PATH_MAX], target[PATH_MAX + 8] = "-";
	*p = (struct plan){0};
	recipe_directory(directory);
	snprintf(p->finish, sizeof(p->finish), "%s/" RECIPE_FINISH, directory);
	if (access(p->finish, X_OK) < 0)
		return err_sys(err, "cannot run %s", p->finish);
	if (build_find_mode(&p->mode, err) < 0)
		return -1;
	if (fs_fd_path(s->dir, p->place, sizeof(p->place)) < 0)
		return err_sys(err, "cannot find the staging directory");
	if (p->mode == BUILD_DEBOOTSTRAP)
		snprintf(target, sizeof(target), "%s/" ROOT_DIR, p->place);
	if (build_command(p->mode, r, target, &p->argv, err) < 0)
		return -1;
	return build_environment(r, p->finish, geteuid() == 0 ? p->place : NULL, &p->env, err);
}

static int run_finish(const struct plan *p, const struct image_build *what, struct cordon_error *err)
{
	struct strlist argv = {0};
	char target[PATH_MAX + 8];
	snprintf(target, sizeof(target), "%s/" ROOT_DIR, p->place);
	int r = strlist_add(&argv, p->finish, err);
	if (r == 0)
		r = strlist_add(&argv, target, err);
	if (r == 0)
		r = run(what, &argv, &p->env, -1, 0, err);
	strlist_free(&argv);
	return r;
}

/* The archive, or the directory, as a descriptor. */
static int make_source(const struct image_staging *s, const struct plan *p, const struct image_build *what, struct cordon_error *err)
{
	uint64_t most = s->room.quota > s->room.used ? s->room.quota - s->room.used : 0;
	if (p->mode == BUILD_DEBOOTSTRAP) {
		if (run(what, &p->argv, &p->env, -1, 0, err) < 0 || run_finish(p, what, err) < 0)
			return -1;
		int dir = openat(s->dir, ROOT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return dir >= 0 ? dir : err_sys(err, "cannot open what debootstrap made");
	}
	_cleanup_fd_ int spool = openat(s->dir, "spool", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (spool < 0 || unlinkat(s->dir, "spool", 0) < 0)
		return err_sys(err, "cannot make a file for the image");
	return run(what, &p->argv, &p->env, spool, most, err) < 0 ? -1 : steal_fd(&spool);
}

static int take_over(struct image_staging *s, int source, const struct recipe *r, const struct image_build *what,
                     struct image_imported *out, struct cordon_error *err)
{
	char user[40] = "", from[200];
	const struct image described = {.cwd = r->workdir, .user = r->user ? user : NULL, .env = r->env};
	const struct image_import import = {.name = what->name,
	                                    .source = from,
	                                    .replace = what->replace,
	                                    .preload = &r->preload,
	                                    .described = &described,
	                                    .progress = what->progress,
	                                    .arg = what->arg};
	if (r->user)
		snprintf(user, sizeof(user), "%.*s", (int)strcspn(r->user, ":"), r->user);
	snprintf(from, sizeof(from), "recipe %.127s", r->name);
	return image_import(s, source, &import, out, err);
}

int image_build(struct image_staging *s, const struct recipe *r, const struct image_build *what, struct image_imported *out,
                struct cordon_error *err)
{
	struct plan p;
	_cleanup_fd_ int source = -1;
	int made = make_plan(s, r, &p, err);
	*out = (struct image_imported){0};
	if (made == 0)
		source = make_source(s, &p, what, err);
	plan_free(&p);
	return source < 0 ? -1 : take_over(s, source, r, what, out, err);
}
