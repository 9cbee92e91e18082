/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon image import`: archives and directories. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/image.h"

/* ---- while it lasts ------------------------------------------------------------------------------------------------------------ */

/* The one thing that a handler can tell: which signal it was. */
static volatile sig_atomic_t asked_to_end;

static void on_signal(int signo)
{
	asked_to_end = signo;
}

static double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whoever ends us gets what we have begun removed. What is ignored (nohup) stays so. */
void image_work_begin(struct image_work *w, const struct image_flags *f, const char *what)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction act = {.sa_handler = on_signal}; /* without SA_RESTART: reads are to end */
	struct sigaction old;

	*w = (struct image_work){.begun = seconds_now(), .quiet = f->quiet || f->json};
	progress_begin(&w->bar);
	w->bar.enabled = w->bar.enabled && !w->quiet;
	w->bar.what = what;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &act, NULL);
}

bool image_work_progress(void *arg, uint64_t done, uint64_t total)
{
	struct image_work *w = arg;

	progress_show(&w->bar, done, total);
	return !asked_to_end;
}

void image_work_end(struct image_work *w)
{
	progress_end(&w->bar);
}

int image_work_signal(void)
{
	return asked_to_end;
}

/* ---- what is said ---------------------------------------------------------------------------------------------------------------- */

/* What was left out, in words and in JSON. */
struct left_out {
	const char *key, *what;
	size_t offset; /* in struct image_neutralised */
};
static const struct left_out left_out[] = {
	{"devices", "devices, FIFOs or sockets were left out", offsetof(struct image_neutralised, devices)},
	{"set_ids", "setuid or setgid bits were taken off", offsetof(struct image_neutralised, set_ids)},
	{"owners", "owners beyond 65534 became 65534", offsetof(struct image_neutralised, owners)},
	{"mounts", "mounted file systems were left out", offsetof(struct image_neutralised, mounts)},
};

static uint64_t left_out_count(const struct image_neutralised *n, const struct left_out *row)
{
	uint64_t count;

	memcpy(&count, (const char *)n + row->offset, sizeof(count));
	return count;
}

static int report_json(const struct tree_args *a, double seconds, const struct image_imported *done)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_kstr(&j, "name", done->image.name);
	json_kstr(&j, "id", done->image.id);
	json_kstr(&j, "kind", image_kind_name(done->kind));
	json_kint(&j, "layers", (int64_t)done->image.layers.count);
	json_kint(&j, "shared", (int64_t)done->added.shared);
	json_kint(&j, "bytes", (int64_t)done->image.bytes);
	json_kint(&j, "new_bytes", (int64_t)done->added.new_bytes);
	json_kbool(&j, "replaced", done->added.replaced);
	json_kbool(&j, "shell", done->shell);
	json_key(&j, "neutralised");
	json_object(&j);
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
		json_kint(&j, left_out[i].key, (int64_t)left_out_count(&done->neutralised, &left_out[i]));
	json_end(&j);
	json_kdouble(&j, "duration_ms", seconds * 1000);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

static void report_notes(const struct image_imported *done)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++) {
		uint64_t n = left_out_count(&done->neutralised, &left_out[i]);

		if (n > 0)
			fprintf(stderr, "note: %" PRIu64 " %s\n", n, left_out[i].what);
	}
	if (!done->shell)
		fputs("note: there is no /bin/sh in it: shell lines (-c) and cordon shell will not work\n", stderr);
}

int image_report(const struct tree_args *a, const struct image_flags *f, const char *verb, const struct image_work *w,
                 const struct image_imported *done)
{
	char size[FORMAT_MAX], layers[FORMAT_MAX * 2], shared[FORMAT_MAX] = "";
	double seconds = seconds_now() - w->begun;

	if (a->json)
		return report_json(a, seconds, done);
	if (f->quiet)
		return EXIT_OK;
	if (done->added.shared > 0)
		snprintf(shared, sizeof(shared), ", %zu shared", done->added.shared);
	report_notes(done);
	printf("%s %s (%s, %s%s) in %.1f s\n", verb, done->image.name, tree_count(done->image.layers.count, "layer", layers),
	       format_bytes(done->image.bytes, size), shared, seconds);
	return EXIT_OK;
}

int image_fail(const struct tree_args *a, const struct cordon_error *err)
{
	struct cordon_error interrupted = {0};

	if (!asked_to_end)
		return tree_fail(a, err);
	err_set(&interrupted, CORDON_ERR_INPUT, "interrupted; nothing of the image is left");
	tree_fail(a, &interrupted);
	return EXIT_SIGNAL + asked_to_end;
}

/* ---- sources --------------------------------------------------------------------------------------------------------------------- */

/* A copy of what holds the copy would have no end; and cordon's own state is nobody's image. */
static int check_directory(const char *path, const char *home, struct cordon_error *err)
{
	char real[PATH_MAX], state[PATH_MAX];

	if (!realpath(path, real) || !realpath(home, state))
		return err_sys(err, "cannot resolve %s", path);
	if (!fs_path_within(state, real) && !fs_path_within(real, state))
		return 0;
	return err_set(err, CORDON_ERR_INPUT, "%s holds cordon's own state (%s), or lies in it: it cannot be an image", path, home);
}

/* A descriptor that can be sought in, or of a directory. Pipes, and what else cannot, are copied first. */
static int open_source(struct image_staging *s, const char *path, struct image_work *w, struct cordon_error *err)
{
	bool standard = strcmp(path, "-") == 0;
	struct stat st;
	_cleanup_fd_ int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);

	if (standard && isatty(STDIN_FILENO)) {
		err_set(err, CORDON_ERR_INPUT, "standard input is a terminal; an image does not come from there");
		return err_hint(err, "docker save IMAGE | cordon image import -");
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot open %s", standard ? "standard input" : path);
	if (S_ISDIR(st.st_mode))
		return check_directory(path, s->home, err) < 0 ? -1 : steal_fd(&fd);
	if (S_ISREG(st.st_mode) && (!standard || lseek(fd, 0, SEEK_CUR) == 0))
		return steal_fd(&fd);
	if (S_ISBLK(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "%s is a disk, not an archive or a directory", path);
	return image_spool(s, fd, image_work_progress, w, err);
}

static int import_staged(const struct tree_args *a, const struct image_flags *f, const struct strlist *preload, struct image_work *w,
                         struct image_imported *done, struct cordon_error *err)
{
	_cleanup_staging_ struct image_staging s = {.dir = -1};
	const char *path = a->operands[0];
	bool standard = strcmp(path, "-") == 0;
	const struct image_import what = {.name = a->count > 1 ? a->operands[1] : NULL,
	                                  .source = standard ? NULL : path,
	                                  .replace = f->force,
	                                  .preload = preload,
	                                  .progress = image_work_progress,
	                                  .arg = w};

	if (image_stage(a->home, f->quota, &s, err) < 0)
		return -1;
	_cleanup_fd_ int source = open_source(&s, path, w, err);
	if (source < 0 || image_import(&s, source, &what, done, err) < 0)
		return err_wrap(err, "cannot import %s", standard ? "standard input" : path);
	return 0;
}

int image_cmd_import(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err)
{
	_cleanup_imported_ struct image_imported done = {0};
	struct strlist preload = {0};
	struct image_work w;
	int r = 0;

	if (a->count < 1 || a->count > 2)
		r = err_set(err, CORDON_ERR_INPUT,
		            "give a file, a directory or - and, if you like, a name: cordon image import SOURCE [NAME]");
	else if (a->count == 2)
		r = image_check_name(a->operands[1], err);
	if (r == 0 && f->preload && image_parse_preload(f->preload, &preload, err) < 0)
		r = err_wrap(err, "--preload");
	image_work_begin(&w, f, "importing");
	if (r == 0)
		r = import_staged(a, f, &preload, &w, &done, err);
	image_work_end(&w);
	strlist_free(&preload);
	return r < 0 ? image_fail(a, err) : image_report(a, f, "Imported", &w, &done);
}
