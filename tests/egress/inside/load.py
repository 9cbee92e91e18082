#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""load.py WHAT ARG…: what a client does to find out what the way out bears."""
import hashlib
import http.client
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time


def connect(name, port, patience=60):
    return socket.create_connection((name, port), patience)


def request(s, name, target):
    s.sendall(f"GET {target} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())


def parallel(name, count, *_):
    """So many connections at once: the server answers when all of them are there."""
    all = []
    for _ in range(int(count)):
        all.append(connect(name, 80))
        request(all[-1], name, f"/gate?{count},parallel")
    print(sum(s.recv(4096).endswith(b"all here\n") for s in all))


def download(url):
    """By curl: its size and checksum."""
    curl = subprocess.Popen(["curl", "-sS", url], stdout=subprocess.PIPE)
    sum, size = hashlib.sha256(), 0
    while piece := curl.stdout.read(1 << 20):
        sum.update(piece)
        size += len(piece)
    print(size, sum.hexdigest())
    sys.exit(curl.wait())


def upload(name, port, size):
    """The other side says what it got when this one has ended, and ended only its half."""
    s, sum = connect(name, int(port)), hashlib.sha256()
    for at in range(0, int(size), 1 << 16):
        piece = struct.pack(">Q", at) * (1 << 13)
        sum.update(piece)
        s.sendall(piece)
    s.shutdown(socket.SHUT_WR)
    print(s.makefile().read().strip() == f"{size} {sum.hexdigest()}")


def early_end(name, port):
    """The other side ends its half first, and reads on."""
    s = connect(name, int(port))
    said = s.makefile().read()
    for _ in range(10):
        s.sendall(b"x" * 100_000)
    s.shutdown(socket.SHUT_WR)
    print(said.strip())


def slow(name, count):
    """Slow clients, each with less than a request, do not keep others out; nor do slow servers."""
    kept = []
    for i in range(int(count)):
        kept.append(connect(name, (80, 443)[i % 2]))
        kept[-1].sendall(b"GET / HT" if i % 2 == 0 else b"\x16\x03\x01\x02\x00\x01")
    for _ in range(20):
        kept.append(connect(name, 80))
        request(kept[-1], name, "/stuck")
    for s in kept:  # one more byte each
        s.sendall(b"T" if s.getpeername()[1] == 80 else b"\x00")
    c = http.client.HTTPSConnection(name)
    c.request("GET", "/")
    print(c.getresponse().read().decode().strip())
    print(len(kept), sum(bool(select.select([s], [], [], 0)[0]) and not s.recv(1, socket.MSG_PEEK) for s in kept))


def one_sided(name, port):
    """A server that takes nothing: what it does not take is not sent for long, and the connection stays."""
    s = connect(name, int(port))
    assert s.recv(1) == b"!"
    s.setblocking(False)
    sent = 0
    while select.select([], [s], [], 1)[1]:
        sent += s.send(b"x" * (1 << 16))
    print("held back" if sent < 64 << 20 else sent)


def drip(name, port):
    """A server that is slow is waited for."""
    f = connect(name, int(port)).makefile("rb")
    print(f.read(10).decode())


def reset(name):
    s = connect(name, 443)
    import hello
    s.sendall(hello.client_hello(name))
    try:
        print(s.recv(1))
    except ConnectionResetError:
        print("reset")


def names(suffix, count):
    """Asks for that many allowed names."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("198.18.0.1", 53))
    s.settimeout(5)
    good = 0
    for i in range(int(count)):
        name = f"n{i}.{suffix}".split(".")
        s.send(struct.pack(">HHHHHH", i & 0xffff, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in name) + b"\0\0\1\0\1")
        good += s.recv(512)[3] & 15 != 3
    print(good)


def until_refused(name, most):
    """One connection after the other, until there are no more, or that many."""
    n = 0
    try:
        for n in range(int(most)):
            with connect(name, 80, 5) as s:
                request(s, name, "/")
                if not s.recv(1):
                    break
    except OSError:
        pass
    print(n)


def watch(name, dir):
    """Keeps a connection open, and when it is cut makes new ones until one is good; says in files how far it is. Again for each file "again-N"."""
    def note(word):
        with open(f"{dir}/{word}.new", "w") as f:
            f.write(word)
        os.rename(f"{dir}/{word}.new", f"{dir}/{word}")

    s = connect(name, 80, None)
    request(s, name, "/stuck")
    s.recv(10)
    note("open")
    try:
        while s.recv(100):
            pass
    except ConnectionResetError:
        pass
    note("cut")
    n = 0
    while True:
        try:
            c = http.client.HTTPSConnection(name, timeout=5)
            c.request("GET", "/")
            c.getresponse().read()
            note("good")
        except OSError as e:
            n += 1
            with open(f"{dir}/errors", "a") as f:
                f.write(f"{e}\n")
        time.sleep(0.05)


globals()[sys.argv[1]](*sys.argv[2:])
