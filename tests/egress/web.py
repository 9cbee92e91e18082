# SPDX-License-Identifier: Apache-2.0
"""A web server that believes what it is told, as the worst of them do: lines end in LF, a colon may have space before it, the last Host wins, chunks before
lengths, CONNECT to anywhere. So what a check in front of it misses, it serves. Pages by Host: evil.example is what must not be reached."""
import base64
import hashlib
import io
import json
import os
import socket
import struct
import subprocess
import tarfile
import threading
import zipfile

BLOCK = hashlib.shake_256(b"cordon").digest(65528)


def stream(size):
    """`size` bytes, each block of which differs from the others."""
    at = 0
    while at < size:
        piece = struct.pack(">Q", at) + BLOCK
        yield piece[:size - at]
        at += len(piece)


def checksum(size):
    sum = hashlib.sha256()
    for piece in stream(size):
        sum.update(piece)
    return sum.hexdigest()


class Request:
    """One request, read from a file of lines; `eof` if there is none."""

    def __init__(self, f):
        while (line := f.readline(65536)) in (b"\n", b"\r\n"):
            pass
        self.eof = not line
        if self.eof:
            return
        parts = line.decode("latin-1").split()
        if len(parts) < 2:
            raise ValueError("no request")
        self.method, self.target, self.fields = parts[0], parts[1], {}
        name = None
        while len(parts) > 2 and (line := f.readline(65536).decode("latin-1").rstrip("\r\n")):
            if line[0] in " \t" and name:
                self.fields[name] += line.strip()
            else:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                self.fields[name] = value.strip()
        self.host = self.fields.get("host", "")
        if "://" in self.target:
            self.host, _, path = self.target.partition("://")[2].partition("/")
            self.target = "/" + path
        self.body = self.read_body(f)

    def read_body(self, f):
        if "chunked" in self.fields.get("transfer-encoding", "") and not self.target.startswith("/by-length"):
            body = b""
            while size := int(f.readline().split(b";")[0], 16):
                body += f.read(size)
                f.readline()
            while f.readline().strip():
                pass
            return body
        if self.fields.get("expect", "") == "100-continue":
            self.continues(f)
        return f.read(int(self.fields.get("content-length") or 0))

    def continues(self, f):
        f.conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def reply(conn, status, body, kind="text/plain", more=""):
    conn.sendall(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)


def serve(w, conn, who):
    f = Buffered(conn)
    while not (r := Request(f)).eof:
        host = r.host.rsplit("@")[-1].lower()
        w.log(who, f"request {r.method} {host} {r.target}")
        if r.method == "CONNECT":
            return relay(w, conn, r.target)
        if "evil" in host:
            w.log("evil-page", host)
            reply(conn, "200 OK", w.evil_word.encode() + b"\n")
        else:
            path, _, query = r.target.partition("?")
            page = next((p for prefix, p in PAGES if path.startswith(prefix)), not_found)
            if page(w, conn, r, path, query) is False:
                return
        if r.fields.get("connection", "").lower() == "close":
            return


class Buffered:
    """Lines and bytes of a connection, of which the rest can be had."""

    def __init__(self, conn):
        self.conn, self.f = conn, conn.makefile("rb")

    def readline(self, limit=65536):
        return self.f.readline(limit)

    def read(self, size):
        return self.f.read(size) if size else b""


def relay(w, conn, target):
    """The world's names are known to its proxy."""
    import world
    host, _, port = target.rpartition(":")
    w.log("proxy-connect", target)
    address = (world.HOSTS.get(host) or world.ZONES.get(host) or [host.strip("[]")])[0]
    there = socket.create_connection((address, int(port)))
    conn.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")

    def copy(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    back = threading.Thread(target=copy, args=(there, conn), daemon=True)
    back.start()
    copy(conn, there)
    back.join()
    there.close()


# ---- pages ----

def hello(w, conn, r, path, query):
    name = getattr(conn, "asked_for", None)
    reply(conn, "200 OK", f"hello from {r.host.split(':')[0]}{' by TLS' if name else ''}\n".encode())


def not_found(w, conn, r, path, query):
    reply(conn, "404 Not Found", b"there is no such page\n")


def echoed(w, conn, r, path, query):
    reply(conn, "200 OK", json.dumps({"method": r.method, "host": r.host, "fields": r.fields, "size": len(r.body), "sha256": hashlib.sha256(r.body).hexdigest()}).encode(), "application/json")


def key(w, conn, r, path, query):
    """What it was given stays here, in the log; but for /key/told, which says it aloud."""
    given = {name: r.fields.get(name, "") for name in ("authorization", "x-api-key")}
    w.log("key", f"{r.method} {path} {json.dumps(given)}")
    told = json.dumps(given).encode() if path == "/key/told" else b""
    reply(conn, "200 OK", b"by " + (b"TLS" if getattr(conn, "asked_for", None) else b"plain HTTP") + told + b"\n", more="X-Told: " + given["authorization"] + "\r\n" if told else "")


def say(w, conn, r, path, query):
    reply(conn, "200 OK", query.encode())


def big(w, conn, r, path, query):
    size = int(query)
    conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
    for piece in stream(size):
        conn.sendall(piece)


def gate(w, conn, r, path, query):
    """Answers when so many ask at the same time."""
    count, _, name = query.partition(",")
    w.gate(name, int(count)).wait()
    reply(conn, "200 OK", b"all here\n")


def stuck(w, conn, r, path, query):
    """Half a head, and no more."""
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")
    w.gate("never", 1 << 20).wait()


def upgrade(w, conn, r, path, query):
    """A web socket that sends back what it gets, unmasked; /upgrade/no: not agreed to."""
    if path.endswith("/no"):
        return reply(conn, "200 OK", b"rather not\n")
    accept = base64.b64encode(hashlib.sha1(r.fields["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    conn.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    while True:
        head = read_exactly(conn, 2)
        size = head[1] & 127
        mask = read_exactly(conn, 4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(read_exactly(conn, size)))
        conn.sendall(bytes([head[0], len(data)]) + data)
        if head[0] & 15 == 8:
            return False


def read_exactly(conn, size):
    data = b""
    while len(data) < size:
        if not (more := conn.recv(size - len(data))):
            raise EOFError
        data += more
    return data


# ---- what the registries have ----

def wheel():
    """greeting 1.0: one module."""
    files = {"greeting.py": "def greet(name):\n    return f'hello {name}'\n",
             "greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
             "greeting-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files["greeting-1.0.dist-info/RECORD"] = "".join(f"{n},,\n" for n in [*files, "greeting-1.0.dist-info/RECORD"])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return out.getvalue()


def package():
    """left-foot 1.0.0: one module."""
    files = {"package.json": json.dumps({"name": "left-foot", "version": "1.0.0", "main": "index.js"}), "index.js": "module.exports = () => 'left'\n"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


WHEEL, PACKAGE = wheel(), package()


def simple(w, conn, r, path, query):
    if path.rstrip("/") != "/simple/greeting":
        return not_found(w, conn, r, path, query)
    link = f"https://files.example/files/greeting-1.0-py3-none-any.whl#sha256={hashlib.sha256(WHEEL).hexdigest()}"
    reply(conn, "200 OK", f'<!DOCTYPE html><html><body><a href="{link}">greeting-1.0-py3-none-any.whl</a></body></html>'.encode(), "text/html")


def wheel_file(w, conn, r, path, query):
    reply(conn, "200 OK", WHEEL, "application/octet-stream")


def npm(w, conn, r, path, query):
    if path.endswith(".tgz"):
        return reply(conn, "200 OK", PACKAGE, "application/octet-stream")
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(PACKAGE).digest()).decode()
    version = {"name": "left-foot", "version": "1.0.0", "main": "index.js", "dist": {"tarball": "https://registry.example/left-foot/-/left-foot-1.0.0.tgz", "integrity": integrity}}
    reply(conn, "200 OK", json.dumps({"name": "left-foot", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode(), "application/json")


def make_repository(dir):
    """One commit, served by git's own http-backend."""
    top = f"{dir}/git"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
             "env": {"PATH": os.environ["PATH"], "HOME": dir, "GIT_CONFIG_NOSYSTEM": "1", **{f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}}
    subprocess.run(["git", "init", "-q", "-b", "main", f"{top}/work"], **quiet)
    with open(f"{top}/work/README", "w") as f:
        f.write("cloned\n")
    subprocess.run(["git", "-C", f"{top}/work", "add", "."], **quiet)
    subprocess.run(["git", "-C", f"{top}/work", "commit", "-q", "-m", "first"], **quiet)
    subprocess.run(["git", "clone", "-q", "--bare", f"{top}/work", f"{top}/project.git"], **quiet)
    return top


def git(w, conn, r, path, query):
    backend = subprocess.run(["git", "http-backend"], input=r.body, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={
        "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": w.repository, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": r.method,
        "CONTENT_TYPE": r.fields.get("content-type", ""), "CONTENT_LENGTH": str(len(r.body)), "GIT_PROTOCOL": r.fields.get("git-protocol", ""), "HOME": w.dir,
        "HTTP_CONTENT_ENCODING": r.fields.get("content-encoding", ""), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
    head, _, body = backend.stdout.partition(b"\r\n\r\n")
    fields = [l for l in head.decode().split("\r\n") if not l.lower().startswith("status:")]
    status = next((l[7:].strip() for l in head.decode().split("\r\n") if l.lower().startswith("status:")), "200 OK")
    conn.sendall((f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n" + "".join(l + "\r\n" for l in fields) + "\r\n").encode() + body)


PAGES = [("/key", key), ("/say", say), ("/echo", echoed), ("/by-length", hello), ("/big", big), ("/gate", gate), ("/stuck", stuck), ("/upgrade", upgrade), ("/simple", simple), ("/files/", wheel_file),
         ("/left-foot", npm), ("/project.git", git), ("/", hello)]
