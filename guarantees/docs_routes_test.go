package guarantees_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"maps"
	"os"
	"path"
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
	const page = "../docs/routes.md"
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
		require.NoError(t, os.WriteFile(page, []byte(text.String()), 0o600))
	}
	written, err := os.ReadFile(page)
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

// commentsOfMethods returns the first sentence of each method of a service, without its name.
func commentsOfMethods(t *testing.T) map[string]string {
	t.Helper()
	link, found := regexp.MustCompile(`\[\*?([\w.]+)\]`), methodDocs(t)
	for name, comment := range found {
		_, method, _ := strings.Cut(name, ".")
		sentence := strings.TrimPrefix(new(doc.Package).Synopsis(comment), method+" ")
		found[name] = link.ReplaceAllString(sentence, "$1")
	}
	return found
}

// examplesOfMethods returns for each method of a service the name of the first Example that calls the method.
func examplesOfMethods(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	eachFile(t, func(name, text string) {
		if path.Dir(name) != "." || !strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, declaration := range parsed(t, name, text).Decls {
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
	})
	return found
}
