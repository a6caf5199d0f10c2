package guarantees_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/lendingtest"
)

// panicsWhenAsked is the error of a store that returns a nil pointer as an error: errors.Is
// and errors.As of it panic.
type panicsWhenAsked struct{ cause error }

func (e *panicsWhenAsked) Error() string { return e.cause.Error() }
func (e *panicsWhenAsked) Unwrap() error { return e.cause }

func TestStoreWhoseErrorPanicsWhileALeaseIsProlonged(t *testing.T) {
	fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
		store, acquired := newHookedStore(), 0
		store.before(func(_ context.Context, step string) error {
			if step == "acquire" {
				if acquired++; acquired > 1 {
					var none *panicsWhenAsked
					return none
				}
			}
			return nil
		})
		service.Fail(fake.LoginRoute, lendingtest.Fault{Delay: 5 * time.Second})
		client := fake.SignIn(t, service, nil, lending.WithTokenStore(store))
		require.NoError(t, read(t.Context(), client))
		assert.Greater(t, acquired, 1)
	})
}
