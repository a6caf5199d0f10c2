#!/usr/bin/env bash
# Runs the tests of tests/openapi through Prism, which npm installs into the folder that is the first argument.
set -uo pipefail
gate=openapi-peer
. "$(dirname "$0")/npm.sh"
install_pinned prism "$1"
cd "$root/tests/openapi" &&
	LENDING_TEST_PRISM=$1/node_modules/.bin/prism go test -count=1 -v -run '^Test(EveryRouteIsDescribed|Rules|EveryEvent)' .
