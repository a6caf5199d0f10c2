package probe

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/examples/order"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/onboarding"
	"github.com/lendingapi/lending-go/lendingtest"
	"github.com/lendingapi/lending-go/orders"
)

// TestWholeOrderEndsWithTheAdvice carries out the order of examples/order at each planted service, and at
// lendingtest with its service.json. Responses are lost, and mutations run late. With the settings that the
// probe names nobody has to decide, and nothing happens twice.
func TestWholeOrderEndsWithTheAdvice(t *testing.T) {
	t.Parallel()
	for name, plant := range plants {
		for _, taught := range []bool{false, true} {
			t.Run(name+either(taught, " taught", ""), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v, _ := plant(t)
					advice := learned(t, name)
					if taught {
						v = teach(t, advice)
					}
					carryOut(t, v, advice)
				})
			})
		}
	}
}

// teach returns lendingtest with the knowledge about a service.
func teach(t *testing.T, known *Service) *variant {
	t.Helper()
	text, err := json.Marshal(known)
	require.NoError(t, err)
	taught := newVariant(t, lendingtest.WithService(text), lendingtest.OnlySeen())
	if known.Facts["protocol"] == "HTTP/1.1" {
		taught.closing(t)
	}
	return taught
}

func carryOut(t *testing.T, v *variant, advice *Service) {
	t.Helper()
	lost := []string{onboarding.CreateApplication, onboarding.Process, onboarding.Sign, onboarding.Confirm}
	if advice.Facts["e-mail identifies"] == "the id of the creation" { // else a check of the partner's own
		lost = append(lost, onboarding.CreateCustomer)
	}
	for i, route := range lost {
		late := time.Duration(i%2) * 8 * time.Second
		v.Fail(route, lendingtest.Fault{ResetAfter: true, Late: late})
	}
	keys, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{
		MaxLateness: advice.maxLateness(), SafeToRepeat: order.SafeToRepeat,
	})
	require.NoError(t, err)
	options := []lending.Option{
		lending.WithCredentials(fake.Credentials(v.Service)), lending.WithIdempotency(keys), lending.WithHTTPClient(v.client),
	}
	if reads := advice.Facts[missingAndUnknown]; reads != "told apart" {
		for read := range strings.SplitSeq(reads, ", ") {
			options = append(options, lending.WithMissing(read, http.StatusNotFound))
		}
	}
	client, err := lending.New("http://127.0.0.1", options...)
	require.NoError(t, err)
	defer client.Close()
	all, _ := order.Orders(1)
	table, persons := order.NewTable(all...), 0
	ask := func(_ context.Context, _ order.Order, loan lending.LoanID, _ int) (lending.Secret, error) {
		return lending.NewSecret(v.OTP(loan.String())), nil
	}
	partner := &order.Partner{Client: client, Log: keys, Ask: ask}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
	defer stop()
	worker, err := partner.Worker(table, &orders.Options{Report: func(r orders.Result) {
		if r.Next.Person {
			persons++
		}
		if table.Get(r.Order).State != order.Open {
			stop()
		}
	}})
	require.NoError(t, err)
	_ = worker.Run(ctx)
	assert.Equal(t, order.Done, table.Get(all[0].ID).State, table.Get(all[0].ID).Reason)
	assert.Zero(t, persons)
	for _, route := range append(lost, onboarding.CreateCustomer, onboarding.Applicant) {
		assert.Equal(t, 1, v.Executed(route), route)
	}
}
