# shellcheck shell=bash
# What the tests of the way out share. Sourced first of all, before ../lib.sh:
#
#   . "$(dirname "$0")/../egress/world.sh"    # begins the script again in a network namespace of its own
#   . "$(dirname "$0")/../lib.sh"
#   start_world                               # the servers of world.py, on addresses that look like the internet's
#   for_each_user FUNCTION…                   # as root and as an ordinary user
#
# Nothing can leave the namespace: all that is at the other end of its only cable is the world.
if [[ ${CORDON_TEST_WORLD:-} != 1 ]]; then
	own=(unshare --net --mount --propagation private)
	((EUID == 0)) || own=(unshare --user --map-current-user --keep-caps --net --mount --propagation private)
	"${own[@]}" true 2>/dev/null || { echo "skip - $(basename "$0" .test) # no network namespaces for this user" && exit 0; }
	exec env -u NO_PROXY -u no_proxy -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy -u HTTP_PROXY -u http_proxy CORDON_TEST_WORLD=1 CORDON_SUITE_NS=1 "${own[@]}" "$0" "$@"
fi

PATH=$PATH:/usr/sbin:/sbin

# start_world: waits until it is there. Its directory is $WORLD, inside /opt/world (with "${see_world[@]}"): the certificate, the clients.
start_world() {
	need_command ip openssl git python3
	[[ -x ${CORDON%/*}/cordon-broker ]] || skip_all "the build has no cordon-broker"
	WORLD=$TMP/world
	mkdir -p "$WORLD/seen"
	# shellcheck disable=SC2034 # its end is the world's
	exec {world_stdin}> >(exec /usr/bin/python3 -B "$TESTS/egress/world.py" "$WORLD" >"$TMP/world.log" 2>&1)
	children+=($!)
	wait_until -t 30 test -e "$WORLD/ready" || {
		cat "$TMP/world.log"
		exit 1
	}
	# shellcheck disable=SC2034 # used by the tests
	evil=$(<"$WORLD/evil")
	cp "$WORLD/ca/ca.pem" "$TESTS"/egress/inside/* "$WORLD/seen/"
	chmod -R a+rX "$WORLD/seen" "$WORLD/hosts" "$WORLD/resolv.conf"
	export CORDON_HOSTS=$WORLD/hosts CORDON_RESOLV_CONF=$WORLD/resolv.conf
	see_world=(--mount "$WORLD/seen:/opt/world")
	local variable
	for variable in SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO PIP_CERT npm_config_cafile; do see_world+=(--env "$variable=/opt/world/ca.pem"); done
}

# build_go_client: /opt/world/client-go inside, where there is a Go.
build_go_client() {
	command -v go >/dev/null || return 0
	(cd "$TESTS/egress" && GOCACHE=$TMP/go GOFLAGS=-mod=mod CGO_ENABLED=0 go build -o "$WORLD/seen/client-go" client.go) || fail "the Go client is built"
}

# as_user COMMAND…: run_as_user with what the broker needs to find the world, and without what kept capabilities would give.
as_user() {
	run_as_user env ${HTTPS_PROXY:+HTTPS_PROXY="$HTTPS_PROXY"} ${NO_PROXY:+NO_PROXY="$NO_PROXY"} ${SSL_CERT_FILE:+SSL_CERT_FILE="$SSL_CERT_FILE"} CORDON_HOSTS="$CORDON_HOSTS" CORDON_RESOLV_CONF="$CORDON_RESOLV_CONF" PYTHONDONTWRITEBYTECODE=1 \
		setpriv --inh-caps=-all --ambient-caps=-all "$@"
}
as_root() { "$@"; }

# for_each_user FUNCTION…: each of them, once per kind of user that there is here: $who for the names of tests, $by in front of commands.
for_each_user() {
	local part
	for who in root user; do
		[[ $who == user || $EUID == 0 ]] || continue
		by=as_$who
		for part; do "$part"; done
	done
}

# out_to HOST… -- COMMAND…: runs it in a sandbox that may reach these; fills in $status, $out and $err. $more: further options of cordon.
more=()
out_to() {
	local hosts=()
	while [[ $1 != -- ]]; do
		hosts+=(--allow-host "$1")
		shift
	done
	run "$by" "$CORDON" run --quiet "${hosts[@]}" "${see_world[@]}" "${more[@]}" "$@"
}

# reached WHO: how often something came to a server of the world (a regular expression, from the beginning of a line of its log).
reached() { grep -cE "^($1)" "$WORLD/log" || :; }
# quiet_world: from here on it is counted anew.
quiet_world() { : >"$WORLD/log"; }

# broker_of BOX: the process id of a live sandbox's broker.
broker_of() {
	local keeper
	keeper=$(pgrep -f "^cordon keeper $($by "$CORDON" info --json "$1" | json id)") && pgrep -P "$keeper" -x cordon-broker
}
