# shellcheck shell=bash
# A policy with secrets in the world of world.sh; sourced after it and ../lib.sh.
# shellcheck disable=SC2034,SC2154 # used by the tests; set by lib.sh and world.sh

# start_secrets: after start_world. $value goes to api.example and others, $other to files.example with some requests only.
start_secrets() {
	chmod -R a+rX "$WORLD/ca"
	export SSL_CERT_FILE=$WORLD/ca/ca.pem # of servers outside; inside there is what the sandbox has anyway
	value=v-$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
	other=o-$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
	world_only=(--mount "$WORLD/seen:/opt/world")

	cat >"$TMP/secrets.yaml" <<'Y'
version: 1
network:
  outbound: [{host: api.example}, {host: files.example}, {host: pypi.example}, {host: ws.example}, {host: "*.wild.example"}, {host: api.example, ports: [8443]}]
secrets:
  - {from: "store:key", hosts: [api.example, ws.example, "*.wild.example"], env: API_KEY}
  - {from: "store:other", hosts: [files.example], header: X-Api-Key, format: "{}", methods: [GET, POST], paths: ["/key/**", "/big"]}
Y
	chmod 644 "$TMP/secrets.yaml"
}
has() { [[ -x /usr/bin/$1 ]]; }
knows() { /usr/bin/python3 -c "import $1" 2>/dev/null; }

# sends COMMAND…: in a sandbox with these secrets. given WHAT: whether a server got a request with this, after quiet_world.
sends() { run "$by" "$CORDON" run --quiet --policy "$TMP/secrets.yaml" "${world_only[@]}" "${more[@]}" -- "$@"; }
given() { grep -qE "^key .*$1" "$WORLD/log"; }

store() {
	printf '%s\n' "$value" | $by "$CORDON" secret set key && printf '%s\n' "$other" | $by "$CORDON" secret set other || exit 1
}
