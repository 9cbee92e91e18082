/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate and the audit as an embedder meets them: what libcordon starts for the gate has no rights, what the gate refuses does not run, a gate that was killed
 * is started again, and everything is told to whoever has subscribed. Prints "ok - …" and "not ok - …" lines.
 */
#include <cordon.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* The child of this process that is called cordon-gate; 0: none. */
static pid_t find_gate(void)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	while (d && !found && (entry = readdir(d))) {
		char path[64], text[256] = "", name[64] = "";
		long pid = strtol(entry->d_name, NULL, 10), parent = 0;

		if (pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
		FILE *f = fopen(path, "re");
		if (f && fgets(text, sizeof(text), f) && sscanf(text, "%*d (%63[^)]) %*c %ld", name, &parent) == 2 && parent == getpid() &&
		    strcmp(name, "cordon-gate") == 0)
			found = (pid_t)pid;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return found;
}

static bool status_has(pid_t pid, const char *line)
{
	char path[64], text[8192];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	return strstr(text, line) != NULL;
}

static int start_and_wait(struct cordon_sandbox *s, struct cordon_exec_options o, struct cordon_error *err)
{
	struct cordon_exec *e = NULL;
	int status = -1;

	o.size = sizeof(o);
	if (cordon_exec_start(s, &o, &e, err) == 0 && cordon_exec_wait(e, err) == 0)
		status = cordon_exec_result(e)->exit_code;
	cordon_exec_free(e);
	return status;
}

struct seen {
	int records, gate;
	char last[4096];
};

static void note(void *user, const char *record, size_t len)
{
	struct seen *s = user;

	s->records++;
	s->gate += strstr(record, "\"action\":\"gate\"") != NULL;
	snprintf(s->last, sizeof(s->last), "%.*s", (int)len, record);
}

/* The same command by a policy that has a rule against it, in the same context. */
static void check_other_rules(struct cordon *c, const char *const *argv)
{
	struct cordon_error err = {0};
	struct cordon_policy *policy = cordon_policy_new();
	struct cordon_sandbox *s = NULL;

	if (!policy || cordon_policy_set(policy, "patterns.action", "deny", &err) < 0 ||
	    cordon_policy_set(policy, "patterns.add", "language=bash;match=ls /", &err) < 0 ||
	    cordon_sandbox_create(c, policy, NULL, &s, &err) < 0)
		give_up("%s", err.message);
	check(start_and_wait(s, (struct cordon_exec_options){.argv = argv}, &err) == -1 && err.code == CORDON_ERR_DENIED,
	      "unless the rules are others (%s)", err.message);
	cordon_sandbox_destroy(s);
	cordon_policy_free(policy);
}

int main(void)
{
	static const char *const list[] = {"ls", "/", NULL}, *const wipe[] = {"sh", "-c", "rm -rf /", NULL},
				 *const python[] = {"python3", "-c", "pass", NULL};
	static const char code[] = "import os\nos.system('rm -rf /home')\n";
	struct cordon_error err = {0};
	struct cordon_policy *policy = cordon_policy_new();
	struct cordon *c = NULL;
	struct cordon_sandbox *s = NULL;
	struct seen seen = {0};

	int inherited[2]; /* as embedders have them: without O_CLOEXEC */

	alarm(120);
	if (pipe(inherited) < 0 || fcntl(inherited[0], F_SETFL, O_NONBLOCK) < 0)
		give_up("no pipe");
	if (!policy || cordon_policy_set(policy, "patterns.action", "deny", &err) < 0 || cordon_open(&c, &err) < 0)
		give_up("%s", err.message);
	int id = cordon_audit_subscribe(c, note, &seen, &err);
	check(id >= 0, "the audit can be subscribed to");
	if (cordon_sandbox_create(c, policy, NULL, &s, &err) < 0)
		give_up("%s", err.message);
	check(start_and_wait(s, (struct cordon_exec_options){.argv = list}, &err) == 0, "what the gate allows runs");
	pid_t gate = find_gate();
	check(gate > 0, "the gate is a process of its own");
	check(status_has(gate, "NoNewPrivs:\t1") && status_has(gate, "Seccomp:\t2"), "which has locked itself in");
	check(geteuid() || status_has(gate, "Uid:\t65534\t65534\t65534\t65534"), "and has given up its user");
	check(status_has(gate, "CapEff:\t0000000000000000"), "and all capabilities");
	char byte;
	close(inherited[1]);
	check(read(inherited[0], &byte, 1) == 0, "and has closed what it inherited");
	close(inherited[0]);

	int before = seen.records;
	err = (struct cordon_error){0};
	check(start_and_wait(s, (struct cordon_exec_options){.argv = wipe}, &err) == -1 && err.code == CORDON_ERR_DENIED,
	      "what it refuses does not (%s)", err.message);
	check(seen.records == before + 1 && seen.gate == 1 && strstr(seen.last, "\"allowed\":false") && strstr(seen.last, "delete-vital"),
	      "and the subscriber is told, with the rule");
	err = (struct cordon_error){0};
	check(start_and_wait(s,
	                     (struct cordon_exec_options){.argv = python, .language = "python", .code = code, .code_len = sizeof(code) - 1},
	                     &err) == -1 &&
	              err.code == CORDON_ERR_DENIED,
	      "code is looked at, too (%s)", err.message);

	before = seen.gate;
	kill(gate, SIGSTOP);
	check(start_and_wait(s, (struct cordon_exec_options){.argv = list}, &err) == 0 && seen.gate == before,
	      "what has passed is not asked about again");
	kill(gate, SIGCONT);
	check_other_rules(c, list);
	gate = find_gate();

	kill(gate, SIGKILL);
	check(start_and_wait(s, (struct cordon_exec_options){.argv = list}, &err) == 0, "a gate that was killed harms nobody");
	check(start_and_wait(s, (struct cordon_exec_options){.argv = wipe}, &err) == -1 && err.code == CORDON_ERR_DENIED,
	      "and the next one refuses again");
	check(find_gate() != gate, "being another one");

	char *recent = cordon_audit_recent(c, 1, &err);
	check(recent && strstr(recent, "\"action\":\"gate\"") && strchr(recent, '\n') == recent + strlen(recent) - 1,
	      "the last record can be asked for");
	free(recent);
	cordon_audit_unsubscribe(c, id);
	before = seen.records;
	check(start_and_wait(s, (struct cordon_exec_options){.argv = list}, &err) == 0 && seen.records == before,
	      "who has unsubscribed is told nothing");
	cordon_sandbox_destroy(s);
	cordon_policy_free(policy);
	cordon_close(c);
	check(find_gate() == 0, "nothing is left when the context is closed");
	return failures != 0;
}
