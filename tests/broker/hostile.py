# SPDX-License-Identifier: Apache-2.0
"""Tests of test_broker.py, in which the sandbox is up to no good."""
import os
import re
import socket
import struct
import subprocess
import time

from clients import address_of, ask, connect, dial, is_reset, read_all, read_exactly, request
from servers import Server, banner, keep
from world import HOSTS, PUBLIC4, RAW, SILENT6, WEB

SANITIZED = os.environ.get("CORDON_SANITIZED") == "1"  # then the figures for memory mean nothing
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def is_refused(address, port):
    try:
        return is_reset(dial(address, port))
    except ConnectionResetError:  # before it was found to be connected
        return True


def test_what_fails_without_end_is_told_once(w):
    b = w.broker([WEB, "host=gone.example;ports=2222;protocol=tcp"], ports=(80, 2222), hosts=HOSTS + f"{PUBLIC4}22 gone.example\n")
    address = address_of("web.example")
    silent = [dial(address, 80) for _ in range(256 + 40)]
    for s in silent[:40]:
        assert is_reset(s)
    for s in silent[40:]:
        s.close()
    for _ in range(20):
        assert is_reset(connect("gone.example", 2222))
    b.close()
    assert b.count(kind="failed", target="web.example", again=0) == b.count(kind="failed", target="gone.example", again=0) == 1, b.events


def test_another_rule_for_the_same_target_is_told(w):
    b = w.broker([WEB], hosts="10.0.0.1 web.example\n")
    for host in ("evil.example", "web.example", "evil.example", "web.example"):
        assert is_reset(connect("web.example", 80), request(host))
    b.close()
    assert [e["rule"] for e in b.events if e["kind"] == "denied" and not e["again"]] == ["network.name", "network.address"], b.events


def test_connections_that_are_opened_too_fast_wait(w):
    rate, burst, n = 100, 1000, 1200
    with w.broker([WEB, RAW], ports=(80, 2222)) as b:
        address = address_of("web.example")
        started = time.monotonic()
        for _ in range(n):
            assert is_refused(address, 2222)
        # never faster, however fast the machine
        assert time.monotonic() - started >= (n - burst) / rate * 0.95
        assert b.process.poll() is None


def test_what_it_inherits_is_closed(w):
    ours, theirs = os.pipe()
    with w.broker([WEB], inherited=[theirs]) as b:
        os.close(theirs)
        os.set_blocking(ours, False)
        assert os.read(ours, 1) == b"", "somebody still has the other end"  # BlockingIOError says the same
        os.close(ours)
        if w.is_root:
            assert os.readlink(f"/proc/{b.process.pid}/cwd") == "/"


def test_little_is_held_for_an_upgrade(w):
    n = 400
    with w.broker([WEB]) as b, Server(w.net, 80, keep) as server:
        address = address_of("web.example")
        before, clients = int(b.status("VmRSS")[0]), []
        for i in range(n):
            clients.append(dial(address, 80))
            clients[i].sendall(request("web.example", "/", UPGRADE))
            assert read_exactly(server.wait_accepted(i + 1), 3) == b"GET"
            clients[i].setblocking(False)
            clients[i].send(b"x" * (192 << 10))
        for _ in range(20):  # it has turned to each of them
            ask("web.example")
        held = int(b.status("VmRSS")[0]) - before
        assert SANITIZED or held < n * 40, f"{held} kB"
        for s in clients:
            s.close()


def small_buffers(which):
    """How many connections have buffers of at most 64 kB both ways, as the kernel counts them."""
    text = subprocess.run(["ss", "-tmnH", "state", "established", which], check=True, capture_output=True, text=True).stdout
    return sum(int(m[1]) <= 64 << 10 and int(m[2]) <= 64 << 10 for m in re.finditer(r"skmem:\(r\d+,rb(\d+),t\d+,tb(\d+)", text))


def test_many_connections_have_small_buffers(w):
    with w.broker([RAW], ports=(2222,)), Server(w.net, 2222, keep) as server:
        address = address_of("raw.example")
        clients = [dial(address, 2222) for _ in range(300)]
        server.wait_accepted(300)
        accepted, dialled = small_buffers("sport = :2222"), w.net.call_outside(lambda: small_buffers("dport = :2222"))
        assert accepted == 300 - 257 <= dialled, f"{accepted} and {dialled} of those beyond 256"
        for s in clients:
            s.close()


def test_a_killed_broker_is_not_the_regular_end(w):
    with Server(w.net, 2222, keep) as server:
        b = w.broker([RAW], ports=(2222,))
        s = connect("raw.example", 2222)
        c = server.wait_accepted(1)
        c.settimeout(60)
        c.sendall(b"half of")
        s.sendall(b"some of")
        assert read_exactly(s, 7) == b"half of" and read_exactly(c, 7) == b"some of"
        b.process.kill()
        assert is_reset(s) and is_reset(c)
        b.close()


def test_a_client_that_breaks_off_is_not_dialled_for(w):
    with w.broker(["host=far.example;ports=2222;protocol=tcp"], ports=(2222,), hosts=f"{SILENT6}1 far.example\n") as b:
        s = connect("far.example", 2222)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        assert "broke off" in b.wait_event(kind="failed")["reason"]


def test_nothing_is_lost_behind_urgent_data(w):
    with w.broker([RAW], ports=(2222,)), Server(w.net, 2222, banner):
        with connect("raw.example", 2222) as s:
            assert read_exactly(s, 11) == b"220 hello\r\n"
            s.sendall(b"before")
            s.send(b"U", socket.MSG_OOB)
            s.sendall(b"after")
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == b"got beforeUafter"
