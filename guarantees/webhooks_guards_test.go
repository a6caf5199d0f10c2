package guarantees_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/webhook"
)

// nilError is what a function returns that returns a nil *nilError as an error: whoever
// asks it for its cause panics.
type nilError struct{ cause error }

func (e *nilError) Error() string { return e.cause.Error() }
func (e *nilError) Unwrap() error { return e.cause }

func returnsNilError() error {
	var none *nilError
	return none
}

// noTries is an inbox that does not count.
type noTries struct {
	webhook.Inbox
	retried chan time.Duration
}

func (n noTries) Take(ctx context.Context) (*webhook.InboxEntry, error) {
	entry, err := n.Inbox.Take(ctx)
	if err == nil {
		entry.Tries = 0
	}
	return entry, err
}

func (n noTries) Retry(_ context.Context, _ *webhook.InboxEntry, wait time.Duration) error {
	n.retried <- wait
	return nil
}

func TestWorkOutlivesAnInboxThatDoesNotCount(t *testing.T) {
	inbox := noTries{webhook.NewMemoryInbox(), make(chan time.Duration)}
	require.NoError(t, inbox.Put(t.Context(), parsed(t, deliveryBody)))
	go webhook.Work(t.Context(), inbox, func(context.Context, *webhook.Event) error { return assert.AnError }, nil)
	assert.LessOrEqual(t, <-inbox.retried, 5*time.Second)
}

// An error of the caller's can panic when it is asked what it is.
func TestErrorsThatPanic(t *testing.T) {
	t.Run("of the function", func(t *testing.T) {
		inbox, tried := webhook.NewMemoryInbox(), make(chan webhook.Result)
		require.NoError(t, inbox.Put(t.Context(), parsed(t, deliveryBody)))
		go webhook.Work(t.Context(), inbox, func(context.Context, *webhook.Event) error { return returnsNilError() },
			&webhook.WorkOptions{Observe: func(h webhook.Result) { tried <- h }})
		var panicked *lending.PanicError
		require.ErrorAs(t, (<-tried).Err, &panicked)
		assert.Contains(t, string(panicked.Stack), "nilError")
	})
	t.Run("of the receiver's function", func(t *testing.T) {
		var told webhook.Delivery
		receiver := newReceiver(t, signedWithTest,
			func(context.Context, *webhook.Event) error { return returnsNilError() },
			&webhook.ReceiverOptions{Observe: func(d webhook.Delivery) { told = d }})
		assert.Equal(t, http.StatusInternalServerError, deliverInMemory(t, receiver, deliveryBody))
		require.ErrorAs(t, told.Err, new(*lending.PanicError))
	})
	t.Run("of the store while a lease is prolonged", func(t *testing.T) {
		fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
			store, acquired := newHookedStore(), 0
			store.before(func(_ context.Context, step string) error {
				if step == "acquire" {
					if acquired++; acquired > 1 {
						return returnsNilError()
					}
				}
				return nil
			})
			service.Fail(fake.LoginRoute, lendingtest.Fault{Delay: 5 * time.Second})
			client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
			require.NoError(t, read(t.Context(), client))
			assert.Greater(t, acquired, 1)
		})
	})
}

// brokenClaims panic when they are told what became of them.
type brokenClaims struct{}

func (brokenClaims) Claim(context.Context, string) (webhook.Claim, error) { return brokenClaims{}, nil }
func (brokenClaims) Done(context.Context) error                           { panic("done") }
func (brokenClaims) Release(context.Context) error                        { panic("release") }

// What was acted on is not sent again because the deduper breaks, and what failed keeps its error.
func TestOnceOutlivesItsClaims(t *testing.T) {
	handled := error(nil)
	once := webhook.Once(brokenClaims{}, func(context.Context, *webhook.Event) error { return handled })
	require.ErrorIs(t, once(t.Context(), parsed(t, deliveryBody)), webhook.ErrNotRecorded)
	handled = errors.New("later")
	require.ErrorIs(t, once(t.Context(), parsed(t, deliveryBody)), handled)
}
