package idempotency

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
)

// Entry is what the log knows of the mutation of a key. It holds nothing of the request but ids,
// and nothing of the answer.
type Entry struct {
	Key   string
	Route string      // method and path template
	State store.State // see the package documentation

	// IDs are those of the records that the request names, by their names in the interface:
	// applicationId, loanId, customerId, partnerId, applicantId, supportingDocumentId.
	IDs map[string]string

	Age   time.Duration // since the mutation was sent first while it is in doubt, else since the entry was saved
	Sends int           // the number of times that the mutation was sent

	// NeedsPerson reports that the mutation is in doubt, and that no check of this package can
	// end the doubt. Otherwise the next call with the key ends it.
	NeedsPerson bool
	CheckWith   string // the reads that show a person whether it happened; "" if none does
	Why         string // why it needs a person, or how the person found it out
	ResolvedBy  string // the person of [Log.Resolve]; "" if there was none
	Correctable bool   // [Log.Resolve] takes another verdict

	// HappenedAfter and NotHappenedAfter are how long it takes until [Log.Resolve] accepts that
	// verdict. They are 0 if it accepts the verdict now, and if nothing is in doubt.
	HappenedAfter, NotHappenedAfter time.Duration

	Position store.Position // for [Filter].After
}

// Filter selects entries for [Log.Entries]. The zero Filter selects all of them.
type Filter struct {
	Prefix string         // of the key
	States []store.State  // any of them; all if it is empty. [InDoubtStates] has those in doubt.
	Older  time.Duration  // the lowest age
	After  store.Position // of the last entry of the page before; "" for the first page
	Limit  int            // the largest number of entries; 100 if it is 0
}

const defaultLimit = 100

// InDoubtStates returns the states of a mutation that is not done and may have happened:
// [store.Sent], which can be in flight, [store.InDoubt] and [store.NeedsReview].
func InDoubtStates() []store.State {
	return []store.State{store.Sent, store.InDoubt, store.NeedsReview}
}

// Entries returns a page of the entries that filter selects, the oldest first. A page can be
// shorter than the limit: the next page, which begins after the Position of the last entry, is
// empty at the end. An entry that changes meanwhile can be returned twice and is not missed.
func (l *Log) Entries(ctx context.Context, filter Filter) ([]Entry, error) {
	s, err := l.settings()
	if err != nil {
		return nil, err
	}
	var c arguments
	c.that(filter.Limit >= 0, "Limit", lending.CodeRange, "must not be negative")
	c.that(filter.Older >= 0, "Older", lending.CodeRange, "must not be negative")
	if err := c.err(); err != nil {
		return nil, err
	}
	selected := store.Filter{
		Prefix: s.stored(filter.Prefix), States: filter.States, Older: filter.Older, After: filter.After, Limit: filter.Limit,
	}
	if len(selected.States) == 0 {
		selected.States = append(InDoubtStates(), store.Free, store.Done, store.Forgotten)
	}
	if selected.Limit == 0 {
		selected.Limit = defaultLimit
	}
	page, err := s.store.List(ctx, selected)
	entries := make([]Entry, 0, len(page))
	for i := range page {
		entries = append(entries, s.entry(&page[i]))
	}
	return entries, storeError(err)
}

// entry returns what there is to say of a stored entry.
func (s *settings) entry(stored *store.Entry) Entry {
	e := Entry{
		Key: strings.TrimPrefix(stored.Key, s.stored("")), State: stored.State, Age: stored.Age,
		IDs: map[string]string{}, Position: stored.Position,
	}
	data, err := readData(stored.Data)
	if err != nil {
		e.NeedsPerson, e.Why = isInDoubt(e.State), err.Error()
		return e
	}
	e.Route, e.Sends, e.CheckWith, e.ResolvedBy = data.Route, data.Sends, data.CheckWith, data.ResolvedBy
	e.Age, e.Correctable = data.age(stored), data.isCorrectable(stored)
	for name, id := range data.IDs {
		if uuid.Validate(id) == nil { // the id of a bank account can be its number
			e.IDs[name] = id
		}
	}
	if e.Why = data.Why; !isInDoubt(e.State) {
		return e
	}
	if e.NeedsPerson = true; e.State != store.NeedsReview { // what is written there is of an earlier time
		switch row := rowOf(e.Route); {
		case row.setsValue, row.check != nil && data.Before != nil && data.Before.Count >= 0:
			e.NeedsPerson, e.Why = false, ""
		case row.check == nil:
			e.Why = row.reason()
		default:
			e.Why = notCounted
		}
	}
	idle := data.idle(stored)
	e.HappenedAfter, e.NotHappenedAfter = max(0, -idle), max(0, s.MaxLateness-idle)
	return e
}
