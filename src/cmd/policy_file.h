/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --policy FILE of run, create, exec and try. Reading it needs libyaml, which only cordon-full has: the small program hands the whole command over
 * as soon as it has seen the option (policy_file_hand_over), so that nothing below is ever called in it.
 */
#ifndef CORDON_CMD_POLICY_FILE_H
#define CORDON_CMD_POLICY_FILE_H

#include "base/buf.h"
#include "cmd/cmd.h"
#include "policy/origins.h"
#include "policy/policy.h"

/* What one command in a sandbox that exists may have of its own. */
struct policy_file_exec {
	int64_t timeout_ms;  /* 0: the file says nothing about it */
	uint32_t on_failure; /* 0: likewise; else 1 + enum tx_action */
	bool has_ok;         /* transaction.ok is another */
	struct strlist env;  /* the file's own env.set, "K=V"; to be freed */
};

#ifdef CORDON_FULL

static inline bool policy_file_hand_over(const char *file, int argc, char **argv, int *status)
{
	(void)file, (void)argc, (void)argv, (void)status;
	return false;
}

/* *p becomes what the file says over the profile, with the settings of options ("KEY=VALUE") on top. It stays what it was after a failure. */
int policy_file_for_run(const char *file, const char *profile, const struct strlist *settings, struct cordon_policy *p,
                        struct cordon_error *err);

/*
 * The same for a sandbox that stays, whose record has settings on top of the profile dev: those of the file are put in front of what options set. env gets
 * the file's own env.set, which has to win over what is found on this machine. *dev: all of it is over the profile dev.
 */
int policy_file_for_box(const char *file, const char *profile, struct strlist *settings, struct strlist *env, bool *dev,
                        struct cordon_error *err);

/* p: that of the sandbox; becomes that of the command. What cannot be changed for one command is refused. */
int policy_file_for_exec(const char *file, struct cordon_policy *p, struct policy_file_exec *out, struct cordon_error *err);

/* Settings as options give them; o may be NULL. */
int policy_file_apply_settings(struct cordon_policy *p, const struct strlist *settings, struct policy_origins *o, const char *option,
                               struct cordon_error *err);

/* A file of code, within the cap of the buffer. */
int policy_file_read_code(const char *path, struct buf *out, struct cordon_error *err);

#else

/* True: there is a file, and cordon-full could not be started to read it; *status is the exit status. */
static inline bool policy_file_hand_over(const char *file, int argc, char **argv, int *status)
{
	if (file)
		*status = cmd_full(argc, argv);
	return file != NULL;
}

static inline int policy_file_not_here(struct cordon_error *err)
{
	return err_set(err, CORDON_ERR_SYSTEM, "--policy is read by cordon-full, and this is not it");
}

static inline int policy_file_for_run(const char *file, const char *profile, const struct strlist *settings, struct cordon_policy *p,
                                      struct cordon_error *err)
{
	(void)file, (void)profile, (void)settings, (void)p;
	return policy_file_not_here(err);
}

static inline int policy_file_for_box(const char *file, const char *profile, struct strlist *settings, struct strlist *env, bool *dev,
                                      struct cordon_error *err)
{
	(void)file, (void)profile, (void)settings, (void)env, (void)dev;
	return policy_file_not_here(err);
}

static inline int policy_file_for_exec(const char *file, struct cordon_policy *p, struct policy_file_exec *out, struct cordon_error *err)
{
	(void)file, (void)p, (void)out;
	return policy_file_not_here(err);
}

#endif
#endif
