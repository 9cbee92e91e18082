# SPDX-License-Identifier: Apache-2.0
"""The servers of the world: web, plain TCP, and those that misbehave. One thread per connection."""
import hashlib
import socket
import ssl
import struct
import threading
import time

import web

LINGER_RESET = struct.pack("ii", 1, 0)


class World:
    def __init__(self, dir, evil_word):
        self.dir, self.evil_word = dir, evil_word
        self.lock = threading.Lock()
        self.log_file = open(f"{dir}/log", "a", buffering=1)
        self.gates = {}  # of those who wait for each other
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(f"{dir}/key/leaf.pem", f"{dir}/key/leaf.key")
        self.context.sni_callback = note_name
        self.slow_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # wants another key than clients send first
        self.slow_context.load_cert_chain(f"{dir}/key/leaf.pem", f"{dir}/key/leaf.key")
        self.slow_context.sni_callback = note_name
        self.slow_context.set_ecdh_curve("secp521r1")
        self.repository = web.make_repository(dir)

    def log(self, who, what):
        with self.lock:
            self.log_file.write(f"{who} {what}\n")

    def listen(self, address, port, handler, who, wrap=None):
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in address:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((address, port))
        s.listen(4096)

        def one(conn):
            self.log(who, f"connected {port}")
            try:
                if wrap:
                    conn = wrap(conn, who)
                handler(self, conn, who)
            except (OSError, EOFError, ValueError) as e:
                self.log(who, f"broken {type(e).__name__}")
            finally:
                conn.close()

        def accept():
            while True:
                conn, _ = s.accept()
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=one, args=(conn,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def tls(self, address, port, handler, who, context=None):
        self.listen(address, port, handler, who, wrap=lambda conn, who: self.handshake(conn, who, context or self.context))

    def handshake(self, conn, who, context):
        wrapped = context.wrap_socket(conn, server_side=True)
        self.log(who, f"tls {getattr(wrapped, 'asked_for', None)}")
        return wrapped

    def web(self, address, who):
        self.tls(address, 443, http, who)
        self.listen(address, 80, http, who)
        self.tls(address, 8443, http, who)
        self.tls(address, 8444, http, who, self.slow_context)

    def evil(self, address):
        """Whoever gets here has got out."""
        for port in 80, 8080, 53, 7000:
            self.listen(address, port, evil, f"evil-{address}")
        for port in 443, 853:
            self.tls(address, port, evil, f"evil-{address}")
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        if ":" in address:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((address, 7000))

        def datagrams():
            while True:
                _, peer = s.recvfrom(4096)
                self.log(f"evil-{address}", "datagram")
                s.sendto(self.evil_word.encode(), peer)

        threading.Thread(target=datagrams, daemon=True).start()

    def tcp_services(self, address):
        for port, handler in (7000, echo), (7001, greet), (7002, half), (7003, drip), (7004, sink), (7005, early_end), (7006, source):
            self.listen(address, port, handler, f"tcp-{port}")

    def full(self, address, port):
        """A queue that has no room left: whoever dials waits in vain."""
        s = socket.socket()
        s.bind((address, port))
        s.listen(0)
        self.kept = [s]
        for _ in range(2):
            c = socket.socket()
            c.setblocking(False)
            c.connect_ex((address, port))
            self.kept.append(c)

    def gate(self, name, count):
        with self.lock:
            return self.gates.setdefault((name, count), threading.Barrier(count, timeout=120))


def note_name(conn, name, _context):
    conn.asked_for = name


def http(w, conn, who):
    web.serve(w, conn, who)


def evil(w, conn, who):
    data = b""
    try:
        conn.settimeout(1)
        data = conn.recv(65536)
    except OSError:
        pass
    w.log(who, "answered")
    conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(w.evil_word) + 1}\r\nConnection: close\r\n\r\n{w.evil_word}\n".encode())


def echo(w, conn, who):
    while data := conn.recv(65536):
        conn.sendall(data)


def greet(w, conn, who):
    """Speaks first, as mail and ssh servers do."""
    conn.sendall(b"220 welcome\r\n")
    conn.sendall(b"you said " + conn.recv(100))


def half(w, conn, who):
    """Answers when the other side has ended: how much there was, and its checksum."""
    sum, size = hashlib.sha256(), 0
    while data := conn.recv(1 << 20):
        sum.update(data)
        size += len(data)
    conn.sendall(f"{size} {sum.hexdigest()}\n".encode())


def early_end(w, conn, who):
    """Ends first, and goes on reading."""
    conn.sendall(b"that is all\n")
    conn.shutdown(socket.SHUT_WR)
    size = 0
    while data := conn.recv(1 << 20):
        size += len(data)
    w.log(who, f"read {size}")


def drip(w, conn, who):
    """A byte now and then, for as long as anybody listens."""
    while True:
        conn.sendall(b".")
        time.sleep(0.2)


def sink(w, conn, who):
    """Takes nothing: says that it is there, and waits for the end of the other side without reading."""
    conn.sendall(b"!")
    w.gate("never", 1 << 20).wait()


def source(w, conn, who):
    """As many bytes as it is asked for: "N\\n"."""
    size = int(conn.makefile("rb").readline())
    for piece in web.stream(size):
        conn.sendall(piece)


def reset(w, conn, who):
    """Hears the first bytes and breaks off."""
    conn.recv(100)
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
