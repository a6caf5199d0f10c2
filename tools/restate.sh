#!/usr/bin/env bash
# Runs the test of tests/restate at the server of Restate, which npm installs into the folder that is the first argument.
set -uo pipefail
gate=restate-peer
. "$(dirname "$0")/npm.sh"
if install_pinned restate "$1"; then
	server=$(ls "$1"/node_modules/@restatedev/restate-server-*/bin/restate-server 2>/dev/null | head -1)
	if [ -n "$server" ]; then export LENDING_TEST_RESTATE=$server; else skip "npm has no server for this machine"; fi
fi
cd "$root/tests/restate" && go test -count=1 -timeout 10m .
