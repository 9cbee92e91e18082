# SPDX-License-Identifier: Apache-2.0
"""Tests of test_broker.py about what is outside and changes: the host's addresses, and resolvers that are not to be trusted."""
import socket
import subprocess

from clients import A, AAAA, ask, connect, eventually, is_reset, read_exactly, request
from servers import Server, banner, http
from world import HOSTS, PUBLIC4, WEB, ip

LATER = "8.8.8.11"
LATER_CARRIED = "64:ff9b::808:80b", "2002:808:80b::1"  # the same by NAT64, by 6to4


class Address:
    """A network of the host's in which it has one address, and gets another one later: a secondary one, as the kernel has it."""

    def __init__(self, w):
        self.w = w

    def ip(self, *words):
        self.w.net.call_outside(lambda: ip(*words))

    def __enter__(self):
        self.ip("link", "add", "near", "type", "veth", "peer", "name", "far")
        for link in ("near", "far"):
            self.ip("link", "set", link, "up")
        self.ip("address", "add", "8.8.8.10/24", "dev", "near")
        return self

    def add(self):
        self.ip("address", "add", LATER + "/24", "dev", "near")

    def __exit__(self, *_):
        self.ip("link", "del", "near")


def test_an_address_that_the_host_gets_later_is_its_own(w):
    for address in (LATER, *LATER_CARRIED):
        with Address(w) as near, Server(w.net, 80, http, "0.0.0.0") as host, Server(w.net, 80, http, "::", socket.AF_INET6) as internet:
            with w.broker([WEB], hosts=f"{address} web.example\n") as b:
                near.add()
                assert is_reset(connect("web.example", 80), request("web.example")), address
                e = b.wait_event(kind="denied")
                assert e["rule"] == "network.address" and e["address"] == address and "an address of this host" in e["reason"], e
            assert host.accepted == internet.accepted == 0, address


def test_what_leads_to_others_is_not_the_hosts_own(w):
    address = "64:ff9b::5db8:d80a"  # of PUBLIC4
    with Server(w.net, 80, http, "::", socket.AF_INET6), w.broker([WEB], hosts=f"{address} web.example\n") as b:
        with connect("web.example", 80) as s:
            s.sendall(request("web.example"))
            assert read_exactly(s, 12) == b"HTTP/1.1 200"
        assert b.wait_event(kind="opened")["address"] == address


def test_where_any_address_can_be_bound_to_that_tells_nothing(w):
    def allow(value):
        for family in ("ipv4", "ipv6"):
            with open(f"/proc/sys/net/{family}/ip_nonlocal_bind", "w") as f:
                f.write(value)

    w.net.call_outside(lambda: allow("1"))
    try:
        with Server(w.net, 80, http), w.broker([WEB], hosts=HOSTS) as b:
            with connect("web.example", 80) as s:
                s.sendall(request("web.example"))
                assert read_exactly(s, 12) == b"HTTP/1.1 200"
            b.wait_event(kind="opened")
    finally:
        w.net.call_outside(lambda: allow("0"))


# ---- resolvers ----


def kind_of(query):
    return query[-3]


def test_each_try_has_an_id_of_its_own(w):
    w.name_server.silent = True
    with w.broker(["host=dns.example;ports=2222;protocol=tcp"], ports=(2222,)) as b:
        assert is_reset(connect("dns.example", 2222))
        b.wait_event(kind="failed", target="dns.example")
    tries = [[q[:2] for q in w.name_server.queries if kind_of(q) == kind] for kind in (A, AAAA)]
    assert [len(ids) for ids in tries] == [2, 2], tries
    assert any(first != second for first, second in tries), tries


def waiting_to_be_accepted(port):
    text = subprocess.run(["ss", "-ltnH", f"sport = :{port}"], check=True, capture_output=True, text=True).stdout
    return sum(int(line.split()[1]) for line in text.splitlines())


PATIENT = 5  # tries, a second each: the name server is silent until the test says otherwise


def test_a_question_that_is_under_way_is_asked_once(w):
    n = 20
    w.name_server.silent = True
    rules = [WEB, "host=dns.example;ports=2222;protocol=tcp"]
    with w.broker(rules, ports=(80, 2222), tries=PATIENT) as b, Server(w.net, 2222, banner):
        clients = [connect("dns.example", 2222) for _ in range(n)]
        eventually("all are accepted", lambda: waiting_to_be_accepted(2222) == 0)
        assert ask("web.example")[0] == 0
        w.name_server.table["dns.example"] = [PUBLIC4 + "20"]
        w.name_server.silent = False
        for s in clients:
            assert read_exactly(s, 3) == b"220"
            s.close()
        for _ in clients:
            b.wait_event(kind="closed")
    assert len(w.name_server.queries) <= 2 * PATIENT, "one of each family, in each try"


def test_who_asked_first_and_left_takes_nobodys_answer_away(w):
    w.name_server.silent = True
    with w.broker(["host=dns.example;ports=2222;protocol=tcp"], ports=(2222,), tries=PATIENT) as b, Server(w.net, 2222, banner):
        first, second = connect("dns.example", 2222), connect("dns.example", 2222)
        eventually("both are accepted", lambda: waiting_to_be_accepted(2222) == 0)
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        first.close()
        assert "broke off" in b.wait_event(kind="failed")["reason"]
        w.name_server.table["dns.example"] = [PUBLIC4 + "20"]
        w.name_server.silent = False
        with second:
            assert read_exactly(second, 3) == b"220"
