/* SPDX-License-Identifier: Apache-2.0 */
/* What all attacks use; `cordon selftest` itself uses some of it, too. */
#include "selftest/attack.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

const char *decoy_get(const struct decoys *d, const char *key)
{
	size_t len = strlen(key);

	for (int i = 0; i < d->count; i++)
		if (strncmp(d->items[i], key, len) == 0 && d->items[i][len] == '=')
			return d->items[i] + len + 1;
	return NULL;
}

long decoy_num(const struct decoys *d, const char *key, long fallback)
{
	const char *value = decoy_get(d, key);

	return value ? strtol(value, NULL, 10) : fallback;
}

bool word_in(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; len > 0 && (at = strstr(at, word)); at += len)
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
			return true;
	return false;
}

const char *errno_name(int error)
{
	/* strerrorname_np(3) is glibc's alone. Those that an attack can meet. */
	static const struct {
		int number;
		const char *name;
	} names[] = {
#define E(name) {name, #name}
		E(EPERM),
		E(ENOENT),
		E(ESRCH),
		E(EINTR),
		E(EIO),
		E(ENXIO),
		E(E2BIG),
		E(ENOEXEC),
		E(EBADF),
		E(ECHILD),
		E(EAGAIN),
		E(ENOMEM),
		E(EACCES),
		E(EFAULT),
		E(EBUSY),
		E(EEXIST),
		E(EXDEV),
		E(ENODEV),
		E(ENOTDIR),
		E(EISDIR),
		E(EINVAL),
		E(ENFILE),
		E(EMFILE),
		E(ENOTTY),
		E(ETXTBSY),
		E(EFBIG),
		E(ENOSPC),
		E(EROFS),
		E(EMLINK),
		E(EPIPE),
		E(ERANGE),
		E(ENAMETOOLONG),
		E(ENOSYS),
		E(ELOOP),
		E(ENOMSG),
		E(EIDRM),
		E(ENODATA),
		E(EOVERFLOW),
		E(EUSERS),
		E(ENOTSOCK),
		E(EPROTOTYPE),
		E(EPROTONOSUPPORT),
		E(ESOCKTNOSUPPORT),
		E(EOPNOTSUPP),
		E(EAFNOSUPPORT),
		E(EADDRINUSE),
		E(EADDRNOTAVAIL),
		E(ENETDOWN),
		E(ENETUNREACH),
		E(ECONNRESET),
		E(ENOBUFS),
		E(ENOTCONN),
		E(ETIMEDOUT),
		E(ECONNREFUSED),
		E(EHOSTUNREACH),
		E(EDQUOT),
		E(ENOKEY),
#undef E
		{ENODECOY, "no decoy"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].number == error)
			return names[i].name;
	return "another error";
}

int read_text(const char *path, char *buf, size_t size)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		n = read(fd, buf + len, size - 1 - len);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return len > 0 ? (int)len : -ENOTSEEN;
}

int read_token(const char *path, const struct decoys *d)
{
	const char *token = decoy_get(d, "token");
	char text[256];
	int r;

	if (!path || !token)
		return -ENODECOY;
	r = read_text(path, text, sizeof(text));
	if (r < 0)
		return r;
	return strstr(text, token) ? 0 : -ENOTSEEN;
}

int write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || (text && write(fd, text, strlen(text)) < 0))
		return -errno;
	return 0;
}

const char *scratch_path(const struct decoys *d, const char *name, char *buf, size_t size)
{
	const char *dir = decoy_get(d, "drop");

	/* Inside, the drop directory is not there, unless a wall is missing. */
	if (!dir || access(dir, W_OK) < 0)
		dir = "/tmp";
	snprintf(buf, size, "%s/%s-%d", dir, name, (int)getpid());
	return buf;
}

int child_result(int pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
