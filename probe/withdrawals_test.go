package probe

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lendingapi/lending-go"
)

// Each case is a sequence of calls: start, refuse, confirm, a wait, or the ids in a list of withdrawals.
func TestWithdrawalsOfAProgramAreWatched(t *testing.T) {
	t.Parallel()
	const answers, accepted = "confirmation answers: a UUID in an object", "confirmation: accepted"
	for _, test := range []struct {
		calls string
		want  []string
	}{
		{"list, start, refuse, confirm, list 1", []string{
			accepted, answers, "read lag: get-withdrawals: 0s", "withdrawal listed: 1 more", "wrong one-time password: 400",
		}},
		{"list 2 3, start, confirm, list 3 2, wait 7s, list 1 2 3", []string{
			accepted, answers, "read lag: get-withdrawals: 7s", "withdrawal listed: 1 more",
		}},
		{"list 2, start, confirm, wait 7s, list 2 1", []string{accepted, answers, "withdrawal listed: 1 more"}},
		{"start, list, start, refuse, confirm", []string{accepted, answers}}, // perhaps of the other withdrawal
		{"list 2, start, confirm, list 4, list 4 5", []string{accepted, answers}},
		{"list 2, start, confirm, wait 6m, list 2", []string{accepted, answers, "withdrawal listed: not after 5m0s"}},
		{"start, refuse", nil},
		{"list 1, start, list 1 2, confirm, wait 6m, list 1 2", []string{
			accepted, answers, "withdrawal listed: from its start",
		}},
		{"list, start, list 1, confirm, list 1, start, list 1", []string{
			accepted, answers, "withdrawal listed: from its start",
		}},
		{"list 1, start, list 1 2, confirm, start, confirm, list 1 2 3", []string{
			accepted, answers, "read lag: get-withdrawals: 0s", "withdrawal listed: 1 more",
		}},
		{"list, list 3, start, list 3 4", nil}, // perhaps of another loan
		{"list 1, start, refuse, start, list 1 2", nil},
	} {
		t.Run(test.calls, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := Watch(nil, func(change string) { t.Error(change) })
				for call := range strings.SplitSeq(test.calls, ", ") {
					name, rest, _ := strings.Cut(call, " ")
					if name == "wait" {
						d, err := time.ParseDuration(rest)
						assert.NoError(t, err)
						wait(t.Context(), d)
						continue
					}
					withdrawal(t, w, name, rest)
				}
				var facts []string
				for name, value := range w.Service().Facts {
					if !strings.HasPrefix(name, "problem record") {
						facts = append(facts, name+": "+value)
					}
				}
				assert.ElementsMatch(t, test.want, facts)
			})
		})
	}
}

// withdrawal makes a call of a program that withdraws.
func withdrawal(t *testing.T, w *Watcher, name, ids string) {
	t.Helper()
	call, status := lending.Call{Method: http.MethodPost, Outcome: lending.OutcomeDone}, http.StatusOK
	body := `{"data":"` + loanID + `"}`
	switch name {
	case "list":
		call.Method, call.Route, call.Effect = http.MethodGet, "/api/Loan/get-withdrawals/{loanId}", lending.Read
		records := []string{}
		for id := range strings.FieldsSeq(ids) {
			records = append(records, fmt.Sprintf(`{"id":%q,"status":"Pending"}`, id))
		}
		body = `{"data":[` + strings.Join(records, ",") + `]}`
	case "start":
		call.Route = "/api/Loan/make-withdrawal-invoice/{loanId}"
	case "refuse":
		call.Route, call.Outcome = "/api/Loan/confirm-withdrawal-invoice/{loanId}", lending.OutcomeRejected
		call.Err, status = assert.AnError, http.StatusBadRequest
	case "confirm":
		call.Route = "/api/Loan/confirm-withdrawal-invoice/{loanId}"
	}
	w.learn(t.Context(), call, lending.Response{StatusCode: status, Body: []byte(body)})
}
