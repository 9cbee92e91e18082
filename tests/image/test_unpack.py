#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_unpack.py BIN CORPUS WORK WHO: what cordon-unpack can and cannot do, a reader that has been taken over, and directories as images. BIN has image-import and
cordon-unpack. Prints lines as tests/lib.sh does; exit 3 if something failed."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys

from tarball import file, folder, gz, tar

BIN, CORPUS, WORK, WHO = sys.argv[1:5]
failures = []


def check(name, want, got):
    good = want(got) if callable(want) else want == got
    if not good:
        failures.append(name)
    print(('ok' if good else 'not ok') + f' - {WHO}: {name}', *([] if good else [f'    got {str(got)[:600]}']), sep='\n', flush=True)


class Place:
    """A directory that goes when it is left."""

    def __enter__(self):
        self.path = os.path.join(WORK, 'place')
        os.mkdir(self.path)
        return self

    def __exit__(self, *_):
        subprocess.run(['chmod', '-R', 'u+rwx', self.path], check=True)
        shutil.rmtree(self.path)

    def __call__(self, *parts):
        return os.path.join(self.path, *parts)

    def write(self, name, data=b'', mode=0o644):
        os.makedirs(os.path.dirname(self(name)), exist_ok=True)
        with open(self(name), 'wb') as out:
            out.write(data)
        os.chmod(self(name), mode)
        return self(name)

    def stage(self):
        if os.path.exists(self('staging')):
            subprocess.run(['chmod', '-R', 'u+rwx', self('staging')], check=True)
            shutil.rmtree(self('staging'))
        os.mkdir(self('staging'))
        return self('staging')


def imported(source, staging, *limits, program=None):
    """What image-import says: a dictionary, or the error."""
    done = subprocess.run([program or os.path.join(BIN, 'image-import'), source, staging, *map(str, limits)], capture_output=True, text=True, check=False,
                          timeout=120, stdin=subprocess.DEVNULL)
    return json.loads(done.stdout) if done.returncode == 0 else done.stdout.strip() + done.stderr.strip()


# ---- what it can do --------------------------------------------------------------------------------------------------------------

def status_of(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)


def confinement():
    with Place() as place:
        archive = place.write('large.tar', tar(*(file('f%d' % i, bytes(100000)) for i in range(20))))
        held = os.open(archive, os.O_RDONLY)
        os.set_inheritable(held, True)
        with open(archive, 'rb') as stdin, subprocess.Popen([os.path.join(BIN, 'cordon-unpack'), '100000000'], stdin=stdin, stdout=subprocess.PIPE,
                                                            pass_fds=[held]) as p:
            check('the first message is BEGIN', b'\1\0\0\0', p.stdout.read(4))  # and then it is confined; it waits for the pipe now
            said = status_of(p.pid)
            check('no new privileges', '1', said['NoNewPrivs'])
            check('a filter for system calls', '2', said['Seccomp'])
            check('no capability', {'0' * 16}, {said[k] for k in ('CapEff', 'CapPrm', 'CapInh')})
            if os.geteuid() == 0:
                check('it is nobody', '65534\t65534\t65534\t65534', said['Uid'])
                check('it has three descriptors', ['0', '1', '2'], sorted(os.listdir(f'/proc/{p.pid}/fd')))
                with open(f'/proc/{p.pid}/limits', encoding='ascii') as f:
                    limits = f.read()
                if os.environ.get('CORDON_SANITIZED') != '1':
                    check('it can write no file', lambda t: [line.split()[-3:-1] for line in t.splitlines() if line.startswith('Max file size')] == [['0', '0']], limits)
                check('it can start no process', lambda t: 'Max processes             0                    0' in t, limits)
            p.kill()
        os.close(held)
        # root's own directory, which nobody could not open: the files are opened before
        shutil.copytree(os.path.join(CORPUS, 'oci-gzip'), place('layout'))
        os.chmod(place('layout'), 0o700)
        os.chmod(place('layout', 'index.json'), 0o600)
        check('a layout that only its owner can read', 2, len(imported(place('layout'), place.stage())['layers']))
        result = imported(archive, place.stage())
        check('progress ends at the archive\'s size', (os.path.getsize(archive),) * 2, (result['progress_done'], result['progress_total']))
        check('progress comes in between', lambda n: n >= 2, result['progress_calls'])


def identity():
    with Place() as place:
        data = tar(folder('d'), file('d/a', 'x'))
        one = imported(place.write('one.tar', data), place.stage())['layers'][0]
        two = imported(place.write('two.tgz', gz(data)), place.stage())['layers'][0]
        other = imported(place.write('other.tar', tar(folder('d'), file('d/a', 'y'))), place.stage())['layers'][0]
        check('the same layer has the same digests, compressed or not', one, two)
        check('another layer has others', True, one['digest'] != other['digest'] and one['diff_id'] != other['diff_id'])
        check('the digest of the writer is not the archive\'s', True, one['digest'] != one['diff_id'])


# ---- a reader that is hostile, or fails --------------------------------------------------------------------------------------------

BEGIN, LAYER, ENTRY, DATA, HOLE, LAYER_END, END, ERROR, PROGRESS = range(1, 10)
FILE, DIR, SYMLINK, HARDLINK, WHITEOUT, OPAQUE, LEFT_OUT = range(1, 8)


def message(kind, body=b'', length=None):
    return struct.pack('=II', kind, len(body) if length is None else length) + body


def text(value):
    return struct.pack('=I', 0xffffffff) if value is None else struct.pack('=I', len(value) + 1) + value + b'\0'


def begin(layers=1, kind=1, env=()):
    return message(BEGIN, struct.pack('=II', kind, layers) + text(None) * 5 + struct.pack('=I', len(env)) + b''.join(map(text, env)))


def layer(digest=b''):
    return message(LAYER, text(digest))


def layer_end(digest=b''):
    return message(LAYER_END, text(digest))


def entry(kind, path, link=None, size=0, mode=0o644, raw_path=None):
    return message(ENTRY, struct.pack('=IIQQQIQ', kind, mode, 0, 0, 0, 0, size) + (text(path) if raw_path is None else raw_path) + text(link))


def inside(*messages):
    return begin() + layer() + b''.join(messages) + layer_end() + message(END)


ESCAPES = {
    'the good one': (inside(entry(FILE, b'f', size=3), message(DATA, b'abc'), entry(FILE, b'g', size=9), message(HOLE, struct.pack('=Q', 9))), None),
    'a path with ..': (inside(entry(FILE, b'../../evil')), 'with ".."'),
    'through a link': (inside(entry(SYMLINK, b'l', b'../..'), entry(FILE, b'l/evil')), 'symbolic link'),
    'a hard link out': (inside(entry(HARDLINK, b'h', b'../../passwd')), 'with ".."'),
    'a whiteout out': (inside(entry(WHITEOUT, b'../../passwd')), 'with ".."'),
    'an opaque directory out': (inside(entry(OPAQUE, b'../..')), 'with ".."'),
    'a whiteout through a link': (inside(entry(SYMLINK, b'l', b'../..'), entry(WHITEOUT, b'l/passwd')), 'symbolic link'),
    'a file as the top': (inside(entry(FILE, b'/')), 'without a name'),
    'a NUL in a path': (inside(entry(FILE, b'', raw_path=struct.pack('=I', 4) + b'a\0b\0')), 'no sense'),
    'a path without an end': (inside(entry(FILE, b'', raw_path=struct.pack('=I', 3) + b'abc')), 'no sense'),
    'a path longer than its message': (inside(entry(FILE, b'', raw_path=struct.pack('=I', 1000) + b'abc')), 'no sense'),
    'a type that is none': (inside(entry(99, b'x')), 'no sense'),
    'a directory with a size': (inside(entry(DIR, b'x', size=5)), 'no sense'),
    'a file with a target': (inside(entry(FILE, b'x', link=b'y')), 'no sense'),
    'a link without one': (inside(entry(SYMLINK, b'x')), 'no sense'),
    'more contents than said': (inside(entry(FILE, b'x', size=2), message(DATA, b'abc')), 'belong to no file'),
    'less contents than said': (inside(entry(FILE, b'x', size=5), message(DATA, b'abc')), 'no sense'),
    'contents of no file': (inside(message(DATA, b'abc')), 'no sense'),
    'a hole that is too large': (inside(entry(FILE, b'x', size=5), message(HOLE, struct.pack('=Q', 2**64 - 1))), 'belong to no file'),
    'empty contents': (inside(entry(FILE, b'x', size=5), message(DATA)), 'belong to no file'),
    'a file larger than one may be': (inside(entry(FILE, b'x', size=2**62)), 'more than the'),
    'no BEGIN': (layer(), 'no sense'),
    'BEGIN twice': (begin() + begin(), 'no sense'),
    'a layer in a layer': (begin(2) + layer() + layer(), 'no sense'),
    'more layers than said': (begin(1) + layer() + layer_end() + layer(), 'no sense'),
    'fewer layers than said': (begin(2) + layer() + layer_end() + message(END), 'no sense'),
    'more layers than there can be': (begin(4000), 'no sense'),
    'no layers': (begin(0) + message(END), 'no layers'),
    'an END within a layer': (begin() + layer() + message(END), 'no sense'),
    'an entry before a layer': (begin() + entry(DIR, b'x'), 'no sense'),
    'a digest that is a path': (begin() + layer(b'../../evil'), 'no sense'),
    'a digest that is a path, at the end': (begin() + layer() + layer_end(b'/' * 64), 'no sense'),
    'a message that is too long': (begin() + message(DATA, length=2**31), 'no sense'),
    'a message that is none': (begin() + message(77), 'no sense'),
    'a message that is number 0': (begin() + message(0), 'no sense'),
    'half a header': (begin() + b'\1\0', 'no sense'),
    'half a body': (begin() + message(LAYER, b'', length=100), 'broke off'),
    'no end': (begin() + layer(), 'without a word'),
    'nothing at all': (b'', 'without a word'),
    'an error with an escape in it': (message(ERROR, struct.pack('=I', 1) + text(b'a\x1b[31mb\nc') + text(None)), lambda t: '\x1b' not in t and '\n' not in t),
    'an error that says nothing': (message(ERROR, b'xx'), 'without saying why'),
    'a variable without a name': (begin(env=[b'=x', b'nothing', b'A=1']) + layer() + layer_end() + message(END), None),
    'garbage': (bytes(range(256)) * 40, 'no sense'),
}


def hostile_reader():
    with Place() as place:
        os.mkdir(place('bin'))
        shutil.copy(os.path.join(BIN, 'image-import'), place('bin'))
        archive, outside = place.write('archive', b'x'), place.write('passwd', b'root')
        os.mkdir(place('deep'))
        for name, (stream, want) in ESCAPES.items():
            place.write('bin/cordon-unpack', b'#!/bin/sh\nexec /bin/cat ' + place.write('stream', stream).encode() + b'\n', 0o755)
            staging = place('deep', 'staging')
            os.mkdir(staging)
            before = sorted(os.listdir(place.path)), os.stat(outside)
            said = imported(archive, staging, program=place('bin', 'image-import'))
            good = isinstance(said, dict) if want is None else isinstance(said, str) and (want(said) if callable(want) else want in said)
            check(f'a reader that was taken over: {name}', True, good or said)
            check(f'… {name}: nothing outside', True, before == (sorted(os.listdir(place.path)), os.stat(outside)) and os.listdir(place('deep')) == ['staging'])
            subprocess.run(['rm', '-rf', staging], check=True)
        for name, script, want in (('dies by a signal', b'#!/bin/bash\nkill -SEGV $$\n', 'made its reader fail'), ('is silent', b'#!/bin/true\n', 'without a word')):
            place.write('bin/cordon-unpack', script, 0o755)
            check(f'a reader that {name}', lambda t, w=want: isinstance(t, str) and w in t, imported(archive, place.stage(), program=place('bin', 'image-import')))
        os.unlink(place('bin', 'cordon-unpack'))
        if not any(os.path.exists(p + '/libexec/cordon/cordon-unpack') for p in ('/usr', '/usr/local')):
            check('no reader', lambda t: isinstance(t, str) and 'cannot start the reader' in t, imported(archive, place.stage(), program=place('bin', 'image-import')))


# ---- directories -----------------------------------------------------------------------------------------------------------------

def fill(place):
    place.write('src/usr/bin/tool', b'#!/bin/sh\n', 0o4755)
    place.write('src/etc/conf', b'key\n', 0o640)
    place.write('src/closed/f', b'in')
    os.chmod(place('src/closed'), 0o500)
    os.link(place('src/etc/conf'), place('src/etc/conf2'))
    os.symlink('/etc/passwd', place('src/link'))
    os.mkfifo(place('src/fifo'))
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(place('src'))
        s.bind('socket')
        os.chdir(here)
    with open(place('src/sparse'), 'wb') as f:
        f.truncate(1 << 20)
        f.seek(300000)
        f.write(b'middle')
    for where, folders, files in os.walk(place('src')):
        for name in [*folders, *files, '.']:
            os.utime(os.path.join(where, name), ns=(5, 1234567890123456789), follow_symlinks=False)


def digest(place, source='src'):
    said = imported(place(source), place.stage())
    return said['layers'][0]['digest'] if isinstance(said, dict) else said


def directories():
    with Place() as place:
        fill(place)
        said = imported(place('src'), place.stage())
        tree = place('staging/0/tree')
        check('a directory is an image', 'a directory', said['kind'])
        check('what is special is left out, and counted', (2, 1), (said['devices'], said['set_ids']))
        check('… and not there', (False, False), (os.path.lexists(tree + '/fifo'), os.path.lexists(tree + '/socket')))
        check('set-user-id is gone', 0o755, os.stat(tree + '/usr/bin/tool').st_mode & 0o7777)
        check('links are as they were', '/etc/passwd', os.readlink(tree + '/link'))
        check('hard links are kept', os.stat(tree + '/etc/conf').st_ino, os.stat(tree + '/etc/conf2').st_ino)
        check('times are kept', 1234567890123456789, os.stat(tree + '/closed').st_mtime_ns)
        check('holes stay holes', True, os.stat(tree + '/sparse').st_blocks * 512 < 500000)
        check('contents are the same', 0, subprocess.run(['cmp', place('src/sparse'), tree + '/sparse'], check=False).returncode)
        first = said['layers'][0]['digest']
        check('the same tree gives the same digest', first, digest(place))
        subprocess.run(['cp', '-a', '--sparse=never', place('src'), place('copy')], check=True)
        check('so does a copy without its holes', first, digest(place, 'copy'))
        check('and the image itself', lambda d: len(d) == 64, digest(place, 'copy'))

        def restore(path):
            os.utime(path, ns=(5, 1234567890123456789), follow_symlinks=False)

        def change(name, path, how):
            how(place('copy', path))
            restore(place('copy', path))
            restore(place('copy', os.path.dirname(path)))
            check(f'another {name}, another digest', lambda d: len(d) == 64 and d != change.last, digest(place, 'copy'))
            change.last = digest(place, 'copy')
        change.last = first
        change('mode', 'etc/conf', lambda p: os.chmod(p, 0o600))
        change('content', 'usr/bin/tool', lambda p: open(p, 'r+b').write(b'X'))
        change('target', 'link', lambda p: (os.unlink(p), os.symlink('/etc/shadow', p)))
        change('mode of a directory', 'usr', lambda p: os.chmod(p, 0o711))
        change('name', 'etc/new', lambda p: os.rename(os.path.dirname(p) + '/conf2', p))
        os.utime(place('copy/usr/bin/tool'), ns=(5, 6))
        check('another time, another digest', lambda d: d != change.last, digest(place, 'copy'))


def odd_directories():
    with Place() as place:
        os.makedirs(place('src/in'))
        place.write('src/in/f', b'x')
        os.mkdir(place('src/staging'))
        said = imported(place('src'), place('src/staging'))
        check('a staging directory inside what is imported is no part of it', (True, False),
              (os.path.exists(place('src/staging/0/tree/in/f')), os.path.exists(place('src/staging/0/tree/staging'))))
        shutil.rmtree(place('src/staging'))
        check('bytes have a limit', lambda t: isinstance(t, str) and 'larger than' in t, imported(place('src'), place.stage(), 0))
        check('entries have one', lambda t: isinstance(t, str) and 'more than 2 files' in t, imported(place('src'), place.stage(), 1000, 2))
        os.mkdir(place('src/no'))
        os.chmod(place('src/no'), 0)
        said = imported(place('src'), place.stage())
        if os.geteuid() == 0:
            check('root reads what nobody may', 0, os.stat(place('staging/0/tree/no')).st_mode & 0o777)
            mounted = subprocess.run(['mount', '-t', 'tmpfs', 'none', place('src/in')], check=False, capture_output=True).returncode == 0
            if mounted:
                place.write('src/in/elsewhere', b'secret')
                said = imported(place('src'), place.stage())
                check('another file system is not entered', (1, False), (said['mounts'], os.path.exists(place('staging/0/tree/in/elsewhere'))))
                subprocess.run(['mount', '--bind', '/etc', place('src/in')], check=True)
                said = imported(place('src'), place.stage())
                check('nor is a bind mount', (1, []), (said['mounts'], os.listdir(place('staging/0/tree/in'))))
                subprocess.run(['umount', place('src/in')], check=True)
                subprocess.run(['umount', place('src/in')], check=True)
        else:
            check('what cannot be read is named', lambda t: isinstance(t, str) and 'no' in t and 'Permission denied' in t, said)


for part in (confinement, identity, hostile_reader, directories, odd_directories):
    part()
sys.exit(3 if failures else 0)
