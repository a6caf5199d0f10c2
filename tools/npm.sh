# For axe.sh and openapi.sh, which source this file with the name of their gate in $gate. That npm or its
# registry cannot be had is a fact about the machine, not about the code: the gate says so, and runs the tests that need
# no package.

root=$(cd "$(dirname "$0")/.." && pwd)

skip() {
	echo "$gate: SKIPPED, $1"
	return 1
}

# install_pinned name dir: npm installs the packages that tools/name pins into dir, or the function skips.
install_pinned() {
	command -v npm >/dev/null || skip "there is no npm on this machine" || return
	mkdir -p "$2"
	if cmp -s "$root/tools/$1/package-lock.json" "$2/.installed"; then return; fi
	rm -f "$2/.installed"
	cp "$root/tools/$1"/package*.json "$2" || exit
	# No scripts of packages: one of them tells its makers of each installation.
	report=$(cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 2>&1)
	status=$?
	if [ $status -ne 0 ]; then
		if code=$(grep -m1 -oE 'code (ENOTFOUND|EAI_AGAIN|ECONN|ENET|EHOST|ETIMEDOUT|ERR_SOCKET_TIMEOUT|E407|E5)[A-Z0-9]*' <<<"$report"); then
			skip "npm's registry cannot be reached: $code" || return
		fi
		echo "$report"
		exit $status
	fi
	cp "$2/package-lock.json" "$2/.installed"
}
