package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
)

func TestMemoryDeduperKeepsItsContract(t *testing.T) {
	storetest.Deduper(t, func(_ *testing.T, opts *webhook.DeduperOptions) func() webhook.Deduper {
		deduper := webhook.NewMemoryDeduper(opts)
		return func() webhook.Deduper { return deduper }
	})
}

func parsed(t *testing.T, body string) *webhook.Event {
	t.Helper()
	event, err := webhook.Parse([]byte(body))
	require.NoError(t, err)
	return event
}

func TestOnceActsOnceOnADelivery(t *testing.T) {
	t.Parallel()
	var acted atomic.Int32
	url, observed := receiveAt(t, signedWithTest, webhook.Once(webhook.NewMemoryDeduper(nil), func(context.Context, *webhook.Event) error {
		acted.Add(1)
		return nil
	}), webhook.ReceiverOptions{})
	for range 3 {
		require.Equal(t, 204, deliver(t, url, deliveryBody, deliverySigned))
	}
	require.EqualValues(t, 1, acted.Load())
	require.NoError(t, (<-observed).Err)
	require.ErrorIs(t, (<-observed).Err, webhook.ErrDuplicate)

	// The envelope id is no key: another event may have the same one.
	other := `{"id":"` + eventID + `","webhookEvent":"WB_Loan_Opened"}`
	require.Equal(t, 204, deliver(t, url, other, signed(other)))
	require.EqualValues(t, 2, acted.Load())
}

// To answer the second of two equal deliveries with success before the first has
// succeeded would lose the event if the first fails.
func TestOnceAcceptsNothingThatMayStillFail(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan error)
	url, _ := receiveAt(t, signedWithTest, webhook.Once(webhook.NewMemoryDeduper(nil), func(context.Context, *webhook.Event) error {
		entered <- struct{}{}
		return <-leave
	}), webhook.ReceiverOptions{})
	for _, test := range []struct {
		err           error
		first, second int
	}{{errors.New("broken"), 500, 503}, {nil, 204, 503}} {
		first := make(chan int)
		go func() { first <- deliver(t, url, deliveryBody, deliverySigned) }()
		<-entered
		require.Equal(t, test.second, deliver(t, url, deliveryBody, deliverySigned))
		leave <- test.err
		require.Equal(t, test.first, <-first)
	}
	require.Equal(t, 204, deliver(t, url, deliveryBody, deliverySigned), "swallowed")
}

func TestOnceFreesTheKeyAfterAPanic(t *testing.T) {
	deduper := webhook.NewMemoryDeduper(nil)
	event := parsed(t, deliveryBody)
	require.Panics(t, func() {
		_ = webhook.Once(deduper, func(context.Context, *webhook.Event) error { panic("x") })(t.Context(), event)
	})
	require.NoError(t, webhook.Once(deduper, acceptAll)(t.Context(), event))
	require.ErrorIs(t, webhook.Once(deduper, acceptAll)(t.Context(), event), webhook.ErrDuplicate)
}

// What has been acted on is recorded although the sender has hung up, and counts as
// acted on although it cannot be recorded.
func TestOnceRecordsAfterTheSenderHasGone(t *testing.T) {
	deduper := webhook.NewMemoryDeduper(nil)
	ctx, cancel := context.WithCancel(t.Context())
	event := parsed(t, deliveryBody)
	require.NoError(t, webhook.Once(checkedDeduper{deduper, nil}, func(context.Context, *webhook.Event) error {
		cancel()
		return nil
	})(ctx, event))
	require.ErrorIs(t, webhook.Once(deduper, acceptAll)(t.Context(), event), webhook.ErrDuplicate)

	gone := errors.New("gone")
	err := webhook.Once(checkedDeduper{webhook.NewMemoryDeduper(nil), gone}, acceptAll)(t.Context(), event)
	require.ErrorIs(t, err, webhook.ErrNotRecorded)
	require.ErrorIs(t, err, gone)
}

// What the function accepts by an error is done, and the error is told.
func TestOnceRecordsWhatIsAcceptedByAnError(t *testing.T) {
	for _, accepted := range []error{webhook.ErrDuplicate, webhook.ErrNotRecorded, fmt.Errorf("x: %w", webhook.ErrDuplicate)} {
		calls := 0
		handle := webhook.Once(webhook.NewMemoryDeduper(nil), func(context.Context, *webhook.Event) error {
			calls++
			return accepted
		})
		event := parsed(t, deliveryBody)
		require.ErrorIs(t, handle(t.Context(), event), accepted)
		require.ErrorIs(t, handle(t.Context(), event), webhook.ErrDuplicate)
		require.Equal(t, 1, calls, "the key was free again after %v", accepted)
	}
}

// checkedDeduper heeds contexts, as one over a network does, and can fail to record.
type checkedDeduper struct {
	webhook.Deduper
	err error
}

func (d checkedDeduper) Claim(ctx context.Context, key string) (webhook.Claim, error) {
	claim, err := d.Deduper.Claim(ctx, key)
	return checkedClaim{claim, d.err}, err
}

type checkedClaim struct {
	webhook.Claim
	err error
}

func (c checkedClaim) Done(ctx context.Context) error {
	return errors.Join(ctx.Err(), c.err, c.Claim.Done(ctx))
}

func TestOnceByAKeyOfOnesOwn(t *testing.T) {
	deduper := webhook.NewMemoryDeduper(nil)
	var acted int
	byLoan := func(event *webhook.Event) string {
		var data struct{ LoanID string }
		if event.Data.Decode(&data) != nil || data.LoanID == "" {
			return ""
		}
		return string(event.Name) + " " + data.LoanID
	}
	handle := webhook.Once(deduper, webhook.OnceBy(deduper, byLoan, func(context.Context, *webhook.Event) error {
		acted++
		return nil
	}))
	for _, test := range []struct {
		body string
		want error
	}{
		{`{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"1"},"creationTimeUtc":"2024-01-02T03:04:05Z"}`, nil},
		{`{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"1"},"creationTimeUtc":"2024-01-02T03:05:05Z"}`, webhook.ErrDuplicate}, // sent again
		{`{"webhookEvent":"WB_Loan_Closed","data":{"loanId":"1"}}`, nil},
		{`{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"2"}}`, nil},
		{`{"webhookEvent":"WB_Loan_Opened"}`, nil},
		{`{"webhookEvent":"WB_Loan_Opened","x":1}`, nil}, // without a key each is acted on
	} {
		require.Equal(t, test.want, handle(t.Context(), parsed(t, test.body)), test.body)
		require.ErrorIs(t, handle(t.Context(), parsed(t, test.body)), webhook.ErrDuplicate, "again, byte for byte")
	}
	require.Equal(t, 5, acted)
}

func TestMemoryDeduperUnderManyClaims(t *testing.T) {
	t.Parallel()
	deduper := webhook.NewMemoryDeduper(&webhook.DeduperOptions{Keep: time.Hour})
	var acted atomic.Int32
	handle := webhook.Once(deduper, func(context.Context, *webhook.Event) error {
		acted.Add(1)
		return nil
	})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 200 {
				event := &webhook.Event{Name: lending.EventName(rune('a' + i))}
				for errors.Is(handle(t.Context(), event), webhook.ErrClaimed) {
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 200, acted.Load())
}
