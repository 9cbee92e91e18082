/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/pipes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define LARGE_MAX 64
#define SPARE_MAX 32

struct pipe *pipes_take(struct pipes *p)
{
	struct pipe *pipe = p->spare;
	int fds[2];
	if (pipe) {
		p->spare = pipe->next;
		p->spare_count--;
		return pipe;
	}
	pipe = calloc(1, sizeof(*pipe));
	if (!pipe || pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0) {
		free(pipe);
		return NULL;
	}
	pipe->out = fds[0];
	pipe->in = fds[1];
	/* EPERM: this user has enough already, and a small one does */
	pipe->large = p->large_count < LARGE_MAX && fcntl(pipe->in, F_SETPIPE_SZ, (int)PIPES_LARGE) >= 0;
	p->large_count += pipe->large;
	return pipe;
}

static void destroy(struct pipes *p, struct pipe *pipe)
{
	p->large_count -= pipe->large;
	close(pipe->in);
	close(pipe->out);
	free(pipe);
}

void pipes_give(struct pipes *p, struct pipe *pipe, bool is_empty)
{
	if (!is_empty || (p->spare_count >= SPARE_MAX && !pipe->large)) {
		destroy(p, pipe);
		return;
	}
	pipe->next = p->spare;
	p->spare = pipe;
	p->spare_count++;
}

void pipes_clear(struct pipes *p)
{
	while (p->spare) {
		struct pipe *pipe = p->spare;
		p->spare = pipe->next;
		p->spare_count--;
		destroy(p, pipe);
	}
}
