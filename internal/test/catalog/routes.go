package catalog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Route is a row of testdata/routes.tsv.
type Route struct {
	Name, Method, Path       string
	PathParams, Query        []Parameter
	Body, Answer             string // record names; "-" if empty
	Anonymous, Reads, Target bool   // Target: the route takes exactly one of partnerId and customerId
	Notes                    string
}

// Parameter is a parameter of a route. The table writes "name:type", "name!:type" if the
// parameter is required, or "name:type=default".
type Parameter struct {
	Name, Kind string
	Required   bool
}

func parameters(column string) []Parameter {
	var list []Parameter
	for text := range strings.SplitSeq(column, ",") {
		if name, kind, ok := strings.Cut(text, ":"); ok {
			kind, _, _ = strings.Cut(kind, "=")
			trimmed := strings.TrimSuffix(name, "!")
			list = append(list, Parameter{trimmed, kind, trimmed != name})
		}
	}
	return list
}

// Routes reads testdata/routes.tsv and returns the routes by Go method.
func Routes(t *testing.T) map[string]Route {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "testdata", "routes.tsv"))
	require.NoError(t, err)
	routes := map[string]Route{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		require.Len(t, f, 10, line)
		if f[0] == "go_method" {
			continue
		}
		require.NotContains(t, routes, f[0])
		require.Contains(t, Calls, f[0], "a route that no method calls")
		r := Route{
			Name: f[0], Method: f[1], Path: f[2], PathParams: parameters(f[3]), Query: parameters(f[4]),
			Body: f[5], Answer: f[6], Anonymous: f[7] == "anonymous", Reads: f[8] == "read", Notes: f[9],
		}
		require.Contains(t, []string{"bearer", "anonymous"}, f[7])
		require.Contains(t, []string{"read", "mutation"}, f[8])
		r.Target = slices.ContainsFunc(r.Query, func(p Parameter) bool { return p.Name == "partnerId" })
		routes[r.Name] = r
	}
	return routes
}

// Success returns a response that the method accepts.
func (r Route) Success() string {
	const id = `"11111111-2222-4333-8444-555555555555"`
	record := `{"id":` + id + `,"applicationId":` + id + `,"data":[],"totalCount":0}`
	switch {
	case r.Name == "Loans.Get": // the response must be the requested record
		record = `{"id":"` + Loan.String() + `","applicationId":` + id + `}`
	case r.Answer == "-":
		return ""
	case r.Answer == "boolean":
		return "true"
	case strings.HasPrefix(r.Answer, "string"):
		return id
	case IsBatch(r): // the calls of the tests send two records
		return "[" + record + "," + record + "]"
	case strings.HasPrefix(r.Answer, "[]"):
		return "[]"
	}
	return record
}

// IsUpload reports whether the route takes a document.
func IsUpload(r Route) bool { return strings.HasPrefix(r.Body, "base64") }

// IsBatch reports whether the route creates a list of records.
func IsBatch(r Route) bool { return strings.HasPrefix(r.Body, "[]") }

// NeedsProof reports whether a call of the route succeeds only if the body proves the success.
func NeedsProof(r Route) bool { return IsUpload(r) || r.Answer == "GuidApiResponse" }

func root(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		above := filepath.Dir(folder)
		require.NotEqual(t, folder, above, "no go.mod")
		folder = above
	}
}
