package idempotency_test

import (
	"context"
	"testing"
	"testing/synctest"
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

// TestAnswerThatNoReadRebuilds cuts the responses of mutations without a check: the log resends where a
// second execution is safe, the caller's check finds the response, or a person supplies it.
func TestAnswerThatNoReadRebuilds(t *testing.T) {
	const route = "POST /api/Loan/make-withdrawal-invoice/{loanId}"
	given := map[string]any{"advanceRate": 0.75}
	says := func(v idempotency.Verdict) keyOption {
		return withCheck(func(context.Context) (idempotency.Verdict, error) { return v, nil })
	}
	for _, test := range []struct {
		name     string
		opts     []keyOption
		want     error
		executed int
	}{
		{"as it is", nil, idempotency.ErrAnswerLost, 1},
		{"safe to repeat", []keyOption{idempotency.SafeToRepeat}, nil, 2},
		{"a check finds it", []keyOption{says(idempotency.Happened(given))}, nil, 1},
		{"a check does not", []keyOption{says(idempotency.NotHappened())}, idempotency.ErrAnswerLost, 1},
		{"a check cannot tell", []keyOption{says(idempotency.NeedsReview("who knows"))}, idempotency.ErrAnswerLost, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				before := service.Executed(route)
				withdraw := func(opts ...keyOption) (*lending.InvoiceWithdrawal, error) {
					return client.Loans.WithdrawInvoice(withKey(t.Context(), "the/key", opts...), o.loan,
						lending.InvoiceWithdrawalRequest{Calculation: *fake.Invoice()})
				}
				service.Fail(route, lendingtest.Fault{CutBody: 10})
				_, err := withdraw(test.opts...)
				require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
				require.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
				for range 3 {
					_, err = withdraw(test.opts...)
					require.ErrorIs(t, err, test.want)
					if err != nil {
						require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
						require.Len(t, fake.Must(log.Keys(t.Context(), doubtful)), 1)
						bubble.Elapse(maxLateness)
					}
				}
				assert.Equal(t, test.executed, service.Executed(route)-before)
				if err == nil {
					return
				}
				said := idempotency.Resolution{By: "Grace", Why: "asked", Verdict: idempotency.NotHappened()}
				require.ErrorAs(t, log.Resolve(t.Context(), "the/key", said), new(*lending.ArgumentError))
				said.Verdict = idempotency.Happened(given)
				require.NoError(t, log.Resolve(t.Context(), "the/key", said))
				answer, err := withdraw(test.opts...)
				require.NoError(t, err)
				assert.Equal(t, "0.75", answer.AdvanceRate.String())
				assert.Empty(t, fake.Must(log.Keys(t.Context(), doubtful)))
				assert.Equal(t, 1, service.Executed(route)-before)
			})
		})
	}
}

// TestCutValueIsResent unless another mutation has set a newer one.
func TestCutValueIsResent(t *testing.T) {
	for _, test := range []struct {
		name  string
		newer bool
		want  error
		value string
	}{
		{"the newest", false, nil, "Old"},
		{"a newer one", true, idempotency.ErrAnswerLost, "New"},
	} {
		t.Run(test.name, func(t *testing.T) {
			keyed(t, func(t *testing.T, service *lendingtest.Service, process newClient) {
				o, client := newOrder(service), process()
				set := func(value string) error {
					ctx := lending.WithIdempotencyKey(t.Context(), value)
					_, err := client.Applications.UpdateName(ctx, o.application, value)
					return err
				}
				service.Fail(renameRoute, lendingtest.Fault{CutBody: 1})
				require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(set("Old")))
				if test.newer {
					require.NoError(t, set("New"), "what has happened keeps no lock")
				}
				for range 2 {
					require.ErrorIs(t, set("Old"), test.want)
				}
				assert.Equal(t, test.value, service.Snapshot().Applications[1].BusinessName)
			})
		})
	}
}

// TestConfirmedMutationIsNotResent although no read shows it: reads lag behind, or never show it.
func TestConfirmedMutationIsNotResent(t *testing.T) {
	for _, test := range []struct {
		name string
		lag  time.Duration
		want error
	}{
		{"later", 10 * time.Second, nil},
		{"never", time.Hour, idempotency.ErrAnswerLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := lendingtest.New(lendingtest.WithReadLag(test.lag))
				defer service.Close()
				o, log := newOrder(service), fake.Must(idempotency.NewLog(store.NewMemory(), nil))
				client := processWith(t, service, log)
				create := o.createsID(t, client)
				service.Fail(createApplicationRoute, lendingtest.Fault{CutBody: 5})
				var id lending.ApplicationID
				var err error
				for calls, begun := 0, time.Now(); time.Since(begun) < 10*time.Minute; calls++ {
					require.Less(t, calls, 20, "the waits grow")
					if id, err = create("the/key"); err == nil {
						break
					}
					require.Equal(t, lending.OutcomeDone, lending.OutcomeOf(err))
					var failed *lending.Error
					require.ErrorAs(t, err, &failed)
					bubble.Elapse(max(failed.RetryAfter, time.Second))
					if failed.RetryAfter == 0 && calls > 0 { // a person is needed
						break
					}
				}
				require.ErrorIs(t, err, test.want)
				assert.Equal(t, 1, service.Executed(createApplicationRoute))
				if err == nil {
					all := service.Snapshot().Applications
					assert.Equal(t, all[len(all)-1].ID, id.String())
				}
			})
		})
	}
}

// TestSweptResponsesAreRebuilt sweeps the answers of a whole order, which then begins at the top
// again: each step is done, with its answer, and nothing is executed twice.
func TestSweptResponsesAreRebuilt(t *testing.T) {
	for name, test := range lostAnswers {
		t.Run(name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				before := service.Executed(test.route)
				ctx := lending.WithIdempotencyKey(t.Context(), "the/key")
				first, err := test.call(ctx, client, o)
				require.NoError(t, err)
				bubble.Elapse(31 * 24 * time.Hour)
				require.Equal(t, 1, fake.Must(log.Sweep(t.Context())))
				require.Zero(t, fake.Must(log.Sweep(t.Context())))
				again, err := test.call(ctx, process(), o)
				require.NoError(t, err)
				assert.Equal(t, first, again)
				assert.Equal(t, before+1, service.Executed(test.route))
			})
		})
	}
}

// TestSweptCalculationIsResent unless a newer one has been made since.
func TestSweptCalculationIsResent(t *testing.T) {
	for _, test := range []struct {
		name     string
		newer    bool
		want     error
		executed int
	}{
		{"the newest", false, nil, 2},
		{"a newer one", true, nil, 2}, // the value is not of now, and the record is empty
	} {
		t.Run(test.name, func(t *testing.T) {
			withLog(t, func(t *testing.T, service *lendingtest.Service, process newClient, log *idempotency.Log) {
				o, client := newOrder(service), process()
				prepareOrder(t, client, &o)
				loan := fake.Must(client.Loans.Get(t.Context(), o.loan))
				before := service.Executed("POST /api/Calculation/application-invoice-calculation")
				calculate := func(key string) error {
					_, err := client.Calculation.Invoice(lending.WithIdempotencyKey(t.Context(), key), loan.ApplicationID,
						fake.Invoice())
					return err
				}
				require.NoError(t, calculate("old"))
				if test.newer {
					require.NoError(t, calculate("new"))
				}
				bubble.Elapse(31 * 24 * time.Hour)
				fake.Must(log.Sweep(t.Context()))
				require.ErrorIs(t, calculate("old"), test.want)
				assert.Equal(t, test.executed, service.Executed("POST /api/Calculation/application-invoice-calculation")-before)
			})
		})
	}
}
