# shellcheck shell=bash
# Shared by the integration tests; sourced after ../lib.sh.

# marked FILE: the pids of this machine whose command line contains the text in FILE. The text itself must not be on our own command
# line, which is why it comes from a file.
marked() { grep -lsaF -f "$1" /proc/[0-9]*/cmdline | cut -d/ -f3; }
marked_count() { marked "$1" | wc -l; }
marked_at_least() { (($(marked_count "$2") >= $1)); }
none_marked() { [[ -z $(marked "$1") ]]; }

# new_mark: a word in $mark, and in the file $mark_file, that no other process of this machine has on its command line.
new_mark() {
	mark=cordon-mark-$$-$RANDOM$RANDOM
	mark_file=$(mktemp "$TMP/mark.XXXX")
	printf '%s' "$mark" >"$mark_file"
}

# checksum DIR: of names, types, modes, owners, link targets, times and contents below DIR.
checksum() {
	(cd "$1" && find . -printf '%p %y %m %U %G %l %T@ %s\n' | sort && find . -type f -print0 | sort -z | xargs -0r sha256sum) | sha256sum
}

# check_json NAME PYTHON: the last run's standard output is one JSON object, and PYTHON, which sees it as r, finds nothing wrong.
# shellcheck disable=SC2154 # out: set by run
check_json() {
	local detail
	if detail=$(/usr/bin/python3 -c '
import base64, json, re, sys
r = json.loads(sys.argv[1])
exec(sys.argv[2])' "$out" "$2" 2>&1); then
		ok "$1"
	else
		fail "$1" "$detail" "$(last_run)"
	fi
}

# nothing_left NAME DIR…: the directories, of which there is one at least, are empty. What was large is removed by a helper that may outlive the command.
left_in() {
	local there=()
	for dir in "$@"; do [[ ! -d $dir ]] || there+=("$dir"); done
	find "${there[@]:-$1}" -mindepth 1 2>&1
}
is_empty() { [[ -z $(left_in "$@") ]]; }
nothing_left() {
	if wait_until -t 20 is_empty "${@:2}"; then ok "$1"; else fail "$1" "$(left_in "${@:2}" | head -5)"; fi
}

# less_than A B, for decimals
less_than() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# Python programs that take more than they may, each in a way that no rlimit of a single process stops.
# shellcheck disable=SC2034 # used by the tests
memory_files='
import os
for i in range(4096):
    os.write(os.memfd_create("hog"), b"x" * (1 << 20))
print("survived")'
# shellcheck disable=SC2034
many_hogs='
import os, sys, time
count, each = int(sys.argv[1]), int(sys.argv[2])
go, begin = os.pipe()
for i in range(count):
    if os.fork() == 0:
        os.close(begin)
        os.read(go, 1)
        data = bytearray(each << 20)
        for page in range(0, len(data), 4096): data[page] = 1
        time.sleep(600)
os.close(begin)
while True: os.wait()'
