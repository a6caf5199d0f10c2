package idempotency

import (
	"context"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// Recorded is the state, outcome and response of a key: see [Log.Lookup]. Recorded never prints
// the response.
type Recorded struct {
	Entry                   // Route is empty if the key was never used
	Outcome lending.Outcome // not sent (also if rejected), unknown or done

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
	s, err := l.settings()
	if err != nil {
		return nil, err
	}
	entry, err := s.store.Load(ctx, s.stored(key))
	if err != nil {
		return nil, storeError(err)
	}
	r := &Recorded{Entry: Entry{Key: key, State: store.Free}, Outcome: lending.OutcomeNotSent}
	if entry == nil {
		return r, nil
	}
	data, err := readData(entry.Data)
	if err != nil {
		return nil, storeError(err)
	}
	r.Entry = s.entry(entry)
	switch {
	case data.Happened || entry.State == store.Done || entry.State == store.Forgotten:
		r.Outcome = lending.OutcomeDone
	case isInDoubt(entry.State):
		r.Outcome = lending.OutcomeUnknown
	}
	if data.Status != 0 {
		r.answer = opaque.Hide(data.Answer)
	}
	return r, nil
}
