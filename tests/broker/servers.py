# SPDX-License-Identifier: Apache-2.0
"""Servers of the outside: each has a thread that accepts, and one per connection."""
import socket
import ssl
import struct
import threading

from world import in_namespace


class Server:
    """Serves every connection to a port: of any address of the internet, or of the host's that is named. `accepted` counts them."""

    def __init__(self, world, port, serve, address="", family=socket.AF_INET, backlog=4096):
        self.serve, self.accepted, self.connections = serve, 0, []
        self.lock = threading.Condition()

        def bind():
            s = socket.socket(family, socket.SOCK_STREAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, port))
            s.listen(backlog)
            return s

        self.socket = world.call_outside(bind, world.outside if address not in ("", "::") else world.internet)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            with self.lock:
                self.accepted += 1
                self.connections.append(c)
                self.lock.notify_all()
            threading.Thread(target=self.run, args=(c,), daemon=True).start()

    def run(self, c):
        try:
            self.serve(c)
        except OSError:
            c.close()

    def wait_accepted(self, n):
        with self.lock:
            assert self.lock.wait_for(lambda: self.accepted >= n, timeout=60), f"{self.accepted} of {n} connections"
            return self.connections[n - 1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(60)
        for c in self.connections:
            c.close()


def echo(c):
    while data := c.recv(65536):
        c.sendall(data)
    c.close()


def banner(c):
    """Speaks first, and then answers only when the client has ended."""
    c.sendall(b"220 hello\r\n")
    got = b""
    while data := c.recv(65536):
        got += data
    c.sendall(b"got " + got)
    c.close()


def keep(c):
    """Does nothing: the test does."""


def tls_echo(certificate, curve=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if curve:
        context.set_ecdh_curve(curve)

    def serve(c):
        with context.wrap_socket(c, server_side=True) as t:
            while data := t.recv(65536):
                t.sendall(data)

    return serve


def read_head(c):
    head = b""
    while b"\r\n\r\n" not in head:
        data = c.recv(1)
        if not data:
            return None
        head += data
    return head


def http(c):
    """Answers each request with its own head; /big with 8 MB, /upgrade with 101 and an echo."""
    while head := read_head(c):
        target = head.split(b" ")[1]
        if target == b"/upgrade":
            c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            return echo(c)
        body = b"0123456789abcdef" * (8 << 16) if target == b"/big" else head
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    c.close()


class Proxy:
    """Connects to wherever `where` says, whatever it is asked for; writes down what that was."""

    def __init__(self, world, where, answer=b"HTTP/1.1 200 Connection established\r\n\r\n", speaks_first=True):
        self.asked, self.world, self.where, self.answer, self.speaks_first = [], world, where, answer, speaks_first

    def __call__(self, c):
        in_namespace(self.world.outside)
        self.asked.append(read_head(c))
        if b" 200 " not in self.answer:
            c.sendall(self.answer)
            c.close()
            return
        s = socket.create_connection(self.where)
        c.sendall(self.answer + (s.recv(65536) if self.speaks_first else b""))  # in one piece: what is behind the answer is the server's
        threading.Thread(target=pass_on, args=(c, s), daemon=True).start()
        pass_on(s, c)


def pass_on(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)


class NameServer:
    """UDP, answers from a table {name: [addresses]}; others do not exist. `asked` is what it was asked, `queries` all of it. While it is `silent` it does not answer."""

    def __init__(self, world, table):
        self.table, self.asked, self.queries, self.silent = table, [], [], False

        def bind():
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", 53))
            return s

        self.socket = world.call_outside(bind)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                query, client = self.socket.recvfrom(4096)
            except OSError:
                return
            if query:
                self.queries.append(query)
            if query and not self.silent:
                self.socket.sendto(self.answer(query), client)

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        name, (kind,) = ".".join(labels).lower(), struct.unpack_from(">H", query, at + 1)
        self.asked.append(name)
        known = self.table.get(name)
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        found = [socket.inet_pton(family, a) for a in known or [] if family and (":" in a) == (family == socket.AF_INET6)]
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(a)) + a for a in found)
        return query[:2] + struct.pack(">HHHHH", 0x8180 | (3 if known is None else 0), 1, len(found), 0, 0) + query[12 : at + 5] + records

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
