package lendingtest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
)

// fieldsPage writes the fields of all responses of a journey to docs/fields.md, by the method of the client.
func fieldsPage(t *testing.T, r *rig) {
	t.Helper()
	kinds, methods := map[string]map[string]string{}, map[string]string{} // by route
	for _, request := range r.Requests() {
		var body any
		if request.Status != 200 || json.Unmarshal(request.Answer, &body) != nil {
			continue
		}
		if kinds[request.Route] == nil {
			kinds[request.Route] = map[string]string{}
		}
		addKinds(kinds[request.Route], "", body)
	}
	routes, err := os.ReadFile("../testdata/routes.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(routes)) {
		column := strings.Split(line, "\t")
		methods[column[0]] = column[1] + " " + column[2]
	}
	head, err := os.ReadFile("testdata/fields.head.md")
	require.NoError(t, err)
	text := strings.Builder{}
	text.Write(head)
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		var fields []string
		for _, path := range slices.Sorted(maps.Keys(kinds[methods[method]])) {
			fields = append(fields, fmt.Sprintf("%#q %s", path, kinds[methods[method]][path]))
		}
		if fields != nil {
			fmt.Fprintf(&text, "| `%s` | %s |\n", method, strings.Join(fields, ", "))
		}
	}
	golden.Check(t, "../docs/fields.md", text.String())
}

// addKinds adds the kinds of the members of value, by path. Any other kind takes the place of null.
func addKinds(kinds map[string]string, path string, value any) {
	kind := ""
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			addKinds(kinds, strings.TrimPrefix(path+"."+name, "."), member)
		}
		kind = "object"
	case []any:
		for _, element := range v {
			addKinds(kinds, path+"[]", element)
		}
		kind = "list"
	case string:
		kind = "string"
	case float64:
		kind = "number"
	case bool:
		kind = "boolean"
	case nil:
		kind = "null"
	}
	path = strings.TrimPrefix(path, "[].")
	isName := path != "" && path != "[]" && (kind != "object" || !strings.HasSuffix(path, "[]"))
	if isName && (kinds[path] == "" || kinds[path] == "null") {
		kinds[path] = kind
	}
}
