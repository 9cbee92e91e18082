/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of the caller's toolchains, and what the programs inside are told. */
#include "toolchain_home.h"

static void test_directories_of_the_system_need_no_mount(void **state)
{
	find("/usr/bin:/bin:/usr/sbin");
	ASSERT_MOUNTS();
	assert_string_equal(found.env.items[0], "PATH=/usr/bin:/bin:/usr/sbin:/usr/local/bin");
	assert_int_equal(found.env.count, 1);
}

static void test_without_path_and_home_there_is_the_default(void **state)
{
	struct toolchain_search what = {.forbid = &forbid};
	char *const empty[] = {NULL};

	assert_int_equal(toolchains_find(&what, &found, &err), 0);
	ASSERT_MOUNTS();
	assert_path("");
	toolchains_free(&found);
	what.env = empty;
	assert_int_equal(toolchains_find(&what, &found, &err), 0);
	assert_path("");
}

static void test_known_layouts_give_their_parts_and_nothing_else(void **state)
{
	static const struct {
		const char *entry;    /* on the PATH */
		const char *files[8]; /* the rest of the toolchain */
		const char *mounts[6];
		const char *variable, *value; /* what programs inside are told; NULL: nothing */
	} layouts[] = {
		{"~/.nvm/versions/node/v20.1.0/bin",
	         {"~/.nvm/nvm.sh", "~/.nvm/.cache/x", "~/.nvm/versions/node/v18.0.0/bin/node"},
	         {"~/.nvm/versions/node", "~/.nvm/nvm.sh"},
	         "NVM_DIR",
	         "~/.nvm"},
		{"~/.cargo/bin",
	         {"~/.cargo/env", "~/.cargo/credentials.toml", "~/.cargo/registry/x", "~/.cargo/config.toml", "~/.rustup/toolchains/x"},
	         {"~/.cargo/bin", "~/.cargo/env", "~/.rustup"},
	         "RUSTUP_HOME",
	         "~/.rustup"},
		{"~/.pyenv/shims",
	         {"~/.pyenv/bin/pyenv", "~/.pyenv/libexec/pyenv", "~/.pyenv/versions/3.11/bin/python", "~/.pyenv/version",
	          "~/.pyenv/.git/config"},
	         {"~/.pyenv/shims", "~/.pyenv/bin", "~/.pyenv/libexec", "~/.pyenv/versions", "~/.pyenv/version"},
	         "PYENV_ROOT",
	         "~/.pyenv"},
		{"~/.rbenv/shims",
	         {"~/.rbenv/versions/3/x", "~/.rbenv/.git/config"},
	         {"~/.rbenv/shims", "~/.rbenv/versions"},
	         "RBENV_ROOT",
	         "~/.rbenv"},
		{"~/.deno/bin", {"~/.deno/secret"}, {"~/.deno/bin"}, NULL, NULL},
		{"~/.bun/bin", {"~/.bun/install/global/x", "~/.bun/install/cache/x"}, {"~/.bun/bin", "~/.bun/install/global"}, NULL, NULL},
		{"~/.volta/bin", {"~/.volta/tools/x", "~/.volta/hooks.json"}, {"~/.volta/bin", "~/.volta/tools"}, "VOLTA_HOME", "~/.volta"},
		{"~/.asdf/shims",
	         {"~/.asdf/installs/x", "~/.asdf/plugins/x", "~/.tool-versions", "~/.asdf/tmp/x"},
	         {"~/.asdf/shims", "~/.asdf/installs", "~/.asdf/plugins", "~/.tool-versions"},
	         "ASDF_DATA_DIR",
	         "~/.asdf"},
		{"~/.sdkman/candidates/java/21/bin", {"~/.sdkman/etc/config"}, {"~/.sdkman/candidates"}, NULL, NULL},
		{"~/.dotnet/tools",
	         {"~/.dotnet/sdk/x", "~/.dotnet/corefx/key"},
	         {"~/.dotnet/tools", "~/.dotnet/sdk"},
	         "DOTNET_ROOT",
	         "~/.dotnet"},
		{"~/.local/bin", {"~/.local/share/keyrings/x", "~/.local/share/opencode/auth.json"}, {"~/.local/bin"}, NULL, NULL},
		{"~/.local/share/uv/tools/x/bin",
	         {"~/.local/share/uv/credentials/credentials.toml", "~/.local/share/uv/python/x"},
	         {"~/.local/share/uv/tools", "~/.local/share/uv/python"},
	         NULL,
	         NULL},
		{"~/.local/share/pnpm", {"~/.local/share/pnpm/global/x"}, {"~/.local/share/pnpm"}, NULL, NULL},
		{"~/go/bin", {"~/go/pkg/mod/private/x"}, {"~/go/bin"}, NULL, NULL},
		{"~/sdk/go1.22/bin", {"~/sdk/go1.22/src/x", "~/sdk/other/x"}, {"~/sdk/go1.22"}, NULL, NULL},
		{"~/miniconda3/envs/x/bin", {"~/miniconda3/lib/x"}, {"~/miniconda3"}, NULL, NULL},
		{"~/anaconda3/bin", {"~/anaconda3/lib/x"}, {"~/anaconda3"}, NULL, NULL},
		{"~/miniforge3/condabin", {"~/miniforge3/lib/x"}, {"~/miniforge3"}, NULL, NULL},
		{"~/bin", {"~/notes"}, {"~/bin"}, NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		make_dir(layouts[i].entry);
		for (size_t k = 0; k < ARRAY_SIZE(layouts[i].files) && layouts[i].files[k]; k++)
			make_file(layouts[i].files[k]);
		find(layouts[i].entry);
		assert_mounts(layouts[i].mounts);
		assert_path(layouts[i].entry);
		assert_int_equal(found.env.count, layouts[i].variable ? 2 : 1);
		if (layouts[i].variable)
			assert_true(told(layouts[i].variable, layouts[i].value));
		assert_int_equal(fs_remove_tree(base_fd, "home", NULL), 0);
		make_dir("@");
	}
}

static void test_entries_keep_their_order_and_come_once(void **state)
{
	make_dir("~/b");
	make_dir("~/a/bin");
	find("~/b:/usr/bin:~/a/bin:~/b/:~//b:~/./b:~/a/../b");
	ASSERT_MOUNTS("~/b", "~/a/bin");
	assert_path_is("~/b:/usr/bin:~/a/bin:/usr/local/bin:/bin");
	find("~/a/../b:~/a/.:~/c/..");
	ASSERT_MOUNTS("~/b", "~/a");
	assert_path("~/b:~/a");
}

static void test_missing_relative_and_open_directories_are_left_out(void **state)
{
	make_dir("~/open/bin");
	make_dir("~/fine/bin");
	make_file("~/file");
	assert_int_equal(chmod(at("~/open/bin"), 0777), 0);
	find("bin:.:~/open/bin:~/none:~/file:~/fine/bin::./x");
	ASSERT_MOUNTS("~/fine/bin");
	assert_path("~/fine/bin");
	assert_skipped("~/open/bin", "everybody may write to it");
	assert_skipped("~/none", "it is not a directory");
	assert_skipped("~/file", "it is not a directory");
	assert_int_equal(chmod(at("~/open/bin"), 01777), 0); /* nor with the sticky bit */
	find("~/open/bin");
	ASSERT_MOUNTS();
	assert_path("");
	make_dir("~/.nvm/versions/node/v20/bin"); /* nor below a directory that is shown for its own sake */
	assert_int_equal(chmod(at("~/.nvm/versions/node/v20/bin"), 0777), 0);
	make_dir("~/.nvm/versions/node/v18/bin");
	find("~/.nvm/versions/node/v18/bin:~/.nvm/versions/node/v20/bin");
	assert_path("~/.nvm/versions/node/v18/bin");
}

static void test_variables_move_a_toolchains_home(void **state)
{
	make_dir("~/rust/cargo/bin");
	make_file("~/rust/cargo/credentials.toml");
	make_dir("~/rust/up/toolchains");
	make_dir("~/.rustup");
	set_variable("CARGO_HOME", "~/rust/cargo");
	set_variable("RUSTUP_HOME", "~/rust//up/");
	find("~/rust/cargo/bin");
	ASSERT_MOUNTS("~/rust/cargo/bin", "~/rust/up");
	assert_true(told("RUSTUP_HOME", "~/rust/up"));
	assert_false(told_anything("CARGO_HOME")); /* inside, cargo writes to a home of its own */
}

static void test_a_virtual_environment_outside_the_workspace_is_shown_with_its_python(void **state)
{
	make_file("~/.local/share/virtualenvs/x/pyvenv.cfg");
	make_file("~/.local/share/virtualenvs/x/lib/y");
	make_dir("~/.local/share/virtualenvs/x/bin");
	make_file("~/miniconda3/bin/python3.11");
	make_link("~/miniconda3/bin/python3.11", "~/.local/share/virtualenvs/x/bin/python");
	set_variable("VIRTUAL_ENV", "~/.local/share/virtualenvs/x");
	find("~/.local/share/virtualenvs/x/bin");
	ASSERT_MOUNTS("~/.local/share/virtualenvs/x", "~/miniconda3");
	assert_true(told("VIRTUAL_ENV", "~/.local/share/virtualenvs/x"));
	assert_path("~/.local/share/virtualenvs/x/bin");
}

static void test_a_virtual_environment_in_the_workspace_is_there_already(void **state)
{
	make_file("@/.venv/pyvenv.cfg");
	make_dir("@/.venv/bin");
	make_file("~/miniconda3/bin/python3.11");
	make_link("~/miniconda3/bin/python3.11", "@/.venv/bin/python");
	make_dir("~/.local/share/uv/python/cpython-3.12");
	set_variable("VIRTUAL_ENV", "@/.venv");
	find("@/.venv/bin");
	/* what lies in the workspace decides nothing; the interpreters of uv are shown in any case */
	ASSERT_MOUNTS("~/.local/share/uv/python");
	assert_true(told("VIRTUAL_ENV", "@/.venv"));
	assert_path("@/.venv/bin");
}

static void test_java_and_go_are_found_by_their_variables(void **state)
{
	make_file("~/jdk/bin/java");
	make_file("~/golang/bin/go");
	set_variable("JAVA_HOME", "~/jdk");
	set_variable("GOROOT", "~/golang");
	find("~/jdk/bin:~/golang/bin");
	ASSERT_MOUNTS("~/jdk", "~/golang"); /* not only the directories on the PATH */
	assert_true(told("JAVA_HOME", "~/jdk"));
	assert_true(told("GOROOT", "~/golang"));
}

static void test_links_on_the_path_lead_to_known_toolchains_only(void **state)
{
	make_dir("~/.local/bin");
	make_file("~/.local/share/pipx/venvs/black/bin/black");
	make_file("~/.local/share/pypoetry/venv/bin/poetry");
	make_file("~/private/tool");
	make_link("~/.local/share/pipx/venvs/black/bin/black", "~/.local/bin/black");
	assert_int_equal(symlink("../share/pypoetry/venv/bin/poetry", at("~/.local/bin/poetry")), 0);
	make_link("~/private/tool", "~/.local/bin/tool");
	make_link("~/.local/bin", "~/.local/bin/loop");
	find("~/.local/bin");
	ASSERT_MOUNTS("~/.local/bin", "~/.local/share/pipx/venvs", "~/.local/share/pypoetry/venv");
}

static void test_a_linked_home_is_shown_under_both_names(void **state)
{
	make_dir("~/disk/nvm/versions/node/v20/bin");
	make_link("~/disk/nvm", "~/.nvm");
	find("~/.nvm/versions/node/v20/bin");
	ASSERT_MOUNTS("~/.nvm/versions/node", "~/disk/nvm/versions/node");
	assert_path("~/.nvm/versions/node/v20/bin");
}

static void test_an_entry_that_links_into_a_known_toolchain_is_called_by_its_real_name(void **state)
{
	make_dir("~/.local/share/fnm/node-versions/v20/installation/bin");
	make_dir("~/shells");
	make_link("~/.local/share/fnm/node-versions/v20/installation", "~/shells/1");
	find("~/shells/1/bin");
	ASSERT_MOUNTS("~/.local/share/fnm/node-versions");
	assert_path("~/.local/share/fnm/node-versions/v20/installation/bin");
}

static void test_mounts_do_not_lie_in_one_another(void **state)
{
	make_dir("~/x/y/bin");
	make_dir("~/x/y/sbin");
	find("~/x/y/bin:~/x/y/sbin:~/x/y");
	ASSERT_MOUNTS("~/x/y");
	assert_path("~/x/y/bin:~/x/y/sbin:~/x/y");
}

static void test_the_number_of_mounts_is_capped(void **state)
{
	_cleanup_buf_ struct buf path = {0};

	for (int i = 0; i < TOOLCHAIN_MOUNTS_MAX + 3; i++) {
		char dir[32];

		snprintf(dir, sizeof(dir), "~/d%d/bin", i);
		make_dir(dir);
		buf_addf(&path, "%s%s", i > 0 ? ":" : "", dir);
	}
	find(path.data);
	assert_int_equal(found.mounts.count, TOOLCHAIN_MOUNTS_MAX);
	assert_skipped("~/d40/bin", "too many directories are shown already");
	assert_skipped("~/d42/bin", "too many directories are shown already");
}

static void test_what_was_found_can_be_granted_by_a_policy(void **state)
{
	struct cordon_policy policy;

	make_dir("~/.cargo/bin");
	make_dir("~/.rustup");
	find("~/.cargo/bin:/usr/bin");
	assert_int_equal(policy_init(&policy, &err), 0);
	assert_int_equal(toolchains_apply(&found, &policy, &err), 0);
	assert_int_equal(policy.mounts_read.count, 2);
	assert_true(strlist_has(&policy.mounts_read, at("~/.cargo/bin")));
	assert_true(strlist_has(&policy.mounts_read, at("~/.rustup")));
	assert_true(strlist_has(&policy.env_set, found.env.items[0]));
	assert_false(strlist_has(&policy.env_set, "PATH=" POLICY_PATH));
	assert_true(strlist_has(&policy.env_set, "HOME=/home/user"));
	policy_clear(&policy);
}

static void test_each_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
	struct toolchain_search what = {.workspace = work, .forbid = &forbid};
	int rc = -1;
	long n = 0;

	make_dir("~/.cargo/bin");
	make_file("~/tools/.env");
	make_file("~/tools/x");
	find("~/.cargo/bin:~/tools:~/none");
	what.env = env.items;
	for (; rc < 0 && n < 2000; n++) {
		toolchains_free(&found);
		err = (struct cordon_error){0};
		allocations_left = n;
		rc = toolchains_find(&what, &found, &err);
		allocations_left = -1;
		if (rc < 0)
			assert_int_equal(err.code, CORDON_ERR_SYSTEM);
	}
	assert_int_equal(rc, 0);
	assert_true(n > 20);
	ASSERT_MOUNTS("~/.cargo/bin", "~/tools/x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_directories_of_the_system_need_no_mount),
		TEST(test_without_path_and_home_there_is_the_default),
		TEST(test_known_layouts_give_their_parts_and_nothing_else),
		TEST(test_entries_keep_their_order_and_come_once),
		TEST(test_missing_relative_and_open_directories_are_left_out),
		TEST(test_variables_move_a_toolchains_home),
		TEST(test_a_virtual_environment_outside_the_workspace_is_shown_with_its_python),
		TEST(test_a_virtual_environment_in_the_workspace_is_there_already),
		TEST(test_java_and_go_are_found_by_their_variables),
		TEST(test_links_on_the_path_lead_to_known_toolchains_only),
		TEST(test_a_linked_home_is_shown_under_both_names),
		TEST(test_an_entry_that_links_into_a_known_toolchain_is_called_by_its_real_name),
		TEST(test_mounts_do_not_lie_in_one_another),
		TEST(test_the_number_of_mounts_is_capped),
		TEST(test_what_was_found_can_be_granted_by_a_policy),
		TEST(test_each_failed_allocation_is_reported_and_leaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
