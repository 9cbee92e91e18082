/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to run machine code that a program wrote itself. Each line of output is NAME RESULT: "ran" if the code was executed, else the errno of the call that
 * was refused, or "fault". native NAME…: these; native --list: their names; native --42: the program that some of them start.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 4096
#ifndef SHM_EXEC
#define SHM_EXEC 0100000
#endif
#define R PROT_READ
#define W PROT_WRITE
#define X PROT_EXEC

/* int f(void) { return 42; } */
#if defined(__x86_64__)
static const unsigned char code[] = {0xb8, 0x2a, 0x00, 0x00, 0x00, 0xc3};
#elif defined(__aarch64__)
static const unsigned char code[] = {0x40, 0x05, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6};
#else
#error "unknown architecture"
#endif

static sigjmp_buf back;
static const char *self;

static void fault(int signo)
{
	(void)signo;
	siglongjmp(back, 1);
}

/* 0: it ran. */
static int call(void *at)
{
	if (at == MAP_FAILED || at == NULL)
		return errno;
	__builtin___clear_cache((char *)at, (char *)at + sizeof(code));
	if (sigsetjmp(back, 1))
		return EFAULT;
	return ((int (*)(void))(uintptr_t)at)() == 42 ? 0 : ENOEXEC;
}

static void *map(int prot, int flags, int fd)
{
	return mmap(NULL, SIZE, prot, flags, fd, 0);
}

/* Writes through one mapping and calls through another; from is the one that is written. */
static int both(void *from, void *at)
{
	if (from == MAP_FAILED || at == MAP_FAILED)
		return errno;
	if (sigsetjmp(back, 1))
		return EFAULT;
	memcpy(from, code, sizeof(code));
	return call(at);
}

static int mmap_rwx(void)
{
	void *p = map(R | W | X, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	return both(p, p);
}

static int mprotect_rx(void)
{
	void *p = map(R | W, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memcpy(p, code, sizeof(code));
	return mprotect(p, SIZE, R | X) < 0 ? errno : call(p);
}

static int mprotect_rwx(void)
{
	void *p = map(R | W, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	return mprotect(p, SIZE, R | W | X) < 0 ? errno : both(p, p);
}

static int pkey_mprotect_rx(void)
{
	void *p = map(R | W, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memcpy(p, code, sizeof(code));
	return syscall(SYS_pkey_mprotect, p, (long)SIZE, (long)(R | X), -1L) < 0 ? errno : call(p);
}

static int mprotect_stack(void)
{
	static _Alignas(SIZE) unsigned char data[SIZE]; /* or data: the same to the kernel */
	memcpy(data, code, sizeof(code));
	return mprotect(data, SIZE, R | W | X) < 0 ? errno : call(data);
}

/* The code of a library, privately changed. */
static int mprotect_file(void)
{
	int fd = open(self, O_RDONLY | O_CLOEXEC);
	void *p = map(R | W, MAP_PRIVATE, fd);
	if (p == MAP_FAILED)
		return errno;
	memcpy(p, code, sizeof(code));
	return mprotect(p, SIZE, R | X) < 0 ? errno : call(p);
}

/* From executable to writable and back. */
static int mprotect_there_and_back(void)
{
	int fd = open(self, O_RDONLY | O_CLOEXEC);
	void *p = map(R | X, MAP_PRIVATE, fd);
	if (p == MAP_FAILED || mprotect(p, SIZE, R | W) < 0)
		return errno;
	memcpy(p, code, sizeof(code));
	return mprotect(p, SIZE, R | X) < 0 ? errno : call(p);
}

/* Executable and shared; mremap(2) of size 0 maps it a second time, which then becomes writable. */
static int twice(void *executable)
{
	if (executable == MAP_FAILED)
		return errno;
	void *other = mremap(executable, 0, SIZE, MREMAP_MAYMOVE);
	if (other == MAP_FAILED || mprotect(other, SIZE, R | W) < 0)
		return errno;
	return both(other, executable);
}

static int mremap_shared(void)
{
	return twice(map(R | X, MAP_SHARED | MAP_ANONYMOUS, -1));
}

static int mremap_dev_zero(void)
{
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	return twice(fd < 0 ? MAP_FAILED : map(R | X, MAP_SHARED, fd));
}

static int mremap_writable(void)
{
	void *p = map(R | W, MAP_SHARED | MAP_ANONYMOUS, -1), *other = mremap(p, 0, SIZE, MREMAP_MAYMOVE);
	if (other == MAP_FAILED || mprotect(other, SIZE, R | X) < 0)
		return errno;
	return both(p, other);
}

static int dev_zero_rwx(void)
{
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	void *p = fd < 0 ? MAP_FAILED : map(R | W | X, MAP_SHARED, fd);
	return both(p, p);
}

/* ---- through files ---- */

static int mapped_twice(int fd)
{
	if (fd < 0 || ftruncate(fd, SIZE) < 0)
		return errno;
	void *from = map(R | W, MAP_SHARED, fd);
	return from == MAP_FAILED ? errno : both(from, map(R | X, MAP_SHARED, fd));
}

static int mapped_private(int fd)
{
	if (fd < 0 || ftruncate(fd, SIZE) < 0 || pwrite(fd, code, sizeof(code), 0) < 0)
		return errno;
	return call(map(R | X, MAP_PRIVATE, fd));
}

static int memfd(unsigned flags)
{
	return (int)syscall(SYS_memfd_create, "x", flags);
}

static int memfd_shared(void)
{
	return mapped_twice(memfd(0));
}

static int memfd_private(void)
{
	return mapped_private(memfd(0));
}

static int memfd_noexec_seal(void)
{
	return mapped_private(memfd(8));
}

static int file_in(const char *dir, int (*how)(int))
{
	char path[64];
	snprintf(path, sizeof(path), "%s/native.XXXXXX", dir);
	int fd = mkstemp(path);
	unlink(path);
	return how(fd);
}

#define IN(name, dir)                                \
	static int file_##name(void)                 \
	{                                            \
		return file_in(dir, mapped_private); \
	}                                            \
	static int shared_file_##name(void)          \
	{                                            \
		return file_in(dir, mapped_twice);   \
	}
IN(workspace, ".")
IN(tmp, "/tmp")
IN(var_tmp, "/var/tmp")
IN(shm, "/dev/shm")

static int tmpfile_workspace(void)
{
	return mapped_private(open(".", O_TMPFILE | O_RDWR, 0700));
}

static int shmat_rwx(void)
{
	int id = shmget(IPC_PRIVATE, SIZE, 0700);
	void *p = shmat(id, NULL, SHM_EXEC);
	shmctl(id, IPC_RMID, NULL);
	return p == (void *)-1 ? errno : both(p, p);
}

static int shmat_twice(void)
{
	int id = shmget(IPC_PRIVATE, SIZE, 0700);
	void *from = shmat(id, NULL, 0), *at = shmat(id, NULL, SHM_EXEC | SHM_RDONLY);
	const int error = errno;
	shmctl(id, IPC_RMID, NULL);
	return from == (void *)-1 || at == (void *)-1 ? error : both(from, at);
}

/* ---- what there is already, changed ---- */

static __attribute__((noinline)) int victim(void)
{
	__asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop; nop; nop");
	return 7;
}

static int by_proc_mem(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, code, sizeof(code), (off_t)(uintptr_t)victim) != (ssize_t)sizeof(code))
		return errno;
	__builtin___clear_cache((char *)(uintptr_t)victim, (char *)(uintptr_t)victim + sizeof(code));
	int (*volatile f)(void) = victim;
	return f() == 42 ? 0 : ENOEXEC;
}

static int proc_self_mem(void)
{
	return by_proc_mem("/proc/self/mem");
}

static int proc_thread_mem(void)
{
	return by_proc_mem("/proc/thread-self/mem");
}

static int proc_task_mem(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", getpid(), getpid());
	return by_proc_mem(path);
}

static int ptrace_poke(void)
{
	int status;
	long word;
	memcpy(&word, code, sizeof(word) < sizeof(code) ? sizeof(word) : sizeof(code));
	pid_t pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(errno);
		raise(SIGSTOP);
		int (*volatile f)(void) = victim;
		_exit(f() == 42 ? 0 : ENOEXEC);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (ptrace(PTRACE_POKETEXT, pid, (void *)(uintptr_t)victim, (void *)word) < 0)
		return errno;
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

/* Readable memory is executable, for those who ask. */
static int read_implies_exec(void)
{
	if (personality(READ_IMPLIES_EXEC) < 0)
		return errno;
	void *p = map(R | W, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	int r = both(p, p);
	personality(0);
	return r;
}

static int unset_mdwe(void)
{
	prctl(65 /* PR_SET_MDWE */, 0, 0, 0, 0);
	return mprotect_rx();
}

/* In a child and its child, where flags of the memory might have been lost. */
static int after_fork(void)
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(mprotect_rx());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

/* ---- programs that were brought ---- */

static int copy_self(int to)
{
	char block[65536];
	ssize_t n;
	int from = open(self, O_RDONLY | O_CLOEXEC);
	while (from >= 0 && (n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, (size_t)n) != n)
			return errno;
	return from < 0 ? errno : 0;
}

/* 0: the program ran. */
static int start(int fd, const char *path, char *const argv[])
{
	char *const envp[] = {NULL};
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		if (fd >= 0)
			syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
		else
			execve(path, argv, envp);
		_exit(errno);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return EFAULT;
	return WEXITSTATUS(status) == 142 ? 0 : WEXITSTATUS(status);
}

static char *const as_42[] = {(char *)(uintptr_t) "native", (char *)(uintptr_t) "--42", NULL};

static int memfd_exec(void)
{
	int fd = memfd(0);
	return fd < 0 || copy_self(fd) != 0 ? errno : start(fd, NULL, as_42);
}

static int copied_program(void)
{
	char path[] = "./native.XXXXXX";
	int fd = mkstemp(path);
	if (fd < 0 || copy_self(fd) != 0 || fchmod(fd, 0755) < 0)
		return errno;
	close(fd);
	int r = start(-1, path, as_42);
	unlink(path);
	return r;
}

static const struct {
	const char *name;
	int (*run)(void);
} tricks[] = {
#define TRICK(f)      \
	{             \
#f, f \
	}
	TRICK(mmap_rwx),
	TRICK(mprotect_rx),
	TRICK(mprotect_rwx),
	TRICK(pkey_mprotect_rx),
	TRICK(mprotect_stack),
	TRICK(mprotect_file),
	TRICK(mprotect_there_and_back),
	TRICK(mremap_shared),
	TRICK(mremap_dev_zero),
	TRICK(mremap_writable),
	TRICK(dev_zero_rwx),
	TRICK(memfd_shared),
	TRICK(memfd_private),
	TRICK(memfd_noexec_seal),
	TRICK(file_workspace),
	TRICK(shared_file_workspace),
	TRICK(file_tmp),
	TRICK(shared_file_tmp),
	TRICK(file_var_tmp),
	TRICK(shared_file_var_tmp),
	TRICK(file_shm),
	TRICK(shared_file_shm),
	TRICK(tmpfile_workspace),
	TRICK(shmat_rwx),
	TRICK(shmat_twice),
	TRICK(proc_self_mem),
	TRICK(proc_thread_mem),
	TRICK(proc_task_mem),
	TRICK(ptrace_poke),
	TRICK(read_implies_exec),
	TRICK(unset_mdwe),
	TRICK(after_fork),
	TRICK(memfd_exec),
	TRICK(copied_program),
};
#define COUNT (sizeof(tricks) / sizeof(tricks[0]))

/* Each in a process of its own: none can prepare the ground for another. */
static void try(size_t i)
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		_exit(tricks[i].run());
	waitpid(pid, &status, 0);
	const int error = WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
	if (error == 0)
		printf("%s ran\n", tricks[i].name);
	else
		printf("%s %s\n", tricks[i].name,
		       error == EFAULT   ? "fault"
		       : error == EACCES ? "EACCES"
		       : error == EPERM  ? "EPERM"
		       : error == ENOSYS ? "ENOSYS"
		                         : strerror(error));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sigaction on_fault = {.sa_handler = fault};
	sigaction(SIGSEGV, &on_fault, NULL);
	sigaction(SIGBUS, &on_fault, NULL);
	sigaction(SIGILL, &on_fault, NULL);
	self = "/proc/self/exe";
	if (argc > 1 && strcmp(argv[1], "--42") == 0)
		return 142;
	for (size_t i = 0; i < COUNT; i++) {
		if (argc > 1 && strcmp(argv[1], "--list") == 0)
			puts(tricks[i].name);
		for (int k = argc == 1 ? 0 : 1; k < argc; k++)
			if (argc == 1 || strcmp(argv[k], tricks[i].name) == 0)
				try(i);
	}
	return 0;
}
