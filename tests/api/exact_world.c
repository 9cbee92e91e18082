/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox over one random tree, and a plain directory that goes through the same. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "exact.h"

#define INSIDE_ID 1000 /* the user inside, when root runs this */
#define OVERFLOW 65534 /* who is nobody inside */
#define RANGE 65536

/* ---- comparing --------------------------------------------------------------------------------------------------------------- */

static bool is_new(const char *seconds)
{
	long long then = atoll(seconds), now = (long long)time(NULL);
	return then > now - 86400 && then < now + 86400;
}

/* As idmapped mounts show it: owner and user change places. An ordinary user sees only itself. */
static unsigned shown_id(unsigned id, unsigned owner)
{
	if (geteuid() != 0)
		return id == owner ? id : OVERFLOW;
	if (id == owner)
		return INSIDE_ID;
	return id == INSIDE_ID ? owner : id < RANGE ? id : OVERFLOW;
}

static bool is_hosts(const char *line)
{
	return strncmp(line, "app/host", 8) == 0 || strncmp(line, "app/pin", 7) == 0;
}

static void add_filtered(const struct world *w, struct buf *out, const char *line, size_t len, unsigned filters)
{
	_cleanup_free_ char *copy = strndup(line, len);
	char *rest = NULL, *word = strtok_r(copy, " ", &rest);

	for (int field = 0; word; field++, word = strtok_r(NULL, " ", &rest)) {
		buf_add_str(out, field ? " " : "");
		if (field == F_MTIME && (filters & NO_NEW_TIMES) && is_new(word))
			buf_add_str(out, "new");
		else if ((field == F_SPARSE && (filters & NO_HOLES)) || (field == F_GROUP && (filters & NO_GROUPS)))
			buf_add_str(out, "*");
		else if (field == F_MTIME && strcmp(copy, "home") == 0)
			buf_add_str(out, "*"); /* a directory of each layer's own */
		else if (field == F_UID && (filters & OWNERS))
			buf_addf(out, "%u", shown_id((unsigned)strtoul(word, NULL, 10), w->owner.uid));
		else if (field == F_GID && (filters & OWNERS))
			buf_addf(out, "%u", shown_id((unsigned)strtoul(word, NULL, 10), w->owner.gid));
		else
			buf_add_str(out, word);
	}
	buf_add_str(out, "\n");
}

char *filtered(const struct world *w, const char *text, unsigned filters)
{
	struct buf out = {0};

	for (const char *line = text, *end; *line && (end = strchr(line, '\n')); line = end + 1)
		if (!((filters & WITHOUT_HOST) && is_hosts(line)) && !((filters & ONLY_HOST) && !is_hosts(line)) &&
		    !((filters & ONLY_APP) && line[0] != 'a'))
			add_filtered(w, &out, line, (size_t)(end - line), filters);
	return buf_steal(&out);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t split(char *text, char ***lines)
{
	size_t count = 0, size = 0;
	char *rest = NULL;

	*lines = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (count == size && !(*lines = realloc(*lines, (size = size ? size * 2 : 256) * sizeof(**lines))))
			abort();
		(*lines)[count++] = line;
	}
	qsort(*lines, count, sizeof(**lines), by_text);
	return count;
}

/* Paths may be longer than anybody wants to read; the end of a line tells more. */
static void print_line(const char *title, const char *line)
{
	const size_t len = strlen(line);

	if (len < 500)
		printf("#   %s %s\n", title, line);
	else
		printf("#   %s %.100s … %s\n", title, line, line + len - 380);
}

/* The lines that only one of them has. */
static void print_differences(const char *want, const char *got)
{
	_cleanup_free_ char *a = strdup(want), *b = strdup(got);
	char **wanted, **had;
	size_t n = split(a, &wanted), m = split(b, &had), i = 0, k = 0, said = 0;

	while ((i < n || k < m) && said < 16) {
		int order = i == n ? 1 : k == m ? -1 : strcmp(wanted[i], had[k]);
		if (order < 0)
			print_line("wanted:", wanted[i]);
		else if (order > 0)
			print_line("got:   ", had[k]);
		said += order != 0;
		i += order <= 0;
		k += order >= 0;
	}
	free(wanted);
	free(had);
}

bool expect(struct world *w, bool good, const char *what, const char *detail)
{
	if (!good && !w->failed) {
		printf("# world %llu, %s: %s: %s\n", (unsigned long long)w->number, w->doing, what, detail ? detail : "");
		w->failed = true;
	}
	return good;
}

bool same(struct world *w, const char *what, const char *want, const char *got)
{
	const bool good = want && got && strcmp(want, got) == 0, first = !w->failed;

	expect(w, good, what, want && got ? "they differ" : "nothing to compare");
	if (!good && first && want && got)
		print_differences(want, got);
	return good;
}

/* ---- outside ----------------------------------------------------------------------------------------------------------------- */

/* To be the user that the workspace's files belong to, with no more rights than the user inside has. */
static bool become(struct owner owner)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	if (geteuid() != 0)
		return true;
	return setgroups(0, NULL) == 0 && setresgid(owner.gid, owner.gid, owner.gid) == 0 &&
	       setresuid(owner.uid, owner.uid, owner.uid) == 0 && syscall(SYS_capset, &header, none) == 0;
}

static char *read_all(int fd)
{
	struct stat st;
	char *text = fstat(fd, &st) < 0 ? NULL : calloc(1, (size_t)st.st_size + 1);

	if (text && pread(fd, text, (size_t)st.st_size, 0) != (ssize_t)st.st_size) {
		free(text);
		return NULL;
	}
	return text;
}

static bool write_all(int fd, const struct buf *b)
{
	return !b->failed && (b->len == 0 || write(fd, b->data, b->len) == (ssize_t)b->len);
}

/* In a child, as the owner: the script, if there is one, and then the manifest, whole or of what the host edits. */
static void as_owner(const struct world *w, const struct roots *roots, const char *script, bool (*part)(const char *), char **results,
                     char **after)
{
	_cleanup_fd_ int first = memfd_create("results", MFD_CLOEXEC), second = memfd_create("after", MFD_CLOEXEC);
	int status = -1;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct buf said = {0}, tree = {0};
		bool good = become(w->owner);
		umask(0);
		_cleanup_free_ char *copy = script ? strdup(script) : NULL;
		if (good && copy)
			replay(roots, copy, &said, NULL);
		if (good)
			manifest(roots, part, &tree);
		_exit(good && write_all(first, &said) && write_all(second, &tree) ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		give_up("the plain directory can be looked at (status %d)", status);
	if (results)
		*results = read_all(first);
	*after = read_all(second);
}

static bool is_hosts_name(const char *name)
{
	return strcmp(name, "host") == 0 || strncmp(name, "pin", 3) == 0;
}

char *host_manifest(const struct world *w, bool all)
{
	char *text = NULL;
	const struct roots r = {{w->seed, -1}};

	as_owner(w, &r, NULL, all ? NULL : is_hosts_name, NULL, &text);
	return text;
}

char *full_manifest(int app, int home)
{
	struct buf out = {0};
	const struct roots r = {{app, home}};

	manifest(&r, NULL, &out);
	return buf_steal(&out);
}

static int make_at(const char *dir, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (mkdir(path, 0755) < 0)
		give_up("%s can be made: %s", path, strerror(errno));
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		give_up("%s can be opened: %s", path, strerror(errno));
	return fd;
}

/* The tree that the world's number stands for. */
static void make_seed(const struct world *w, int dir)
{
	struct rng r = {w->number};
	make_seed_tree(&r, dir, w->owner);
}

static void open_mirror(const struct world *w, struct roots *r)
{
	char path[4096];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/mirror/%s", w->dir, root_names[i]);
		r->fds[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
}

static void close_mirror(struct roots *r)
{
	cleanup_fd(&r->fds[0]);
	cleanup_fd(&r->fds[1]);
}

/* From the seed, all that happened up to the node, once more. */
static void rebuild_mirror(struct world *w)
{
	int path[NODES], n = 0;
	_cleanup_fd_ int top = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	remove_all(top, "mirror");
	close(make_at(w->dir, "mirror"));
	_cleanup_fd_ int app = make_at(w->dir, "mirror/app"), home = make_at(w->dir, "mirror/home");
	make_seed(w, app);
	if (geteuid() == 0 && fchown(home, w->owner.uid, w->owner.gid) < 0)
		give_up("the plain directory can be made");
	for (int i = w->current; i > 0; i = w->nodes[i].parent)
		path[n++] = i;
	const struct roots r = {{app, home}};
	while (n > 0) {
		char *after = NULL;
		as_owner(w, &r, w->nodes[path[--n]].script, is_hosts_name, NULL, &after);
		free(after);
	}
}

struct run run_outside(struct world *w, const char *script)
{
	struct run run = {0};
	struct roots r;

	if (w->mirrored != w->current)
		rebuild_mirror(w);
	w->mirrored = -1;
	open_mirror(w, &r);
	as_owner(w, &r, script, NULL, &run.results, &run.after);
	close_mirror(&r);
	return run;
}

/* ---- inside ------------------------------------------------------------------------------------------------------------------ */

struct talk {
	struct buf out;
	struct buf err;
};

static void keep(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	struct talk *t = user;
	buf_add(stream == CORDON_STDOUT ? &t->out : &t->err, data, len);
}

static bool feed(struct cordon_exec *e, const char *text)
{
	for (size_t len = strlen(text); len > 0;) {
		ssize_t n = cordon_exec_write(e, text, len);
		struct pollfd p = {.fd = cordon_exec_stdin_fd(e), .events = POLLOUT};
		if (n < 0 || (n == 0 && poll(&p, 1, -1) < 0))
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

/* What stands between two titles; the newline before the second belongs to it. */
static char *section(const char *text, const char *title, const char *next)
{
	const char *from = strstr(text, title), *to = from && next ? strstr(from, next) : NULL;

	if (!from)
		return NULL;
	from += strlen(title);
	return to ? strndup(from, (size_t)(to - from) + 1) : strdup(from);
}

/* Waits for the word pause and, having edited the host's tree, lets the exec go on. */
static bool meddle(struct world *w, struct cordon_exec *e, struct talk *t)
{
	bool stale = false;

	while (!(t->out.len && strstr(t->out.data, "\npause\n"))) {
		struct pollfd p = {.fd = cordon_exec_fd(e), .events = POLLIN};
		if (poll(&p, 1, -1) < 0 || cordon_exec_step(e, NULL) != 1)
			return false;
	}
	for (unsigned n = 1 + below(&w->rng, 3); n > 0; n--)
		stale = edit_host(&w->rng, w->seed) || stale;
	feed(e, "x");
	return stale;
}

struct run run_inside(struct world *w, struct cordon_sandbox *s, const char *script)
{
	const char *const argv[] = {"/tools/inside", NULL};
	struct talk t = {0};
	struct run run = {.ended.status = -1};
	struct cordon_exec *e = NULL;
	const struct cordon_exec_options o = {
		.size = sizeof(o), .argv = argv, .flags = CORDON_EXEC_STDIN | CORDON_EXEC_DISCARD, .on_output = keep, .user = &t};

	if (cordon_exec_start(s, &o, &e, &run.ended.error) == 0) {
		feed(e, script ? script : "");
		feed(e, "\n");
		if (script && strstr(script, "\npause\n"))
			run.stale = meddle(w, e, &t);
		run.ended = end_exec(e);
	}
	const char *text = t.out.len ? t.out.data : "";
	run.before = section(text, "before\n", strstr(text, "\npause\n") ? "\npause\n" : "\nresults\n");
	run.results = section(text, "\nresults\n", "\nafter\n");
	run.after = section(text, "\nafter\n", "\nend\n");
	if (t.err.len)
		printf("# inside: %.500s\n", t.err.data);
	if (w->verbose)
		printf("# %s: outcome %s, status %d, head %s before and %s after, script:\n%s", w->doing, run.ended.outcome,
		       run.ended.status, run.ended.before, run.ended.after, script ? script : "");
	expect(w, run.before && (!script || (run.results && run.after)), "an exec runs to its end", run.ended.error.message);
	buf_free(&t.out);
	buf_free(&t.err);
	return run;
}

void run_free(struct run *r)
{
	free(r->before);
	free(r->results);
	free(r->after);
}

/* ---- its life ---------------------------------------------------------------------------------------------------------------- */

void world_begin(struct world *w)
{
	char grant[4096];
	const char *const settings[] = {"transaction.exit=rollback", "limits.max_output=64M", grant, NULL};
	static const uid_t owners[] = {0, 1000, 4321};
	char path[4096];

	snprintf(grant, sizeof(grant), "mounts.read=%s", w->tools);
	w->owner = (struct owner){geteuid(), getegid()};
	w->rng = (struct rng){w->number ^ 0x5eed};
	if (geteuid() == 0)
		w->owner = (struct owner){owners[below(&w->rng, 3)], owners[below(&w->rng, 3)]};
	w->seed = make_at(w->dir, "seed");
	make_seed(w, w->seed);
	snprintf(path, sizeof(path), "%s/seed", w->dir);
	const struct cordon_mount tools = {.host = w->tools, .guest = "/tools"};
	const struct cordon_create_options o = {
		.size = sizeof(o), .workspace = path, .policy = settings, .mounts = &tools, .mount_count = 1};
	struct cordon_error err = {0};
	if (cordon_create(&o, w->id, &err) < 0)
		give_up("a sandbox can be created: %s", err.message);
	w->sandbox = open_box(w->ctx, w->id);
	w->mirrored = -1;
	w->count = 1;
	w->nodes[0] = (struct node){.parent = -1, .valid = true};
	snprintf(w->doing, sizeof(w->doing), "start");
	struct run run = run_inside(w, w->sandbox, NULL);
	w->nodes[0].manifest = run.before ? filtered(w, run.before, WITHOUT_HOST) : strdup("");
	run_free(&run);
}

void world_reopen(struct world *w)
{
	if (w->service)
		end_service(w->service);
	w->service = NULL;
	cordon_sandbox_destroy(w->sandbox);
	w->sandbox = open_box(w->ctx, w->id);
}

void world_end(struct world *w)
{
	_cleanup_fd_ int top = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cordon_error err = {0};

	if (w->service)
		end_service(w->service);
	cordon_sandbox_destroy(w->sandbox);
	expect(w, cordon_remove(w->id, &err) == 0, "the sandbox is removed", err.message);
	for (int i = 0; i < w->count; i++) {
		free(w->nodes[i].script);
		free(w->nodes[i].manifest);
	}
	close(w->seed);
	remove_all(top, "seed");
	remove_all(top, "mirror");
}
