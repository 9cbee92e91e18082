/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters that wait (lib/zygote.h): the same code by one of them and by a fresh one, in sandboxes of the same kind, must be the same to the
 * last byte.
 *
 *   zygote both FILE…           runs each both ways; prints "ok - …" and "not ok - …" lines, with what differs. Lines at its top say how:
 *                               "# args: a b c", "# stdin: text", "# env: K=V", "# cwd: /tmp", "# signal: 15" (when it has printed something),
 *                               "# mask: addresses" (what looks like one, in what it prints, is not compared)
 *   zygote one warm|cold FILE ARG…  runs one and prints what it prints
 *   zygote same FILE ARG…       as both, with these arguments; says what it printed if that is the same
 *   zygote siblings COUNT FILE  by so many that wait side by side; prints what each prints
 *   zygote checks               everything else about them
 *   zygote time COUNT [CODE [KEY VALUE]]  microseconds of "pass" (CODE) by one that waits, by a fresh one, and of "pass" outside of any
 *                               sandbox; with a setting of the policy
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "zygote.h"

enum { DEADLINE = 300 };

static struct cordon *ctx;
struct cordon_policy *policy;

/* ---- one exec ----------------------------------------------------------------------------------------------------------------- */

struct cordon_sandbox *create(const struct cordon_policy *p)
{
	struct cordon_error err = {0};
	struct cordon_sandbox *s = NULL;
	if (cordon_sandbox_create(ctx, p, NULL, &s, &err) < 0)
		give_up("a sandbox can be made: %s", err.message);
	return s;
}

/* Until it is ready, or will never be. */
enum zygote_state settle(struct cordon_sandbox *s, struct cordon_error *err)
{
	enum zygote_state state;
	while ((state = zygote_look(s, err)) == ZYGOTE_STARTING) {
		struct pollfd p = {.fd = zygote_fd(s), .events = POLLIN};
		poll(&p, 1, -1);
	}
	return state;
}

void park(struct cordon_sandbox *s, const char *const *preload)
{
	struct cordon_error err = {0};
	struct strlist names = {0};
	for (size_t i = 0; preload && preload[i]; i++)
		strlist_add(&names, preload[i], NULL);
	if (zygote_park(s, "python", &names, &err) < 0 || settle(s, &err) != ZYGOTE_READY)
		give_up("an interpreter waits: %s", err.message);
	strlist_free(&names);
}

struct feeding {
	struct cordon_exec *exec;
	int signal;
};

static void on_output(void *user, enum cordon_stream stream, const void *data, size_t len)
{
	struct feeding *f = user;
	(void)stream, (void)data, (void)len;
	if (f->signal && f->exec)
		cordon_exec_signal(f->exec, f->signal, NULL);
	f->signal = 0;
}

static void feed(struct cordon_exec *e, const char *input)
{
	for (size_t len = strlen(input); len > 0;) {
		struct pollfd p = {.fd = cordon_exec_stdin_fd(e), .events = POLLOUT};
		poll(&p, 1, -1);
		const ssize_t n = cordon_exec_write(e, input, len);
		if (n < 0)
			break;
		input += n;
		len -= (size_t)n;
	}
	cordon_exec_close_stdin(e);
}

struct made run_code(struct cordon_sandbox *s, const char *code, size_t len, const struct how *how)
{
	struct made m = {0};
	struct feeding f = {.signal = how->signal};
	const struct cordon_exec_options o = {
		.size = sizeof(o),
		.language = "python",
		.code = code,
		.code_len = len,
		.args = how->args,
		.env = how->env,
		.cwd = how->cwd,
		.flags = how->input ? CORDON_EXEC_STDIN : 0,
		.timeout_ms = how->timeout_ms,
		.on_output = on_output,
		.user = &f,
	};
	if (cordon_exec_start(s, &o, &m.exec, &m.err) < 0) {
		m.exec = NULL;
		return m;
	}
	m.warm = m.exec->warm;
	f.exec = m.exec;
	if (how->input)
		feed(m.exec, how->input);
	if (cordon_exec_wait(m.exec, &m.err) < 0)
		give_up("the end of an exec is seen: %s", m.err.message);
	return m;
}

const struct cordon_result *result(const struct made *m)
{
	return m->exec ? cordon_exec_result(m->exec) : NULL;
}

bool prints_text(const struct made *m, int status, const char *text)
{
	const struct cordon_result *r = result(m);
	const bool good = r && r->exit_code == status && strcmp(r->stdout_data, text) == 0;
	if (!good && r)
		printf("# %d\n# %s\n# %s\n", r->exit_code, r->stdout_data, r->stderr_data);
	else if (!good)
		printf("# %s\n", m->err.message);
	return good;
}

struct made run_text(struct cordon_sandbox *s, const char *code, const struct how *how)
{
	return run_code(s, code, strlen(code), how);
}

/* ---- both ways ---------------------------------------------------------------------------------------------------------------- */

static char *read_all(const char *path, size_t *len)
{
	struct buf b = {0};
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	for (ssize_t n = 1; n > 0; b.len += (size_t)MAX(n, 0))
		if (fd < 0 || !buf_reserve(&b, 65536) || (n = read(fd, b.data + b.len, 65536)) < 0)
			give_up("%s can be read: %s", path, strerror(errno));
	close(fd);
	*len = b.len;
	buf_add(&b, "", 1);
	return b.data;
}

/* "\n" in what a line says is a line feed. */
static char *unescape(const char *line, size_t len)
{
	char *out = malloc(len + 1);
	size_t n = 0;
	for (size_t i = 0; i < len; i++)
		out[n++] = line[i] == '\\' && i + 1 < len && line[i + 1] == 'n' ? (i++, '\n') : line[i];
	out[n] = '\0';
	return out;
}

static void add_words(const char **list, size_t *count, char *text)
{
	char *rest = NULL;
	for (char *word = strtok_r(text, " ", &rest); word && *count < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
		list[(*count)++] = word;
}

static struct how read_how(const char *code)
{
	struct how how = {0};
	for (const char *line = code; *line == '#'; line += strcspn(line, "\n") + 1) {
		const size_t end = strcspn(line, "\n");
		const char *colon = strchr(line, ':');
		if (!colon || colon > line + end || line[1] != ' ')
			continue;
		if (how.text_count == WORDS_MAX)
			give_up("a file says not too much of how it is to be run");
		const size_t key = (size_t)(colon - line - 2);
		char *text = unescape(colon + 2, end - (size_t)(colon + 2 - line));
		how.texts[how.text_count++] = text;
		if (strncmp(line + 2, "args", key) == 0)
			add_words(how.args, &how.arg_count, text);
		else if (strncmp(line + 2, "env", key) == 0)
			how.env[how.env_count++] = text;
		else if (strncmp(line + 2, "stdin", key) == 0)
			how.input = text;
		else if (strncmp(line + 2, "cwd", key) == 0)
			how.cwd = text;
		else if (strncmp(line + 2, "signal", key) == 0)
			how.signal = (int)strtol(text, NULL, 10);
		else if (strncmp(line + 2, "mask", key) == 0)
			how.mask = true;
	}
	return how;
}

static void free_how(struct how *how)
{
	while (how->text_count)
		free(how->texts[--how->text_count]);
}

static bool is_address(const char *p, const char *end)
{
	return end - p > 8 && p[0] == '0' && p[1] == 'x' && strspn(p + 2, "0123456789abcdef") > 8;
}

static bool equal_but_addresses(const char *a, const char *a_end, const char *b, const char *b_end)
{
	while (a < a_end && b < b_end && *a == *b) {
		if (is_address(a, a_end) && is_address(b, b_end)) {
			a += 2 + strspn(a + 2, "0123456789abcdef");
			b += 2 + strspn(b + 2, "0123456789abcdef");
		} else {
			a++;
			b++;
		}
	}
	return a == a_end && b == b_end;
}

static bool same_bytes(const char *what, bool mask, const char *cold, size_t cold_len, const char *warm, size_t warm_len)
{
	if (cold_len == warm_len && memcmp(cold, warm, cold_len) == 0)
		return true;
	if (mask && equal_but_addresses(cold, cold + cold_len, warm, warm + warm_len))
		return true;
	printf("# %s, fresh:\n%.3000s\n# %s, one that waited:\n%.3000s\n", what, cold, what, warm);
	return false;
}

static bool same(const struct made *cold, const struct made *warm, bool mask)
{
	const struct cordon_result *a = result(cold), *b = result(warm);
	if (!a || !b)
		return !a && !b && strcmp(cold->err.message, warm->err.message) == 0;
	const bool ends = a->exit_code == b->exit_code && a->signal == b->signal &&
	                  strcmp(a->reason ? a->reason : "", b->reason ? b->reason : "") == 0;
	if (!ends)
		printf("# fresh: %d (%s), one that waited: %d (%s)\n", a->exit_code, a->reason ? a->reason : "-", b->exit_code,
		       b->reason ? b->reason : "-");
	const bool out = same_bytes("stdout", mask, a->stdout_data, a->stdout_len, b->stdout_data, b->stdout_len);
	return same_bytes("stderr", mask, a->stderr_data, a->stderr_len, b->stderr_data, b->stderr_len) && out && ends;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static void both(const char *path, char **args, int count, bool show)
{
	size_t len;
	char *code = read_all(path, &len);
	struct how how = read_how(code);
	for (int i = 0; i < count && i < WORDS_MAX; i++)
		how.args[i] = args[i];
	struct cordon_sandbox *s[2] = {create(policy), create(policy)};
	park(s[1], NULL);
	struct made cold = run_code(s[0], code, len, &how), warm = run_code(s[1], code, len, &how);
	const bool equal = same(&cold, &warm, how.mask);
	if (show && result(&cold))
		printf("%s", result(&cold)->stdout_data);
	check(equal && warm.warm && !cold.warm, "%s%s%s: %s", base_name(path), count ? " " : "", count ? args[0] : "",
	      !warm.warm ? "no interpreter waited for it"
	      : equal    ? "both ways alike"
	                 : "not alike");
	cordon_exec_free(cold.exec);
	cordon_exec_free(warm.exec);
	for (int i = 0; i < 2; i++)
		cordon_sandbox_destroy(s[i]);
	free_how(&how);
	free(code);
}

static int one(bool warm, const char *path, char **args, int count)
{
	size_t len;
	char *code = read_all(path, &len);
	struct how how = read_how(code);
	for (int i = 0; i < count && i < WORDS_MAX; i++)
		how.args[i] = args[i];
	struct cordon_sandbox *s = create(policy);
	if (warm)
		park(s, NULL);
	struct made m = run_code(s, code, len, &how);
	const struct cordon_result *r = result(&m);
	if (!r)
		give_up("%s", m.err.message);
	fwrite(r->stdout_data, 1, r->stdout_len, stdout);
	fwrite(r->stderr_data, 1, r->stderr_len, stderr);
	const int status = r->exit_code;
	cordon_exec_free(m.exec);
	cordon_sandbox_destroy(s);
	free_how(&how);
	free(code);
	return status;
}

/* ---- side by side ------------------------------------------------------------------------------------------------------------- */

static void siblings(int count, const char *path)
{
	size_t len;
	char *code = read_all(path, &len);
	struct cordon_sandbox *s[64];
	for (int i = 0; i < MIN(count, 64); i++) {
		s[i] = create(policy);
		park(s[i], (const char *const[]){"random", "uuid", NULL});
	}
	for (int i = 0; i < MIN(count, 64); i++) {
		struct made m = run_code(s[i], code, len, &(struct how){0});
		if (!result(&m) || !m.warm)
			give_up("one of them runs it: %s", m.err.message);
		printf("%s", result(&m)->stdout_data);
		cordon_exec_free(m.exec);
		cordon_sandbox_destroy(s[i]);
	}
	free(code);
}

/* ---- how long it takes -------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void show_time(const char *what, uint64_t *us, int count)
{
	qsort(us, (size_t)count, sizeof(*us), by_value);
	printf("%-24s p50 %6llu us   p10 %6llu us   p90 %6llu us\n", what, (unsigned long long)us[count / 2],
	       (unsigned long long)us[count / 10], (unsigned long long)us[count * 9 / 10]);
}

static uint64_t run_bare(void)
{
	extern char **environ;
	char *const argv[] = {(char[]){"python3"}, (char[]){"-c"}, (char[]){"pass"}, NULL};
	const uint64_t from = exec_clock_us();
	pid_t pid;
	if (posix_spawn(&pid, "/usr/bin/python3", NULL, NULL, argv, environ) != 0)
		give_up("python3 can be started");
	waitpid(pid, NULL, 0);
	return exec_clock_us() - from;
}

static void measure(int count, const char *code)
{
	uint64_t *us[3] = {calloc((size_t)count, sizeof(uint64_t)), calloc((size_t)count, sizeof(uint64_t)),
	                   calloc((size_t)count, sizeof(uint64_t))};
	for (int i = 0; i < count; i++) {
		for (int k = 0; k < 2; k++) {
			struct cordon_sandbox *s = create(policy);
			if (k == 0)
				park(s, NULL);
			sandbox_ready(s, NULL);
			usleep(2000);
			const uint64_t from = exec_clock_us();
			struct made m = run_text(s, code, &(struct how){0});
			us[k][i] = exec_clock_us() - from;
			cordon_exec_free(m.exec);
			cordon_sandbox_destroy(s);
		}
		usleep(2000);
		us[2][i] = run_bare();
	}
	show_time("one that waits", us[0], count);
	show_time("a fresh one", us[1], count);
	show_time("bare python3 -c pass", us[2], count);
	for (int k = 0; k < 3; k++)
		free(us[k]);
}

static int run(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (strcmp(mode, "one") == 0 && argc > 3)
		return one(strcmp(argv[2], "warm") == 0, argv[3], argv + 4, argc - 4);
	if (strcmp(mode, "both") == 0) {
		for (int i = 2; i < argc; i++)
			both(argv[i], NULL, 0, false);
	} else if (strcmp(mode, "same") == 0 && argc > 2) {
		both(argv[2], argv + 3, argc - 3, true);
	} else if (strcmp(mode, "siblings") == 0 && argc == 4) {
		siblings((int)strtol(argv[2], NULL, 10), argv[3]);
	} else if (strcmp(mode, "time") == 0 && argc > 2) {
		if (argc > 5 && cordon_policy_set(policy, argv[4], argv[5], NULL) < 0)
			give_up("%s can be set", argv[4]);
		measure((int)strtol(argv[2], NULL, 10), argc > 3 ? argv[3] : "pass");
	} else if (strcmp(mode, "checks") == 0) {
		check_all();
	} else {
		fputs("see the top of tests/api/zygote.c\n", stderr);
		return 2;
	}
	return failures != 0;
}

int main(int argc, char **argv)
{
	struct cordon_error err = {0};
	alarm(DEADLINE);
	if (cordon_open(&ctx, &err) < 0)
		give_up("a context can be opened: %s", err.message);
	cordon_pool_limit(ctx, 0, 0); /* what is parked here is parked by hand */
	policy = cordon_policy_new();
	const int status = run(argc, argv);
	cordon_policy_free(policy);
	cordon_close(ctx);
	return status;
}
