# SPDX-License-Identifier: Apache-2.0
"""A name server of the world: knows its zones, and writes down whatever it is asked."""
import ipaddress
import socket
import struct
import threading

A, AAAA = 1, 28
flips = [0]


def question(query):
    """The name, its type, and where the question ends."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]])
        at += 1 + query[at]
    kind, = struct.unpack_from(">H", query, at + 1)
    return b".".join(labels).decode("latin-1").lower(), kind, at + 5


def answer(w, who, zones, query, by_datagram=False):
    name, kind, end = question(query)
    if name == "flip.example":  # a public address the first time, the host's own from then on
        flips[0] += 1
        addresses = ["9.9.9.10"] if flips[0] == 1 else ["127.0.0.1"]
    else:
        addresses = zones.get(name)
    w.log(who, f"asked {name}")
    found = [ipaddress.ip_address(a).packed for a in addresses or []]
    found = [a for a in found if len(a) == (4 if kind == A else 16 if kind == AAAA else 0)]
    head = query[:2] + struct.pack(">HHHHH", 0x8180 | (0 if addresses is not None else 3), 1, len(found), 0, 0)
    reply = head + query[12:end] + b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(a)) + a for a in found)
    if by_datagram and len(reply) > 512:  # truncated (RFC 1035 4.1.1)
        reply = reply[:2] + bytes([reply[2] | 2]) + reply[3:512]
    return reply


def serve(w, address, who, zones):
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((address, 53))

    def by_datagram():
        while True:
            query, peer = datagrams.recvfrom(4096)
            try:
                datagrams.sendto(answer(w, who, zones, query, True), peer)
            except (IndexError, struct.error, OSError):
                w.log(who, f"asked nonsense {query.hex()}")

    def by_stream(conn):
        f = conn.makefile("rb")
        while len(size := f.read(2)) == 2:
            reply = answer(w, who, zones, f.read(struct.unpack(">H", size)[0]))
            conn.sendall(struct.pack(">H", len(reply)) + reply)

    threading.Thread(target=by_datagram, daemon=True).start()
    w.listen(address, 53, lambda w, conn, who: by_stream(conn), who)
