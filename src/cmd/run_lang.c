/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code instead of a command. The code becomes a read-only file inside (not an argument: tracebacks then have line numbers, and there is
 * no limit but CODE_MAX), unless it lies in the workspace, where it is run in place beside the files it may import. Whoever starts the
 * program sees to it that its files are there: in a new sandbox they are part of it, a live one gets them first (exec_code.c).
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

#define CODE_DIR "/run/code"
#define CODE_MAX ((size_t)8 << 20) /* it travels in one message to the launcher, which has a cap of its own */

struct language {
	const char *name;
	const char *aliases[3];
	const char *extension;
	const char *command[3]; /* what the path of the code is put behind */
	const char *env;        /* lets code find the modules of the workspace; the user's own --env of that name wins */
	const char *package;    /* Debian's, for the message when it is missing */
	bool shell;             /* -c is passed on as it is */
	bool driver;            /* needs ts_driver and ts_hook */
};

/* A table is read by its rows. */
/* clang-format off */
static const struct language languages[] = {
	{.name = "python", .aliases = {"py", "python3"}, .extension = "py", .command = {"python3"}, .env = "PYTHONPATH=/app",
	 .package = "python3"},
	{.name = "javascript", .aliases = {"js", "node"}, .extension = "js", .command = {"node"},
	 .env = "NODE_PATH=/app/node_modules", .package = "nodejs"},
	{.name = "typescript", .aliases = {"ts"}, .extension = "ts", .command = {"/bin/sh"},
	 .env = "NODE_PATH=/app/node_modules", .package = "nodejs", .driver = true},
	{.name = "ruby", .aliases = {"rb"}, .extension = "rb", .command = {"ruby", "-I/app"}, .package = "ruby"},
	{.name = "bash", .aliases = {"sh", "shell"}, .extension = "sh", .command = {"bash"}, .package = "bash", .shell = true},
};
/* clang-format on */
const char language_words[] = "python javascript typescript ruby bash";

/* A line without --lang is for the shell that is always there. */
static const struct language plain_shell = {.name = "sh", .command = {"/bin/sh"}, .package = "dash", .shell = true};

/*
 * TypeScript is only transpiled, never type-checked, and without network. esbuild (4 ms) makes CommonJS, which all of Node's own and
 * npm's modules can be required from, or an ES module where the code can be nothing else (top-level await, import.meta). Else Node's own
 * transform (22.7 and later), else the compiler of the typescript package. Source maps keep main.ts and its lines in every trace. Files
 * that it imports are bundled with it, so __dirname is that of main.ts in all of them.
 */
static const char ts_driver[] =
	"file=$1 dir=${1%/*} out=${0%/*}/out.$$; shift\n"
	"NODE_PATH=$dir/node_modules:$NODE_PATH; export NODE_PATH\n"
	"have() { command -v \"$1\" >/dev/null 2>&1; }\n"
	"have node || { echo 'cordon: node is not in this image; apt-get install nodejs' >&2; exit 127; }\n"
	"build() {\n"
	"	(cd \"$dir\" && \"$esbuild\" \"${file##*/}\" --bundle --packages=external --platform=node --target=node18 \\\n"
	"		--define:__dirname=\"\\\"$dir\\\"\" --define:__filename=\"\\\"$file\\\"\" \\\n"
	"		--define:import.meta.url=\"\\\"file://$file\\\"\" --format=\"$1\" --outfile=\"$2\" \\\n"
	"		--sourcemap=inline --sources-content=false --log-level=warning) 2>\"$out/log\"\n"
	"}\n"
	"for esbuild in esbuild /app/node_modules/.bin/esbuild; do\n"
	"	have \"$esbuild\" || continue\n"
	"	mkdir \"$out\" 2>/dev/null || { out=/tmp/.ts-run.$$; mkdir \"$out\"; } && ln -s /app/node_modules \"$out/node_modules\" || exit 126\n"
	"	build cjs \"$out/main.cjs\"; status=$? js=$out/main.cjs log=\n"
	"	[ ! -s \"$out/log\" ] || log=$(cat \"$out/log\")\n"
	"	case $log in *'Top-level await'*|*import.meta*) build esm \"$out/main.mjs\"; status=$? js=$out/main.mjs ;; esac\n"
	"	[ $status -eq 0 ] || { cat \"$out/log\" >&2; exit $status; }\n"
	"	exec node --enable-source-maps \"$js\" \"$@\"\n"
	"done\n"
	"quiet=--disable-warning=ExperimentalWarning\n"
	"case $(node --help) in\n"
	"*--experimental-transform-types*) exec node $quiet --experimental-transform-types \"$file\" \"$@\" ;;\n"
	"*strip-types*) exec node $quiet --experimental-strip-types \"$file\" \"$@\" ;;\n"
	"esac\n"
	"exec node --enable-source-maps -r \"${0%/*}/ts-hook.js\" \"$file\" \"$@\"\n";

static const char ts_hook[] =
	"'use strict';\n"
	"const fs = require('fs'), path = require('path');\n"
	"const places = ['/app/node_modules', '/usr/share/nodejs', '/usr/local/lib/node_modules', '/usr/lib/node_modules'];\n"
	"const place = places.find((p) => fs.existsSync(p + '/typescript/package.json'));\n"
	"if (!place) {\n"
	"	console.error('cordon: nothing in this image can transpile TypeScript; apt-get install esbuild');\n"
	"	process.exit(127);\n"
	"}\n"
	"const ts = require(place + '/typescript');\n"
	"const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022,\n"
	"	esModuleInterop: true, inlineSourceMap: true, jsx: ts.JsxEmit.React };\n"
	"const host = { getCurrentDirectory: () => path.dirname(process.argv[1]), getCanonicalFileName: (f) => f,\n"
	"	getNewLine: () => '\\n' };\n"
	"for (const extension of ['.ts', '.tsx', '.cts', '.mts'])\n"
	"	require.extensions[extension] = (module, fileName) => {\n"
	"		const code = fs.readFileSync(fileName, 'utf8');\n"
	"		const out = ts.transpileModule(code, { fileName, compilerOptions, reportDiagnostics: true });\n"
	"		if (out.diagnostics.length) {\n"
	"			console.error(ts.formatDiagnostics(out.diagnostics, host).trimEnd());\n"
	"			process.exit(1);\n"
	"		}\n"
	"		module._compile(out.outputText, fileName);\n"
	"	};\n";

static const struct language *find_language(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		if (strcmp(name, languages[i].name) == 0)
			return &languages[i];
		for (size_t k = 0; k < ARRAY_SIZE(languages[i].aliases) && languages[i].aliases[k]; k++)
			if (strcmp(name, languages[i].aliases[k]) == 0)
				return &languages[i];
	}
	return NULL;
}

static int unknown_language(const char *name, struct cordon_error *err)
{
	const char *candidates[ARRAY_SIZE(languages)], *near;

	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		candidates[i] = languages[i].name;
	near = nearest_word(name, candidates, ARRAY_SIZE(languages));
	err_set(err, CORDON_ERR_INPUT, "--lang: unknown language '%s'%s%s%s", name, near ? " (did you mean " : "", near ? near : "",
	        near ? "?)" : "");
	err_hint(err, "one of: %s", language_words);
	return -1;
}

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

/* Its path inside, which stays the program's; NULL: err is set. */
static const char *add_file(const struct run_options *o, struct run_program *p, const char *base, const char *extension, const void *data,
                            size_t len, struct cordon_error *err)
{
	char **guest = &p->guests[p->file_count];

	if (p->file_count == ARRAY_SIZE(p->files)) {
		err_set(err, CORDON_ERR_SYSTEM, "too many files for one program");
		return NULL;
	}
	if (asprintf(guest, "%s/%s%s%s", o->code_dir ? o->code_dir : CODE_DIR, base, extension ? "." : "", extension ? extension : "") <
	    0) {
		*guest = NULL;
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return NULL;
	}
	p->files[p->file_count++] = (struct cordon_file){.guest = *guest, .data = data, .len = len};
	return *guest;
}

/* The code that was read is to be found under this name inside. */
static int add_code(const struct run_options *o, struct run_program *p, const char *base, const char *extension, struct cordon_error *err)
{
	const char *guest = add_file(o, p, base, extension, p->code.data ? p->code.data : "", p->code.len, err);

	if (guest && !(p->path = strdup(guest)))
		err_sys(err, "cannot name the code");
	return p->path ? 0 : -1;
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
	return add_code(o, p, slash ? slash + 1 : file, NULL, err);
}

static int load_stdin(const struct run_options *o, struct run_program *p, struct cordon_error *err)
{
	if (isatty(STDIN_FILENO) && !o->quiet)
		fprintf(stderr, "cordon: reading %s code from the terminal, Ctrl-D ends it\n", p->language->name);
	p->stdin_is_code = true;
	if (read_code(STDIN_FILENO, "standard input", &p->code, err) < 0)
		return -1;
	return add_code(o, p, "main", p->language->extension, err);
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

static int add_driver(const struct run_options *o, struct run_program *p, struct cordon_error *err)
{
	const char *driver = add_file(o, p, "ts-run", NULL, ts_driver, strlen(ts_driver), err);

	if (!driver || !add_file(o, p, "ts-hook", "js", ts_hook, strlen(ts_hook), err))
		return -1;
	return strlist_add(&p->words, driver, err);
}

static int prepare_code(const struct run_options *o, int count, char **operands, struct run_program *p, struct cordon_error *err)
{
	const struct language *l = p->language;
	int used = o->line || count == 0 ? 0 : 1;

	if (o->line) {
		buf_add_str(&p->code, o->line);
		if (p->code.failed || p->code.len > CODE_MAX)
			return err_set(err, CORDON_ERR_INPUT, "-c: the code is too long");
		if (add_code(o, p, "main", l->extension, err) < 0)
			return -1;
	} else if (count == 0 || strcmp(operands[0], "-") == 0) {
		if (load_stdin(o, p, err) < 0)
			return -1;
	} else if (load_file(o, p, operands[0], err) < 0) {
		return -1;
	}
	if (add_words(&p->words, l->command, ARRAY_SIZE(l->command), err) < 0 || (l->driver && add_driver(o, p, err) < 0) ||
	    strlist_add(&p->words, p->path, err) < 0)
		return -1;
	return add_words(&p->words, (const char *const *)operands + used, (size_t)(count - used), err);
}

static int add_environment(const struct run_options *o, struct run_program *p, struct cordon_error *err)
{
	char name[32];

	if (!p->language->env)
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
	out->language = o->lang ? find_language(o->lang) : &plain_shell;
	if (!out->language)
		return unknown_language(o->lang, err);
	bool line = out->language->shell && o->line;
	if ((line ? prepare_line(o, count, operands, out, err) : prepare_code(o, count, operands, out, err)) < 0)
		return -1;
	out->argv = (const char *const *)out->words.items;
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
	for (size_t i = 0; i < ARRAY_SIZE(p->guests); i++)
		free(steal_ptr(&p->guests[i]));
}

void run_program_missing(const struct run_program *p, struct cordon_error *err)
{
	const char *program = p->argv[0];

	if (!p->language)
		return;
	err_set(err, CORDON_ERR_NOT_FOUND, "%s is not in this image", program);
	err_hint(err, "apt-get install %s", p->language->package);
}
