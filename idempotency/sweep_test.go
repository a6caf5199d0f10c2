package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// replacing calls before each Replace of a store.
type replacing struct {
	store.Store
	before func(entries []store.Entry)
}

func (s replacing) Replace(ctx context.Context, entries []store.Entry) (int, error) {
	s.before(entries)
	return s.Store.Replace(ctx, entries)
}

// TestSweepGoesOn has more entries that cannot be read than a page, and entries that another
// process changes meanwhile: all others are forgotten.
func TestSweepGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unreadable, readable, changed = 1100, 1300, 3
		entries := store.NewMemory()
		for i := range unreadable + readable {
			entry := store.Entry{Key: fmt.Sprintf(":%04d", i), State: store.Done, Data: []byte("?")}
			if i >= unreadable {
				entry.Data = []byte(`{"request":{"route":"POST /a"},"response":{"status":200}}`)
			}
			require.NoError(t, entries.Save(t.Context(), entry))
		}
		bubble.Elapse(time.Hour)
		changes := 0
		other := replacing{entries, func(page []store.Entry) {
			if changes < changed && len(page) > 0 {
				changes++
				assert.NoError(t, entries.Save(t.Context(), fake.Must(loaded(entries, page[len(page)-1].Key))))
			}
		}}
		log := fake.Must(idempotency.NewLog(other, &idempotency.Options{KeepAnswers: time.Hour}))
		n, err := log.Sweep(t.Context())
		require.ErrorIs(t, err, store.ErrCorrupt)
		last := changes
		require.Positive(t, last)
		assert.Equal(t, readable-last, n)
		changes = changed // no more
		bubble.Elapse(time.Hour)
		n, err = log.Sweep(t.Context())
		require.ErrorIs(t, err, store.ErrCorrupt)
		assert.Equal(t, last, n, "they were saved an hour ago")
	})
}

func loaded(entries store.Store, key string) (store.Entry, error) {
	entry, err := entries.Load(context.Background(), key)
	return *entry, err
}

// TestSweepHoldsAPage sweeps answers of 1 MB, which take less room than two pages at a time.
func TestSweepHoldsAPage(t *testing.T) {
	const n = 24 // twice what may be held
	entries := store.NewMemory()
	answer := strings.Repeat("eHh4", 1<<18)
	for i := range n {
		entry := store.Entry{Key: fmt.Sprint(":", i), State: store.Done}
		entry.Data = fmt.Appendf(nil, `{"request":{"route":"POST /a"},"response":{"status":200,"body":"%s"}}`, answer)
		require.NoError(t, entries.Save(t.Context(), entry))
	}
	largest, live := uint64(0), func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	watched := replacing{entries, func([]store.Entry) { largest = max(largest, live()) }}
	opts := &idempotency.Options{KeepAnswers: time.Nanosecond, MaxLateness: time.Nanosecond}
	assert.Equal(t, n, fake.Must(fake.Must(idempotency.NewLog(watched, opts)).Sweep(t.Context())))
	assert.Less(t, largest, before+3*store.PageBytes, "the store itself holds %d bytes", before)
}

// TestSweepDeletesEffectsOfLocks creates an application, whose lock remembers it for
// MaxLateness.
func TestSweepDeletesEffectsOfLocks(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		fake.Must(client.Applications.Create(lending.WithIdempotencyKey(t.Context(), "a/create"),
			newOrder(service).request(), nil))
		remembered := func() int {
			filter := store.Filter{Prefix: "#", States: []store.State{store.Free}, Limit: 10}
			return len(fake.Must(entries.List(t.Context(), filter)))
		}
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(maxLateness - time.Second)
		fake.Must(log.Sweep(t.Context()))
		require.Equal(t, 1, remembered())
		bubble.Elapse(time.Second)
		fake.Must(log.Sweep(t.Context()))
		assert.Zero(t, remembered())
	})
}

// TestForgetEndsAnOrder deletes the keys of an order and leaves those of all others, whose
// names are alike.
func TestForgetEndsAnOrder(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		rename := func(key string) {
			t.Helper()
			fake.Must(client.Applications.UpdateName(lending.WithIdempotencyKey(t.Context(), key), o.application, key))
		}
		keys := []string{"order-4/a", "order-4/b", "order-42/a", "order-4", "order-4-a", "order-4a"}
		for _, key := range keys {
			rename(key)
		}
		log := fake.Must(idempotency.NewLog(entries, nil))
		bubble.Elapse(maxLateness)
		for _, test := range []struct {
			keys string
			want int
		}{{"order-4/", 2}, {"order-4/", 0}, {"order-4", 1}, {"order", 0}, {"none", 0}, {"order-", 3}} {
			n, err := log.Forget(t.Context(), test.keys)
			require.NoError(t, err)
			assert.Equal(t, test.want, n, test.keys)
		}
		sent := service.Executed(renameRoute)
		rename("order-4/a")
		assert.Equal(t, sent+1, service.Executed(renameRoute), "the caller has said that nobody calls it again")
		_, err := log.Forget(t.Context(), "")
		require.ErrorContains(t, err, "must not be empty")
		require.NoError(t, entries.Save(t.Context(), store.Entry{Key: ":order-5", State: store.Done, Data: []byte("?")}))
		require.NoError(t, entries.Save(t.Context(), store.Entry{Key: ":order-5/a", State: store.Done, Data: []byte("?")}))
		bubble.Elapse(maxLateness)
		for _, keys := range []string{"order-5", "order-5/"} {
			_, err = log.Forget(t.Context(), keys)
			require.ErrorIs(t, err, store.ErrCorrupt)
		}
	})
}

// TestForgetRefusesAnUnfinishedOrder has a mutation of the order that is not done: nothing is
// deleted, and the error says when to call again.
func TestForgetRefusesAnUnfinishedOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		state store.State
		lock  string
		data  string
		want  error
		after time.Duration
	}{
		{"in flight", store.Sent, "lock", `"send":{"lease":60000000000}`, idempotency.ErrInProgress, time.Minute},
		{"its process has died", store.Sent, "lock", `"send":{}`, idempotency.ErrInDoubt, 0},
		{"in doubt", store.InDoubt, "lock", `"send":{"number":1}`, idempotency.ErrInDoubt, 0},
		{"needs review", store.NeedsReview, "", `"send":{"number":1}`, idempotency.ErrNeedsReview, 0},
		{"about to be sent", store.Free, "lock", `"send":{}`, idempotency.ErrInProgress, maxLateness},
		{"has just ended", store.Done, "", `"send":{"number":1}`, idempotency.ErrInProgress, maxLateness},
		{"sent twice", store.Done, "lock", `"hold":330000000000`, idempotency.ErrInProgress, maxLateness + 30*time.Second},
		{"cannot be read", store.InDoubt, "lock", `?`, idempotency.ErrInDoubt, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, _ *lendingtest.Service, entries *tampered, _ *lending.Client) {
				save := func(key string, state store.State, lock, data string) {
					require.NoError(t, entries.Save(t.Context(), store.Entry{
						Key: key, State: state, Lock: lock, Data: fmt.Appendf(nil, `{"request":{"route":"POST /a"}%s}`, data),
					}))
				}
				save(":a/0", store.Done, "", "")
				save(":a/2", store.Forgotten, "", "")
				bubble.Elapse(maxLateness)
				save(":a/1", test.state, test.lock, ","+test.data)
				log := fake.Must(idempotency.NewLog(entries, nil))
				for range 2 {
					n, err := log.Forget(t.Context(), "a/")
					require.ErrorIs(t, err, test.want)
					assert.Zero(t, n)
					var failed *idempotency.Error
					require.ErrorAs(t, err, &failed)
					assert.Equal(t, "a/1", failed.Key)
					assert.Equal(t, test.after, failed.RetryAfter)
				}
				n, err := log.Forget(t.Context(), "a/1")
				require.Error(t, err)
				assert.Zero(t, n)
				if test.after > 0 {
					bubble.Elapse(test.after)
					_, err = log.Forget(t.Context(), "a/")
					assert.Equal(t, test.state == store.Sent, err != nil, "it has died or ended")
				}
			})
		})
	}
}

// TestSweepKeepsNoRecordWithoutAnID sweeps a response that has more than ids. The log still knows that
// the mutation happened.
func TestSweepKeepsNoRecordWithoutAnID(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
		answer := json.RawMessage(`[{"name":"Ada"},{"id":"00000001-0001-4000-8000-000000000009","name":"Grace"}]`)
		check := func(context.Context) (idempotency.Verdict, error) { return idempotency.Happened(answer), nil }
		ctx, requests := withKey(t.Context(), "batch"), []lending.ApplicationRequest{o.request()}
		service.Fail("POST /api/ApplicationBulk/create-applications", lendingtest.Fault{ResetAfter: true})
		_, err := client.Bulk.CreateApplications(ctx, requests)
		require.ErrorIs(t, err, lending.ErrOutcomeUnknown)
		fake.Must(client.Bulk.CreateApplications(idempotency.WithCheck(ctx, check), requests))
		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
		assert.Nil(t, fake.Must(log.Lookup(t.Context(), "batch")).Answer())
		_, err = client.Bulk.CreateApplications(ctx, requests)
		require.ErrorIs(t, err, idempotency.ErrAnswerLost)
		assert.Equal(t, lending.OutcomeDone, fake.Must(log.Lookup(t.Context(), "batch")).Outcome)
	})
}

// TestDoneEntryIsSmall creates an application for a customer who has hundreds: the entry does
// not keep what was seen before, nor does a tombstone keep more than it needs to be compared.
func TestDoneEntryIsSmall(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		o := newOrder(service)
		for range 400 {
			fake.Must(client.Applications.Create(t.Context(), o.request(), nil))
		}
		create := func() lending.ApplicationID {
			return fake.Must(client.Applications.Create(lending.WithIdempotencyKey(t.Context(), "a/create"), o.request(), nil))
		}
		id := create()
		size := func() int { return len(fake.Must(entries.Load(t.Context(), ":a/create")).Data) }
		assert.Less(t, size(), 800)
		assert.Equal(t, id, create())
		remembered := store.Filter{Prefix: "#", States: []store.State{store.Free}, Limit: 10}
		assert.Less(t, len(fake.Must(entries.List(t.Context(), remembered))[0].Data), 400)

		bubble.Elapse(31 * 24 * time.Hour)
		require.Equal(t, 1, fake.Must(fake.Must(idempotency.NewLog(entries, nil)).Sweep(t.Context())))
		assert.Less(t, size(), 500)
		assert.Equal(t, id, create(), "an id says nothing of a person")
	})
}
