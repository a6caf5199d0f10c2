package guarantees_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// makers are the functions that make an error, by the place of its text among the arguments.
var makers = map[string]int{
	"New": 0, "Errorf": 0, "Text": 0, "hidden": 0, "reasonFor": 0, "failf": 1, "argumentError": 2,
}

// TestErrorTexts prints the texts of all errors of the library with -v, for a walk through them:
// does an operator who sees only this line know what to do? It holds their form: one line in lower
// case, without a period at the end.
func TestErrorTexts(t *testing.T) {
	texts := 0
	eachFile(t, func(path, source string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/test/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			text, ok := errorText(call)
			if !ok {
				return true
			}
			texts++
			t.Logf("%s: %s", path, text)
			assert.NotRegexp(t, `[.\n]$|^\s|!`, text, path)
			_, rest, _ := strings.Cut(text, ": ")
			for _, part := range []string{text, rest} {
				first, _, _ := strings.Cut(part, " ")
				letters := []rune(first)
				isWord := len(letters) > 1 && unicode.IsUpper(letters[0]) && strings.ToLower(first[1:]) == first[1:]
				isWord = isWord && !strings.ContainsAny(first, ".%(") && !isName[first]
				assert.False(t, isWord, "%s: %q begins with a capital", path, text)
			}
			return true
		})
	})
	assert.Greater(t, texts, 250)
}

// isName holds words that begin with a capital in the middle of a sentence, too.
var isName = map[string]bool{"Redis": true, "Acquire": true, "Extra": true}

// errorText returns the text of an error that a call makes from a literal.
func errorText(call *ast.CallExpr) (string, bool) {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); !ok || of.Name != "errors" && of.Name != "fmt" && of.Name != "redact" {
			return "", false
		}
		name = f.Sel.Name
	}
	place, ok := makers[name]
	if !ok || len(call.Args) <= place {
		return "", false
	}
	argument := call.Args[place]
	if sum, ok := argument.(*ast.BinaryExpr); ok { // prefix + "text"
		argument = sum.Y
	}
	literal, ok := argument.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}
