/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

/* Field 22 of /proc/PID/stat, counted after the command name, which may itself contain anything (proc(5)). False with errno set. */
static bool start_time(long pid, char *state, uint64_t *ticks)
{
	char path[48], text[1024];
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (fs_read_small(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	char *p = strrchr(text, ')');
	errno = EINVAL;
	if (!p || sscanf(p, ") %c", state) != 1)
		return false;
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p && sscanf(p, " %" SCNu64, ticks) == 1;
}

static bool pid_namespace(uint64_t *inode)
{
	struct stat st;
	char self[16];
	/* with a /proc of another pid namespace, live owners would look dead */
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	if (n <= 0 || stat("/proc/self/ns/pid", &st) < 0)
		return false;
	self[n] = '\0';
	long pid;
	if (sscanf(self, "%ld", &pid) != 1 || pid != (long)getpid())
		return false;
	*inode = st.st_ino;
	return true;
}

bool owner_stamp(char *buf, size_t size)
{
	uint64_t ns, start;
	char state;
	if (!pid_namespace(&ns) || !start_time(getpid(), &state, &start))
		return false;
	int n = snprintf(buf, size, "%" PRIu64 "-%ld-%" PRIu64, ns, (long)getpid(), start);
	return n > 0 && (size_t)n < size;
}

bool owner_is_dead(const char *name)
{
	uint64_t ns, owner_ns, owner_start, start;
	long pid;
	char dot, state;
	if (sscanf(name, "%" SCNu64 "-%ld-%" SCNu64 "%c", &owner_ns, &pid, &owner_start, &dot) != 4 || dot != '.' || pid <= 0)
		return false;
	if (!pid_namespace(&ns) || ns != owner_ns)
		return false;
	if (!start_time(pid, &state, &start))
		return errno == ENOENT || errno == ESRCH;            /* in doubt: not dead */
	return start != owner_start || state == 'Z' || state == 'X'; /* where nobody reaps, zombies stay for ever */
}
