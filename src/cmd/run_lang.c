/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code instead of a command. The code becomes a read-only file inside (not an argument: tracebacks then have line numbers, and there is
 * no limit but CODE_MAX), unless it lies in the workspace, where it is run in place beside the files it may import. The library puts the file
 * there; in a sandbox that a keeper has, exec_code.c does that.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/util.h"
#include "cmd/run.h"
#include "lib/gate.h"

/* A line without --lang is for the shell that is always there. */
static const struct language plain_shell = {.name = "sh", .command = {"/bin/sh"}, .package = "dash", .shell = true};

static int read_code(int fd, const char *name, struct buf *code, struct cordon_error *err)
{
	for (;;) {
		void *room = buf_reserve(code, 64 << 10);
		if (!room)
			return err_set(err, CORDON_ERR_SYSTEM, "cannot read %s: out of memory", name);
		ssize_t n = read(fd, room, 64 << 10);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, "cannot read %s", name);
		if (n == 0)
			return 0;
		code->len += (size_t)n;
		if (code->len > CODE_MAX) {
			err_set(err, CORDON_ERR_INPUT, "%s is larger than %zuM, which is the most that is taken as code", name,
			        CODE_MAX >> 20);
			return err_hint(err, "put it into a directory and run it from there: --workspace DIR");
		}
	}
}

/* A FILE of the workspace is already inside. 1: yes, and p->path names it; 0: no. */
static int find_in_workspace(struct run_program *p, const char *workspace, const char *file, struct cordon_error *err)
{
	_cleanup_free_ char *dir = workspace ? realpath(workspace, NULL) : NULL;
	_cleanup_free_ char *real = dir ? realpath(file, NULL) : NULL;

	if (!dir || !real || !fs_path_within(real, dir) || strcmp(real, dir) == 0)
		return 0;
	if (asprintf(&p->path, "/app/%s", real + (strcmp(dir, "/") == 0 ? 1 : strlen(dir) + 1)) < 0) {
		p->path = NULL;
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	return 1;
}

static int load_file(const struct run_options *o, struct run_program *p, const char *file, struct cordon_error *err)
{
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	const char *slash = strrchr(file, '/');
	struct stat st;

	if (fd < 0) {
		err_sys(err, "cannot read %s", file);
		if (err->sys_errno == ENOENT)
			err_hint(err, "FILE is a path on the host; code itself is given with -c");
		return -1;
	}
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, CORDON_ERR_INPUT, "cannot run %s: it is a directory; give a file with %s code", file,
		               p->language->name);
	int inside = find_in_workspace(p, o->workspace, file, err);
	if (inside < 0 || (inside && o->code_dir)) /* in a sandbox that stays, the file may be another one by now */
		return inside < 0 ? -1 : 0;
	if (read_code(fd, file, &p->code, err) < 0)
		return -1;
	if (inside)
		return 0;
	p->name = strdup(slash ? slash + 1 : file);
	return p->name ? 0 : err_sys(err, "cannot name the code");
}

static int load_stdin(const struct run_options *o, struct run_program *p, struct cordon_error *err)
{
	if (isatty(STDIN_FILENO) && !o->quiet)
		fprintf(stderr, "cordon: reading %s code from the terminal, Ctrl-D ends it\n", p->language->name);
	p->stdin_is_code = true;
	return read_code(STDIN_FILENO, "standard input", &p->code, err);
}

static int add_words(struct strlist *l, const char *const *words, size_t count, struct cordon_error *err)
{
	for (size_t i = 0; i < count && words[i]; i++)
		if (strlist_add(l, words[i], err) < 0)
			return -1;
	return 0;
}

/* LINE as "sh -c LINE sh ARG…": the arguments are $1 and so on, as one expects. */
static int prepare_line(const struct run_options *o, int count, char **operands, struct run_program *p, struct cordon_error *err)
{
	const char *const words[] = {p->language->command[0], "-c", o->line, p->language->name};

	if (add_words(&p->words, words, ARRAY_SIZE(words), err) < 0)
		return -1;
	return add_words(&p->words, (const char *const *)operands, (size_t)count, err);
}

static int prepare_code(const struct run_options *o, int count, char **operands, struct run_program *p, struct cordon_error *err)
{
	int used = o->line || count == 0 ? 0 : 1;

	if (o->line) {
		buf_add_str(&p->code, o->line);
		if (p->code.failed || p->code.len > CODE_MAX)
			return err_set(err, CORDON_ERR_INPUT, "-c: the code is too long");
	} else if (count == 0 || strcmp(operands[0], "-") == 0) {
		if (load_stdin(o, p, err) < 0)
			return -1;
	} else if (load_file(o, p, operands[0], err) < 0) {
		return -1;
	}
	if (add_words(&p->words, (const char *const *)operands + used, (size_t)(count - used), err) < 0)
		return -1;
	const struct language_code code = {.dir = o->code_dir ? o->code_dir : CODE_DIR,
	                                   .path = p->path,
	                                   .name = p->name,
	                                   .data = p->code.data ? p->code.data : "",
	                                   .len = p->code.len,
	                                   .args = (const char *const *)p->words.items};
	p->by_library = !p->path && !o->code_dir;
	return language_program(p->language, &code, &p->made, err);
}

static int add_environment(const struct run_options *o, struct run_program *p, struct cordon_error *err)
{
	char name[32];

	if (!p->language->env || p->by_library)
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(p->language->env, "="), p->language->env);
	return run_env_given(o, name) ? 0 : strlist_add(&p->env, p->language->env, err);
}

int run_program_prepare(const struct run_options *o, int count, char **operands, struct run_program *out, struct cordon_error *err)
{
	*out = (struct run_program){0};
	if (!o->lang && !o->line) {
		if (count == 0) {
			err_set(err, CORDON_ERR_INPUT, "nothing to run");
			return err_hint(err, "give a command (cordon run -- ls), a shell line (-c LINE) or code (--lang python FILE)");
		}
		out->argv = (const char *const *)operands;
		return *operands[0] ? 0 : err_set(err, CORDON_ERR_NOT_FOUND, "the name of the program is empty");
	}
	out->language = o->lang ? language_find(o->lang) : &plain_shell;
	if (!out->language)
		return language_unknown(o->lang, err) < 0 ? err_wrap(err, "--lang") : -1;
	bool line = out->language->shell && o->line;
	if ((line ? prepare_line(o, count, operands, out, err) : prepare_code(o, count, operands, out, err)) < 0)
		return -1;
	out->argv = (const char *const *)(line ? out->words.items : out->made.argv.items);
	return add_environment(o, out, err);
}

int run_program_check(const struct run_program *p, const struct gate_for *who, struct denials *refused, struct cordon_error *err)
{
	const struct gate_command command = {.argv = p->argv,
	                                     .language = p->code.data && p->language ? p->language->name : NULL,
	                                     .code = p->code.data,
	                                     .len = p->code.len};

	int r = gate_check(who, &command, refused, err);
	gate_dismiss(who->ctx); /* there is one command only */
	return r;
}

void run_program_clear(struct run_program *p)
{
	strlist_free(&p->words);
	strlist_free(&p->env);
	buf_free(&p->code);
	free(steal_ptr(&p->path));
	free(steal_ptr(&p->name));
	language_program_clear(&p->made);
}

void run_program_options(const struct run_program *p, struct cordon_exec_options *o)
{
	o->argv = p->by_library ? NULL : p->argv;
	if (!p->by_library)
		return;
	o->language = p->language->name;
	o->code = p->code.data ? p->code.data : "";
	o->code_len = p->code.len;
	o->code_name = p->name;
	o->args = p->words.count ? (const char *const *)p->words.items : NULL;
}

void run_program_missing(const struct run_program *p, const char *image, struct cordon_error *err)
{
	const char *program = p->argv[0];

	if (!p->language)
		return;
	if (image && strcmp(image, "host") != 0) {
		err_set(err, CORDON_ERR_NOT_FOUND, "%s is not in image %s", program, image);
		err_hint(err, "add the package %s to it, or take another one (cordon image ls)", p->language->package);
		return;
	}
	err_set(err, CORDON_ERR_NOT_FOUND, "%s is not in this image", program);
	err_hint(err, "apt-get install %s", p->language->package);
}
