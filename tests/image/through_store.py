#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""through_store.py CORDON CORPUS AROUND WHO FIRST: every other case, from number FIRST (0 or 1) on, of corpus.py through `cordon image import` and, if it was taken, `cordon image rm`, with $CORDON_HOME deep below AROUND.
Everything in AROUND but $CORDON_HOME/images is looked at before and after: nothing of it may change; and of the image nothing may be left. Prints lines as tests/lib.sh does."""
import errno
import hashlib
import json
import os
import re
import stat
import subprocess
import sys

CORDON, CORPUS, AROUND, WHO, FIRST = sys.argv[1:6]
HOME = os.environ['CORDON_HOME']
IMAGES = os.path.join(HOME, 'images')
# What the store refuses of what the writer takes; the last counts blocks, not bytes.
REFUSED = 'there is no file in it|and this machine is|the quota of images is exceeded'


def snapshot():
    """Everything about everything below AROUND, but the images."""
    seen = {}
    for where, folders, files in os.walk(AROUND):
        if where == HOME and 'images' in folders:
            folders.remove('images')
        for name in ['.', *folders, *files]:
            path = os.path.normpath(os.path.join(where, name))
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else ''
            if stat.S_ISREG(st.st_mode):
                with open(path, 'rb') as f:
                    what = hashlib.sha256(f.read()).hexdigest()
            seen[path] = (st.st_mode, st.st_ino, st.st_nlink, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, st.st_size, what)
    return seen


def build_surroundings():
    """What a hostile archive would like to reach."""
    os.makedirs(IMAGES, mode=0o700, exist_ok=True)
    where = HOME
    while where.startswith(AROUND):
        os.makedirs(os.path.join(where, 'etc'), exist_ok=True)
        for name in ('passwd', 'etc/passwd', 'etc/shadow'):
            with open(os.path.join(where, name), 'w', encoding='ascii') as out:
                out.write('root:x:0:0\n')
        where = os.path.dirname(where)


def left():
    """What is in the store."""
    return [os.path.join(part, name) for part in ('names', 'ids', 'layers', 'tmp') for name in os.listdir(os.path.join(IMAGES, part))]


def forbidden():
    """What no tree may ever have. Directories may be closed to us, and trees deeper than Python's stack."""
    waiting = [os.path.join(IMAGES, 'layers')]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError as e: # closed, or a path that is too long to be named
            if e.errno not in (errno.EACCES, errno.ENAMETOOLONG):
                raise
            continue
        for entry in entries:
            st = entry.stat(follow_symlinks=False)
            kind = stat.S_IFMT(st.st_mode)
            if kind == stat.S_IFDIR:
                waiting.append(entry.path)
            if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) and not (kind == stat.S_IFCHR and st.st_rdev == 0):
                yield entry.path + ' is special'
            if st.st_mode & 0o6000 and kind != stat.S_IFLNK:
                yield entry.path + ' has set-id bits'
            if st.st_uid > 65534 or st.st_gid > 65534:
                yield entry.path + ' has another owner'


def cordon(*words):
    return subprocess.run([CORDON, 'image', *words], cwd=AROUND, capture_output=True, text=True, errors='replace', timeout=120, check=False,
                          stdin=subprocess.DEVNULL)


def run(case):
    before = snapshot()
    done = cordon('import', os.path.join(CORPUS, case['name']), 'hostile', '--quota', str(case.get('bytes', 1 << 30)))
    wrong = []
    if done.returncode not in (0, 125):
        wrong.append(f'ended with {done.returncode}')
    if done.returncode == 0:
        wrong += forbidden()
        if case['ok'] is False and 'entries' not in case:
            wrong.append('taken')
        removed = cordon('rm', 'hostile')
        if removed.returncode != 0:
            wrong.append('cannot be removed: ' + removed.stderr)
    elif case['ok'] and not re.search(REFUSED, done.stderr):
        wrong.append('not taken: ' + done.stderr[:300])
    elif not case['ok'] and not re.match(r'cordon image: cannot import .*: ......', done.stderr):
        wrong.append('said: ' + done.stderr[:300])
    if left():
        wrong.append('left: ' + ', '.join(left()))
    after = snapshot()
    if before != after:
        wrong.append('outside changed: ' + ', '.join(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))))
    return wrong


def main():
    with open(os.path.join(CORPUS, 'expect.json'), encoding='ascii') as f:
        cases = json.load(f)
    build_surroundings()
    for case in cases[int(FIRST)::2]:
        wrong = run(case)
        print(('not ok' if wrong else 'ok') + f' - {WHO}: {case["name"]} through the store', *('  # ' + w for w in wrong), sep='\n', flush=True)


main()
