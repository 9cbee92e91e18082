#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ask.py SERVER WORD: asks a resolver for names that carry a word out, or that are made to be read in two ways. A line "NAME: ANSWER" each, where the answer is the error,
"nothing", or addresses."""
import ipaddress
import socket
import struct
import sys

ERRORS = {0: "", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
server, word = sys.argv[1].encode().decode(), sys.argv[2].encode()


def wire(labels):
    return b"".join(bytes([len(l)]) + l for l in labels) + b"\0"


def labels(text):
    return [l for l in text.split(b".") if l]


def query(name, kind=1, flags=0x0100, more=b"", counts=(1, 0, 0, 0), of=1):
    return b"\x51\x52" + struct.pack(">HHHHH", flags, *counts) + name + struct.pack(">HH", kind, of) + more


def skip_name(data, at):
    while data[at] and data[at] < 0xc0:
        at += 1 + data[at]
    return at + (2 if data[at] >= 0xc0 else 1)


def read(reply):
    code, questions, answers = reply[3] & 15, *struct.unpack_from(">HH", reply, 4)
    at, found = 12, []
    for _ in range(questions):
        at = skip_name(reply, at) + 4
    for _ in range(answers):
        at = skip_name(reply, at)
        size, = struct.unpack_from(">H", reply, at + 8)
        if size in (4, 16):
            found.append(str(ipaddress.ip_address(reply[at + 10:at + 10 + size])))
        at += 10 + size
    return ERRORS.get(code, str(code)) or " ".join(found) or "nothing"


def ask(data, stream=False):
    s = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    s.settimeout(2)
    s.connect((server, 53))
    try:
        if not stream:
            s.send(data)
            return read(s.recv(65536))
        s.sendall(struct.pack(">H", len(data)) + data)
        f = s.makefile("rb")
        return read(f.read(struct.unpack(">H", f.read(2))[0]))
    except TimeoutError:
        return "silence"
    except (OSError, struct.error):
        return "closed"


api, evil = [b"api", b"example"], [b"evil", b"example"]
CASES = {
    "allowed": query(wire(api)),
    "allowed in capitals": query(wire([b"API", b"eXample"])),
    "allowed, IPv6": query(wire(api), 28),
    "denied": query(wire([word, *evil])),
    "below the allowed name": query(wire([word, *api])),
    "the allowed name in front": query(wire([*api, word, *evil])),
    "a long label": query(wire([word.ljust(63, b"x"), *evil])),
    "a long name": query(wire([word.ljust(63, b"x"), b"y" * 63, b"z" * 63, b"w" * 40, *evil])),
    "a label that is too long": query(bytes([64]) + word.ljust(64, b"x") + wire(evil)),
    "a name that is too long": query(wire([word] + [b"x" * 50] * 6 + evil)),
    "a NUL in a label": query(wire([b"api", b"example\0" + word, *evil])),
    "a NUL behind the allowed name": query(wire([b"api", b"example\0", word])),
    "a denied name, NUL, the allowed one": query(wire([word, b"evil", b"example\0", *api])),
    "a dot in a label": query(wire([b"api.example"])),
    "a dot in a label, denied": query(wire([word + b".evil", b"example"])),
    "an escape in a label": query(wire([b"api\\", b"example"])),
    "a terminal's commands": query(wire([b"\x1b[2J\n\r", word, *evil])),
    "UTF-8": query(wire(["аpi".encode(), b"example"])),
    "a homograph": query(wire([b"xn--pi-6kc", b"example"])),
    "full width": query(wire(["ａｐｉ".encode(), b"example"])),
    "a number": query(wire([b"9", b"9", b"9", b"66"])),
    "a hexadecimal number": query(wire([b"0x7f000001"])),
    "the root": query(wire([])),
    "a compressed name": query(b"\3api\xc0\x0c"),
    "a name that points at itself": query(b"\xc0\x0c"),
    "TXT of the allowed name": query(wire(api), 16),
    "HTTPS of the allowed name": query(wire(api), 65),
    "SRV below the allowed name": query(wire([b"_" + word, b"_tcp", *api]), 33),
    "MX of a denied name": query(wire([word, *evil]), 15),
    "PTR of a public address": query(wire(labels(b"66.9.9.9.in-addr.arpa")), 12),
    "ANY of a denied name": query(wire([word, *evil]), 255),
    "a transfer": query(wire([b"example"]), 252),
    "two questions": query(wire(api), more=wire([word, *evil]) + b"\0\1\0\1", counts=(2, 0, 0, 0)),
    "an update": query(wire([word, *evil]), 6, 0x2800),
    "another class": query(wire([word, *evil]), of=3),
    "with EDNS and a client subnet": query(wire([word, *evil]), more=b"\0\0\x29\x10\0\0\0\0\0\0\x0b\0\x08\0\x07\0\1\x18\0" + b"\x09\x09\x09", counts=(1, 0, 0, 1)),
    "cut off": query(wire([word, *evil]))[:20],
}
for name, data in CASES.items():
    print(f"{name}: {ask(data)}", flush=True)
for name in "allowed", "denied", "a NUL in a label", "a long name":
    print(f"{name}, by TCP: {ask(CASES[name], True)}", flush=True)
