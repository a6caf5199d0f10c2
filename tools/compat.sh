#!/usr/bin/env bash
# Compiles what callers could have written at a git reference (tests outside the package, and the
# examples) against the code of this checkout.
set -euo pipefail

ref=$(git rev-parse --verify "$1^{commit}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/new" "$work/old"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$work/new"
git archive "$ref" | tar -x -C "$work/old"

cd "$work"
find new -name '*_test.go' -delete
rm -rf new/examples
if [ -d old/examples ]; then cp -r old/examples new/; fi
(cd old && grep -rlE --include='*_test.go' '^package [a-z]+_test$' . || true) | while read -r test; do
	mkdir -p "new/$(dirname "$test")"
	cp "old/$test" "new/$test"
done
cd new
for module in . contrib/*/; do
	(cd "$module" && go vet ./...)
done
echo "what compiled at $1 still compiles"
