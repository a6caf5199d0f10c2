package idempotencytest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lendingapi/lending-go/idempotency/store"
)

// Workers increment entries, each through a store of its own, like several processes.
type Workers struct {
	total   atomic.Int64
	mu      sync.Mutex
	saved   map[string]int64
	stop    func()
	working sync.WaitGroup
}

// Start starts workers with the stores of open.
func Start(t *testing.T, workers int, open func() store.Store) *Workers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &Workers{saved: map[string]int64{}, stop: stop}
	for worker := range workers {
		entries := open()
		w.working.Go(func() {
			if err := Count(ctx, entries, worker, w.note); err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

func (w *Workers) note(key string, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved[key] = revision
	w.total.Add(1)
}

// Saves returns the number of acknowledged Saves.
func (w *Workers) Saves() int64 { return w.total.Load() }

// More waits for n more Saves.
func (w *Workers) More(t *testing.T, n int64) {
	t.Helper()
	for start, before := time.Now(), w.Saves(); w.Saves() <= before+n; <-time.After(time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("fewer than %d Saves in 2 minutes", n)
		}
	}
}

// End ends the workers.
func (w *Workers) End() {
	w.stop()
	w.working.Wait()
}

// Check checks that every acknowledged Save is in the store. The workers have ended.
func (w *Workers) Check(t *testing.T, entries store.Store) {
	t.Helper()
	if err := Check(t.Context(), entries, w.saved); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d Saves of %d entries", w.Saves(), len(w.saved))
}
