package idempotency_test

import (
	"fmt"
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

// copyOf returns a copy of a store, with ages of 0.
func copyOf(t *testing.T, entries store.Store) store.Store {
	t.Helper()
	all := store.Filter{States: append(idempotency.InDoubtStates(), store.Free, store.Done, store.Forgotten), Limit: 100}
	earlier := store.NewMemory()
	for entry, err := range store.All(t.Context(), entries, all) {
		require.NoError(t, err)
		revision := entry.Revision
		for entry.Revision = 0; entry.Revision < revision; entry.Revision++ {
			require.NoError(t, earlier.Save(t.Context(), entry))
		}
	}
	return earlier
}

// TestLogThatWentBackSendsNothing has a store restored from a copy while the processes run, and nobody says so.
func TestLogThatWentBackSendsNothing(t *testing.T) {
	for _, test := range []struct {
		name  string
		since func(*testing.T, *idempotency.Log, *lending.Client) // the copy
	}{
		{"after a pause", func(t *testing.T, log *idempotency.Log, _ *lending.Client) {
			t.Helper()
			for range 3 {
				require.NoError(t, log.Pause(t.Context(), incident))
				require.NoError(t, log.Resume(t.Context()))
			}
			require.NoError(t, log.Pause(t.Context(), incident))
		}},
		{"after a minute", func(t *testing.T, log *idempotency.Log, client *lending.Client) {
			t.Helper()
			for range 6 {
				bubble.Elapse(30 * time.Second)
				fake.Must(log.Check(t.Context(), client))
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, _ *lending.Client) {
				log := fake.Must(idempotency.NewLog(entries, nil))
				client := processWith(t, service, log)
				restored(t, log, copyOfAnHourAgo()) // from an earlier copy
				bubble.Elapse(time.Hour)
				fake.Must(log.Check(t.Context(), client))
				earlier := copyOf(t, entries)
				patiently(t, func() error { return creation(t, client, fake.Ada())("before") })
				test.since(t, log, client)
				bubble.Elapse(time.Second)
				fake.Must(log.Lookup(t.Context(), "unknown"))

				entries.Store = earlier
				bubble.Elapse(time.Second)
				err := creation(t, client, fake.Ada())("before")
				require.ErrorIs(t, err, idempotency.ErrStore)
				require.ErrorContains(t, err, "the store is older than before")
				assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
				require.ErrorIs(t, log.Ready(t.Context()), idempotency.ErrStore)
				_, err = log.Check(t.Context(), client)
				require.ErrorIs(t, err, idempotency.ErrStore)

				restored(t, fake.Must(idempotency.NewLog(entries, nil)), copyOfAnHourAgo())
				bubble.Elapse(time.Second)
				sent := service.Executed(fake.CreateRoute)
				require.NoError(t, creation(t, client, fake.Ada())("before"), "found by the e-mail address")
				assert.Equal(t, sent, service.Executed(fake.CreateRoute))
				require.NoError(t, log.Ready(t.Context()))
			})
		})
	}
}

// TestSecondRestoreKeepsNoIndex has the store restored from a copy while a process with an index runs: new entries
// stand in the list where the process has read others before. The link of a new application is sent at once.
func TestSecondRestoreKeepsNoIndex(t *testing.T) {
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		earlier := store.NewMemory()
		for i := range 2 {
			restored(t, fake.Must(idempotency.NewLog(entries, nil)), copyOfAnHourAgo())
			bubble.Elapse(maxLateness)
			for j := range 3 {
				key := fmt.Sprintf("%d/%d/", i, j)
				user := fake.Must(client.Applications.CreateCustomer(withKey(t.Context(), key+"customer"), fake.Newcomer()))
				application := fake.Must(order{service: service, customer: user.ID}.createsID(t, client)(key + "application"))
				require.NoError(t, client.Applications.SendLink(withKey(t.Context(), key+"link"), application), key)
				bubble.Elapse(time.Minute)
			}
			entries.Store = earlier
		}
	})
}
