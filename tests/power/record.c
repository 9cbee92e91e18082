/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first guest. The trees are made on another file system, so that the disk sees nothing but the work of a sandbox (a layer is filled
 * and sealed) and of a commit.
 *
 *   /trees/now    what the target is        /trees/next   what it will be
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/blkpg.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "layers/commit.h"
#include "layers/copy.h"
#include "power.h"

#define LAYERS_KEPT 6
#define NOISE 150

struct recorder {
	const struct record_options *o;
	struct rng rng;
	int trees, marks, disk, target;
	struct stepping steps;
	struct store store;
	char *text;                                 /* what the target is */
	char layers[LAYERS_KEPT][LAYER_ID_LEN + 1]; /* the last ones, a ring */
	unsigned long usual_stops;                  /* of a commit */
	unsigned round, finished, undone;
};

/* ---- the disk ------------------------------------------------------------------------------------------------------------------- */

/* Two parts, which only this kernel knows of: the file system, and the place for marks. */
static void add_part(int disk, int number, uint64_t start, uint64_t length)
{
	struct blkpg_partition part = {.start = (long long)start, .length = (long long)length, .pno = number};
	struct blkpg_ioctl_arg arg = {.op = BLKPG_ADD_PARTITION, .datalen = sizeof(part), .data = &part};
	MUST(ioctl(disk, BLKPG, &arg) == 0);
}

static void open_disk(struct recorder *rec)
{
	char path[64];
	_cleanup_fd_ int disk = open(rec->o->device, O_RDONLY | O_CLOEXEC);
	off_t size = lseek(disk, 0, SEEK_END);
	MUST(disk >= 0 && size > (off_t)MARKS_SIZE);
	add_part(disk, 1, 0, (uint64_t)size - MARKS_SIZE);
	add_part(disk, 2, (uint64_t)size - MARKS_SIZE, MARKS_SIZE);
	snprintf(path, sizeof(path), "%s2", rec->o->device);
	rec->marks = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
	MUST(rec->marks >= 0);
	snprintf(path, sizeof(path), "%s1", rec->o->device);
	disk_mount(path, &rec->o->fs);
}

/* ---- the trees ------------------------------------------------------------------------------------------------------------------ */

static void copy(int from_dir, const char *from, int to_dir, const char *to)
{
	struct cordon_error err = {0};
	struct copy_links *links = copy_links_new();
	if (copy_tree(from_dir, from, to_dir, to, 0, links, &err) < 0)
		fprintf(stderr, "%s\n", err.message);
	copy_links_free(links);
	MUST(err.code == 0);
}

/* What only has another time is no change to commit. Lines are "PATH MODE OWNER TIME …", with no blanks in PATH. */
static void drop_times(char *text)
{
	char *out = text;
	for (char *line = text; *line;) {
		size_t len = strcspn(line, "\n") + 1, time = 0;
		for (int field = 0; field < 3; field++)
			time += strcspn(line + time, " ") + 1;
		size_t rest = time + strcspn(line + time, " \n");
		memmove(out, line, time);
		memmove(out + time, line + rest, len - rest);
		out += time + len - rest;
		line += len;
	}
	*out = '\0';
}

static void mark_tree(struct recorder *rec)
{
	free(rec->text);
	rec->text = tree_describe(rec->target);
	mark_write(rec->marks, MARK_TREE, "", rec->text);
}

static void set_up(struct recorder *rec)
{
	struct cordon_error err = {0};
	open_disk(rec);
	rec->disk = open(MOUNT_POINT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rec->trees = open("/trees", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(rec->trees >= 0 && rec->disk >= 0 && mkdirat(rec->disk, "target", 0755) == 0);
	rec->target = tree_open(rec->disk, "target");
	tree_begin(rec->target, &rec->rng);
	rec->steps.noise_fd = openat(rec->disk, "noise", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	MUST(rec->steps.noise_fd >= 0 && store_open(&rec->store, STORE, &err) == 0);
	MUST(syncfs(rec->disk) == 0);
	mark_tree(rec);
}

static void make_next(struct recorder *rec)
{
	remove_path(rec->trees, "now");
	remove_path(rec->trees, "next");
	copy(rec->disk, "target", rec->trees, "now");
	copy(rec->disk, "target", rec->trees, "next");
	_cleanup_fd_ int next = tree_open(rec->trees, "next");
	tree_change(next, &rec->rng);
}

/* ---- a layer -------------------------------------------------------------------------------------------------------------------- */

/* run_stepped() passes on one number. */
static struct recorder *the_recorder;

static int complain(int result, const struct cordon_error *err)
{
	if (result < 0)
		printf("%s\n", err->message);
	return result < 0;
}

static const char *layer_of(const struct recorder *rec)
{
	return rec->layers[rec->round % LAYERS_KEPT];
}

static int seal(int unused)
{
	struct cordon_error err = {0};
	struct layer l = {.kind = LAYER_EXEC, .created_ms = 1};
	snprintf(l.id, sizeof(l.id), "%s", layer_of(the_recorder));
	return complain(layer_seal(&the_recorder->store, &l, &err), &err);
}

static int open_app(const struct recorder *rec, const char *id)
{
	char path[LAYER_ID_LEN + 8];
	snprintf(path, sizeof(path), "%s/app", id);
	return tree_open(rec->store.layers_fd, path);
}

/* Begins a layer, fills it as a sandbox would, and seals it. */
static void make_layer(struct recorder *rec)
{
	struct cordon_error err = {0};
	char *id = rec->layers[rec->round % LAYERS_KEPT];
	if (*id) {
		mark_write(rec->marks, MARK_DROP, id, "");
		MUST(layer_drop(&rec->store, id, &err) == 0);
	}
	MUST(layer_begin(&rec->store, 0, 0, id, &err) == 0);
	_cleanup_fd_ int now = tree_open(rec->trees, "now"), next = tree_open(rec->trees, "next"), app = open_app(rec, id);
	tree_make_layer(now, next, app);
	_cleanup_free_ char *text = tree_describe(app);
	mark_write(rec->marks, MARK_SEAL, id, text);
	rec->steps.kill_at = NEVER;
	rec->steps.kill_renames = false;
	MUST(run_stepped(seal, 0, &rec->steps) == 0);
	mark_write(rec->marks, MARK_SEALED, id, "");
}

/* ---- a commit ------------------------------------------------------------------------------------------------------------------- */

static struct identity expected(void *arg, const char *path)
{
	return identities_get(arg, path);
}

static int report_problems(const struct commit_report *report)
{
	for (size_t i = 0; i < report->problem_count; i++)
		printf("%s: %s\n", report->problems[i].path, report->problems[i].text);
	return report->problem_count > 0;
}

static int commit(int target)
{
	struct cordon_error err = {0};
	struct commit_report report;
	struct changes changes;
	struct view before, after;
	struct identities *known;
	_cleanup_fd_ int app = open_app(the_recorder, layer_of(the_recorder));
	MUST(view_from(&target, 1, true, &before, &err) == 0 && view_from((int[]){app, target}, 2, true, &after, &err) == 0);
	MUST(changes_between(&before, &after, &changes, &err) == 0 && identities_new(&known, &err) == 0);
	for (size_t i = 0; i < changes.count; i++) {
		struct identity id;
		MUST(identity_now(target, changes.items[i].path, &id, &err) == 0);
		MUST(identities_put(known, changes.items[i].path, &id, &err) == 0);
	}
	struct commit_request r = {.home = STORE,
	                           .target = target,
	                           .target_path = TARGET,
	                           .before = &before,
	                           .after = &after,
	                           .changes = &changes,
	                           .expected = expected,
	                           .arg = known};
	int result = commit_run(&r, &report, &err);
	return complain(result, &err) || report_problems(&report);
}

static int recover(int target)
{
	struct cordon_error err = {0};
	enum commit_recovered what;
	return complain(commit_recover(target, TARGET, STORE, &what, &err), &err);
}

/* What the directory is now: the new tree (true) or the old one. Anything else is no matter of power loss, but wrong all the same. */
static bool committed(const struct recorder *rec)
{
	_cleanup_fd_ int next = tree_open(rec->trees, "next");
	_cleanup_free_ char *got = tree_describe(rec->target), *want = tree_describe(next);
	if (strcmp(got, rec->text) == 0)
		return false;
	drop_times(got);
	drop_times(want);
	if (strcmp(got, want) == 0)
		return true;
	printf("round %u: the commit itself was not exact: %s\n", rec->round, tree_difference(want, got));
	exit(1);
}

/* Every third commit is killed: anywhere, which is mostly before the manifest, or at a rename, which is mostly after it. */
static void choose_kill(struct recorder *rec)
{
	rec->steps.kill_at = NEVER;
	rec->steps.kill_renames = false;
	if (rec->round % 3 != 2)
		return;
	rec->steps.kill_renames = rec->round % 2;
	rec->steps.kill_at = 1 + rng_below(&rec->rng, rec->steps.kill_renames ? 12 : rec->usual_stops);
}

static int recover_killed(struct recorder *rec)
{
	rec->steps.kill_at = NEVER;
	return run_stepped(recover, rec->target, &rec->steps);
}

static void make_commit(struct recorder *rec)
{
	mark_write(rec->marks, MARK_BEGIN, "", "");
	choose_kill(rec);
	int ended = run_stepped(commit, rec->target, &rec->steps);
	bool killed = ended == KILLED;
	if (!killed && !rec->steps.kill_renames)
		rec->usual_stops = (rec->usual_stops + rec->steps.stops) / 2;
	if (killed)
		ended = recover_killed(rec);
	MUST(ended == 0);
	bool done = committed(rec);
	MUST(done || killed);
	mark_tree(rec);
	rec->finished += killed && done;
	rec->undone += killed && !done;
}

/* A stop costs a tenth if tracer and child share a CPU. */
static void use_one_cpu(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	MUST(sched_setaffinity(0, sizeof(one), &one) == 0);
}

int record_main(const struct record_options *o)
{
	struct recorder rec = {.o = o, .rng = rng_new(o->seed, 1), .steps = {.rng = rng_new(o->seed, 2), .without = o->without}};
	the_recorder = &rec;
	use_one_cpu();
	set_up(&rec);
	for (rec.round = 0; rec.round < o->rounds; rec.round++) {
		rec.steps.noise = rec.round % 4 ? NOISE : 0; /* without it, only what cordon itself syncs is on the disk */
		make_next(&rec);
		make_layer(&rec);
		make_commit(&rec);
	}
	printf("recorded %u commits (%u killed and finished, %u killed and undone) and as many layers\n", o->rounds, rec.finished,
	       rec.undone);
	store_close(&rec.store);
	close(rec.target);
	close(rec.disk);
	close(rec.steps.noise_fd);
	MUST(umount2(MOUNT_POINT, 0) == 0 && fsync(rec.marks) == 0);
	return 0;
}
