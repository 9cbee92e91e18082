# SPDX-License-Identifier: Apache-2.0
"""Tests of test_broker.py: connections that carry secrets."""
import hashlib
import json
import os
import socket
import ssl
import subprocess
import time

from clients import address_of, client_hello, connect, eventually, is_reset, read_all, read_exactly, read_response, request
from pki import Pki
from servers import Proxy, Server, keep, read_head
from world import PUBLIC4, BrokerError

SANITIZED = os.environ.get("CORDON_SANITIZED") == "1"
VALUE = "sk-live-0123456789abcdef"
API = "host=api.example;ports=80,443;protocol=web"
OTHER = "host=other.example;ports=80,443;protocol=web"
HOSTS = f"{PUBLIC4}30 api.example\n{PUBLIC4}31 other.example\n{PUBLIC4}32 a.sub.example\n"
RULE = "from=env:KEY;hosts=api.example"
BIG = (16 if SANITIZED else 100) << 20
HOST = "api.example"


class Api(Server):
    """Speaks TLS, answers as the path says, and keeps what it gets: every byte of a head, and each request's head and body."""

    def __init__(self, net, context, port=443):
        self.context, self.bytes, self.requests, self.failures = context, b"", [], []
        super().__init__(net, port, self.talk)

    def talk(self, c):
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            t = self.context.wrap_socket(c, server_side=True)
        except OSError as e:
            self.failures.append(e)
            raise
        self.connections.append(t)
        while head := read_head(t):
            self.bytes += head
            body = self.read_body(t, head)
            self.requests.append((head, body))
            if not self.answer(t, head, body):
                return
        t.unwrap()
        t.close()

    def read_body(self, t, head):
        lower = head.lower()
        if b"\r\nexpect: 100-continue\r\n" in lower:
            t.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if b"\r\ntransfer-encoding: chunked\r\n" in lower:
            body = b""
            while n := int(read_line(t), 16):
                body += read_exactly(t, n)
                read_exactly(t, 2)
            read_exactly(t, 2)
            return body
        length = next((int(line.split(b":")[1]) for line in lower.split(b"\r\n") if line.startswith(b"content-length:")), 0)
        got, parts = 0, []
        while got < length:
            parts.append(t.recv(min(1 << 16, length - got)))
            assert parts[-1], "the body was cut off"
            got += len(parts[-1])
        return b"".join(parts)

    def answer(self, t, head, body):
        path = head.split(b" ")[1]
        if path == b"/upgrade":
            t.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            while data := t.recv(65536):
                t.sendall(data)
            t.unwrap()
            return False
        if path == b"/rude":
            t.sendall(b"HTTP/1.0 200 OK\r\n\r\npart of it")
            os.close(t.detach())
            return False
        if path == b"/until-the-end":
            t.sendall(b"HTTP/1.0 200 OK\r\n\r\nall of it " + VALUE[:10].encode())
            t.unwrap().close()
            return False
        answer = head if path.startswith(b"/echo") else b"x" * BIG if path == b"/big" else hashlib.sha256(body).hexdigest().encode()
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
        t.sendall(whole)
        return True


def read_line(t):
    line = b""
    while not line.endswith(b"\r\n"):
        line += read_exactly(t, 1)
    return line


class Carried:
    """The outside with a server for api.example and a broker with a secret for it."""

    def __init__(self, w, rule=RULE, rules=(API,), server=None, port=443, value=VALUE, more=(), **options):
        if not hasattr(w, "pki"):
            w.pki = Pki()
        self.w, self.port = w, port
        self.server = Api(w.net, server or w.pki.context(HOST), port) if server is not False else None
        self.broker = w.broker(rules, hosts=HOSTS, ports=(80, 443, 8443), secrets=[(rule, value), *more], trust=w.pki.trust, **options)

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.broker.__exit__(*details)
        if self.server:
            self.server.__exit__(*details)

    def tls(self, name=HOST, port=443, alpn=None):
        """As a program inside: it believes the sandbox's authority and nobody else."""
        context = ssl.create_default_context(cadata=self.broker.authority[0])
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        if alpn:
            context.set_alpn_protocols(alpn)
        return context.wrap_socket(connect(name, port), server_hostname=name, suppress_ragged_eofs=False)

    def curl(self, *words, name=HOST, port=443):
        path = self.w.pki.path("authority.crt")
        open(path, "w").write(self.broker.authority[0])
        run = subprocess.run(["curl", "-sS", "--noproxy", "*", "--cacert", path, "--resolve", f"{name}:{port}:{address_of(name)}", *words],
                             capture_output=True, timeout=120)  # fmt: skip
        return run.returncode, run.stdout, run.stderr

    def heads(self):
        return [head for head, _ in self.server.requests]


def fields(head, name):
    """The values of a field."""
    lines = [line.split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line]
    return [value.strip() for field, value in lines if field.lower() == name.lower()]


def is_cut_off(s, send=b""):
    """The end comes without TLS saying that it is the end (or as a reset: Python makes no difference)."""
    try:
        if send:
            s.sendall(send)
        s.recv(1)
        return False
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
        return True


def error_of(body):
    return json.loads(body)["error"]


# ---- what is carried ----


def test_a_secret_is_put_in_on_the_way_and_never_seen_inside(w):
    with Carried(w) as x:
        with x.tls() as s:
            assert s.version() == "TLSv1.3" and s.getpeercert()["subjectAltName"] == (("DNS", HOST),)
            for i, more in enumerate(("", "authorization: Bearer placeholder\r\nAUTHORIZATION: two\r\nAuthorization:\r\n", "X-Other: y\r\n")):
                s.sendall(request(HOST, f"/{i}", more))
                head, body = read_response(s)
                assert head.startswith(b"HTTP/1.1 200") and body == hashlib.sha256(b"").hexdigest().encode()
        eventually("three requests", lambda: len(x.server.requests) == 3)
        for i, head in enumerate(x.heads()):
            assert head.startswith(b"GET /%d HTTP/1.1\r\nHost: api.example\r\n" % i), head
            assert fields(head, b"Authorization") == [b"Bearer " + VALUE.encode()], head
        assert fields(x.heads()[2], b"X-Other") == [b"y"]
        opened, closed = x.broker.wait_event(kind="opened"), x.broker.wait_event(kind="closed")
        assert opened["protocol"] == "tls" and opened["port"] == 443 and opened["address"].startswith(PUBLIC4 + "30"), opened
        assert closed["sent"] == sum(len(request(HOST, f"/{i}", m)) for i, m in enumerate(("", "x" * 71, "X-Other: y\r\n"))), closed
        assert closed["received"] > 0 and closed["reason"] is None, closed


def test_curl_and_its_bodies(w):
    with Carried(w) as x:
        body = os.urandom(70000)
        path = w.pki.path("body")
        open(path, "wb").write(body)
        wanted = hashlib.sha256(body).hexdigest().encode()
        for words in ([], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect: 100-continue"], ["--tls-max", "1.2"]):
            code, out, err = x.curl(f"https://{HOST}/v1", "--data-binary", "@" + path, *words)
            assert code == 0 and out == wanted, (words, code, out, err)
        code, out, err = x.curl(f"https://{HOST}/1", f"https://{HOST}/2", f"https://{HOST}/3", "-w", " %{num_connects}\n")
        assert code == 0 and [line[-1:] for line in out.splitlines()] == [b"1", b"0", b"0"], (out, err)
        assert all(fields(head, b"authorization") == [b"Bearer " + VALUE.encode()] for head in x.heads()) and len(x.heads()) == 7
        assert all(got == body for _, got in x.server.requests[:4])


def test_requests_in_one_piece_are_answered_in_order(w):
    with Carried(w) as x, x.tls() as s:
        s.sendall(b"".join(request(HOST, f"/{i}") for i in range(20)) + b"POST /p HTTP/1.1\r\nHost: api.example\r\nContent-Length: 3\r\n\r\nabc" + request(HOST, "/z"))
        answers = [read_response(s)[1] for _ in range(22)]
        assert answers[20] == hashlib.sha256(b"abc").hexdigest().encode()
        paths = [head.split(b" ")[1] for head in x.heads()]
        assert paths == [b"/%d" % i for i in range(20)] + [b"/p", b"/z"], paths
        assert all(fields(head, b"Authorization") == [b"Bearer " + VALUE.encode()] for head in x.heads())


def test_100_mb_each_way(w):
    with Carried(w) as x, x.tls() as s:
        body = os.urandom(1 << 20) * (BIG >> 20)
        s.sendall(b"POST /sum HTTP/1.1\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n" % len(body))
        s.sendall(body)
        assert read_response(s)[1] == hashlib.sha256(body).hexdigest().encode()
        s.sendall(request(HOST, "/big"))
        head, got = b"", 0
        while not head.endswith(b"\r\n\r\n"):
            head += read_exactly(s, 1)
        while got < BIG:
            data = s.recv(1 << 18)
            assert data and data == b"x" * len(data)
            got += len(data)
        if not SANITIZED:
            assert int(x.broker.status("VmHWM")[0]) < 64 << 10, "it is held in memory"


def test_a_slow_client_slows_the_server_down(w):
    with Carried(w) as x, x.tls() as s:
        s.sendall(request(HOST, "/big"))
        read_exactly(s, 1000)
        before = int(x.broker.status("VmRSS")[0])
        with x.tls() as t:  # others are served meanwhile
            t.sendall(request(HOST, "/1"))
            assert read_response(t)[0].startswith(b"HTTP/1.1 200")
        if not SANITIZED:
            assert int(x.broker.status("VmRSS")[0]) < before + 4096, "it is held in memory"


def test_websocket(w):
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    with Carried(w) as x, x.tls() as s:
        s.sendall(request(HOST, "/upgrade", upgrade))
        assert read_response(s)[0].startswith(b"HTTP/1.1 101")
        s.sendall(b"\x81\x05hello")
        assert read_exactly(s, 7) == b"\x81\x05hello"
        s.sendall(VALUE.encode())
        assert read_exactly(s, len(VALUE)) == b"*" * len(VALUE)
        assert fields(x.heads()[0], b"Authorization") == [b"Bearer " + VALUE.encode()]


def test_several_secrets_the_first_of_a_header_counts(w):
    more = [("from=env:B;hosts=api.example;header=x-api-key;format={}", "second-value"), ("from=env:C;hosts=*.example;header=AUTHORIZATION", "third-value")]
    with Carried(w, more=more) as x, x.tls() as s:
        s.sendall(request(HOST, "/echo", "X_Api_Key: mine\r\n"))
        _, body = read_response(s)
        assert VALUE.encode() not in body and b"second-value" not in body and b"x-api-key: ************\r\n" in body, body
        head = x.heads()[0]
        assert fields(head, b"Authorization") == [b"Bearer " + VALUE.encode()] and fields(head, b"x-api-key") == [b"second-value"], head
        assert b"mine" not in head and b"third-value" not in head


# ---- what comes back ----


def test_an_end_without_tls_saying_so_is_passed_on_as_that(w):
    with Carried(w) as x:
        with x.tls() as s:
            s.sendall(request(HOST, "/rude"))
            read_exactly(s, len(b"HTTP/1.0 200 OK\r\n\r\npart of it"))
            assert is_cut_off(s), "it looks whole"


# ---- what is denied ----


def test_other_methods_and_paths_are_denied_and_told(w):
    rule = RULE + ";methods=GET,POST;paths=/v1/**,/models"
    with Carried(w, rule=rule) as x:
        for method, path in (("PUT", "/v1/a"), ("GET", "/v2/a"), ("GET", "/v1/../admin"), ("GET", "/v1/%2e%2e/admin"), ("GET", "/v1/%2E%2e%2Fadmin"),
                             ("GET", "/v1/..;x/admin"), ("GET", "/v1//admin"), ("GET", "/v1/%5c..%5cadmin"), ("TRACE", "/v1/a"), ("GET", "/modelsx"),
                             ("GET", "/v1/%e0%80%ae%e0%80%ae/admin"), ("GET", "/v1/..%20/admin"), ("GET", "/v1/a?_method=DELETE")):  # fmt: skip
            with x.tls() as s:
                s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: x\r\n\r\n".encode())
                head, body = read_response(s)
                error = error_of(body)
                assert head.startswith(b"HTTP/1.1 403 ") and error["code"] == "denied" and error["message"] and error["hint"], (head, body)
                assert read_all(s) == b""
        e = x.broker.wait_event(kind="denied", rule="secrets")
        assert "PUT" in e["reason"] and "GET, POST" in e["reason"] and "/v1/**" in e["reason"] and e["port"] == 443 and e["target"] == HOST, e
        assert VALUE.encode() not in x.server.bytes and not x.server.requests, x.server.bytes
        with x.tls() as s:
            for path in ("/v1/a?b=/../c", "/v1/a%20b/", "/models"):
                s.sendall(request(HOST, path))
                assert read_response(s)[0].startswith(b"HTTP/1.1 200"), path
            s.sendall(request(HOST, "/v1/x", "X-HTTP-Method-Override: DELETE\r\n"))
            assert read_response(s)[0].startswith(b"HTTP/1.1 403 ")
        with x.tls() as s:
            s.sendall(request(HOST, "/v1/x", "X-Original-Uri: /admin\r\n"))
            assert read_response(s)[0].startswith(b"HTTP/1.1 403 ")
        assert len(x.server.requests) == 3


def test_a_denied_request_behind_others_is_answered_behind_them(w):
    with Carried(w, rule=RULE + ";paths=/v1/*") as x, x.tls() as s:
        s.sendall(request(HOST, "/v1/a") + request(HOST, "/v1/b") + request(HOST, "/admin") + request(HOST, "/v1/c"))
        statuses = [read_response(s)[0].split(b" ")[1] for _ in range(3)]
        assert statuses == [b"200", b"200", b"403"] and read_all(s) == b"", statuses
        assert [head.split(b" ")[1] for head in x.heads()] == [b"/v1/a", b"/v1/b"]


def test_another_host_inside_of_tls_is_refused(w):
    with Carried(w, rules=(API, OTHER)) as x:
        for data in (request("other.example"), request(HOST, "/", "Host: other.example\r\n"), b"GET / HTTP/1.1\r\n\r\n", b"\x00\x01\x02\r\n\r\n",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n"):  # fmt: skip
            with x.tls() as s:
                assert is_cut_off(s, data), data
        assert x.broker.wait_event(kind="denied")["rule"] == "network.name"
        assert x.server.bytes == b""


def test_a_host_without_secrets_is_relayed_as_ever(w):
    with Carried(w, rules=(API, OTHER), server=False) as x, Server(w.net, 443, keep) as server:
        with connect("other.example", 443) as s:
            hello = client_hello("other.example")
            s.sendall(hello)
            assert read_exactly(server.wait_accepted(1), len(hello)) == hello, "nobody is between"


def test_only_http_1_is_spoken(w):
    with Carried(w) as x:
        with x.tls(alpn=["h2", "http/1.1"]) as s:
            assert s.selected_alpn_protocol() == "http/1.1"
        try:
            x.tls(alpn=["h2"])
            raise AssertionError("h2 alone was accepted")
        except ssl.SSLError as e:
            assert "no application protocol" in str(e).lower() or "NO_APPLICATION_PROTOCOL" in str(e), e
        assert "TLS with the client failed" in x.broker.wait_event(kind="failed")["reason"]


def test_a_client_that_does_not_believe_it_is_told_of(w):
    with Carried(w) as x:
        curl = ["curl", "-sS", "--noproxy", "*", "--resolve", f"{HOST}:443:{address_of(HOST)}", f"https://{HOST}/"]
        assert subprocess.run(curl, capture_output=True).returncode == 60
        assert "unknown ca" in x.broker.wait_event(kind="failed")["reason"]
        assert x.server.bytes == b""


# ---- whom it is given to ----


def test_a_server_that_is_not_the_one_gets_nothing(w):
    w.pki = getattr(w, "pki", None) or Pki()
    wrong = (
        (w.pki.context(HOST, root="stranger"), "unable to get local issuer"),
        (w.pki.context("other.example"), "hostname mismatch"),
        (w.pki.context(HOST, days=-1), "expired"),
        (w.pki.context(HOST, usage="clientAuth"), "purpose"),
        (w.pki.context("other.example", subject=HOST), "hostname mismatch"),
        (w.pki.context(None, subject=HOST), "hostname mismatch"),
    )
    for context, reason in wrong:
        with Carried(w, server=context) as x:
            for tls in (True, False):
                with x.tls() if tls else connect(HOST, 80) as s:
                    s.sendall(request(HOST, "/v1"))
                    head, body = read_response(s)
                    assert head.startswith(b"HTTP/1.1 502 ") and reason in error_of(body)["message"], (head, body)
                    assert read_all(s) == b""
            assert reason in x.broker.wait_event(kind="failed")["reason"]
            eventually("both were tried", lambda: len(x.server.failures) == 2)
            assert x.server.bytes == b"" and not x.server.requests
            assert x.broker.count(kind="opened") == 0


def test_stars_in_certificates_and_rules(w):
    w.pki = getattr(w, "pki", None) or Pki()
    name, rule, rules = "a.sub.example", "from=env:KEY;hosts=*.sub.example", ("host=*.sub.example;ports=443;protocol=web",)
    for pattern, status in (("*.sub.example", b"200"), ("a*.sub.example", b"502"), ("*.example", b"502")):
        with Carried(w, rule=rule, rules=rules, server=w.pki.context(pattern)) as x, x.tls(name) as s:
            s.sendall(request(name, "/v1"))
            assert read_response(s)[0].split(b" ")[1] == status, pattern
            assert (VALUE.encode() in x.server.bytes) == (status == b"200")


def test_a_server_without_tls_gets_nothing(w):
    got = []

    def listen(c):
        got.append(c.recv(65536))
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        c.close()

    with Carried(w, server=False) as x, Server(w.net, 443, listen), x.tls() as s:
        s.sendall(request(HOST, "/v1"))
        assert read_response(s)[0].startswith(b"HTTP/1.1 502 ")
        assert VALUE.encode() not in b"".join(got) and b"/v1" not in b"".join(got) and got


def test_an_old_tls_is_not_spoken(w):
    w.pki = getattr(w, "pki", None) or Pki()
    old = w.pki.context(HOST)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with Carried(w, server=old) as x, x.tls() as s:
        s.sendall(request(HOST, "/v1"))
        assert read_response(s)[0].startswith(b"HTTP/1.1 502 ")


# ---- plain HTTP inside ----


def test_plain_http_inside_is_tls_outside(w):
    with Carried(w) as x:
        with connect(HOST, 80) as s:
            for host in (HOST, HOST + ":80"):
                s.sendall(request(host, "/v1/a"))
                assert read_response(s)[0].startswith(b"HTTP/1.1 200")
        for head in x.heads():
            assert fields(head, b"host") == [b"api.example"] and fields(head, b"Authorization") == [b"Bearer " + VALUE.encode()], head
        assert x.broker.wait_event(kind="opened")["protocol"] == "http"
        assert x.broker.wait_event(kind="closed")["port"] == 80


def test_plain_http_needs_port_443_to_be_allowed(w):
    with Carried(w, rules=("host=api.example;ports=80;protocol=web",)) as x:
        assert is_reset(connect(HOST, 80), request(HOST))
        e = x.broker.wait_event(kind="denied", rule="secrets")
        assert "443" in e["reason"], e
        assert x.server.accepted == 0


def test_plain_http_at_another_port_is_tls_at_that_port(w):
    with Carried(w, rules=("host=api.example;ports=8443;protocol=web",), port=8443) as x:
        with connect(HOST, 8443) as s:
            s.sendall(request(HOST + ":8443", "/v1/a"))
            assert read_response(s)[0].startswith(b"HTTP/1.1 200")
        with x.tls(port=8443) as s:
            s.sendall(request(HOST + ":8443", "/v1/a"))
            assert read_response(s)[0].startswith(b"HTTP/1.1 200")
        for head in x.heads():
            assert fields(head, b"host") == [b"api.example:8443"] and fields(head, b"Authorization") == [b"Bearer " + VALUE.encode()], head


def test_a_client_that_has_said_all_still_gets_its_answer(w):
    with Carried(w) as x, connect(HOST, 80) as s:
        s.sendall(request(HOST, "/v1/a") + request(HOST, "/v1/b"))
        s.shutdown(socket.SHUT_WR)
        assert read_all(s).count(b"HTTP/1.1 200") == 2
        closed = x.broker.wait_event(kind="closed")
        assert closed["reason"] is None, closed


# ---- the broker ----


def test_another_broker_goes_on_with_the_same_authority(w):
    with Carried(w) as x:
        first = x.broker.authority
    assert "BEGIN CERTIFICATE" in first[0] and "PRIVATE KEY" in first[1]
    with Carried(w, authority=first) as x:
        assert x.broker.authority == first
        with x.tls() as s:
            s.sendall(request(HOST))
            assert read_response(s)[0].startswith(b"HTTP/1.1 200")
    with Carried(w) as x:
        assert x.broker.authority[0] != first[0], "each sandbox has its own"


def test_what_cannot_be_used_is_an_error(w):
    w.pki = getattr(w, "pki", None) or Pki()
    common = {"hosts": HOSTS, "secrets": [(RULE, VALUE)]}
    for options, reason in (
        ({"trust": w.pki.path("nothing")}, b"no certificates can be read"),
        ({"trust": w.pki.path("root.key")}, b"no certificates can be read"),
        ({"trust": w.pki.trust, "authority": ("x", "y")}, b"own certificate cannot be read"),
        ({"trust": w.pki.trust, "secrets": [(RULE, "a\rb")]}, b"line break"),
        ({"trust": w.pki.trust, "secrets": [(RULE, "")]}, b"empty"),
        ({"trust": w.pki.trust, "secrets": [(RULE, "a" * 16385)]}, b"too long for a header"),
        ({"trust": w.pki.trust, "secrets": [(RULE + ";header=Host", VALUE)]}, b"cannot carry a secret"),
    ):
        try:
            w.broker([API], **{**common, **options}).close()
            raise AssertionError(f"{options} was accepted")
        except BrokerError as e:
            assert reason in e.args[0], (options, e)


def test_the_upstream_proxy_is_used_for_it(w):
    w.pki = getattr(w, "pki", None) or Pki()
    proxy = Proxy(w.net, (PUBLIC4 + "30", 443), speaks_first=False)
    with Carried(w, proxy=f"http://{PUBLIC4}40:3128") as x, Server(w.net, 3128, proxy), x.tls() as s:
        s.sendall(request(HOST))
        assert read_response(s)[0].startswith(b"HTTP/1.1 200")
        assert proxy.asked[0].startswith(b"CONNECT api.example:443 ") and VALUE.encode() not in proxy.asked[0]


def test_nothing_of_a_secret_is_in_its_messages(w):
    with Carried(w) as x:
        with x.tls() as s:
            s.sendall(request(HOST, "/echo"))
            read_response(s)
            s.sendall(request("other.example"))
            is_reset(s)
        x.broker.wait_event(kind="closed")
        assert VALUE not in repr(x.broker.events)
        assert x.broker.status("CoreDumping") == ["0"]


def test_many_connections_at_a_time(w):
    many = 100 if SANITIZED else 500
    with Carried(w) as x:
        before = int(x.broker.status("VmRSS")[0])
        clients = [x.tls() for _ in range(many)]
        for s in clients:
            s.sendall(request(HOST, "/echo"))
        for s in clients:
            assert VALUE.encode() not in read_response(s)[1]
        each = (int(x.broker.status("VmRSS")[0]) - before) / many
        for s in clients:
            s.close()
        print(f"# {each:.0f} kB a connection", flush=True)
        assert SANITIZED or each < 128, f"{each} kB a connection"
        assert len(x.server.requests) == many


def test_the_limit_on_bytes_holds_for_them(w):
    """As many bytes as there may be in 2 s, without those that may go at once."""
    rate = 4 << 20
    with Carried(w, bandwidth=rate) as x, x.tls() as s:
        begin = time.monotonic()
        s.sendall(b"POST /sum HTTP/1.1\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n" % (2 * rate))
        s.sendall(bytes(2 * rate))
        assert read_response(s)[0].startswith(b"HTTP/1.1 200")
        assert time.monotonic() - begin >= 1.9 * 0.95, "never faster, however fast the machine: a tenth of a second's worth may be saved up"
