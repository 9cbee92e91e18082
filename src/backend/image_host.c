/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/image_host.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/trust_bundles.h"
#include "base/util.h"
#include "sandbox/landlock.h"

/* ---- the plan ---------------------------------------------------------------------------------------------------------------- */

static bool grow(void **array, uint32_t *size, uint32_t count, size_t item)
{
	if (count < *size)
		return true;
	uint32_t want = *size ? *size * 2 : 96;
	void *more = realloc(*array, want * item);
	if (!more)
		return false;
	*array = more;
	*size = want;
	return true;
}

void plan_free(struct plan *p)
{
	for (uint32_t i = 0; i < p->kept_count; i++)
		free(p->kept[i]);
	free(p->kept);
	free(p->ops);
	free(p->rules);
	*p = (struct plan){0};
}

bool plan_keep(struct plan *p, void *array)
{
	if (!grow((void **)&p->kept, &p->kept_size, p->kept_count, sizeof(*p->kept))) {
		free(array);
		p->failed = true;
		return false;
	}
	p->kept[p->kept_count++] = array;
	return true;
}

const char *plan_string(struct plan *p, const char *s)
{
	char *copy = strdup(s);
	if (!copy || !plan_keep(p, copy)) {
		p->failed = true;
		return "";
	}
	return copy;
}

struct setup_op *plan_op(struct plan *p, enum op_kind kind, const char *target, const char *source, uint32_t flags)
{
	static struct setup_op ignored;
	if (!grow((void **)&p->ops, &p->op_size, p->op_count, sizeof(*p->ops))) {
		p->failed = true;
		return &ignored;
	}
	struct setup_op *op = &p->ops[p->op_count++];
	*op = (struct setup_op){.kind = kind, .target = target, .source = source, .flags = flags};
	return op;
}

void plan_rule(struct plan *p, const char *path, uint32_t access)
{
	if (!grow((void **)&p->rules, &p->rule_size, p->rule_count, sizeof(*p->rules))) {
		p->failed = true;
		return;
	}
	p->rules[p->rule_count++] = (struct access_rule){.path = path, .access = access};
}

/* ---- what the image consists of ---------------------------------------------------------------------------------------------- */

/* On a merged-/usr system links, else directories. */
static const char *const top_dirs[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/* What programs look for in /etc and what holds no secret: links are taken over, directories bound, small files copied. */
static const char *const etc_links[] = {"localtime", "os-release"};
static const char *const etc_dirs[] = {"/etc/alternatives", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted"};
static const char *const etc_files[] = {"/etc/protocols", "/etc/services", "/etc/ssl/openssl.cnf"};

static const struct {
	const char *path;
	struct device_number number;
} devices[] = {
	{"/dev/null", {1, 3}},   {"/dev/zero", {1, 5}},    {"/dev/full", {1, 7}},
	{"/dev/random", {1, 8}}, {"/dev/urandom", {1, 9}}, {"/dev/tty", {5, 0}},
};

/* Host state that an unprivileged reader could see, and what others had to mask; files that only the host's root may open need none. */
/* clang-format off */
static const char *const masked[] = {
	"proc/acpi",     "proc/asound",    "proc/buddyinfo", "proc/cmdline",  "proc/config.gz",  "proc/diskstats",     "proc/interrupts",
	"proc/iomem",    "proc/ioports",   "proc/kallsyms",  "proc/kcore",    "proc/key-users",  "proc/keys",          "proc/kmsg",     "proc/locks",
	"proc/modules",  "proc/mtrr",      "proc/partitions", "proc/sched_debug", "proc/schedstat", "proc/scsi",       "proc/softirqs",
	"proc/sysrq-trigger", "proc/timer_list", "proc/zoneinfo",
};
/* clang-format on */

static const char *const readonly[] = {"proc/bus", "proc/fs", "proc/irq", "proc/sys"};

static const char nsswitch[] =
	"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n";

static void add_file(struct plan *p, const char *target, const char *text)
{
	struct setup_op *op = plan_op(p, OP_FILE, target, NULL, 0);
	op->data = text;
	op->data_len = strlen(text);
}

/* The host's link or directory of that name, as the same kind of thing inside. */
static void add_host_entry(struct plan *p, const char *dir, const char *name)
{
	char path[256], link[256];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (lstat(path, &st) < 0)
		return;
	const char *host = plan_string(p, path);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		if (n > 0) {
			link[n] = '\0';
			plan_op(p, OP_SYMLINK, host + 1, plan_string(p, link), 0);
		}
		return;
	}
	plan_op(p, OP_BIND, host + 1, host, OP_OPTIONAL);
}

void plan_host_names(struct plan *p, const struct plan_names *n)
{
	char text[256];
	snprintf(text, sizeof(text), "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 %s\n", n->hostname);
	add_file(p, "etc/hosts", plan_string(p, text));
	snprintf(text, sizeof(text), "%s\n", n->hostname);
	add_file(p, "etc/hostname", plan_string(p, text));
	add_file(p, "etc/nsswitch.conf", nsswitch);
	add_file(p, "etc/resolv.conf", n->resolver);
}

static void plan_etc(struct plan *p, const struct plan_names *names)
{
	char text[256];
	plan_op(p, OP_DIR, "etc", NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(etc_links); i++)
		add_host_entry(p, "/etc", etc_links[i]);
	plan_op(p, OP_DIR, "etc/ssl", NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(etc_dirs); i++)
		plan_op(p, OP_BIND, etc_dirs[i] + 1, etc_dirs[i], OP_OPTIONAL);
	plan_op(p, OP_BIND, "etc/ld.so.cache", "/etc/ld.so.cache", OP_OPTIONAL);
	for (size_t i = 0; i < ARRAY_SIZE(etc_files); i++)
		plan_op(p, OP_COPY, etc_files[i] + 1, etc_files[i], OP_OPTIONAL);
	snprintf(text, sizeof(text),
	         "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nuser:x:%u:%u:sandbox user:/home/user:/bin/sh\n"
	         "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	         names->uid, names->gid);
	add_file(p, "etc/passwd", plan_string(p, text));
	snprintf(text, sizeof(text), "root:x:0:\nuser:x:%u:\nnogroup:x:65534:\n", names->gid);
	add_file(p, "etc/group", plan_string(p, text));
	plan_host_names(p, names);
	add_file(p, "etc/shells", "/bin/sh\n/bin/bash\n");
}

static void plan_dev(struct plan *p)
{
	static const char *const links[][2] = {
		{"dev/fd", "/proc/self/fd"},       {"dev/stdin", "/proc/self/fd/0"}, {"dev/stdout", "/proc/self/fd/1"},
		{"dev/stderr", "/proc/self/fd/2"}, {"dev/ptmx", "pts/ptmx"},
	};
	plan_op(p, OP_DIR, "dev", NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		struct setup_op *op = plan_op(p, OP_DEVICE, devices[i].path + 1, devices[i].path, 0);
		op->data = &devices[i].number;
		op->data_len = sizeof(devices[i].number);
		plan_rule(p, devices[i].path, LANDLOCK_DEV);
	}
	plan_op(p, OP_DEVPTS, "dev/pts", NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		plan_op(p, OP_SYMLINK, links[i][0], links[i][1], 0);
	plan_op(p, OP_VOLATILE, "dev/shm", NULL, OP_NOEXEC)->mode = 01777;
	plan_rule(p, "/dev/pts", LANDLOCK_TTY);
	plan_rule(p, "/dev/tty", LANDLOCK_TTY);
	plan_rule(p, "/dev/shm", LANDLOCK_RW);
}

static void plan_proc(struct plan *p)
{
	plan_op(p, OP_PROC, "proc", NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(masked); i++)
		plan_op(p, OP_MASK, masked[i], NULL, OP_OPTIONAL);
	for (size_t i = 0; i < ARRAY_SIZE(readonly); i++)
		plan_op(p, OP_READONLY, readonly[i], NULL, OP_OPTIONAL);
}

void plan_trees(struct plan *p)
{
	plan_rule(p, "/", LANDLOCK_RX);
	plan_dev(p);
	plan_proc(p);
	plan_op(p, OP_VOLATILE, "tmp", NULL, 0)->mode = 01777;
	plan_op(p, OP_VOLATILE, "run", NULL, OP_OWNED)->mode = 0755;
	plan_op(p, OP_DIR, "var", NULL, 0);
	plan_op(p, OP_VOLATILE, "var/tmp", NULL, 0)->mode = 01777;
	plan_op(p, OP_SYMLINK, "var/run", "/run", OP_OPTIONAL); /* an image may have its own */
	plan_rule(p, "/tmp", LANDLOCK_RWX);
	plan_rule(p, "/var/tmp", LANDLOCK_RWX);
	plan_rule(p, "/run", LANDLOCK_RWX);
	plan_op(p, OP_DIR, "home", NULL, 0);
	plan_rule(p, "/home/user", LANDLOCK_RWX);
	plan_rule(p, "/app", LANDLOCK_RWX);
}

void image_host_plan(struct plan *p, const struct plan_names *names)
{
	plan_op(p, OP_BIND, "usr", "/usr", 0);
	for (size_t i = 0; i < ARRAY_SIZE(top_dirs); i++)
		add_host_entry(p, "", top_dirs[i]);
	plan_etc(p, names);
	plan_trees(p);
}

/* ---- whom to believe --------------------------------------------------------------------------------------------------------- */

#define BUNDLE_MAX ((size_t)4 << 20)
#define READ_SIZE ((size_t)256 << 10)

/* All of a file of the image (-1: there is none), and the certificate behind it. */
static char *bundle_with(int fd, const char *path, const char *certificate, size_t *len, struct cordon_error *err)
{
	_cleanup_buf_ struct buf all = {.cap = BUNDLE_MAX};
	for (ssize_t n = fd >= 0 ? 1 : 0; n > 0;) {
		void *room = buf_reserve(&all, READ_SIZE);
		n = room ? read(fd, room, READ_SIZE) : 0;
		if (n < 0) {
			err_sys(err, "cannot read %s", path);
			return NULL;
		}
		all.len += (size_t)n;
	}
	buf_addf(&all, "%s%s", all.len ? "\n" : "", certificate);
	*len = all.len;
	char *text = all.failed ? NULL : buf_steal(&all);
	if (!text)
		err_set(err, CORDON_ERR_SYSTEM, "%s is too large, or there is no memory", path);
	return text;
}

static bool is_shown(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(etc_dirs); i++)
		if (fs_path_within(path, etc_dirs[i]))
			return true;
	return false;
}

/* Where the host's files really are: a link inside leads there, too, if that is shown. */
static void cover_bundles(struct plan *p, const char *with)
{
	char real[PATH_MAX];
	for (size_t i = 0; i < ARRAY_SIZE(trust_bundles); i++)
		if (realpath(trust_bundles[i], real) && is_shown(real))
			plan_op(p, OP_COVER, plan_string(p, real + 1), with, OP_OPTIONAL);
}

int plan_trust(struct plan *p, int bundle, const char *name, const char *certificate, struct cordon_error *err)
{
	size_t len;
	char *all = bundle_with(bundle, name, certificate, &len, err);
	if (!all)
		return -1;
	if (!plan_keep(p, all))
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	plan_op(p, OP_DIR, "etc/ssl/cordon", NULL, 0);
	add_file(p, &POLICY_AUTHORITY_INSIDE[1], plan_string(p, certificate));
	struct setup_op *op = plan_op(p, OP_FILE, &POLICY_TRUST_INSIDE[1], NULL, 0);
	op->data = all;
	op->data_len = len;
	return 0;
}

int image_host_trust(struct plan *p, const char *certificate, struct cordon_error *err)
{
	const char *path = trust_bundle_find();
	_cleanup_fd_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (path && fd < 0)
		return err_sys(err, "cannot read %s", path);
	if (plan_trust(p, fd, path ? path : "a certificate", certificate, err) < 0)
		return -1;
	cover_bundles(p, &POLICY_TRUST_INSIDE[1]);
	return 0;
}
