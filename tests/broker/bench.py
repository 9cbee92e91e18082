# SPDX-License-Identifier: Apache-2.0
"""bench.py PROGRAM: what the broker costs against a direct connection over loopback. One stream; then a connection, one byte each way, closed."""
import contextlib
import os
import signal
import socket
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import test_broker  # noqa: E402
from clients import address_of  # noqa: E402
from servers import NameServer  # noqa: E402
from world import PUBLIC4, in_namespace  # noqa: E402

STREAM, CONNECT, SIZE, ROUNDS = 7001, 7002, 2 << 30, 300


def serve(world, port, work):
    """A process of its own, so that it does not share an interpreter with the client."""

    def bind():
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", port))
        s.listen(128)
        return s

    listener = world.call_outside(bind, world.internet)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        while True:
            c, _ = listener.accept()
            with c, contextlib.suppress(OSError):
                work(c)
    listener.close()
    return pid


def send_much(c):
    data, sent = memoryview(bytearray(1 << 20)), 0
    while sent < SIZE:
        sent += c.send(data)


def answer(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := c.recv(1):
        c.sendall(data)


def stream(address):
    room, got = bytearray(1 << 20), 0
    with socket.create_connection((address, STREAM)) as s:
        started = time.monotonic()
        while n := s.recv_into(room):
            got += n
    assert got >= SIZE
    return got / (time.monotonic() - started)


def latencies(address):
    found = []
    for _ in range(ROUNDS):
        started = time.monotonic()
        with socket.create_connection((address, CONNECT)) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            found.append(time.monotonic() - started)
    return statistics.median(found)


def used(pid):
    """Seconds of processor time."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    if "BROKER_TEST_ROOT" not in os.environ:
        test_broker.own_namespaces()
    w = test_broker.World(os.path.abspath(sys.argv[1]))
    pids = [serve(w.net, STREAM, send_much), serve(w.net, CONNECT, answer)]
    rule = f"host=raw.example;ports={STREAM},{CONNECT};protocol=tcp"
    try:
        with NameServer(w.net, {}), w.broker([rule], ports=(STREAM, CONNECT)) as b:
            inside = address_of("raw.example")
            in_namespace(w.net.outside)
            direct = max(stream(PUBLIC4 + "11") for _ in range(3)), latencies(PUBLIC4 + "11")
            in_namespace(w.net.inside)
            before = used(b.process.pid)
            rates = [stream(inside) for _ in range(3)]
            cost = (used(b.process.pid) - before) / (3 * SIZE / 1e9)
            brokered = max(rates), latencies(inside)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        w.directory.cleanup()
    print(f"stream: direct {direct[0] / 1e9:.2f} GB/s, by the broker {brokered[0] / 1e9:.2f} GB/s: {100 * brokered[0] / direct[0]:.0f} %")
    print(f"the broker's own time: {cost:.2f} s per GB")
    print(f"connection and one byte each way, p50: direct {direct[1] * 1e6:.0f} us, by the broker {brokered[1] * 1e6:.0f} us")


main()
