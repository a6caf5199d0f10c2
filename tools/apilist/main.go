// Apilist prints the exported surface of the named packages, one sorted line for each name, field
// and method. A line that disappears is a change that can break a caller; a new line is an addition.
package main

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	lines, err := surface(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "apilist:", err)
		os.Exit(1)
	}
	slices.Sort(lines)
	fmt.Println(strings.Join(slices.Compact(lines), "\n"))
}

// surface lists the packages that match the patterns; commands and internal packages have no surface.
func surface(patterns []string) ([]string, error) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes}, patterns...)
	if err != nil {
		return nil, err
	}
	if packages.PrintErrors(pkgs) > 0 {
		return nil, errors.New("these packages do not compile")
	}
	var lines []string
	for _, pkg := range pkgs {
		if pkg.Name == "main" || strings.Contains(pkg.PkgPath+"/", "/internal/") {
			continue
		}
		for _, name := range pkg.Types.Scope().Names() {
			if object := pkg.Types.Scope().Lookup(name); object.Exported() {
				lines = append(lines, describe(object)...)
			}
		}
	}
	return lines, nil
}

// describe gives the lines of one exported name: itself, then its exported fields and methods.
func describe(object types.Object) []string {
	pkg := object.Pkg()
	prefix := "pkg " + pkg.Path() + ", "
	local := types.RelativeTo(pkg)
	name, isType := object.(*types.TypeName)
	if !isType {
		line := prefix + types.ObjectString(object, local)
		if c, ok := object.(*types.Const); ok {
			line += " = " + c.Val().ExactString()
		}
		return []string{line}
	}
	if name.IsAlias() {
		return []string{prefix + types.ObjectString(object, local)}
	}
	head := prefix + "type " + types.TypeString(object.Type(), local)
	var lines []string
	switch under := object.Type().Underlying().(type) {
	case *types.Struct:
		lines = append(lines, head+" struct")
		if types.Comparable(object.Type()) { // callers may use ==, and a field that they do not see can end that
			lines = append(lines, head+" struct, comparable")
		}
		for field := range under.Fields() {
			if field.Exported() {
				lines = append(lines, head+" struct, "+field.Name()+" "+types.TypeString(field.Type(), local))
			}
		}
	case *types.Interface:
		lines = append(lines, head+" "+types.TypeString(under, local))
	default:
		lines = append(lines, head+" "+types.TypeString(under, local))
	}
	if types.IsInterface(object.Type()) {
		return lines
	}
	for selection := range types.NewMethodSet(types.NewPointer(object.Type())).Methods() {
		if method := selection.Obj(); method.Exported() {
			lines = append(lines, prefix+types.ObjectString(method, local))
		}
	}
	return lines
}
