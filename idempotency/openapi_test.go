package idempotency

import (
	"cmp"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
)

var describedRoute = regexp.MustCompile("(?m)^  (/\\S+):\n    (get|post):\n.*\n" +
	"      operationId: (.+)\n((?:      x-.*\n)*)")

// TestDescriptionNamesRepeatableRoutes compares the extensions of lendingtest/openapi.yaml with testdata/routes.tsv,
// the table of checks, the reads that an error names, and the types of package lending.
func TestDescriptionNamesRepeatableRoutes(t *testing.T) {
	const path = "../lendingtest/openapi.yaml"
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	routes, operations := map[string]catalog.Route{}, map[string]string{}
	for _, r := range catalog.Routes(t) {
		routes[r.Method+" "+r.Path] = r
	}
	found := describedRoute.FindAllStringSubmatch(string(written), -1)
	require.Len(t, found, len(routes))
	for _, match := range found {
		r, ok := routes[strings.ToUpper(match[2])+" "+match[1]]
		require.True(t, ok, match[1])
		operations[r.Name] = match[3]
	}
	text := describedRoute.ReplaceAllStringFunc(string(written), func(part string) string {
		match := describedRoute.FindStringSubmatch(part)
		want := extensions(t, routes[strings.ToUpper(match[2])+" "+match[1]], operations)
		if !*update {
			assert.Equal(t, want, match[4], "to write it anew: go test ./idempotency -run DescriptionNames -update")
		}
		return strings.TrimSuffix(part, match[4]) + want
	})
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// extensions returns the lines of a route. operations has the names in the description by method of package lending.
func extensions(t *testing.T, r catalog.Route, operations map[string]string) string {
	t.Helper()
	effect, retry, row := "mutation", "person", rowOf(r.Method+" "+r.Path)
	_, condition, conditional := strings.Cut(r.Notes, "mutation when ")
	switch {
	case conditional:
		effect, retry = "mutation when "+condition, "safe unless "+condition
	case r.Reads:
		effect, retry = "read", "safe"
	case strings.HasPrefix(r.Name, "Auth."):
		retry = "sign-in"
	case row.setsValue:
		retry = "safe"
	case row.reads != noReads:
		retry = "check"
	}
	lines := "      x-effect: " + effect + "\n      x-retry: " + retry + "\n"
	var reads []string
	if !r.Reads {
		for name := range strings.FieldsFuncSeq(catalog.CheckWith(t, r.Name), func(c rune) bool { return c == ',' }) {
			reads = append(reads, operations[strings.TrimSpace(name)])
		}
	}
	if len(reads) > 0 {
		require.NotContains(t, reads, "")
		lines += "      x-check-with: [" + strings.Join(reads, ", ") + "]\n"
	}
	if secret := secretsOf(t, r); len(secret) > 0 {
		lines += "      x-secret: [" + strings.Join(secret, ", ") + "]\n"
	}
	return lines
}

// secretsOf returns the parameters and fields of type Secret in package lending.
func secretsOf(t *testing.T, r catalog.Route) (names []string) {
	t.Helper()
	service, method, _ := strings.Cut(r.Name, ".")
	field, _ := reflect.TypeFor[lending.Client]().FieldByName(service)
	call, ok := field.Type.MethodByName(method)
	require.True(t, ok, r.Name)
	part := "body"
	if r.Method == http.MethodGet {
		part = "query"
	}
	for in := range call.Type.Ins() {
		names = secretsIn(names, in, part)
	}
	return slices.Compact(secretsIn(names, call.Type.Out(0), "response"))
}

func secretsIn(names []string, in reflect.Type, at string) []string {
	switch {
	case in == reflect.TypeFor[lending.Secret]():
		return append(names, at)
	case in.Kind() == reflect.Slice, in.Kind() == reflect.Pointer:
		return secretsIn(names, in.Elem(), at)
	case in.Kind() == reflect.Struct:
		for f := range in.Fields() {
			if f.IsExported() && !f.Anonymous {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				names = secretsIn(names, f.Type, at+"."+cmp.Or(name, strings.ToLower(f.Name)))
			}
		}
	}
	return names
}
