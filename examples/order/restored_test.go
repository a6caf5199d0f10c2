package order_test

import (
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
				require.NoError(t, log.Restored(b.Context(), idempotency.Restoration{By: "kim", Copy: time.Now()}))
				require.NoError(t, log.Resume(b.Context()))
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
// that is disabled since. A person says that the withdrawal has not begun, and then decides about the confirmation,
// which is not sent before. A refusal for now, of an enabled loan, needs no second person. Without a lock, a
// withdrawal of the other replica can have a read decide before a person.
func TestRefusedWithdrawalOfALostConfirmation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		says     idempotency.Verdict // about the confirmation
		isLifted bool                // the refusal, before the person decides
		confirms int
		want     order.State
	}{
		{"it happened", idempotency.Happened(nil), false, 0, order.Done},
		{"it did not happen", idempotency.NotHappened(), false, 0, order.Over},
		{"it did not happen, and the loan is enabled again", idempotency.NotHappened(), true, 1, order.Done},
		{"too many requests", idempotency.Verdict{}, false, 1, order.Done},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBackend(t, "", func(b *backend) {
				b.lock = memoryLock()
				b.password = func(int, string) string { return "" }
				b.run(1, 30*time.Second)
				setEnabled := func(is bool) {
					b.service.UpdateLoan(b.service.Snapshot().Loans[0].ID, func(l *lendingtest.Loan) { l.IsEnabled = is })
				}
				setEnabled(false)
				lost := fake.Must(b.entries.Load(b.Context(), ":"+id+"/withdraw"))
				fake.Must(b.entries.Replace(b.Context(), []store.Entry{{Key: lost.Key, Revision: lost.Revision}}))
				log := b.start(b.Context(), nil).log
				require.NoError(b, log.Restored(b.Context(), idempotency.Restoration{By: "kim", Copy: time.Now()}))
				require.NoError(b, log.Resume(b.Context()))
				says := func(mutation string, verdict idempotency.Verdict) {
					key := fake.Must(log.Lookup(b.Context(), id+"/"+mutation))
					assert.LessOrEqual(b, strings.Count(key.Why, "restored from a copy"), 1, key.Why)
					require.NoError(b, log.Resolve(b.Context(), key.Key, idempotency.Resolution{
						By: "kim", Why: "looked it up", Verdict: verdict, Sends: key.Sends,
					}))
				}
				b.run(2, 30*time.Minute)
				says("withdraw", idempotency.NotHappened())
				if test.confirms > 0 {
					b.password = func(_ int, loan string) string { return b.service.OTP(loan) }
				}
				isRefusedForNow := test.confirms > 0 && !test.isLifted
				if isRefusedForNow {
					setEnabled(true)
					b.service.Fail(onboarding.Withdraw, lendingtest.Fault{Status: http.StatusTooManyRequests})
				}
				withdrawals := b.service.Arrived(onboarding.Withdraw)
				b.run(2, 30*time.Minute)
				if !isRefusedForNow {
					assert.Equal(b, withdrawals+1, b.service.Arrived(onboarding.Withdraw), "once until the person decides")
					setEnabled(test.isLifted)
					b.run(2, 10*time.Minute)
					says("confirm", test.says)
					b.run(2, 30*time.Minute)
				}
				assert.Equal(b, test.want, b.table.Get(id).State, b.table.Get(id))
				assert.Equal(b, test.confirms, b.service.Arrived(onboarding.Confirm))
			})
		})
	}
}
