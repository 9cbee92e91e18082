/* SPDX-License-Identifier: Apache-2.0 */
/* What makes two requests alike, and what may have changed since. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "image/image.h"
#include "lib/pool_parts.h"
#include "policy/match.h"

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Code comes with the command; what else is to be a file from the start belongs to one request. A policy with secrets needs its broker before the sandbox. */
bool pool_can(const struct cordon_policy *policy, const struct cordon_sandbox_options *o)
{
	const bool own_files = o->workspace || o->mount_count;
	const bool looks_for = policy->files.deny.count || !policy->files.hidden; /* what is hidden is found when it is mounted */
	return !o->file_count && !policy->secrets.count && !(own_files && looks_for);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------------------- */

static char *copy_text(const char *s, bool *failed)
{
	char *copy = s ? strdup(s) : NULL;
	*failed = *failed || (s && !copy);
	return copy;
}

static void free_options(struct cordon_sandbox_options *o)
{
	char *const texts[] = {(char *)o->backend, (char *)o->image, (char *)o->workspace, (char *)o->hostname, (char *)o->user};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(texts[i]);
	for (size_t i = 0; i < o->mount_count; i++) {
		free((char *)o->mounts[i].host);
		free((char *)o->mounts[i].guest);
	}
	free((struct cordon_mount *)o->mounts);
}

static bool copy_options(struct cordon_sandbox_options *to, const struct cordon_sandbox_options *from)
{
	bool failed = false;
	struct cordon_mount *mounts = from->mount_count ? calloc(from->mount_count, sizeof(*mounts)) : NULL;
	*to = (struct cordon_sandbox_options){
		.size = sizeof(*to),
		.backend = copy_text(from->backend, &failed),
		.image = copy_text(from->image, &failed),
		.workspace = copy_text(from->workspace, &failed),
		.hostname = copy_text(from->hostname, &failed),
		.user = copy_text(from->user, &failed),
		.mounts = mounts,
		.mount_count = mounts ? from->mount_count : 0,
	};
	for (size_t i = 0; i < to->mount_count; i++)
		mounts[i] = (struct cordon_mount){copy_text(from->mounts[i].host, &failed), copy_text(from->mounts[i].guest, &failed),
		                                  from->mounts[i].writable};
	return !failed && to->mount_count == from->mount_count;
}

struct kind *pool_kind_new(const struct cordon_policy *policy, const struct cordon_sandbox_options *o)
{
	struct kind *k = calloc(1, sizeof(*k));
	if (!k || policy_copy(&k->policy, policy, NULL) < 0) {
		free(k);
		return NULL;
	}
	if (!copy_options(&k->options, o)) {
		pool_kind_free(k);
		return NULL;
	}
	const struct policy_process *r = &policy->process;
	k->listed = !policy_runs_anything(policy) || r->deny.count || !r->shell;
	k->bytes = POOL_GUESS;
	return k;
}

void pool_kind_free(struct kind *k)
{
	if (!k)
		return;
	policy_clear(&k->policy);
	free_options(&k->options);
	free(k->language);
	free(k->items);
	free(k);
}

static bool same_options(const struct cordon_sandbox_options *a, const struct cordon_sandbox_options *b)
{
	bool same = same_text(a->backend, b->backend) && same_text(a->image, b->image) && same_text(a->workspace, b->workspace) &&
	            same_text(a->hostname, b->hostname) && same_text(a->user, b->user) && a->mount_count == b->mount_count;
	for (size_t i = 0; same && i < a->mount_count; i++)
		same = same_text(a->mounts[i].host, b->mounts[i].host) && same_text(a->mounts[i].guest, b->mounts[i].guest) &&
		       !a->mounts[i].writable == !b->mounts[i].writable;
	return same;
}

bool pool_kind_is(const struct kind *k, const struct cordon_policy *policy, const struct cordon_sandbox_options *o)
{
	return same_options(&k->options, o) && policy_equal(&k->policy, policy);
}

const char *pool_image(const struct kind *k)
{
	return k->options.image && strcmp(k->options.image, IMAGE_HOST) != 0 ? k->options.image : NULL;
}

bool pool_may_wait(const struct cordon_sandbox_options *o)
{
	return !o->workspace && o->mount_count == 0;
}

/* ---- what may have changed --------------------------------------------------------------------------------------------------- */

/* Where installing or removing a program on the host shows. The sandboxes' /usr is that of the host; an interpreter that was parked has loaded some of it. */
static const char *const programs[] = {"/usr",
                                       "/usr/bin",
                                       "/usr/sbin",
                                       "/usr/lib",
                                       "/usr/libexec",
                                       "/usr/local/bin",
                                       "/usr/local/sbin",
                                       "/usr/local/lib",
                                       "/bin",
                                       "/sbin",
                                       "/lib",
                                       "/var/lib/dpkg/status",
                                       "/var/lib/rpm",
                                       "/lib/apk/db/installed",
                                       "/etc/ld.so.cache"};

static void mix(uint64_t *sum, uint64_t word)
{
	*sum = (*sum ^ word) * UINT64_C(0x100000001b3);
	*sum ^= *sum >> 29;
}

static void mix_path(uint64_t *sum, const char *path, bool content)
{
	struct stat st;
	if (stat(path, &st) < 0) {
		mix(sum, 1);
		return;
	}
	mix(sum, st.st_dev);
	mix(sum, st.st_ino);
	if (content) {
		mix(sum, (uint64_t)st.st_mtim.tv_sec);
		mix(sum, (uint64_t)st.st_mtim.tv_nsec);
	}
}

/* The workspace and the mounts are what they are, whatever is in them: it shows inside. But they must be the same directories. */
struct pool_stamp pool_stamp_now(const struct cordon *ctx, const struct kind *k)
{
	struct pool_stamp s = {UINT64_C(0xcbf29ce484222325)};
	char path[PATH_MAX];
	if (pool_image(k) && image_name_file(ctx->home, pool_image(k), path, sizeof(path)) == 0)
		mix_path(&s.sum, path, true);
	for (size_t i = 0; i < ARRAY_SIZE(programs) && !pool_image(k); i++)
		mix_path(&s.sum, programs[i], true);
	if (k->options.workspace)
		mix_path(&s.sum, k->options.workspace, false);
	for (size_t i = 0; i < k->options.mount_count; i++)
		mix_path(&s.sum, k->options.mounts[i].host, false);
	return s;
}
