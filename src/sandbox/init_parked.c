/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters that are started before it is known what they will run. One is a command like any other, with all that confines it, and an exec like
 * any other; but it has one descriptor more (PARKED_FD), a socket to init. A hook that it loads while it starts (src/interpreters) says there that
 * it is ready, and waits for one message: what the library sends with WIRE_GO, as it is. From then on the exec is an ordinary one, whose time
 * begins now.
 *
 * Whoever is at the other end of the socket can say one thing only, once, and what it says is not looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/inbox.h"
#include "sandbox/init_parts.h"

#define USUAL_CWD "/app"

/* As the command's own chdir(2) would answer. */
static int check_cwd(const struct idmap *ids, const char *cwd, struct cordon_error *err)
{
	const bool as_user = ids->mode != IDMAP_SELF;
	if (as_user) {
		setfsgid(ids->gid);
		setfsuid(ids->uid);
	}
	_cleanup_fd_ int fd = open(cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int self = fd < 0 ? -1 : openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const int error = errno;
	if (as_user) {
		setfsuid(geteuid());
		setfsgid(getegid());
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* the change of ids took it away */
	}
	return self < 0 ? command_no_cwd(cwd, error, err) : 0;
}

int init_park(struct running *e, int *theirs, struct cordon_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	e->channel = pair[0];
	*theirs = pair[1];
	return 0;
}

void init_parked(struct init *in, struct running *e)
{
	char word[16];
	const ssize_t n = recv(e->channel, word, sizeof(word), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		e->parked = true;
		inbox_remove(in->config->inbox, &e->code);                          /* the hook has done its part */
		e->cwd_checked = check_cwd(&in->config->ids, USUAL_CWD, NULL) == 0; /* now there is time */
		wire_send(e->sock, WIRE_PARKED, NULL, NULL, 0, NULL);
	} else {
		init_parked_close(e);
	}
}

void init_parked_close(struct running *e)
{
	cleanup_fd(&e->channel);
	e->channel = -1;
	e->parked = false;
}

static bool listens(int channel)
{
	char word;
	return recv(channel, &word, sizeof(word), MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* 1: it was sent; 0: nobody takes it. The library is told first: with one CPU for all of us, the interpreter then has it as soon as we wait. */
static int pass_on(struct init *in, struct running *e, const struct go_spec *s, struct cordon_error *err)
{
	const bool usual = e->cwd_checked && strcmp(s->cwd, USUAL_CWD) == 0;
	if (!e->parked || !listens(e->channel))
		return 0;
	if (!usual && check_cwd(&in->config->ids, s->cwd, err) < 0)
		return -1;
	if (inbox_put(in->config->inbox, s->code, s->code_count, &e->code, err) < 0)
		return -1;
	wire_send(e->sock, WIRE_STARTED, NULL, NULL, 0, NULL);
	const ssize_t n = send(e->channel, s->payload, s->payload_len, MSG_NOSIGNAL | MSG_DONTWAIT);
	init_parked_close(e);
	return n == (ssize_t)s->payload_len;
}

int init_go(struct init *in, struct running *e, const struct wire_msg *msg, uint64_t now, struct cordon_error *err)
{
	struct go_spec s;
	if (go_spec_decode(msg->body, msg->len, &s, err) < 0)
		return -1;
	e->started_us = now;
	e->deadline_us = s.timeout_ms ? now + s.timeout_ms * 1000 : UINT64_MAX;
	in->wants_spare = s.more;
	const int r = pass_on(in, e, &s, err);
	go_spec_free(&s);
	return r;
}
