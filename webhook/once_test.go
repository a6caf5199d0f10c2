package webhook_test

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
	"github.com/lendingapi/lending-go/internal/test/delivery"
	"github.com/lendingapi/lending-go/lendingtest/storetest"
	"github.com/lendingapi/lending-go/webhook"
)

func TestMemoryDeduperKeepsItsContract(t *testing.T) {
	t.Parallel()
	storetest.Deduper(t, func(t *testing.T, opts *webhook.DeduperOptions) func() webhook.Deduper {
		t.Parallel()
		deduper := webhook.NewMemoryDeduper(opts)
		return func() webhook.Deduper { return deduper }
	})
}

// once returns Once over a new memory deduper.
func once(handle webhook.EventFunc) webhook.EventFunc {
	return webhook.Once(webhook.NewMemoryDeduper(nil), handle)
}

func TestOnceActsOnceOnADelivery(t *testing.T) {
	t.Parallel()
	var acted atomic.Int32
	url, observed := receiveAt(t, signedWithTest, once(func(context.Context, *webhook.Event) error {
		acted.Add(1)
		return nil
	}), webhook.ReceiverOptions{})
	for range 3 {
		require.Equal(t, 204, deliver(t, url, delivery.Body, delivery.Signature))
	}
	require.EqualValues(t, 1, acted.Load())
	require.NoError(t, (<-observed).Err)
	require.ErrorIs(t, (<-observed).Err, webhook.ErrDuplicate)

	const other = `{"id":"` + delivery.EventID + `","webhookEvent":"WB_Loan_Opened"}`
	require.Equal(t, 204, deliver(t, url, other, delivery.Sign(other)))
	require.EqualValues(t, 2, acted.Load(), "the envelope id is no key: several events share it")
}

// If the second of two equal deliveries were answered with success before the first has
// succeeded, the event would be lost when the first fails.
func TestOnceAcceptsNothingThatMayStillFail(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan error)
	url, _ := receiveAt(t, signedWithTest, once(func(context.Context, *webhook.Event) error {
		entered <- struct{}{}
		return <-leave
	}), webhook.ReceiverOptions{})
	send := func() int { return deliver(t, url, delivery.Body, delivery.Signature) }
	for _, tt := range []struct {
		err           error
		first, second int
	}{{errors.New("broken"), 500, 503}, {nil, 204, 503}} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			first := make(chan int)
			go func() { first <- send() }()
			<-entered
			require.Equal(t, tt.second, send())
			leave <- tt.err
			require.Equal(t, tt.first, <-first)
		})
	}
	require.Equal(t, 204, send(), "a duplicate")
}

func TestOnceFreesTheKeyAfterAPanic(t *testing.T) {
	deduper, event := webhook.NewMemoryDeduper(nil), parsed(t, delivery.Body)
	require.Panics(t, func() {
		_ = webhook.Once(deduper, func(context.Context, *webhook.Event) error { panic("x") })(t.Context(), event)
	})
	require.NoError(t, webhook.Once(deduper, acceptAll)(t.Context(), event))
	require.ErrorIs(t, webhook.Once(deduper, acceptAll)(t.Context(), event), webhook.ErrDuplicate)
}

func TestOnceRecordsAfterTheSenderHasGone(t *testing.T) {
	deduper, event := webhook.NewMemoryDeduper(nil), parsed(t, delivery.Body)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, webhook.Once(checkedDeduper{deduper, nil}, func(context.Context, *webhook.Event) error {
		cancel()
		return nil
	})(ctx, event))
	require.ErrorIs(t, webhook.Once(deduper, acceptAll)(t.Context(), event), webhook.ErrDuplicate)
}

// A handled event counts as handled although that cannot be recorded.
func TestOnceReportsASuccessThatIsNotRecorded(t *testing.T) {
	gone := errors.New("gone")
	deduper := checkedDeduper{webhook.NewMemoryDeduper(nil), gone}
	err := webhook.Once(deduper, acceptAll)(t.Context(), parsed(t, delivery.Body))
	require.ErrorIs(t, err, webhook.ErrNotRecorded)
	require.ErrorIs(t, err, gone)
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

// An event that the function accepts by an error is done, and the error is returned.
func TestOnceRecordsWhatIsAcceptedByAnError(t *testing.T) {
	for _, accepted := range []error{
		webhook.ErrDuplicate, webhook.ErrNotRecorded, fmt.Errorf("x: %w", webhook.ErrDuplicate),
	} {
		t.Run(accepted.Error(), func(t *testing.T) {
			calls := 0
			handle := once(func(context.Context, *webhook.Event) error {
				calls++
				return accepted
			})
			event := parsed(t, delivery.Body)
			require.ErrorIs(t, handle(t.Context(), event), accepted)
			require.ErrorIs(t, handle(t.Context(), event), webhook.ErrDuplicate)
			require.Equal(t, 1, calls, "the key was free again")
		})
	}
}

// brokenClaims panic when they are told the end.
type brokenClaims struct{}

func (brokenClaims) Claim(context.Context, string) (webhook.Claim, error) { return brokenClaims{}, nil }
func (brokenClaims) Done(context.Context) error                           { panic("done") }
func (brokenClaims) Release(context.Context) error                        { panic("release") }

// A handled event is not sent again because the deduper breaks, and a failure keeps its error.
func TestOnceOutlivesItsClaims(t *testing.T) {
	var handled error
	handle := webhook.Once(brokenClaims{}, func(context.Context, *webhook.Event) error { return handled })
	require.ErrorIs(t, handle(t.Context(), parsed(t, delivery.Body)), webhook.ErrNotRecorded)
	handled = errors.New("later")
	require.ErrorIs(t, handle(t.Context(), parsed(t, delivery.Body)), handled)
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
	const opened = `{"webhookEvent":"WB_Loan_Opened","data":{"loanId":"%d"},"creationTimeUtc":"2024-01-02T03:%02d:05Z"}`
	for _, tt := range []struct {
		name, body string
		want       error
	}{
		{"new", fmt.Sprintf(opened, 1, 4), nil},
		{"sent again", fmt.Sprintf(opened, 1, 5), webhook.ErrDuplicate},
		{"another loan", fmt.Sprintf(opened, 2, 4), nil},
		{"another event", `{"webhookEvent":"WB_Loan_Closed","data":{"loanId":"1"}}`, nil},
		{"without a key", `{"webhookEvent":"WB_Loan_Opened"}`, nil},
		{"another without a key", `{"webhookEvent":"WB_Loan_Opened","x":1}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, handle(t.Context(), parsed(t, tt.body)))
			require.ErrorIs(t, handle(t.Context(), parsed(t, tt.body)), webhook.ErrDuplicate, "again, byte for byte")
		})
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
