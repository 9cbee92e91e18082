/* SPDX-License-Identifier: Apache-2.0 */
/* A static program that ends at once, without any start-up of a C library: what is left of a command's time is the sandbox's. Embedded in cordon. */
#include <sys/syscall.h>

_Noreturn void _start(void);
_Noreturn void _start(void)
{
#if defined(__x86_64__)
	__asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(0) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_exit_group, status __asm__("x0") = 0;
	__asm__ volatile("svc 0" : : "r"(number), "r"(status) : "memory");
#else
#error "cordon runs on x86_64 and aarch64"
#endif
	__builtin_unreachable();
}
