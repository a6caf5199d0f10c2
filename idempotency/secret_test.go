package idempotency_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/catalog"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestEntriesHoldNoSecret(t *testing.T) {
	const canary = "C4n4ry-5ecret!"
	withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
		var kept []store.Entry
		entries.save = func(entry store.Entry) error { kept = append(kept, entry); return nil }
		user := fake.Newcomer()
		user.Password, user.Extra = lending.NewSecret(canary), catalog.Unpublished{"token": lending.NewSecret(canary)}
		fake.Must(client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "customer"), user))
		_, err := client.Applications.UpdateCustomerData(lending.WithIdempotencyKey(t.Context(), "data"),
			catalog.Application, lending.CustomerData{
				FirstName: "Ada", LastName: "L", Address: "1", State: "CA", City: "SF", SSN: lending.NewSecret(canary),
				Mobile: "4155550100", DateOfBirth: catalog.Born,
			})
		require.Error(t, err)
		require.Len(t, kept, 4)
		for _, entry := range kept {
			assert.NotContains(t, string(entry.Data)+entry.Key+entry.Lock, canary)
			assert.NotContains(t, entry.Lock, user.Email)
		}
		assert.NotContains(t, string(kept[0].Data), user.Email, "no body of a request")
		assert.Contains(t, string(service.Requests()[1].Body)+string(service.Requests()[2].Body)+
			string(service.Requests()[3].Body), canary)
	})
}

// loudError is an error of a caller's store with a quoted value, and fmt prints the value from within a
// struct.
type loudError string

func (e loudError) Error() string { return string(e) }

func TestErrorOfAKeyQuotesNoCause(t *testing.T) {
	withStore(t, nil, func(t *testing.T, _ *lendingtest.Service, entries *tampered, client *lending.Client) {
		const canary = "C4n4ry-5ecret!"
		entries.load = func(string) error { return loudError(canary) }
		_, err := client.Applications.CreateCustomer(lending.WithIdempotencyKey(t.Context(), "the/key"),
			fake.Newcomer())
		var refused *idempotency.Error
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, loudError(canary))
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%t"} {
			assert.NotContains(t, fmt.Sprintf(verb, refused), canary, verb)
		}
	})
}

// TestObserverContextHasNoKey has a call observer read with the context of the call.
func TestObserverContextHasNoKey(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
		o, reader := newOrder(service), process()
		client := process(lending.WithObserver(func(ctx context.Context, c lending.Call) (context.Context,
			func(lending.Call),
		) {
			_, err := reader.Applications.Status(ctx, o.application)
			assert.NoError(t, err)
			return ctx, nil
		}, nil))
		require.NoError(t, client.Applications.SendLink(lending.WithIdempotencyKey(t.Context(), "the/key"),
			o.application))
	})
}

// TestEncryptedEntryIsOfItsState returns, to an encrypted store, the data of an entry as that
// of another key, revision or state.
func TestEncryptedEntryIsOfItsState(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*store.Entry)
		want   error
	}{
		{"unchanged", func(*store.Entry) {}, nil},
		{"another key", func(e *store.Entry) { e.Key = "other" }, store.ErrCorrupt},
		{"a later revision", func(e *store.Entry) { e.Revision++ }, store.ErrCorrupt},
		{"another state", func(e *store.Entry) { e.State = store.Done }, store.ErrCorrupt},
		{"a changed byte", func(e *store.Entry) { e.Data[20] ^= 1 }, store.ErrCorrupt},
		{"no data", func(e *store.Entry) { e.Data = nil }, store.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			inner := &lastSaved{}
			entries := fake.Must(store.NewEncrypted(inner, bytes.Repeat([]byte("k"), 32)))
			entry := store.Entry{Key: "key", State: store.Free, Lock: "lock", Data: []byte("data")}
			require.NoError(t, entries.Save(t.Context(), entry))
			inner.next = &inner.saved[0]
			test.change(inner.next)
			loaded, err := entries.Load(t.Context(), "key")
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				entry.Revision = 1
				assert.Equal(t, &entry, loaded)
			}
		})
	}
}

// TestEncryptedLocksNeedTheKey saves the same lock with two keys. The stored texts differ, so
// nobody without the key can recognize the lock.
func TestEncryptedLocksNeedTheKey(t *testing.T) {
	locks := map[string]bool{"lock": true}
	for _, key := range []string{"a", "b", "a"} {
		t.Run(key, func(t *testing.T) {
			inner := &lastSaved{}
			entries := fake.Must(store.NewEncrypted(inner, bytes.Repeat([]byte(key), 32)))
			entry := store.Entry{Key: "key", State: store.Free, Lock: "lock"}
			require.NoError(t, entries.Save(t.Context(), entry))
			locks[inner.saved[0].Lock] = true
		})
	}
	assert.Len(t, locks, 3, "one of each key, and none that is the plain text")
}
