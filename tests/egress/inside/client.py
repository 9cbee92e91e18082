#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""client.py LIBRARY URL: fetches it, as programs do that use this library."""
import asyncio
import base64
import http.client
import os
import socket
import ssl
import sys
import urllib.request
from urllib.parse import urlsplit

CA = os.environ["SSL_CERT_FILE"]


def by_urllib(url):
    return urllib.request.urlopen(url).read().decode()


def by_http_client(url):
    u = urlsplit(url)
    c = http.client.HTTPSConnection(u.hostname, u.port) if u.scheme == "https" else http.client.HTTPConnection(u.hostname, u.port)
    bodies = []
    for _ in range(3):  # on one connection
        c.request("GET", u.path or "/")
        bodies.append(c.getresponse().read().decode())
    assert len(set(bodies)) == 1
    return bodies[0]


def by_ssl(url):
    u = urlsplit(url)
    with ssl.create_default_context().wrap_socket(socket.create_connection((u.hostname, u.port or 443)), server_hostname=u.hostname) as s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: {u.hostname}\r\nConnection: close\r\n\r\n".encode())
        return s.makefile().read().split("\n\n")[-1]


def by_requests(url):
    import requests
    return requests.get(url).text


def by_httpx(url):
    import httpx
    return httpx.get(url, verify=CA).text


def by_httpx2(url):
    import httpx
    with httpx.Client(http2=True, verify=CA) as c:
        r = c.get(url)
        return f"{r.http_version} {r.text}"


def by_aiohttp(url):
    import aiohttp

    async def get():
        async with aiohttp.ClientSession() as s, s.get(url, ssl=ssl.create_default_context(cafile=CA)) as r:
            return await r.text()

    return asyncio.run(get())


def by_post(url):
    """A body in chunks, and one with a length."""
    u = urlsplit(url)
    c = http.client.HTTPSConnection(u.hostname, u.port) if u.scheme == "https" else http.client.HTTPConnection(u.hostname, u.port)
    sizes = []
    for body in (b"x" * 100_000 for _ in range(3)), b"y" * 300_000:
        c.request("POST", "/echo", body, encode_chunked=not isinstance(body, bytes), headers={} if isinstance(body, bytes) else {"Transfer-Encoding": "chunked"})
        sizes.append(c.getresponse().read().decode().split('"size": ')[1].split(",")[0])
    return " ".join(sizes)


def by_websocket(url):
    u = urlsplit(url)
    s = socket.create_connection((u.hostname, u.port or (443 if u.scheme == "wss" else 80)))
    if u.scheme == "wss":
        s = ssl.create_default_context().wrap_socket(s, server_hostname=u.hostname)
    s.sendall(f"GET /upgrade HTTP/1.1\r\nHost: {u.hostname}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
              "Sec-WebSocket-Version: 13\r\n\r\n".encode())
    f = s.makefile("rb")
    status = f.readline().split()[1].decode()
    while f.readline().strip():
        pass
    said = []
    # what looks like a request for somebody else is a message here, and nobody's business
    for text in b"hello", b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n":
        mask = os.urandom(4)
        s.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))
        said.append(f.read(f.read(2)[1]) == text)
    return f"{status} {said}"


print(globals()[f"by_{sys.argv[1]}"](sys.argv[2]).strip())
