package idempotency_test

import (
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
