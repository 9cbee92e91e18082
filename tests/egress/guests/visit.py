#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Who comes from outside to a server inside (serve.py): visit.py WHAT PORT [N]. Prints what came of it, in one line."""
import hashlib
import socket
import sys
import threading

from serve import blocks

HOST = "127.0.0.1"


def connect(port, word):
    c = socket.create_connection((HOST, port), timeout=60)
    c.sendall(word + b"\n")
    return c


def checksum(size):
    sum_ = hashlib.sha256()
    for block in blocks(size):
        sum_.update(block)
    return sum_.hexdigest()


def up(port, size):
    """The end of what is sent is seen inside, while the answer still comes."""
    c = connect(port, b"up")
    for block in blocks(size):
        c.sendall(block)
    c.shutdown(socket.SHUT_WR)
    answer = c.makefile("rb").read().decode().split()
    return "whole" if answer == [str(size), checksum(size)] else f"{answer}, not {size}"


def down(port, size):
    c, got, sum_ = connect(port, b"down %d" % size), 0, hashlib.sha256()
    while data := c.recv(1 << 16):
        got += len(data)
        sum_.update(data)
    return "whole" if got == size and sum_.hexdigest() == checksum(size) else f"{got} of {size}"


def many(port, count):
    """All at a time: no one is let go before the last one was answered."""
    together, answered = threading.Barrier(count, timeout=60), []

    def one(i):
        c = connect(port, b"echo")
        word = b"%06d" % i * 100
        c.sendall(word)
        c.settimeout(60)
        got = b""
        while len(got) < len(word) and (data := c.recv(1 << 16)):
            got += data
        together.wait()
        if got == word:
            answered.append(i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return len(answered)


def hold(port, _):
    """Until it is cut off; says how."""
    c = connect(port, b"hold")
    print(c.recv(5).decode().strip(), flush=True)
    c.settimeout(60)
    try:
        return "ended" if c.recv(1) == b"" else "talked to"
    except ConnectionResetError:
        return "reset"


def quit(port, _):
    try:
        connect(port, b"quit").recv(1)
    except ConnectionResetError:
        pass
    return "gone"


def refused(port, _):
    """Whether nobody listens, or who does breaks off at once."""
    try:
        c = connect(port, b"GET /")
        return "ended" if c.recv(1) == b"" else "served"
    except ConnectionRefusedError:
        return "refused"
    except ConnectionResetError:
        return "reset"


def listeners(port, _):
    """On which addresses something listens on this port."""
    found = []
    for name in "tcp", "tcp6":
        with open(f"/proc/net/{name}") as table:
            for line in list(table)[1:]:
                local, state = line.split()[1], line.split()[3]
                if state == "0A" and int(local.split(":")[1], 16) == port:
                    found.append(local.split(":")[0])
    return " ".join(sorted(found))


print({f.__name__: f for f in (up, down, many, hold, quit, refused, listeners)}[sys.argv[1]](int(sys.argv[2]), int((sys.argv[3:] or [0])[0])))
