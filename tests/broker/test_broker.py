# SPDX-License-Identifier: Apache-2.0
"""cordon-broker as the library and a sandbox see it: test_broker.py PROGRAM [TEST…]. Prints lines as tests/lib.sh does. See world.py."""
import errno
import hashlib
import os
import resource
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from clients import (  # noqa: E402
    A,
    AAAA,
    HTTPS,
    TXT,
    address_of,
    ask,
    client_hello,
    connect,
    dial,
    eventually,
    is_reset,
    query,
    read_all,
    read_answer,
    read_exactly,
    read_response,
    request,
    tls_client,
)
from servers import NameServer, Proxy, Server, banner, echo, http, keep, tls_echo  # noqa: E402
from world import HOSTS, PUBLIC4, PUBLIC6, RAW, SILENT6, WEB, Broker, BrokerError, Namespaces  # noqa: E402

import carried  # noqa: E402
import carried_back  # noqa: E402
import doors  # noqa: E402
import hostile  # noqa: E402
import outside  # noqa: E402

SANITIZED = os.environ.get("CORDON_SANITIZED") == "1"  # then the figures for memory mean nothing

# ---- tests: names ----


def test_names_are_known_if_some_port_of_them_is_allowed(w):
    with w.broker([WEB, "host=*.sub.example;ports=443"], deny=["bad.sub.example"]):
        assert address_of("web.example").startswith("198.18.")
        assert address_of("WEB.Example") == address_of("web.example"), "one name, one address"
        assert address_of("web.example", AAAA).startswith("fd00:c0::")
        assert ask("web.example", AAAA, "fd00:c0::1")[0] == 0
        assert ask("web.example", HTTPS) == (0, [])
        assert address_of("a.sub.example") != address_of("b.sub.example")
        for name in ("sub.example", "other.example", "bad.sub.example", "web.example.other.example", "xweb.example"):
            assert ask(name) == (3, []), name


def test_a_refused_name_is_told_before_it_is_answered_and_once(w):
    with w.broker([WEB], deny=["evil.example"]) as b:
        for kind in (A, AAAA, TXT, A):
            assert ask("secret.other.example", kind) == (3, [])
        e = b.wait_event(kind="denied", target="secret.other.example")
        assert e["protocol"] == "dns" and e["port"] == 0 and e["rule"] == "network.outbound" and e["reason"], e
        assert ask("evil.example") == (3, [])
        assert b.wait_event(target="evil.example")["rule"] == "network.deny"
        assert b.count(target="secret.other.example") == 0, "told again"
    assert not w.name_server.asked, f"a refused name was asked for outside: {w.name_server.asked}"


def test_a_flood_of_refused_names_is_counted(w):
    b = w.broker([WEB])
    n = 1000
    for i in range(n):
        assert ask(f"n{i}.other.example")[0] == 3
    b.close()
    left_out = [e for e in b.events if e["target"] == "(others)"]
    told = len([e for e in b.events if e["target"] != "(others)"])
    assert told < n / 2 and left_out, (told, left_out)
    assert told + sum(int(e["reason"].split()[0]) for e in left_out) == n


def test_names_over_tcp_pipelined_and_in_pieces(w):
    with w.broker([WEB]):
        with dial("198.18.0.1", 53) as s:
            messages = b"".join(struct.pack(">H", len(q)) + q for q in (query("web.example", A, 1), query("no.example", A, 2), query("web.example", AAAA, 3)))
            s.sendall(messages[:7])
            s.sendall(messages[7:])
            s.shutdown(socket.SHUT_WR)
            for number, code in ((1, 0), (2, 3), (3, 0)):
                answer = read_exactly(s, struct.unpack(">H", read_exactly(s, 2))[0])
                assert struct.unpack_from(">H", answer)[0] == number and read_answer(answer)[0] == code
            assert s.recv(1) == b""
        many = [dial("198.18.0.1", 53) for _ in range(40)]
        with dial("198.18.0.1", 53) as s:
            q = query("web.example", A)
            s.sendall(struct.pack(">H", len(q)) + q)
            assert read_answer(read_exactly(s, struct.unpack(">H", read_exactly(s, 2))[0]))[0] == 0
        for s in many:
            s.close()


def test_nonsense_does_not_end_the_broker(w):
    with w.broker([WEB, RAW], ports=(80, 443, 2222)) as b:
        seed = b"cordon"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for i in range(300):
                seed = hashlib.sha256(seed).digest()
                s.sendto((seed * 8)[: seed[0]], ("198.18.0.1", 53))
        address = address_of("web.example")
        for first in (b"\x16\x03\x01", b"\x00", b"SSH-2.0-x\r\n", b"GET", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x00\x05hello"):
            with dial(address, 443) as s:
                try:
                    s.sendall(first + seed)
                    s.shutdown(socket.SHUT_WR)
                    read_all(s)
                except OSError as e:
                    assert e.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN), e
        with dial("198.18.0.1", 53) as s:
            s.sendall(b"\xff\xff" + seed)
            try:
                assert s.recv(1) == b"", "a query that cannot be"
            except ConnectionResetError:
                pass
        assert b.process.poll() is None and ask("web.example")[0] == 0


# ---- tests: connections ----


def test_raw_the_server_speaks_first_and_ends_are_passed_on(w):
    with w.broker([RAW], ports=(2222,)) as b, Server(w.net, 2222, banner) as server:
        with connect("raw.example", 2222) as s:
            assert read_exactly(s, 11) == b"220 hello\r\n"
            s.sendall(b"over")
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == b"got over"
        o, c = b.wait_event(kind="opened"), b.wait_event(kind="closed")
        assert o["target"] == c["target"] == "raw.example" and o["port"] == 2222 and o["protocol"] == "tcp" and o["address"] == PUBLIC4 + "11"
        assert o["id"] == c["id"] > 0 and (c["sent"], c["received"]) == (4, 19) and c["duration_us"] > 0 and c["reason"] is None
        assert server.accepted == 1


def test_raw_over_ipv6_inside(w):
    with w.broker([RAW], ports=(2222,)), Server(w.net, 2222, banner):
        with connect("raw.example", 2222, AAAA) as s:
            assert read_exactly(s, 11) == b"220 hello\r\n"


def test_resets_are_passed_on(w):
    with w.broker([RAW], ports=(2222,)) as b, Server(w.net, 2222, keep) as server:
        s = connect("raw.example", 2222)
        c = server.wait_accepted(1)
        b.wait_event(kind="opened")
        c.settimeout(60)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        assert is_reset(c), "the server did not see it"
        assert b.wait_event(kind="closed")["reason"] == "it was reset"
        s = connect("raw.example", 2222)
        c = server.wait_accepted(2)
        b.wait_event(kind="opened")
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
        assert is_reset(s), "the client did not see it"
        b.wait_event(kind="closed")


def test_a_client_that_has_ended_and_then_breaks_off(w):
    with w.broker([RAW], ports=(2222,)) as b, Server(w.net, 2222, keep) as server:
        s = connect("raw.example", 2222)
        c = server.wait_accepted(1)
        b.wait_event(kind="opened")
        c.settimeout(60)
        s.shutdown(socket.SHUT_WR)
        assert c.recv(1) == b""
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        b.wait_event(kind="closed", reason="it was reset")


def test_much_data_arrives_as_it_was_both_ways(w):
    size = 32 << 20
    data = hashlib.sha256(b"seed").digest() * (size // 32)
    with w.broker([RAW, WEB], ports=(80, 2222)) as b, Server(w.net, 2222, echo), Server(w.net, 80, http):
        with connect("raw.example", 2222) as s:
            import threading

            t = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
            t.start()
            digest, n = hashlib.sha256(), 0
            while piece := s.recv(1 << 16):
                digest.update(piece)
                n += len(piece)
            t.join()
            assert n == size and digest.digest() == hashlib.sha256(data).digest()
        c = b.wait_event(kind="closed")
        assert c["sent"] == c["received"] == size
        with connect("web.example", 80) as s:
            s.sendall(request("web.example", "/big"))
            assert read_response(s)[1] == b"0123456789abcdef" * (8 << 16)


def test_a_slow_reader_slows_the_server_down(w):
    with w.broker([RAW], ports=(2222,)) as b, Server(w.net, 2222, keep) as server:
        with connect("raw.example", 2222) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c = server.wait_accepted(1)
            c.setblocking(False)
            sent, blocked = 0, 0
            while blocked < 50:
                try:
                    sent += c.send(b"x" * (1 << 20))
                    blocked = 0
                except BlockingIOError:
                    blocked += 1
                    time.sleep(0.01)
                assert sent < 512 << 20, "somebody takes everything"
            assert SANITIZED or int(b.status("VmRSS")[0]) < 50 << 10, b.status("VmRSS")


def test_http_is_held_to_its_name(w):
    with w.broker([WEB]) as b, Server(w.net, 80, http) as server:
        with connect("web.example", 80) as s:
            for path in ("/a", "/b"):
                s.sendall(request("web.example", path))
                assert read_response(s)[1] == request("web.example", path)
        assert b.wait_event(kind="opened")["protocol"] == "http"
        b.wait_event(kind="closed")
        assert is_reset(connect("web.example", 80), request("evil.example"))
        e = b.wait_event(kind="denied")
        assert e["target"] == "web.example" and e["rule"] == "network.name" and e["protocol"] == "http" and e["port"] == 80, e
        assert server.accepted == 1, "a refused request reached somebody"


def test_a_second_request_for_another_name_goes_nowhere(w):
    seen = []

    def remember(c):
        while data := c.recv(65536):
            seen.append(data)

    with w.broker([WEB]) as b, Server(w.net, 80, remember):
        assert is_reset(connect("web.example", 80), request("web.example") + request("evil.example"))
        b.wait_event(kind="denied", rule="network.name")
    with w.broker([WEB]) as b, Server(w.net, 80, remember):
        s = connect("web.example", 80)
        s.sendall(request("web.example"))
        eventually("the first one arrives", lambda: request("web.example") in b"".join(seen))
        assert is_reset(s, request("evil.example"))
        b.wait_event(kind="denied", rule="network.name")
        b.wait_event(kind="closed", reason="it was refused to go on")
    assert b"evil.example" not in b"".join(seen)


def test_http_upgrade_is_opaque_afterwards(w):
    with w.broker([WEB]), Server(w.net, 80, http):
        with connect("web.example", 80) as s:
            s.sendall(request("web.example", "/upgrade", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"))
            assert b" 101 " in read_response(s)[0]
            s.sendall(b"\x81\x05hello")
            assert read_exactly(s, 7) == b"\x81\x05hello"


def test_tls_is_held_to_its_name(w):
    with w.broker([WEB]) as b, Server(w.net, 443, tls_echo(w.certificate)) as server:
        with tls_client(connect("web.example", 443), "web.example") as t:
            t.sendall(b"hello")
            assert t.recv(5) == b"hello"
        assert b.wait_event(kind="opened")["protocol"] == "tls"
        for name in ("evil.example", None):
            try:
                tls_client(connect("web.example", 443), name)
                raise AssertionError(f"connected for {name}")
            except (ConnectionResetError, ssl.SSLError):
                pass
        e = b.wait_event(kind="denied")
        assert e["rule"] == "network.name" and e["protocol"] == "tls", e
        assert server.accepted == 1, "a refused name reached somebody"


def test_tls_where_the_server_asks_again(w):
    with w.broker([WEB]), Server(w.net, 443, tls_echo(w.certificate, "secp384r1")):
        with tls_client(connect("web.example", 443), "web.example") as t:
            t.sendall(b"hello")
            assert t.recv(5) == b"hello"


def test_what_follows_a_hello_waits_for_the_servers_answer(w):
    hello, more, alert = client_hello("web.example"), b"\x17\x03\x03\x00\x04more", b"\x15\x03\x03\x00\x02\x02\x28"
    with w.broker([WEB]), Server(w.net, 443, keep) as server:
        with connect("web.example", 443) as s:
            s.sendall(hello + more)
            c = server.wait_accepted(1)
            c.settimeout(60)
            assert c.recv(65536) == hello
            c.sendall(alert)
            assert read_exactly(s, len(alert)) == alert
            assert read_exactly(c, len(more)) == more


def test_a_second_hello_for_another_name_goes_nowhere(w):
    with w.broker([WEB]) as b, Server(w.net, 443, tls_echo(w.certificate, "secp384r1")):
        s = connect("web.example", 443)
        s.sendall(client_hello("web.example"))
        assert read_exactly(s, 1) == b"\x16", "the server asks again"
        s.sendall(client_hello("evil.example"))
        try:
            read_all(s)
            raise AssertionError("it was not refused")
        except ConnectionResetError:
            pass
        assert b.wait_event(kind="denied")["rule"] == "network.name"
        s.close()


def test_addresses_that_nobody_was_given(w):
    with w.broker([WEB, "host=198.18.0.0/16;ports=443", "host=fd00:c0::/32;ports=443"]) as b, Server(w.net, 443, echo) as server:
        known = address_of("web.example")
        other = "198.18.200.7" if known != "198.18.200.7" else "198.18.200.8"
        for address in (other, "198.18.0.1", "fd00:c0::ffff"):
            assert is_reset(dial(address, 443)), address
            assert b.wait_event(kind="denied", target=address)["port"] == 443
        assert server.accepted == 0


def test_a_port_that_the_rule_does_not_have(w):
    with w.broker([RAW, WEB], ports=(80, 2222)) as b, Server(w.net, 2222, echo) as server:
        assert is_reset(connect("web.example", 2222))
        e = b.wait_event(kind="denied", target="web.example")
        assert e["port"] == 2222 and e["rule"] == "network.outbound", e
        assert server.accepted == 0


def test_names_that_resolve_into_the_hosts_network(w):
    rules = [f"host={n}.example;ports=2222;protocol=tcp" for n in ("private", "meta", "loop", "mixed", "v6")]
    hosts = f"10.0.0.1 private.example\n169.254.169.254 meta.example\n127.0.0.1 loop.example\n10.0.0.1 mixed.example\n{PUBLIC4}12 mixed.example\n::ffff:10.0.0.1 v6.example\n"
    with w.broker(rules, ports=(2222,), hosts=hosts) as b, Server(w.net, 2222, banner) as server:
        for name in ("private", "meta", "loop", "v6"):
            assert is_reset(connect(f"{name}.example", 2222)), name
            e = b.wait_event(kind="denied", target=f"{name}.example")
            assert "resolves to" in e["reason"] and e["address"], e
        assert server.accepted == 0
        with connect("mixed.example", 2222) as s:
            assert read_exactly(s, 3) == b"220"
        assert b.wait_event(kind="opened")["address"] == PUBLIC4 + "12"


def test_a_block_rule_is_dialled_as_it_is(w):
    with w.broker(["host=10.9.0.0/16;ports=2222"], ports=(2222,)) as b, Server(w.net, 2222, banner):
        with dial("10.9.3.4", 2222) as s:
            assert read_exactly(s, 3) == b"220"
        e = b.wait_event(kind="opened")
        assert e["target"] == e["address"] == "10.9.3.4", e


def test_this_machine_by_its_own_name_only(w):
    server_at = {"address": "127.0.0.1"}
    with Server(w.net, 2222, banner, **server_at) as server:
        with w.broker(["host=host.cordon.internal;ports=2222;protocol=tcp"], ports=(2222,)):
            with connect("host.cordon.internal", 2222) as s:
                assert read_exactly(s, 3) == b"220"
        with w.broker(["host=*.cordon.internal;ports=2222;protocol=tcp"], ports=(2222,)) as b:
            assert ask("host.cordon.internal") == (3, [])
            b.wait_event(kind="denied", target="host.cordon.internal")
        assert server.accepted == 1


# ---- tests: dialling ----


def test_names_are_resolved_by_the_hosts_name_server(w):
    w.name_server.table["dns.example"] = [PUBLIC4 + "20", PUBLIC6 + "20"]
    with w.broker(["host=dns.example;ports=2222;protocol=tcp"], ports=(2222,)) as b, Server(w.net, 2222, banner, "::", socket.AF_INET6):
        with connect("dns.example", 2222) as s:
            assert read_exactly(s, 3) == b"220"
        assert b.wait_event(kind="opened")["address"] == PUBLIC6 + "20", "IPv6 first"
    assert set(w.name_server.asked) == {"dns.example"}


def test_a_family_that_does_not_answer_is_passed_by(w):
    w.name_server.table["slow.example"] = [SILENT6 + "1", PUBLIC4 + "21"]
    rules = [f"host={n}.example;ports=2222;protocol=tcp" for n in ("slow", "fixed")]
    hosts = f"{SILENT6}1 fixed.example\n{PUBLIC4}21 fixed.example\n"  # these are known at once
    with w.broker(rules, ports=(2222,), hosts=hosts) as b, Server(w.net, 2222, banner):
        for name in ("slow.example", "fixed.example"):
            with connect(name, 2222) as s:
                assert read_exactly(s, 3) == b"220"
            assert b.wait_event(kind="opened", target=name)["address"] == PUBLIC4 + "21"


def test_hosts_that_cannot_be_reached(w):
    w.name_server.table["refused.example"] = [PUBLIC4 + "22"]
    rules = [f"host={n}.example;ports=2222;protocol=tcp" for n in ("refused", "missing")]
    with w.broker(rules, ports=(2222,)) as b:
        assert is_reset(connect("refused.example", 2222))
        e = b.wait_event(kind="failed", target="refused.example")
        assert "refused" in e["reason"] and e["address"] == PUBLIC4 + "22", e
        assert is_reset(connect("missing.example", 2222))
        assert "resolved" in b.wait_event(kind="failed", target="missing.example")["reason"]


def test_by_a_proxy(w):
    proxy = Proxy(w.net, ("127.0.0.1", 2222))
    with Server(w.net, 2222, banner, "127.0.0.1"), Server(w.net, 3128, proxy, "127.0.0.1"):
        with w.broker(["host=far.example;ports=2222;protocol=tcp"], ports=(2222,), proxy="http://me:p%40ss@127.0.0.1:3128") as b:
            with connect("far.example", 2222) as s:
                assert read_exactly(s, 11) == b"220 hello\r\n"
                s.sendall(b"x")
                s.shutdown(socket.SHUT_WR)
                assert read_all(s) == b"got x"
            assert b.wait_event(kind="opened")["target"] == "far.example"
    head = proxy.asked[0].decode()
    assert head.startswith("CONNECT far.example:2222 HTTP/1.1\r\n") and "Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in head, head
    assert not w.name_server.asked, "the name is the proxy's to resolve"


def test_a_proxy_that_refuses(w):
    proxy = Proxy(w.net, None, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    with Server(w.net, 3128, proxy, "127.0.0.1"), w.broker([RAW], ports=(2222,), proxy="http://127.0.0.1:3128/") as b:
        assert is_reset(connect("raw.example", 2222))
        assert "403" in b.wait_event(kind="failed")["reason"]


# ---- tests: limits, beginning and end ----


def test_it_has_given_up_what_it_does_not_need(w):
    with w.broker([WEB]) as b:
        assert set(b.status("CapEff") + b.status("CapPrm")) == {"0" * 16}
        assert b.status("NoNewPrivs") == ["1"] and b.status("Seccomp") == ["2"]
        if w.is_root:
            assert b.status("Uid") == ["65534"] * 4 and b.status("Groups") == []


def test_a_thousand_connections(w):
    with w.broker([RAW], ports=(2222,), connections=4096) as b, Server(w.net, 2222, echo) as server:
        address = address_of("raw.example")
        clients = [dial(address, 2222) for _ in range(1000)]
        for i, s in enumerate(clients):
            s.sendall(b"%04d" % i)
        for i, s in enumerate(clients):
            assert read_exactly(s, 4) == b"%04d" % i
        rss = int(b.status("VmRSS")[0])
        print(f"# 1,000 connections: {rss} kB")
        assert server.accepted == 1000 and (SANITIZED or rss < 50 << 10), rss
        if w.is_root:
            fds = len(os.listdir(f"/proc/{b.process.pid}/fd"))
            print(f"# {fds} descriptors")
            assert fds < 2 * 1000 + 200, f"{fds} descriptors"
        with dial(address, 2222):
            assert "as many" in b.wait_event(kind="failed", target="(all)")["reason"], "there may be no more"
        for s in clients:
            s.close()
        eventually("all are told of", lambda: b.count(kind="closed") >= 1000)
        if w.is_root:
            eventually("all are closed", lambda: len(os.listdir(f"/proc/{b.process.pid}/fd")) < 200)


def test_beyond_the_most_connections_others_wait(w):
    with w.broker([RAW], ports=(2222,), connections=4) as b, Server(w.net, 2222, banner) as server:
        address = address_of("raw.example")
        first = [dial(address, 2222) for _ in range(4)]
        for s in first:
            assert read_exactly(s, 3) == b"220"
        fifth = dial(address, 2222)
        b.wait_event(kind="failed", target="(all)")
        assert server.accepted == 4
        first.pop().close()
        assert read_exactly(fifth, 3) == b"220", "its turn has come"
        for s in first + [fifth]:
            s.close()


def test_connections_that_say_nothing_do_not_keep_others_out(w):
    with w.broker([WEB], connections=1000) as b, Server(w.net, 80, http):
        address = address_of("web.example")
        silent = [dial(address, 80) for _ in range(257)]
        assert is_reset(silent[0]), "the first of them goes"
        assert "too many" in b.wait_event(kind="failed", target="web.example")["reason"]
        with dial(address, 80) as s:
            s.sendall(request("web.example"))
            assert read_response(s)
        for s in silent[1:]:
            s.close()


def test_bandwidth_is_held_and_shared(w):
    rate, size = 1 << 20, 512 << 10
    with w.broker([RAW], ports=(2222,), bandwidth=rate), Server(w.net, 2222, keep) as server:
        clients = [connect("raw.example", 2222) for _ in range(2)]
        started = time.monotonic()
        for i in (1, 2):
            c = server.wait_accepted(i)
            c.setblocking(False)
            c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * size)
            assert c.send(b"x" * size) > size // 2
            c.setblocking(True)
            c.shutdown(socket.SHUT_WR)
        total = sum(len(read_all(s)) for s in clients)
        # never faster, however fast the machine: a tenth of a second's worth may be saved up
        assert total > size and time.monotonic() - started >= (total - rate / 10) / rate * 0.95


def test_the_end_is_told(w):
    b = w.broker([RAW], ports=(2222,))
    with Server(w.net, 2222, banner):
        s = connect("raw.example", 2222)
        assert read_exactly(s, 11) == b"220 hello\r\n"
        assert b.close() == 0
        assert b.count(kind="closed", received=11) == 1, b.events
        assert is_reset(s)


def test_it_ends_with_the_library(w):
    b = w.broker([RAW], ports=(2222,))
    b.socket.shutdown(socket.SHUT_RDWR)
    assert b.release() == 0


def test_what_cannot_be_right_is_an_error(w):
    for more in ({"rules": ["host=127.1;ports=80"]}, {"rules": [WEB], "proxy": "https://x:1"}, {"rules": [WEB], "proxy": "http://nohost"}):
        try:
            w.broker(**more).close()
        except BrokerError:
            continue
        raise AssertionError(f"taken: {more}")


# ---- running them ----


class World:
    def __init__(self, program):
        self.net, self.program, self.is_root = Namespaces(), program, os.environ.get("BROKER_TEST_ROOT") == "1"
        self.directory = tempfile.TemporaryDirectory()
        self.certificate = os.path.join(self.directory.name, "server.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=web.example", "-days", "1", "-keyout", self.certificate,
                        "-out", self.certificate + ".crt"], check=True, capture_output=True)  # fmt: skip
        with open(self.certificate, "a") as f:
            f.write(open(self.certificate + ".crt").read())

    def broker(self, rules, hosts=HOSTS, **more):
        return Broker(self.net, self.program, rules, hosts=hosts, **more)


def own_namespaces():
    """Begins again in namespaces of its own; as root without a user namespace, so that the broker can become another user."""
    how = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    if not shutil.which("unshare") or subprocess.run(["unshare", *how, "true"], capture_output=True).returncode != 0:
        print("skip - the broker # no network namespaces for this user")
        sys.exit(0)
    os.environ["BROKER_TEST_ROOT"] = "1" if os.geteuid() == 0 else "0"
    os.execvp("unshare", ["unshare", *how, sys.executable, *sys.argv])


def main():
    if "BROKER_TEST_ROOT" not in os.environ:
        own_namespaces()
    program, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)  # for the clients of a thousand connections
    w, failed = World(program), 0
    tests = [(n, f) for n, f in (globals() | vars(hostile) | vars(carried) | vars(carried_back) | vars(doors) | vars(outside)).items() if n.startswith("test_") and (not wanted or n in wanted)]
    for name, test in tests:
        title = name[len("test_") :].replace("_", " ") + (" (root)" if w.is_root else " (user)")
        try:
            with NameServer(w.net, {}) as w.name_server:
                test(w)
            print(f"ok - {title}", flush=True)
        except Exception:
            failed += 1
            print(f"not ok - {title}", flush=True)
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
    w.directory.cleanup()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
