/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-gate: the gate as a process of its own (messages.h). It reads the rules it was asked for, and then gives up everything: its user, every file, every
 * system call but those that compute and answer. Whatever a text does to a parser, it does it here.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/inherited.h"
#include "base/util.h"
#include "gate/messages.h"
#include "sandbox/lockdown.h"

#define MEMORY ((rlim_t)1 << 30)

/* To take a message and answer it, and for memory and time; the rest answers EPERM. */
static const int allowed[] = {
	SYS_recvmsg,
	SYS_sendmsg,
	SYS_read,
	SYS_pread64,
	SYS_write,
	SYS_close,
	SYS_fstat,
	SYS_newfstatat,
	SYS_lseek,
	SYS_fcntl,
	SYS_memfd_create,
	SYS_ftruncate,
	SYS_mmap,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_getpid,
	SYS_clock_gettime,
	SYS_getrandom,
	SYS_rt_sigreturn,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_restart_syscall,
	SYS_exit,
	SYS_exit_group,
#ifdef ADDRESS_SANITIZER /* what its runtime needs */
	SYS_mprotect,
	SYS_sched_yield,
	SYS_gettid,
	SYS_sigaltstack,
	SYS_readlinkat,
	SYS_prctl,
	SYS_sched_getaffinity,
	SYS_openat,
	SYS_getdents64,
#endif
};

static int lock_down(struct cordon_error *err)
{
	const struct lockdown l = {.who = "the gate",
	                           .calls = allowed,
	                           .call_count = ARRAY_SIZE(allowed),
	                           .memory = MEMORY,
	                           .files = RLIM_INFINITY}; /* long answers travel in a memfd */
	return lockdown(&l, err);
}

static int send_result(const struct gate_result *r)
{
	_cleanup_buf_ struct buf body = {0};
	gate_result_encode(r, &body);
	return wire_send(GATE_FD, WIRE_GATE, &body, NULL, 0, NULL);
}

static int open_gate(struct gate **gate, struct cordon_error *err)
{
	_cleanup_msg_ struct wire_msg msg = {0};
	struct gate_config config;
	if (wire_recv(GATE_FD, &msg, err) <= 0 || gate_config_decode(msg.body, msg.len, &config, err) < 0)
		return -1;
	int r = gate_open(gate, &config, err);
	gate_config_free(&config);
	return r < 0 ? -1 : lock_down(err);
}

static int answer(const struct gate *gate, const struct wire_msg *msg)
{
	struct gate_asked q;
	struct gate_result result = {0};
	if (gate_asked_decode(msg->body, msg->len, &q, NULL) < 0)
		return -1;
	int r = q.is_argv ? gate_argv(gate, q.argv.items, &result, NULL) : gate_code(gate, q.language, q.text, q.len, &result, NULL);
	if (r == 0)
		r = send_result(&result);
	gate_result_free(&result);
	free(q.argv.items);
	return r;
}

int main(void)
{
	struct cordon_error err = {0};
	struct gate *gate = NULL;
	inherited_close(GATE_FD + 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (open_gate(&gate, &err) < 0) {
		_cleanup_buf_ struct buf body = {0};
		error_encode(&err, &body);
		wire_send(GATE_FD, WIRE_ERROR, &body, NULL, 0, NULL);
		return 1;
	}
	if (send_result(&(struct gate_result){0}) < 0)
		return 1;
	for (;;) {
		_cleanup_msg_ struct wire_msg msg = {0};
		if (wire_recv(GATE_FD, &msg, NULL) <= 0 || answer(gate, &msg) < 0)
			_exit(0); /* the caller has gone, or asks nonsense */
	}
}
