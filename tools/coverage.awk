# Reads the floors, then a coverage profile made with -coverpkg, and fails below a floor. A block
# is counted once however many test binaries report it.
FNR == NR { if ($0 !~ /^#/ && NF == 2) floor[$1] = $2; next }
/^mode:/  { next }
{
	split($1, at, ":"); block = $1; dir = at[1]
	sub(/\/[^\/]*$/, "", dir)
	dir = dir == module ? "." : substr(dir, length(module) + 2)
	if (!(block in statements)) { statements[block] = $2; total[dir] += $2 }
	if ($3 > 0 && !(block in hit)) { hit[block] = 1; covered[dir] += $2 }
}
END {
	failed = 0
	for (dir in total) {
		key = dir
		while (!(key in floor) && key ~ /\//) sub(/\/[^\/]*$/, "", key)
		if (!(key in floor)) key = "."
		percent = 100 * covered[dir] / total[dir]
		verdict = floor[key] == "-" || percent >= floor[key] ? "" : "  BELOW THE FLOOR"
		if (verdict != "") failed = 1
		printf "%6.1f %%  floor %3s  %s%s\n", percent, floor[key], dir, verdict | "sort -k5"
	}
	close("sort -k5")
	exit failed
}
