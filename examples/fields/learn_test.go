package main

import (
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const loanRoute = "GET /api/Loan/get-loan/{loanId}"

// captured writes a capture file with responses of a route.
func captured(t *testing.T, bodies ...string) (path string) {
	t.Helper()
	var lines strings.Builder
	for _, body := range bodies {
		fmt.Fprintf(&lines, `{"route":%q,"body":%s}`+"\n", loanRoute, body)
	}
	return written(t, lines.String())
}

func written(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "capture")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// unaligned is Go source with single spaces.
func unaligned(source string) string { return strings.Join(strings.Fields(source), " ") }

func TestTypes(t *testing.T) {
	for _, test := range []struct {
		name   string
		bodies []string
		want   string
	}{
		{
			"money",
			[]string{`{"amount":2500,"advanceRate":0.8}`},
			"AdvanceRate json.Number `json:\"advanceRate\"` Amount json.Number `json:\"amount\"` // money",
		},
		{"a count", []string{`{"totalCount":3}`}, "TotalCount int64 `json:\"totalCount\"`"},
		{
			"a count that is none",
			[]string{`{"totalCount":3}`, `{"totalCount":3.5}`},
			"TotalCount json.Number `json:\"totalCount\"`",
		},
		{"a count beyond int64", []string{`{"totalCount":9223372036854775808}`}, "TotalCount json.Number"},
		{
			"an account is no count",
			[]string{`{"account":12,"accountBalance":3}`},
			"Account json.Number `json:\"account\"` AccountBalance json.Number `json:\"accountBalance\"` // money",
		},
		{
			"money in a string",
			[]string{`{"balance":"48210.55"}`},
			"Balance string `json:\"balance\"` // a decimal string, money",
		},
		{
			"times",
			[]string{`{"at":"2026-11-20T12:00:00Z"}`, `{"at":"2026-11-20T12:00:00.1234567+01:00"}`},
			"At time.Time `json:\"at\"`",
		},
		{"times with a zone and without", []string{
			`{"at":"2026-11-20T12:00:00Z"}`,
			`{"at":"2026-11-20T12:00:00.1234567"}`,
		}, "At " + zonelessTime + " `json:\"at\"` // a time without a zone"},
		{"the time that is none", []string{`{"at":"0001-01-01T00:00:00"}`}, "At " + zonelessTime},
		{"a date", []string{`{"born":"1815-12-10"}`}, "Born string `json:\"born\"` // a date"},
		{
			"a UUID",
			[]string{`{"customerId":"5F1C7A90-2f7b-4e0a-9b66-7c8d9e0f1a2b"}`},
			"CustomerID uuid.UUID `json:\"customerId\"`",
		},
		{
			"a UUID or nothing",
			[]string{`{"agentId":"5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b"}`, `{"agentId":""}`},
			"AgentID string `json:\"agentId\"` }",
		},
		{"missing", []string{`{"a":1,"b":true}`, `{"b":false}`}, "A *json.Number `json:\"a\"` // in 1 of 2"},
		{"null", []string{`{"a":null}`, `{"a":"x"}`}, "A *string `json:\"a\"` // null in 1 of 2"},
		{"always null", []string{`{"a":null}`}, "A json.RawMessage `json:\"a\"` // null in 1 of 1"},
		{
			"of two types",
			[]string{`{"a":"x"}`, `{"a":{"b":1}}`},
			"A json.RawMessage `json:\"a\"` // object in 1, string in 1",
		},
		{
			"a record that is null",
			[]string{`{"a":{"b":"x"}}`, `{"a":null}`},
			"A *struct { B string `json:\"b\"` } `json:\"a\"` // null in 1 of 2",
		},
		{
			"lists",
			[]string{`{"a":[],"b":["x",null],"c":[[1]],"d":[{"e":true},{}]}`},
			"A []json.RawMessage `json:\"a\"` // always empty B []*string `json:\"b\"` // some null C " +
				"[][]json.Number `json:\"c\"` D []struct { E *bool `json:\"e\"` // in 1 of 2 } `json:\"d\"`",
		},
		{
			"a list of two types",
			[]string{`{"a":["x",1]}`},
			"A []json.RawMessage `json:\"a\"` // integer in 1, string in 1",
		},
		{
			"names",
			[]string{`{"webhookUri":1,"createdUTC":2,"address_line2":3,"type":4,"$id":5,"Id":6,"ID":7}`},
			"ID json.Number `json:\"$id\"` ID2 json.Number `json:\"ID\"` ID3 json.Number `json:\"Id\"` AddressLine2 " +
				"json.Number `json:\"address_line2\"` CreatedUTC json.Number `json:\"createdUTC\"` Type json.Number " +
				"`json:\"type\"` WebhookURI json.Number `json:\"webhookUri\"`",
		},
		{"a byte order mark", []string{"\ufeff {\"a\":true}"}, "A bool `json:\"a\"`"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLearner(io.Discard)
			for _, body := range test.bodies {
				l.see(loanRoute, 200, []byte(body))
			}
			var out strings.Builder
			require.NoError(t, l.report("", "main", &out))
			assert.Contains(t, unaligned(out.String()), unaligned(test.want))
			compiles(t, out.String())
		})
	}
}

func TestCaptures(t *testing.T) {
	const id = "5f1c7a90-2f7b-4e0a-9b66-7c8d9e0f1a2b"
	entry := func(method, url string, status int, text, encoding string) string {
		return fmt.Sprintf(`{"request":{"method":%q,"url":%q},"response":{"status":%d,"content":{"text":%q,`+
			`"encoding":%q}}}`, method, url, status, text, encoding)
	}
	archive := `{"log":{"version":"1.2","entries":[` + strings.Join([]string{
		entry("GET", "https://lending.example/tenant/api/Loan/get-loan/"+id+"?x=1", 200, `{"a":"x"}`, ""),
		entry("GET", "https://lending.example/api/Loan/get-loan/"+id, 200,
			base64.StdEncoding.EncodeToString([]byte(`{"b":true}`)), "base64"),
		entry("GET", "https://lending.example/api/Loan/get-loan/"+id, 404, `{"title":"x"}`, ""),
		entry("GET", "https://lending.example/api/Loan/get-loan/"+id, 200, `<html>`, ""),
		entry("POST", "https://lending.example/api/Loan/get-loan/"+id, 200, `{"c":1}`, ""),
		entry("GET", "https://elsewhere.example/api/people/ada", 200, `{"d":1}`, ""),
		entry("GET", ":", 200, `{"e":1}`, ""),
	}, ",") + `]}}`
	fromArchive, told := learn(t, written(t, archive))
	fromLines, _ := learn(t, captured(t, `{"a":"x"}`, `{"b":true}`))
	assert.Equal(t, fromLines, fromArchive)
	assert.Contains(t, told, "Learned from 2 responses of 1 routes. Ignored 5 responses: ")
	assert.Contains(t, unaligned(fromLines),
		"type Loan struct { A *string `json:\"a\"` // in 1 of 2 B *bool `json:\"b\"` // in 1 of 2 }")

	structs, told := learn(t, written(t, `{"route":"GET /api/Report/get-partner-report/{partnerId}","body":[{"a":1}]}
		{"route":"GET /api/Report/get-partner-report/`+id+`","body":[{"b":1}]} {}`))
	assert.Contains(t, unaligned(structs), "type PartnerReport struct { A json.Number `json:\"a\"` }")
	assert.NotContains(t, structs+told, id)
}

func TestWhatCannotBeRead(t *testing.T) {
	secret := "ada@example.com"
	for _, test := range []struct{ name, file, want string }{
		{"no JSON", `{"route":"x","body":{}} ` + secret, "neither an HTTP archive nor a line of a capture, at byte "},
		{"another type", `{"route":["` + secret + `"]}`, "neither an HTTP archive nor a line of a capture, at byte "},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := written(t, test.file)
			err := run(t.Context(), []string{path}, os.Getenv, io.Discard, io.Discard)
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), secret)
			err = run(t.Context(), []string{"-state", path, captured(t, "{}")}, os.Getenv, io.Discard, io.Discard)
			require.ErrorContains(t, err, "is not a file that -state has written")
		})
	}
	none := filepath.Join(t.TempDir(), "none")
	assert.ErrorIs(t, run(t.Context(), []string{none}, os.Getenv, io.Discard, io.Discard), os.ErrNotExist)
	assert.ErrorContains(t, run(t.Context(), []string{"-base-url", "http://127.0.0.1:1"},
		func(string) string { return "" }, io.Discard, io.Discard), "username")
}

// packages are those of the types that the structs use.
var packages = map[string]string{
	"json.Number": "encoding/json", "json.RawMessage": "encoding/json", "time.Time": "time",
	"uuid.UUID": "github.com/google/uuid", "lending.Time": "github.com/lendingapi/lending-go",
}

// compiles fails the test unless the text is a Go file without errors. No other package needs go/types,
// which takes two seconds to compile.
func compiles(t *testing.T, source string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "records.go", source, parser.DeclarationErrors)
	require.NoError(t, err, source)
	var imported, used []string
	for _, one := range file.Imports {
		imported = append(imported, strings.Trim(one.Path.Value, `"`))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			used = append(used, packages[fmt.Sprint(n.X, ".", n.Sel)])
		case *ast.StructType:
			names := map[string]bool{}
			for _, field := range n.Fields.List {
				require.Len(t, field.Names, 1, source)
				names[field.Names[0].Name] = true
			}
			require.Len(t, names, len(n.Fields.List), source)
		}
		return true
	})
	slices.Sort(used)
	require.ElementsMatch(t, imported, slices.Compact(used), source)
	for _, name := range file.Unresolved {
		require.Contains(t, []string{"bool", "int64", "string", "json", "lending", "time", "uuid"}, name.Name, source)
	}
}

// After any response the structs compile, and the stored shapes lead to the same structs.
func FuzzStructsCompile(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `"x"`, ` [1,2.5] `, `{"data":[{"a":1}],"totalCount":1}`, `{"data":[],"totalCount":null}`,
		`{"a":1,"A":2,"_a":3,"$a":4,"@a":5,"a_":6,"a2":7,"A2":8}`,
		`{"func":1,"type":{"select":2},"json":3,"string":[4]}`,
		`{"":1}`, `{"-":1}`, `{"größe":1}`, `{"1a":1}`, "{\"a`b\":1}", `{"a\"b":1}`, `{"a\nb":1}`, `{"*/":1}`,
		`{"a":1,"a":"x","a":{"b":[]}}`,
		strings.Repeat("[", 60) + strings.Repeat("]", 60), strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60),
		`{"a":{"x@y":{"b":1},"z":{"b":"c"}}}`, `[{"a":[null,{"b":[[]]}]},{"a":null},{"a":"2026-11-20"}]`,
		"\ufeff{\"\\ud800\":1}",
	} {
		f.Add(loanRoute, []byte(seed), []byte(`{"a":{"b":1}}`))
	}
	f.Add(loanRoute, []byte(`{"a":{"b@c":1}}`), []byte(`{"a":{"b":[]}}`))
	f.Add("GET /get-/{id}", []byte(`[]`), []byte(`[{}]`))
	f.Add("GET /loan/{id}", []byte(`{"a":true}`), []byte(`{}`))
	f.Add("X /-a-/type-s/{id}", []byte(`{"a":true}`), []byte(`true`))
	f.Fuzz(func(t *testing.T, route string, first, second []byte) {
		state := filepath.Join(t.TempDir(), "state")
		var last string
		for _, bodies := range [][][]byte{{first, second}, {second}, nil} {
			l := newLearner(io.Discard)
			for _, body := range bodies {
				l.see(route, 200, body)
				l.see(loanRoute, 200, body)
			}
			var out strings.Builder
			require.NoError(t, l.report(state, "main", &out))
			compiles(t, out.String())
			if bodies == nil {
				assert.Equal(t, last, out.String())
			}
			last = out.String()
		}
	})
}
