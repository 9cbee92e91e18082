/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory and density. Private memory is what /proc/PID/smaps_rollup calls Private_Clean and Private_Dirty, of every process that a parked sandbox has. What the
 * kernel needs besides (namespaces, mounts, page tables) is in no process: that is seen in how much less memory the machine has after parking many.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "cmd/bench.h"
#include "cordon.h"

#define MANY 200
#define FEW 40 /* where few runs are asked for */
#define ZYGOTES 20
#define FOUR_GIB_KIB (4.0 * 1024 * 1024)
#define STEP 100

/* ---- the machine ---------------------------------------------------------------------------------------------------------------- */

static double meminfo(const char *key)
{
	char text[8192], *line;
	double kib = 0;

	if (fs_read_small(-1, "/proc/meminfo", text, sizeof(text)) < 0 || !(line = strstr(text, key)))
		return 0;
	sscanf(line + strlen(key), ": %lf", &kib);
	return kib;
}

uint64_t bench_machine_memory(void)
{
	return (uint64_t)meminfo("MemTotal") * 1024;
}

/* ---- processes ------------------------------------------------------------------------------------------------------------------ */

struct process {
	pid_t pid, parent;
	bool ours;
};

struct processes {
	struct process *items;
	size_t count, room;
};

static int add_process(struct processes *all, pid_t pid, pid_t parent)
{
	if (all->count == all->room) {
		size_t room = all->room ? 2 * all->room : 1024;
		struct process *items = realloc(all->items, room * sizeof(*items));

		if (!items)
			return -1;
		all->items = items;
		all->room = room;
	}
	all->items[all->count++] = (struct process){.pid = pid, .parent = parent};
	return 0;
}

static int read_processes(struct processes *all, struct cordon_error *err)
{
	_cleanup_dir_ DIR *proc = opendir("/proc");
	struct dirent *d;

	if (!proc)
		return err_sys(err, "/proc");
	while ((d = readdir(proc))) {
		char path[300], text[512], *behind;
		int parent;

		if (*d->d_name < '0' || *d->d_name > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", d->d_name);
		if (fs_read_small(-1, path, text, sizeof(text)) < 0 || !(behind = strrchr(text, ')')) ||
		    sscanf(behind + 1, " %*c %d", &parent) != 1)
			continue; /* gone by now */
		if (add_process(all, (pid_t)strtol(d->d_name, NULL, 10), parent) < 0)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return 0;
}

/* Marks what is below a process that is marked. */
static void mark_children(struct processes *all)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < all->count; i++)
			for (size_t k = 0; !all->items[i].ours && k < all->count; k++)
				if (all->items[k].ours && all->items[k].pid == all->items[i].parent)
					all->items[i].ours = more = true;
	}
}

static int private_kib(pid_t pid, double *kib, struct cordon_error *err)
{
	char path[64], text[2048], *line = text;
	double clean = 0, dirty = 0;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	if (fs_read_small(-1, path, text, sizeof(text)) < 0)
		return err_sys(err, "cannot read %s", path);
	if ((line = strstr(text, "Private_Clean:")))
		sscanf(line, "Private_Clean: %lf", &clean);
	if ((line = strstr(text, "Private_Dirty:")))
		sscanf(line, "Private_Dirty: %lf", &dirty);
	*kib += clean + dirty;
	return 0;
}

static int sum_marked(const struct processes *all, double *kib, struct cordon_error *err)
{
	*kib = 0;
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].ours && private_kib(all->items[i].pid, kib, err) < 0)
			return -1;
	return 0;
}

/* Of everything below us. */
static int private_below(double *kib, struct cordon_error *err)
{
	struct processes all = {0};
	int r = read_processes(&all, err);

	for (size_t i = 0; i < all.count; i++)
		all.items[i].ours = all.items[i].parent == getpid();
	mark_children(&all);
	if (r == 0)
		r = sum_marked(&all, kib, err);
	free(all.items);
	return r;
}

/* ---- parked sandboxes ----------------------------------------------------------------------------------------------------------- */

struct parked {
	double private_kib, kernel_kib, machine_kib; /* of one */
	struct cordon_error unread;                  /* why private memory could not be read: a user may not look into them */
};

/* What the kernel itself has allocated, and what it says is in use altogether. The first is quiet, the second has everybody's caches in it. */
static void machine_now(double *kernel, double *used)
{
	static const char *const keys[] = {"\nSlab", "\nKernelStack", "\nPageTables", "\nPercpu", "\nVmallocUsed"};

	*kernel = 0;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		*kernel += meminfo(keys[i]);
	*used = -meminfo("MemAvailable");
}

/* Until the machine has done with what went before: namespaces are freed after a while, and in the background. */
static void settle(void)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	double least = 1e18, kernel, used;

	for (int i = 0, quiet = 0; i < 30 && quiet < 4 && !bench_interrupted(); i++) {
		machine_now(&kernel, &used);
		quiet = kernel < least - 512 ? 0 : quiet + 1;
		least = MIN(least, kernel);
		nanosleep(&pause, NULL);
	}
}

static void add_private(struct bench_row *row, const struct parked *p)
{
	if (p->unread.code == CORDON_OK)
		bench_row_value(row, p->private_kib);
	else
		row->error = p->unread;
}

/* Parks `count` in a context of their own, where one more was parked before: what a first one costs is not that of each. */
static int park(unsigned count, const char *language, struct parked *out, struct cordon_error *err)
{
	struct bench_library l;
	double kernel[2], used[2], kib[2];

	if (bench_library_open(&l, 1, language, NULL, err) < 0)
		return -1;
	settle();
	machine_now(&kernel[0], &used[0]);
	*out = (struct parked){0};
	bool seen = private_below(&kib[0], &out->unread) == 0;
	l.parked = count + 1;
	cordon_pool_limit(l.context, count + 1, UINT64_MAX);
	int r = bench_library_refill(&l, err);
	if (r == 0 && seen)
		seen = private_below(&kib[1], &out->unread) == 0;
	machine_now(&kernel[1], &used[1]);
	bench_library_close(&l);
	out->private_kib = seen ? (kib[1] - kib[0]) / count : 0;
	out->kernel_kib = (kernel[1] - kernel[0]) / count;
	out->machine_kib = (used[1] - used[0]) / count;
	return r;
}

static size_t rounds(const struct bench *b)
{
	return b->o.runs < 20 ? 1 : 3;
}

static unsigned many(const struct bench *b)
{
	return b->o.runs < 20 ? FEW : MANY;
}

static void add_zygotes(struct bench *b, struct bench_section *s)
{
	struct bench_row *row =
		bench_wanted(b, "cordon", false) ? bench_row_add(s, "cordon-python", "one with a Python interpreter ready in it") : NULL;
	struct cordon_error err = {0};
	struct parked p;

	if (!row)
		return;
	for (size_t i = 0; i < rounds(b) && !bench_interrupted(); i++) {
		if (park(ZYGOTES, "python", &p, &err) < 0) {
			row->error = err;
			return;
		}
		add_private(row, &p);
	}
}

/* The processes of a container: those that have its id among their arguments (the engine's helper), the one in its file, and all below them. */
static int held_kib(const char *id, const char *pid_file, double *kib, struct cordon_error *err)
{
	struct processes all = {0};
	char path[64], text[4096];
	long first = fs_read_small(-1, pid_file, text, sizeof(text)) > 0 ? strtol(text, NULL, 10) : -1;
	int r = read_processes(&all, err);

	for (size_t i = 0; r == 0 && i < all.count; i++) {
		snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)all.items[i].pid);
		ssize_t n = fs_read_small(-1, path, text, sizeof(text));

		all.items[i].ours = all.items[i].pid == first || (n > 0 && memmem(text, (size_t)n, id, strlen(id)));
	}
	mark_children(&all);
	if (r == 0)
		r = sum_marked(&all, kib, err);
	free(all.items);
	return r == 0 && *kib <= 0 ? err_set(err, CORDON_ERR_SYSTEM, "its processes were not found") : r;
}

static void add_peers(struct bench *b, struct bench_section *s)
{
	static const char *const payload[] = {BENCH_PROGRAM, NULL};
	size_t first = s->count;

	bench_add_held(b, s, payload);
	for (size_t i = first; i < s->count; i++) {
		struct bench_row *r = &s->rows[i];
		const char *id, *pid_file;
		struct cordon_error err = {0};
		double kib;

		r->how = "a container that runs sleep, with the processes that the engine keeps for it";
		if (!bench_held_of(r, &id, &pid_file))
			continue;
		if (held_kib(id, pid_file, &kib, &err) == 0)
			bench_row_value(r, kib);
		else
			r->error = err;
	}
	bench_end_held(b, s);
}

int bench_memory(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	struct bench_row *rows[3] = {0};
	struct parked p;

	if (bench_wanted(b, "cordon", false)) {
		rows[0] = bench_row_add(s, "cordon", "private memory of all processes of a parked sandbox");
		rows[1] = bench_row_add(s, "cordon-kernel", "the kernel's part: Slab, KernelStack, PageTables, Percpu, VmallocUsed");
		rows[2] = bench_row_add(s, "cordon-machine", "what the machine has less: MemAvailable, which others change, too");
	}
	for (size_t i = 0; i < rounds(b) && rows[0] && !bench_interrupted(); i++) {
		bench_progress(s->measure->name, i, rounds(b));
		if (park(many(b), NULL, &p, err) < 0)
			return -1;
		add_private(rows[0], &p);
		bench_row_value(rows[1], p.kernel_kib);
		bench_row_value(rows[2], p.machine_kib);
	}
	bench_progress(NULL, 0, 0);
	add_zygotes(b, s);
	add_peers(b, s);
	snprintf(s->note, sizeof(s->note), "%u sandboxes parked at a time (%d with Python), rounds: %zu; of peers one container each.",
	         many(b), ZYGOTES, rounds(b));
	return 0;
}

/* ---- density -------------------------------------------------------------------------------------------------------------------- */

/* What parked sandboxes take by now, in KiB: of the kernel's memory and of their own. */
static int taken(const double before[3], double now[3], struct cordon_error *err)
{
	machine_now(&now[0], &now[2]);
	if (private_below(&now[1], geteuid() ? NULL : err) < 0) {
		if (geteuid() == 0)
			return -1;
		now[1] = 0; /* a user may not look into them; a few dozen KiB each */
	}
	for (int i = 0; before && i < 3; i++)
		now[i] -= before[i];
	return 0;
}

/* Parks more and more of them until they take 4 GiB, or there are enough; how many. What made it end earlier is in *err. */
static unsigned park_all(struct bench *b, struct bench_library *l, double now[3], struct cordon_error *err)
{
	unsigned parked = 0, most = (unsigned)b->o.density;
	double before[3];

	settle();
	if (taken(NULL, before, err) < 0)
		return 0;
	while (parked < most && now[0] + now[1] < FOUR_GIB_KIB && !bench_interrupted()) {
		unsigned next = parked + MIN(most - parked, (unsigned)STEP);

		bench_progress("density", parked, most);
		l->parked = next + 1;
		cordon_pool_limit(l->context, next + 1, UINT64_MAX);
		if (bench_library_refill(l, err) < 0 || taken(before, now, err) < 0)
			break;
		parked = next;
	}
	bench_progress(NULL, 0, 0);
	return parked;
}

int bench_density(struct bench *b, struct bench_section *s, struct cordon_error *err)
{
	struct bench_row *row = bench_row_add(s, "cordon", "parked sandboxes that fit in 4 GiB: their private memory and the kernel's");
	struct cordon_error ended = {0};
	struct bench_library l;
	double now[3] = {0};

	if (!row || bench_library_open(&l, 1, NULL, NULL, err) < 0)
		return -1;
	double begin = bench_now_ms();
	unsigned parked = park_all(b, &l, now, &ended);
	double took = bench_now_ms() - begin, kib = now[0] + now[1];
	bench_library_close(&l);
	if (!parked) {
		*err = ended;
		return -1;
	}
	bench_row_value(row, parked * FOUR_GIB_KIB / kib);
	snprintf(s->note, sizeof(s->note),
	         "%u were really parked, in %.1f s: %.0f MiB, %.0f KiB each (MemAvailable: %.0f MiB less)%s%.200s.", parked, took / 1e3,
	         kib / 1024, kib / parked, now[2] / 1024,
	         ended.code != CORDON_OK ? "; then: "
	         : kib < FOUR_GIB_KIB    ? "; the rest is extrapolated"
	                                 : "",
	         ended.message);
	return 0;
}
