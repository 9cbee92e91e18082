/* SPDX-License-Identifier: Apache-2.0 */
/* The way out of a sandbox to hosts that a policy names: the broker, and the airlock that leads to it. */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd/doctor.h"
#include "lib/broker.h"
#include "sandbox/landlock.h"

/* A broker, told what it is told for a sandbox: it says that it is ready when it has locked itself in. */
static int start_broker(const struct cordon_policy *policy, struct cordon_error *err)
{
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const struct airlock_socket asked = {AIRLOCK_DNS_UDP, AF_INET, 53, fd}; /* bound to nothing: nobody can ask */
	struct broker_process b = {.sock = -1};
	if (fd < 0)
		return err_sys(err, "socket");
	if (broker_start(&b, err) < 0)
		return -1;
	int r = broker_send_config(&b, policy, NULL, err);
	if (r == 0)
		r = broker_send_sockets(&b, &asked, 1, err);
	if (r == 0)
		r = broker_wait_ready(&b, err);
	broker_kill(&b);
	return r;
}

static void check_broker(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};
	struct cordon_policy policy;
	char by[sizeof(f->by)];

	(void)d;
	int r = policy_init(&policy, &err);
	if (r == 0) {
		r = start_broker(&policy, &err);
		policy_clear(&policy);
	}
	snprintf(by, sizeof(by), "seccomp, Landlock ABI %d", landlock_abi());
	if (r < 0) {
		found(f, CHECK_NO, "", "%.200s", err.message);
		found_fix(f, "%s", err.hint);
	} else if (landlock_abi() > 0) {
		found(f, CHECK_YES, by, "%s", check->about);
	} else {
		found(f, CHECK_WEAKER, "seccomp alone", "%s; no Landlock behind it", check->about);
	}
}

static void check_airlock(struct doctor *d, const struct check *check, struct finding *f)
{
	struct cordon_error err = {0};

	if (!d->sandboxes)
		found(f, CHECK_NO, "", "not tried: no sandbox starts");
	else if (doctor_run_with(d, "network.outbound", "host=doctor.invalid;ports=443", &err) == 0)
		found(f, CHECK_YES, "airlock", "%s", check->about);
	else
		found(f, CHECK_NO, "", "%.200s", err.message);
	if (f->status == CHECK_NO)
		found_fix(f, "%s", err.hint);
}

/* A table is read by its rows. */
/* clang-format off */
const struct check doctor_network_checks[] = {
	{"Network", "broker", check_broker, 0, "outside of the sandbox it has no file, no right and few system calls"},
	{NULL, "hosts by name", check_airlock, 0, "a sandbox with an allowed host starts, and has no other way out"},
	{0},
};
/* clang-format on */
