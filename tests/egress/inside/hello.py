# SPDX-License-Identifier: Apache-2.0
"""ClientHellos made by hand, good ones and others."""
import os
import struct


def vector(size, data):
    return len(data).to_bytes(size, "big") + data


def extension(kind, data):
    return struct.pack(">H", kind) + vector(2, data)


def server_name(*names):
    return extension(0, vector(2, b"".join(b"\0" + vector(2, n.encode("latin-1")) for n in names)))


def client_hello(name, second_extension=None, second_name=None, ech=False, record=16384, shares=None):
    """TLS 1.2, or with a list of key shares 1.3, in records of at most so many bytes."""
    extensions = b""
    if name is not None:
        extensions += server_name(*([name] if second_name is None else [name, second_name]))
    if second_extension is not None:
        extensions += server_name(second_extension)
    extensions += extension(10, vector(2, struct.pack(">HHH", 29, 23, 24)))  # groups
    extensions += extension(11, b"\1\0")
    extensions += extension(13, vector(2, struct.pack(">HHHH", 0x0403, 0x0503, 0x0804, 0x0401)))  # signatures
    if shares is not None:
        extensions += extension(43, vector(1, b"\3\4")) + extension(51, vector(2, b"".join(struct.pack(">H", group) + vector(2, key) for group, key in shares)))
    if ech:  # outer, HKDF-SHA256 and AES-128-GCM, config 1, an encapsulated key and a payload
        extensions += extension(0xfe0d, b"\0" + struct.pack(">HHB", 1, 1, 1) + vector(2, os.urandom(32)) + vector(2, os.urandom(144)))
    body = b"\3\3" + os.urandom(32) + vector(1, os.urandom(32)) + vector(2, struct.pack(">HHHHH", 0x1301, 0xc02b, 0xc02c, 0xcca9, 0xc023)) + b"\1\0" + vector(2, extensions)
    message = b"\1" + vector(3, body)
    return b"".join(b"\x16\3\1" + vector(2, message[at:at + record]) for at in range(0, len(message), record))


def version_2():
    body = b"\1\3\3" + struct.pack(">HHH", 3, 0, 16) + b"\0\0\x2f" + os.urandom(16)
    return struct.pack(">H", 0x8000 | len(body)) + body
