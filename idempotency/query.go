package idempotency

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/opaque"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Recorded is the state, outcome and response of a key: see [Log.Lookup]. Recorded never prints
// the response.
type Recorded struct {
	KeyStatus                 // Route is empty if the key was never used
	Outcome   lending.Outcome // not sent (also if rejected), unknown or done

	answer opaque.Value[[]byte]
}

// Answer returns the recorded body of the response, or nil without a recorded response. The body
// can hold personal data.
func (r *Recorded) Answer() []byte {
	if r.answer == nil {
		return nil
	}
	return r.answer()
}

// Lookup returns the state, the outcome and the response of a key. Lookup reads the store and
// does not call the service.
func (l *Log) Lookup(ctx context.Context, key string) (*Recorded, error) {
	s := l.settings()
	entry, data, err := s.read(ctx, s.stored(key))
	if err != nil {
		return nil, storeError(err)
	}
	r := &Recorded{KeyStatus: KeyStatus{Key: key, State: store.Free}, Outcome: outcomeOf(&data, entry.State)}
	if entry.Revision > 0 {
		r.KeyStatus = s.status(&entry)
	}
	if r.Outcome == lending.OutcomeNotSent {
		restored, err := s.restart(ctx, &entry, &data)
		if err != nil {
			return nil, storeError(err)
		}
		if restored != nil && (entry.Revision > 0 || !isNewOrder(ctx, restored)) {
			r.Outcome = lending.OutcomeUnknown
		}
	}
	if data.Response.Status != 0 {
		r.answer = opaque.Hide(data.Response.Body)
	}
	return r, nil
}

// KeyStatus is the state of a key without the response. Of the request, it holds only ids.
type KeyStatus struct {
	Key   string
	Route string      // method and path template
	State store.State // see the package documentation

	// IDs are the ids in the request, by name: applicationId, loanId, customerId, partnerId,
	// applicantId, supportingDocumentId.
	IDs map[string]string

	Age   time.Duration // in doubt: since the first send; else since the entry was saved
	Sends int           // the number of the last send; after [Log.Restored] the store may have lost an earlier one

	// NeedsPerson reports whether the mutation is in doubt and no check of this package can end
	// the doubt. Otherwise the next call with the key ends the doubt.
	NeedsPerson bool
	CheckWith   string // the reads that show a person whether the mutation happened; may be empty
	Why         string // why a person is needed, or the Why of [Log.Resolve] or [Log.Erase]
	ResolvedBy  string // the By of [Log.Resolve] or [Log.Erase], if any
	Correctable bool   // whether [Log.Resolve] accepts another verdict
	Erased      bool   // whether [Log.Erase] has removed the data

	// HappenedAfter and NotHappenedAfter are the waits until [Log.Resolve] accepts that verdict.
	// They are 0 if Resolve accepts the verdict now, or if the mutation is not in doubt.
	HappenedAfter, NotHappenedAfter time.Duration

	// History is what happened to the key, the oldest change first. It outlives the response: the
	// first 4 changes and the last 12 stay until [Log.Forget].
	History []Change

	Position store.Position // for [Filter].After
}

// Filter selects entries for [Log.Keys]. The zero Filter selects the first 100 keys in any state.
type Filter = store.Filter

// Keys returns a page of the selected keys, the oldest first. For the next page, set
// [Filter].After to the Position of the last key. A page can be shorter than the limit; an
// empty page is the end. A key that changes between two pages can appear twice, but is never
// missed.
func (l *Log) Keys(ctx context.Context, filter Filter) ([]KeyStatus, error) {
	s := l.settings()
	var c arguments
	c.that(filter.Limit >= 0, "Limit", lending.CodeRange, "must not be negative")
	c.that(filter.Older >= 0, "Older", lending.CodeRange, "must not be negative")
	if err := c.err(); err != nil {
		return nil, err
	}
	filter.Prefix, filter.Limit = s.stored(filter.Prefix), cmp.Or(filter.Limit, 100)
	if len(filter.States) == 0 {
		filter.States = allStates
	}
	page, err := s.store.List(ctx, filter)
	keys := make([]KeyStatus, 0, len(page))
	for i := range page {
		keys = append(keys, s.status(&page[i]))
	}
	return keys, storeError(err)
}

func (s *settings) status(stored *store.Entry) KeyStatus {
	e := KeyStatus{
		Key: strings.TrimPrefix(stored.Key, s.stored("")), State: stored.State, Age: stored.Age,
		IDs: map[string]string{}, Position: stored.Position,
	}
	data, err := readData(stored.Data)
	if err != nil {
		e.NeedsPerson, e.Why = isInDoubt(e.State), err.Error()
		return e
	}
	r := data.Request
	e.Route, e.Sends, e.CheckWith, e.IDs = r.Route, data.Send.Number, r.CheckWith, r.IDs.kept()
	e.Correctable, e.History = data.isCorrectable(), data.History.changes(stored.Age)
	decided := data.History.decided()
	e.Why, e.ResolvedBy, e.Erased = decided.Why, decided.By, data.Erased
	if !isInDoubt(e.State) {
		return e
	}
	for _, c := range slices.Backward(e.History) {
		if !isInDoubt(c.State) {
			break
		}
		e.Age = c.Age
	}
	e.NeedsPerson = true
	if e.State != store.NeedsReview { // the stored Why is older than the state
		var who ender
		who, e.Why = data.ender(s.repeats(r.Route))
		e.NeedsPerson = who == byPerson
	}
	idle := data.idle(stored)
	e.HappenedAfter, e.NotHappenedAfter = max(0, -idle), max(0, s.MaxLateness-idle)
	return e
}

// Counts is the number of mutations in doubt, for gauges. NeedsReview counts those that need a
// person: [KeyStatus].NeedsPerson.
type Counts struct {
	Sent, InDoubt, NeedsReview StateCount
}

// StateCount is the number of mutations, and the age of the oldest.
type StateCount struct {
	Count  int           // of at most 1,000 mutations of a state
	Oldest time.Duration // the largest [KeyStatus].Age; 0 without a mutation
}

// Counts counts the mutations in [InDoubtStates]. Counts reads their entries, and stops at 1,000
// entries of a state.
func (l *Log) Counts(ctx context.Context) (open Counts, err error) {
	s := l.settings()
	for _, state := range InDoubtStates() {
		n := 0
		for entry, err := range store.All(ctx, s.store, store.Filter{Prefix: s.stored(""), States: []store.State{state}, Limit: pageLimit}) {
			if err != nil {
				return Counts{}, storeError(err)
			}
			status, counted := s.status(&entry), &open.InDoubt
			switch {
			case status.HappenedAfter > 0: // in flight
				counted = &open.Sent
			case status.NeedsPerson:
				counted = &open.NeedsReview
			}
			counted.Count++
			counted.Oldest = max(counted.Oldest, status.Age)
			if n++; n == pageLimit {
				break
			}
		}
	}
	return open, nil
}

// Ready reports whether the log can send, for a readiness probe: Ready makes a short read and a short write. The
// error is [ErrStore] if the store accepts no write, as a standby, a read-only or a full database, or if it is older
// than before: see [Log.Restored].
func (l *Log) Ready(ctx context.Context) error {
	s := l.settings()
	if _, err := s.operator.recent(ctx); err != nil {
		return storeError(err)
	}
	probe, err := s.store.Load(ctx, s.Namespace+"!ready")
	if err != nil {
		return storeError(err)
	}
	if probe == nil {
		probe = &store.Entry{Key: s.Namespace + "!ready", State: store.Done, Data: new(lockData).bytes()}
	}
	err = s.store.Save(ctx, *probe)
	if err == nil || errors.Is(err, store.ErrConflict) { // another process makes the same write
		return nil
	}
	why := "it accepts no write: connect to the primary if it is a standby or read-only, and make room if it is full"
	return &Error{kind: ErrStore, Why: why, cause: redact.Hide(err)}
}
