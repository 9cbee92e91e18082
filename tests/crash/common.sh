# shellcheck shell=bash
# shellcheck disable=SC2154 # out, err, status, failed: lib.sh's
# Shared by the crash tests; sourced after ../lib.sh.

# as_user_program PATH: a program of the build directory, where the tests' ordinary user can execute it.
as_user_program() {
	[[ -x $CORDON_BUILD/$1 ]] || return 1
	install -m 755 "$CORDON_BUILD/$1" "$TMP/${1##*/}" && echo "$TMP/${1##*/}"
}

# The program's lines are those of lib.sh; $1 is put in front of each name. Nothing of it may be missing.
take_over() {
	local line lines=0
	while IFS= read -r line; do
		case $line in
		'ok - '*) ok "$1${line#ok - }" ;;
		'not ok - '*) fail "$1${line#not ok - }" "$out" "$err" ;;
		'skip - '*)
			line=${line#skip - }
			skip "$1${line%% \# *}" "${line#* \# }"
			;;
		*) continue ;;
		esac
		lines=$((lines + 1))
	done <<<"$out"
	if ((status && failed == 0)) || ((lines == 0)); then fail "$1the crash program ends well" "status $status" "$out" "$err"; fi
}

# every [N]: at which kill points. Where each takes several times as long, with sanitizers, it is every fifth of those that there are otherwise:
# whether the tree is right after all of them is seen without; with them, that none of the code on the way does what C does not allow.
every() { echo $((${1:-1} * (CORDON_SANITIZED ? 5 : 1))); }

# crash SCENARIO [N]: see tests/crash/crash.c. The same on a disk's file system, and as an ordinary user.
crash() {
	run "$CORDON_BUILD/tests/crash/crash" "$1" "$(every "${2:-}")"
	take_over ""
}

crash_on_disk() {
	run env CRASH_DIR=/var/tmp "$CORDON_BUILD/tests/crash/crash" "$1" "$(every "${2:-}")"
	take_over "on a disk: "
}

crash_as_user() {
	run run_as_user "$(as_user_program tests/crash/crash)" "$1" "$(every "${2:-}")"
	take_over "as an ordinary user: "
}
