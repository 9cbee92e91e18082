# shellcheck shell=bash
# What a black-box test script needs. A script lies in tests/integration, tests/escape or tests/bench-smoke, is called NAME.test, is
# executable, and stands alone:
#
#   #!/bin/bash
#   . "$(dirname "$0")/../lib.sh"
#   run "$CORDON" run -- echo hi            # never ends the script; fills in $status, $out and $err
#   assert_eq "echo prints its word" hi "$out"
#   assert_eq "echo ends with 0" 0 "$status"
#
# Each assertion prints one line, "ok - NAME", "not ok - NAME" or "skip - NAME # REASON", and returns 0 whatever it found, so that a
# script may use `set -e`. A script that ends with a non-zero status without a "not ok" line has died early, which counts as a failure.
#
# Set by tests/run-suite (and by default here, so that a script can be run by hand):
#   CORDON            the program under test
#   CORDON_BUILD      its build directory
#   CORDON_WEAKENED   a build whose protections can be switched off one by one (CORDON_TEST_WEAKEN); empty: none
#   CORDON_SANITIZED  1 if the program is built with sanitizers (slower, larger; exact memory figures mean little)
# Private to the script, removed at its end:
#   TMP               a directory, also the HOME of the tests' user; CORDON_HOME lies below it

set -u
umask 022
TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$TESTS")
export CORDON_BUILD=${CORDON_BUILD:-$ROOT/build}
export CORDON=${CORDON:-$CORDON_BUILD/src/cordon}
CORDON_WEAKENED=${CORDON_WEAKENED:-}
CORDON_SANITIZED=${CORDON_SANITIZED:-0}
TEST_UID=${CORDON_TEST_UID:-64321} # an ordinary user that owns nothing; no entry in /etc/passwd is needed
export LC_ALL=C.UTF-8 NO_COLOR=1

TMP=$(mktemp -d "${TMPDIR:-/tmp}/cordon-test.XXXXXX") || exit 1
chmod 755 "$TMP"
mkdir -p "$TMP/state" "$TMP/user"
export TMP CORDON_HOME=$TMP/state
((EUID)) || chown "$TEST_UID:$TEST_UID" "$TMP/user"

passed=0 failed=0 skipped=0
children=()

finish() {
	local code=$? pid
	trap - EXIT
	for pid in ${children[@]+"${children[@]}"}; do kill "$pid" 2>/dev/null; done
	cd /
	rm -rf --one-file-system -- "$TMP" 2>/dev/null
	if ((code == 0 && failed)); then code=1; fi
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

ok() {
	passed=$((passed + 1))
	printf 'ok - %s\n' "$1"
}

# fail NAME [DETAIL…]
fail() {
	failed=$((failed + 1))
	printf 'not ok - %s\n' "$1"
	shift
	if (($#)); then printf '%s\n' "$@" | sed 's/^/    /'; fi
}

# skip NAME REASON
skip() {
	skipped=$((skipped + 1))
	printf 'skip - %s # %s\n' "$1" "${2:?skip needs a reason}"
}

# skip_all REASON: nothing in this script can be tested here.
skip_all() {
	skip "$(basename "$0" .test)" "$1"
	exit 0
}

# need_root, need_user, need_command NAME…: skip_all where that is missing.
need_root() { ((EUID == 0)) || skip_all "needs root"; }
need_user() { ((EUID)) || command -v setpriv >/dev/null || skip_all "needs setpriv"; }
need_command() {
	local c
	for c in "$@"; do command -v "$c" >/dev/null || skip_all "$c is not installed"; done
}

# run COMMAND…: runs it and fills in $status, $out (standard output) and $err, without trailing newlines. With standard input of the caller.
run() {
	status=0
	"$@" >"$TMP/.out" 2>"$TMP/.err" || status=$?
	out=$(tr -d '\0' <"$TMP/.out")
	err=$(tr -d '\0' <"$TMP/.err")
}

# What the last run left, for a failure's detail.
last_run() { printf 'status: %s\nstdout: %.2000s\nstderr: %.2000s\n' "${status-}" "${out-}" "${err-}"; }

# assert_eq NAME WANT GOT
assert_eq() {
	if [[ $2 == "$3" ]]; then ok "$1"; else fail "$1" "want: $2" "got:  $3" "$(last_run)"; fi
}

assert_ne() {
	if [[ $2 != "$3" ]]; then ok "$1"; else fail "$1" "both are: $2" "$(last_run)"; fi
}

# assert_contains NAME NEEDLE TEXT
assert_contains() {
	if [[ $3 == *"$2"* ]]; then ok "$1"; else fail "$1" "want, somewhere in the text: $2" "got: $3" "$(last_run)"; fi
}

assert_not_contains() {
	if [[ $3 != *"$2"* ]]; then ok "$1"; else fail "$1" "must not be in the text: $2" "got: $3"; fi
}

# assert_matches NAME REGEX TEXT
assert_matches() {
	if [[ $3 =~ $2 ]]; then ok "$1"; else fail "$1" "want a match of: $2" "got: $3" "$(last_run)"; fi
}

# assert_true NAME COMMAND…; assert_false NAME COMMAND…
assert_true() {
	local name=$1
	shift
	if "$@"; then ok "$name"; else fail "$name" "failed: $*" "$(last_run)"; fi
}

assert_false() {
	local name=$1
	shift
	if "$@"; then fail "$name" "succeeded: $*" "$(last_run)"; else ok "$name"; fi
}

# wait_until [-t SECONDS] COMMAND…: polls until the command succeeds; 1 when the time (10 s) is over.
wait_until() {
	local limit=10
	if [[ $1 == -t ]]; then
		limit=$2
		shift 2
	fi
	local end=$((${EPOCHREALTIME/./} + limit * 1000000))
	until "$@" >/dev/null 2>&1; do
		if ((${EPOCHREALTIME/./} >= end)); then
			printf '# waited %s s in vain: %s\n' "$limit" "$*" >&2
			return 1
		fi
		sleep 0.02
	done
}

# in_background COMMAND…: starts it, its pid in $!; it is killed when the script ends.
in_background() {
	"$@" &
	children+=($!)
}

# copy_cordon DIR: the command, with what it needs beside it. copy_parts: only that, for programs on libcordon.
copy_parts() {
	local part
	for part in cordon-full cordon-gate cordon-broker cordon-unpack; do
		if [[ -x ${CORDON%/*}/$part ]]; then cp "${CORDON%/*}/$part" "$1/"; fi
	done
}
copy_cordon() {
	cp "$CORDON" "$1/cordon" && copy_parts "$1"
}

# run_as_user COMMAND…: as an ordinary user with a HOME and CORDON_HOME of its own and nothing of the caller's environment.
run_as_user() {
	local as=()
	((EUID)) || as=(setpriv "--reuid=$TEST_UID" "--regid=$TEST_UID" --clear-groups --inh-caps=-all)
	(
		cd "$TMP/user" || exit 1
		exec env -i PATH=/usr/local/bin:/usr/bin:/bin LC_ALL=C.UTF-8 NO_COLOR=1 HOME="$TMP/user" USER=tester LOGNAME=tester TMP="$TMP" \
			CORDON="$CORDON" CORDON_HOME="$TMP/user/state" ${CORDON_LIMITS:+CORDON_LIMITS="$CORDON_LIMITS"} ${CORDON_POOL:+CORDON_POOL="$CORDON_POOL"} \
			${ASAN_OPTIONS:+ASAN_OPTIONS="$ASAN_OPTIONS"} ${UBSAN_OPTIONS:+UBSAN_OPTIONS="$UBSAN_OPTIONS"} \
			"${as[@]}" "$@"
	)
}

# run_in_userns COMMAND…: as the ordinary user, as "root" of a user namespace of its own (as inside a rootless container).
run_in_userns() { run_as_user unshare --user --map-root-user --mount --fork "$@"; }

# json KEY… <<<"$out": one value of a JSON text, "null", "true" and "false" as in JSON. json usage limit_by memory
json() {
	/usr/bin/python3 -c '
import json, sys
v = json.load(sys.stdin)
for k in sys.argv[1:]:
    v = v[int(k)] if isinstance(v, list) else v[k]
print(v if isinstance(v, str) else json.dumps(v))' "$@"
}

# Counts that must be the same before and after: mounts, cgroups, processes of the machine that belong to cordon.
count_mounts() { wc -l </proc/self/mounts; }
count_cgroups() { find /sys/fs/cgroup -mindepth 1 -type d -path '*/cordon/*' 2>/dev/null | wc -l; }
count_launchers() { pgrep -c -f 'cordon-launcher|cordon: ' || :; }
