/* SPDX-License-Identifier: Apache-2.0 */
/* Reading another process: its memory at the edge of what is mapped, by both ways there are; what /proc says of it; whether a file could be executed. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "sandbox/exec_check.h"
#include "sandbox/notify.h"

static bool no_readv; /* as on a kernel without it */

long __real_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	if (nr == SYS_process_vm_readv && no_readv) {
		errno = ENOSYS;
		return -1;
	}
	return __real_syscall(nr, a, b, c, d, e, f);
}

/* Two pages, of which only the first is there, before a fork. */
static char *page;
static pid_t child;

static int begin(void **state)
{
	no_readv = *state != NULL;
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || munmap(page + 4096, 4096) < 0)
		return -1;
	memset(page, 'x', 4096);
	memcpy(page + 100, "hello", 6);
	memcpy(page + 4090, "fence", 6); /* the last byte is its NUL */
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	memset(page, 'o', 4096); /* ours is another */
	return child > 0 ? 0 : -1;
}

static int end(void **state)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return munmap(page, 4096);
}

static void test_strings_are_read_up_to_their_end_and_no_further(void **state)
{
	_cleanup_memory_ struct notify_memory m;
	char out[9000];
	const uint64_t at = (uint64_t)(uintptr_t)page;
	notify_memory_open(&m, child);
	assert_int_equal(notify_read_string(&m, at + 100, out, sizeof(out)), 6);
	assert_string_equal(out, "hello");
	assert_int_equal(notify_read_string(&m, at + 4090, out, sizeof(out)), 6);
	assert_string_equal(out, "fence");
	assert_int_equal(notify_read_string(&m, at + 100, out, 5), 0);    /* no room for the NUL */
	assert_int_equal(notify_read_string(&m, at + 4096, out, 100), 0); /* not there */
	assert_int_equal(notify_read_string(&m, 0, out, 100), 0);
	assert_int_equal(notify_read_string(&m, UINT64_MAX - 3, out, 100), 0);
	assert_int_equal(notify_read(&m, at + 4000, out, 1000), 96);
	assert_memory_equal(out, "xx", 2);
	assert_int_equal(notify_read(&m, at + 4096, out, 8), 0);
}

static void test_a_process_that_is_gone_has_no_memory(void **state)
{
	_cleanup_memory_ struct notify_memory m;
	char out[8];
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	notify_memory_open(&m, pid);
	assert_int_equal(notify_read_string(&m, (uint64_t)(uintptr_t)page, out, sizeof(out)), 0);
}

static void test_proc_tells_who_it_is_and_how_it_ended(void **state)
{
	struct notify_stat st;
	assert_true(notify_read_stat(child, &st));
	assert_int_equal(st.parent, getpid());
	assert_true(st.flags & 0x40); /* it was forked, and runs no program of its own */
	assert_true(st.born > 0 && st.stack > 0);
	assert_int_equal(notify_process_of(child), child);
	assert_int_equal(notify_process_of((pid_t)syscall(SYS_gettid, 0L, 0L, 0L, 0L, 0L, 0L)), getpid());
	pid_t pid = fork();
	if (pid == 0)
		_exit(7);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(notify_read_stat(pid, &st));
	assert_int_equal(st.state, 'Z');
	assert_int_equal(st.exit_code, 7 << 8);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(notify_read_stat(pid, &st));
}

/* ---- whether a file could be executed ------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/cordon-notify.XXXXXX";

static int check(const char *content, size_t len, mode_t mode)
{
	struct exec_check c;
	struct stat st;
	char path[64];
	exec_check_begin(&c, -1);
	snprintf(path, sizeof(path), "%s/file", dir);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && write(fd, content, len) == (ssize_t)len && fchmod(fd, mode) == 0);
	_cleanup_fd_ int handle = open(path, O_PATH | O_CLOEXEC);
	assert_int_equal(fstat(handle, &st), 0);
	int r = exec_check(&c, handle, &st);
	assert_int_equal(exec_check(&c, handle, &st), r); /* also when it was looked at before */
	unlink(path);
	return r;
}
#define CHECK(text, mode) check(text, strlen(text), mode)

static int program(const char *loader)
{
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p;
		char name[64];
	} f = {.e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	             .e_type = ET_DYN,
	             .e_phoff = sizeof(Elf64_Ehdr),
	             .e_phentsize = sizeof(Elf64_Phdr),
	             .e_phnum = 1},
	       .p = {.p_type = PT_INTERP, .p_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), .p_filesz = strlen(loader) + 1}};
	strncpy(f.name, loader, sizeof(f.name) - 1);
	return check((const char *)&f, sizeof(f), 0755);
}

static void test_files_are_judged_by_mode_and_interpreter(void **state)
{
	char long_line[400];
	assert_non_null(mkdtemp(dir));
	assert_int_equal(CHECK("#!/bin/sh\necho", 0755), 0);
	assert_int_equal(CHECK("#! \t/bin/sh -e\n", 0755), 0);
	assert_int_equal(CHECK("#!/bin/sh", 0755), 0);
	assert_int_equal(CHECK("echo without any interpreter", 0755), 0); /* shells run it themselves */
	assert_int_equal(CHECK("", 0755), 0);
	assert_int_equal(CHECK("#!", 0755), 0);
	assert_int_equal(CHECK("#!relative\n", 0755), 0); /* who knows from where */
	assert_int_equal(CHECK("#!/nonexistent/interpreter\n", 0755), ENOENT);
	assert_int_equal(CHECK("#!/bin/sh\n", 0644), EACCES);
	memset(long_line, 'a', sizeof(long_line));
	memcpy(long_line, "#!/", 3);
	assert_int_equal(check(long_line, sizeof(long_line), 0755), ENOENT);
	assert_int_equal(program("/bin/sh"), 0);
	assert_int_equal(program("/nonexistent/ld.so"), ENOENT);
	rmdir(dir);
}

static void test_broken_programs_are_read_within_their_bounds(void **state)
{
	Elf64_Ehdr e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64}, .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = UINT16_MAX};
	snprintf(dir, sizeof(dir), "/tmp/cordon-notify.XXXXXX");
	assert_non_null(mkdtemp(dir));
	static const uint64_t offsets[] = {0, 1, sizeof(e), 4000, 4096, 1 << 20, UINT64_MAX, UINT64_MAX - 56};
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		e.e_phoff = offsets[i];
		assert_int_equal(check((const char *)&e, sizeof(e), 0755), 0);
	}
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p;
	} f = {.e = e, .p = {.p_type = PT_INTERP}};
	f.e.e_phoff = sizeof(e);
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
		for (size_t k = 0; k < ARRAY_SIZE(offsets); k++) {
			f.p.p_offset = offsets[i];
			f.p.p_filesz = offsets[k];
			assert_true(check((const char *)&f, sizeof(f), 0755) >= 0);
		}
	rmdir(dir);
}

int main(void)
{
	static char by_proc;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(test_strings_are_read_up_to_their_end_and_no_further, begin, end, NULL),
		{"test_strings_are_read_by_proc_up_to_their_end", test_strings_are_read_up_to_their_end_and_no_further, begin, end,
	         &by_proc},
		cmocka_unit_test_prestate_setup_teardown(test_a_process_that_is_gone_has_no_memory, begin, end, NULL),
		{"test_a_process_that_is_gone_has_no_memory_by_proc", test_a_process_that_is_gone_has_no_memory, begin, end, &by_proc},
		cmocka_unit_test_prestate_setup_teardown(test_proc_tells_who_it_is_and_how_it_ended, begin, end, NULL),
		cmocka_unit_test(test_files_are_judged_by_mode_and_interpreter),
		cmocka_unit_test(test_broken_programs_are_read_within_their_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
