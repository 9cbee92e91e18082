/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "policy/policy.h"

/* Accounts, the kernel's own file systems, sockets that are as good as root, other sandboxes, and where people keep their keys. */
/* clang-format off */
const char *const policy_forbidden_mounts[] = {
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow-",
	"/etc/gshadow",
	"/etc/passwd",
	"/etc/sudoers",
	"/etc/sudoers.d",
	"/root",
	"/proc",
	"/sys",
	"/dev",
	"/boot",
	"/run",
	"/run/docker.sock",
	"/var/run/docker.sock",
	"/run/podman",
	"/run/containerd",
	"/var/lib/docker",
	"/var/lib/cordon",
	"~/.ssh",
	"~/.aws",
	"~/.gnupg",
	"~/.config",
	"~/.kube",
	"~/.docker",
	"~/.netrc",
	"~/.local/state/cordon",
	NULL,
};
/* clang-format on */

static int forbid_below(const char *home, struct strlist *out, struct cordon_error *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; policy_forbidden_mounts[i]; i++) {
		const char *entry = policy_forbidden_mounts[i];
		bool below = entry[0] == '~';

		if (below && (!home || home[0] != '/'))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s%s", below ? home : "", below ? entry + 1 : entry) >= sizeof(path))
			return err_set(err, CORDON_ERR_INPUT, "HOME is too long");
		if (!strlist_has(out, path) && strlist_add(out, path, err) < 0)
			return -1;
	}
	return 0;
}

int policy_forbidden_paths(const char *home, struct strlist *out, struct cordon_error *err)
{
	char text[4096];
	struct passwd entry, *found = NULL;

	if (forbid_below(home, out, err) < 0)
		return -1;
	if (getpwuid_r(geteuid(), &entry, text, sizeof(text), &found) == 0 && found)
		return forbid_below(found->pw_dir, out, err);
	return 0;
}
