package guarantees_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/catalog"
)

// TestRoutesAreDocumented compares docs/routes.md with the routes, the OpenAPI description, the comments and
// the Examples.
func TestRoutesAreDocumented(t *testing.T) {
	const path = "../docs/routes.md"
	routes := catalog.Routes(t)
	retries, comments, examples := retriesOf(t), commentsOfMethods(t), examplesOfMethods(t)
	text, group := strings.Builder{}, ""
	head, err := os.ReadFile("testdata/routes.head.md")
	require.NoError(t, err)
	text.Write(head)
	for _, name := range slices.Sorted(maps.Keys(routes)) {
		r := routes[name]
		service, method, _ := strings.Cut(name, ".")
		if service != group {
			group = service
			fmt.Fprintf(&text, "\n## %s\n\n| method | purpose | route | effect | again? | read that tells | Example |\n"+
				"|---|---|---|---|---|---|---|\n", service)
		}
		effect, tells := "mutation", ""
		if r.Reads {
			effect = "read"
		} else {
			tells = catalog.CheckWith(t, name)
		}
		require.NotEmpty(t, comments[name], name)
		fmt.Fprintf(&text, "| `%s` | %s | `%s %s` | %s | %s | %s | %s |\n", method, comments[name], r.Method, r.Path, effect,
			retries[r.Path], cmp.Or(tells, "-"), cmp.Or(examples[name], "-"))
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, text.String(), string(written),
		"to write it anew: go test ./guarantees -run RoutesAreDocumented -update")
}

// retriesOf returns x-retry of the OpenAPI description by path.
func retriesOf(t *testing.T) map[string]string {
	t.Helper()
	description, err := os.ReadFile("../lendingtest/openapi.yaml")
	require.NoError(t, err)
	found := map[string]string{}
	retry := regexp.MustCompile(`(?ms)^  (/\S+):\n.*?\n      x-retry: (.+?)$`)
	for _, match := range retry.FindAllStringSubmatch(string(description), -1) {
		found[match[1]] = match[2]
	}
	return found
}

// rootFiles parses the files of the root package, of the code or of the tests.
func rootFiles(t *testing.T, tests bool) map[string]*ast.File {
	t.Helper()
	entries, err := os.ReadDir("..")
	require.NoError(t, err)
	fset, files := token.NewFileSet(), map[string]*ast.File{}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && strings.HasSuffix(name, "_test.go") == tests {
			files[name], err = parser.ParseFile(fset, "../"+name, nil, parser.ParseComments)
			require.NoError(t, err)
		}
	}
	return files
}

// commentsOfMethods returns the first sentence of each method of a service, without its name.
func commentsOfMethods(t *testing.T) map[string]string {
	t.Helper()
	files := rootFiles(t, false)
	link, found := regexp.MustCompile(`\[\*?([\w.]+)\]`), map[string]string{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Doc == nil {
				continue
			}
			if pointer, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
				service, isService := strings.CutSuffix(fmt.Sprint(pointer.X), "Service")
				sentence := strings.TrimPrefix(new(doc.Package).Synopsis(f.Doc.Text()), f.Name.Name+" ")
				if isService {
					found[service+"."+f.Name.Name] = link.ReplaceAllString(sentence, "$1")
				}
			}
		}
	}
	return found
}

// examplesOfMethods returns for each method of a service the name of the first Example that calls the method.
func examplesOfMethods(t *testing.T) map[string]string {
	t.Helper()
	files := rootFiles(t, true)
	found := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, declaration := range files[name].Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok {
					if service, ok := call.X.(*ast.SelectorExpr); ok {
						method := service.Sel.Name + "." + call.Sel.Name
						found[method] = cmp.Or(found[method], fmt.Sprintf("[%s](../%s)", f.Name.Name, name))
					}
				}
				return true
			})
		}
	}
	return found
}
