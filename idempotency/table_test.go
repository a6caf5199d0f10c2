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

var update = flag.Bool("update", false, "write docs/dev/checks.md anew")

const tableHead = `# How the log resolves a lost response

The table lists every mutation of the service. A test generates the page from package idempotency: do not edit it.

A mutation with an idempotency key is in doubt if the response is lost. The log makes the reads of the second column
before the send, and again in the next call with the key. The difference tells whether the mutation happened.
SafeToRepeat and WithCheck replace the row of a mutation for a key, and Options.SafeToRepeat for all keys.

Two assumptions hold for every row: the service executes no mutation later than MaxLateness after the end of the call,
and reads show the effect within the same time. A body null or [] of a read is an empty list.

The last column names an action of another program with the same effect. The log takes the effect of such an action for
the mutation, and does not send the mutation again. Names that the service has not published decide nothing: if you
know a field that shows the mutation, use WithCheck.

## Fewer persons

The interface says of two mutations only that a repetition is harmless: setting a value, and registering a webhook
again. These are the default. For the others you decide once, in Options.SafeToRepeat. Ask the owner of the service
about each mutation of your orders that "a person decides" below:

1. Does a second execution do harm: a second document, signature or message, or a cost? If so, use WithCheck.
2. Does the service accept the second request with a 2xx? A rejected repetition does not tell whether the first one
   happened: after five a person decides. If the service rejects it, use WithCheck.

Try the answers on the staging system: call the method twice without a key, and look at the application afterwards.
lending-probe does not, because its walk ends with the offer.

Decisions of persons for 100 onboardings of 13 mutations, if the given share of the mutations meets a lost, cut or late
response or the end of its process (TestFewOrdersNeedAPerson, 500 onboardings):

| Options.SafeToRepeat | at 15 % | at 1 % | left to persons |
|---|---|---|---|
| nothing | 75 | 4.4 | company details, documents, signatures, withdrawals |
| AddCompanyDetails and WithdrawInvoice | 42 | 3.2 | documents, signatures |
| these and SubmitRequiredDocument | 17 | 1.2 | signatures |
| these and SignContract, and the service accepts a second signature | 0 | 0 | nothing |
| the same, but the service rejects a second signature, as lendingtest does | 7 | 0.2 | signatures |
| the first two, and WithCheck for documents and signatures | 0 | 0 | nothing |

After a lost WithdrawInvoice in Options.SafeToRepeat the confirmation waits for nothing, so the one-time password is
still valid. A late first start only replaces the password, and the confirmation is then rejected as one with a wrong
password: the money moves once.

## The mutations

| mutation | reads | after a lost response | assumption | mistaken if another program |
|---|---|---|---|---|
`

// TestTableOfChecksIsDocumented compares docs/dev/checks.md with the table of checks. The
// second column has the reads of each check.
func TestTableOfChecksIsDocumented(t *testing.T) {
	const path = "../docs/dev/checks.md"
	routes := catalog.Routes(t)
	text := bytes.NewBufferString(tableHead)
	mutations := 0
	documented := map[string]bool{}
	line := func(name, route string) {
		documented[name] = true
		mutations++
		row := rowOf(route)
		assert.Equal(t, row.reads != noReads, mistakes[name] != "", name)
		fmt.Fprintf(text, "| `%s` | %s | %s | %s | %s |\n", name, cmp.Or(readsOf(t, routes, row), "none"), lossOf(row),
			cmp.Or(assumptionOf(name, row), "-"), cmp.Or(mistakes[name], "-"))
	}
	for _, name := range slices.Sorted(maps.Keys(routes)) {
		switch r := routes[name]; {
		case strings.HasPrefix(name, "Auth.") && !r.Reads:
			mutations++
			fmt.Fprintf(text, "| `%s` | none | takes no key | - | - |\n", name)
		case !r.Reads:
			line(name, r.Method+" "+r.Path)
		case name == "Applications.Offer":
			line(name+"` with `Force", r.Method+" "+r.Path)
		}
	}
	assert.Equal(t, 42, mutations)
	for _, names := range []map[string]string{assumptions, mistakes} {
		for name := range names {
			assert.True(t, documented[name], name)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, text.String(), string(written), "to write it anew: go test ./idempotency -run TableOfChecks -update")
}

// assumptions are the assumptions behind the findings of checks.
var assumptions = map[string]string{
	"Applications.Process":                  "a processing leaves an offer or another status",
	"Approval.AddPrimaryApplicantDetails":   allApplicants,
	"Approval.AddSecondaryApplicantDetails": allApplicants,
	"Loans.WithdrawInvoice":                 "no read lists a withdrawal before its confirmation",
}

const allApplicants = "the list has all applicants"

func assumptionOf(name string, row route) string {
	if row.setsValue {
		return "setting the same value again changes nothing"
	}
	return assumptions[name]
}

// mistakes are the actions of another program with the same effect as a mutation with a check.
var mistakes = map[string]string{
	"Applications.CreateCustomer":           "creates a customer with the same e-mail address",
	"Bulk.CreateCustomers":                  "creates all customers with the same e-mail addresses",
	"Applications.Create":                   "creates an application for the customer",
	"Bulk.CreateApplications":               "creates as many applications for the customer",
	"Applications.Process":                  "processes the application",
	"Approval.AddPrimaryApplicantDetails":   "adds an applicant",
	"Approval.AddSecondaryApplicantDetails": "adds an applicant",
	"Loans.ConfirmInvoiceWithdrawal":        "withdraws once from the loan",
	"Webhooks.Unregister":                   "removes the subscription",
}

// TestRepeatableRoutesNeedAPerson holds the constants for Options.SafeToRepeat: the mutations in need of a
// person, except for the creation of customers or applications.
func TestRepeatableRoutesNeedAPerson(t *testing.T) {
	var want []Route
	for name, r := range catalog.Routes(t) {
		route := r.Method + " " + r.Path
		row := rowOf(route)
		if (!r.Reads || name == "Applications.Offer") && !strings.HasPrefix(name, "Auth.") &&
			row.reads == noReads && !row.setsValue && !row.ids {
			want = append(want, Route(route))
		}
	}
	assert.ElementsMatch(t, want, repeatable)
}

// readsOf runs the check of a row, and returns the methods of its reads.
func readsOf(t *testing.T, routes map[string]catalog.Route, row route) string {
	t.Helper()
	if row.reads == noReads {
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
		_, _ = checks[row.reads].read(t.Context(), &target{client: client, body: []byte(body), ids: ids{
			"applicationId": catalog.Application.String(), "loanId": catalog.Loan.String(),
			"customerId": catalog.Customer.String(), "applicantId": catalog.Applicant.String(),
			"supportingDocumentId": catalog.Requirement.String(),
		}})
	}
	require.NotEmpty(t, reads)
	return strings.Join(reads, ", ")
}

// lossOf returns the reaction of the code to a lost response.
func lossOf(row route) string {
	nothing := snapshot{State: "as before"}
	switch {
	case row.setsValue:
		return "resent at once"
	case row.reads == noReads && row.optional:
		return "a person decides, without a response: " + row.reason()
	case row.reads == noReads:
		return "a person decides: " + row.reason()
	}
	seen := "effect found: done"
	switch {
	case row.rebuilds:
		seen += ", with the response"
	case row.optional:
		seen += ", with an empty response"
	}
	if row.judge(&nothing, nothing, 1).evidence == absent {
		return seen + "; not found for MaxLateness: resent"
	}
	return seen + "; not found for MaxLateness: a person decides: " + row.reason()
}
