package guarantees_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

var update = flag.Bool("update", false, "write the golden file testdata/wire.http anew")

// repository is the tree of the tests.
var repository = os.DirFS("..")

// methods returns the methods of the client's services.
func methods() []string {
	var names []string
	for field := range reflect.TypeFor[lending.Client]().Fields() {
		if !field.IsExported() {
			continue
		}
		for method := range field.Type.Methods() {
			names = append(names, field.Name+"."+method.Name)
		}
	}
	return names
}

// Every route has a method, and every method a route. The comment of a method without a route of
// its own links to the methods it calls.
func TestEveryRouteHasAMethod(t *testing.T) {
	routes, docs := catalog.Routes(t), methodDocs(t)
	assert.Len(t, routes, 69)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(routes)), slices.Collect(maps.Keys(catalog.Calls)),
		"the calls of the tests")
	found := methods()
	for name := range routes {
		assert.Contains(t, found, name)
	}
	for _, name := range found {
		comment := docs[name]
		r, ok := routes[name]
		if !ok {
			assert.NotContains(t, comment, "Route:", "%s is not in the ledger", name)
			service, _, _ := strings.Cut(name, ".")
			assert.Contains(t, comment, "["+service+"Service.",
				"%s is not in the ledger and links to no method that is", name)
			continue
		}
		paragraphs := strings.Split(strings.TrimSpace(comment), "\n\n")
		assert.Equal(t, "Route: "+r.Method+" "+r.Path, paragraphs[len(paragraphs)-1], name)
		deprecated := slices.ContainsFunc(paragraphs,
			func(p string) bool { return strings.HasPrefix(p, "Deprecated: ") })
		assert.Equal(t, strings.Contains(r.Notes, "deprecated"), deprecated, "%s is deprecated", name)
		assert.Equal(t, r.Method == http.MethodGet && !r.Reads, strings.Contains(comment, "GET changes state"),
			"%s is a GET that changes state", name)
	}
}

// methodDocs returns the doc comments of the methods of the services.
func methodDocs(t *testing.T) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	names, err := fs.Glob(repository, "*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, "../"+name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	documentation, err := doc.NewFromFiles(set, files, "github.com/lendingapi/lending-go")
	require.NoError(t, err)
	docs := map[string]string{}
	for _, declared := range documentation.Types {
		service, ok := strings.CutSuffix(declared.Name, "Service")
		if !ok {
			continue
		}
		docs[service] = declared.Doc
		for _, method := range declared.Methods {
			docs[service+"."+method.Name] = method.Doc
		}
	}
	return docs
}

// recorded is a request as the service received it.
type recorded struct {
	*http.Request
	query  map[string]string
	body   []byte
	effect lending.Effect // as the client saw it
}

// String returns the request as testdata/wire.http holds it.
func (r recorded) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Method, r.URL.EscapedPath())
	if r.URL.RawQuery != "" {
		b.WriteString("?" + r.URL.RawQuery)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if name != "User-Agent" {
			fmt.Fprintf(&b, "\n%s: %s", name, strings.Join(r.Header[name], ", "))
		}
	}
	return strings.TrimRight(b.String()+"\n\n"+string(r.body), "\n")
}

// record returns the only request of a call at a service that refuses the request.
func record(t *testing.T, call catalog.Call) recorded {
	t.Helper()
	var arrived []recorded
	var effect lending.Effect
	client := wire.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		assert.NoError(t, err)
		single := map[string]string{}
		for name, values := range query {
			assert.Len(t, values, 1, name)
			single[name] = values[0]
		}
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		arrived = append(arrived, recorded{Request: r, query: single, body: body})
		wire.Answer(http.StatusBadRequest, `{"title":"refused"}`)(w, r)
	}, wire.Attempts(func(_ context.Context, a lending.Call) { effect = a.Effect }))
	_, err := call(t.Context(), client)
	require.Len(t, arrived, 1, "arrivals: %v", err)
	var failed *lending.Error
	require.ErrorAs(t, err, &failed)
	arrived[0].effect = effect
	return arrived[0]
}

// TestRoutesOnTheWire compares each request with testdata/routes.tsv, and byte by byte with
// testdata/wire.http. go test ./guarantees -run TestRoutesOnTheWire -update writes that file.
func TestRoutesOnTheWire(t *testing.T) {
	routes, want, got := catalog.Routes(t), sections(t, "../testdata/wire.http"), map[string]string{}
	for _, table := range []map[string]catalog.Call{catalog.Calls, catalog.Variants} {
		for name, call := range table {
			t.Run(name, func(t *testing.T) {
				method, variant, _ := strings.Cut(name, " ")
				request := record(t, call)
				conform(t, routes[method], request, variant == "")
				got[name] = request.String()
				if !*update {
					assert.Equal(t, want[name], got[name])
				}
			})
		}
	}
	if *update {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(got)) {
			b.WriteString("### " + name + "\n" + got[name] + "\n\n")
		}
		require.NoError(t, os.WriteFile("../testdata/wire.http", []byte(strings.TrimSpace(b.String())+"\n"), 0o600))
		return
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)),
		"sections of testdata/wire.http")
}

// sections reads a file of sections, each below a line "### name".
func sections(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if !*update {
		require.NoError(t, err)
	}
	parts := map[string]string{}
	for section := range strings.SplitSeq("\n"+string(text), "\n### ") {
		if name, rest, ok := strings.Cut(section, "\n"); ok && name != "" {
			parts[name] = strings.TrimRight(rest, "\n")
		}
	}
	return parts
}

var kinds = map[string]*regexp.Regexp{
	"uuid":      regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
	"string":    regexp.MustCompile(`.`),
	"int":       regexp.MustCompile(`^[0-9]+$`),
	"int32":     regexp.MustCompile(`^[0-9]+$`),
	"bool":      regexp.MustCompile(`^(true|false)$`),
	"date-time": regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`),
}

// conform compares a request with testdata/routes.tsv: the request has no unknown parameter and, if
// it is complete, every known parameter.
func conform(t *testing.T, r catalog.Route, request recorded, complete bool) {
	t.Helper()
	force := request.query["force"] == "true" // of which nothing is known
	assert.Equal(t, r.Reads && !force, request.effect == lending.Read, "it is sent as a %s", request.effect)

	mux := http.NewServeMux()
	mux.HandleFunc(r.Method+" "+r.Path, func(_ http.ResponseWriter, matched *http.Request) {
		for _, p := range r.PathParams {
			assert.Regexp(t, kinds[p.Kind], matched.PathValue(p.Name), p.Name)
		}
	})
	_, pattern := mux.Handler(request.Request)
	require.Equal(t, r.Method+" "+r.Path, pattern)
	mux.ServeHTTP(nil, request.Request)

	left := maps.Clone(request.query)
	for _, p := range r.Query {
		value, sent := request.query[p.Name]
		delete(left, p.Name)
		isTarget := p.Name == "partnerId" || p.Name == "customerId"
		switch {
		case sent:
			assert.Regexp(t, kinds[p.Kind], value, p.Name)
		case !isTarget && r.Name != "Applications.Offer": // whose force is another call
			assert.False(t, complete || p.Required, "%s is missing", p.Name)
		}
	}
	assert.Empty(t, left, "parameters that the ledger does not know")
	if r.Target {
		assert.NotEqual(t, request.query["partnerId"] == "", request.query["customerId"] == "", "exactly one target")
	}

	assert.Regexp(t, `^lending-go/(devel|v\d)`, request.Header.Get("User-Agent"))
	want := http.Header{
		"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": request.Header["User-Agent"],
	}
	if !r.Anonymous {
		want.Set("Authorization", "Bearer test-token")
	}
	if r.Method == http.MethodPost {
		want.Set("Content-Length", strconv.Itoa(len(request.body)))
	}
	switch {
	case r.Body == "-":
		assert.Empty(t, request.body)
	case complete || string(request.body) != "null":
		want.Set("Content-Type", "application/json")
		assert.True(t, json.Valid(request.body))
		assert.Equal(t, beginning(r.Body), string(request.body[:1]))
	default:
		assert.Contains(t, r.Body, "?", "the body is optional")
		want.Set("Content-Type", "application/json")
	}
	assert.Equal(t, want, request.Header)
}

// beginning is how the JSON of a record begins.
func beginning(record string) string {
	switch {
	case strings.HasPrefix(record, "[]"):
		return "["
	case strings.HasPrefix(record, "base64"):
		return `"`
	}
	return "{"
}
