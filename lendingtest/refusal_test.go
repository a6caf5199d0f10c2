package lendingtest_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go/lendingtest"
)

const (
	invalid = "ValidationFailed"
	bad     = http.StatusBadRequest
	mine    = "?partnerId=" + lendingtest.PartnerID
)

// A refusal is answered as documented, is not counted as executed, and changes no state.
// testdata/refusals.txt lists every refusal of the interface, and those of the model.
func TestRefusals(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/refusals.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if strings.HasPrefix(line, "#") || line == "\n" {
			continue
		}
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			r, id := newRig(t), ""
			request := r.filled(row[1], &id)
			if len(row) > 3 {
				r.step(row[3], &id)
			}
			before := r.records()
			status, code, _ := strings.Cut(row[2], " ")
			var fields []string
			if strings.Contains(code, " ") {
				code, fields = invalid, strings.Split(code, ", ")
			}
			r.request(request).refused(must(strconv.Atoi(status)), code, fields...)
			require.Equal(t, before, r.records())
			requests := r.Requests()
			last := requests[len(requests)-1]
			require.Equal(t, status, strconv.Itoa(last.Status))
			require.False(t, last.Executed)
		})
	}
}

// records is what a refusal leaves alone.
func (r *rig) records() string {
	r.t.Helper()
	s := r.Snapshot()
	return marshal(r.t, []any{s.Customers, s.Applications, s.Loans, s.Subscriptions, s.Sent})
}

// request sends "POST path body".
func (r *rig) request(request string) reply {
	r.t.Helper()
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	if method == http.MethodGet {
		return r.get("/api/" + path)
	}
	return r.post("/api/"+path, body)
}

// step does what happens between the records of a request and the request.
func (r *rig) step(step string, id *string) {
	r.t.Helper()
	if do, ok := steps[step]; ok {
		do(r, *id)
	} else if kind, ok := strings.CutPrefix(step, "type "); ok {
		r.header.Set("Content-Type", kind)
	} else {
		r.request(r.filled(step, id)).ok()
	}
}

var steps = map[string]func(r *rig, id string){
	"no token":           func(r *rig, _ string) { r.token = "" },
	"wrong token":        func(r *rig, _ string) { r.token = "x" },
	"tokens are revoked": func(r *rig, _ string) { r.RevokeTokens() },
	"an hour passes":     func(r *rig, _ string) { r.Advance(time.Hour) },
	"five minutes pass":  func(r *rig, _ string) { r.Advance(5 * time.Minute) },
	"the offer expires":  (*rig).expireOffer,
	"the loan is closed": func(r *rig, id string) { r.UpdateLoan(id, closeLoan) },
	"the loan is disabled": func(r *rig, id string) {
		r.UpdateLoan(id, func(l *lendingtest.Loan) { l.IsEnabled = false })
	},
	"the balance falls": func(r *rig, id string) {
		r.UpdateLoan(id, func(l *lendingtest.Loan) { l.AvailableBalance = 2499_99 })
	},
	"no bank account": func(r *rig, id string) {
		r.UpdateApplication(id, func(a *lendingtest.Application) { a.PrimaryAccountID = "" })
	},
}

// filled replaces the placeholders, and keeps the first identifier.
func (r *rig) filled(request string, id *string) string {
	return placeholder.ReplaceAllStringFunc(request, func(name string) string {
		text := made[name](r, *id)
		if *id == "" {
			*id, _, _ = strings.Cut(text, "/")
		}
		return text
	})
}

// constant is a placeholder that makes no record.
func constant(text string) func(*rig, string) string {
	return func(*rig, string) string { return text }
}

var (
	placeholder = regexp.MustCompile(`\{[a-z ]+\}`)
	made        = map[string]func(r *rig, id string) string{
		"{unknown}":     constant(unknownID),
		"{zero}":        constant("00000000-0000-0000-0000-000000000000"),
		"{long}":        constant(strings.Repeat("n", 51)),
		"{ann}":         constant(ann),
		"{signatures}":  constant(signatures),
		"{invoice}":     constant(invoice),
		"{withdrawal}":  constant(`{"calculation":` + invoice + `}`),
		"{mine}":        constant(mine[1:]),
		"{id}":          func(_ *rig, id string) string { return id },
		"{huge}":        func(*rig, string) string { return strings.Repeat(" ", 30_000_001) },
		"{oversized}":   func(*rig, string) string { return oversized() },
		"{customer}":    func(r *rig, _ string) string { return r.customer() },
		"{application}": func(r *rig, _ string) string { return r.application() },
		"{offered}":     func(r *rig, _ string) string { return r.offered() },
		"{loan}":        func(r *rig, _ string) string { return r.borrowed().ID },
		"{opened}":      func(r *rig, _ string) string { return r.borrowed().ApplicationID },
		"{withdrawing}": func(r *rig, _ string) string { return r.withdrawing().ID },
		"{otp}":         (*rig).OTP,
		"{statement}":   func(r *rig, _ string) string { return strings.TrimPrefix(statement(r), "/api/") },
		"{signer}": func(r *rig, _ string) string {
			id, applicant := r.approved()
			return id + "/" + applicant
		},
		"{other signer}": func(r *rig, _ string) string {
			id, _ := r.approved()
			_, other := r.approved()
			return id + "/" + other
		},
		"{signed}": func(r *rig, _ string) string {
			id, applicant := r.approved()
			r.post(approval+"sign-contract/"+id+"/"+applicant, signatures).ok()
			return id + "/" + applicant
		},
		"{need}": func(r *rig, id string) string {
			need := r.get(approval + "get-required-documents/" + id).list()[0]
			return fmt.Sprint("supportingDocumentId=", need["supportingDocumentId"], "&fileType=", need["fileType"])
		},
	}
)

func statement(r *rig) string {
	return "/api/Application/submit-bankstatement-document/" + r.application() + "?fileName=may.pdf"
}

func confirm(r *rig, loan lendingtest.Loan, amount, rate, otp string) reply {
	return r.post("/api/Loan/confirm-withdrawal-invoice/"+loan.ID, confirmation(amount, rate, otp))
}
