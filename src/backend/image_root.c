/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/image_root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/trust_bundles.h"
#include "base/util.h"
#include "sandbox/landlock.h"

#define LINKS_MAX 40 /* as the kernel has it, path_resolution(7) */

/* ---- opening ------------------------------------------------------------------------------------------------------------------ */

static int open_layers(struct image_root *r, struct cordon_error *err)
{
	const struct strlist *layers = &r->image.layers;
	_cleanup_fd_ int dir = open(r->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, "cannot open %s", r->dir);
	_cleanup_free_ int *fds = calloc(layers->count + 1, sizeof(*fds));
	if (!fds)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	size_t count = 0;
	int result = 0;
	for (; count < layers->count && result == 0; count++) {
		char path[DIGEST_LEN + 16];
		snprintf(path, sizeof(path), "%.*s/tree", DIGEST_LEN, layers->items[count]);
		fds[count] = fs_open(dir, path, O_RDONLY | O_DIRECTORY, 0, FS_BENEATH);
		if (fds[count] < 0)
			result = err_sys(err, "image %s: cannot open layer %.12s", r->image.name, layers->items[count]);
	}
	if (result == 0)
		result = view_from(fds, count, false, &r->view, err);
	for (size_t i = 0; i < count; i++)
		cleanup_fd(&fds[i]);
	return result;
}

static int check_arch(const struct image *i, struct cordon_error *err)
{
	if (!i->arch || strcmp(i->arch, image_host_arch()) == 0)
		return 0;
	err_set(err, CORDON_ERR_INPUT, "image %s is for %.20s, this machine is %s", i->name, i->arch, image_host_arch());
	return err_hint(err, "import the image for this architecture");
}

int image_root_open(const char *home, const char *name, struct image_root *out, struct cordon_error *err)
{
	*out = IMAGE_ROOT_NONE;
	if (image_find(home, name, &out->image, err) < 0) {
		if (err && err->code == CORDON_ERR_NOT_FOUND) /* not the 127 of a command that was not found */
			err->code = CORDON_ERR_INPUT;
		return -1;
	}
	out->hold = image_hold(home, &out->image, err);
	if (out->hold >= 0 && check_arch(&out->image, err) == 0) {
		if (image_layers_dir(home, out->dir, sizeof(out->dir)) < 0)
			err_set(err, CORDON_ERR_INPUT, "CORDON_HOME is too long");
		else if (open_layers(out, err) == 0)
			return 0;
	}
	image_root_close(out);
	return -1;
}

void image_root_close(struct image_root *r)
{
	view_close(&r->view);
	image_free(&r->image);
	cleanup_fd(&r->hold);
	*r = IMAGE_ROOT_NONE;
}

/* ---- paths -------------------------------------------------------------------------------------------------------------------- */

/* Puts the target of a link in front of what is left to be walked. at: how much of real is the link's directory. */
static int follow(const struct image_root *r, const char *link, const struct view_entry *e, char *rest, char *real, size_t at,
                  struct cordon_error *err)
{
	char target[PATH_MAX], left[PATH_MAX];
	_cleanup_fd_ int fd = view_open_entry(&r->view, link, e, err);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);
	if (n < 0)
		return fd < 0 ? -1 : err_sys(err, "image %s: cannot read the link /%s", r->image.name, link);
	target[n] = '\0';
	real[target[0] == '/' ? 0 : at] = '\0';
	snprintf(left, sizeof(left), "%s", rest);
	return (size_t)snprintf(rest, PATH_MAX, "%s/%s", target, left) < PATH_MAX ? 0 : -2;
}

/* One name more: 1 and on, 0 if it is not there. */
static int step(const struct image_root *r, const char *name, size_t len, char *real, char *rest, unsigned *links, struct view_entry *out,
                struct cordon_error *err)
{
	const size_t at = strlen(real);
	if (len == 1 && name[0] == '.')
		return 1;
	if (len == 2 && memcmp(name, "..", 2) == 0) {
		char *slash = strrchr(real, '/');
		*(slash ? slash : real) = '\0';
		return 1;
	}
	if (at + 1 + len >= PATH_MAX)
		return 0;
	snprintf(real + at, PATH_MAX - at, "/%.*s", (int)len, name);
	if (view_stat(&r->view, real + 1, out, err) < 0)
		return -1;
	if (!out->st.st_mode)
		return 0;
	if (!S_ISLNK(out->st.st_mode))
		return 1;
	if (++*links > LINKS_MAX)
		return 0;
	char link[PATH_MAX];
	snprintf(link, sizeof(link), "%s", real + 1);
	int done = follow(r, link, out, rest, real, at, err);
	return done == 0 ? 1 : done == -2 ? 0 : -1;
}

int image_root_find(const struct image_root *r, const char *path, char real[PATH_MAX], struct view_entry *out, struct cordon_error *err)
{
	char rest[PATH_MAX];
	unsigned links = 0;
	*out = (struct view_entry){.st = {.st_mode = S_IFDIR}};
	real[0] = '\0';
	if ((size_t)snprintf(rest, sizeof(rest), "%s", path) >= sizeof(rest))
		return 0;
	for (;;) {
		char name[NAME_MAX + 1];
		const size_t skip = strspn(rest, "/"), len = strcspn(rest + skip, "/");
		if (!len)
			break;
		if (len > NAME_MAX)
			return 0;
		memcpy(name, rest + skip, len);
		name[len] = '\0';
		memmove(rest, rest + skip + len, strlen(rest + skip + len) + 1);
		int found = step(r, name, len, real, rest, &links, out, err);
		if (found <= 0)
			return found;
	}
	if (real[0])
		return view_stat(&r->view, real + 1, out, err) < 0 ? -1 : out->st.st_mode != 0;
	snprintf(real, PATH_MAX, "/");
	out->st.st_mode = S_IFDIR;
	return 1;
}

/* ---- the plan ----------------------------------------------------------------------------------------------------------------- */

static struct string_list image_layers(struct plan *p, const struct image_root *r)
{
	const struct strlist *layers = &r->image.layers;
	struct string_list out = {calloc(layers->count + ROOT_LAYER, sizeof(*out.items)), 0};
	if (!out.items || !plan_keep(p, out.items)) {
		p->failed = true;
		return (struct string_list){0};
	}
	out.items[out.count++] = plan_string(p, r->dir);
	for (size_t i = 0; i < layers->count; i++) {
		char path[DIGEST_LEN + 16];
		snprintf(path, sizeof(path), "%.*s/tree", DIGEST_LEN, layers->items[i]);
		out.items[out.count++] = plan_string(p, path);
	}
	return out;
}

static void add_lines(struct plan *p, const char *target, const char *text)
{
	struct setup_op *op = plan_op(p, OP_LINES, target, NULL, 0);
	op->data = plan_string(p, text);
	op->data_len = strlen(text);
}

/* The image's own users stay: their files belong to them, and package managers ask for them. */
static void plan_users(struct plan *p, const struct plan_names *n)
{
	char text[256];
	snprintf(text, sizeof(text), "user:x:%u:%u:sandbox user:/home/user:/bin/sh\n", n->uid, n->gid);
	if (n->uid == 0) /* root's own line is the image's: then the commands are that */
		text[0] = '\0';
	if (n->uid)
		add_lines(p, "etc/passwd", text);
	snprintf(text, sizeof(text), "user:x:%u:\n", n->gid);
	if (n->gid)
		add_lines(p, "etc/group", text);
}

void image_root_plan(struct plan *p, const struct image_root *r, const struct string_list *over, const struct plan_names *names)
{
	struct setup_op *op = plan_op(p, OP_ROOT, ".", NULL, 0);
	op->layers = image_layers(p, r);
	if (over)
		op->over = *over;
	plan_op(p, OP_DIR, "etc", NULL, 0);
	plan_users(p, names);
	plan_host_names(p, names);
	plan_op(p, OP_VOLATILE, "dev", NULL, OP_NOEXEC);
	plan_trees(p);
	plan_op(p, OP_READONLY, "dev", NULL, OP_ALONE);
}

static int open_up(void *arg, const char *name, const struct stat *st, int dir, struct cordon_error *err)
{
	static const char *const closed[] = {"proc", "dev", "sys"};
	char path[NAME_MAX + 2];
	(void)dir;
	(void)err;
	for (size_t i = 0; i < ARRAY_SIZE(closed); i++)
		if (strcmp(name, closed[i]) == 0)
			return 0;
	snprintf(path, sizeof(path), "/%s", name);
	if (S_ISDIR(st->st_mode))
		plan_rule(arg, plan_string(arg, path), LANDLOCK_RWX);
	return 0;
}

int image_root_open_up(struct plan *p, const struct image_root *r, bool one_id, struct cordon_error *err)
{
	static const char no_sandbox[] = "APT::Sandbox::User \"root\";\n", apt[] = "/etc/apt/apt.conf.d";
	char real[PATH_MAX];
	struct view_entry e;
	if (image_root_list(r, "/", open_up, p, err) < 0)
		return -1;
	int found = one_id ? image_root_find(r, apt, real, &e, err) : 0;
	if (found > 0 && strcmp(real, apt) == 0 && S_ISDIR(e.st.st_mode)) {
		struct setup_op *op = plan_op(p, OP_FILE, "etc/apt/apt.conf.d/00cordon", NULL, 0);
		op->data = no_sandbox;
		op->data_len = strlen(no_sandbox);
	}
	return found < 0 ? -1 : 0;
}

/* ---- whom to believe ---------------------------------------------------------------------------------------------------------- */

/* Each of the image's bundles by its real path, since programs go through the links; the first is what the certificate is added to. */
static int find_bundles(struct plan *p, const struct image_root *r, int *first, struct cordon_error *err)
{
	char real[PATH_MAX];
	struct view_entry e;
	for (size_t i = 0; i < ARRAY_SIZE(trust_bundles); i++) {
		int found = image_root_find(r, trust_bundles[i], real, &e, err);
		if (found < 0)
			return -1;
		if (!found || !S_ISREG(e.st.st_mode))
			continue;
		if (*first < 0 && (*first = view_open_entry(&r->view, real + 1, &e, err)) < 0)
			return -1;
		plan_op(p, OP_COVER, plan_string(p, real + 1), &POLICY_TRUST_INSIDE[1], OP_OPTIONAL);
	}
	return 0;
}

int image_root_trust(struct plan *p, const struct image_root *r, const char *certificate, struct cordon_error *err)
{
	_cleanup_fd_ int bundle = -1;
	struct plan covers = {0};
	int result = find_bundles(&covers, r, &bundle, err);
	if (result == 0)
		result = plan_trust(p, bundle, "the image's certificates", certificate, err);
	for (uint32_t i = 0; result == 0 && i < covers.op_count; i++)
		plan_op(p, OP_COVER, plan_string(p, covers.ops[i].target), &POLICY_TRUST_INSIDE[1], OP_OPTIONAL);
	p->failed = p->failed || covers.failed;
	plan_free(&covers);
	return result;
}
