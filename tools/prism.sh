#!/usr/bin/env bash
# Runs the tests of tests/openapi through Prism, which npm installs into the folder that is the first argument.
set -uo pipefail
gate=openapi-peer
. "$(dirname "$0")/npm.sh"
if install_pinned prism "$1"; then export LENDING_TEST_PRISM=$1/node_modules/.bin/prism; fi
cd "$root/tests/openapi" && go test -count=1 .
