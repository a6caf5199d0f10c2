package order_test

import (
	"fmt"
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
	"github.com/lendingapi/lending-go/lendingtest"
)

// TestOrderGoesOnInARestoredLog restores the log from a copy of this moment. No order needs a person, and none waits
// for the end of the restoration, which takes 30 days.
func TestOrderGoesOnInARestoredLog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		before, after func(b *backend) // the restore
	}{
		{
			"accepted after the restore, by a returning customer", func(b *backend) {
				known := b.service.AddCustomer(lendingtest.Customer{Email: b.table.Get(id).Email})
				b.service.AddApplication(lendingtest.Application{CustomerID: known.ID})
			},
			func(b *backend) { b.change(func(o *order.Order) { o.Accepted = time.Now() }) },
		},
		{
			"offer expired", func(b *backend) {
				b.service.SetDecision(lendingtest.Decision{After: time.Minute})
				b.run(1, 30*time.Second)
				b.expireAt(onboarding.Sign, 1)
			},
			func(*backend) {},
		},
		{
			"wrong password", func(b *backend) {
				b.password = func(int, string) string { return "" }
				b.run(1, 30*time.Second)
				b.password = func(int, string) string { return "000000" }
				o, err := b.start(b.Context(), nil).partner.Onboard(b.Context(), b.table.Get(id))
				require.Equal(b, lending.OutcomeRejected, lending.OutcomeOf(err))
				o.End(err)
				require.True(b, b.table.Save(o))
			},
			func(b *backend) {
				b.password = func(sending int, loan string) string {
					return map[bool]string{true: b.service.OTP(loan)}[sending > 0]
				}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBackend(t, "", func(b *backend) {
				test.before(b)
				bubble.Elapse(time.Second)
				log := b.start(b.Context(), nil).log
				require.NoError(t, log.Restored(t.Context(), idempotency.Restoration{By: "kim", Copy: time.Now()}))
				require.NoError(t, log.Resume(t.Context()))
				bubble.Elapse(time.Second)
				test.after(b)
				b.run(1, 12*time.Hour)
				assert.Equal(t, order.Done, b.table.Get(id).State, b.table.Get(id))
				assert.Zero(t, b.persons)
				assert.Equal(t, 1, b.service.Executed(onboarding.CreateApplication))
				assert.Equal(t, 1, b.service.Executed(onboarding.Confirm))
			})
		})
	}
}

// TestRefusedWithdrawalOfALostConfirmation has a restored log without the withdrawal and its confirmation, and a loan
// that is disabled since. A person says that the withdrawal has not begun. If money has moved, a person decides about
// the confirmation as well; else the order is over.
func TestRefusedWithdrawalOfALostConfirmation(t *testing.T) {
	t.Parallel()
	for _, moved := range []int{0, 1} {
		t.Run(fmt.Sprint(moved), func(t *testing.T) {
			inBackend(t, "", func(b *backend) {
				b.password = func(int, string) string { return "" }
				b.run(1, 30*time.Second)
				b.service.UpdateLoan(b.service.Snapshot().Loans[0].ID, func(l *lendingtest.Loan) {
					l.IsEnabled, l.Withdrawals = false, make([]lendingtest.Withdrawal, moved)
				})
				lost := fake.Must(b.entries.Load(b.Context(), ":"+id+"/withdraw"))
				fake.Must(b.entries.Replace(b.Context(), []store.Entry{{Key: lost.Key, Revision: lost.Revision}}))
				log := b.start(b.Context(), nil).log
				require.NoError(b, log.Restored(b.Context(), idempotency.Restoration{By: "kim", Copy: time.Now()}))
				require.NoError(b, log.Resume(b.Context()))
				says := func(mutation string, verdict idempotency.Verdict) {
					key := id + "/" + mutation
					sends := fake.Must(log.Lookup(b.Context(), key)).Sends
					require.NoError(b, log.Resolve(b.Context(), key, idempotency.Resolution{
						By: "kim", Why: "looked it up", Verdict: verdict, Sends: sends,
					}))
				}
				b.run(2, 30*time.Minute)
				says("withdraw", idempotency.NotHappened())
				b.run(2, 30*time.Minute)
				if moved > 0 {
					why := fake.Must(log.Lookup(b.Context(), id+"/confirm")).Why
					assert.Equal(b, 1, strings.Count(why, "restored from a copy"), why)
					says("confirm", idempotency.Happened(nil))
					b.run(2, 30*time.Minute)
				}
				assert.Equal(b, []order.State{order.Over, order.Done}[moved], b.table.Get(id).State, b.table.Get(id))
				assert.Zero(b, b.service.Executed(onboarding.Confirm))
			})
		})
	}
}
