package order_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/internal/test/wire"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
)

// Two replicas read the row of an order, and one saves it. The save of the other counts only if the money has moved.
func TestSaveOfAStaleRow(t *testing.T) {
	mistyped := func(o *order.Order) { o.Passwords++ }
	isOver := func(o *order.Order) { o.State, o.Reason = order.Over, "three wrong passwords" }
	isDone := func(o *order.Order) { o.State = order.Done }
	for _, test := range []struct {
		name          string
		first, second func(*order.Order)
		want          func(*order.Order)
		isSaved       bool
	}{
		{"the same mistake", mistyped, mistyped, mistyped, false},
		{"over after a mistake", mistyped, isOver, mistyped, false},
		{"over after done", isDone, isOver, isDone, false},
		{"done after over", isOver, isDone, isDone, true},
		{"done after a mistake", mistyped, isDone, isDone, true},
		{"nothing new", mistyped, func(*order.Order) {}, mistyped, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, _ := order.Orders(1)
			table, row, stale := order.NewTable(all...), all[0], all[0]
			test.first(&row)
			require.True(t, table.Save(row))
			test.second(&stale)
			assert.Equal(t, test.isSaved, table.Save(stale))
			want := all[0]
			test.want(&want)
			got := table.Get(id)
			assert.Equal(t, 1+map[bool]int{true: 1}[test.isSaved], got.Version)
			got.Version = 0
			assert.Equal(t, want, got)
		})
	}
}

// Another replica changes the row during a step: the step runs again at once, not with the next pass.
func TestStepWithAStaleRowRunsAgain(t *testing.T) {
	inBackend(t, "", func(b *backend) {
		var asked []time.Time
		b.password = func(sending int, loan string) string {
			if asked = append(asked, time.Now()); sending == 0 {
				b.change(func(o *order.Order) { o.Passwords++ })
				return ""
			}
			return b.service.OTP(loan)
		}
		b.run(1, time.Hour)
		require.Len(t, asked, 2)
		assert.Less(t, asked[1].Sub(asked[0]), 5*time.Second)
	})
}

// The response to a second processing is lost, and a replica with a row from before signs: the order has its loan.
func TestStaleStepSignsAfterALostProcessing(t *testing.T) {
	inBackend(t, "", func(b *backend) {
		b.password = func(int, string) string { return "" }
		b.expireAt(onboarding.Sign, 1)
		first, second := b.start(b.Context(), nil).partner, b.start(b.Context(), nil).partner
		row := b.table.Get(id)
		stale, err := first.Onboard(b.Context(), row)
		row = stale
		row.End(err)
		require.Equal(t, 1, row.Offers, err)
		b.service.Fail(onboarding.Process, lendingtest.Fault{ResetAfter: true})
		_, err = first.Onboard(b.Context(), row)
		require.Equal(t, lending.OutcomeUnknown, lending.OutcomeOf(err), err)
		_, err = second.Onboard(b.Context(), stale)
		require.NoError(t, err)
		bubble.Elapse(10 * time.Minute)
		_, err = first.Onboard(b.Context(), row)
		require.NoError(t, err)
		assert.Equal(t, 2, b.service.Executed(onboarding.Process))
	})
}

// A replica goes on with a row from before the confirmation by another replica: the order is done, and no
// password is sent or asked for again.
func TestStaleStepOfAConfirmedOrder(t *testing.T) {
	const confirm = "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"
	const resend = "POST /api/Loan/resend-withdrawal-otp/{loanId}"
	for _, test := range []struct {
		name     string
		isBefore bool // the confirmation comes before the step; else before its resend
		isLost   bool // the response to the confirmation
		want     order.State
		says     string // the error of the step; "" for none
	}{
		{"before the step", true, false, order.Done, ""},
		{"before the step, and its response is lost", true, true, order.Done, ""},
		{"before the resend, which the service refuses", false, false, order.Done, "InjectedFault"},
		{"before the resend, and its response is lost", false, true, order.Open, "the log will know"},
	} {
		t.Run(test.name, func(t *testing.T) {
			service := lendingtest.NewServer()
			defer service.Close()
			entries := store.NewMemory()
			var confirms func()
			isResend := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "resend-withdrawal-otp") }
			transport := wire.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if isResend(r) {
					confirms()
				}
				return http.DefaultTransport.RoundTrip(r)
			})
			replica := func(ask string, opts ...lending.Option) *order.Partner {
				log := fake.Must(idempotency.NewLog(entries, &idempotency.Options{SafeToRepeat: order.SafeToRepeat}))
				client := fake.Must(lending.New(service.URL, append(opts, lending.WithIdempotency(log),
					lending.WithTokenSource(lending.StaticToken(service.Token(lendingtest.Username))),
					lending.WithAccount(lendingtest.Username))...))
				t.Cleanup(client.Close)
				return &order.Partner{
					Client: client, Log: log,
					Ask: func(_ context.Context, _ order.Order, loan lending.LoanID, sending int) (lending.Secret, error) {
						assert.Zero(t, sending, "asked for another password")
						return lending.NewSecret(strings.Repeat(service.OTP(loan.String()), len(ask))), nil
					},
				}
			}
			all, _ := order.Orders(1)
			_, err := replica("").Onboard(t.Context(), all[0]) // up to the password
			require.NoError(t, err)
			if test.isLost {
				service.Fail(confirm, lendingtest.Fault{ResetAfter: true})
			}
			confirms = func() { _, _ = replica("1").Onboard(t.Context(), all[0]) }
			if test.isBefore {
				confirms()
			} else {
				service.Fail(resend, lendingtest.Fault{Status: http.StatusBadRequest})
			}

			stale := all[0]
			stale.Passwords = 1
			table := order.NewTable(stale)
			ctx, stop := context.WithCancel(t.Context())
			partner := replica("never", lending.WithHTTPClient(&http.Client{Transport: transport}))
			var first error
			worker := fake.Must(partner.Worker(table, &orders.Options{Report: func(r orders.Result) {
				first = r.Err
				stop()
			}}))
			require.ErrorIs(t, worker.Run(ctx), context.Canceled)
			assert.Equal(t, test.want, table.Get(id).State, table.Get(id).Reason)
			if test.says == "" {
				require.NoError(t, first)
			} else {
				require.ErrorContains(t, first, test.says)
			}
			assert.Zero(t, service.Executed(resend))
			assert.Equal(t, 1, service.Executed(confirm))
		})
	}
}
