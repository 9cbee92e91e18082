#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""world.py DIR: an internet of its own, for a network namespace in which nothing but the loopback interface exists: the caller's, which is the host from here on.

The internet is a second namespace, at the other end of a cable; the host's own services and addresses are in the first. DIR gets: ca/ca.pem, hosts and resolv.conf for the
broker, log (a line "WHO WHAT" for everything that reaches a server), ready. What must never be reached answers with the word in DIR/evil.
"""
import ctypes
import os
import resource
import secrets
import signal
import subprocess
import sys
import threading

import names
import services

PUBLIC, PUBLIC6 = "9.9.9.10", "2620:fe::10"
H2, DEAD, FULL, RESET, EVIL, EVIL6 = "9.9.9.11", "9.9.9.13", "9.9.9.14", "9.9.9.15", "9.9.9.66", "2620:fe::66"
DNS, OTHER_DNS, PROXY = "9.9.9.53", "9.9.9.54", "9.9.9.80"
# Addresses of the host itself that look like the internet's, and one of its neighbours.
OWN, OWN6, NEIGHBOUR, LATER = "9.9.8.10", "2620:fe:1::1", "2620:fe:1::66", "9.9.8.11"  # a test gives it the last one when it likes
# Special addresses, behind which the host's own services and its neighbours are.
SPECIAL = ["127.0.0.1", "::1", "10.0.0.5", "172.16.0.5", "192.168.0.5", "100.64.0.5", "169.254.169.254", "192.0.0.8", "fd12::5", "fec0::5", "64:ff9b::a00:5",
           "2002:a00:5::1", OWN, OWN6, NEIGHBOUR]
HOST = ["127.0.0.1", "::1", OWN, OWN6]
ADDRESSES = [PUBLIC, PUBLIC6, H2, DEAD, FULL, RESET, EVIL, EVIL6, DNS, OTHER_DNS, PROXY, *(a for a in SPECIAL if a not in HOST)]
CABLE = [("192.0.2.1/30", "2001:db8::1/64", f"{OWN6}/64"), ("192.0.2.2/30", "2001:db8::2/64", f"{NEIGHBOUR}/64")]  # the addresses of its ends
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)

FRONT = ["api", "files", "pypi", "registry", "git", "ws", "one", "two"]
HOSTS = {  # by the broker's hosts file
    **{f"{n}.example": [PUBLIC, PUBLIC6] for n in FRONT},
    "v4.example": [PUBLIC], "v6.example": [PUBLIC6], "h2.example": [H2], "dead.example": [DEAD], "full.example": [FULL], "reset.example": [RESET],
    "half-dead.example": [DEAD, PUBLIC6],  # one family answers
    "evil.example": [EVIL, EVIL6], "hosts-local.example": ["127.0.0.1"], "proxy.example": [PROXY],
    "wrong.example": [PUBLIC],  # its server has the others' certificate
}
ZONES = {  # by the resolver in its resolv.conf
    "asked.example": [PUBLIC, PUBLIC6],
    "mixed.example": ["10.0.0.5", PUBLIC], "own-mixed.example": [OWN, PUBLIC], "later.example": [LATER],
    "many.example": [*(f"10.0.1.{i}" for i in range(1, 32)), PUBLIC],  # an answer that fits into no datagram
    "a.wild.example": [PUBLIC], "b.wild.example": [PUBLIC], "denied.wild.example": [EVIL],
    "mapped.example": ["::ffff:127.0.0.1"], "compatible.example": ["::7f00:1"], "zero.example": ["0.0.0.0"], "link.example": ["fe80::1"],
    "synthetic.example": ["198.18.0.1"], "multicast.example": ["224.0.0.1"], "broadcast.example": ["255.255.255.255"],
    **{f"s{i}.example": [a] for i, a in enumerate(SPECIAL)},
}
CERTIFIED = [n for n in (*HOSTS, *ZONES, "*.wild.example") if n != "wrong.example"]


# ---- the cable ----

def namespace():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(namespace):
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def ip(*lines):
    """Commands of ip(8), in the namespace that this thread is in."""
    subprocess.run(["ip", "-force", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def plug(end):
    ip("link set lo up", f"link set cable{end} mtu 65535 up", *(f"address add {a} dev cable{end} {'nodad' * (':' in a)}" for a in CABLE[end]))


def lay_cable():
    """Returns the host's namespace and that of the internet, in which this thread is then."""
    host = namespace()
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    internet = namespace()
    enter(host)
    ip(f"link add cable0 type veth peer name cable1 netns /proc/{os.getpid()}/fd/{internet}")
    plug(0)
    ip(f"address add {OWN}/32 dev lo", *(f"route add {a} via {'2001:db8::2' if ':' in a else '192.0.2.2'}" for a in ADDRESSES if a != NEIGHBOUR))
    enter(internet)
    plug(1)
    ip(*(f"address add {a} dev lo {'nodad' * (':' in a)}" for a in ADDRESSES if a != NEIGHBOUR))
    return host, internet


# ---- files ----

def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates(dir):
    os.makedirs(f"{dir}/ca")
    os.makedirs(f"{dir}/key", mode=0o700)
    with open(f"{dir}/key/ca.cnf", "w") as f:
        f.write("[req]\ndistinguished_name=dn\nprompt=no\nx509_extensions=v3\n[dn]\nCN=Test CA\n[v3]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
                "subjectKeyIdentifier=hash\n")
    with open(f"{dir}/key/leaf.ext", "w") as f:
        alternatives = ",".join([*(f"DNS:{n}" for n in CERTIFIED), *(f"IP:{a}" for a in (*ADDRESSES, *HOST))])
        f.write(f"basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName={alternatives}\nauthorityKeyIdentifier=keyid\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "30", "-config", f"{dir}/key/ca.cnf", "-keyout", f"{dir}/key/ca.key", "-out", f"{dir}/ca/ca.pem")
    openssl("req", "-new", *key, "-subj", "/CN=server", "-keyout", f"{dir}/key/leaf.key", "-out", f"{dir}/key/leaf.csr")
    openssl("x509", "-req", "-in", f"{dir}/key/leaf.csr", "-CA", f"{dir}/ca/ca.pem", "-CAkey", f"{dir}/key/ca.key", "-CAcreateserial", "-days", "30", "-extfile", f"{dir}/key/leaf.ext",
            "-out", f"{dir}/key/leaf.pem")


def write_files(dir):
    with open(f"{dir}/hosts", "w") as f:
        f.writelines(f"{a}\t{n}\n" for n, all in HOSTS.items() for a in all)
    with open(f"{dir}/resolv.conf", "w") as f:
        f.write(f"nameserver {DNS}\noptions timeout:2 attempts:2\n")


def die_with_parent():
    libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def start_h2(dir):
    """HTTP/2 over TLS by somebody else's hand, if it is there."""
    os.makedirs(f"{dir}/h2")
    with open(f"{dir}/h2/index.html", "w") as f:
        f.write("hello by HTTP/2\n")
    try:
        subprocess.Popen(["nghttpd", "-a", H2, "-d", f"{dir}/h2", "443", f"{dir}/key/leaf.key", f"{dir}/key/leaf.pem"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         preexec_fn=die_with_parent)
    except FileNotFoundError:
        pass  # the tests say that they skip it


def main(dir):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    threading.stack_size(256 << 10)
    evil = "EVIL-" + secrets.token_hex(8)
    with open(f"{dir}/evil", "w") as f:
        f.write(evil)
    make_certificates(dir)
    write_files(dir)
    host, internet = lay_cable()
    w = services.World(dir, evil)
    for address in PUBLIC, PUBLIC6:
        w.web(address, "front")
        w.tcp_services(address)
        w.listen(address, 8080, services.http, "front-8080")
        w.listen(address, 2222, services.evil, "evil-port")
    for address in EVIL, EVIL6, *SPECIAL:
        enter(host if address in HOST else internet)
        w.evil(address)
    enter(internet)
    w.full(FULL, 443)
    w.listen(RESET, 443, services.reset, "reset")
    w.listen(PROXY, 3128, services.http, "proxy")
    names.serve(w, DNS, "dns", ZONES)
    names.serve(w, OTHER_DNS, "evil-dns", {})
    w.tls(OTHER_DNS, 853, services.evil, "evil-dns")
    w.tls(OTHER_DNS, 443, services.evil, "evil-dns")
    start_h2(dir)
    open(f"{dir}/ready", "w").close()
    sys.stdin.read()  # until whoever started us ends
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "special":
        print(*(f"s{i}.example={a}" for i, a in enumerate(SPECIAL)))
    else:
        main(sys.argv[1])
