#!/usr/bin/env bash
# Writes the modules of the last commit into dist/goproxy as the go command keeps them: GOPROXY=file://…/dist/goproxy
# serves them. dist/TAGS lists the tags for git, and dist/NOTES.md has the section Unreleased of CHANGELOG.md and the
# lines of go.sum. The modules under contrib require the root, and each other, in the version of the release.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(git show HEAD:go.mod | sed -n 's/^module //p')
folders=$(git ls-tree -r --name-only HEAD contrib | sed -n 's,/go.mod$,,p')
required=$(for folder in $folders; do git show "HEAD:$folder/go.mod"; done | sed -En "s,^(require)?[[:space:]]+$root[^ ]* (v[^ ]*).*,\2,p" | sort -u)
if [ "$(wc -w <<<"$required")" != 1 ]; then
	echo "proxy: the modules under contrib require different versions of this repository:" $required
	echo "make version VERSION=v… sets all"
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf dist
mkdir -p dist
git clone -q --bare . "$work/git"
for folder in '' $folders; do
	tag=${folder:+$folder/}$required
	git -C "$work/git" tag -f "$tag" HEAD >/dev/null
	echo "$tag"
done >dist/TAGS

# The go command makes the archives, from the tags and nothing else of this machine.
export GOMODCACHE=$work/mod GOPROXY=direct GOSUMDB=off GOFLAGS=-modcacherw GOWORK=off
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$work/git.insteadOf GIT_CONFIG_VALUE_0=https://$root
modules=$(sed "s,/*$required\$,,; s,^,$root/,; s,/\$,," dist/TAGS)
(cd "$work" && go mod download -json ${modules//$'\n'/@$required }@"$required" >sums)
mkdir -p "dist/goproxy/$(dirname "$root")"
cp -r "$work/mod/cache/download/$root" "dist/goproxy/$root"
find dist/goproxy \( -name '*.lock' -o -name '*.ziphash' -o -name '*.partial' \) -delete
for module in $modules; do echo "$required" >"dist/goproxy/$module/@v/list"; done
{
	printf '# %s\n' "$required"
	git show HEAD:CHANGELOG.md | sed '1,/^## \[Unreleased\]/d; /^## /,$d'
	printf '\n## Checksums\n\nThe lines of `go.sum`:\n\n```\n'
	sed -n 's/^\t"Path": "\(.*\)",/\1/p; s/^\t"Version": "\(.*\)",/\1/p; s/^\t"Sum": "\(.*\)",/\1/p; s/^\t"GoModSum": "\(.*\)",*/\1/p' "$work/sums" |
		paste -d' ' - - - - | sed -E 's,^(\S+) (\S+) (\S+) (\S+)$,\1 \2 \3\n\1 \2/go.mod \4,'
	printf '```\n'
} >dist/NOTES.md
