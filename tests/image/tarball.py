# SPDX-License-Identifier: Apache-2.0
"""Tar archives and images made by hand: everything that Python's tarfile would not write. Deterministic."""
import bz2
import gzip
import hashlib
import io
import json
import lzma
import struct

BLOCK = 512
END = bytes(2 * BLOCK)


def octal(value, width):
    return (b'%0*o' % (width - 1, value)) + b'\0'


def base256(value, width):
    raw = value.to_bytes(width, 'big', signed=value < 0)
    return bytes([raw[0] | 0x80]) + raw[1:]


def as_bytes(text):
    return text.encode('utf-8', 'surrogateescape') if isinstance(text, str) else text


def pad(data):
    return data + bytes(-len(data) % BLOCK)


def header(name, kind=b'0', size=0, mode=0o644, uid=0, gid=0, mtime=1000000000, link=b'', dev=(0, 0), prefix=b'', magic=b'ustar\x0000',
           checksum=None, raw_size=None, raw_mtime=None, raw_uid=None, tail=b''):
    """One header block; raw_* are fields as they are to be."""
    parts = [as_bytes(name)[:100].ljust(100, b'\0'), octal(mode, 8), raw_uid or octal(uid, 8), octal(gid, 8), raw_size or octal(size, 12),
             raw_mtime or octal(mtime, 12), b' ' * 8, kind, as_bytes(link)[:100].ljust(100, b'\0'), magic, b'root'.ljust(32, b'\0'),
             b'root'.ljust(32, b'\0'), octal(dev[0], 8), octal(dev[1], 8), as_bytes(prefix)[:155].ljust(155, b'\0'), tail]
    block = b''.join(parts).ljust(BLOCK, b'\0')
    total = sum(block) if checksum is None else checksum
    return block[:148] + b'%06o\0 ' % total + block[156:]


def pax(records, kind=b'x', name='pax'):
    """An extended header. records: pairs; a value of bytes is taken as it is."""
    body = b''
    for key, value in records:
        line = b' ' + as_bytes(key) + b'=' + as_bytes(value) + b'\n'
        length = len(line) + 1
        while len(str(length)) + len(line) != length:
            length = len(str(length)) + len(line)
        body += str(length).encode() + line
    return header(name, kind, len(body)) + pad(body)


def long_name(name, kind=b'L'):
    data = as_bytes(name) + b'\0'
    return header('././@LongLink', kind, len(data), magic=b'ustar  \0') + pad(data)


def file(name, data=b'', **more):
    data = as_bytes(data)
    return header(name, b'0', len(data), **more) + pad(data)


def folder(name, mode=0o755, **more):
    return header(name, b'5', mode=mode, **more)


def symlink(name, target, **more):
    return header(name, b'2', mode=0o777, link=target, **more)


def hardlink(name, target, **more):
    return header(name, b'1', link=target, **more)


def device(name, kind=b'3', dev=(1, 3), **more):
    return header(name, kind, dev=dev, **more)


def tar(*entries, end=END):
    return b''.join(entries) + end


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# ---- compression -----------------------------------------------------------------------------------------------------------------

def gz(data):
    return gzip.compress(data, 6, mtime=0)


def xz(data):
    return lzma.compress(data, preset=1)


def bz(data):
    return bz2.compress(data, 1)


def zstd_frame(blocks):
    """blocks: (kind, size, bytes): 0 raw, 1 a byte so many times."""
    out = struct.pack('<IBB', 0xFD2FB528, 0, 0x38)  # no checksum, no size, a window of 128 KB
    for i, (kind, size, data) in enumerate(blocks):
        last = i == len(blocks) - 1
        out += (int(last) | kind << 1 | size << 3).to_bytes(3, 'little') + data
    return out


def zstd(data):
    step = 100000
    pieces = [data[i:i + step] for i in range(0, len(data), step)] or [b'']
    return zstd_frame([(0, len(p), p) for p in pieces])


def gz_zeros(before, zeros, after=b'', level=9):
    """A gzip stream with very many zeros in it."""
    out = io.BytesIO()
    with gzip.GzipFile('', 'wb', level, out, mtime=0) as f:
        f.write(before)
        chunk = bytes(1 << 20)
        for _ in range(zeros // len(chunk)):
            f.write(chunk)
        f.write(bytes(zeros % len(chunk)) + after)
    return out.getvalue()


# ---- images ----------------------------------------------------------------------------------------------------------------------

ARCHES = {'x86_64': 'amd64', 'aarch64': 'arm64'}


def dumps(value):
    return json.dumps(value, separators=(',', ':'), sort_keys=True).encode()


def config(layers, arch, os='linux', diff_ids=None, **inner):
    ids = diff_ids if diff_ids is not None else ['sha256:' + sha256(layer) for layer in layers]
    return dumps({'architecture': arch, 'os': os, 'config': inner, 'rootfs': {'type': 'layers', 'diff_ids': ids}})


def docker(layers, conf, manifest=None, names=None, extra=b'', conf_name=None, leave_out=()):
    """`docker save` as it was before Docker 25: ID/layer.tar and ID.json."""
    names = names or ['%s/layer.tar' % sha256(b'%d' % i + layer) for i, layer in enumerate(layers)]
    conf_name = conf_name or sha256(conf) + '.json'
    if manifest is None:
        manifest = [{'Config': conf_name, 'RepoTags': ['test:latest'], 'Layers': names}]
    out = b''.join(file(n, data) for i, (n, data) in enumerate(zip(names, layers)) if i not in leave_out)
    return tar(out, extra, file(conf_name, conf), file('manifest.json', manifest if isinstance(manifest, bytes) else dumps(manifest)))


def descriptor(data, kind, **more):
    return {'mediaType': 'application/vnd.oci.image.' + kind, 'digest': 'sha256:' + sha256(data), 'size': len(data), **more}


def oci_blobs(layers, conf, packer=gz):
    """The blobs of an OCI image and its manifest."""
    packed = [packer(layer) for layer in layers]
    manifest = dumps({'schemaVersion': 2, 'config': descriptor(conf, 'config.v1+json'),
                      'layers': [descriptor(p, 'layer.v1.tar+gzip') for p in packed]})
    return [*packed, conf, manifest], manifest


def oci_files(blobs, index):
    files = {'oci-layout': b'{"imageLayoutVersion":"1.0.0"}', 'index.json': index}
    files.update(('blobs/sha256/' + sha256(b), b) for b in blobs)
    return files


def oci_index(*manifests):
    return dumps({'schemaVersion': 2, 'manifests': list(manifests)})


def as_tar(files, *more):
    return tar(*(file(name, data) for name, data in sorted(files.items())), *more)
