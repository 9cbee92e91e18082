/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/util.h"
#include "lib/program.h"
#include "policy/maps.h"
#include "secrets/store.h"

#define PROGRAM "cordon-broker"
#define HIGH_FD 10
#define RESOLV_MAX ((size_t)4 << 10) /* of resolv.conf, where it changes later: what is longer stays as it was */
#define PATIENCE_MS 10000            /* for a word that is expected of it */

bool broker_needed(const struct cordon_policy *policy)
{
	return policy->network.outbound.count > 0 || policy->network.inbound.count > 0;
}

/* ---- the process ---------------------------------------------------------------------------------------------------------------- */

static int spawn(int theirs, pid_t *pid, struct cordon_error *err)
{
	char path[PATH_MAX];
	_cleanup_fd_ int high = fcntl(theirs, F_DUPFD_CLOEXEC, HIGH_FD);
	program_find(PROGRAM, path);
	errno = high < 0 ? errno : program_spawn_on(path, PROGRAM, high, BROKER_FD, pid);
	if (errno == 0)
		return 0;
	err_sys(err, "cannot start the broker, %s", path);
	return err_hint(err, "`make install` puts it there");
}

int broker_start(struct broker_process *b, struct cordon_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	int r = spawn(pair[1], &b->pid, err);
	close(pair[1]);
	if (r == 0)
		b->sock = pair[0];
	else
		close(pair[0]);
	return r;
}

void broker_kill(struct broker_process *b)
{
	kill(b->pid, SIGKILL);
	while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(b->sock);
	*b = (struct broker_process){.sock = -1};
}

/* ---- what it is told ------------------------------------------------------------------------------------------------------------ */

/* What a variable says; NULL: nothing, or there is none. */
static const char *said_by(const char *name)
{
	const char *value = name ? getenv(name) : NULL;
	return value && *value ? value : NULL;
}

/* The first of these variables that says something. NULL: none does. */
static const char *first_of(const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (said_by(names[i]))
			return names[i];
	return NULL;
}

/* The part of the policy that is the broker's business. */
static int settings_of(const struct cordon_policy *p, struct strlist *out, struct cordon_error *err)
{
	static const char *const keys[] = {"network.outbound", "network.inbound", "network.deny", "network.localhost", "secrets"};
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (policy_key_settings(p, policy_key_find(keys[i]), out, err) < 0)
			return -1;
	return 0;
}

int broker_send_config(const struct broker_process *b, const struct cordon_policy *policy, const struct broker_authority *authority,
                       struct cordon_error *err)
{
	static const char *const proxies[] = {"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"};
	static const char *const none[] = {"NO_PROXY", "no_proxy"};
	const char *proxy = first_of(proxies, ARRAY_SIZE(proxies)), *no_proxy = first_of(none, ARRAY_SIZE(none));
	_cleanup_buf_ struct buf body = {0};
	struct strlist settings = {0};
	int r = settings_of(policy, &settings, err);
	const struct broker_config c = {.policy = {(const char **)(void *)settings.items, (uint32_t)settings.count},
	                                .proxy = said_by(proxy),
	                                .proxy_from = proxy,
	                                .no_proxy = said_by(no_proxy),
	                                .resolv = said_by("CORDON_RESOLV_CONF"),
	                                .hosts = said_by("CORDON_HOSTS"),
	                                .trust = said_by("SSL_CERT_FILE"),
	                                .authority = authority ? *authority : (struct broker_authority){0},
	                                .connections = (uint32_t)policy->network.connections,
	                                .bandwidth = policy->network.bandwidth};
	broker_config_encode(&c, &body);
	if (r == 0)
		r = wire_send(b->sock, WIRE_BROKER, &body, NULL, 0, err);
	strlist_free(&settings);
	return r;
}

/* The broker cannot open files any more, and a laptop moves from network to network. What cannot be read is as it was. */
static char *read_resolv(void)
{
	const char *named = getenv("CORDON_RESOLV_CONF");
	_cleanup_fd_ int fd = open(named ? named : "/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_free_ char *text = fd < 0 ? NULL : malloc(RESOLV_MAX + 1);
	const ssize_t n = text ? fs_pread_full(fd, text, RESOLV_MAX, 0) : -1;
	if (n < 0 || (size_t)n == RESOLV_MAX)
		return NULL;
	text[n] = '\0';
	return steal_ptr(&text);
}

bool broker_resolv_changed(char **known)
{
	char *now = read_resolv();
	if (!now || (*known && strcmp(now, *known) == 0)) {
		free(now);
		return false;
	}
	free(*known);
	*known = now;
	return true;
}

bool broker_send_fresh(const struct broker_process *b, const char *resolv)
{
	_cleanup_buf_ struct buf body = {0};
	struct pollfd p = {.fd = b->sock, .events = POLLOUT};
	if (b->sock < 0)
		return true;
	if (poll(&p, 1, 0) == 0)
		return false;
	broker_fresh_encode(resolv, &body);
	wire_send(b->sock, WIRE_BROKER, &body, NULL, 0, NULL);
	return true;
}

/* The broker reads while this writes: more than a pipe holds is not there, but less may be allowed to be in one. */
static int send_value(const struct broker_process *b, const struct secret *value, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	int pipe[2];
	if (pipe2(pipe, O_CLOEXEC) < 0)
		return err_sys(err, "pipe");
	wire_put_u32(&body, BROKER_SECRETS);
	int r = wire_send(b->sock, WIRE_BROKER, &body, &pipe[0], 1, err);
	close(pipe[0]);
	if (r == 0 && fs_write_full(pipe[1], value->data, value->len) < 0)
		r = err_sys(err, "cannot hand a secret to the broker");
	close(pipe[1]);
	return r;
}

int broker_send_secrets(const struct broker_process *b, const char *home, const struct cordon_policy *policy, struct cordon_error *err)
{
	for (size_t i = 0; i < policy->secrets.count; i++) {
		_cleanup_secret_ struct secret value = {0};
		if (secrets_resolve(home, maplist_item(&policy->secrets, &map_secret, i), &value, err) < 0) {
			if (err && err->code == CORDON_ERR_NOT_FOUND) /* which of a command means that there is no such program */
				err->code = CORDON_ERR_INPUT;
			return -1;
		}
		if (send_value(b, &value, err) < 0)
			return -1;
	}
	return 0;
}

int broker_send_sockets(const struct broker_process *b, const struct airlock_socket *sockets, size_t count, struct cordon_error *err)
{
	_cleanup_buf_ struct buf body = {0};
	int r = 0;
	for (size_t i = 0, n; r == 0 && i < count; i += n) {
		int fds[WIRE_MAX_FDS];
		n = MIN(count - i, (size_t)WIRE_MAX_FDS);
		for (size_t k = 0; k < n; k++)
			fds[k] = sockets[i + k].fd;
		body.len = 0;
		broker_sockets_encode(sockets + i, n, i + n == count, &body);
		r = wire_send(b->sock, WIRE_BROKER, &body, fds, n, err);
	}
	return r;
}

/* ---- its answers ---------------------------------------------------------------------------------------------------------------- */

static int wait_word(const struct broker_process *b, enum broker_message kind, struct wire_msg *msg, struct cordon_error *err)
{
	struct pollfd p = {.fd = b->sock, .events = POLLIN};
	int r;
	do
		r = poll(&p, 1, PATIENCE_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0 || wire_recv(b->sock, msg, err) <= 0)
		return err_set(err, CORDON_ERR_SYSTEM, "the broker does not answer");
	if (msg->type == WIRE_ERROR) {
		error_decode(msg->body, msg->len, err);
		return -1;
	}
	return broker_message_kind(msg->body, msg->len) == kind ? 0 : err_set(err, CORDON_ERR_SYSTEM, "unexpected answer from the broker");
}

int broker_receive_authority(const struct broker_process *b, struct wire_msg *msg, struct broker_authority *out, struct cordon_error *err)
{
	return wait_word(b, BROKER_AUTHORITY, msg, err) < 0 ? -1 : broker_authority_decode(msg->body, msg->len, out, err);
}

int broker_wait_ready(const struct broker_process *b, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	return wait_word(b, BROKER_READY, &msg, err);
}
