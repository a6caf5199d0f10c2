package probe

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/assumption"
)

// withdrawals learns from the withdrawals of a program. An observer sees no identifiers, so it learns
// from a single withdrawal at a time.
type withdrawals struct {
	started   int    // since the last confirmation
	refused   string // the answer to a confirmation, "" if there was none
	confirmed time.Time
	before    map[uint64]bool // the lists of withdrawals before the confirmation
	missed    bool            // by a list after the confirmation
	isListed  bool            // since the start
}

func (w *withdrawals) learn(call lending.Call, r lending.Response) map[string]string {
	facts := map[string]string{}
	switch call.Route {
	case "/api/Loan/make-withdrawal-invoice/{loanId}":
		w.started++
	case "/api/Loan/confirm-withdrawal-invoice/{loanId}":
		if call.Outcome != lending.OutcomeDone || call.Err != nil {
			w.refused = answer(r, call.Err)
			break
		}
		facts["confirmation"], facts["confirmation answers"] = accepted, uuidForm(r.Body)
		if w.started == 1 && w.refused != "" {
			facts[assumption.WrongOneTimePassword] = w.refused
		}
		if !w.isListed {
			w.confirmed = time.Now()
		}
		w.started, w.refused, w.missed, w.isListed = 0, "", false, false
	case "/api/Loan/get-withdrawals/{loanId}":
		w.list(r.Body, facts)
	}
	return facts
}

// list looks for the withdrawal in a list: the list has the records of a list before, and another. Before the confirmation
// it must be the only list before: another can be that of another loan.
func (w *withdrawals) list(body []byte, facts map[string]string) {
	var page struct{ Data []json.RawMessage }
	if json.Unmarshal(body, &page) != nil {
		return
	}
	sum, ids := uint64(0), []uint64{}
	for _, record := range page.Data {
		ids = append(ids, (&response{text: record}).identify(0))
		sum += ids[len(ids)-1]
	}
	isNew := func(id uint64) bool { return w.before[sum-id] }
	if w.confirmed.IsZero() && w.started == 1 && len(w.before) == 1 && slices.ContainsFunc(ids, isNew) {
		w.isListed = true
		facts[assumption.WithdrawalListed] = assumption.FromStart
	}
	if w.confirmed.IsZero() || w.before[sum] {
		if w.missed = !w.confirmed.IsZero(); w.missed && time.Since(w.confirmed) > patience {
			facts[assumption.WithdrawalListed] = "not after " + patience.String()
		}
		if len(w.before) > maxRoutes || w.before == nil {
			w.before = map[uint64]bool{}
		}
		w.before[sum] = true
		return
	}
	if !slices.ContainsFunc(ids, isNew) {
		return
	}
	facts[assumption.WithdrawalListed] = assumption.OneMore
	lag := time.Duration(0)
	if w.missed {
		lag = time.Since(w.confirmed)
	}
	if w.missed || time.Since(w.confirmed) < time.Second {
		facts[assumption.ReadLag+": get-withdrawals"] = ceiling(lag)
	}
	w.confirmed, w.before = time.Time{}, map[uint64]bool{sum: true}
}

// patience is the default of idempotency.Options.MaxLateness.
const patience = 5 * time.Minute
