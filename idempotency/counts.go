package idempotency

import (
	"context"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/redact"
)

// Counts is the number of mutations in doubt by state, for gauges.
type Counts struct {
	Sent, InDoubt, NeedsReview StateCount
}

// StateCount is the number of mutations in a state, and the age of the oldest.
type StateCount struct {
	Count  int           // at most 1,000
	Oldest time.Duration // the time since the oldest came into this state; 0 without a mutation
}

// maxOpen is the largest count of [Log.Counts], which bounds its reads.
const maxOpen = 1000

// Counts counts the mutations in [InDoubtStates]. Counts reads their entries, and stops at 1,000
// entries of a state.
func (l *Log) Counts(ctx context.Context) (open Counts, err error) {
	s, err := l.settings()
	if err != nil {
		return open, err
	}
	for _, count := range []struct {
		state store.State
		open  *StateCount
	}{{store.Sent, &open.Sent}, {store.InDoubt, &open.InDoubt}, {store.NeedsReview, &open.NeedsReview}} {
		filter := store.Filter{Prefix: s.stored(""), States: []store.State{count.state}, Limit: maxOpen}
		for filter.Limit > 0 {
			page, err := s.store.List(ctx, filter)
			if err != nil {
				return Counts{}, storeError(err)
			}
			if len(page) == 0 {
				break
			}
			if count.open.Count == 0 {
				count.open.Oldest = page[0].Age // List returns the oldest first
			}
			count.open.Count += len(page)
			filter.After = page[len(page)-1].Position
			filter.Limit = maxOpen - count.open.Count
		}
	}
	return open, nil
}

// Ready reports whether the log can reach its store, for a readiness probe. Ready makes one
// short read. Without the store, the log sends no mutation.
func (l *Log) Ready(ctx context.Context) error {
	s, err := l.settings()
	if err != nil {
		return err
	}
	if _, err := s.store.Load(ctx, s.stored("ready")); err != nil {
		return redact.New("lending/idempotency: the log is not ready: "+redact.Describe(err)+"; check its store", storeError(err))
	}
	return nil
}
