#!/usr/bin/env bash
# Runs govulncheck (its path is the first argument) on the module in the current folder. A database
# that cannot be reached is a fact about the network, not about the code: it is said, and passes.
set -uo pipefail

report=$("$1" ./... 2>&1)
status=$?
if [ $status -ne 0 ] && [ $status -ne 3 ] && grep -q 'fetching vulnerabilities\|vuln\.go\.dev' <<<"$report"; then
	echo "govulncheck: SKIPPED, the vulnerability database cannot be reached"
	exit 0
fi
echo "$report"
exit $status
