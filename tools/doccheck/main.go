// Doccheck fails in two cases: an exported constant or variable has no comment of its own, even
// if its group has a comment; or a bracketed name in a doc comment, which go doc turns into a
// link, does not exist. The linters revive and godoclint check the other rules for comments.
package main

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	syntax := packages.NeedName | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax
	pkgs, err := packages.Load(&packages.Config{Mode: syntax}, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "doccheck:", err)
		os.Exit(1)
	}
	failed := packages.PrintErrors(pkgs) > 0
	for _, pkg := range pkgs {
		c := checker{Package: pkg}
		for _, file := range pkg.Syntax {
			c.file(file)
		}
		failed = failed || c.failed
	}
	if failed {
		os.Exit(1)
	}
}

type checker struct {
	*packages.Package
	failed bool
}

func (c *checker) report(node ast.Node, problem string) {
	c.failed = true
	at := c.Fset.Position(node.Pos())
	if here, err := os.Getwd(); err == nil {
		at.Filename, _ = filepath.Rel(here, at.Filename)
	}
	fmt.Printf("%v: %s\n", at, problem)
}

// file checks the declarations of a file. The comment of an exported name may link to exported
// names only.
func (c *checker) file(file *ast.File) {
	c.links(file.Doc, true)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			exported := decl.Name.IsExported()
			if decl.Recv != nil {
				receiver := types.ExprString(decl.Recv.List[0].Type)
				exported = exported && token.IsExported(strings.TrimPrefix(receiver, "*"))
			}
			c.links(decl.Doc, exported)
		case *ast.GenDecl:
			exported := false
			for _, spec := range decl.Specs {
				exported = c.spec(decl, spec) || exported
			}
			c.links(decl.Doc, exported)
		}
	}
}

// spec checks a line of a declaration and reports whether the line declares an exported name.
func (c *checker) spec(decl *ast.GenDecl, spec ast.Spec) (exported bool) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		exported = spec.Name.IsExported()
		c.links(spec.Doc, exported)
		ast.Inspect(spec.Type, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok {
				visible := exported && slices.ContainsFunc(field.Names, (*ast.Ident).IsExported)
				c.links(field.Doc, visible)
				c.links(field.Comment, visible)
			}
			return true
		})
	case *ast.ValueSpec:
		exported = slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported)
		c.links(spec.Doc, exported)
		c.links(spec.Comment, exported)
		own := spec.Doc.Text() + spec.Comment.Text()
		if !decl.Lparen.IsValid() {
			own += decl.Doc.Text()
		}
		if exported && own == "" {
			c.report(spec, spec.Names[0].Name+" has no comment of its own")
		}
	}
	return exported
}

// links reports the dead links of a comment. The parser treats every bracketed name as an
// existing name, and so finds all intended links. The parser finds none in code blocks.
func (c *checker) links(doc *ast.CommentGroup, exported bool) {
	parser := comment.Parser{
		LookupPackage: func(name string) (string, bool) { return name, true },
		LookupSym:     func(string, string) bool { return true },
	}
	for _, text := range docLinks(parser.Parse(doc.Text()).Content) {
		if !c.dead(strings.TrimPrefix(text, "*"), exported) {
			continue
		}
		line := slices.IndexFunc(doc.List, func(line *ast.Comment) bool {
			return strings.Contains(line.Text, "["+text+"]")
		})
		c.report(doc.List[max(line, 0)], "["+text+"] names nothing")
	}
}

// docLinks returns the texts of the links of a parsed comment.
func docLinks(blocks []comment.Block) (links []string) {
	for _, block := range blocks {
		var texts []comment.Text
		switch block := block.(type) {
		case *comment.Paragraph:
			texts = block.Text
		case *comment.Heading:
			texts = block.Text
		case *comment.List:
			for _, item := range block.Items {
				links = append(links, docLinks(item.Content)...)
			}
		}
		for _, text := range texts {
			if link, ok := text.(*comment.DocLink); ok {
				plain, _ := link.Text[0].(comment.Plain)
				links = append(links, string(plain))
			}
		}
	}
	return links
}

// dead reports whether a text is a name that does not exist. A name is one or more identifiers
// joined by dots, with an optional path. A single lower-case word is prose.
func (c *checker) dead(text string, exported bool) bool {
	dir, base := filepath.Split(text)
	names := strings.Split(base, ".")
	if slices.ContainsFunc(names, func(name string) bool { return !token.IsIdentifier(name) }) ||
		dir == "" && len(names) == 1 && !token.IsExported(base) {
		return false
	}
	if dir == "" && c.Types.Scope().Lookup(names[0]) != nil {
		return !declares(c.Types, names, exported)
	}
	pkg := c.find(dir + names[0])
	return pkg == nil || len(names) > 1 && !declares(pkg, names[1:], true)
}

// find returns the package with this name among the imports, or else with this path.
func (c *checker) find(name string) *types.Package {
	for _, pkg := range append([]*types.Package{c.Types}, c.Types.Imports()...) {
		if pkg.Name() == name || pkg.Path() == name {
			return pkg
		}
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes}, name)
	if err != nil || len(pkgs) != 1 || len(pkgs[0].Errors) > 0 {
		return nil
	}
	return pkgs[0].Types
}

// declares reports whether the package declares the name and, if there is a second name, whether
// the type has this field or method. Promoted fields and methods do not count, because the
// embedded type documents them.
func declares(pkg *types.Package, names []string, exported bool) bool {
	object := pkg.Scope().Lookup(names[0])
	if object == nil || exported && !object.Exported() {
		return false
	}
	if len(names) == 1 {
		return true
	}
	member, path, _ := types.LookupFieldOrMethod(object.Type(), true, pkg, names[1])
	return len(names) == 2 && len(path) == 1 && (!exported || member.Exported())
}
