#!/usr/bin/env bash
# Runs the test of tests/restate at the server of Restate, which npm installs into the folder that is the first argument.
set -uo pipefail
gate=restate-peer
. "$(dirname "$0")/npm.sh"
install_pinned restate "$1"
server=$(ls "$1"/node_modules/@restatedev/restate-server-*/bin/restate-server 2>/dev/null | head -1)
[ -n "$server" ] || skip "npm has no server for this machine"
cd "$root/tests/restate" && LENDING_TEST_RESTATE=$server go test -count=1 -timeout 10m -v .
