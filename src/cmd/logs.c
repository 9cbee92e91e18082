/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cordon logs`: the output of services, from the files that their keeper writes (keeper/keeper_log.c). To follow one is to watch the
 * directory with inotify and, at the same time, a connection to the keeper that ends with the service.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/tree.h"
#include "keeper/attach.h"

struct logs_flags {
	bool follow;
	const char *tail;
};

const struct option_def logs_options[] = {
	{.name = "follow", .letter = 'f', .offset = offsetof(struct logs_flags, follow), .help = "go on until the service ends"},
	{.name = "tail", .letter = 'n', .argument = "N", .offset = offsetof(struct logs_flags, tail), .help = "only the last N lines"},
	{0},
};

const char logs_about[] =
	"What a service (exec --detach) printed, both streams in the order in which they came. The last 10 to 20 MB are kept,\n"
	"also after it has ended and after the sandbox was stopped. SERVICE is its name or id; without it, the one that the\n"
	"sandbox has.";

const struct example logs_examples[] = {
	{"cordon logs box web", "what the service web printed"},
	{"cordon logs box web -f --tail 20", "its last lines, and what follows"},
	{0},
};

/* ---- finding the file -------------------------------------------------------------------------------------------------------- */

/* "ID.log": what a file of output is called. */
static bool is_log_name(const char *name)
{
	char id[ID_LEN + 1];

	if (strlen(name) != ID_LEN + strlen(".log") || strcmp(name + ID_LEN, ".log") != 0)
		return false;
	memcpy(id, name, ID_LEN);
	id[ID_LEN] = '\0';
	return id_valid(id);
}

static int no_log(const char *what, struct cordon_error *err)
{
	err_set(err, CORDON_ERR_NOT_FOUND, "there is no log of '%.80s' in this sandbox", what);
	return err_hint(err, "cordon ps shows its services; only those that were started with --detach have a log");
}

/* Of a service: NAME.log is a link to the file of the exec that was last called so. */
static bool by_name(int dir, const char *what, char file[ID_LEN + 8])
{
	char link[128], target[64];

	if (strchr(what, '/') || (size_t)snprintf(link, sizeof(link), "%s.log", what) >= sizeof(link))
		return false;
	ssize_t n = readlinkat(dir, link, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	if (!is_log_name(target))
		return false;
	memcpy(file, target, strlen(target) + 1);
	return true;
}

/* By id or unique beginning; without `what`, the only one there is. */
static int by_id(int dir, const char *what, char file[ID_LEN + 8], struct cordon_error *err)
{
	int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	_cleanup_dir_ DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	size_t found = 0;

	if (!d) {
		cleanup_fd(&copy);
		return err_sys(err, "cannot read the logs");
	}
	rewinddir(d);
	while ((e = readdir(d)))
		if (is_log_name(e->d_name) && (!what || strncmp(e->d_name, what, strlen(what)) == 0)) {
			memcpy(file, e->d_name, ID_LEN + sizeof(".log"));
			found++;
		}
	if (found == 1)
		return 0;
	if (found == 0 && !what)
		return err_set(err, CORDON_ERR_NOT_FOUND, "no service of this sandbox has printed anything");
	if (found == 0)
		return no_log(what, err);
	err_set(err, CORDON_ERR_INPUT, "%s: %zu logs fit", what ? what : "which service?", found);
	return err_hint(err, "give its name or more of its id; cordon ps shows them");
}

/* ---- printing ---------------------------------------------------------------------------------------------------------------- */

static int print_all(const char *data, size_t len, struct cordon_error *err)
{
	while (len) {
		ssize_t n = write(STDOUT_FILENO, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "cannot write the output");
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int read_rest(int fd, struct buf *out, struct cordon_error *err)
{
	for (;;) {
		void *room = buf_reserve(out, 64 << 10);
		ssize_t n = room ? read(fd, room, 64 << 10) : -1;

		if (!room)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		if (n < 0 && errno != EINTR)
			return err_sys(err, "cannot read the log");
		if (n == 0)
			return 0;
		out->len += n > 0 ? (size_t)n : 0;
	}
}

/* Where the last `lines` lines begin. */
static size_t tail_start(const struct buf *b, uint64_t lines)
{
	size_t at = b->len;

	if (at && b->data[at - 1] == '\n')
		at--;
	while (at && lines) {
		at--;
		if (b->data[at] == '\n' && --lines == 0)
			return at + 1;
	}
	return lines ? 0 : at;
}

/* What was rotated away, then what is there; *fd stays at its end. */
static int print_past(int dir, const char *file, uint64_t lines, int *fd, struct cordon_error *err)
{
	char old[ID_LEN + 16];
	_cleanup_buf_ struct buf text = {0};

	snprintf(old, sizeof(old), "%s.1", file);
	_cleanup_fd_ int before = openat(dir, old, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	*fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0)
		return err_sys(err, "cannot open the log");
	if ((before >= 0 && read_rest(before, &text, err) < 0) || read_rest(*fd, &text, err) < 0)
		return -1;
	size_t from = lines == UINT64_MAX ? 0 : lines == 0 ? text.len : tail_start(&text, lines);
	return text.len > from ? print_all(text.data + from, text.len - from, err) : 0;
}

static int print_news(int dir, const char *file, int *fd, struct cordon_error *err)
{
	struct stat ours, there;
	_cleanup_buf_ struct buf text = {0};

	if (read_rest(*fd, &text, err) < 0 || (text.len && print_all(text.data, text.len, err) < 0))
		return -1;
	if (fstat(*fd, &ours) < 0 || fstatat(dir, file, &there, AT_SYMLINK_NOFOLLOW) < 0 || ours.st_ino == there.st_ino)
		return 0;
	close(*fd); /* it was rotated, and we have read all of it */
	*fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return *fd < 0 ? err_sys(err, "cannot open the log") : print_news(dir, file, fd, err);
}

/* Until the service ends, and its last words are printed. */
static int follow(const char *home, const char *box, int dir, const char *file, int *fd, struct cordon_error *err)
{
	char id[ID_LEN + 1], path[32], events[4096];
	_cleanup_fd_ int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	memcpy(id, file, ID_LEN);
	id[ID_LEN] = '\0';
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	if (changes < 0 || inotify_add_watch(changes, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) < 0)
		return err_sys(err, "cannot watch the log");
	struct cordon_error why = {0};
	_cleanup_fd_ int keeper = keeper_await(home, box, id, &why);
	struct pollfd p[] = {{.fd = changes, .events = POLLIN}, {.fd = keeper, .events = POLLIN}};
	for (bool over = keeper < 0; !over;) {
		if (print_news(dir, file, fd, err) < 0)
			return -1;
		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return err_sys(err, "poll");
		over = p[1].revents != 0;
		while (read(changes, events, sizeof(events)) > 0)
			;
	}
	return print_news(dir, file, fd, err);
}

static int show(const struct tree_args *a, const struct logs_flags *f, uint64_t lines, struct cordon_error *err)
{
	const char *what = a->count > 1 ? a->operands[1] : NULL;
	_cleanup_box_ struct box b = {0};
	_cleanup_fd_ int dir = -1, fd = -1;
	char file[ID_LEN + 8];
	struct store s;

	if (store_open(&s, a->home, err) < 0)
		return -1;
	_cleanup_fd_ int boxdir = box_find(&s, a->operands[0], &b, err) < 0 ? -1 : box_open_dir(&s, b.id, err);
	store_close(&s);
	if (boxdir < 0)
		return -1;
	dir = openat(boxdir, KEEPER_LOGS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, "cannot open the logs");
	if (!(what && by_name(dir, what, file)) && by_id(dir, what, file, err) < 0)
		return -1;
	if (print_past(dir, file, lines, &fd, err) < 0)
		return -1;
	return f->follow ? follow(a->home, b.id, dir, file, &fd, err) : 0;
}

int cmd_logs(int argc, char **argv)
{
	struct logs_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	uint64_t lines = UINT64_MAX;
	const struct tree_form form = {.command = "logs", .target = &f, .least = 1, .most = 2};
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	if (f.tail && units_parse_count(f.tail, 0, 100000000, &lines, &err) < 0) {
		err_wrap(&err, "--tail");
		return tree_fail(&a, &err);
	}
	return show(&a, &f, lines, &err) < 0 ? tree_fail(&a, &err) : EXIT_OK;
}
