/* SPDX-License-Identifier: Apache-2.0 */
/* What is not shown, whatever the PATH says. */
#include "toolchain_home.h"

static void test_an_open_part_of_a_toolchain_is_left_out(void **state)
{
	make_dir("~/.cargo/bin");
	make_dir("~/.rustup");
	assert_int_equal(chmod(at("~/.rustup"), 0777), 0);
	find("~/.cargo/bin");
	ASSERT_MOUNTS("~/.cargo/bin");
	assert_false(told_anything("RUSTUP_HOME"));
}

static void test_forbidden_directories_win_over_every_layout(void **state)
{
	make_dir("~/.config/composer/vendor/bin");
	make_dir("~/.ssh/bin");
	make_dir("~/.aws");
	make_dir("~/.local/state/cordon/bin");
	make_dir("/tmp");
	find("~/.config/composer/vendor/bin:~/.ssh/bin:~/.aws:~/.local/state/cordon/bin:~:~/.local/state:/:/tmp:/home:/run:/root/bin");
	ASSERT_MOUNTS();
	assert_path("");
	assert_skipped("~/.ssh/bin", "it is, or lies in, a directory that is never shown");
	assert_skipped("~", "it contains a directory that is never shown");
}

static void test_forbidden_directories_need_not_exist_to_be_respected(void **state)
{
	find("~");
	ASSERT_MOUNTS();
	assert_skipped("~", "it contains a directory that is never shown");
}

static void test_links_do_not_lead_around_the_forbidden_list(void **state)
{
	make_dir("~/.ssh/bin");
	make_dir("~/real-config/bin");
	make_link("~/.ssh/bin", "~/tools");
	make_link("~/real-config", "~/.config");
	make_dir("~/.nvm/versions");
	make_link("~/.ssh", "~/.nvm/versions/node");
	find("~/tools:~/real-config/bin:~/real-config:~/.nvm/versions/node/bin");
	ASSERT_MOUNTS();
	assert_path("");
}

static void test_the_policys_own_forbidden_paths_and_the_state_directory_count(void **state)
{
	make_dir("~/.nvm/versions/node/v20/bin");
	make_dir("~/tools/bin");
	make_dir("~/state/bin");
	assert_int_equal(strlist_add(&forbid, at("~/.nvm/versions/node/v18"), NULL), 0);
	assert_int_equal(strlist_add(&forbid, at("~/tools"), NULL), 0);
	set_variable("CORDON_HOME", "~/state");
	find("~/tools/bin:~/.nvm/versions/node/v20/bin:~/state/bin");
	ASSERT_MOUNTS("~/.nvm/versions/node/v20/bin"); /* not all versions, since one of them is forbidden */
	assert_path("~/.nvm/versions/node/v20/bin");
}

static void test_credentials_in_the_midst_of_a_toolchain_are_left_out(void **state)
{
	make_file("~/.nvm/versions/node/v20/bin/node");
	make_file("~/.nvm/versions/node/v20/lib/x");
	make_file("~/.nvm/versions/node/v20/etc/npmrc");
	make_file("~/.nvm/versions/node/v20/etc/other");
	make_file("~/.nvm/versions/node/v18/bin/node");
	find("~/.nvm/versions/node/v20/bin");
	ASSERT_MOUNTS("~/.nvm/versions/node/v18", "~/.nvm/versions/node/v20/bin", "~/.nvm/versions/node/v20/lib",
	              "~/.nvm/versions/node/v20/etc/other");
	assert_path("~/.nvm/versions/node/v20/bin");
	assert_skipped("~/.nvm/versions/node/v20/etc/npmrc", "it may hold credentials");
	assert_true(told("NVM_DIR", "~/.nvm"));
}

static void test_credentials_beside_programs_are_left_out(void **state)
{
	make_file("~/tools/hello");
	make_file("~/tools/.env");
	make_file("~/tools/.netrc");
	make_dir("~/tools/empty");
	make_link("~/tools/.env", "~/tools/alias"); /* another name of one */
	make_link("~/tools/hello", "~/tools/hi");
	make_link("~/notes", "~/tools/notes");
	make_file("~/notes");
	make_link("~/nowhere", "~/tools/dangling");
	find("~/tools");
	ASSERT_MOUNTS("~/tools/hello", "~/tools/hi", "~/tools/empty");
	assert_path("~/tools");
	assert_skipped("~/tools/alias", "it may hold credentials");
	assert_skipped("~/tools/notes", "it is a link to elsewhere");
	find("~/tools:~/tools/empty"); /* and nothing later shows the whole again */
	ASSERT_MOUNTS("~/tools/hello", "~/tools/hi", "~/tools/empty");
}

static void test_a_directory_around_split_ones_is_not_shown_as_a_whole(void **state)
{
	make_file("~/x/tools/hello");
	make_file("~/x/tools/.env");
	find("~/x/tools:~/x");
	ASSERT_MOUNTS("~/x/tools/hello");
	assert_skipped("~/x", "it contains a directory with credentials");
}

static void test_homes_with_credentials_give_no_more_than_programs(void **state)
{
	make_dir("~/.cargo/registry");
	make_dir("~/.dotnet/corefx");
	make_dir("~/.local/share/keyrings");
	make_dir("~/.local/share/app/bin");
	find("~/.cargo:~/.cargo/registry:~/.dotnet/corefx:~/.local/share/keyrings:~/.local/share/app/bin");
	ASSERT_MOUNTS("~/.local/share/app/bin");
	assert_path("~/.local/share/app/bin");
	assert_skipped("~/.dotnet/corefx", "it is not known to be free of credentials");
}

static void test_only_harmless_variables_are_passed_on(void **state)
{
	set_variable("PYENV_VERSION", "3.11.4:3.10");
	set_variable("RUSTUP_TOOLCHAIN", "nightly-x86_64-unknown-linux-gnu");
	set_variable("RBENV_VERSION", "$(id)");
	set_variable("NODE_PATH", "/usr/lib/node_modules");
	set_variable("PYTHONPATH", "/usr/lib/python3");
	set_variable("LD_PRELOAD", "/usr/lib/x.so");
	set_variable("AWS_SECRET_ACCESS_KEY", "x");
	find("/usr/bin");
	assert_int_equal(found.env.count, 3);
	assert_true(told("PYENV_VERSION", "3.11.4:3.10"));
	assert_true(told("RUSTUP_TOOLCHAIN", "nightly-x86_64-unknown-linux-gnu"));
}

static void test_what_is_no_virtual_environment_is_not_taken_for_one(void **state)
{
	make_dir("~/documents");
	set_variable("VIRTUAL_ENV", "~/documents");
	set_variable("JAVA_HOME", "~/documents");
	set_variable("GOROOT", "relative");
	find("/usr/bin");
	ASSERT_MOUNTS();
	assert_int_equal(found.env.count, 1);
}

static void test_a_virtual_environments_credentials_are_left_out(void **state)
{
	make_file("~/venv/pyvenv.cfg");
	make_file("~/venv/pip.conf");
	make_dir("~/venv/bin");
	make_dir("~/venv/lib");
	assert_int_equal(symlink("lib", at("~/venv/lib64")), 0);
	set_variable("VIRTUAL_ENV", "~/venv");
	find("~/venv/bin");
	ASSERT_MOUNTS("~/venv/bin", "~/venv/lib", "~/venv/lib64", "~/venv/pyvenv.cfg");
	assert_true(told("VIRTUAL_ENV", "~/venv"));
}

static void test_links_in_the_workspace_lead_nowhere(void **state)
{
	make_dir("@/bin");
	make_file("~/.local/share/pipx/venvs/black/bin/black");
	make_link("~/.local/share/pipx/venvs/black/bin/black", "@/bin/black");
	make_link("~/.local/share/pipx/venvs", "@/more");
	find("@/bin:@/more");
	ASSERT_MOUNTS();
	assert_path("@/bin:@/more");
}

static void test_the_workspace_is_never_hidden_by_a_mount(void **state)
{
	make_dir("~/src/bin");
	make_link("@", "~/project-bin");
	find("~/src:~/src/bin:~/project-bin");
	ASSERT_MOUNTS("~/src/bin");
	assert_path("~/src/bin:@"); /* the link leads to where the workspace is seen */
	assert_skipped("~/src", "the workspace lies in it");
}

static void test_the_host_side_of_the_workspace_is_not_shown_through_a_link(void **state)
{
	make_dir("@/node/v20/bin");
	make_dir("~/.nvm/versions");
	make_link("@/node", "~/.nvm/versions/node");
	find("~/.nvm/versions/node/v20/bin");
	ASSERT_MOUNTS();
	assert_path("@/node/v20/bin");
	assert_skipped("~/.nvm/versions/node", "it is a link into the workspace");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_open_part_of_a_toolchain_is_left_out),
		TEST(test_forbidden_directories_win_over_every_layout),
		TEST(test_forbidden_directories_need_not_exist_to_be_respected),
		TEST(test_links_do_not_lead_around_the_forbidden_list),
		TEST(test_the_policys_own_forbidden_paths_and_the_state_directory_count),
		TEST(test_credentials_in_the_midst_of_a_toolchain_are_left_out),
		TEST(test_credentials_beside_programs_are_left_out),
		TEST(test_a_directory_around_split_ones_is_not_shown_as_a_whole),
		TEST(test_homes_with_credentials_give_no_more_than_programs),
		TEST(test_only_harmless_variables_are_passed_on),
		TEST(test_what_is_no_virtual_environment_is_not_taken_for_one),
		TEST(test_a_virtual_environments_credentials_are_left_out),
		TEST(test_links_in_the_workspace_lead_nowhere),
		TEST(test_the_workspace_is_never_hidden_by_a_mount),
		TEST(test_the_host_side_of_the_workspace_is_not_shown_through_a_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
