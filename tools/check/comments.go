package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

var docLink = regexp.MustCompile(`(?m)(?:^|[\s(])\[\*?([\w./]+)\]`)

// comments reports the bracketed names in doc comments, which go doc turns into links, without a
// target, and the exported names in groups of constants or variables without a comment of their
// own. The linters revive and godoclint hold the other rules for comments.
func comments(patterns []string) (problems []string, err error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports |
		packages.NeedTypes | packages.NeedSyntax}, patterns...)
	if err == nil && packages.PrintErrors(loaded) > 0 {
		err = fmt.Errorf("%s does not compile", patterns)
	}
	for _, pkg := range loaded {
		report := func(node ast.Node, problem string) {
			at := pkg.Fset.Position(node.Pos())
			problems = append(problems, fmt.Sprintf("%s/%s:%d: %s", pkg.PkgPath, filepath.Base(at.Filename), at.Line, problem))
		}
		for _, file := range pkg.Syntax {
			docComments(file, func(node ast.Node, exported bool, docs ...*ast.CommentGroup) {
				spec, isValue := node.(*ast.ValueSpec)
				if isValue && exported && spec.Doc == nil && spec.Comment == nil {
					report(spec, spec.Names[0].Name+" has no comment of its own")
				}
				for _, doc := range docs {
					for _, m := range docLink.FindAllStringSubmatch(indented.ReplaceAllString(doc.Text(), ""), -1) {
						if !exists(pkg.Types, m[1], exported) {
							report(doc, "["+m[1]+"] names nothing")
						}
					}
				}
			})
		}
	}
	return problems, err
}

// docComments calls visit for each declaration with a doc comment, and for each name in a group.
func docComments(file *ast.File, visit func(node ast.Node, exported bool, docs ...*ast.CommentGroup)) {
	anyExported := func(names []*ast.Ident) bool { return slices.ContainsFunc(names, (*ast.Ident).IsExported) }
	visit(file, true, file.Doc)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			exported := decl.Name.IsExported()
			if decl.Recv != nil {
				exported = exported && token.IsExported(strings.TrimPrefix(types.ExprString(decl.Recv.List[0].Type), "*"))
			}
			visit(decl, exported, decl.Doc)
		case *ast.GenDecl:
			exported, group := false, false
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					exported = spec.Name.IsExported()
					visit(spec, exported, spec.Doc, spec.Comment)
					ast.Inspect(spec, func(n ast.Node) bool {
						if field, ok := n.(*ast.Field); ok {
							visit(field, spec.Name.IsExported() && anyExported(field.Names), field.Doc, field.Comment)
						}
						return true
					})
				case *ast.ValueSpec:
					exported = anyExported(spec.Names)
					if decl.Lparen.IsValid() {
						visit(spec, exported, spec.Doc, spec.Comment)
					} else {
						visit(decl, exported, spec.Comment)
					}
				}
				group = group || exported
			}
			visit(decl, group, decl.Doc)
		}
	}
}

// exists reports whether the target of a link is declared, and is exported if the link is in the
// comment of an exported name. Promoted fields and methods do not count: the embedded type
// documents them, unless it is not exported. A single word in lower case is prose.
func exists(pkg *types.Package, link string, exported bool) bool {
	dir, base := path.Split(link)
	names := strings.Split(base, ".")
	if len(names) == 1 && dir == "" && !token.IsExported(link) {
		return true
	}
	if dir != "" || pkg.Scope().Lookup(names[0]) == nil {
		if pkg = find(pkg, dir+names[0]); pkg == nil || len(names) == 1 {
			return pkg != nil
		}
		names, exported = names[1:], true
	}
	object := pkg.Scope().Lookup(names[0])
	if object == nil || exported && !object.Exported() {
		return false
	}
	_, index, _ := types.LookupFieldOrMethod(object.Type(), true, pkg, names[len(names)-1])
	return len(names) == 1 || len(index) > 0 && hidden(object.Type(), index[:len(index)-1])
}

// hidden reports whether no embedded field on the way is exported, so that go doc shows its methods with the type.
func hidden(t types.Type, index []int) bool {
	for _, i := range index {
		if pointer, ok := t.Underlying().(*types.Pointer); ok {
			t = pointer.Elem()
		}
		field := t.Underlying().(*types.Struct).Field(i)
		if field.Exported() {
			return false
		}
		t = field.Type()
	}
	return true
}

// find returns the package with this name among the imports, or else with this path.
func find(here *types.Package, name string) *types.Package {
	for _, pkg := range slices.Concat(here.Imports(), []*types.Package{here}) {
		if pkg.Name() == name || pkg.Path() == name {
			return pkg
		}
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes}, name)
	if err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		return nil
	}
	return loaded[0].Types
}
