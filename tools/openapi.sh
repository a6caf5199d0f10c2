#!/usr/bin/env bash
# Runs the tests of tests/openapi. npm installs a generator of TypeScript and its compiler into the folder that is the
# first argument.
set -uo pipefail
gate=openapi-peer
. "$(dirname "$0")/npm.sh"
if install_pinned openapi "$1"; then export LENDING_TEST_TYPESCRIPT=$1/node_modules/.bin; fi
cd "$root/tests/openapi" && go test -count=1 .
