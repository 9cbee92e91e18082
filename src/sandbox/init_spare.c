/* SPDX-License-Identifier: Apache-2.0 */
/* The child that is made before it is needed (struct spare). */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/init_parts.h"

void init_spare_make(struct init *in)
{
	int pair[2];
	if (!in->wants_spare || in->active || in->spare.pid || getpid() != 1)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return; /* the next command is started without */
	struct command l = {.config = in->config, .tty = -1, .request = pair[1], .channel = -1, .unobserved = true};
	struct spare s = {.tracked = in->tracks, .request = pair[0]};
	s.pid = init_fork_command(in, &l, s.tracked, &s.report, &s.words, NULL);
	close(pair[1]);
	if (s.pid < 0)
		close(pair[0]);
	else
		in->spare = s;
}

void init_spare_died(struct init *in)
{
	struct spare *s = &in->spare;
	cleanup_fd(&s->request);
	cleanup_fd(&s->report);
	cleanup_fd(&s->words);
	*s = (struct spare){0};
}

/* Also because it must not be seen, nor counted, beside a command that was started in another way. */
void init_spare_drop(struct init *in)
{
	if (!in->spare.pid)
		return;
	const pid_t pid = in->spare.pid;
	kill(-1, SIGKILL); /* a tracked one has two processes, and there is no other */
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	init_spare_died(in);
}

bool init_spare_use(struct init *in, const struct exec_spec *s, const struct wire_msg *msg, struct spare *out)
{
	const struct buf body = {.data = msg->body, .len = msg->len};
	if (!in->spare.pid)
		return false;
	if (s->tty || s->parked || s->tracked != in->spare.tracked ||
	    wire_send(in->spare.request, WIRE_EXEC, &body, msg->fds + 1, 3, NULL) < 0) {
		init_spare_drop(in);
		return false;
	}
	*out = in->spare;
	in->spare = (struct spare){0};
	close(out->request);
	return true;
}
