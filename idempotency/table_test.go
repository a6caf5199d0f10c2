package idempotency

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/wire"
)

var update = flag.Bool("update", false, "write docs/checks.md anew")

const tableHead = `# How a lost answer is resolved

The table lists every mutation of the service. It is generated from the code of package idempotency. Do not edit it.

A mutation with an idempotency key is in doubt if its answer is lost. The next call with the key ends most doubts,
with the reads of the second column. The log makes these reads before the mutation is sent and again afterwards, and
compares. SafeToRepeat and WithCheck replace the row of a mutation for one key.

Every conclusion assumes that the service executes no mutation later than MaxLateness after the end of its call, and
that reads show a mutation within that time. An effect that somebody else has caused without the log can be taken for
the effect of the mutation: the log does not send the mutation then.

| mutation | reads | after a lost answer | assumes | who can be mistaken for the mutation |
|---|---|---|---|---|
`

// TestTheTableInTheDocumentationIsThatOfTheCode writes the table of checks down as docs/checks.md
// has it. The reads are those that each check makes.
func TestTheTableInTheDocumentationIsThatOfTheCode(t *testing.T) {
	const path = "../docs/checks.md"
	routes := catalog.Routes(t)
	text := bytes.NewBufferString(tableHead)
	mutations := 0
	line := func(name, route string) {
		mutations++
		row := rowOf(route)
		fmt.Fprintf(text, "| `%s` | %s | %s | %s | %s |\n", name, cmp.Or(readsOf(t, routes, row), "none"), lossOf(row),
			cmp.Or(row.assumes, "-"), cmp.Or(row.others, "nobody"))
	}
	for _, name := range slices.Sorted(maps.Keys(routes)) {
		switch r := routes[name]; {
		case strings.HasPrefix(name, "Auth.") && !r.Reads:
			mutations++
			fmt.Fprintf(text, "| `%s` | none | no key is taken | - | nobody |\n", name)
		case !r.Reads:
			line(name, r.Method+" "+r.Path)
		case name == "Applications.Offer":
			line(name+"` with `Force", r.Method+" "+r.Path)
		}
	}
	assert.Equal(t, 42, mutations)
	if *update {
		require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, text.String(), string(written), "to write it anew: go test ./idempotency -run TheTable -update")
}

// readsOf has the check of a row run, and returns the methods of its reads.
func readsOf(t *testing.T, routes map[string]catalog.Route, row route) string {
	t.Helper()
	if row.check == nil {
		return ""
	}
	mux, reads := http.NewServeMux(), []string{}
	for name, r := range routes {
		mux.HandleFunc(r.Method+" "+r.Path, func(http.ResponseWriter, *http.Request) {
			if quoted := "`" + name + "`"; !slices.Contains(reads, quoted) {
				reads = append(reads, quoted)
			}
		})
	}
	client := wire.NewClient(t, "https://lending.example", lending.WithTokenSource(lending.StaticToken("test-token")),
		lending.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
			mux.ServeHTTP(nil, r)
			return wire.Reply(http.StatusOK, `{"data":[],"totalCount":0}`)(r)
		})}))
	for _, body := range []string{`{"email":"ada@example.com"}`, `[{"email":"ada@example.com"}]`} {
		_, _ = row.check(t.Context(), &target{client: client, body: []byte(body), ids: ids{
			"applicationId": catalog.Application.String(), "loanId": catalog.Loan.String(),
			"customerId": catalog.Customer.String(), "applicantId": catalog.Applicant.String(),
			"supportingDocumentId": catalog.Requirement.String(),
		}})
	}
	require.NotEmpty(t, reads)
	return strings.Join(reads, ", ")
}

// lossOf says what the code does after a lost answer.
func lossOf(row route) string {
	nothing := snapshot{State: "as before"}
	switch {
	case row.setsValue:
		return "sent again at once"
	case row.check == nil:
		return "a person decides: " + row.reason()
	}
	seen := "shown: done"
	if row.answer != nil {
		seen += ", with the answer"
	}
	quiet := snapshot{State: silent}
	switch {
	case row.compare(quiet, quiet, 1).absent:
		return seen + "; not shown for MaxLateness: sent again"
	case row.compare(nothing, nothing, 1).absent:
		return seen + "; said not to be so for MaxLateness: sent again; else a person decides: " + row.reason()
	}
	return seen + "; not shown for MaxLateness: a person decides: " + row.reason()
}
