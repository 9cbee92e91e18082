/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/audit.h"
#include "backend/backend.h"
#include "base/err.h"
#include "base/util.h"
#include "lib/gate.h"
#include "lib/launch.h"
#include "lib/pool.h"

const char *cordon_version(void)
{
	return CORDON_VERSION;
}

char *context_find_home(struct cordon_error *err)
{
	const char *set = getenv("CORDON_HOME"), *user = getenv("HOME"), *state = getenv("XDG_STATE_HOME");
	char path[4096];
	if (set && *set) {
		if (*set != '/') {
			err_set(err, CORDON_ERR_INPUT, "CORDON_HOME='%.200s' is not an absolute path", set);
			return NULL;
		}
		snprintf(path, sizeof(path), "%s", set);
	} else if (geteuid() == 0) {
		snprintf(path, sizeof(path), "/var/lib/cordon");
	} else if (state && *state == '/') {
		snprintf(path, sizeof(path), "%s/cordon", state);
	} else if (user && *user == '/') {
		snprintf(path, sizeof(path), "%s/.local/state/cordon", user);
	} else {
		err_set(err, CORDON_ERR_INPUT, "neither CORDON_HOME nor HOME is set");
		err_hint(err, "set CORDON_HOME to a directory that you can write to");
		return NULL;
	}
	char *copy = strdup(path);
	if (!copy)
		err_sys(err, "strdup");
	return copy;
}

static int start_launcher(struct cordon *c, struct cordon_error *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, "socketpair");
	c->requests = pair[0];
	_cleanup_fd_ int theirs = pair[1];
	return launch(theirs, &c->launcher, err);
}

int context_open_bare(struct cordon **out, struct cordon_error *err)
{
	struct cordon *c = calloc(1, sizeof(*c));
	if (!c)
		return err_sys(err, "cannot open a context");
	c->requests = c->gate = -1;
	pthread_mutex_init(&c->lock, NULL);
	c->home = context_find_home(err);
	if (!c->home) {
		cordon_close(c);
		return -1;
	}
	*out = c;
	return 0;
}

int cordon_open(struct cordon **out, struct cordon_error *err)
{
	if (context_open_bare(out, err) < 0)
		return -1;
	if (start_launcher(*out, err) == 0) {
		(*out)->pool = pool_new(*out); /* without one all is slower, and nothing else */
		return 0;
	}
	cordon_close(*out);
	*out = NULL;
	return -1;
}

int context_open_once(struct cordon **out, struct cordon_error *err)
{
	if (cordon_open(out, err) < 0)
		return -1;
	if (!getenv("CORDON_POOL"))
		cordon_pool_limit(*out, 0, 0);
	return 0;
}

void cordon_release(struct cordon *c)
{
	if (!c)
		return;
	pool_free(c->pool);
	cleanup_fd(&c->requests); /* the launcher sees the end of file, cleans up and exits */
	gate_end(c);
	audit_close(c->audit);
	pthread_mutex_destroy(&c->lock);
	free(c->home);
	free(c);
}

void cordon_close(struct cordon *c)
{
	pid_t launcher = c ? c->launcher : 0;
	cordon_release(c);
	/* a caller that waits for any child may have taken its status already */
	if (launcher > 0)
		while (waitpid(launcher, NULL, 0) < 0 && errno == EINTR)
			;
}

int cordon_backend_available(const char *backend, struct cordon_error *err)
{
	const struct backend *b = backend_find(backend, err);
	return b && b->probe(err) == 0;
}

struct cordon_policy *cordon_policy_new(void)
{
	struct cordon_policy *p = calloc(1, sizeof(*p));
	if (p && policy_init(p, NULL) < 0) {
		free(p);
		return NULL;
	}
	return p;
}

void cordon_policy_free(struct cordon_policy *p)
{
	if (p)
		policy_clear(p);
	free(p);
}

int cordon_policy_set(struct cordon_policy *p, const char *key, const char *value, struct cordon_error *err)
{
	return policy_set(p, key, value, err);
}
