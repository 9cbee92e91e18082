# shellcheck shell=bash
# Shared by the escape tests; sourced after ../lib.sh.
# shellcheck disable=SC2154 # lib.sh sets out, status and err

# The secret of the host: in a world-readable file, so that only the sandbox keeps it from being read.
secret=sesame-$RANDOM$RANDOM$RANDOM
mkdir -p "$TMP/host"
printf '%s\n' "$secret" >"$TMP/host/secret"
chmod 755 "$TMP/host"
chmod 644 "$TMP/host/secret"

# build_probe: compiles probe.c statically to $probe; inside it is $PROBE, mounted read-only by "${with_probe[@]}".
PROBE=/opt/probe/probe
build_probe() {
	local cc
	mkdir -p "$TMP/probe"
	chmod 755 "$TMP/probe"
	probe=$TMP/probe/probe
	for cc in musl-gcc cc gcc clang; do
		command -v "$cc" >/dev/null || continue
		"$cc" -D_GNU_SOURCE -std=gnu17 -O1 -static -idirafter /usr/include -idirafter "/usr/include/$(uname -m)-linux-gnu" \
			-o "$probe" "$TESTS/escape/probe.c" 2>"$TMP/cc.log" && break
	done
	[[ -x $probe ]] || skip_all "no C compiler can build a static program here: $(head -n 1 "$TMP/cc.log" 2>/dev/null)"
	chmod 755 "$probe"
	with_probe=(--mount "$TMP/probe:/opt/probe")
}

# inside ARG…: the probe in a sandbox of its own; fills in $status, $out, $err.
inside() { run "$CORDON" run "${with_probe[@]}" -- "$PROBE" "$@"; }

# result NAME: what the last run's line "NAME RESULT" says.
result() { awk -v name="$1" '$1 == name { print $2; exit }' <<<"$out"; }

# expect_each RESULT-REGEX NAME-OF-TEST NAME…: one assertion per line of the probe.
expect_each() {
	local want=$1 title=$2 name
	shift 2
	for name in "$@"; do assert_matches "$title: $name" "^($want)\$" "$(result "$name")"; done
}

# what_is_left: lines that must be the same before and after: mounts, and scratch directories. Other tests may run on this machine, so
# processes and cgroups are looked for by name.
what_is_left() {
	echo "mounts $(count_mounts)"
	echo "scratch $(find {"$CORDON_HOME","$TMP/user/state"}/{scratch,overlays} -mindepth 1 -maxdepth 1 2>/dev/null | wc -l)"
}
same_as_before() { [[ $(what_is_left) == "$1" ]]; }
# no_cgroup_of ID: of a sandbox
no_cgroup_of() { [[ -z $(find /sys/fs/cgroup -type d -name "*$1*" 2>/dev/null) ]]; }

# build_api [NAME]: compiles NAME.c (api.c) against the libcordon of the build under test to $api; 1 where that cannot be done.
build_api() {
	local sanitize=() source=$TESTS/escape/${1:-api}.c
	((CORDON_SANITIZED)) && sanitize=(-fsanitize=address -fsanitize=undefined)
	api=$TMP/${1:-api}
	[[ -e $CORDON_BUILD/src/libcordon.so ]] || return 1
	cc -std=gnu17 -D_GNU_SOURCE "${sanitize[@]}" -I"$ROOT/include" -o "$api" "$source" -L"$CORDON_BUILD/src" -lcordon -Wl,-rpath,"$CORDON_BUILD/src" 2>"$TMP/cc.log"
}
