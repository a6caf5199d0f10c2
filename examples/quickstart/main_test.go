package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lendingapi/lending-go"
	"github.com/lendingapi/lending-go/idempotency"
	"github.com/lendingapi/lending-go/idempotency/store"
	"github.com/lendingapi/lending-go/internal/test/fake"
	"github.com/lendingapi/lending-go/internal/test/golden"
	"github.com/lendingapi/lending-go/lendingtest"
)

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	golden.Check(t, "testdata/output.golden", out.String())
}

// The journey passes at services with other names, delays and statuses: those of the planted services in package
// probe, with the MaxLateness that the probe advises for each.
func TestJourneyAtServicesThatDiffer(t *testing.T) {
	for name, lateness := range map[string]time.Duration{"first": 20 * time.Second, "second": 100 * time.Second} {
		t.Run(name, func(t *testing.T) {
			learnt, err := os.ReadFile("../../probe/testdata/" + name + ".json")
			require.NoError(t, err)
			fake.InBubble(t, func(t *testing.T, service *lendingtest.Service) {
				keys, err := idempotency.NewLog(store.NewMemory(), &idempotency.Options{MaxLateness: lateness})
				require.NoError(t, err)
				service.Fail(createApplication, lendingtest.Fault{ResetAfter: true})
				j := &journey{
					out: io.Discard, client: fake.SignIn(t, service, nil, lending.WithIdempotency(keys)), email: "ada@example.com",
					asked: time.Now(), otp: func(loan lending.LoanID) string { return service.OTP(loan.String()) },
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				for _, part := range []func(context.Context) error{j.apply, j.approve, j.withdraw} {
					require.NoError(t, j.retrying(ctx, part))
				}
				for _, route := range []string{createApplication, "POST /api/Loan/confirm-withdrawal-invoice/{loanId}"} {
					assert.Equal(t, 1, service.Executed(route))
				}
			}, lendingtest.WithService(learnt))
		})
	}
}
