#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_corpus.py IMPORT CORPUS WORK WHO [CASE…]: every case of corpus.py through image-import, each into a staging directory of its own. What is around that directory is
looked at before and after: nothing of it may change. Prints lines as tests/lib.sh does; exit 3 if something failed."""
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys

IMPORT, CORPUS, WORK, WHO = sys.argv[1:5]
EVIL = 'cordon-corpus-evil'
DEEP = 'a/b/c/d'  # where the staging directory is, so that ".." leads to what is watched
ATTRIBUTES = {'user.overlay.opaque', 'user.overlay.whiteout'}


def content(path):
    digest = hashlib.sha256()
    with open(path, 'rb') as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def snapshot(top, without):
    """Everything about everything below top, but what is in `without`."""
    seen = {}
    for where, folders, files in os.walk(top):
        if where == without:
            folders.clear()
            continue
        for name in ['.', *folders, *files]:
            path = os.path.normpath(os.path.join(where, name))
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else content(path) if stat.S_ISREG(st.st_mode) else ''
            seen[path] = (st.st_mode, st.st_ino, st.st_nlink, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, st.st_size, what)
    seen.pop(without, None)
    return seen


def build_surroundings(arena):
    """What a hostile archive would like to reach: above the staging directory, beside it, and in the current directory."""
    os.makedirs(os.path.join(arena, DEEP))
    for folder in ('', 'a', 'a/b', 'a/b/c', 'a/b/c/d', 'cwd'):
        os.makedirs(os.path.join(arena, folder, 'etc'), exist_ok=True)
        for name in ('passwd', 'etc/passwd', 'etc/shadow'):
            with open(os.path.join(arena, folder, name), 'w', encoding='ascii') as out:
                out.write('root:x:0:0\n')


def look(tree):
    """What is in a tree, by path: modes first, since they may keep us from looking further."""
    found = {}

    waiting = [(tree, '')]
    while waiting:
        path, rel = waiting.pop()
        st = os.lstat(path)
        attrs = {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}
        text = None
        if stat.S_ISLNK(st.st_mode):
            text = os.readlink(path)
        elif stat.S_ISDIR(st.st_mode):
            os.chmod(path, 0o700)
            waiting += [(path + '/' + name, rel + '/' + name if rel else name) for name in os.listdir(path)]
        elif stat.S_ISREG(st.st_mode) and st.st_size <= 100000:
            os.chmod(path, 0o600)
            with open(path, 'rb') as f:
                text = f.read().decode('utf-8', 'surrogateescape')
        found[rel] = (st, attrs, text)
    return found


def describe(entry, wanted):
    """What there is, in the words of `wanted`."""
    if entry is None:
        return None
    st, attrs, text = entry
    mode, short = '%04o ' % stat.S_IMODE(st.st_mode), wanted or ''
    if stat.S_ISLNK(st.st_mode):
        return 'link ' + text
    if stat.S_ISCHR(st.st_mode) and st.st_rdev == 0 or 'user.overlay.whiteout' in attrs:
        return 'white'
    if stat.S_ISDIR(st.st_mode):
        if short == 'opaque':
            return 'opaque' if attrs.get('user.overlay.opaque') == b'y' else 'a directory that is not opaque'
        return 'dir' if short == 'dir' else 'dir ' + mode.strip()
    if stat.S_ISREG(st.st_mode):
        if short.startswith('size '):
            return 'size %d' % st.st_size
        return 'file ' + (mode if re.match(r'file 0\d\d\d ', short) else '') + (text if text is not None else '…')
    return 'something else'


def forbidden(found):
    """What no tree may ever have."""
    for path, (st, attrs, _) in found.items():
        kind = stat.S_IFMT(st.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) and not (kind == stat.S_IFCHR and st.st_rdev == 0):
            yield f'{path!r} is special'
        if st.st_mode & 0o6000 and kind != stat.S_IFLNK:
            yield f'{path!r} has set-id bits'
        if set(attrs) - ATTRIBUTES:
            yield f'{path!r} has attributes {set(attrs)}'
        if st.st_uid > 65534 or st.st_gid > 65534:
            yield f'{path!r} has owner {st.st_uid}:{st.st_gid}'
        if not 0 <= st.st_mtime <= 1 << 33:
            yield f'{path!r} has the time {st.st_mtime}'


def check_trees(case, staging):
    """A list of what is wrong."""
    wrong = []
    if case['layers'] and sorted(os.listdir(staging), key=int) != [str(i) for i in range(len(case['layers']))]:
        wrong.append(f'layers: {os.listdir(staging)}')
    for i, wanted in enumerate(case['layers']):
        where = os.path.join(staging, str(i))
        if os.listdir(where) != ['tree']:
            wrong.append(f'beside the tree: {os.listdir(where)}')
        found = look(os.path.join(where, 'tree'))
        wrong += forbidden(found)
        for path, what in wanted.items():
            got = describe(found.get(path), what)
            if got != what:
                wrong.append(f'layer {i}, {path[:60]!r}: {str(got)[:80]!r}, not {str(what)[:80]!r}')
    return wrong


def check_result(case, said):
    wrong = [f'{key}: {said[key]}, not {value}' for key, value in case.get('counts', {}).items() if said[key] != value]
    for key, value in case.get('result', {}).items():
        got = [layer[key] for layer in said['layers']] if key == 'hides_lower' else said[key]
        if got != value:
            wrong.append(f'{key}: {got}, not {value}')
    if len({layer['digest'] for layer in said['layers']}) < len({json.dumps(layer, sort_keys=True) for layer in case['layers']}):
        wrong.append('different layers with the same digest')
    return wrong


def run(case, arena):
    staging = os.path.join(arena, DEEP, 'staging')
    os.mkdir(staging)
    before = snapshot(arena, staging)
    limits = [str(case.get('bytes', 1 << 30))] + ([str(case['entries'])] if 'entries' in case else [])
    done = subprocess.run([IMPORT, os.path.join(CORPUS, case['name']), staging, *limits], cwd=os.path.join(arena, 'cwd'), capture_output=True,
                          text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
    wrong = []
    after = snapshot(arena, staging)
    if before != after:
        wrong.append('outside changed: ' + ', '.join(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))))
    wrong += [f'{path} is there' for path in ('/tmp/' + EVIL, '/etc/' + EVIL, '/' + EVIL) if os.path.lexists(path)]
    if done.returncode not in (0, 1) or done.stderr:
        wrong.append(f'ended with {done.returncode}: {done.stderr}')
    elif case['ok'] is not None and (done.returncode == 0) != case['ok']:
        wrong.append(('not taken' if case['ok'] else 'taken') + ': ' + done.stdout.strip()[:300])
    elif done.returncode == 0:
        wrong += check_trees(case, staging) + check_result(case, json.loads(done.stdout))
    elif not re.match(r'error 1: ', done.stdout) or not re.search(case['match'], done.stdout):
        wrong.append('said: ' + done.stdout.strip()[:300])
    subprocess.run(['chmod', '-R', 'u+rwx', staging], check=True)
    subprocess.run(['rm', '-rf', '--one-file-system', staging], check=True)
    return wrong


def main():
    with open(os.path.join(CORPUS, 'expect.json'), encoding='ascii') as f:
        cases = json.load(f)
    only = sys.argv[5:]
    arena = os.path.join(WORK, 'arena')
    build_surroundings(arena)
    failed = 0
    for case in cases:
        if only and case['name'] not in only:
            continue
        wrong = run(case, arena)
        failed += bool(wrong)
        print(('not ok' if wrong else 'ok') + f' - {WHO}: {case["name"]}', *('  # ' + w for w in wrong), sep='\n', flush=True)
    shutil.rmtree(arena)
    sys.exit(3 if failed else 0)


main()
