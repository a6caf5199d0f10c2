#!/usr/bin/env bash
# Judges the pages of tests/browser by the rules of axe-core, which npm installs into the folder that is the first argument.
set -uo pipefail
gate=axe-peer
. "$(dirname "$0")/npm.sh"
install_pinned axe "$1"
cd "$root/tests/browser" &&
	LENDING_TEST_AXE=$1/node_modules/axe-core/axe.min.js go test -count=1 -v -run '^Test(Page|PageOfManyRequests|OpsPage)$' .
