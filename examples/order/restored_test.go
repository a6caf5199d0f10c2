package order_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/internal/test/bubble"
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
