#!/usr/bin/env bash
# Writes the modules of the last commit into dist/goproxy as the go command keeps them: GOPROXY=file://…/dist/goproxy
# serves them. dist/TAGS lists their tags for git, and dist/NOTES.md has the section Unreleased of CHANGELOG.md and the
# lines of go.sum. The modules under contrib require the root, and each other, in the version that is written.
#
#   tools/proxy.sh           a version of the commit, such as v0.1.0-dev.20261128174500.g1a2b3c4d5e6f, beside earlier ones
#   tools/proxy.sh release   the version of the release alone
#
# No pseudo-version: it has the hash of a commit, and the go.mod files of that commit cannot have their own hash.
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
git clone -q . "$work/git"
version=$required
if [ "${1:-}" = release ]; then
	rm -rf dist
else
	if git rev-parse -q --verify "refs/tags/$required" >/dev/null; then
		version=${required%.*}.$((${required##*.} + 1)) # the commits after a release sort above the release
	elif [ -e dist/goproxy ]; then
		find dist/goproxy -name "$required.*" -delete # of make release, and not released
	fi
	version+=-dev.$(TZ=UTC git show -s --format=%cd --date=format-local:%Y%m%d%H%M%S).g$(git rev-parse --short=12 HEAD)
	(
		cd "$work/git"
		sed -i -E "s,($root[^ ]* )$required\$,\1$version," contrib/*/go.mod
		date=$(git show -s --format=%cI)
		export GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date
		git -c user.name=proxy -c user.email=proxy@localhost commit -qam "Require $version"
	)
fi
mkdir -p "dist/goproxy/$root"
for folder in '' $folders; do
	tag=${folder:+$folder/}$version
	git -C "$work/git" tag -f "$tag" HEAD >/dev/null
	echo "$tag"
done >dist/TAGS

# The go command makes the archives, from the tags and nothing else of this machine.
export GOMODCACHE=$work/mod GOPROXY=direct GOSUMDB=off GOFLAGS=-modcacherw GOWORK=off
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$work/git.insteadOf GIT_CONFIG_VALUE_0=https://$root
modules=$(sed "s,/*$version\$,,; s,^,$root/,; s,/\$,," dist/TAGS)
(cd "$work" && go mod download -json ${modules//$'\n'/@$version }@"$version" >sums)
cp -r "$work/mod/cache/download/$root/." "dist/goproxy/$root"
find dist/goproxy \( -name '*.lock' -o -name '*.ziphash' -o -name '*.partial' \) -delete
for module in $modules; do (cd "dist/goproxy/$module/@v" && ls -- *.info | sed 's/\.info$//' >list); done
{
	printf '# %s\n' "$version"
	git show HEAD:CHANGELOG.md | sed '1,/^## \[Unreleased\]/d; /^## /,$d'
	printf '\n## Checksums\n\nThe lines of `go.sum`:\n\n```\n'
	sed -n 's/^\t"Path": "\(.*\)",/\1/p; s/^\t"Version": "\(.*\)",/\1/p; s/^\t"Sum": "\(.*\)",/\1/p; s/^\t"GoModSum": "\(.*\)",*/\1/p' "$work/sums" |
		paste -d' ' - - - - | sed -E 's,^(\S+) (\S+) (\S+) (\S+)$,\1 \2 \3\n\1 \2/go.mod \4,'
	printf '```\n'
} >dist/NOTES.md
echo "go get $root@$version"
