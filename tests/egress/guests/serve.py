#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A server inside a sandbox, for those outside (visit.py): serve.py ADDRESS PORT[,PORT…]. Says "ready" when it listens. The first line of a connection says what to do:

  GET …      an HTTP request; the answer is "hello from inside", or the words behind PORT
  up         takes bytes until they end, then says how many and their checksum
  down N     gives N bytes
  echo       gives back what it gets
  hold       says "held", and waits until the other side goes
  quit       ends the server
"""
import hashlib
import os
import select
import socket
import sys
import threading

BLOCK = bytes(range(256)) * 256


def blocks(size):
    while size > 0:
        yield BLOCK[:min(size, len(BLOCK))]
        size -= len(BLOCK)


def up(c, rest):
    size, sum_ = 0, hashlib.sha256()
    while data := rest.read1(1 << 16):
        size += len(data)
        sum_.update(data)
    c.sendall(f"{size} {sum_.hexdigest()}\n".encode())


def serve(c, hello):
    with c, c.makefile("rb") as rest:
        words = rest.readline().split()
        if words[0] == b"GET":
            c.sendall(b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n" + hello)
        elif words[0] == b"up":
            up(c, rest)
        elif words[0] == b"down":
            for block in blocks(int(words[1])):
                c.sendall(block)
        elif words[0] == b"echo":
            while data := rest.read1(1 << 16):
                c.sendall(data)
        elif words[0] == b"hold":
            c.sendall(b"held\n")
            rest.read()
        elif words[0] == b"quit":
            c.close()
            os._exit(0)


def main():
    address, ports = sys.argv[1], [int(port) for port in sys.argv[2].split(",")]
    hello = (" ".join(sys.argv[3:]) or "hello from inside").encode() + b"\n"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listeners = [socket.create_server((address, port), family=family, backlog=512) for port in ports]
    print("ready", flush=True)
    while True:
        for listener in select.select(listeners, [], [])[0]:
            threading.Thread(target=serve, args=(listener.accept()[0], hello), daemon=True).start()


if __name__ == "__main__":
    main()
