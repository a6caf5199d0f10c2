package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/lendingtest"
)

// learn runs the program and returns its standard output and its standard error.
func learn(t *testing.T, args ...string) (structs, told string) {
	t.Helper()
	environment := map[string]string{
		"LENDING_USERNAME": lendingtest.AdministratorUsername,
		"LENDING_PASSWORD": lendingtest.AdministratorPassword,
	}
	var out, beside bytes.Buffer
	require.NoError(t, run(t.Context(), args, func(name string) string { return environment[name] }, &out, &beside))
	return out.String(), beside.String()
}

// The structs are a file of this package, so the compiler checks them. -update writes the file if
// the package compiles. Otherwise remove the file, run the program and move its output there.
func TestOutput(t *testing.T) {
	structs, told := learn(t)
	golden.Check(t, "records_test.go", structs)
	golden.Check(t, "testdata/output.golden", told)
}

// The journey in Node starts a sandbox with what the program learns from one response.
func TestStateForTheSandbox(t *testing.T) {
	state := filepath.Join(t.TempDir(), "shapes.json")
	learn(t, "-state", state, "../node/testdata/capture.jsonl")
	kept, err := os.ReadFile(state)
	require.NoError(t, err)
	golden.Check(t, "../node/testdata/shapes.json", string(kept))
}

// answer is a response of a service.
type answer struct{ route, body string }

// tapped runs the program against a service and records the responses.
func tapped(t *testing.T, args ...string) (structs, told string, answers []answer) {
	t.Helper()
	service := lendingtest.New()
	defer service.Close()
	customer := seed(service)
	var bodies []string
	tap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		service.ServeHTTP(recorder, r)
		bodies = append(bodies, recorder.Body.String())
		maps.Copy(w.Header(), recorder.Header())
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	}))
	defer tap.Close()
	structs, told = learn(t, append(args, "-base-url", tap.URL, "-customer", customer, "-partner",
		lendingtest.PartnerID)...)
	for i, request := range service.Requests() {
		if request.Status == http.StatusOK {
			answers = append(answers, answer{request.Route, bodies[i]})
		}
	}
	return structs, told, answers
}

// into has the struct for the response of each read.
var into = map[string]any{
	"GET /api/Application/application-offer/{applicationId}":                new(ApplicationOffer),
	"GET /api/Application/application-status/{applicationId}":               new(ApplicationStatus),
	"GET /api/Application/get-application/{applicationId}":                  new(Application),
	"GET /api/Application/get-customer-applications/{customerId}":           new([]CustomerApplication),
	"GET /api/Application/get-partner-applications/{partnerId}":             new([]PartnerApplication),
	"GET /api/ApplicationApproval/get-all-applicants/{applicationId}":       new([]Applicant),
	"GET /api/ApplicationApproval/get-all-bank-accounts/{applicationId}":    new([]BankAccount),
	"GET /api/ApplicationApproval/get-contract-details/{applicationId}":     new([]ContractDetail),
	"GET /api/ApplicationApproval/get-contracts/{applicationId}":            new([]Contract),
	"GET /api/ApplicationApproval/get-primary-bank-account/{applicationId}": new(PrimaryBankAccount),
	"GET /api/ApplicationApproval/get-required-documents/{applicationId}":   new([]RequiredDocument),
	"GET /api/Communication/get-all-messages/{applicationId}":               new([]Message),
	"GET /api/Customer/get-customer-by-email":                               new(CustomerByEmail),
	"GET /api/Customer/get-customer-by-id/{customerId}":                     new(CustomerByID),
	"GET /api/Loan/get-contract-documents/{loanId}":                         new([]ContractDocument),
	"GET /api/Loan/get-customer-loans/{customerId}":                         new([]CustomerLoan),
	"GET /api/Loan/get-early-repayment/{loanId}":                            new(EarlyRepayment),
	"GET /api/Loan/get-loan/{loanId}":                                       new(Loan),
	"GET /api/Loan/get-repayment-balances/{loanId}":                         new(RepaymentBalances),
	"GET /api/Loan/get-total-balance/{loanId}":                              new(TotalBalance),
	"GET /api/Loan/get-transactions-paged/{loanId}":                         new(TransactionsPagedPage),
	"GET /api/Loan/get-transactions/{loanId}":                               new([]Transaction),
	"GET /api/Loan/get-withdrawals/{loanId}":                                new(WithdrawalsPage),
	"GET /api/Loan/is-loan-closed/{loanId}":                                 new(IsLoanClosed),
	"GET /api/Loan/is-loan-enabled/{loanId}":                                new(IsLoanEnabled),
	"GET /api/Webhook/get-all-subscriptions":                                new([]Subscription),
	"GET /api/Webhook/get-registered-webhooks":                              new([]RegisteredWebhook),
	"GET /api/Webhook/get-subscription":                                     new(Subscription2),
}

// The program walks over every read of the ledger. Each field of a response is in the struct,
// with a type that can hold its value.
func TestEveryFieldIsFound(t *testing.T) {
	_, _, answers := tapped(t)
	answered := map[string]bool{}
	for _, answer := range answers {
		answered[answer.route] = true
		if strings.HasPrefix(answer.route, "POST") {
			continue // the sign-in
		}
		decoder := json.NewDecoder(strings.NewReader(answer.body))
		decoder.DisallowUnknownFields()
		assert.NoError(t, decoder.Decode(into[answer.route]), answer.route)
	}
	ledger, err := os.ReadFile("../../testdata/routes.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(ledger)) {
		if column := strings.Split(line, "\t"); column[8] == "read" {
			assert.True(t, answered[column[1]+" "+column[2]], column[2])
		}
	}
	offer := into["GET /api/Application/application-offer/{applicationId}"].(*ApplicationOffer)
	assert.Equal(t, "40600.00", offer.Amount.String())
}

// scalar finds values, but no names of fields.
var scalar = regexp.MustCompile(`("(?:[^"\\]|\\.)*"|[0-9][0-9.]+)\s*([,}\]]|$)`)

// No value of a response is in the structs, in the messages or in the saved state.
func TestNoValueIsShown(t *testing.T) {
	state := filepath.Join(t.TempDir(), "fields.json")
	structs, told, answers := tapped(t, "-state", state)
	kept, err := os.ReadFile(state)
	require.NoError(t, err)
	values := 0
	for _, answer := range answers {
		for _, found := range scalar.FindAllStringSubmatch(answer.body, -1) {
			value := strings.Trim(found[1], `"`)
			if len(value) < 3 {
				continue
			}
			values++
			for name, text := range map[string]string{"structs": structs, "told": told, "state": string(kept)} {
				if strings.Contains(text, value) {
					t.Errorf("%s: %s shows %q", answer.route, name, value)
				}
			}
		}
	}
	assert.Greater(t, values, 150)
}
