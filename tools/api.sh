#!/usr/bin/env bash
# Compares the exported names of every module with those at the newest tag, or at the git reference that is the second
# argument; the first is apidiff's path. A change that can break a caller needs an "Action required" block in the
# section Unreleased of CHANGELOG.md. Before the first tag no name is promised. The stores of a release stay as they were
# written: with one of them gone, no test would show that this release cannot read it.
set -euo pipefail

apidiff=$1
ref=${2:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
if [ -z "$ref" ]; then
	echo "api: nothing has been released yet, so any name may still change"
	exit 0
fi
stores=$(git diff --find-renames=100% --diff-filter=DM --name-only "$ref" -- '*testdata/released/*')
if [ -n "$stores" ]; then
	echo "api: these stores of $ref have changed or are gone; restore them, with git checkout $ref -- FILE:"
	echo "$stores"
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/old"
git archive "$ref" | tar -x -C "$work/old"
compare() {
	(cd "$2" && "$apidiff" -m "${@:3}" 2>"$work/said") || { cat "$work/said" >&2; exit 1; }
}
for module in . contrib/*/; do
	[ -f "$module/go.mod" ] && [ -f "$work/old/$module/go.mod" ] || continue
	path=$(sed -n 's/^module //p' "$module/go.mod")
	compare -C "$work/old/$module" -w "$work/api" "$path"
	compare -C "$module" -incompatible "$work/api" "$path" | sed "s,^- ,$path: ," | tee -a "$work/changes"
done
if [ ! -s "$work/changes" ]; then
	echo "api: no change since $ref can break a caller"
elif sed '1,/^## \[Unreleased\]/d; /^## /,$d' CHANGELOG.md | grep -q 'Action required'; then
	echo "api: CHANGELOG.md says what callers have to do"
else
	echo "api: these changes since $ref can break callers: CHANGELOG.md has no \"Action required\" for them"
	exit 1
fi
