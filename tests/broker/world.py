# SPDX-License-Identifier: Apache-2.0
"""A world for cordon-broker: three network namespaces, one that stands for the airlock and the sandbox, one for the host, one for the internet, and the library's end of the
socket to the broker. Nothing of it is outside of these namespaces."""
import ctypes
import os
import re
import socket
import struct
import subprocess
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
CLONE_NEWNET = 0x40000000
IPV6_FREEBIND = 78
libc = ctypes.CDLL(None, use_errno=True)

MAGIC = 0x434F5231
NO_STRING = 0xFFFFFFFF
CONFIG, AUTHORITY, SECRETS, SOCKETS, READY, EVENT = range(1, 7)
DNS_UDP, DNS_TCP, PORT, DOOR, INSIDE, PUBLISHED = range(1, 7)
KINDS = {1: "denied", 2: "opened", 3: "closed", 4: "failed"}
PUBLIC4, PUBLIC6, SILENT6 = "93.184.216.", "2a00:1450::", "2a00:dead::"
WEB = "host=web.example;ports=80,443;protocol=web"
RAW = "host=raw.example;ports=2222;protocol=tcp"
HOSTS = f"{PUBLIC4}10 web.example\n{PUBLIC4}11 raw.example\n"


def wire_types():
    """The numbers of messages, from the header that defines them."""
    text = open(os.path.join(HERE, "../../src/sandbox/wire.h")).read()
    body = re.search(r"enum wire_type \{(.*?)\};", text, re.S).group(1)
    return {name: i + 1 for i, name in enumerate(re.findall(r"^\s*(WIRE_\w+)", body, re.M))}


TYPES = wire_types()


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def in_namespace(fd):
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def new_namespace():
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    ip("link", "set", "lo", "up")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def local(*blocks):
    for block in blocks:
        ip(*(["-6"] if ":" in block else []), "route", "add", "local", block, "dev", "lo")


class Namespaces:
    """self.inside is where clients live, self.outside is the host, self.internet where servers are; the main thread is inside."""

    def __init__(self):
        self.internet = new_namespace()
        local(PUBLIC4 + "0/24", "10.0.0.0/8", "169.254.169.254/32", PUBLIC6 + "/32", "64:ff9b::/96", "2002::/16")
        self.outside = new_namespace()
        ip("link", "add", "uplink", "type", "veth", "peer", "name", "downlink", "netns", f"/proc/{os.getpid()}/fd/{self.internet}")
        self.join(self.internet, "downlink", "192.0.2.2/24", "2001:db8::2/64")
        self.join(self.outside, "uplink", "192.0.2.1/24", "2001:db8::1/64")
        ip("route", "add", "default", "via", "192.0.2.2")
        ip("-6", "route", "add", "default", "via", "2001:db8::2")
        # what is sent there is never answered
        ip("link", "add", "silent", "type", "veth", "peer", "name", "void")
        for link in ("silent", "void"):
            ip("link", "set", link, "up")
        ip("-6", "address", "add", "2a00:beef::1/64", "dev", "silent", "nodad")
        ip("-6", "route", "add", SILENT6 + "/32", "dev", "silent")
        ip("-6", "neighbour", "add", SILENT6 + "1", "lladdr", "02:00:00:00:00:09", "dev", "silent", "nud", "permanent")
        self.inside = new_namespace()
        local("198.18.0.0/16", "fd00:c0::/32", "10.9.0.0/16")

    def join(self, namespace, link, *addresses):
        in_namespace(namespace)
        ip("link", "set", link, "up")
        for a in addresses:
            ip("address", "add", a, "dev", link, *(["nodad"] if ":" in a else []))

    def call_outside(self, function, where=None):
        in_namespace(self.outside if where is None else where)
        try:
            return function()
        finally:
            in_namespace(self.inside)


# ---- messages ----


def put_string(s):
    return struct.pack("<I", NO_STRING) if s is None else struct.pack("<I", len(s.encode()) + 1) + s.encode() + b"\0"


def take_string(body, at):
    (n,) = struct.unpack_from("<I", body, at)
    if n == NO_STRING:
        return None, at + 4
    return body[at + 4 : at + 4 + n - 1].decode(), at + 4 + n


def send_message(to, kind, body, fds=()):
    message = struct.pack("<IIII", MAGIC, TYPES[kind], len(body), 0) + body
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    to.sendmsg([message], control)


def config_body(policy, proxy, resolv, hosts, connections, bandwidth, trust=None, authority=(None, None)):
    body = struct.pack("<II", CONFIG, len(policy)) + b"".join(put_string(p) for p in policy)
    body += put_string(proxy) + 2 * put_string(None) + put_string(resolv) + put_string(hosts) + put_string(trust) + b"".join(put_string(pem) for pem in authority)
    return body + struct.pack("<IQ", connections, bandwidth)


def take_event(body):
    kind, event_id = struct.unpack_from("<IQ", body, 4)
    e = {"kind": KINDS[kind], "id": event_id}
    e["target"], at = take_string(body, 16)
    (e["port"],) = struct.unpack_from("<I", body, at)
    at += 4
    for key in ("protocol", "rule", "reason", "address"):
        e[key], at = take_string(body, at)
    e["sent"], e["received"], e["duration_us"], e["again"] = struct.unpack_from("<QQQQ", body, at)
    if at + 32 != len(body):
        raise ValueError("bytes behind an event")
    return e


class BrokerError(Exception):
    pass


class Broker:
    """The library's side: starts a broker, hands it its sockets, collects its events in a thread."""

    def __init__(self, world, program, rules, ports=(80, 443), hosts="", proxy=None, connections=0, bandwidth=0, deny=(), ipv6=True, inherited=(),
                 secrets=(), trust=None, authority=(None, None), sockets=(), tries=2):  # fmt: skip
        self.directory = tempfile.TemporaryDirectory()
        resolv, hosts_file = os.path.join(self.directory.name, "resolv.conf"), os.path.join(self.directory.name, "hosts")
        open(resolv, "w").write(f"nameserver 127.0.0.1\noptions timeout:1 attempts:{tries}\n")
        open(hosts_file, "w").write(hosts)
        self.sockets = airlock_sockets(ports, ipv6) + list(sockets)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = world.call_outside(lambda: spawn(program, theirs, inherited))
        theirs.close()
        policy = ["clear=network.outbound", "clear=network.deny"] + [f"network.outbound={r}" for r in rules] + [f"network.deny={d}" for d in deny]
        policy += [f"secrets={rule}" for rule, _ in secrets]
        self.send(config_body(policy, proxy, resolv, hosts_file, connections, bandwidth, trust, authority))
        self.authority = self.exchange_secrets(secrets) if secrets else None
        for i in range(0, len(self.sockets), 8):
            some = self.sockets[i : i + 8]
            body = struct.pack("<III", SOCKETS, i + 8 >= len(self.sockets), len(some)) + b"".join(struct.pack("<III", *s[:3]) for s in some)
            self.send(body, [s[3].fileno() for s in some])
        self.events, self.changed = [], threading.Condition()
        self.ended = False
        if self.receive_word(READY) != b"":
            raise BrokerError("READY says something")
        self.thread = threading.Thread(target=self.collect, daemon=True)
        self.thread.start()

    def receive_word(self, wanted):
        kind, body = self.receive()
        if kind != TYPES["WIRE_BROKER"] or struct.unpack_from("<I", body) != (wanted,):
            self.socket.close()
            self.process.wait()
            raise BrokerError(body if kind == TYPES["WIRE_ERROR"] else f"{kind} {body!r}")
        return body[4:]

    def exchange_secrets(self, secrets):
        """(certificate, key) of its authority; it gets the values, each out of a pipe."""
        body = self.receive_word(AUTHORITY)
        certificate, at = take_string(body, 0)
        key, at = take_string(body, at)
        for _, value in secrets:
            theirs, ours = os.pipe()
            self.send(struct.pack("<I", SECRETS), [theirs])
            os.close(theirs)
            os.write(ours, value.encode())
            os.close(ours)
        return certificate, key

    def send(self, body, fds=()):
        send_message(self.socket, "WIRE_BROKER", body, fds)

    def receive(self):
        message = self.socket.recv(65536)
        if not message:
            return None, b""
        magic, kind, length, flags = struct.unpack_from("<IIII", message)
        if magic != MAGIC or flags or length != len(message) - 16:
            raise ValueError(f"not a message: {message!r}")
        return kind, message[16:]

    def collect(self):
        while True:
            try:
                kind, body = self.receive()
            except OSError:
                kind = None
            with self.changed:
                if kind is None:
                    self.ended = True
                else:
                    self.events.append(take_event(body))
                self.changed.notify_all()
                if kind is None:
                    return

    def wait_event(self, **wanted):
        """Waits for an event with these values, and takes it out of the list."""

        def found():
            return next((e for e in self.events if all(e[k] == v for k, v in wanted.items())), None)

        with self.changed:
            if not self.changed.wait_for(lambda: found() or self.ended, timeout=60) or not found():
                raise AssertionError(f"no event {wanted} in {self.events}")
            event = found()
            self.events.remove(event)
            return event

    def count(self, **wanted):
        with self.changed:
            return sum(all(e[k] == v for k, v in wanted.items()) for e in self.events)

    def status(self, key):
        text = open(f"/proc/{self.process.pid}/status").read()
        return re.search(rf"^{key}:[ \t]*(.*)$", text, re.M).group(1).split()

    def close(self):
        """As the library does: no more to say, and all events are read."""
        self.socket.shutdown(socket.SHUT_WR)
        return self.release()

    def release(self):
        """Waits for its end; its ports are free then."""
        self.thread.join(60)
        code = self.process.wait(60)
        self.socket.close()
        for s in self.sockets:
            s[3].close()
        self.directory.cleanup()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        code = self.close()
        if kind is None and code != 0:
            raise AssertionError(f"the broker ended with {code}")


def spawn(program, sock, inherited):
    def move():
        os.dup2(sock.fileno(), 3)

    return subprocess.Popen([program], preexec_fn=move, close_fds=True, pass_fds=[3, *inherited], env={}, stdin=subprocess.DEVNULL)


def airlock_sockets(ports, ipv6):
    def make(kind, family, port):
        s = socket.socket(family, socket.SOCK_DGRAM if kind == DNS_UDP else socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        any_address, resolver = ("0.0.0.0", "198.18.0.1") if family == socket.AF_INET else ("::", "fd00:c0::1")
        s.bind((any_address if kind == PORT else resolver, port))
        if kind != DNS_UDP:
            s.listen(4096)
        s.setblocking(False)
        return (kind, int(family), port, s)

    families = [socket.AF_INET] + ([socket.AF_INET6] if ipv6 else [])
    return [make(kind, f, 53) for kind in (DNS_UDP, DNS_TCP) for f in families] + [make(PORT, f, p) for p in ports for f in families]
