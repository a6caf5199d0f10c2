package idempotency

import (
	"context"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/opaque"
)

// Recorded is what a log knows of the mutation of a key: see [Log.Lookup]. It prints no answer.
type Recorded struct {
	Entry                   // its Route is empty if the key was never used
	Outcome lending.Outcome // [lending.OutcomeNotSent] if the mutation did not happen, unknown or done

	answer opaque.Value[[]byte]
}

// Answer returns the recorded answer as the service sent it, nil if there is none. It can hold
// personal data.
func (r *Recorded) Answer() []byte {
	if r.answer == nil {
		return nil
	}
	return r.answer()
}

// Lookup returns what the log knows of key, without the request: nothing is sent, and nobody is
// asked but the store.
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
