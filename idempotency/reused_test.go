package idempotency_test

import (
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

// TestReusedKeyTellsTheOutcome calls with a key that belongs to another request, for every state
// of the entry: a caller who then takes a new key must not be told "not sent" of a mutation that
// happened.
func TestReusedKeyTellsTheOutcome(t *testing.T) {
	lost := lendingtest.Fault{ResetAfter: true}
	for _, test := range []struct {
		name    string
		fault   lendingtest.Fault
		first   error
		then    func(log *idempotency.Log, again func() error) error // what else happens before
		state   store.State
		outcome lending.Outcome
	}{
		{"done", lendingtest.Fault{}, nil, nil, store.Done, lending.OutcomeDone},
		{"forgotten", lendingtest.Fault{}, nil, func(log *idempotency.Log, _ func() error) error {
			bubble.Elapse(31 * 24 * time.Hour)
			_, err := log.Sweep(t.Context())
			return err
		}, store.Forgotten, lending.OutcomeDone},
		{"in doubt", lost, lending.ErrOutcomeUnknown, nil, store.InDoubt, lending.OutcomeUnknown},
		{"needs review", lost, lending.ErrOutcomeUnknown, func(_ *idempotency.Log, again func() error) error {
			if err := again(); !assert.ErrorIs(t, err, idempotency.ErrNeedsReview) {
				return err
			}
			return nil
		}, store.NeedsReview, lending.OutcomeUnknown},
		{"not happened", lost, lending.ErrOutcomeUnknown, func(log *idempotency.Log, _ func() error) error {
			bubble.Elapse(maxLateness)
			return log.Resolve(t.Context(), "the/key", idempotency.Resolution{
				By: "Grace", Why: "asked the service", Verdict: idempotency.NotHappened(),
			})
		}, store.Free, lending.OutcomeNotSent},
	} {
		t.Run(test.name, func(t *testing.T) {
			withStore(t, nil, func(t *testing.T, service *lendingtest.Service, entries *tampered, client *lending.Client) {
				o, log := newOrder(service), fake.Must(idempotency.NewLog(entries, nil))
				ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
				send := func() error { return client.Applications.SendLink(ctx, o.application) }
				if test.first != nil {
					service.Fail("POST /api/Application/send-application-link", test.fault)
				}
				require.ErrorIs(t, send(), test.first)
				if test.then != nil {
					require.NoError(t, test.then(log, send))
				}
				require.Equal(t, test.state, fake.Must(entries.Load(t.Context(), ":the/key")).State)
				err := client.Applications.SendLink(ctx, o.offered)
				require.ErrorIs(t, err, idempotency.ErrKeyReused)
				assert.Equal(t, test.outcome, lending.OutcomeOf(err))
				var failed *lending.Error
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, test.outcome, failed.Outcome)
				assert.Contains(t, err.Error(), "call with the first request")
			})
		})
	}
}

// TestReusedKeyInFlight is TestReusedKeyTellsTheOutcome while the first request is in flight.
func TestReusedKeyInFlight(t *testing.T) {
	keyed(t, func(t *testing.T, service *lendingtest.Service, process func(...lending.Option) *lending.Client) {
		o, ctx := newOrder(service), lending.WithIdempotencyKey(t.Context(), "the/key")
		held, done := make(chan struct{}), make(chan error)
		service.Fail("POST /api/Application/send-application-link",
			lendingtest.Fault{Reached: func() { close(held) }, DelayBefore: time.Second})
		client, other := process(), process()
		go func() { done <- client.Applications.SendLink(ctx, o.application) }()
		<-held
		err := other.Applications.SendLink(ctx, o.offered)
		require.ErrorIs(t, err, idempotency.ErrKeyReused)
		assert.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err))
		require.NoError(t, <-done)
	})
}
