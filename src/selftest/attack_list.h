/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attacks, one row each: function, name, what it tries, what stops it, where it is shown to work, and with which errors that may
 * fail because the host lacks what is attacked. Included with ATTACK() defined; hence no include guard.
 *
 * For each protection that a test build can switch off there are at least three rows that nothing else stops.
 */

/* ---- system calls that only the filter refuses, or that it refuses first (attack_syscalls.c) ---- */
ATTACK(io_uring, "io-uring", "set up an io_uring, whose operations seccomp does not see", BY_SECCOMP, CONTROL_HOST, "EPERM",
       "io_uring is switched off here")
ATTACK(userfaultfd, "userfaultfd", "stall the kernel on a page fault of one's own", BY_SECCOMP, CONTROL_HOST, "EPERM EINVAL",
       "user-mode userfaultfd is off here")
ATTACK(add_key, "add-key", "store a key in the kernel", BY_SECCOMP, CONTROL_HOST, "EPERM", "keys are forbidden here")
ATTACK(keyctl, "keyctl", "reach the session keyring", BY_SECCOMP, CONTROL_HOST, "EPERM", "keys are forbidden here")
ATTACK(af_alg, "af-alg", "open a socket to the kernel's crypto code (CVE-2026-31431)", BY_SECCOMP, CONTROL_HOST, "EAFNOSUPPORT",
       "this kernel has no AF_ALG")
ATTACK(af_vsock, "af-vsock", "open a socket to the hypervisor", BY_SECCOMP, CONTROL_HOST, "EAFNOSUPPORT", "this kernel has no AF_VSOCK")
ATTACK(uevents, "netlink-uevents", "listen to the kernel's device events", BY_SECCOMP, CONTROL_HOST, "EPROTONOSUPPORT",
       "this kernel has no uevent socket")
ATTACK(personality, "personality", "make all readable memory executable (READ_IMPLIES_EXEC)", BY_SECCOMP, CONTROL_HOST, "", "")
ATTACK(perf_event, "perf-event", "open a performance counter", BY_SECCOMP, CONTROL_HOST, "EACCES EPERM ENOENT EOPNOTSUPP",
       "perf_event_paranoid forbids counters here")
ATTACK(fanotify, "fanotify", "watch a file system with fanotify", BY_SECCOMP, CONTROL_HOST, "EPERM EINVAL",
       "unprivileged fanotify is not there")
ATTACK(unshare_userns, "unshare-userns", "become root of a nested user namespace by unshare", BY_SECCOMP, CONTROL_HOST,
       "EPERM EACCES ENOSPC EUSERS", "this host restricts user namespaces")
ATTACK(clone_userns, "clone-userns", "become root of a nested user namespace by clone", BY_SECCOMP, CONTROL_HOST,
       "EPERM EACCES ENOSPC EUSERS", "this host restricts user namespaces")
ATTACK(clone3_userns, "clone3-userns", "become root of a nested user namespace by clone3, whose flags no filter sees", BY_SECCOMP,
       CONTROL_HOST, "EPERM EACCES ENOSPC EUSERS", "this host restricts user namespaces")
ATTACK(nested_fsopen, "nested-fsopen", "open a file system in a nested user namespace with the new mount calls (CVE-2021-41133)",
       BY_SECCOMP, CONTROL_HOST, "EPERM EACCES ENOSPC EUSERS", "this host restricts user namespaces")
ATTACK(nested_mount, "nested-mount", "mount in a nested user namespace", BY_SECCOMP | BY_LANDLOCK, CONTROL_HOST,
       "EPERM EACCES ENOSPC EUSERS", "this host restricts user namespaces")
ATTACK(tiocsti, "tiocsti", "type into a terminal (CVE-2017-5226)", BY_SECCOMP, CONTROL_HOST, "EIO", "dev.tty.legacy_tiocsti is off")
ATTACK(tiocsti_high_bits, "tiocsti-high-bits", "type into a terminal with high bits set in the request (CVE-2019-10063)", BY_SECCOMP,
       CONTROL_HOST, "EIO", "dev.tty.legacy_tiocsti is off")
ATTACK(int80, "int80", "make a 32-bit system call by int 0x80", BY_SECCOMP, CONTROL_HOST, "SIGSEGV", "no 32-bit system calls here")
ATTACK(x32, "x32", "make an x32 system call", BY_SECCOMP, CONTROL_HOST, "", "")
ATTACK(af_packet, "af-packet", "capture network frames", BY_SECCOMP | BY_CAPS, CONTROL_USERNS, "EAFNOSUPPORT",
       "this kernel has no AF_PACKET")
ATTACK(bpf, "bpf", "make a BPF map", BY_SECCOMP | BY_CAPS | BY_USERNS, CONTROL_ROOT, "EPERM", "the caller may not use bpf")
ATTACK(syslog, "syslog", "read the kernel's log", BY_SECCOMP | BY_CAPS | BY_USERNS, CONTROL_ROOT, "EPERM", "the caller lacks CAP_SYSLOG")
ATTACK(load_module, "load-module", "load a kernel module", BY_SECCOMP | BY_CAPS | BY_USERNS, CONTROL_ROOT, "EPERM",
       "the caller may not load modules")
ATTACK(iopl, "iopl", "reach the I/O ports", BY_SECCOMP | BY_CAPS | BY_USERNS, CONTROL_ROOT, "EPERM", "the caller lacks CAP_SYS_RAWIO")
ATTACK(open_by_handle, "open-by-handle", "open a file by its handle, past all path checks", BY_SECCOMP | BY_CAPS | BY_USERNS, CONTROL_ROOT,
       "EPERM EOPNOTSUPP", "this file system gives no handles")
ATTACK(reboot, "reboot", "restart or halt the machine", BY_SECCOMP | BY_CAPS, CONTROL_USERNS, "", "")
ATTACK(sethostname, "set-hostname", "rename the machine", BY_SECCOMP | BY_CAPS, CONTROL_USERNS, "", "")
ATTACK(mount_tmpfs, "mount", "mount a file system", BY_SECCOMP | BY_CAPS | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(remount_usr, "remount-writable", "make /usr writable and change it", BY_SECCOMP | BY_CAPS | BY_LANDLOCK | BY_MNTNS, CONTROL_USERNS,
       "", "")
ATTACK(unmount_proc, "unmount-proc", "take away the /proc with the masked entries", BY_SECCOMP | BY_CAPS | BY_LANDLOCK, CONTROL_USERNS, "",
       "")
ATTACK(chroot, "chroot", "change the root directory", BY_SECCOMP | BY_CAPS, CONTROL_USERNS, "", "")

/* ---- what the host's file system holds (attack_files.c) ---- */
ATTACK(read_secret, "read-host-file", "read a file in the host's /tmp that anyone may read", BY_MNTNS, CONTROL_HOST, "", "")
ATTACK(read_home, "read-home-file", "read a file in the caller's home directory", BY_MNTNS, CONTROL_HOST, "", "")
ATTACK(write_drop, "write-host-dir", "write into a directory of the host that anyone may write", BY_MNTNS, CONTROL_HOST, "", "")
ATTACK(host_shm, "read-host-shm", "read a file in the host's /dev/shm", BY_MNTNS, CONTROL_HOST, "", "")
ATTACK(path_socket, "unix-socket", "talk to a service of the host through a unix socket", BY_MNTNS, CONTROL_HOST, "", "")
ATTACK(host_passwd, "read-host-passwd", "read the host's list of users", BY_MNTNS, CONTROL_HOST, "", "")
ATTACK(host_shadow, "read-shadow", "read the host's password hashes", BY_MNTNS | BY_USERNS, CONTROL_ROOT, "ENOENT",
       "there is no /etc/shadow")
ATTACK(climb_out, "climb-out", "reach a file of the host through the working directory and ..", BY_MNTNS | BY_FDS, CONTROL_HOST, "", "")
ATTACK(leaked_fd, "leaked-descriptor", "use a descriptor that was left open (CVE-2024-21626)", BY_FDS, CONTROL_HOST, "", "")
ATTACK(write_usr, "write-usr", "plant a program in /usr/local", BY_MNTNS | BY_LANDLOCK | BY_USERNS, CONTROL_USERNS, "", "")
ATTACK(write_etc, "write-etc", "plant /etc/ld.so.preload", BY_MNTNS | BY_LANDLOCK | BY_USERNS, CONTROL_USERNS, "", "")
ATTACK(block_device, "read-disk", "read the host's disk", BY_MNTNS | BY_USERNS, CONTROL_ROOT, "EPERM EACCES",
       "the caller may not read it either")
ATTACK(kmsg, "dev-kmsg", "read /dev/kmsg", BY_MNTNS | BY_USERNS, CONTROL_ROOT, "ENOENT EPERM", "there is no /dev/kmsg")
ATTACK(dev_mem, "dev-mem", "open the machine's memory", BY_MNTNS | BY_USERNS, CONTROL_ROOT, "ENOENT EPERM", "there is no /dev/mem")
ATTACK(mknod, "mknod", "make a device node", BY_CAPS | BY_LANDLOCK, CONTROL_ROOT, "EPERM", "the caller lacks CAP_MKNOD")
ATTACK(kallsyms, "kernel-symbols", "read the kernel's symbols", BY_MASKS, CONTROL_HOST, "ENOENT ENODATA", "there is no /proc/kallsyms")
ATTACK(interrupts, "interrupts", "watch the host's interrupts, which tell of keystrokes", BY_MASKS, CONTROL_HOST, "ENOENT ENODATA",
       "there is no /proc/interrupts")
ATTACK(boot_line, "boot-line", "read the kernel's command line", BY_MASKS, CONTROL_HOST, "", "")
ATTACK(keyrings, "keyrings", "list the kernel's keys", BY_MASKS, CONTROL_HOST, "ENOENT ENODATA", "there is no key to be seen")
ATTACK(key_users, "key-users", "list who has keys", BY_MASKS, CONTROL_HOST, "ENOENT ENODATA", "there is no key user to be seen")
ATTACK(timer_list, "timer-list", "read the kernel's timers", BY_MASKS | BY_USERNS, CONTROL_ROOT, "ENOENT ENODATA",
       "there is no /proc/timer_list")
ATTACK(kcore, "kcore", "open the kernel's memory", BY_MASKS | BY_USERNS, CONTROL_ROOT, "ENOENT ENODATA EPERM", "there is no /proc/kcore")
ATTACK(core_pattern, "core-pattern", "have the host run a program on a crash", BY_READONLY | BY_USERNS | BY_LANDLOCK, CONTROL_ROOT,
       "ENOENT EROFS", "core_pattern is read-only here")
ATTACK(sysrq, "sysrq", "open the door to a forced reboot", BY_MASKS | BY_USERNS | BY_LANDLOCK, CONTROL_ROOT, "ENOENT EROFS",
       "there is no /proc/sysrq-trigger")

/* ---- what capabilities would allow (attack_privilege.c) ---- */
ATTACK(read_mode_0000, "read-mode-0000", "read a file whose mode allows nobody to", BY_CAPS, CONTROL_USERNS, "", "")
ATTACK(raw_socket, "raw-socket", "send packets of one's own making", BY_CAPS, CONTROL_USERNS, "", "")
ATTACK(low_port, "low-port", "serve on a privileged port", BY_CAPS, CONTROL_USERNS, "", "")
ATTACK(change_network, "change-network", "reconfigure a network interface", BY_CAPS, CONTROL_USERNS, "", "")
ATTACK(become_root, "become-root", "change to another user id", BY_CAPS | BY_USERNS, CONTROL_USERNS, "EINVAL",
       "only the caller's id can be mapped")
ATTACK(chown_other, "chown", "give a file to another user", BY_CAPS | BY_USERNS, CONTROL_USERNS, "EINVAL",
       "only the caller's id can be mapped")
ATTACK(forge_credentials, "forge-credentials", "claim another user's id on a unix socket", BY_CAPS | BY_USERNS, CONTROL_USERNS,
       "EINVAL EPERM", "only the caller's id can be mapped")
ATTACK(setuid_program, "setuid-program", "gain the rights of a setuid program", BY_NNP | BY_USERNS | BY_MNTNS, CONTROL_HOST,
       "ENOENT EINVAL EPERM", "the caller cannot gain rights either")
ATTACK(write_own_memory, "write-own-code", "rewrite read-only memory through /proc/self/mem", BY_LANDLOCK, CONTROL_HOST, "EIO EACCES",
       "this kernel forbids forced writes")
ATTACK(write_comm, "forge-name", "take another process name through /proc/self/comm", BY_LANDLOCK, CONTROL_HOST, "", "")
ATTACK(steer_oom, "steer-oom-killer", "point the OOM killer at another process", BY_LANDLOCK, CONTROL_HOST, "", "")
ATTACK(clear_refs, "clear-refs", "reset the page statistics that watchers read", BY_LANDLOCK, CONTROL_HOST, "", "")
ATTACK(all_ids, "all-ids-mapped", "have every user id of the host at hand", BY_USERNS, CONTROL_HOST, "ENODATA",
       "the caller is in a user namespace itself")
ATTACK(owner_root, "host-ids-seen", "see which files the host's root owns", BY_USERNS, CONTROL_HOST, "ENODATA EINVAL",
       "the caller is in a user namespace itself")
ATTACK(same_userns, "same-userns", "be in the host's user namespace", BY_USERNS, CONTROL_HOST, "", "")
ATTACK(same_mntns, "same-mntns", "be in the host's mount namespace", BY_MNTNS, CONTROL_HOST, "", "")
ATTACK(same_pidns, "same-pidns", "be in the host's pid namespace", BY_PIDNS, CONTROL_HOST, "", "")
ATTACK(same_netns, "same-netns", "be in the host's network namespace", BY_NETNS, CONTROL_HOST, "", "")
ATTACK(same_ipcns, "same-ipcns", "be in the host's IPC namespace", BY_IPCNS, CONTROL_HOST, "", "")
ATTACK(same_utsns, "same-utsns", "be in the host's UTS namespace", BY_UTSNS, CONTROL_HOST, "", "")
ATTACK(same_cgroupns, "same-cgroupns", "be in the host's cgroup namespace", BY_CGROUPNS, CONTROL_HOST, "", "")
ATTACK(hostname_uname, "hostname", "learn the host's name from uname", BY_UTSNS, CONTROL_HOST, "", "")
ATTACK(hostname_proc, "hostname-proc", "learn the host's name from /proc/sys", BY_UTSNS, CONTROL_HOST, "", "")
ATTACK(cgroup_self, "cgroup-path", "learn one's place among the host's cgroups", BY_CGROUPNS, CONTROL_HOST, "ENODATA",
       "the caller is in the root cgroups")
ATTACK(cgroup_parent, "cgroup-path-parent", "learn the parent's place among the host's cgroups", BY_CGROUPNS, CONTROL_HOST, "ENODATA",
       "the caller is in the root cgroups")

/* ---- other processes (attack_process.c) ---- */
ATTACK(see_process, "see-process", "find out whether a process of the host is there", BY_PIDNS, CONTROL_HOST, "", "")
ATTACK(pidfd_process, "pidfd-process", "get hold of a process of the host by pidfd", BY_PIDNS, CONTROL_HOST, "", "")
ATTACK(read_cmdline, "read-cmdline", "read the command line of a process of the host", BY_PIDNS, CONTROL_HOST, "", "")
ATTACK(list_processes, "list-processes", "find a process of the host in /proc", BY_PIDNS, CONTROL_HOST, "", "")
ATTACK(read_environ, "read-environ", "read the environment of a process of the host", BY_PIDNS | BY_USERNS, CONTROL_HOST, "", "")
ATTACK(signal_process, "signal-process", "send a signal to a process of the host", BY_PIDNS | BY_USERNS, CONTROL_HOST, "", "")
ATTACK(env_secret, "env-secret", "find a secret of the caller in the environment", BY_ENV, CONTROL_HOST, "", "")
ATTACK(caller_terminal, "caller-terminal", "open the caller's terminal", BY_SESSION, CONTROL_HOST, "ENXIO",
       "selftest was not started from a terminal")
ATTACK(fork_bomb, "fork-bomb", "start twice as many processes as allowed", BY_LIMITS, CONTROL_HOST, "EAGAIN",
       "the caller may not start as many")
ATTACK(ptrace_init, "ptrace-init", "trace pid 1", BY_SECCOMP | BY_INIT | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(read_init_memory, "read-init-memory", "read the memory of pid 1", BY_SECCOMP | BY_INIT | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(open_init_mem, "open-init-mem", "open /proc/1/mem", BY_INIT | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(init_environ, "init-environ", "read the environment of pid 1", BY_INIT | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(steal_init_fd, "steal-init-fd", "take a descriptor of pid 1", BY_SECCOMP | BY_INIT | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(join_init, "join-init", "join the mount namespace of pid 1", BY_SECCOMP | BY_INIT | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(init_root, "init-root", "reach a file of the host through /proc/1/root", BY_MNTNS | BY_INIT | BY_LANDLOCK, CONTROL_USERNS, "", "")
ATTACK(overwrite_init, "overwrite-init", "overwrite the program of pid 1 (CVE-2019-5736)", BY_INIT | BY_LANDLOCK | BY_MNTNS, CONTROL_USERNS,
       "", "")
ATTACK(overwrite_self, "overwrite-self", "overwrite the program given by the host (CVE-2019-5736)", BY_MNTNS | BY_USERNS, CONTROL_HOST, "",
       "")

/* ---- network and IPC (attack_network.c) ---- */
ATTACK(tcp4, "tcp-ipv4", "talk to a service on the host's 127.0.0.1", BY_NETNS, CONTROL_HOST, "", "")
ATTACK(tcp6, "tcp-ipv6", "talk to a service on the host's ::1", BY_NETNS, CONTROL_HOST, "", "")
ATTACK(udp4, "udp-ipv4", "exchange datagrams with the host's 127.0.0.1", BY_NETNS, CONTROL_HOST, "", "")
ATTACK(udp6, "udp-ipv6", "exchange datagrams with the host's ::1", BY_NETNS, CONTROL_HOST, "", "")
ATTACK(list_sockets, "list-sockets", "find a listening socket of the host in /proc/net/tcp", BY_NETNS, CONTROL_HOST, "", "")
ATTACK(abstract_socket, "abstract-socket", "talk to a service of the host through an abstract unix socket", BY_NETNS | BY_LANDLOCK,
       CONTROL_HOST, "", "")
ATTACK(interfaces, "interfaces", "see the host's network interfaces", BY_NETNS, CONTROL_HOST, "ENODATA", "the host has none but lo")
ATTACK(sysv_shm, "sysv-shm", "attach shared memory of the host", BY_IPCNS, CONTROL_HOST, "", "")
ATTACK(sysv_msg, "sysv-msg", "read a message queue of the host", BY_IPCNS, CONTROL_HOST, "", "")
ATTACK(sysv_sem, "sysv-sem", "change a semaphore of the host", BY_IPCNS, CONTROL_HOST, "", "")
ATTACK(posix_mq, "posix-mq", "read a POSIX message queue of the host", BY_IPCNS | BY_LANDLOCK, CONTROL_HOST, "", "")
ATTACK(list_sysv, "list-sysv", "find shared memory of the host in /proc/sysvipc", BY_IPCNS, CONTROL_HOST, "ENOENT",
       "there is no /proc/sysvipc")
