# SPDX-License-Identifier: Apache-2.0
"""Tests of test_broker.py: what comes back on connections that carry secrets, and how they end."""
import ssl
import threading

from carried import HOST, HOSTS, RULE, VALUE, Api, Carried, error_of, fields
from clients import client_hello, connect, eventually, read_all, read_exactly, read_response, request
from pki import Pki
from servers import Server, keep
from world import PUBLIC4, RAW, SILENT6

ENDED = "the sandbox ended while it was being connected"


class Saying(Api):
    """Says what stands behind the "?" of a path; or ends."""

    def answer(self, t, head, body):
        path, _, text = head.split(b" ")[1].partition(b"?")
        if path == b"/v1/end":
            t.unwrap().close()
            return False
        if path == b"/v1/until-the-end":
            t.sendall(b"HTTP/1.0 200 OK\r\n\r\nall of it")
            t.unwrap().close()
            return False
        if path == b"/v1/when-told":
            assert self.go.wait(60)
        if path == b"/v1/chunk":
            t.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (len(text) + 1) + text)
        else:
            t.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (0 if head.startswith(b"HEAD") else len(text)) + text)
        return True


class Said(Carried):
    def __init__(self, w, **options):
        super().__init__(w, **options)
        self.server.go = threading.Event()
        self.server.__class__ = Saying


# ---- the mask ----


def test_what_a_server_says_back_is_masked(w):
    with Carried(w) as x, x.tls() as s:
        for _ in range(2):
            s.sendall(request(HOST, "/echo", "Accept-Encoding: gzip, br\r\naccept-encoding: zstd\r\n"))
            _, body = read_response(s)
            assert b"Authorization: Bearer " + b"*" * len(VALUE) + b"\r\n" in body and VALUE.encode() not in body, body
        assert all(fields(head, b"Accept-Encoding") == [b"identity"] for head in x.heads()), x.heads()
        s.sendall(request(HOST, "/until-the-end"))
        assert read_all(s).endswith(b"all of it " + VALUE[:10].encode()), "the beginning of a secret is none"


def test_nothing_is_held_back_whatever_it_looks_like(w):
    """Who sees what is, and has a server say a text of its choice, finds out the secret."""
    with Said(w) as x, x.tls() as s:
        s.settimeout(20)
        for n in range(1, len(VALUE)):
            for text in (VALUE[:n], "x" * n + VALUE[:n], VALUE[: n // 2] + VALUE[:n]):
                s.sendall(request(HOST, "/v1/say?" + text))
                assert read_response(s)[1] == text.encode(), text
        s.sendall(request(HOST, "/v1/say?" + VALUE))
        assert read_response(s)[1] == b"*" * len(VALUE)
        s.sendall(request(HOST, "/v1/chunk?" + VALUE[:-1]))
        assert read_exactly(s, 47 + 4 + len(VALUE) - 1).endswith(b"\r\n" + VALUE[:-1].encode()), "of a body that goes on"


# ---- whose answer it is ----


def test_a_denied_request_takes_nobody_elses_answer(w):
    with Said(w, rule=RULE + ";paths=/v1/*") as x:
        with x.tls() as s:  # it is denied while the first one waits
            s.sendall(request(HOST, "/v1/when-told?first") + request(HOST, "/admin"))
            x.broker.wait_event(kind="denied", rule="secrets")
            x.server.go.set()
            assert read_response(s)[1] == b"first"
            assert read_response(s)[0].startswith(b"HTTP/1.1 403 ") and read_all(s) == b""
        with x.tls() as s:
            s.sendall(request(HOST, "/v1/end") + request(HOST, "/admin"))
            assert read_all(s) == b"", "the host did not answer: that is not ours to do"
        with x.tls() as s:
            s.sendall(request(HOST, "/v1/until-the-end") + request(HOST, "/admin"))
            assert read_all(s) == b"HTTP/1.0 200 OK\r\n\r\nall of it", "whatever follows would be taken for a part of it"
        with x.tls() as s:  # nobody waits for a host that has answered
            s.sendall(request(HOST, "/v1/a?1") + b"HEAD /v1/a HTTP/1.1\r\nHost: api.example\r\n\r\n" + request(HOST, "/v1/a?3"))
            assert [read_response(s)[1] for _ in range(3)] == [b"1", b"", b"3"]
            s.sendall(request(HOST, "/admin"))
            assert read_response(s)[0].startswith(b"HTTP/1.1 403 ") and read_all(s) == b""


# ---- hosts that say no ----


def test_a_host_that_demands_a_certificate_of_ours(w):
    w.pki = getattr(w, "pki", None) or Pki()
    for version, reason in ((ssl.TLSVersion.TLSv1_3, "certificate required"), (ssl.TLSVersion.TLSv1_2, "handshake failure")):
        context = w.pki.context(HOST)
        context.verify_mode, context.minimum_version, context.maximum_version = ssl.CERT_REQUIRED, version, version
        context.load_verify_locations(w.pki.trust)
        with Carried(w, server=context) as x, x.tls() as s:
            s.sendall(request(HOST, "/v1"))
            head, body = read_response(s)
            assert head.startswith(b"HTTP/1.1 502 ") and reason in error_of(body)["message"], (head, body)
            assert read_all(s) == b"" and reason in x.broker.wait_event(kind="failed")["reason"]


# ---- the end ----


def dials(w, address):
    """Whether somebody outside waits for this address to answer (SYN_SENT)."""
    wanted = "".join(f"{int.from_bytes(address[i:i + 4], 'little'):08X}" for i in range(0, 16, 4))
    lines = [line.split() for line in w.net.call_outside(lambda: open("/proc/thread-self/net/tcp6").read()).splitlines()[1:]]
    return any(remote.startswith(wanted) and state == "02" for _, _, remote, state, *_ in lines)


def test_what_is_being_connected_at_the_end_is_told(w):
    w.pki = getattr(w, "pki", None) or Pki()
    secrets = {"secrets": [("from=env:KEY;hosts=*.sub.example", VALUE)], "trust": w.pki.trust}
    with Server(w.net, 443, keep) as server:  # it knows the name, and says nothing
        b = w.broker(["host=*.sub.example;ports=443;protocol=web"], hosts=HOSTS, ports=(443,), **secrets)
        with connect("a.sub.example", 443) as s:
            s.sendall(client_hello("a.sub.example"))
            assert b"a.sub.example" in server.wait_accepted(1).recv(4096)
            assert b.close() == 0
        assert [(e["kind"], e["target"], e["address"], e["reason"]) for e in b.events] == [("failed", "a.sub.example", PUBLIC4 + "32", ENDED)], b.events
    b = w.broker([RAW], hosts=f"{SILENT6}1 raw.example\n", ports=(2222,))
    with connect("raw.example", 2222):
        eventually("it is dialled", lambda: dials(w, bytes.fromhex("2a00dead" + "0" * 23 + "1")))
        assert b.close() == 0
    assert [(e["kind"], e["target"], e["reason"]) for e in b.events] == [("failed", "raw.example", ENDED)], b.events


def test_what_has_failed_is_told_once(w):
    w.pki = getattr(w, "pki", None) or Pki()
    x = Carried(w, server=w.pki.context("other.example"))
    with x.server, x.tls() as s:
        s.sendall(request(HOST))
        assert read_response(s)[0].startswith(b"HTTP/1.1 502 ")
        assert x.broker.close() == 0  # it still waits for the client to end
        assert [e["kind"] for e in x.broker.events] == ["failed"], x.broker.events
