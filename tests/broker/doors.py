# SPDX-License-Identifier: Apache-2.0
"""Tests of test_broker.py about connections into the sandbox, with an init that is not always itself."""
import hashlib
import os
import socket
import struct
import threading

from clients import ask, connect, eventually, is_reset, read_all, read_exactly
from servers import Server, banner
from world import DOOR, INSIDE, PUBLISHED, RAW, WEB, send_message

INSIDE_PORT = 3000
SYN_SENT = 2  # tcp_states.h


class Doored:
    """A broker with a published port, and an init that makes sockets and keeps its copies (`kept`)."""

    def __init__(self, w, rules=(WEB,), **more):
        self.w, self.kept = w, []
        self.init, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        published = w.net.call_outside(lambda: listener(0))
        published.setblocking(False)
        self.address = published.getsockname()
        sockets = [(DOOR, int(socket.AF_UNIX), 0, theirs), (PUBLISHED, int(socket.AF_INET), INSIDE_PORT, published)]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        self.broker = w.broker(list(rules), sockets=sockets, **more)

    def serve(self):
        try:
            while self.init.recv(4096):
                s = socket.socket()
                self.kept.append(s)
                send_message(self.init, "WIRE_AIRLOCK", struct.pack("<III", INSIDE, int(s.family), 0), [s.fileno()])
        except OSError:
            pass

    def guest(self):
        s = self.w.net.call_outside(socket.socket)
        s.settimeout(60)
        s.connect(self.address)
        return s

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            self.broker.process.kill()  # it may be waiting for ever
        code = self.broker.close()
        self.init.shutdown(socket.SHUT_RDWR)
        self.thread.join(60)
        for s in [self.init, *self.kept]:
            s.close()
        if kind is None and code != 0:
            raise AssertionError(f"the broker ended with {code}")


def listener(port, backlog=4096):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(backlog)
    s.settimeout(60)
    return s


def accept(server):
    c = server.accept()[0]
    c.settimeout(60)
    return c


def digest_of(s):
    digest = hashlib.sha256()
    while piece := s.recv(1 << 16):
        digest.update(piece)
    return digest.digest()


def is_refused(d):
    try:
        return is_reset(d.guest())
    except ConnectionResetError:  # before it was found to be connected
        return True


def test_guests_and_what_they_say_come_in(w):
    size = 32 << 20
    data = hashlib.sha256(b"seed").digest() * (size // 32)
    with Doored(w) as d, listener(INSIDE_PORT) as server:
        g = d.guest()
        c = accept(server)
        for a, b in ((g, c), (c, g)):
            t = threading.Thread(target=lambda a=a: (a.sendall(data), a.shutdown(socket.SHUT_WR)))
            t.start()
            assert digest_of(b) == hashlib.sha256(data).digest()
            t.join()
        e = d.broker.wait_event(kind="closed")
        assert e["sent"] == e["received"] == size and e["rule"] == "network.inbound" and e["reason"] is None, e
        g.close()
        c.close()
        server.close()
        assert is_refused(d), "nothing listens any more"
        assert "nothing listens" in d.broker.wait_event(kind="failed")["reason"]


def test_a_socket_that_init_makes_block_again_holds_nobody_up(w):
    with Doored(w) as d, listener(INSIDE_PORT) as server:
        g = d.guest()
        c = accept(server)
        g.sendall(b"hello")
        assert read_exactly(c, 5) == b"hello"
        for s in d.kept:
            os.set_blocking(s.fileno(), True)
        c.sendall(b"answer")
        assert read_exactly(g, 6) == b"answer"
        assert ask("web.example")[0] == 0, "the broker waits for what comes"
        g.setblocking(False)
        full, sent = 0, 0
        while full < 3:  # nobody reads it inside
            try:
                sent += g.send(b"x" * (1 << 20))
                full = 0
            except BlockingIOError:
                full += 1
                assert ask("web.example")[0] == 0, "the broker waits for what does not go"
        g.setblocking(True)
        g.shutdown(socket.SHUT_WR)
        assert len(read_all(c)) == sent
        c.close()
        g.close()


def state_of(s):
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


def test_a_server_inside_that_does_not_accept_holds_nobody_up(w):
    with listener(INSIDE_PORT, 0) as server, socket.create_connection(server.getsockname()), Doored(w) as d:
        eventually("the broker has its sockets", lambda: len(d.kept) == 4 and not any(os.get_blocking(s.fileno()) for s in d.kept))
        for s in d.kept:
            os.set_blocking(s.fileno(), True)
        g = d.guest()
        eventually("it connects", lambda: any(state_of(s) == SYN_SENT for s in d.kept))
        assert ask("web.example")[0] == 0, "the broker waits for it"
        accept(server).close()  # the one that was first
        with accept(server) as c:
            g.sendall(b"hello")
            assert read_exactly(c, 5) == b"hello"
        g.close()


def test_who_was_not_let_in_yet_at_the_end_is_on_record(w):
    with listener(INSIDE_PORT, 0) as server, socket.create_connection(server.getsockname()), Doored(w) as d:
        g = d.guest()
        eventually("it connects", lambda: any(state_of(s) == SYN_SENT for s in d.kept))
        d.broker.socket.shutdown(socket.SHUT_WR)
        assert "before it was let in" in d.broker.wait_event(kind="failed")["reason"]
        assert is_reset(g)


def test_who_comes_in_does_not_keep_the_sandbox_from_going_out(w):
    with Doored(w, [RAW, WEB], ports=(80, 2222), connections=8) as d, listener(INSIDE_PORT) as server, Server(w.net, 2222, banner):
        guests = [d.guest() for _ in range(5)]
        inside = [accept(server) for _ in range(4)]
        assert d.broker.wait_event(kind="failed", target="(all)")["rule"] == "network.inbound"
        out = [connect("raw.example", 2222) for _ in range(3)]
        for s in out:
            assert read_exactly(s, 3) == b"220"
        guests[0].close()
        inside[0].close()
        with accept(server) as c:
            guests[4].sendall(b"its turn has come")
            assert read_exactly(c, 17) == b"its turn has come"
        for s in guests + inside + out:
            s.close()


def test_who_comes_in_too_fast_does_not_slow_down_who_goes_out(w):
    def told(rule):
        return d.broker.count(kind="failed", target="(all)", rule=rule)

    with Doored(w, [RAW, WEB], ports=(80, 2222)) as d, Server(w.net, 2222, banner):
        guests = 0
        while not told("network.inbound"):
            assert is_refused(d) and guests < 10000
            guests += 1
        for _ in range(200):
            with connect("raw.example", 2222) as s:
                assert read_exactly(s, 3) == b"220"
        assert not told("network.outbound")
