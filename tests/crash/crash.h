/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that must survive kill -9 at any instant.
 *
 * Theory of operation. An operation runs in a child under ptrace(2), with a seccomp filter that stops it before each system call that
 * writes. At the k-th such stop it is killed, so the call does not happen; then recovery runs, and the scenario looks at what is there. k
 * goes from 0 until the operation ends undisturbed. For some of the k, recovery itself is killed in the same manner at each of its own
 * calls, and run again.
 *
 * A new operation needs a struct scenario in a file of its own and a line in the table in crash.c.
 */
#ifndef CORDON_TESTS_CRASH_H
#define CORDON_TESTS_CRASH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MUST(condition)                                              \
	do {                                                         \
		if (!(condition))                                    \
			must_failed(#condition, __FILE__, __LINE__); \
	} while (0)
_Noreturn void must_failed(const char *what, const char *file, int line);

struct scenario {
	const char *name;
	/* Once, in the scenario's own empty directory. Returns why it cannot be run here, or NULL. */
	const char *(*set_up)(int base);
	/* Before each run: the state that the operation starts from. */
	void (*reset)(int base);
	/* In a child each; what they return becomes its exit status (0 to 100). The operation's must be 0. */
	int (*operate)(int base);
	int (*recover)(int base);
	/*
	 * What is wrong with the state after recovery, or NULL; static memory. killed: the operation was; recovered: what recover()
	 * returned, -1 if the operation ended by itself and nothing was recovered.
	 */
	const char *(*check)(int base, bool killed, int recovered);
	void (*tear_down)(int base);
	unsigned least;   /* fewer kill points than this, and the scenario does not test what it should */
	unsigned samples; /* at how many of the kill points recovery is killed, too */
};

extern const struct scenario commit_scenario, commit_mounts_scenario, seal_scenario, flatten_scenario, collect_scenario;
extern const struct scenario secret_first_scenario, secret_set_scenario, secret_remove_scenario;

/* ---- killer.c ----------------------------------------------------------------------------------------------------------------- */

#define NEVER ULONG_MAX
#define KILLED (-1)

/*
 * Runs act(base) in a child and kills it before its k-th system call that writes, counted from 0. Returns KILLED, or what act() returned if
 * it ended before that; *calls is the number of calls that were let through. Dies if the child does anything else, such as crash.
 */
int run_and_kill(int (*act)(int base), int base, unsigned long k, unsigned long *calls);
/* False where ptrace(2) or seccomp(2) are denied. */
bool can_kill(void);

/* ---- trees.c ------------------------------------------------------------------------------------------------------------------ */

/*
 * Everything about a tree as text, a line per entry, the top directory's first: type, contents, mode, owner, modification time, links,
 * attributes. free() it.
 */
char *tree_describe(int dir);
/* The first line in which two descriptions differ, "want … got …"; static memory. NULL: none. */
const char *tree_difference(const char *want, const char *got);

/* Makes of `upper` (an empty directory) the layer that turns `old` into `new` when it lies over it. */
void tree_make_layer(int old, int new_tree, int upper);

int tree_open(int base, const char *path);
/* Short words for trees; with parents. */
void put_file(int dir, const char *path, const char *text, mode_t mode);
void put_dir(int dir, const char *path, mode_t mode);
void put_link(int dir, const char *path, const char *target);
void put_attr(int dir, const char *path, const char *name, const char *value);
void remove_path(int dir, const char *path);
/* Gives everything in a tree times of its own, the same in each run. */
void settle_times(int dir, int64_t start_ns);

#endif
