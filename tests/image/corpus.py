#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""corpus.py DIR: writes hostile and odd images into DIR, and DIR/expect.json: what has to become of each. Deterministic; needs nothing but Python.

expect.json is a list of cases, in order:
  name     of the file or directory in DIR
  ok       whether it is taken; null: that is libarchive's to decide, and its versions differ
  match    of the message, if it is not: a regular expression
  layers   what is in each layer, lowest first: {path: what}; "dir", "dir 0700", "file CONTENTS", "file 0600 CONTENTS", "size N", "link TARGET", "white" (a
           whiteout), "opaque" (a directory), null: nothing. What is not named may be anything
  counts   of what was changed or left out
  result   other things that are said of the image
  bytes, entries   limits to import it with
Nothing in any of them may change anything outside of where it is imported to; names that would are below EVIL.
"""
import json
import os
import platform
import sys

from tarball import *  # noqa

ARCH = ARCHES[platform.machine()]
OTHER = 'arm64' if ARCH == 'amd64' else 'amd64'
EVIL = 'cordon-corpus-evil'
UP = '../' * 12
EITHER = ''
cases = []


def add(name, data, match=None, layers=None, tree=None, **more):
    layers = [tree] if tree is not None else layers
    cases.append({'name': name, 'data': data, 'ok': match is None if match != EITHER else None, 'match': match, 'layers': layers or [], **more})


# ---- links and paths that lead out -----------------------------------------------------------------------------------------------

def paths():
    dots = r'with "\.\." in it'
    through = r'files below \S+, which is a symbolic link'
    nofile = 'hard link to what is no file of the same layer'
    add('symlink-out-then-file.tar', tar(symlink('x', UP + EVIL), file('x/pwned', 'p')), through)
    add('symlink-absolute-then-file.tar', tar(symlink('x', '/tmp'), file(f'x/{EVIL}', 'p')), through)
    add('symlink-chain-then-file.tar', tar(symlink('a', 'b'), symlink('b', 'c'), symlink('c', UP), file('a/' + EVIL, 'p')), through)
    add('symlink-inside-then-file.tar', tar(folder('d'), symlink('l', 'd'), file('l/f', 'p')), through)
    add('symlink-to-dot-then-file.tar', tar(symlink('x', '.'), file('x/f', 'p')), through)
    add('symlink-deep-then-dir.tar', tar(folder('a'), symlink('a/b', UP), folder('a/b/' + EVIL)), through)
    add('symlink-then-file-same-name.tar', tar(symlink('x', UP + EVIL), file('x', 'new')), tree={'x': 'file new'})
    add('symlink-then-dir-same-name.tar', tar(symlink('x', UP + EVIL), folder('x'), file('x/f', 'in')), tree={'x/f': 'file in', 'x': 'dir'})
    add('symlink-then-chmod.tar', tar(symlink('x', '/etc/passwd'), header('x', b'2', mode=0o777, link='/etc/shadow')), tree={'x': 'link /etc/shadow'})
    add('symlink-loop.tar', tar(symlink('a', 'b'), symlink('b', 'a'), file('f', 'ok')), tree={'a': 'link b', 'b': 'link a', 'f': 'file ok'})
    add('symlink-free-text.tar', tar(symlink('x', '/proc/self/root/../../etc')), tree={'x': 'link /proc/self/root/../../etc'})
    add('hardlink-out.tar', tar(hardlink('x', UP + 'etc/passwd')), dots)
    add('hardlink-absolute.tar', tar(hardlink('x', '/etc/passwd')), nofile)
    add('hardlink-missing.tar', tar(hardlink('x', 'nothing')), nofile)
    add('hardlink-to-dir.tar', tar(folder('d'), hardlink('x', 'd')), nofile)
    add('hardlink-through-symlink.tar', tar(symlink('e', '/etc'), hardlink('x', 'e/passwd')), nofile)
    add('hardlink-to-symlink.tar', tar(symlink('l', '/etc/passwd'), hardlink('x', 'l'), file('y', 'n')),
        tree={'x': 'link /etc/passwd', 'l': 'link /etc/passwd'})
    add('hardlink-to-symlink-then-write.tar', tar(symlink('l', UP + EVIL), hardlink('x', 'l'), file('x', 'mine')), tree={'x': 'file mine'})
    add('hardlink-to-itself.tar', tar(file('x', 'same'), hardlink('x', 'x')), tree={'x': 'file same'})
    add('hardlink-inside-what-it-replaces.tar', tar(folder('a'), file('a/b', 'x'), hardlink('a', 'a/b')), 'takes the place of')
    add('hardlink-kept-by-replacing.tar', tar(file('a', '1'), hardlink('b', 'a'), file('a', '2')), tree={'a': 'file 2', 'b': 'file 1'})
    add('hardlink-before-target.tar', tar(hardlink('b', 'a'), file('a', '1')), nofile)
    add('hardlink-across-layers.tar', docker_image(tar(file('a', '1')), tar(hardlink('b', 'a'))), nofile)
    add('hardlink-to-whiteout.tar', docker_image(tar(file('.wh.a')), ), tree={'a': 'white'})
    add('hardlink-to-a-whiteout.tar', docker_image(tar(file('.wh.a'), hardlink('b', 'a'))), nofile)
    add('dotdot.tar', tar(file('../' + EVIL, 'p')), dots)
    add('dotdot-inside.tar', tar(file(f'a/../../{EVIL}', 'p')), dots)
    add('dotdot-that-stays.tar', tar(folder('a'), file('a/../b', 'p')), dots)
    add('dotdot-many.tar', tar(file(UP + 'tmp/' + EVIL, 'p')), dots)
    add('dotdot-alone.tar', tar(folder('..')), dots)
    add('dotdot-at-the-end.tar', tar(folder('a/..', mode=0o777)), dots)
    add('absolute.tar', tar(file('/tmp/' + EVIL, 'mine')), tree={'tmp/' + EVIL: 'file mine'})
    add('absolute-twice.tar', tar(file('//etc//' + EVIL, 'mine')), tree={'etc/' + EVIL: 'file mine'})
    add('dot-slash.tar', tar(folder('./', mode=0o750), file('././a/./b', 'x')), tree={'': 'dir 0750', 'a/b': 'file x', 'a': 'dir 0755'})
    add('three-dots.tar', tar(file('.../...', 'x')), tree={'.../...': 'file x'})
    add('pax-path-dotdot.tar', tar(pax([('path', '../' + EVIL)]), file('harmless', 'p')), dots)
    add('pax-linkpath-dotdot.tar', tar(file('a', '1'), pax([('linkpath', UP + 'etc/passwd')]), hardlink('x', 'a')), dots)
    add('gnu-longname-dotdot.tar', tar(long_name('d/' * 60 + '../' * 70 + EVIL), file('short', 'p')), dots)
    add('prefix-dotdot.tar', tar(file(EVIL, 'p', prefix='a/../..')), dots)
    add('file-then-below.tar', tar(file('a', '1'), file('a/b', '2')), 'files below a, which is no directory')
    add('empty-name.tar', tar(header('', b'0')), 'without a name|damaged')


# ---- what must not arrive --------------------------------------------------------------------------------------------------------

def special():
    add('devices.tar', tar(device('null'), device('sda', b'4', (8, 0)), header('fifo', b'6'), file('f', 'ok')),
        tree={'null': None, 'sda': None, 'fifo': None, 'f': 'file ok'}, counts={'devices': 3})
    add('device-zero-zero.tar', tar(device('gone', dev=(0, 0))), tree={'gone': None}, counts={'devices': 1})
    add('device-deep.tar', tar(device('a/b/c')), tree={'a/b/c': None}, counts={'devices': 1})
    add('set-id.tar', tar(file('su', 'x', mode=0o4755), file('sg', 'x', mode=0o2755), folder('d', mode=0o2775), folder('t', mode=0o1777),
                          file('both', 'x', mode=0o6711)),
        tree={'su': 'file 0755 x', 'sg': 'file 0755 x', 'd': 'dir 0775', 't': 'dir 1777', 'both': 'file 0711 x'}, counts={'set_ids': 4})
    attrs = [('SCHILY.xattr.security.capability', b'\x01\x00\x00\x02\x00\x20\x00\x00' + bytes(12)), ('SCHILY.xattr.user.overlay.opaque', 'y'),
             ('SCHILY.xattr.trusted.overlay.redirect', '/etc'), ('SCHILY.xattr.user.overlay.redirect', '/etc'), ('SCHILY.xattr.user.any', 'x'),
             ('LIBARCHIVE.xattr.user.overlay.metacopy', 'AA'), ('SCHILY.acl.access', 'user::rwx,user:0:rwx,group::r-x,mask::rwx,other::r-x')]
    add('attributes.tar', tar(pax(attrs), file('f', 'x'), pax(attrs), folder('d')), tree={'f': 'file x', 'd': 'dir 0755'})
    add('attribute-whiteout.tar', tar(pax([('SCHILY.xattr.user.overlay.whiteout', '')]), file('f')), tree={'f': 'file 0644 '})
    add('owners.tar', tar(file('a', 'x', uid=1000, gid=1001), file('b', 'x', raw_uid=base256(70000, 8)), pax([('uid', '4294967295')]),
                          file('c', 'x'), pax([('uid', '-1')]), file('d', 'x')),
        tree={'a': 'file x', 'b': 'file x', 'c': 'file x'}, counts={'owners': 3})
    add('mode-0000.tar', tar(folder('d', mode=0), file('d/f', 'in', mode=0), folder('d/e', mode=0), file('d/e/g', 'deep', mode=0o400)),
        tree={'d': 'dir 0000', 'd/f': 'file 0000 in', 'd/e': 'dir 0000', 'd/e/g': 'file 0400 deep'})
    add('mode-0000-top.tar', tar(folder('./', mode=0), file('f', 'x')), tree={'': 'dir 0000', 'f': 'file x'})
    add('dir-comes-after-its-files.tar', tar(file('d/f', 'x'), folder('d', mode=0o500)), tree={'d': 'dir 0500', 'd/f': 'file x'})
    add('odd-types.tar', tar(header('v', b'V'), file('contiguous', 'x')[:156] + b'7' + file('contiguous', 'x')[157:], file('f', 'x')),
        'damaged|checksum')
    add('contiguous.tar', tar(header('c', b'7', 1) + pad(b'x'), file('f', 'x')), tree={'c': 'file x', 'f': 'file x'})
    add('unknown-type.tar', tar(header('z', b'Z', 1) + pad(b'x'), file('f', 'y')), tree={'z': 'file x', 'f': 'file y'})
    add('sockets-in-layers.tar', docker_image(tar(device('s', b'6'))), tree={'s': None}, counts={'devices': 1})


# ---- twice ----------------------------------------------------------------------------------------------------------------------

def twice():
    kinds = {'file': (file('x', 'F'), 'file F'), 'dir': (folder('x', mode=0o711), 'dir 0711'), 'symlink': (symlink('x', 'T'), 'link T'),
             'hardlink': (hardlink('x', 'o'), 'file O')}
    for one, (first, _) in kinds.items():
        for two, (second, becomes) in kinds.items():
            add(f'twice-{one}-{two}.tar', tar(file('o', 'O'), first, second), tree={'x': becomes, 'o': 'file O'})
    add('twice-full-dir-then-file.tar', tar(folder('x'), folder('x/y'), file('x/y/z', 'deep'), file('x', 'F')), tree={'x': 'file F'})
    add('twice-full-dir-then-symlink.tar', tar(file('x/y/z', 'deep'), symlink('x', UP), file('f', 'ok')), tree={'x': 'link ' + UP, 'f': 'file ok'})
    add('twice-dir-keeps-files.tar', tar(folder('x', mode=0o700), file('x/f', 'k'), folder('x', mode=0o751)), tree={'x': 'dir 0751', 'x/f': 'file k'})
    add('twice-longer-then-shorter.tar', tar(file('x', 'a' * 9000), file('x', 'b')), tree={'x': 'file b'})
    add('twice-device-between.tar', tar(file('x', '1'), device('x'), file('y', '2')), tree={'x': 'file 1', 'y': 'file 2'}, counts={'devices': 1})
    add('twice-top.tar', tar(folder('./', mode=0o700), folder('/', mode=0o711), file('f', 'x')), tree={'': 'dir 0711', 'f': 'file x'})


# ---- names ----------------------------------------------------------------------------------------------------------------------

def names():
    add('name-newline.tar', tar(file('a\nb', 'x'), file('\x1b[31mred', 'y')), tree={'a\nb': 'file x', '\x1b[31mred': 'file y'})
    add('name-not-utf8.tar', tar(file(b'\xff\xfe\x80', 'x')), tree={b'\xff\xfe\x80'.decode('utf-8', 'surrogateescape'): 'file x'})
    add('name-pax-not-utf8.tar', tar(pax([('path', b'\xc3\x28\xff')]), file('short', 'x')),
        tree={b'\xc3\x28\xff'.decode('utf-8', 'surrogateescape'): 'file x'})
    add('name-pax-utf8.tar', tar(pax([('path', 'd\u00fc/\u65e5\u672c')]), file('short', 'x')), tree={'d\u00fc/\u65e5\u672c': 'file x'})
    add('name-pax-decomposed.tar', tar(pax([('path', 'u\u0308')]), file('short', 'x')), tree={'u\u0308': 'file x', '\u00fc': None})
    add('name-255.tar', tar(long_name('n' * 255), file('n', 'x')), tree={'n' * 255: 'file x'})
    add('name-256.tar', tar(long_name('n' * 256), file('n', 'x')), 'a name of more than 255 bytes')
    add('name-5000.tar', tar(long_name('/'.join(['n' * 100] * 50)), file('n', 'x')), 'a path of more than 4095 bytes')
    add('name-pax-5000.tar', tar(pax([('path', '/'.join(['n' * 100] * 50))]), file('n', 'x')), 'a path of more than 4095 bytes')
    add('name-4000.tar', tar(long_name('/'.join(['n' * 200] * 19)), file('n', 'x')), tree={'/'.join(['n' * 200] * 19): 'file x'})
    add('name-nested-3000.tar', tar(long_name('d/' * 2000 + 'f'), file('n', 'x')), 'too many directories')
    add('name-nested-1000.tar', tar(long_name('d/' * 1000 + 'f'), file('n', 'x')), tree={'d/' * 1000 + 'f': 'file x'})
    add('name-nested-3000-dirs.tar', tar(*(long_name('d/' * i) + folder('n') for i in range(1, 1200))), 'too many directories')
    add('name-tree-and-layer.tar', tar(file('tree', 't'), file('layer', 'l'), folder('0'), file('0/tree', 'z')),
        tree={'tree': 'file t', 'layer': 'file l', '0/tree': 'file z'})
    add('name-like-options.tar', tar(file('-rf', 'x'), file('$(id)', 'y'), file(' ', 'z'), file('*', 'w')),
        tree={'-rf': 'file x', '$(id)': 'file y', ' ': 'file z', '*': 'file w'})
    add('name-whiteouts-in-plain.tar', tar(file('.wh.a', 'x'), file('.wh..wh..opq', 'y')), tree={'.wh.a': 'file x', '.wh..wh..opq': 'file y'})
    add('link-5000.tar', tar(long_name('t' * 5000, b'K'), symlink('l', 't')), 'symbolic link to more than 4095 bytes')
    add('link-4095.tar', tar(long_name('t' * 4095, b'K'), symlink('l', 't')), tree={'l': 'link ' + 't' * 4095})
    add('link-empty.tar', tar(symlink('l', '')), 'symbolic link to nothing|leads nowhere')
    add('zero-byte-file.tar', tar(file('empty'), folder('d')), tree={'empty': 'file 0644 ', 'd': 'dir 0755'})
    add('many-names-one-dir.tar', tar(*(file('d/%05d' % i) for i in range(3000))), tree={'d/02999': 'file 0644 '})


# ---- sizes, times, bombs ---------------------------------------------------------------------------------------------------------

def sparse_gnu(name, real, pieces, data):
    """An old GNU sparse header: pieces (offset, length)."""
    spans = b''.join(octal(o, 12) + octal(n, 12) for o, n in pieces).ljust(96, b'\0')
    old = bytearray(header(name, b'S', len(data), magic=b'ustar  \0'))
    old[345:512] = bytes(167)
    old[386:386 + len(spans)] = spans
    old[483:495] = base256(real, 12)
    old[148:156] = b' ' * 8
    old[148:156] = b'%06o\0 ' % sum(old)
    return bytes(old) + pad(data)


def sparse_pax(name, real, numbers, data, **more):
    """GNU sparse 1.0."""
    text = pad(b''.join(b'%d\n' % n for n in numbers))
    return pax([('GNU.sparse.major', '1'), ('GNU.sparse.minor', '0'), ('GNU.sparse.name', name), ('GNU.sparse.realsize', str(real))]) + \
        file(name, text + data, **more)


def sizes():
    large = 'more than the .* that one may have'
    add('sparse-8-eb.tar', tar(sparse_gnu('s', (1 << 63) - 1, [(0, 1)], b'x')), large)
    add('sparse-1-tb.tar', tar(sparse_pax('s', 1 << 40, [1, 0, 512], b'x' * 512)), large)
    add('sparse-1-gb.tar', tar(sparse_gnu('s', 1 << 30, [(4096, 5), (1 << 30, 0)], b'hello')), tree={'s': 'size 1073741824'}, bytes=1 << 20)
    add('sparse-pax.tar', tar(sparse_pax('s', 10000, [2, 0, 512, 8192, 512], b'a' * 512 + b'b' * 512)), tree={'s': 'size 10000'})
    add('sparse-all-hole.tar', tar(sparse_pax('s', 1 << 20, [0], b'')), tree={'s': 'size 1048576'})
    add('sparse-overlap.tar', tar(sparse_pax('s', 4096, [2, 1024, 512, 0, 512], b'a' * 1024)), 'damaged|more contents')
    add('sparse-beyond.tar', tar(sparse_pax('s', 100, [1, 4096, 512], b'a' * 512)), 'damaged|more contents')
    add('sparse-negative.tar', tar(pax([('GNU.sparse.major', '1'), ('GNU.sparse.minor', '0'), ('GNU.sparse.realsize', '-5')]),
                                   file('s', pad(b'1\n0\n5\n') + b'aaaaa')), 'damaged|without a size|less contents|more than')
    add('size-negative.tar', tar(header('n', raw_size=base256(-512, 12)), file('f', 'x')), 'damaged|without a size')
    add('size-huge-base256.tar', tar(header('n', raw_size=base256((1 << 63) - 1, 12)), file('f', 'x')), large + '|damaged')
    add('size-huge-octal.tar', tar(header('n', raw_size=b'77777777777\0'), file('f', 'x')), 'damaged')
    add('size-pax-huge.tar', tar(pax([('size', '9223372036854775807')]), file('f', 'x')), large + '|damaged')
    add('size-pax-negative.tar', tar(pax([('size', '-1')]), file('f', 'x')), 'damaged|without a size')
    add('size-pax-nonsense.tar', tar(pax([('size', 'abc')]), file('f', 'x'), file('g', 'y')), EITHER)
    add('pax-header-huge.tar', tar(header('pax', b'x', 1 << 33), file('f', 'x')), 'damaged|no archive')
    add('pax-header-lies.tar', tar(header('pax', b'x', 20) + pad(b'99999 path=x\n'), file('f', 'x')), EITHER)
    add('pax-without-file.tar', tar(pax([('path', 'x')])), EITHER)
    add('pax-hundred.tar', tar(*(pax([('comment', str(i))]) for i in range(100)), file('f', 'x')), 'damaged|[Tt]oo many')
    add('mtime-extremes.tar', tar(file('old', 'x', raw_mtime=base256(-(1 << 40), 12)), file('new', 'x', raw_mtime=base256((1 << 62), 12)),
                                  pax([('mtime', '-1.5')]), file('neg', 'x'), pax([('mtime', '99999999999999999999')]), folder('far')),
        tree={'old': 'file x', 'new': 'file x', 'neg': 'file x', 'far': 'dir'})
    zeros = 64 << 20
    entry = header('zeros', size=zeros)
    room = r'larger than the \d+ bytes|unpacks to more'
    add('bomb-gz.tgz', gz_zeros(entry, zeros, END), room, bytes=1 << 20)
    add('bomb-gz-in-gz.tgz', gz(gz_zeros(entry, zeros, END)), room, bytes=1 << 20)
    add('bomb-xz.txz', xz(entry + bytes(zeros) + END), room, bytes=1 << 20)
    add('bomb-zstd.tzst', zstd_frame([(0, 512, entry)] + [(1, 131072, b'\0')] * (zeros // 131072) + [(0, 1024, END)]), room, bytes=1 << 20)
    add('bomb-after-the-end.tzst', zstd_frame([(0, 2048, tar(file('f', 'x'))[:2048])] + [(1, 131072, b'\0')] * 2000), 'long after its end')
    add('bomb-of-entries.tgz', gz(tar(*(file('f%06d' % i) for i in range(20000)))), 'more than 1000 files', entries=1000)
    add('bomb-of-parents.tgz', gz(tar(*(long_name('%d/' % i + 'd/' * 900) + folder('n') for i in range(20)))), 'more than 1000 files', entries=1000)
    add('bomb-of-devices.tgz', gz(tar(*(device('n') for _ in range(5000)))), 'more than 1000 files', entries=1000)
    add('bomb-in-outer.tzst', zstd_frame([(0, 512, header('0' * 64 + '/layer.tar', raw_size=base256(1 << 36, 12)))] + [(1, 131072, b'\0')] * 12000), 'unpacks to more',
        bytes=1 << 20)
    add('quota-exact.tar', tar(file('f', 'x' * 1000)), tree={'f': 'size 1000'}, bytes=1000)
    add('quota-one-over.tar', tar(file('f', 'x' * 1001)), room, bytes=1000)
    add('quota-over-layers.tar', docker_image(tar(file('a', 'x' * 600)), tar(file('b', 'x' * 600))), room, bytes=1000)


# ---- damage ---------------------------------------------------------------------------------------------------------------------

def damage():
    whole = tar(file('first', 'x' * 700), file('second', 'y' * 700))
    for name, at in {'in-header': 100, 'after-header': 512, 'in-data': 900, 'in-padding': 1300, 'at-second': 1536, 'in-second-header': 1700,
                     'in-second-data': 2300, 'without-end': 3072}.items():
        add(f'cut-{name}.tar', whole[:at], 'damaged|no archive')
    add('cut-one-end-block.tar', whole[:3072 + 512], tree={'first': 'size 700', 'second': 'size 700'})
    for packer, suffix in ((gz, 'tgz'), (xz, 'txz'), (bz, 'tbz'), (zstd, 'tzst')):
        packed = packer(whole)
        add(f'packed.{suffix}', packed, tree={'first': 'size 700', 'second': 'size 700'})
        add(f'cut-half.{suffix}', packed[:len(packed) // 2], 'damaged|no archive')
    add('wrong-checksum.tar', tar(file('f', 'x', checksum=1)), 'damaged|no archive')
    add('wrong-checksum-second.tar', tar(file('a', 'x'), file('f', 'x', checksum=1)), 'damaged')
    add('garbage-second.tar', tar(file('a', 'x'), b'\xaa' * 512), 'damaged')
    add('garbage-after-end.tar', tar(file('a', 'x')) + b'\xaa' * 5000, tree={'a': 'file x'})
    add('old-v7.tar', tar(file('a', 'x', magic=bytes(8))), tree={'a': 'file x'})
    add('empty', b'', 'empty')
    add('only-zeros.tar', bytes(10240), tree={'': 'dir 0755'})
    add('picture.png', b'\x89PNG\r\n\x1a\n' + b'\0\0\0\rIHDR' + bytes(600), 'no archive')
    add('program.elf', b'\x7fELF\x02\x01\x01' + bytes(700), 'no archive')
    add('text.txt', b'Hello, world.\n' * 100, 'no archive')
    add('text.gz', gz(b'Hello, world.\n' * 100), 'no archive')
    add('one-byte', b'x', 'no archive')
    add('zip.zip', b'PK\x03\x04' + bytes(1000), 'no archive')
    add('gzip-header-only.gz', b'\x1f\x8b\x08\0\0\0\0\0\0\x03', 'damaged|no archive|empty')


# ---- whiteouts ------------------------------------------------------------------------------------------------------------------

def docker_image(*layers, **more):
    return docker(list(layers), config(layers, ARCH, **more))


def whiteouts():
    base = tar(folder('d'), file('d/a', '1'), file('d/b', '2'), file('top', '3'))
    no = 'deletes what is no file'
    add('whiteout.tar', docker_image(base, tar(file('d/.wh.a'), file('.wh.top'))),
        layers=[{'d/a': 'file 1'}, {'d/a': 'white', 'top': 'white', 'd/.wh.a': None, 'd': 'dir 0755'}])
    add('whiteout-of-nothing.tar', docker_image(base, tar(file('.wh.never'))), layers=[{}, {'never': 'white'}])
    add('whiteout-of-dotdot.tar', docker_image(base, tar(file('d/.wh...'))), no)
    add('whiteout-of-dot.tar', docker_image(base, tar(file('d/.wh..'))), no)
    add('whiteout-alone.tar', docker_image(base, tar(file('d/.wh.'))), no)
    add('whiteout-with-slash.tar', docker_image(base, tar(file('d/.wh./../../' + EVIL))), r'with "\.\." in it')
    add('whiteout-meta.tar', docker_image(base, tar(file('.wh..wh.aufs'), folder('.wh..wh.plnk'), file('f', 'x'))),
        layers=[{}, {'f': 'file x', '.wh..wh.aufs': None, '.wh.aufs': None}])
    add('opaque.tar', docker_image(base, tar(folder('d', mode=0o700), file('d/.wh..wh..opq'), file('d/c', '4'))),
        layers=[{}, {'d': 'opaque', 'd/c': 'file 4', 'd/.wh..wh..opq': None}])
    add('opaque-before-its-dir.tar', docker_image(base, tar(file('d/.wh..wh..opq'), folder('d', mode=0o711))), layers=[{}, {'d': 'opaque'}])
    add('opaque-at-top.tar', docker_image(base, tar(file('.wh..wh..opq'), file('f', 'x'))), layers=[{}, {'f': 'file x'}], result={'hides_lower': [False, True]})
    add('whiteout-and-file.tar', docker_image(base, tar(file('.wh.top'), file('top', 'new'))), layers=[{}, {'top': 'file new'}])
    add('file-and-whiteout.tar', docker_image(base, tar(file('top', 'new'), file('.wh.top'))), layers=[{}, {'top': 'file new'}])
    add('whiteout-and-dir.tar', docker_image(base, tar(file('.wh.d'), folder('d'), file('d/n', 'x'))), layers=[{}, {'d': 'opaque', 'd/n': 'file x'}])
    add('dir-and-whiteout.tar', docker_image(base, tar(folder('d'), file('d/n', 'x'), file('.wh.d'))), layers=[{}, {'d': 'opaque', 'd/n': 'file x'}])
    add('whiteout-then-below.tar', docker_image(base, tar(file('.wh.d'), file('d/n', 'x'))), layers=[{}, {'d': 'opaque', 'd/n': 'file x'}])
    add('whiteout-twice.tar', docker_image(base, tar(file('.wh.d'), file('.wh.d'))), layers=[{}, {'d': 'white'}])
    add('whiteout-in-opaque.tar', docker_image(base, tar(file('d/.wh..wh..opq'), file('d/.wh.a'))), layers=[{}, {'d': 'opaque'}])
    add('whiteout-is-symlink.tar', docker_image(base, tar(symlink('.wh.top', UP + EVIL))), layers=[{}, {'top': 'white'}])
    add('whiteout-through-symlink.tar', docker_image(tar(symlink('l', UP), file('l/.wh.' + EVIL))), 'symbolic link')
    add('whiteout-with-contents.tar', docker_image(base, tar(file('.wh.top', 'z' * 2000), file('f', 'x'))), layers=[{}, {'top': 'white', 'f': 'file x'}])


# ---- docker save ----------------------------------------------------------------------------------------------------------------

def docker_saves():
    one, two = tar(file('a', '1')), tar(file('b', '2'))
    good = config([one, two], ARCH, Env=['A=1', 'PATH=/bin', 'broken'], WorkingDir='/w', User='7:7')
    both = [{'a': 'file 1'}, {'b': 'file 2', 'a': None}]
    add('docker.tar', docker([one, two], good), layers=both, result={'kind': 'docker save', 'env': ['A=1', 'PATH=/bin'], 'cwd': '/w', 'user': '7:7',
                                                                     'arch': ARCH})
    add('docker.tgz', gz(docker([one, two], good)), layers=both, result={'kind': 'docker save'})
    add('docker-packed-layers.tar', docker([gz(one), zstd(two)], good), layers=both)
    add('docker-blobs.tar', docker([one, two], good, names=['blobs/sha256/' + sha256(one), 'blobs/sha256/' + sha256(two)],
                                   conf_name='blobs/sha256/' + sha256(good)), layers=both)
    link = '%s/layer.tar' % ('1' * 64)
    names = ['%s/layer.tar' % sha256(one), link]
    same = config([one, one], ARCH)
    add('docker-symlinked-layer.tar', docker([one], same, [{'Config': sha256(same) + '.json', 'Layers': names}], [names[0]],
                                             symlink(link, '../' + names[0])), layers=[{'a': 'file 1'}, {'a': 'file 1'}])
    add('docker-symlink-leads-out.tar', docker([one], same, [{'Config': sha256(same) + '.json', 'Layers': names}], [names[0]],
                                               symlink(link, UP + 'etc/passwd')), 'is not in the archive')
    add('docker-symlink-loop.tar', docker([one], same, [{'Config': sha256(same) + '.json', 'Layers': names}], [names[0]],
                                          symlink(link, 'layer.tar')), 'is not in the archive')
    add('docker-layers-twice.tar', docker([one], same, [{'Config': sha256(same) + '.json', 'Layers': [names[0]] * 2}], [names[0]]),
        layers=[{'a': 'file 1'}, {'a': 'file 1'}])
    add('docker-missing-layer.tar', docker([one, two], good, leave_out=[1]), 'layer that manifest.json names is not in the archive')
    add('docker-missing-config.tar', docker([one], good, [{'Config': '0' * 64 + '.json', 'Layers': names[:1]}], names[:1]),
        'configuration that manifest.json names is not')
    add('docker-path-leads-out.tar', docker([one], good, [{'Config': '../../etc/passwd', 'Layers': names[:1]}], names[:1]), 'leads out of the archive')
    add('docker-layer-leads-out.tar', docker([one], good, [{'Config': sha256(good) + '.json', 'Layers': [UP + 'etc/passwd']}], names[:1]),
        'leads out of the archive')
    add('docker-absolute-layer.tar', docker([one], good, [{'Config': sha256(good) + '.json', 'Layers': ['/etc/passwd']}], names[:1]),
        'is not in the archive')
    add('docker-wrong-diff-id.tar', docker([one, two], config([one, one], ARCH)), 'layer 2 is not what it should be: its uncompressed digest')
    add('docker-wrong-config-digest.tar', docker([one, two], good, conf_name='2' * 64 + '.json'), 'configuration is not what it should be')
    add('docker-wrong-blob-digest.tar', docker([one], config([one], ARCH), names=['blobs/sha256/' + sha256(two)]), 'layer 1 is not what it should be: its digest')
    add('docker-fewer-diff-ids.tar', docker([one, two], config([one], ARCH)), 'knows 1 layers, and its manifest 2')
    add('docker-md5-diff-id.tar', docker([one], config([one], ARCH, diff_ids=['md5:00'])), 'no SHA-256 digest')
    add('docker-other-arch.tar', docker([one], config([one], OTHER)), f'is for {OTHER}, and this machine is {ARCH}')
    add('docker-windows.tar', docker([one], config([one], ARCH, os='windows')), 'is for windows')
    add('docker-no-layers.tar', docker([], config([], ARCH), extra=file('0' * 64 + '/VERSION', '1')), 'names no layers')
    add('docker-two-images.tar', docker([one], good, [{'Config': 'x', 'Layers': []}] * 2), 'has 2 images')
    add('docker-10000-layers.tgz', gz(docker([one], config([one], ARCH), [{'Config': 'c', 'Layers': names[:1] * 10000}], names[:1])), '10000 layers')
    add('docker-10000-layer-files.tgz', gz(docker([one] * 10000, config([one] * 10000, ARCH))), '10000 layers')
    add('docker-128-layers.tar', docker([one] * 128, config([one] * 128, ARCH)), layers=[{'a': 'file 1'}] * 128)
    add('docker-manifest-100-mb.tgz', gz_zeros(docker([one], good, names=names[:1])[:-1024] + header('manifest.json', size=100 << 20), 100 << 20, END),
        'too large')
    add('docker-manifest-nested.tar', docker([one], good, b'[' * 100000 + b']' * 100000), 'manifest.json cannot be read.*depth')
    add('docker-manifest-no-json.tar', docker([one], good, b'{"a":'), 'manifest.json cannot be read')
    add('docker-manifest-object.tar', docker([one], good, {'a': 1}), 'names no image')
    add('docker-manifest-numbers.tar', docker([one], good, [{'Config': 1, 'Layers': [2]}]), 'names no configuration')
    add('docker-manifest-nul.tar', docker([one], good, b'[{"Config":"a\\u0000b","Layers":["x"]}]'), 'cannot be read')
    add('docker-config-nonsense.tar', docker([one], b'[]'), 'knows 0 layers')
    add('docker-config-many-variables.tar', docker([one], config([one], ARCH, Env=['V%d=1' % i for i in range(5000)])), 'too many variables')
    add('docker-config-odd-values.tar', docker([one], config([one], ARCH, Env=[1, None, 'A=b\nc'], WorkingDir=7, User={'a': 1})),
        layers=[{'a': 'file 1'}], result={'env': ['A=b\nc'], 'cwd': None, 'user': None})
    add('docker-layer-is-text.tar', docker([b'hello' * 300], config([b'hello' * 300], ARCH)), 'layer 1: ')
    add('docker-layer-cut.tar', docker([one[:700]], config([one[:700]], ARCH)), 'layer 1: .*damaged')
    add('docker-cut.tar', docker([one, two], good)[:3000], 'damaged|not in the archive')
    add('docker-before-1.10.tar', tar(file('1' * 64 + '/layer.tar', one), file('repositories', '{}')), 'before 1.10')
    add('plain-with-manifest.tar', tar(folder('usr'), file('manifest.json', '{}'), file('usr/x', '1')), tree={'manifest.json': 'file {}', 'usr/x': 'file 1'},
        result={'kind': 'a tar archive'})
    add('docker-layer-sparse.tar', docker([], config([one], ARCH), [{'Config': sha256(config([one], ARCH)) + '.json', 'Layers': ['0' * 64 + '.tar']}], [],
                                          sparse_pax('0' * 64 + '.tar', 8192, [1, 4096, 512], b'x' * 512)), 'sparse|not what it should be|damaged')


# ---- OCI ------------------------------------------------------------------------------------------------------------------------

def ocis():
    one, two = tar(file('a', '1')), tar(file('b', '2'))
    conf = config([one, two], ARCH, Env=['A=1'])
    both = [{'a': 'file 1'}, {'b': 'file 2'}]
    for name, packer in (('gzip', gz), ('zstd', zstd), ('plain', bytes)):
        blobs, manifest = oci_blobs([one, two], conf, packer)
        files = oci_files(blobs, oci_index(descriptor(manifest, 'manifest.v1+json')))
        add(f'oci-{name}.tar', as_tar(files), layers=both, result={'kind': 'an OCI layout', 'env': ['A=1']})
        add(f'oci-{name}', files, layers=both, result={'kind': 'an OCI layout'})
    blobs, manifest = oci_blobs([one, two], conf)
    other = config([one, two], OTHER)
    other_blobs, other_manifest = oci_blobs([one, two], other)
    mine = descriptor(manifest, 'manifest.v1+json', platform={'os': 'linux', 'architecture': ARCH})
    theirs = descriptor(other_manifest, 'manifest.v1+json', platform={'os': 'linux', 'architecture': OTHER})
    unknown = descriptor(b'{}', 'manifest.v1+json', platform={'os': 'unknown', 'architecture': 'unknown'})
    add('oci-platforms.tar', as_tar(oci_files(blobs + other_blobs, oci_index(theirs, mine, unknown))), layers=both)
    nested = oci_index(theirs, mine)
    files = oci_files(blobs + other_blobs + [nested], oci_index(descriptor(nested, 'index.v1+json')))
    add('oci-nested.tar', as_tar(files), layers=both)
    add('oci-other-platform.tar', as_tar(oci_files(other_blobs, oci_index(theirs))), f'is for linux/{OTHER}, and this machine is linux/{ARCH}')
    add('oci-other-arch.tar', as_tar(oci_files(other_blobs, oci_index(descriptor(other_manifest, 'manifest.v1+json')))), f'is for {OTHER}, and this machine is {ARCH}')
    add('oci-two-images.tar', as_tar(oci_files(blobs, oci_index(mine, mine))), 'has 2 images')
    loop = '5' * 64
    looped = oci_index({'mediaType': 'application/vnd.oci.image.index.v1+json', 'digest': 'sha256:' + loop, 'size': 1})
    files = oci_files([], looped)
    files['blobs/sha256/' + loop] = looped
    add('oci-loop.tar', as_tar(files), 'not what it should be|too many others')
    deep = manifest
    chain = list(blobs)
    for _ in range(8):
        deep = oci_index(descriptor(deep, 'index.v1+json'))
        chain.append(deep)
    add('oci-deep.tar', as_tar(oci_files(chain, deep)), 'too many others inside one another')
    good = oci_files(blobs, oci_index(mine))

    def without(data):
        return {k: v for k, v in good.items() if k != 'blobs/sha256/' + sha256(data)}
    add('oci-missing-layer.tar', as_tar(without(blobs[1])), 'layer 2 is not in the archive')
    add('oci-missing-config', without(conf), 'configuration is not in the archive')
    add('oci-missing-manifest.tar', as_tar(without(manifest)), 'manifest is not in the archive')
    broken = dict(good)
    broken['blobs/sha256/' + sha256(blobs[0])] = gz(tar(file('a', '9')))
    add('oci-wrong-layer.tar', as_tar(broken), 'layer 1 is not what it should be')
    add('oci-wrong-layer', broken, 'layer 1 is not what it should be')
    broken = dict(good)
    broken['blobs/sha256/' + sha256(conf)] = conf.replace(b'A=1', b'A=2')
    add('oci-wrong-config.tar', as_tar(broken), 'configuration is not what it should be')
    lied = config([one, one], ARCH)
    lied_blobs, lied_manifest = oci_blobs([one, two], lied)
    add('oci-wrong-diff-id.tar', as_tar(oci_files(lied_blobs, oci_index(descriptor(lied_manifest, 'manifest.v1+json')))), 'layer 2 .*uncompressed digest')
    add('oci-no-manifests.tar', as_tar(oci_files([], oci_index())), 'names no image')
    odd = dumps({'manifests': [{'digest': 'sha256:../../../../etc/passwd', 'size': 1}]})
    add('oci-digest-leads-out.tar', as_tar(oci_files(blobs, odd)), 'without a SHA-256 digest')
    add('oci-digest-leads-out', oci_files(blobs, odd), 'without a SHA-256 digest')
    add('oci-sha512.tar', as_tar(oci_files(blobs, dumps({'manifests': [{'digest': 'sha512:' + '0' * 128}]}))), 'without a SHA-256 digest')
    linked = dict(good)
    linked['blobs/sha256/' + sha256(blobs[0])] = ('link', '/etc/passwd')
    add('oci-symlinked-blob', linked, 'layer 1 is not in the archive')
    linked = dict(good)
    linked['blobs/sha256/' + sha256(blobs[0])] = ('fifo', None)
    add('oci-fifo-blob', linked, 'layer 1 is not in the archive')
    linked = {k: v for k, v in good.items() if not k.startswith('blobs/')}
    linked['elsewhere/x'] = blobs[0]
    linked['blobs'] = ('link', 'elsewhere')
    add('oci-symlinked-blobs-dir', linked, 'no blobs/sha256')
    add('oci-gzip.tgz', gz(as_tar(good)), layers=both)


# ---- writing them ---------------------------------------------------------------------------------------------------------------

def write_directory(path, files):
    for name, data in files.items():
        where = os.path.join(path, name)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        if isinstance(data, tuple):
            kind, target = data
            os.symlink(target, where) if kind == 'link' else os.mkfifo(where)
            continue
        with open(where, 'wb') as out:
            out.write(data)


def main(where):
    os.makedirs(where, exist_ok=True)
    for part in (paths, special, twice, names, sizes, damage, whiteouts, docker_saves, ocis):
        part()
    for case in cases:
        data, path = case.pop('data'), os.path.join(where, case['name'])
        if isinstance(data, dict):
            write_directory(path, data)
        else:
            with open(path, 'wb') as out:
                out.write(data)
    assert len({case['name'] for case in cases}) == len(cases)
    with open(os.path.join(where, 'expect.json'), 'w', encoding='ascii') as out:
        json.dump(cases, out, indent=1)
    print(len(cases), 'cases')


if __name__ == '__main__':
    main(sys.argv[1])
