package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

// place is a piece of code. The rewritten module changes the piece if the environment variable MUTANT has its number.
type place struct {
	number   int
	pkg, dir string
	file     string // within the module
	line     int
	change   string
}

func (p place) String() string { return fmt.Sprintf("%s:%d: %s", p.file, p.line, p.change) }

// harnesses are packages of test code, and programs to learn from. They have no places.
var harnesses = regexp.MustCompile(`(^|/)(internal/test|lendingtest/storetest|examples)(/|$)`)

// chosen is a file in each rewritten package. Tests that list the imports of a package allow these.
const chosen = `package %s

import (
	"os"
	"strconv"
)

var mutant__, _ = strconv.Atoi(os.Getenv("MUTANT"))
`

// rewrite puts each place of the module in dir behind its number. Without a number, the module does what it did.
func rewrite(dir string) (places []place, err error) {
	loaded, err := packages.Load(&packages.Config{Dir: dir, Mode: packages.NeedName | packages.NeedFiles |
		packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo}, "./...")
	if err == nil && packages.PrintErrors(loaded) > 0 {
		err = fmt.Errorf("%s does not compile", dir)
	}
	if err != nil {
		return nil, err
	}
	for _, pkg := range loaded {
		if harnesses.MatchString(pkg.PkgPath) {
			continue
		}
		added := filepath.Join(pkg.Dir, "zz_mutant.go")
		if err := os.WriteFile(added, fmt.Appendf(nil, chosen, pkg.Name), 0o600); err != nil {
			return nil, err
		}
		for _, file := range pkg.Syntax {
			name := pkg.Fset.File(file.Pos()).Name()
			source, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			r := rewriter{info: pkg.TypesInfo, fset: pkg.Fset, source: string(source), first: len(places) + 1}
			astutil.Apply(file, nil, r.visit)
			for _, p := range r.places {
				p.pkg, p.dir = pkg.PkgPath, pkg.Dir
				p.file, _ = filepath.Rel(dir, name)
				places = append(places, p)
			}
			if err := os.WriteFile(name, []byte(r.text(file.FileStart, file.FileEnd)), 0o600); err != nil {
				return nil, err
			}
		}
	}
	return places, nil
}

// rewriter changes the text, to keep comments and lines in place. The places within a piece of code are rewritten before
// the piece.
type rewriter struct {
	info   *types.Info
	fset   *token.FileSet
	source string
	first  int
	places []place
	edits  []edit // in order, and apart
}

type edit struct {
	from, to int
	text     string
}

// others has the replacement of each operator.
var others = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// visit evaluates no operand twice: x && y becomes x || y by negation of x, y and the result.
func (r *rewriter) visit(c *astutil.Cursor) bool {
	switch n := c.Node().(type) {
	case *ast.BinaryExpr:
		other, ok := others[n.Op]
		isLogic := n.Op == token.LAND || n.Op == token.LOR
		if !ok || r.info.Types[n].Value != nil || isLogic && !isBool(r.info.TypeOf(n)) {
			break
		}
		x, y := r.text(n.X.Pos(), n.X.End()), r.text(n.Y.Pos(), n.Y.End())
		operator := r.text(n.X.End(), n.Y.Pos()) // with line breaks and comments
		m := r.add(n.OpPos, n, other.String()+" for "+n.Op.String())
		switch n.Op {
		case token.EQL, token.NEQ:
			r.replace(n, "((%s) != (mutant__ == %d))", x+operator+y, m)
		case token.LAND, token.LOR:
			r.replace(n, "((((%s) != (mutant__ == %d)) %s ((%s) != (mutant__ == %d))) != (mutant__ == %d))",
				x, m, operator, y, m, m)
		default:
			r.replace(n, "(mutant__ != %d && %s %s %s || mutant__ == %d && %s %s %s)", m, x, n.Op, y, m, x, other, y)
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT && r.info.Types[n].Value == nil && isBool(r.info.TypeOf(n)) {
			m := r.add(n.Pos(), n, "no !")
			r.replace(n, "((%s) != (mutant__ == %d))", r.text(n.Pos(), n.End()), m)
		}
	case ast.Stmt:
		if inList := c.Index() >= 0; inList && r.canBeLeftOut(n) {
			m := r.add(n.Pos(), n, "left out")
			r.replace(n, "if mutant__ != %d { %s }", m, r.text(n.Pos(), n.End()))
		}
	}
	return true
}

func isBool(t types.Type) bool {
	return t == types.Typ[types.Bool] || t == types.Typ[types.UntypedBool]
}

// canBeLeftOut reports whether a function always compiles without the statement: neither a declaration, nor the end of
// a function, nor a block. An assignment to blank names alone, without a call, does nothing.
func (r *rewriter) canBeLeftOut(n ast.Stmt) bool {
	switch n := n.(type) {
	case *ast.ExprStmt:
		call, ok := n.X.(*ast.CallExpr)
		if !ok {
			return true
		}
		builtin, ok := call.Fun.(*ast.Ident)
		return !ok || r.info.Uses[builtin] != types.Universe.Lookup("panic")
	case *ast.AssignStmt:
		named := func(e ast.Expr) bool { return types.ExprString(e) != "_" }
		called := slices.ContainsFunc(n.Rhs, func(e ast.Expr) bool { return strings.Contains(types.ExprString(e), "(") })
		return n.Tok != token.DEFINE && (called || slices.ContainsFunc(n.Lhs, named))
	case *ast.BranchStmt:
		return n.Tok == token.BREAK || n.Tok == token.CONTINUE
	case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
		return true
	}
	return false
}

func (r *rewriter) add(pos token.Pos, n ast.Node, change string) (number int) {
	code := strings.Join(strings.Fields(r.source[r.offset(n.Pos()):r.offset(n.End())]), " ")
	if len(code) > 70 {
		code = code[:70] + " ..."
	}
	number = r.first + len(r.places)
	r.places = append(r.places, place{number: number, line: r.fset.Position(pos).Line, change: change + ": " + code})
	return number
}

func (r *rewriter) offset(pos token.Pos) int { return r.fset.Position(pos).Offset }

// text returns the code between two positions with its edits.
func (r *rewriter) text(from, to token.Pos) string {
	var b strings.Builder
	at := r.offset(from)
	for _, e := range r.within(from, to) {
		b.WriteString(r.source[at:e.from] + e.text)
		at = e.to
	}
	return b.String() + r.source[at:r.offset(to)]
}

// replace makes one edit of all edits within n.
func (r *rewriter) replace(n ast.Node, format string, args ...any) {
	e := edit{r.offset(n.Pos()), r.offset(n.End()), fmt.Sprintf(format, args...)}
	i, _ := slices.BinarySearchFunc(r.edits, e.from, func(e edit, at int) int { return e.from - at })
	r.edits = slices.Replace(r.edits, i, i+len(r.within(n.Pos(), n.End())), e)
}

func (r *rewriter) within(from, to token.Pos) []edit {
	compare := func(e edit, at int) int { return e.from - at }
	i, _ := slices.BinarySearchFunc(r.edits, r.offset(from), compare)
	j, _ := slices.BinarySearchFunc(r.edits, r.offset(to), compare)
	return r.edits[i:j]
}
