/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation
 *
 *   cordon selftest ── stdin pipe ──▶ decoy process: makes the decoys, says where, removes them when the pipe closes
 *        ├── controls: the attacks outside, with these coordinates
 *        └── a sandbox: the same program with the same coordinates
 *
 * Whatever ends this process, the kernel closes the pipe, and the decoys go. All three are the program embedded as attacks_blob.
 */
#include "selftest/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/util.h"
#include "cordon.h"

extern const char attacks_blob[], attacks_blob_end[];

#define COORDINATES_MAX 64
#define OUTPUT_MAX ((size_t)256 << 10)
#define PROCESSES "50" /* the sandbox's limit */
#define PROGRAM_INSIDE "/run/code/attacks"

const struct attack selftest_attacks[] = {
#define ATTACK(function, name, what, stops, control, absent, why) {name, what, stops, control, absent, why, NULL},
#include "selftest/attack_list.h"
#undef ATTACK
};
const size_t selftest_attack_count = ARRAY_SIZE(selftest_attacks);

struct harness {
	char token[33], marker[48];
	int program;  /* memfd with the attacks */
	int leak;     /* a descriptor left open on purpose */
	int decoy_in; /* the decoys live as long as this is open */
	pid_t decoy;
	struct buf coordinates; /* lines, cut into strings */
	const char *items[COORDINATES_MAX + 1];
	size_t count;
};

/* ---- the mechanism that blocked ---------------------------------------------------------------------------------------------- */

/*
 * In the order in which they come to bear on a system call: the filter first, then names that are not there, then permissions, then
 * read-only mounts, then Landlock. With each, what it answers.
 */
static const struct {
	unsigned bit;
	const char *name;
	const char *answers;
} protections[] = {
	{BY_SECCOMP, "seccomp", "SIGSYS ENOSYS EPERM EAFNOSUPPORT"},
	{BY_PIDNS, "pid namespace", "ESRCH ENOENT ENODATA"},
	{BY_NETNS, "network namespace", "ECONNREFUSED ENETUNREACH EADDRNOTAVAIL EAGAIN ETIMEDOUT EHOSTUNREACH ENODATA"},
	{BY_IPCNS, "ipc namespace", "ENOENT ENODATA"},
	{BY_UTSNS, "uts namespace", "ENODATA"},
	{BY_CGROUPNS, "cgroup namespace", "ENODATA"},
	{BY_MNTNS, "mount namespace", "ENOENT ENODEV ENXIO EROFS ENODATA"},
	{BY_NNP, "no_new_privs", "EPERM"},
	{BY_INIT, "undumpable init", "EPERM EACCES"},
	{BY_CAPS, "capabilities", "EPERM"},
	{BY_MASKS, "masks", "ENODATA EACCES ENOENT"},
	{BY_USERNS, "user namespace", "EACCES EPERM EINVAL ENODATA"},
	{BY_READONLY, "masks", "EROFS"},
	{BY_LANDLOCK, "landlock", "EACCES EPERM"},
	{BY_LIMITS, "process limit", "EAGAIN"},
	{BY_ENV, "environment allowlist", "ENODATA"},
	{BY_FDS, "closed descriptors", "EBADF"},
	{BY_SESSION, "own session", "ENXIO"},
};

const char *protection_next(unsigned *mask)
{
	for (size_t i = 0; i < ARRAY_SIZE(protections); i++) {
		if (*mask & protections[i].bit) {
			*mask &= ~protections[i].bit;
			return protections[i].name;
		}
	}
	return NULL;
}

static const char *blocked_by(unsigned stops, const char *detail)
{
	for (size_t i = 0; i < ARRAY_SIZE(protections); i++)
		if ((stops & protections[i].bit) && word_in(protections[i].answers, detail))
			return protections[i].name;
	return protection_next(&stops);
}

/* An attack that only one protection stops, and that worked, shows that this one is missing: then it is not what stopped others. */
static unsigned missing_protections(const struct verdict *verdicts)
{
	unsigned missing = 0;

	for (size_t i = 0; i < selftest_attack_count; i++) {
		unsigned stops = verdicts[i].attack->stops;

		if (verdicts[i].tried && !verdicts[i].blocked && (stops & (stops - 1)) == 0)
			missing |= stops;
	}
	return missing;
}

static void name_mechanisms(struct verdict *verdicts)
{
	unsigned missing = missing_protections(verdicts);

	for (size_t i = 0; i < selftest_attack_count; i++) {
		unsigned there = verdicts[i].attack->stops & ~missing;

		if (verdicts[i].tried && verdicts[i].blocked)
			verdicts[i].blocked_by = blocked_by(there ? there : verdicts[i].attack->stops, verdicts[i].detail);
	}
}

/* ---- running the program outside --------------------------------------------------------------------------------------------- */

static int load_program(struct harness *h, struct cordon_error *err)
{
	size_t len = (size_t)(attacks_blob_end - attacks_blob), done = 0;

	h->program = memfd_create("cordon-attacks", MFD_CLOEXEC);
	while (h->program >= 0 && done < len) {
		ssize_t n = write(h->program, attacks_blob + done, len - done);

		if (n < 0)
			break;
		done += (size_t)n;
	}
	if (done == len && h->program >= 0) {
		/* Reopened for reading: a file that is open for writing cannot be executed. */
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", h->program);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		close(h->program);
		h->program = fd;
		if (fd >= 0)
			return 0;
	}
	return err_sys(err, "cannot load the attacks");
}

/* Starts the program with in and out as its standard input and output. */
static pid_t spawn(const struct harness *h, const char *const *argv, int in, int out)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
			fexecve(h->program, (char *const *)(const void *)argv, environ);
		_exit(127);
	}
	return pid;
}

/* Reads until the end, or until a line that says "ready". */
static int read_lines(int fd, struct buf *b)
{
	b->cap = OUTPUT_MAX;
	for (;;) {
		char *room = buf_reserve(b, 4096);
		ssize_t n = room ? read(fd, room, 4096) : -1;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		b->len += (size_t)n;
		b->data[b->len] = '\0';
		if (strstr(b->data, "\nready\n"))
			return 1;
	}
}

static int add_coordinate(struct harness *h, const char *item)
{
	if (h->count == COORDINATES_MAX)
		return -1;
	h->items[h->count++] = item;
	h->items[h->count] = NULL;
	return 0;
}

static const char *coordinate(const struct harness *h, const char *key)
{
	struct decoys d = {.items = (char *const *)(const void *)h->items, .count = (int)h->count};

	return decoy_get(&d, key);
}

static int start_decoys(struct harness *h, struct cordon_error *err)
{
	const char *argv[] = {"cordon-attacks", "--decoy", h->marker, h->token, NULL};
	int in[2], out[2], r;

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_sys(err, "cannot start the decoys");
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return err_sys(err, "cannot start the decoys");
	}
	h->decoy = spawn(h, argv, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	h->decoy_in = in[1];
	r = h->decoy > 0 ? read_lines(out[0], &h->coordinates) : -1;
	close(out[0]);
	if (r != 1)
		return err_set(err, CORDON_ERR_SYSTEM, "the decoys could not be laid out");
	for (char *line = h->coordinates.data, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		if (strchr(line, '=') && add_coordinate(h, line) < 0)
			return err_set(err, CORDON_ERR_SYSTEM, "more decoys than expected");
	}
	if (add_coordinate(h, "pids=" PROCESSES) < 0 || !coordinate(h, "secret"))
		return err_set(err, CORDON_ERR_SYSTEM, "the decoys could not be laid out in /tmp");
	return 0;
}

/* Returns when the decoys are gone. */
static void harness_end(struct harness *h)
{
	int *fds[] = {&h->program, &h->leak, &h->decoy_in};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		cleanup_fd(fds[i]);
		*fds[i] = -1;
	}
	if (h->decoy > 0)
		waitpid(h->decoy, NULL, 0);
	buf_free(&h->coordinates);
}

/* "cordon-attacks MODE [--only NAME] KEY=VALUE…" */
static void make_argv(const struct harness *h, const char *program, const char *mode, const char *only, const char **argv)
{
	size_t n = 0;

	argv[n++] = program;
	argv[n++] = mode;
	if (only) {
		argv[n++] = "--only";
		argv[n++] = only;
	}
	memcpy(argv + n, h->items, (h->count + 1) * sizeof(h->items[0]));
}
#define ARGV_MAX (COORDINATES_MAX + 5)

static int run_controls(const struct harness *h, const char *only, struct buf *lines, struct cordon_error *err)
{
	_cleanup_fd_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const char *argv[ARGV_MAX];
	int out[2], status = 0, r;
	pid_t pid;

	if (null < 0 || pipe2(out, O_CLOEXEC) < 0)
		return err_sys(err, "cannot run the controls");
	make_argv(h, "cordon-attacks", "--controls", only, argv);
	pid = spawn(h, argv, null, out[1]);
	close(out[1]);
	r = pid > 0 ? read_lines(out[0], lines) : -1;
	close(out[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (r != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the controls could not be run");
	return 0;
}

/* ---- running it inside ------------------------------------------------------------------------------------------------------- */

static int start_inside(const struct harness *h, const char *only, struct cordon_sandbox *s, struct cordon_exec **e,
                        struct cordon_error *err)
{
	const char *argv[ARGV_MAX], *on_host = coordinate(h, "program");
	struct cordon_exec_options o = {.size = sizeof(o), .argv = argv, .cwd = "/"};

	make_argv(h, PROGRAM_INSIDE, "--all", only, argv);
	if (cordon_exec_start(s, &o, e, err) == 0)
		return 0;
	/* A sandbox that does not have the file it was given has a root of someone else's; the attacks will say whose. */
	if (err->code != CORDON_ERR_NOT_FOUND || !on_host)
		return -1;
	*err = (struct cordon_error){0};
	make_argv(h, on_host, "--all", only, argv);
	return cordon_exec_start(s, &o, e, err);
}

static int collect_inside(struct cordon_exec *e, struct buf *lines, struct cordon_error *err)
{
	const struct cordon_result *r;

	if (cordon_exec_wait(e, err) < 0)
		return -1;
	r = cordon_exec_result(e);
	lines->cap = OUTPUT_MAX;
	buf_add(lines, r->stdout_data, r->stdout_len);
	if (r->stdout_len == 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the attacks did not run inside: %s", r->error ? r->error : r->stderr_data);
	return 0;
}

static int run_inside(const struct harness *h, const char *only, const char *image, struct buf *lines, struct cordon_error *err)
{
	const struct cordon_file file = {
		.guest = PROGRAM_INSIDE, .data = attacks_blob, .len = (size_t)(attacks_blob_end - attacks_blob), .mode = 0555};
	const char *host = coordinate(h, "hostname");
	struct cordon_sandbox_options o = {.size = sizeof(o), .image = image, .files = &file, .file_count = 1};
	struct cordon_policy *policy = cordon_policy_new();
	struct cordon_sandbox *s = NULL;
	struct cordon_exec *e = NULL;
	struct cordon *c = NULL;
	int r = -1;

	o.hostname = host && strcmp(host, "cordon") == 0 ? "cordon-selftest" : "cordon"; /* never the host's own name */
	if (!policy)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	if (cordon_policy_set(policy, "limits.pids", PROCESSES, err) == 0 &&
	    cordon_policy_set(policy, "limits.timeout", "5min", err) == 0 && cordon_policy_set(policy, "clear", "patterns.use", err) == 0 &&
	    cordon_open(&c, err) == 0 && cordon_sandbox_create(c, policy, &o, &s, err) == 0 && start_inside(h, only, s, &e, err) == 0)
		r = collect_inside(e, lines, err);
	if (e)
		cordon_exec_free(e);
	if (s)
		cordon_sandbox_destroy(s);
	if (c)
		cordon_close(c);
	cordon_policy_free(policy);
	return r;
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------------------- */

static struct verdict *find(struct verdict *verdicts, const char *name)
{
	for (size_t i = 0; i < selftest_attack_count; i++)
		if (strcmp(verdicts[i].attack->name, name) == 0)
			return &verdicts[i];
	return NULL;
}

/* Calls take() for each line "NAME TAB WORD TAB DETAIL". */
static void each_line(struct buf *lines, struct verdict *verdicts, void (*take)(struct verdict *v, const char *word, const char *detail))
{
	char *save = NULL;

	for (char *line = lines->data ? strtok_r(lines->data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		char *word = strchr(line, '\t'), *detail = word ? strchr(word + 1, '\t') : NULL;
		struct verdict *v;

		if (!detail)
			continue;
		*word++ = '\0';
		*detail++ = '\0';
		v = find(verdicts, line);
		if (v && v->tried)
			take(v, word, detail);
	}
}

static void take_control(struct verdict *v, const char *word, const char *detail)
{
	v->control = strcmp(word, "worked") == 0 ? CONTROL_WORKED : strcmp(word, "n/a") == 0 ? CONTROL_MISSING : CONTROL_FAILED;
	snprintf(v->control_detail, sizeof(v->control_detail), "%s", detail);
}

static void take_inside(struct verdict *v, const char *word, const char *detail)
{
	v->blocked = strcmp(word, "failed") == 0;
	snprintf(v->detail, sizeof(v->detail), "%s", detail);
}

/* An attack that says nothing has not been blocked: it may have ended the one who would have told. */
static void expect(const char *only, struct verdict *verdicts)
{
	for (size_t i = 0; i < selftest_attack_count; i++) {
		struct verdict *v = &verdicts[i];

		*v = (struct verdict){.attack = &selftest_attacks[i], .control = CONTROL_FAILED};
		v->tried = !only || strcmp(only, v->attack->name) == 0;
		snprintf(v->control_detail, sizeof(v->control_detail), "no answer");
		snprintf(v->detail, sizeof(v->detail), "no answer");
	}
}

static int prepare(struct harness *h, struct cordon_error *err)
{
	unsigned char random[16];

	*h = (struct harness){.program = -1, .leak = -1, .decoy_in = -1};
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(err, "getrandom");
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(h->token + 2 * i, 3, "%02x", random[i]);
	/* Not a part of the token: seeing the one must not mean to have seen the other. */
	snprintf(h->marker, sizeof(h->marker), "cordon-decoy-%d-%02x", (int)getpid(), random[0]);
	if (setenv("CORDON_SELFTEST_SECRET", h->token, 1) < 0)
		return err_sys(err, "setenv");
	if (load_program(h, err) < 0 || start_decoys(h, err) < 0)
		return -1;
	h->leak = open("/tmp", O_RDONLY | O_DIRECTORY); /* without O_CLOEXEC: inherited on purpose */
	return h->leak < 0 ? err_sys(err, "cannot open /tmp") : 0;
}

int selftest_run(const char *only, const char *image, struct verdict *verdicts, struct cordon_error *err)
{
	_cleanup_buf_ struct buf outside = {0}, inside = {0};
	struct harness h;
	int r;

	expect(only, verdicts);
	r = prepare(&h, err);
	if (r == 0)
		r = run_controls(&h, only, &outside, err);
	if (r == 0)
		r = run_inside(&h, only, image, &inside, err);
	harness_end(&h);
	unsetenv("CORDON_SELFTEST_SECRET");
	if (r < 0)
		return -1;
	each_line(&outside, verdicts, take_control);
	each_line(&inside, verdicts, take_inside);
	name_mechanisms(verdicts);
	return 0;
}
