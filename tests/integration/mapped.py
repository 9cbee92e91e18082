#!/usr/bin/python3
"""mapped.py FIRST COUNT COMMAND…: runs a command as root of a new user namespace that has COUNT ids, FIRST and the ones after it outside.

What newuidmap(1) does for a container; here the caller is root and writes the maps itself. The command gets a mount namespace with a /run of
its own, as a container has one.
"""
import ctypes
import os
import sys

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
first, count = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
born, born_w = os.pipe()
mapped, mapped_w = os.pipe()
child = os.fork()
if child == 0:
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
    os.close(mapped_w)
    os.write(born_w, b"x")
    if os.read(mapped, 1) != b"x":
        os._exit(1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    for fd in born, born_w, mapped:
        os.close(fd)
    if libc.mount(b"none", b"/run", b"tmpfs", 0, None):
        sys.exit("mount: " + os.strerror(ctypes.get_errno()))
    os.chdir(os.environ["HOME"])
    os.execvp(sys.argv[3], sys.argv[3:])
os.close(born_w)
if os.read(born, 1) != b"x":
    sys.exit(1)
for kind in "uid", "gid":
    with open(f"/proc/{child}/{kind}_map", "w") as f:
        f.write(f"0 {first} {count}\n")
os.write(mapped_w, b"x")
os.close(mapped_w)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
