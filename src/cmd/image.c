/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon image`: root file systems for sandboxes other than the machine's own. */
#include "cmd/image.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/units.h"
#include "base/util.h"
#include "image/look.h"

#define HOLDERS_MAX 64
#define FLAG(field) offsetof(struct image_flags, field)

/* clang-format off */
const struct option_def image_options[] = {
	{.name = "force", .letter = 'f', .offset = FLAG(force), .help = "import, build: replace an image of that name. rm: take the name away although it is in use"},
	{.name = "preload", .argument = "MODULES", .offset = FLAG(preload), .help = "import: Python modules that parked interpreters have loaded: numpy,pandas"},
	{.name = "recipe", .argument = "FILE", .offset = FLAG(recipe), .complete = COMPLETE_FILE, .help = "build: what the image is made of, instead of the recipe NAME that comes with cordon"},
	{.name = "quota", .argument = "SIZE", .offset = FLAG(quota), .help = "import, build: what all images together may take", .fallback = "20G, or half of the disk"},
	{.name = "quiet", .letter = 'q', .offset = FLAG(quiet), .help = "say nothing where all is well"},
	{.name = "verbose", .letter = 'v', .offset = FLAG(verbose), .help = "build: show what the programs that make the image say"},
	{.name = "json", .offset = FLAG(json), .help = "print JSON"},
	{0},
};
/* clang-format on */

const char image_about[] =
	"Images are root file systems for sandboxes (cordon run --image NAME); without one, sandboxes have the machine's own /usr.\n"
	"\n"
	"  ls                    list them\n"
	"  import SOURCE [NAME]  take one over: what docker save, docker export, podman save or skopeo wrote, a tar archive (also\n"
	"                        gzip, zstd, xz), an OCI layout, a directory, or - for standard input. NAME is the archive's tag or\n"
	"                        made from the file's name\n"
	"  build NAME            make one from a recipe, without Docker: base (Debian, Python, uv, a user) and data (base, requests,\n"
	"                        httpx, numpy, pandas, matplotlib) come with cordon, --recipe FILE is one of your own\n"
	"  commit ID NAME        make one of the root of a sandbox that was created with --root layered, with what was installed in it\n"
	"  info NAME             its layers, environment, source, and who uses it\n"
	"  rm NAME...            remove images; layers that others share stay\n"
	"\n"
	"Layers that several images have in common are there once. Nothing of an image can do harm on the way in: it is read by a\n"
	"process without rights; devices and setuid bits are left out, and what was left out is said. An import that is killed, or\n"
	"that finds the disk full, leaves nothing.";

const struct example image_examples[] = {
	{"docker save python:3.12-slim | cordon image import -", "an image out of Docker, with its layers"},
	{"cordon image import rootfs.tar.zst tools", "a tar archive"},
	{"cordon image build data", "Debian with numpy and pandas"},
	{"cordon run --image data -- python3 -c 'import numpy'", "run something in it"},
	{"cordon image ls", "which there are, and how large"},
	{"cordon image rm tools", "remove one"},
	{0},
};

/* ---- ls ------------------------------------------------------------------------------------------------------------------------ */

static void json_strings(struct json *j, const char *key, const struct strlist *l)
{
	json_key(j, key);
	json_array(j);
	for (size_t i = 0; i < l->count; i++)
		json_str(j, l->items[i]);
	json_end(j);
}

static void json_image(struct json *j, const struct image *i, bool damaged)
{
	char time[FORMAT_MAX];

	json_kstr(j, "name", i->name);
	json_kstr(j, "id", i->id[0] ? i->id : NULL);
	json_kbool(j, "damaged", damaged);
	json_kstr(j, "arch", i->arch);
	json_kint(j, "bytes", (int64_t)i->bytes);
	json_kstr(j, "created", damaged ? NULL : format_time(i->created_ms, time));
	json_kstr(j, "source", i->source);
	json_kstr(j, "user", i->user);
	json_kstr(j, "workdir", i->cwd);
	json_strings(j, "env", &i->env);
	json_strings(j, "preload", &i->preload);
}

static int print_list_json(const struct tree_args *a, const struct image_list *all)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_array(&j);
	for (size_t i = 0; i < all->count; i++) {
		json_object(&j);
		json_image(&j, &all->items[i].image, all->items[i].damaged);
		json_strings(&j, "layers", &all->items[i].image.layers);
		json_end(&j);
	}
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

static int print_list(const struct tree_args *a, const struct image_list *all, struct cordon_error *err)
{
	static const struct table_column columns[] = {{.title = "NAME", .least = 8},
	                                              {.title = "SIZE", .right = true},
	                                              {.title = "LAYERS", .right = true},
	                                              {.title = "ARCH"},
	                                              {.title = "AGE", .right = true},
	                                              {.title = "SOURCE", .least = 12, .tail = true},
	                                              {.title = "STATE"}};
	const struct colours c = colours_for(STDOUT_FILENO);
	_cleanup_table_ struct table t = {.columns = columns, .count = ARRAY_SIZE(columns)};
	char text[FORMAT_MAX];

	for (size_t n = 0; n < all->count; n++) {
		const struct image *i = &all->items[n].image;
		bool damaged = all->items[n].damaged;

		table_add(&t, c.name, "%s", i->name);
		table_add(&t, NULL, "%s", damaged ? "-" : format_bytes(i->bytes, text));
		table_add(&t, NULL, "%zu", i->layers.count);
		table_add(&t, NULL, "%s", i->arch ? i->arch : "-");
		table_add(&t, NULL, "%s", damaged ? "-" : format_age(now_ms() - i->created_ms, text));
		table_add(&t, c.dim, "%s", i->source ? i->source : "");
		table_add(&t, c.bad, "%s", damaged ? "damaged" : "");
	}
	if (all->count && table_print(&t, stdout) < 0) {
		err_set(err, CORDON_ERR_SYSTEM, "out of memory");
		return tree_fail(a, err);
	}
	if (!all->count)
		fputs("no images; cordon image build base makes one, cordon image import FILE takes one over\n", stderr);
	return EXIT_OK;
}

static int image_cmd_ls(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err)
{
	struct image_list all = {0};
	int status;

	(void)f;
	if (a->count > 0)
		err_set(err, CORDON_ERR_INPUT, "ls lists all images: it takes no names (cordon image info NAME shows one)");
	if (a->count > 0 || image_list(a->home, &all, err) < 0)
		status = tree_fail(a, err);
	else if (a->json)
		status = print_list_json(a, &all);
	else
		status = print_list(a, &all, err);
	image_list_free(&all);
	return status;
}

/* ---- info ---------------------------------------------------------------------------------------------------------------------- */

struct details {
	struct image image;
	struct image_layer *layers; /* as many as the image has; digest "": it cannot be read */
	pid_t holders[HOLDERS_MAX];
	size_t holder_count;
	struct image_traits traits;
};

static int read_details(const struct tree_args *a, struct details *d, struct cordon_error *err)
{
	_cleanup_view_ struct view v = {0};

	if (image_find(a->home, a->operands[0], &d->image, err) < 0)
		return -1;
	d->layers = calloc(d->image.layers.count, sizeof(*d->layers));
	if (!d->layers)
		return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < d->image.layers.count; i++)
		if (image_layer_read(a->home, d->image.layers.items[i], &d->layers[i], NULL) < 0)
			d->layers[i] = (struct image_layer){0};
	image_holders(a->home, &d->image, d->holders, HOLDERS_MAX, &d->holder_count, NULL);
	if (image_view(a->home, &d->image, &v, NULL) == 0)
		image_traits(&v, &d->traits, NULL);
	return 0;
}

/* The command of a process, as far as it can be seen. */
static const char *process_name(pid_t pid, char out[64])
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (fs_read_small(AT_FDCWD, path, out, 64) < 0)
		snprintf(out, 64, "gone");
	out[strcspn(out, "\n")] = '\0';
	return out;
}

static int print_info_json(const struct tree_args *a, const struct details *d)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_image(&j, &d->image, false);
	json_kbool(&j, "shell", d->traits.shell);
	json_key(&j, "layers");
	json_array(&j);
	for (size_t i = 0; i < d->image.layers.count; i++) {
		json_object(&j);
		json_kstr(&j, "digest", d->image.layers.items[i]);
		json_kbool(&j, "damaged", !d->layers[i].digest[0]);
		json_kint(&j, "bytes", (int64_t)d->layers[i].bytes);
		json_kint(&j, "disk", (int64_t)d->layers[i].disk);
		json_kint(&j, "files", (int64_t)d->layers[i].files);
		json_end(&j);
	}
	json_end(&j);
	json_key(&j, "holders");
	json_array(&j);
	for (size_t i = 0; i < d->holder_count; i++)
		json_int(&j, d->holders[i]);
	json_end(&j);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

static void print_row(const char *key, const char *value)
{
	_cleanup_buf_ struct buf text = {0};

	text_plain(&text, value ? value : "-");
	printf("%-10s %s\n", key, text.data && !text.failed ? text.data : "");
}

static void print_rows(const char *key, const struct strlist *l)
{
	for (size_t i = 0; i < l->count; i++)
		print_row(i ? "" : key, l->items[i]);
}

static int print_info(const struct details *d)
{
	const struct image *i = &d->image;
	char text[FORMAT_MAX], more[FORMAT_MAX], name[64];

	print_row("name", i->name);
	print_row("id", i->id);
	print_row("arch", i->arch);
	print_row("size", format_bytes(i->bytes, text));
	print_row("created", format_time(i->created_ms, text));
	print_row("source", i->source);
	print_row("user", i->user);
	print_row("workdir", i->cwd);
	print_row("shell", d->traits.shell ? "/bin/sh" : "none");
	print_rows("env", &i->env);
	print_rows("preload", &i->preload);
	for (size_t n = 0; n < i->layers.count; n++) {
		const struct image_layer *l = &d->layers[n];

		printf("%-10s %.16s  %8s on disk  %8s  %" PRIu64 " files%s\n", n ? "" : "layers", i->layers.items[n],
		       format_bytes(l->disk, text), format_bytes(l->bytes, more), l->files, l->digest[0] ? "" : "  damaged");
	}
	for (size_t n = 0; n < d->holder_count; n++)
		printf("%-10s process %d (%s)\n", n ? "" : "in use by", (int)d->holders[n], process_name(d->holders[n], name));
	return EXIT_OK;
}

static int image_cmd_info(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err)
{
	struct details d = {0};
	int status;

	(void)f;
	if (a->count != 1)
		err_set(err, CORDON_ERR_INPUT, "which one? cordon image info NAME");
	if (a->count != 1 || read_details(a, &d, err) < 0)
		status = tree_fail(a, err);
	else
		status = a->json ? print_info_json(a, &d) : print_info(&d);
	image_free(&d.image);
	free(d.layers);
	return status;
}

/* ---- rm ------------------------------------------------------------------------------------------------------------------------ */

static int print_removed(const struct tree_args *a, uint64_t freed)
{
	_cleanup_buf_ struct buf line = {0};
	struct json j = {.out = &line};

	json_object(&j);
	json_key(&j, "removed");
	json_array(&j);
	for (int i = 0; i < a->count; i++)
		json_str(&j, a->operands[i]);
	json_end(&j);
	json_kint(&j, "freed_bytes", (int64_t)freed);
	json_end(&j);
	return tree_print_json(a, &line, EXIT_OK);
}

/* In their order, up to the first that cannot be removed, which the error names. */
static int image_cmd_rm(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err)
{
	uint64_t all = 0;
	char text[FORMAT_MAX];

	if (a->count == 0)
		err_set(err, CORDON_ERR_INPUT, "which one? cordon image rm NAME...");
	for (int i = 0; i < a->count && err->code == CORDON_OK; i++)
		image_check_name(a->operands[i], err);
	for (int i = 0; i < a->count && err->code == CORDON_OK; i++) {
		uint64_t freed = 0;

		if (image_remove(a->home, a->operands[i], f->force, &freed, err) == 0 && !a->json && !f->quiet)
			printf("%s (%s freed)\n", a->operands[i], format_bytes(freed, text));
		all += freed;
	}
	if (err->code != CORDON_OK)
		return tree_fail(a, err);
	return a->json ? print_removed(a, all) : EXIT_OK;
}

/* -------------------------------------------------------------------------------------------------------------------------------- */

enum { TAKES_QUOTA = 1, TAKES_PRELOAD = 2, TAKES_RECIPE = 4, TAKES_FORCE = 8 };

static const struct {
	const char *word;
	int (*run)(const struct tree_args *a, const struct image_flags *f, struct cordon_error *err);
	unsigned takes;
} verbs[] = {{"ls", image_cmd_ls, 0},
             {"import", image_cmd_import, TAKES_QUOTA | TAKES_PRELOAD | TAKES_FORCE},
             {"build", image_cmd_build, TAKES_QUOTA | TAKES_RECIPE | TAKES_FORCE},
             {"commit", image_cmd_commit, TAKES_QUOTA | TAKES_FORCE},
             {"info", image_cmd_info, 0},
             {"rm", image_cmd_rm, TAKES_FORCE}};

static int check_flags(const struct image_flags *f, const char *word, unsigned takes, struct cordon_error *err)
{
	const struct {
		bool given;
		unsigned bit;
		const char *name;
	} flags[] = {{f->quota, TAKES_QUOTA, "quota"},
	             {f->preload, TAKES_PRELOAD, "preload"},
	             {f->recipe || f->verbose, TAKES_RECIPE, f->recipe ? "recipe" : "verbose"},
	             {f->force, TAKES_FORCE, "force"}};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].given && !(takes & flags[i].bit))
			return err_set(err, CORDON_ERR_INPUT, "--%s is not for cordon image %s", flags[i].name, word);
	return 0;
}

int cmd_image(int argc, char **argv)
{
	struct image_flags f = {0};
	_cleanup_args_ struct tree_args a = {0};
	struct cordon_error err = {0};
	const struct tree_form form = {.command = "image", .target = &f, .json = &f.json, .least = 1, .most = -1};
	const char *words[ARRAY_SIZE(verbs)];
	int status;

	if (!tree_parse(&form, argc, argv, &a, &status))
		return status;
	const char *word = a.operands[0];
	a.operands++;
	a.count--;
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		words[i] = verbs[i].word;
		if (strcmp(word, verbs[i].word) == 0)
			return check_flags(&f, word, verbs[i].takes, &err) < 0 ? tree_fail(&a, &err) : verbs[i].run(&a, &f, &err);
	}
	const char *near = nearest_word(word, words, ARRAY_SIZE(verbs));
	err_set(&err, CORDON_ERR_INPUT, "unknown: image %.60s%s%s%s; give ls, import, build, commit, info or rm", word,
	        near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
	return tree_fail(&a, &err);
}
