#!/usr/bin/env bash
# Runs the test of contrib/restate at the server of Restate, which tools/restate pins and npm installs into the folder
# that is the first argument. That npm or its registry cannot be had is a fact about the machine, not about
# the code: it is said, and passes.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$1

skip() {
	echo "restate-peer: SKIPPED, $1"
	exit 0
}

command -v npm >/dev/null || skip "there is no npm on this machine"
mkdir -p "$dir"
if ! cmp -s "$root/tools/restate/package-lock.json" "$dir/.installed"; then
	rm -f "$dir/.installed"
	cp "$root"/tools/restate/package*.json "$dir" || exit
	# No scripts of packages: one of them tells its makers of each installation.
	report=$(cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 2>&1)
	status=$?
	if [ $status -ne 0 ]; then
		if code=$(grep -m1 -oE 'code (ENOTFOUND|EAI_AGAIN|ECONN|ENET|EHOST|ETIMEDOUT|ERR_SOCKET_TIMEOUT|E407|E5)[A-Z0-9]*' <<<"$report"); then
			skip "npm's registry cannot be reached: $code"
		fi
		echo "$report"
		exit $status
	fi
	cp "$dir/package-lock.json" "$dir/.installed"
fi
server=$(ls "$dir"/node_modules/@restatedev/restate-server-*/bin/restate-server 2>/dev/null | head -1)
[ -n "$server" ] || skip "npm has no server for this machine"
cd "$root/contrib/restate" && LENDING_TEST_RESTATE=$server go test -count=1 -timeout 10m -v .
