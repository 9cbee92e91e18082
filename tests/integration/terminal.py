#!/usr/bin/python3
"""A person at a terminal: runs a command on a pty of ours, waits for what it prints, types, and tells how it ended.

with Terminal(["cordon", "run", "-it", "--", "sh"]) as t:
    t.expect("$ ")
    t.type("exit 3\\r")
    assert t.wait() == 3
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

TIMEOUT = 20


class Terminal:
    def __init__(self, argv, rows=24, cols=80):
        self.text = ""
        self.seen = 0
        self.ours, theirs = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(theirs)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(theirs, fd)
            os.closerange(3, 256)
            os.execvp(argv[0], argv)
        self.theirs = theirs

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def resize(self, rows, cols):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.ours, text.encode())

    def read(self, seconds):
        ready, _, _ = select.select([self.ours], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.ours, 65536)
        except OSError:  # EIO: nobody has the other side open
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)

    def expect(self, pattern):
        """Waits for the pattern in what was not matched yet, and returns the match."""
        end = time.monotonic() + TIMEOUT
        while True:
            found = re.compile(pattern).search(self.text, self.seen)
            if found:
                self.seen = found.end()
                return found
            if time.monotonic() > end:
                sys.exit(f"did not see {pattern!r} in {self.text[self.seen:]!r}")
            self.read(0.1)

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self):
        """Reads on until the command has ended; returns its status as a shell would see it."""
        end = time.monotonic() + TIMEOUT
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0):
                    pass
                return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            if time.monotonic() > end:
                sys.exit(f"still runs, after {self.text[self.seen:]!r}")
            self.read(0.02)

    def restored(self):
        return termios.tcgetattr(self.theirs) == self.before

    def is_raw(self):
        return not termios.tcgetattr(self.theirs)[3] & termios.ICANON
