#!/usr/bin/env bash
# Runs the tests of tests/browser, in which axe-core judges the pages. npm installs it into the folder that is the first
# argument.
set -uo pipefail
gate=axe-peer
. "$(dirname "$0")/npm.sh"
if install_pinned axe "$1"; then export LENDING_TEST_AXE=$1/node_modules/axe-core/axe.min.js; fi
cd "$root/tests/browser" && go test -count=1 .
