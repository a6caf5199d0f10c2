package idempotency_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
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

// wallStore orders its entries by a clock that can be set back, as that of PostgreSQL.
type wallStore struct {
	store.Store
	behind time.Duration
	saved  sync.Map // from the key to the time by the clock of the store
}

func (w *wallStore) now() time.Time { return time.Now().Add(-w.behind) }

func (w *wallStore) Save(ctx context.Context, entry store.Entry) error {
	err := w.Store.Save(ctx, entry)
	if err == nil {
		w.saved.Store(entry.Key, w.now())
	}
	return err
}

func (w *wallStore) aged(e *store.Entry) {
	saved, _ := w.saved.Load(e.Key)
	at := saved.(time.Time)
	e.Age, e.Position = max(0, w.now().Sub(at)), store.PositionAt(uint64(at.UnixMicro()), e.Key)
}

func (w *wallStore) Load(ctx context.Context, key string) (*store.Entry, error) {
	entry, err := w.Store.Load(ctx, key)
	if entry != nil {
		w.aged(entry)
	}
	return entry, err
}

func (w *wallStore) List(ctx context.Context, f store.Filter) (page []store.Entry, err error) {
	at, key, err := f.After.At()
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.After, f.Limit = "", 1000
	for entry, err := range store.All(ctx, w.Store, f) {
		if err != nil {
			return nil, err
		}
		w.aged(&entry)
		if then, _, _ := entry.Position.At(); then > at || then == at && entry.Key > key {
			page = append(page, entry)
		}
	}
	slices.SortFunc(page, func(a, b store.Entry) int {
		first, _, _ := a.Position.At()
		second, _, _ := b.Position.At()
		return cmp.Or(cmp.Compare(first, second), cmp.Compare(a.Key, b.Key))
	})
	return page[:min(len(page), limit)], nil
}

// TestClockOfTheStoreIsSetBack has the clock of the store set back after a restore, and never set right. No key takes
// the record of another, and no mutation is sent again.
func TestClockOfTheStoreIsSetBack(t *testing.T) {
	type trial struct {
		*testing.T

		service *lendingtest.Service
		client  *lending.Client
		restore func(claim bool)
		setBack func()
	}
	for _, test := range []struct {
		name string
		do   func(trial)
	}{
		{"rejected key of the copy", func(t trial) {
			confirm := withdrawals(t.T, t.service, t.client)
			t.service.Fail(confirmRoute, lendingtest.Fault{Status: http.StatusTooManyRequests})
			require.Equal(t, lending.OutcomeRejected, lending.OutcomeOf(confirm("lost")))
			require.NoError(t, confirm(""), "by the key, after the copy")
			t.restore(false)
			t.setBack()
			require.ErrorIs(t, confirm("lost"), idempotency.ErrNeedsReview)
			assert.Equal(t, 1, t.service.Executed(confirmRoute))
		}},
		{"loan of the copy", func(t trial) {
			confirm := withdrawals(t.T, t.service, t.client)
			require.NoError(t, confirm(""), "by the key, after the copy")
			t.restore(false)
			t.setBack()
			require.ErrorIs(t, confirm("lost"), idempotency.ErrNeedsReview)
			assert.Equal(t, 1, t.service.Executed(confirmRoute))
		}},
		{"claimed record", func(t trial) {
			confirm := withdrawals(t.T, t.service, t.client)
			t.service.Fail(confirmRoute, lendingtest.Fault{ResetBefore: true})
			require.ErrorIs(t, confirm("another"), lending.ErrOutcomeUnknown)
			require.NoError(t, confirm(""), "by the lost key, after the copy")
			t.restore(true)
			require.NoError(t, confirm("another"))
			t.setBack()
			require.ErrorIs(t, confirm("lost"), idempotency.ErrNeedsReview)
			assert.Equal(t, 1, t.service.Executed(confirmRoute))
		}},
		{"record of a new key", func(t trial) {
			customers := make([]order, 60) // the next question does not read the begin of the list again
			for i := range customers {
				key := withKey(t.Context(), fmt.Sprintf("%02d", i))
				user := fake.Must(t.client.Applications.CreateCustomer(key, fake.Newcomer()))
				customers[i] = order{service: t.service, customer: user.ID}
			}
			t.restore(true)
			require.NoError(t, customers[57].creates(t.T, t.client)("before"))
			t.setBack()
			taken := fake.Must(customers[58].createsID(t.T, t.client)("taken", accepted))
			require.NoError(t, customers[59].creates(t.T, t.client)("question"))
			bubble.Elapse(time.Second)
			assert.NotEqual(t, taken, fake.Must(customers[58].createsID(t.T, t.client)("next")))
		}},
	} {
		for _, back := range []time.Duration{time.Second, time.Minute, time.Hour} {
			t.Run(fmt.Sprintf("%s/%v", test.name, back), func(t *testing.T) {
				withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
					wall := &wallStore{Store: entries.Store}
					entries.Store = wall
					log := fake.Must(idempotency.NewLog(entries, nil))
					test.do(trial{
						T: t, service: service, client: client,
						restore: func(claim bool) {
							bubble.Elapse(time.Minute)
							restored(t, log, idempotency.Restoration{By: "kim", Copy: time.Now().Add(-time.Minute), Claim: claim})
							for range 20 { // the instructions are saved again
								bubble.Elapse(31 * time.Second)
								fake.Must(log.Check(t.Context(), client))
							}
						},
						setBack: func() {
							wall.behind = back
							bubble.Elapse(time.Second)
						},
					})
				})
			})
		}
	}
}
