package order_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/internal/test/bubble"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
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
			inBackend(t, "", func(b *backend) {
				b.password = func(int, string) string { return "" }
				stale, other := b.start(b.Context(), nil).partner, b.start(b.Context(), nil).partner
				row, err := other.Onboard(b.Context(), b.table.Get(id)) // up to the password
				require.NoError(t, err)
				if test.isLost {
					b.service.Fail(onboarding.Confirm, lendingtest.Fault{ResetAfter: true})
				}
				confirms := func() {
					b.password = func(sending int, loan string) string {
						assert.Zero(t, sending, "asked for another password")
						return b.service.OTP(loan)
					}
					_, _ = other.Onboard(b.Context(), row)
				}
				if test.isBefore {
					confirms()
				} else {
					b.service.Fail(resend, lendingtest.Fault{Status: http.StatusBadRequest, Reached: confirms})
				}
				b.change(func(o *order.Order) { o.Passwords = 1 })
				ctx, stop := context.WithCancel(b.Context())
				var first error
				worker := fake.Must(stale.Worker(b.table, &orders.Options{Report: func(r orders.Result) {
					first = r.Err
					stop()
				}}))
				require.ErrorIs(t, worker.Run(ctx), context.Canceled)
				assert.Equal(t, test.want, b.table.Get(id).State, b.table.Get(id).Reason)
				if test.says == "" {
					require.NoError(t, first)
				} else {
					require.ErrorContains(t, first, test.says)
				}
				assert.Zero(t, b.service.Executed(resend))
				assert.Equal(t, 1, b.service.Executed(onboarding.Confirm))
			})
		})
	}
}
