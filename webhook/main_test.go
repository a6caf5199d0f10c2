package webhook_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/internal/test/leak"
	"github.com/lendingapi/lending-go/webhook"
)

func TestMain(m *testing.M) { leak.Main(m) }

var signedWithTest = webhook.SignedWith(lending.NewSecret(delivery.Secret))

func acceptAll(context.Context, *webhook.Event) error { return nil }

func parsed(t *testing.T, body string) *webhook.Event {
	t.Helper()
	event, err := webhook.Parse([]byte(body))
	require.NoError(t, err)
	return event
}

// panicsWhenAsked is the error of a function that returns a nil pointer as an error: errors.Is
// and errors.As of it panic.
type panicsWhenAsked struct{ cause error }

func (e *panicsWhenAsked) Error() string { return e.cause.Error() }
func (e *panicsWhenAsked) Unwrap() error { return e.cause }

func returnsNilPointer(context.Context, *webhook.Event) error {
	var none *panicsWhenAsked
	return none
}
