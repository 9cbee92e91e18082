#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py DIR: images for tests/integration/86-images.test, small and of every kind. Deterministic; needs nothing but Python."""
import os
import platform
import struct
import sys

from tarball import *  # noqa

ARCH = ARCHES[platform.machine()]
OTHER = 'arm64' if ARCH == 'amd64' else 'amd64'
MACHINES = {'amd64': 62, 'arm64': 183}


def elf(arch):
    """What `file` would take for a program. It does not run."""
    return b'\x7fELF' + bytes([2, 1, 1]) + bytes(9) + struct.pack('<HH', 2, MACHINES[arch]) + bytes(44)


def shell(arch=ARCH):
    return folder('usr'), folder('usr/bin'), symlink('bin', 'usr/bin'), file('usr/bin/dash', elf(arch), mode=0o755), symlink('usr/bin/sh', 'dash')


def noise(size, seed):
    out = hashlib.sha256(seed.encode()).digest()
    while len(out) < size:
        out += hashlib.sha256(out[-4096:]).digest() * 8
    return out[:size]


BOTTOM = tar(*shell(), folder('etc'), file('etc/issue', 'bottom\n'), file('gone', 'x'))
TOP_ONE = tar(folder('etc'), file('etc/issue', 'one\n'), file('.wh.gone'))
TOP_TWO = tar(file('two', noise(50000, 'two')))


def write(name, data):
    path = os.path.join(sys.argv[1], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as out:
        out.write(data)


def saved(tag, layers, arch=ARCH, **inner):
    conf = config(layers, arch, **inner)
    names = ['%s/layer.tar' % sha256(layer) for layer in layers]
    manifest = [{'Config': sha256(conf) + '.json', 'RepoTags': [tag] if tag else None, 'Layers': names}]
    return docker(layers, conf, manifest, names)


def layout(layers):
    conf = config(layers, ARCH)
    blobs, manifest = oci_blobs(layers, conf, zstd)
    return oci_files(blobs, oci_index(descriptor(manifest, 'manifest.v1+json')))


def main():
    exported = tar(*shell(), file('hello', 'hi\n', uid=1234, gid=5678), file('su', 'x', mode=0o4755), device('null'), folder('closed', 0o000))
    write('exported.tar', exported)
    write('My Export.tar.gz', gz(exported))
    write('one.tar', saved('registry.example:5000/team/One:1.0', [BOTTOM, TOP_ONE], Env=['A=b', 'PATH=/usr/bin'], WorkingDir='/srv', User='web'))
    write('two.tar', saved('two:latest', [BOTTOM, TOP_TWO]))
    write('untagged.tar', saved(None, [BOTTOM]))
    write('oci.tar', as_tar(layout([BOTTOM, TOP_ONE])))
    for name, data in layout([BOTTOM, TOP_ONE]).items():
        write('layout/' + name, data)
    write('other-papers.tar', saved('other:1', [tar(file('f', 'x'))], arch=OTHER))
    write('other-programs.tar', tar(*shell(OTHER)))
    write('no-shell.tar', tar(folder('bin'), file('bin/true', elf(ARCH), mode=0o755)))
    write('many.tar', tar(*shell(), *(file('d%d/f%d' % (i % 20, i), noise(3000, str(i))) for i in range(1500))))
    write('large.tar', tar(*shell(), *(file('large%d' % i, noise(1 << 20, str(i))) for i in range(12))))
    write('entries.tar', tar(*shell(), *(symlink('link%d' % i, 'target') for i in range(3000))))
    write('bad/zero.tar', b'')
    write('bad/text.tar', b'this is no archive, however long it goes on\n' * 100)
    write('bad/cut.tar', exported[:1700])
    write('bad/cut.tar.gz', gz(exported)[:-30])
    write('bad/broken.tar.gz', gz(exported)[:60] + b'\0' * 40 + gz(exported)[100:])
    write('bad/empty.tar', tar())
    write('bad/lies.tar', docker([BOTTOM], config([TOP_ONE], ARCH)))
    write('bad/cut-layer.tar', saved('x:1', [BOTTOM])[:2000])


main()
