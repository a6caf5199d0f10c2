#!/usr/bin/env bash
# Fetches every module of the last commit into an empty module, offline and without replace, from the GOPROXY that
# `make proxy` made into dist. The programs of README then compile and run there. Third parties come from the module
# cache.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(sed -n 's/^module //p' go.mod)
version=$(head -1 dist/TAGS)
work=$PWD/.tools/released
# The copies of the last run. The go command takes a version for what it was then.
own="$work/mod/cache/download/$root $work/mod/$(dirname "$root")"
export GODEBUG=goindex=0 # its index of packages, too
mkdir -p "$work/mod"
chmod -R u+w "$work" && rm -rf "$work/shop" $own
parties=file://$(go env GOMODCACHE)/cache/download
export GOMODCACHE=$work/mod GOFLAGS=-mod=mod GOWORK=off GOSUMDB=off GOTOOLCHAIN=local

# shop NAME MODULE...: makes the empty module NAME, and gets the modules.
shop() {
	mkdir -p "$work/shop/$1" && cd "$work/shop/$1"
	shift
	go mod init example.com/shop 2>/dev/null
	go get -u=false "${@/%/@$version}" 2>/dev/null || { go get "${@/%/@$version}"; exit 1; }
}

# at_most LINES: a program that uses the library gets no more lines into its go.sum than on the day this was written.
at_most() {
	[ "$(wc -l <go.sum)" -le "$1" ] && return
	echo "go.sum of $PWD has $(wc -l <go.sum) lines, more than $1:"
	cut -d' ' -f1 go.sum | uniq
	exit 1
}

modules=$(sed "s,/*$version\$,,; s,^,$root/,; s,/\$,," dist/TAGS)
export GOPROXY=file://$PWD/dist/goproxy,$parties
repository=$PWD
(shop client "$root" && at_most 8)
(shop postgres "$root/contrib/postgres" && at_most 41)
shop all $modules
# The lines of the notes are the ones that the go command writes.
grep "^$root" go.sum | sort | diff - <(grep "^$root" "$repository/dist/NOTES.md" | sort)
printf 'package shop\n\n' >all.go
printf 'import _ "%s"\n' $modules >>all.go
go list -deps . >/dev/null
cp "$repository"/contrib/bolt/backend*_test.go "$repository/guarantees/docs_true_readme_test.go" .
sed -i 's/^package .*/package shop_test/' ./*_test.go
go get -t . 2>/dev/null
go test -vet=off .
go run "$root/examples/quickstart" >/dev/null

echo "released: an empty module gets $(wc -w <<<"$modules") modules at $version, and runs the programs of README"
