package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// uses has the names that the first file of a pair uses of the second.
type uses map[[2]string]map[string]bool

// cycles counts in each package the edges between files that lie on a cycle. An edge is a pair of files, of which the
// first uses a package-level name, a method or a field of the second. It reports the packages with more edges than their
// row in the file of ceilings allows, or the row "default", and the edges without which the number falls most.
func cycles(arguments []string) (problems []string, err error) {
	if len(arguments) < 2 {
		return nil, errors.New("cycles needs a file of ceilings, and packages")
	}
	ceilings, err := readCeilings(arguments[0])
	if err != nil {
		return nil, err
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo}, arguments[1:]...)
	if err == nil && packages.PrintErrors(loaded) > 0 {
		err = fmt.Errorf("%s does not compile", arguments[1:])
	}
	for _, pkg := range loaded {
		ceiling, ok := ceilings[pkg.PkgPath]
		if !ok {
			ceiling = ceilings["default"]
		}
		edges := usesBetweenFiles(pkg)
		if n := len(onCycles(edges)); n > ceiling {
			problems = append(problems, fmt.Sprintf("%s: %d edges on cycles of files, %d allowed", pkg.PkgPath, n, ceiling))
			problems = append(problems, worst(edges)...)
		}
	}
	return problems, err
}

// readCeilings reads lines of a package and a number; # begins a comment.
func readCeilings(file string) (map[string]int, error) {
	text, err := os.ReadFile(file)
	ceilings := map[string]int{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		n, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil || len(fields) != 2 {
			return nil, fmt.Errorf("%s: %q is no package and number", file, line)
		}
		ceilings[fields[0]] = n
	}
	return ceilings, err
}

func usesBetweenFiles(pkg *packages.Package) uses {
	edges := uses{}
	for name, object := range pkg.TypesInfo.Uses {
		field, isField := object.(*types.Var)
		isField = isField && field.IsField()
		method, isMethod := object.(*types.Func)
		isMethod = isMethod && method.Signature().Recv() != nil
		if object.Pkg() != pkg.Types || object.Parent() != pkg.Types.Scope() && !isField && !isMethod {
			continue
		}
		edge := [2]string{pkg.Fset.File(name.Pos()).Name(), pkg.Fset.File(object.Pos()).Name()}
		if edge[0] == edge[1] {
			continue
		}
		if edges[edge] == nil {
			edges[edge] = map[string]bool{}
		}
		edges[edge][object.Name()] = true
	}
	return edges
}

// onCycles returns the edges whose second file leads back to the first.
func onCycles(edges uses) (found [][2]string) {
	next := map[string][]string{}
	for edge := range edges {
		next[edge[0]] = append(next[edge[0]], edge[1])
	}
	reached := map[string]map[string]bool{}
	for from := range next {
		reached[from] = map[string]bool{}
		for todo := next[from]; len(todo) > 0; todo = todo[1:] {
			if file := todo[0]; !reached[from][file] {
				reached[from][file] = true
				todo = append(todo, next[file]...)
			}
		}
	}
	for edge := range edges {
		if reached[edge[1]][edge[0]] {
			found = append(found, edge)
		}
	}
	return found
}

// worst describes the edges whose end takes the most edges off the cycles, with the names they stand for.
func worst(edges uses) (lines []string) {
	type cut struct {
		left int
		line string
	}
	var cuts []cut
	for _, edge := range onCycles(edges) {
		rest := maps.Clone(edges)
		delete(rest, edge)
		left := len(onCycles(rest))
		cuts = append(cuts, cut{left, fmt.Sprintf("  %d without %s -> %s: %s", left, filepath.Base(edge[0]),
			filepath.Base(edge[1]), strings.Join(slices.Sorted(maps.Keys(edges[edge])), ", "))})
	}
	slices.SortFunc(cuts, func(a, b cut) int { return cmp.Or(a.left-b.left, strings.Compare(a.line, b.line)) })
	for _, cut := range cuts[:min(10, len(cuts))] {
		lines = append(lines, cut.line)
	}
	return lines
}
