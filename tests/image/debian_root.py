#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small Debian root out of this machine's own packages, without a network: debian_root.py DIR PACKAGE...

The packages, what they depend on, and dpkg's own records of them, so that dpkg and apt work in it. Exit status 77: this machine has no dpkg, or
lacks one of them."""
import os
import re
import shutil
import subprocess
import sys

STATUS = "/var/lib/dpkg/status"
INFO = "/var/lib/dpkg/info"
ESSENTIAL = "base-files base-passwd coreutils dash debconf diffutils dpkg findutils grep gzip libc-bin perl-base sed tar".split()


def paragraphs():
    with open(STATUS, encoding="utf-8") as f:
        for text in f.read().split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", text, re.M))
            if fields.get("Status", "").endswith(" installed"):
                yield fields, text


def closure(names, installed, provided):
    todo, seen = list(names), set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        if name not in installed:
            print(f"{name} is not installed", file=sys.stderr)
            sys.exit(77)
        seen.add(name)
        fields = installed[name][0]
        for group in filter(None, re.split(r",\s*", ", ".join(filter(None, (fields.get("Depends"), fields.get("Pre-Depends")))))):
            for choice in group.split("|"):
                choice = re.sub(r"[ :(].*", "", choice.strip())
                choice = choice if choice in installed else provided.get(choice)
                if choice:
                    todo.append(choice)
                    break
    return sorted(seen)


def info_files(name, fields):
    for base in (name, f"{name}:{fields['Architecture']}"):
        for entry in os.listdir(INFO):
            if entry.rsplit(".", 1)[0] == base:
                yield os.path.join(INFO, entry)


def owned(name, fields):
    for path in info_files(name, fields):
        if path.endswith(".list"):
            with open(path, encoding="utf-8") as f:
                for line in f.read().splitlines():
                    if line != "/." and os.path.lexists(line) and not line.startswith(("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/")):
                        yield line


def main():
    target, names = sys.argv[1], sys.argv[2:]
    if not os.path.exists(STATUS):
        print("this machine has no dpkg", file=sys.stderr)
        sys.exit(77)
    installed, provided = {}, {}
    for fields, text in paragraphs():
        installed[fields["Package"]] = (fields, text)
        for other in filter(None, re.split(r",\s*", fields.get("Provides", ""))):
            provided.setdefault(re.sub(r"[ :(].*", "", other), fields["Package"])
    chosen = closure(names + ESSENTIAL, installed, provided)
    files = []
    for name in chosen:
        files += owned(name, installed[name][0])
        files += info_files(name, installed[name][0])
    links = [link for link in ("/bin", "/sbin", "/lib", "/lib64") if os.path.islink(link)]
    files += [os.path.join(INFO, "format")]
    files = ["/usr"] + [os.path.realpath(link) for link in links] + links + files
    os.makedirs(target, exist_ok=True)
    listing = "\0".join(dict.fromkeys(path.lstrip("/") for path in files)) + "\0"
    pack = subprocess.Popen(["tar", "-C", "/", "-cf", "-", "--no-recursion", "--ignore-failed-read", "--warning=none", "--null", "-T", "-"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    unpack = subprocess.Popen(["tar", "-C", target, "-xf", "-", "--keep-directory-symlink", "--delay-directory-restore"], stdin=pack.stdout)
    pack.stdout.close()
    pack.stdin.write(listing.encode())
    pack.stdin.close()
    if unpack.wait() or pack.wait():
        sys.exit("cannot copy the packages")
    for path in ("etc", "var/lib/dpkg/updates", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt", "tmp", "root", "dev", "proc"):
        os.makedirs(os.path.join(target, path), exist_ok=True)
    with open(os.path.join(target, "var/lib/dpkg/status"), "w", encoding="utf-8") as f:
        f.write("\n\n".join(installed[name][1].strip("\n") for name in chosen) + "\n\n")
    for name in ("passwd", "group"):
        shutil.copy(f"/usr/share/base-passwd/{name}.master", os.path.join(target, "etc", name))
    if any(path.endswith("/apt-get") for path in files):
        with open(os.path.join(target, "etc/passwd"), "a", encoding="utf-8") as f:
            f.write("_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n")
    subprocess.run(["/sbin/ldconfig", "-r", target], check=True)


main()
