# SPDX-License-Identifier: Apache-2.0
"""What a sandbox does: asks for names, connects, speaks HTTP and TLS."""
import errno
import socket
import ssl
import struct
import time

A, AAAA, TXT, HTTPS = 1, 28, 16, 65


def query(name, kind, number=0x1234):
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
    return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def read_answer(data):
    """(rcode, addresses) of an answer to a query of ours."""
    number, flags, _, answers, _, _ = struct.unpack_from(">HHHHHH", data)
    at, found = 12, []
    while data[at]:
        at += 1 + data[at]
    at += 5
    for _ in range(answers):
        at += 2 if data[at] & 0xC0 else data.index(0, at) - at + 1
        kind, _, _, size = struct.unpack_from(">HHIH", data, at)
        at += 10
        if kind in (A, AAAA):
            found.append(socket.inet_ntop(socket.AF_INET if kind == A else socket.AF_INET6, data[at : at + size]))
        at += size
    return flags & 15, found


def ask(name, kind=A, server="198.18.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        for _ in range(20):  # as resolvers do: a datagram may be lost
            s.sendto(query(name, kind), (server, 53))
            try:
                return read_answer(s.recv(4096))
            except TimeoutError:
                continue
        raise AssertionError(f"no answer about {name}")


def address_of(name, kind=A):
    code, found = ask(name, kind)
    assert code == 0 and len(found) == 1, (name, code, found)
    return found[0]


def connect(name, port, kind=A):
    return dial(address_of(name, kind), port)


def dial(address, port):
    s = socket.create_connection((address, port))
    s.settimeout(60)
    return s


def read_all(s):
    got = b""
    while data := s.recv(65536):
        got += data
    return got


def read_exactly(s, n):
    got = b""
    while len(got) < n:
        data = s.recv(n - len(got))
        assert data, f"ended after {len(got)} of {n} bytes"
        got += data
    return got


def is_reset(s, send=b""):
    try:
        if send:
            s.sendall(send)
        return s.recv(1) != b"" and False
    except OSError as e:
        return e.errno in (errno.ECONNRESET, errno.EPIPE)
    finally:
        s.close()


def request(host, path="/", more=""):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


def read_response(s):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += read_exactly(s, 1)
    length = next((int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")), 0)
    return head, read_exactly(s, length)


def eventually(what, holds):
    for _ in range(6000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError(what)


def tls_client(s, name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(s, server_hostname=name)


def client_hello(name):
    """The bytes of a ClientHello for this name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("a handshake with nobody")
